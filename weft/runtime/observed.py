"""Programs that show how their values are divided: ``inspect_array_sharding`` and callbacks that
are partitioned are told, before a program runs, what is known of the values that they look at.
"""

from __future__ import annotations

from typing import Any

from weft.base.lazy import Late
from weft.core.caches import per_program
from weft.core.jaxpr import ClosedJaxpr, JaxprEqn
from weft.core.sharding import NamedSharding

# needed where a program looks at how its values are divided
propagate = Late("weft.division.propagate")
specs = Late("weft.division.specs")


@per_program
def looks(closed: ClosedJaxpr) -> bool:
    """Whether something in a program, or in what it calls, looks at how values are divided."""
    return bool(closed.effects) and any(map(_looks, propagate.inline(closed).eqns))


def _looks(eqn: JaxprEqn) -> bool:
    return eqn.primitive.observes or bool(eqn.params.get("partitioned"))


def observed(closed: ClosedJaxpr, mesh: Any, args: Any) -> ClosedJaxpr:
    """The program on arguments over a mesh, in which those that look are told what they see."""
    return _told(closed, mesh, tuple(specs.specs_of(args, closed.in_avals, mesh)))


@per_program
def _told(closed: ClosedJaxpr, mesh: Any, given: tuple[Any, ...]) -> ClosedJaxpr:
    flat = propagate.inline(closed)
    flow = propagate.propagate(flat, list(given), mesh)

    def told(eqn: JaxprEqn) -> JaxprEqn:
        if not _looks(eqn):
            return eqn
        seen = tuple([NamedSharding(mesh, specs.as_spec(flow.read(x))) for x in eqn.invars])
        return eqn.replace(params={**eqn.params, "seen": seen})

    return flat.replace(jaxpr=flat.jaxpr.replace(eqns=[told(eqn) for eqn in flat.eqns]))
