"""Programs without what types say of mesh axes, for those who compile and run them."""

from __future__ import annotations

from typing import Any

from weft.core.avals import without_axes
from weft.core.caches import per_program
from weft.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, Literal, Var, with_programs


@per_program
def plain(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with types that say nothing of mesh axes, as most have."""
    return closed.map_jaxpr(_plain)


def _plain(jaxpr: Jaxpr) -> Jaxpr:
    names: dict[Any, Any] = {}

    def var(v: Any) -> Any:
        if type(v) is Literal:
            return Literal(v.val, without_axes(v.aval))
        if type(v) is DropVar:
            return DropVar(without_axes(v.aval))
        if v not in names:
            names[v] = Var(without_axes(v.aval))
        return names[v]

    eqns = [
        eqn.replace(
            invars=[var(x) for x in eqn.invars],
            outvars=[var(x) for x in eqn.outvars],
            params=_plain_params(eqn),
        )
        for eqn in jaxpr.eqns
    ]
    return jaxpr.replace(
        constvars=[var(v) for v in jaxpr.constvars],
        invars=[var(v) for v in jaxpr.invars],
        outvars=[var(v) for v in jaxpr.outvars],
        eqns=eqns,
    )


def _plain_params(eqn: Any) -> dict[str, Any]:
    found = with_programs(eqn.params, plain)
    if eqn.primitive.shardings is None:
        for key in ("out_sharding", "sharding"):
            if found.get(key) is not None:
                found[key] = None
    return found
