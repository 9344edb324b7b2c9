"""How the results of a program are divided over a mesh, from how its arguments are.

Host devices share memory, so nothing is moved by this; what a program for devices apart would move
is found by ``division.programs.partition``, from the same specs.
"""

from __future__ import annotations

from typing import Any

from weft.core.caches import per_program
from weft.core.jaxpr import ClosedJaxpr, Literal
from weft.core.sharding import NamedSharding, PartitionSpec, axes_of
from weft.division import propagate
from weft.division.factors import Spec
from weft.division.specs import as_spec, same_mesh, spec_of, specs_of
from weft.runtime.places import Placement, placement


def results(program: ClosedJaxpr, where: Placement, args: Any) -> tuple[Placement, ...]:
    """The placements of the results of a program."""
    mesh = where.sharding.mesh
    given = tuple(specs_of(args, program.in_avals, mesh))
    found = divided(program, given, mesh, where.sharding.memory_kind)
    return found if mesh.explicit_axes else _as_arguments(found, program.out_avals, args)


def _as_arguments(found: Any, avals: Any, args: Any) -> tuple[Placement, ...]:
    """Placements of results, of which those that are divided as an argument have its own spec."""
    shardings = [(x.sharding, len(x.shape)) for x in args if hasattr(x, "sharding")]
    written = {
        (as_spec(spec_of(s, s.mesh, ndim)), ndim): s.spec
        for s, ndim in reversed(shardings)
        if isinstance(s, NamedSharding) and not s.is_fully_replicated
    }
    if all(spec == key[0] for key, spec in written.items()):
        return found  # written as results are
    made = []
    for where, aval in zip(found, avals, strict=True):
        spec = written.get((where.sharding.spec, len(getattr(aval, "shape", ()))))
        made.append(where if spec is None else placement(where.sharding.with_spec(spec), True))
    return tuple(made)


@per_program
def divided(
    program: ClosedJaxpr, given: tuple[Spec, ...], mesh: Any, kind: str | None
) -> tuple[Placement, ...]:
    """The placements of the results, from how the arguments are divided: found once for each way,
    as native code does not answer calls with every kind of argument."""
    avals, auto = program.out_avals, set(mesh.auto_axes)
    if auto or not mesh.explicit_axes:
        found = propagate.results(program, list(given), mesh)
    else:
        found = [((),) * len(getattr(a, "shape", ())) for a in avals]
    if mesh.explicit_axes:
        specs = [_with_type(s, a, auto) for s, a in zip(found, avals, strict=True)]
    else:
        specs = [as_spec(s) for s in found]
    written = kept(program, mesh)
    shardings = [
        NamedSharding(mesh, written.get(i, s), memory_kind=kind) for i, s in enumerate(specs)
    ]
    return tuple(placement(s, True) for s in shardings)


def kept(program: ClosedJaxpr, mesh: Any) -> dict[int, PartitionSpec]:
    """The specs of results whose shardings the user gave, which are kept as they were written."""
    if not any(eqn.primitive.constrains for eqn in program.eqns[-len(program.out_avals) :]):
        return {}
    wanted = {
        eqn.outvars[0]: eqn.primitive.shardings(eqn.params)[0]
        for eqn in program.eqns
        if eqn.primitive.constrains
    }
    found = {}
    for i, v in enumerate(program.jaxpr.outvars):
        sharding: Any = None if isinstance(v, Literal) else wanted.get(v)
        if getattr(sharding, "as_given", False) and same_mesh(sharding.mesh, mesh):
            found[i] = sharding.spec
    return found


def _with_type(spec: Spec, aval: Any, auto: set[Any]) -> PartitionSpec:
    """A spec that has explicit axes as the type says, with an entry for each dimension, and others
    as they were found."""
    divided = getattr(aval, "divided", None)
    said = ((),) * len(spec) if divided is None else [axes_of(part) for part in divided.spec]
    parts = [(*a, *[n for n in b if n in auto]) for a, b in zip(said, spec, strict=True)]
    return PartitionSpec(*parts, **({} if divided is None else divided.spec.marks()))
