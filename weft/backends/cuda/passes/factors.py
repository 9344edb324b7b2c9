"""Numbers that operands of products are multiplied by, as factors of the products.

A library multiplies by a number as it writes a product, so ``(2 * a) @ b`` needs no kernel that
writes ``2 * a``. Only where an operand would be written for that alone: what is computed before
takes the number along.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.compiler.passes.contract import uses_of
from weft.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var
from weft.core.registry import lookup

F32 = np.dtype(np.float32)


def factors(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with products of float32 multiplied by numbers instead of their operands."""
    jaxpr = closed.jaxpr
    if not any(eqn.primitive.contracts for eqn in jaxpr.eqns):
        return closed
    uses = uses_of(jaxpr)
    made: dict[Any, JaxprEqn] = {}
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        eqns += _moved(eqn, made, uses) if eqn.primitive.contracts else [eqn]
        made.update((v, eqn) for v in eqn.outvars)
    if len(eqns) == len(jaxpr.eqns):
        return closed
    return ClosedJaxpr(jaxpr.replace(eqns=eqns), closed.consts)


def _moved(eqn: JaxprEqn, made: dict[Any, JaxprEqn], uses: Any) -> list[JaxprEqn]:
    """A product, and what it is multiplied by."""
    (out,) = eqn.outvars
    invars, numbers = [], []
    for x in eqn.invars:
        found = _scaled(x, made, uses)
        if found is not None and prod(out.aval.shape) <= 2 * prod(x.aval.shape):
            number, x = found
            numbers.append(number)
        invars.append(x)
    if not numbers or any(v.aval.dtype != F32 for v in (out, *invars)):
        return [eqn]
    products = [Var(out.aval) for _ in numbers]
    eqns = [eqn.replace(invars=invars, outvars=products[:1])]
    for number, x, y in zip(numbers, products, [*products[1:], out], strict=True):
        eqns.append(JaxprEqn([x, number], [y], lookup("mul"), {}, source_info=eqn.source_info))
    return eqns


def _scaled(x: Any, made: dict[Any, JaxprEqn], uses: Any) -> tuple[Literal, Any] | None:
    """The number that a value is multiplied by for one product alone, and what is multiplied, if
    that is in memory."""
    eqn = None if type(x) is Literal else made.get(x)
    if eqn is None or eqn.primitive.name != "mul" or uses[x] > 1:
        return None
    for number, y in (eqn.invars, eqn.invars[::-1]):
        if type(number) is Literal and type(y) is not Literal and not number.aval.shape:
            source = made.get(y)
            if source is None or source.primitive.contracts:
                return number, y
    return None
