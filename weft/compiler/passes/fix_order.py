"""Sums and products in an order that no machine, no vector and no batch can change: for the knob
``reproducible``, and for loops whose elements run one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.compiler.expand import decomposition, substituted
from weft.compiler.lower import find, fits
from weft.compiler.passes.inline import inline
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn

# Products of few numbers, as sums in a given order.
SMALL_DOT = "fixed_order.small_dot"


def fix_order(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with operations that a machine may order replaced by those that have an order."""
    jaxpr = _fixed(closed.jaxpr)
    return closed if jaxpr is closed.jaxpr else ClosedJaxpr(jaxpr, closed.consts)


def _fixed(jaxpr: Jaxpr) -> Jaxpr:
    def inner(eqn: JaxprEqn) -> Jaxpr | None:
        name = eqn.primitive.fixed_order
        if not name or not any(_is_rounded(v.aval) for v in eqn.outvars):
            return None
        if eqn.primitive.contracts and eqn.outvars[0].aval.dtype.kind != "c":
            return None  # the backend's own, a chain along the depth
        return _fixed(decomposition(eqn, find(name)))

    return substituted(jaxpr, inner)


def in_any_batch(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A small program over one element that gives the same bits over each element of a batch, but
    for products that are too large to be written as sums."""
    closed = inline(closed)

    def inner(eqn: JaxprEqn) -> Jaxpr | None:
        primitive, avals = eqn.primitive, [x.aval for x in eqn.invars]
        if primitive.nodes or not any(_is_rounded(v.aval) for v in eqn.outvars):
            return None
        if primitive.contracts and eqn.outvars[0].aval.dtype.kind != "c":
            if not fits(SMALL_DOT, avals, eqn.params):
                return None
            return decomposition(eqn, find(SMALL_DOT))
        name = primitive.fixed_order
        return None if not name else _fixed(decomposition(eqn, find(name)))

    jaxpr = substituted(closed.jaxpr, inner)
    if any(eqn.primitive.nodes for eqn in jaxpr.eqns):
        jaxpr = jaxpr.replace(eqns=[_with_programs(eqn, in_any_batch) for eqn in jaxpr.eqns])
    return closed if jaxpr is closed.jaxpr else ClosedJaxpr(jaxpr, closed.consts)


def _with_programs(eqn: JaxprEqn, change: Callable[[ClosedJaxpr], ClosedJaxpr]) -> JaxprEqn:
    """A loop or a choice with its programs changed."""
    if not eqn.primitive.nodes:
        return eqn

    def changed(value: Any) -> Any:
        if type(value) is tuple and value and all(type(x) is ClosedJaxpr for x in value):
            return tuple([change(x) for x in value])
        return change(value) if type(value) is ClosedJaxpr else value

    return eqn.replace(params={name: changed(value) for name, value in eqn.params.items()})


def _is_rounded(aval: Any) -> bool:
    return getattr(getattr(aval, "dtype", None), "kind", "") not in "biu"
