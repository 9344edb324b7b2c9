"""Filled arrays of their own for operations that write into their operand.

Sums by segments begin with zeros. Where two of them share the zeros, each would write into a copy;
zeros of its own cost half of that.
"""

from __future__ import annotations

from typing import Any

from weft.compiler.passes.contract import uses_of
from weft.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var


def fresh(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with numbers spread anew for each scatter but the last one that reads them."""
    jaxpr = closed.jaxpr
    if sum(eqn.primitive.in_place for eqn in jaxpr.eqns) < 2:
        return closed
    uses = uses_of(jaxpr)
    filled: dict[Any, JaxprEqn] = {}
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.repeats and type(eqn.invars[0]) is Literal:
            filled[eqn.outvars[0]] = eqn
        x: Any = eqn.invars[0] if eqn.primitive.in_place else None
        if x in filled and uses[x] > 1:
            uses[x] -= 1
            own = Var(x.aval)
            eqns.append(filled[x].replace(outvars=[own]))
            eqn = eqn.replace(invars=[own, *eqn.invars[1:]])
        eqns.append(eqn)
    if len(eqns) == len(jaxpr.eqns):
        return closed
    return ClosedJaxpr(jaxpr.replace(eqns=eqns), closed.consts)
