"""Dead code: equations whose results nothing needs are left out."""

from __future__ import annotations

from weft.core.jaxpr import ClosedJaxpr, Literal


def prune(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with only the equations that its results or effects need."""
    jaxpr = closed.jaxpr
    needed = {x for x in jaxpr.outvars if type(x) is not Literal}
    kept = []
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects or not needed.isdisjoint(eqn.outvars):
            needed.update(x for x in eqn.invars if type(x) is not Literal)
            kept.append(eqn)
    if len(kept) == len(jaxpr.eqns):
        return closed
    return ClosedJaxpr(jaxpr.replace(eqns=kept[::-1]), closed.consts)
