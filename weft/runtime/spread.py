"""How the results of a program are divided over a mesh, from how its arguments are.

One walk over the equations: each primitive's ``shard`` rule says how its results are divided; what
has no rule is whole on every device. Host devices share memory, so nothing is moved by this.
"""

from __future__ import annotations

from typing import Any

from weft.core.jaxpr import ClosedJaxpr, Literal
from weft.core.sharding import NamedSharding, PartitionSpec, axes_of
from weft.runtime.places import Placement, placement

Spec = tuple[tuple[Any, ...], ...]


def spec_of(sharding: Any, mesh: Any, ndim: int) -> Spec:
    """The mesh axes of each dimension; none where an array is whole, or on another mesh."""
    if not isinstance(sharding, NamedSharding) or sharding.mesh != mesh:
        return ((),) * ndim
    parts = [axes_of(part) for part in sharding.spec[:ndim]]
    return (*parts, *((),) * (ndim - len(parts)))


def results(program: ClosedJaxpr, where: Placement, args: Any) -> tuple[Placement, ...]:
    """The placements of the results of a program."""
    mesh = where.sharding.mesh
    avals = program.in_avals
    given = [
        spec_of(getattr(x, "sharding", None), mesh, len(a.shape))
        for x, a in zip([*[None] * (len(avals) - len(args)), *args], avals, strict=True)
    ]
    found = flow(program, given, mesh)
    return tuple(placement(NamedSharding(mesh, as_spec(s)), True) for s in found)


def as_spec(spec: Spec) -> PartitionSpec:
    """A spec as users write it."""
    parts = list(spec)
    while parts and not parts[-1]:
        parts.pop()
    return PartitionSpec(*parts)


def flow(closed: ClosedJaxpr, given: list[Spec], mesh: Any) -> list[Spec]:
    """How the results of a program are divided."""
    env: dict[Any, Spec] = dict(zip(closed.jaxpr.invars, given, strict=True))

    def read(x: Any) -> Spec:
        found = None if type(x) is Literal else env.get(x)
        return ((),) * len(getattr(x.aval, "shape", ())) if found is None else found

    for eqn in closed.eqns:
        specs = [read(x) for x in eqn.invars]
        outs = _through(eqn, specs, mesh)
        if outs is not None:
            env.update(zip(eqn.outvars, outs, strict=True))
    return [_fitting(read(x), x.aval, mesh) for x in closed.jaxpr.outvars]


def _through(eqn: Any, specs: list[Spec], mesh: Any) -> Any:
    primitive, outs = eqn.primitive, [v.aval for v in eqn.outvars]
    if not all(hasattr(a, "shape") for a in outs):
        return None
    if primitive.shardings is not None:
        said = primitive.shardings(eqn.params)
        return [
            spec_of(s, mesh, len(a.shape)) if s is not None else spec
            for s, a, spec in zip(said, outs, (*specs, *[()] * len(said)), strict=False)
        ]
    callee = primitive.callee(eqn.params)
    if callee is not None:
        return flow(callee, specs, mesh)
    if not any(any(spec) for spec in specs):
        return None
    return primitive.shard(specs, [x.aval for x in eqn.invars], outs, eqn.params)


def _fitting(spec: Spec, aval: Any, mesh: Any) -> Spec:
    """A spec without the axes that do not divide their dimensions."""
    shape, found = aval.shape, []
    for n, axes in zip(shape, spec, strict=True):
        parts = 1
        for axis in axes:
            parts *= mesh.shape[axis]
        found.append(axes if n % parts == 0 else ())
    return tuple(found)
