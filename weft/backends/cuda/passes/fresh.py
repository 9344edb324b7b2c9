"""Separate zeros for scatters that would share them.

A sum by segments writes into an array of zeros. If two sums share that array, each has to copy it
first. Filling a second array costs half as much.
"""

from __future__ import annotations

from typing import Any

from weft.compiler.passes.contract import uses_of
from weft.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var


def fresh(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program in which each scatter has a filled array that nothing else reads."""
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
