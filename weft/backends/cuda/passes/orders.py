"""Operands that a library cannot read where they are, brought into another order by equations.

A transposition fuses with what computes the operand, and is made once for all products that read
it: a product and its gradients read the same copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

from weft.backends.cuda.routines.products import analyse, known, layout_of
from weft.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var
from weft.core.registry import lookup
from weft.kernel.program import Type

Order = tuple[int, ...]


def orders(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with such operands transposed."""
    jaxpr = closed.jaxpr
    made: dict[Any, Any] = {}  # transposed arrays by what they are of and their order
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        eqns += _ordered(eqn, made) if eqn.primitive.contracts else [eqn]
    if len(eqns) == len(jaxpr.eqns) and not made:
        return closed
    return ClosedJaxpr(jaxpr.replace(eqns=eqns), closed.consts)


def _ordered(eqn: JaxprEqn, made: dict[Any, Any]) -> list[JaxprEqn]:
    """A product, and before it what transposes its operands."""
    found = copied(eqn)
    if found is None:
        return [eqn]
    contracting, batch = eqn.params["dimension_numbers"]
    sides = list(zip(found, contracting, batch, strict=True))
    natural = [order and _natural(order, tuple(depth), len(outer)) for order, depth, outer in sides]
    turned = _turned(eqn, natural)
    if copied(turned) is not None:
        natural, turned = list(found), _turned(eqn, found)
    invars, before = list[Any](), list[JaxprEqn]()
    for x, new, order in zip(eqn.invars, turned.invars, natural, strict=True):
        v: Any = new
        if order is not None:
            known = made.get((x, order))
            if known is None:
                known = made[x, order] = v
                before.append(
                    JaxprEqn(
                        [x],
                        [v],
                        lookup("transpose"),
                        {"permutation": order},
                        source_info=eqn.source_info,
                    )
                )
            v = known
        invars.append(v)
    return [*before, turned.replace(invars=invars)]


def _turned(eqn: JaxprEqn, by: Sequence[Order | None]) -> JaxprEqn:
    """A product of new variables for operands with axes in other orders."""
    contracting, batch = eqn.params["dimension_numbers"]
    invars, depths, outers = [], [], []
    for x, order, depth, outer in zip(eqn.invars, by, contracting, batch, strict=True):
        if order is not None:
            x = Var(x.aval.update(shape=tuple(x.aval.shape[i] for i in order)))
            depth, outer = (tuple(order.index(i) for i in axes) for axes in (depth, outer))
        invars.append(x)
        depths.append(tuple(depth))
        outers.append(tuple(outer))
    numbers = (tuple(depths), tuple(outers))
    return eqn.replace(invars=invars, params={**eqn.params, "dimension_numbers": numbers})


def copied(eqn: JaxprEqn) -> tuple[Order | None, Order | None] | None:
    """The orders that operands of a product have to be copied to, as few bytes as can be; None if
    the library reads both where they are."""
    if any(type(x) is Literal for x in eqn.invars):
        return None
    lhs, rhs, out = (Type(x.aval.shape, x.aval.dtype) for x in (*eqn.invars, *eqn.outvars))
    if not known(lhs, rhs, out) or not all(prod(t.shape) for t in (lhs, rhs, out)):
        return None
    numbers = eqn.params["dimension_numbers"]
    _, left, right = analyse(lhs, rhs, numbers)
    if left is None and right is None:
        return None
    choices = [(None, None), (left, None), (None, right), (left, right)]
    size = lambda t, order: 0 if order is None else prod(t.shape) * t.dtype.itemsize
    for choice in sorted(
        dict.fromkeys(choices), key=lambda pair: size(lhs, pair[0]) + size(rhs, pair[1])
    ):
        layout = layout_of((lhs, rhs), numbers, choice)
        if layout is not None and layout.is_aligned(lhs.dtype.itemsize):
            return None if choice == (None, None) else choice
    return left, right


def _natural(order: Order, depth: Order, outer: int) -> Order:
    """The order whose axes behind the batch are as they are in memory, if they are then those of
    depth beside free ones: products that sum over other axes read it too."""
    rest = sorted(order[outer:])
    sides = [i in depth for i in rest]
    once = sum(a != b for a, b in pairwise(sides)) <= 1
    return (*order[:outer], *rest) if once else order
