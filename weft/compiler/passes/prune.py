"""Dead code: equations, and work for single results of equations, that nothing needs left out."""

from __future__ import annotations

from operator import is_
from typing import Any

from weft.core.jaxpr import ClosedJaxpr, Literal


def prune(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with only the equations that its results or effects need."""
    jaxpr = closed.jaxpr
    needed = {x for x in jaxpr.outvars if type(x) is not Literal}
    kept = []
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects or not needed.isdisjoint(eqn.outvars):
            if len(eqn.outvars) > 1:
                eqn = _lean(eqn, [v in needed for v in eqn.outvars])
            needed.update(x for x in eqn.invars if type(x) is not Literal)
            kept.append(eqn)
    if len(kept) == len(jaxpr.eqns) and all(map(is_, kept, reversed(jaxpr.eqns))):
        return closed
    return ClosedJaxpr(jaxpr.replace(eqns=kept[::-1]), closed.consts)


def _lean(eqn: Any, used: list[bool]) -> Any:
    params = eqn.params if all(used) else eqn.primitive.lean(eqn.params, used)
    return eqn if params is eqn.params else eqn.replace(params=params)
