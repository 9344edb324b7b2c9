"""Types that carry shardings: how the results of an operation are divided over explicit mesh axes.

The type of an array says how it is divided over the explicit axes of its mesh. While a program is
staged, each primitive's ``explicit`` rule makes the types of its results of those of its operands,
and refuses what is not clear. A spec here has the mesh axes of each dimension, as a tuple.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from weft.base import knobs
from weft.core import sharding as meshes
from weft.core.avals import ShapedArray, without_axes
from weft.core.caches import per_program
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, jaxprs_in_params
from weft.core.registry import lookup
from weft.core.sharding import (
    NO_AXES,
    NamedSharding,
    PartitionSpec,
    ShardingTypeError,
    axes_of,
    explicit_part,
)
from weft.core.trace import loosely as loosely
from weft.core.trace import state, typeof
from weft.division import marks
from weft.division.factors import Spec, fitting

# Primitives whose results have the types that the programs inside of them say.
_CALLS = frozenset(
    "jit scan while cond remat2 remat_opt custom_jvp_call custom_vjp_call custom_lin"
    " custom_vmap_call linear_call composite custom_linear_solve shard_map".split()
)
# Primitives that say themselves what the types of their results are.
_SAID = frozenset("reshard sum_to_parts parts_to_sum shared_to_parts parts_to_shared".split())


def current_mesh() -> Any:
    """The mesh that is set, without devices; one without axes if there is none."""
    current = knobs.thread.mesh
    return NO_AXES if current is None else current[1]


def in_mesh() -> bool:
    """Whether a mesh with explicit axes is set: then what a type does not say to be divided is
    whole, and not merely unknown."""
    return bool(current_mesh().explicit_axes)


def spec_of(aval: Any) -> Spec:
    """The explicit axes of each dimension of a type."""
    ndim = len(getattr(aval, "shape", ()))
    divided = getattr(aval, "divided", None)
    if divided is None:
        return ((),) * ndim
    return tuple([axes_of(part) for part in divided.spec])


def with_spec(aval: Any, spec: Spec, mesh: Any) -> Any:
    """A type that is divided as a spec says."""
    if type(aval) is not ShapedArray:
        return aval
    if not any(spec):
        return aval if aval.divided is None else aval.update(sharding=None)
    return aval.update(sharding=NamedSharding(mesh, PartitionSpec(*spec)))


def mesh_of(avals: Any, name: str) -> Any:
    """The mesh of types that carry shardings; None if none does, ValueError if they differ."""
    found = None
    for a in avals:
        divided = getattr(a, "divided", None)
        if divided is None:
            continue
        if found is not None and found != divided.mesh and not state.loosely:
            raise ValueError(
                f"{name} got arrays that are sharded over different meshes: {found} and"
                f" {divided.mesh}; move one of them first with weft.reshard"
            )
        found = divided.mesh
    current = current_mesh()
    if found is not None and not current.empty and not state.loosely:
        if _axes(found) != _axes(current):
            raise ValueError(
                f"{name} got an array that is sharded over {found}, and the mesh that is set is"
                f" {current}; set the array's own mesh with weft.set_mesh, or move the array"
            )
    return found


def _axes(mesh: Any) -> Any:
    return mesh.axis_sizes, mesh.axis_names


def results(primitive: Any, avals: Any, params: dict[str, Any], result: Any) -> Any:
    """The types of an equation's results, with the shardings that they carry."""
    if primitive.name in _CALLS or primitive.name in _SAID or primitive.takes_refs:
        return result
    said = params.get("out_sharding", params.get("sharding"))
    said = said if isinstance(said, NamedSharding) and primitive.name not in _CONSTRAINTS else None
    mesh = mesh_of(avals, primitive.name)
    several = primitive.multiple_results
    outs = list(result) if several else [result]
    if not outs or primitive.makes_ref:
        return result
    if primitive.name in _CALLBACKS:
        return [without_axes(a) for a in outs]
    if said is not None:
        outs = [_as_said(primitive, a, said) for a in outs]
    else:
        found: Sequence[Spec] | None = None
        if mesh is None and primitive.name == "device_put":
            mesh = next((s.mesh for s in primitive.shardings(params) if s is not None), None)
            mesh = None if mesh is None else mesh.abstract_mesh
        if mesh is not None:
            found = _divided(primitive, avals, outs, params, mesh)
        if found is None:
            found = [((),) * len(getattr(a, "shape", ())) for a in outs]
        outs = [with_spec(a, s, mesh) for a, s in zip(outs, found, strict=True)]
    if (said is not None and any(said.spec.marks().values())) or marks.marked(avals) or state.sums:
        axes = marks.of_results(primitive, avals, params, said, mesh)
        mesh = mesh if said is None else said.mesh.abstract_mesh
        outs = [_with_marks(a, *axes, mesh) for a in outs]
    return outs if several else outs[0]


def _with_marks(aval: Any, unreduced: Any, reduced: Any, mesh: Any) -> Any:
    """A type that is unreduced and reduced over axes, and divided as it was."""
    if type(aval) is not ShapedArray or mesh is None:
        return aval
    parts = spec_of(aval)
    if not any(parts) and not unreduced and not reduced:
        return aval.update(sharding=None)
    used = {axis for axes in parts for axis in axes}  # only a step of a rule has both
    spec = PartitionSpec(*parts, unreduced=unreduced - used, reduced=reduced - used)
    return aval.update(sharding=NamedSharding(mesh, spec))


# Python computes these on whole arrays.
_CALLBACKS = frozenset(["pure_callback", "io_callback"])
# Operations whose shardings are not of their results' types.
_CONSTRAINTS = frozenset(["sharding_constraint", "device_put"])


def _as_said(primitive: Any, aval: Any, sharding: NamedSharding) -> Any:
    check_fits(primitive.name, aval, sharding)
    return aval.update(sharding=explicit_part(sharding, len(aval.shape)))


def check_fits(name: str, aval: Any, sharding: NamedSharding) -> None:
    """Raise ValueError unless an array of a type can be divided as a sharding says."""
    try:
        sharding.shard_shape(aval.shape)
    except ValueError as error:
        raise ValueError(f"{name} cannot divide its result {aval.str_short()}: {error}") from None


def _divided(
    primitive: Any, avals: Any, outs: Any, params: dict[str, Any], mesh: Any
) -> Sequence[Spec] | None:
    specs = [spec_of(a) for a in avals]
    try:
        found = primitive.explicit(specs, avals, outs, params)
        for aval, spec in zip(outs, found, strict=True):
            _check_result(primitive, avals, aval, spec, mesh)
        return found
    except ShardingTypeError:
        if not state.loosely:
            raise
    found = primitive.shard(specs, avals, outs, params)
    if found is None:
        return None
    return [fitting(spec, a.shape, mesh.shape) for spec, a in zip(found, outs, strict=True)]


def _check_result(primitive: Any, avals: Any, aval: Any, spec: Spec, mesh: Any) -> None:
    names = [name for part in spec for name in part]
    if len(names) != len(set(names)):
        twice = next(n for n in names if names.count(n) > 1)
        given = ", ".join(a.str_short(short_dtypes=True) for a in avals)
        raise ShardingTypeError(
            f"{primitive.name} of {given} would shard two dimensions of its result, of shape "
            f"{aval.shape}, over the mesh axis {twice!r}; move one operand first with"
            " weft.reshard, or give out_sharding"
        )
    for d, (n, axes) in enumerate(zip(getattr(aval, "shape", ()), spec, strict=True)):
        count = prod(mesh.shape[a] for a in axes)
        if n % count:
            given = ", ".join(a.str_short(short_dtypes=True) for a in avals)
            raise ShardingTypeError(
                f"{primitive.name} of {given} has a result of shape {aval.shape}, whose dimension"
                f" {d} cannot be divided into {count} equal parts over "
                f"{', '.join(map(str, axes))}; move the operand first with weft.reshard"
            )


# --- what transformations need --------------------------------------------------------------------


def moved(x: Any, aval: Any) -> Any:
    """``x`` as a value of a type that is divided as ``aval`` is."""
    own = typeof(x)
    if type(own) is not ShapedArray or type(aval) is not ShapedArray:
        return x
    if own.divided == aval.divided or own.shape != aval.shape:
        return x
    wanted = aval.divided
    if wanted is None:
        wanted = own.sharding.with_spec(PartitionSpec(*[None] * len(own.shape)))
    return lookup("reshard").bind(x, dst_sharding=wanted)


def sums_in(avals: Any) -> frozenset[Any]:
    """The axes over which values of types are sums that are left to be made."""
    return frozenset().union(*map(marks.unreduced, avals))


def cotangent_moved(x: Any, aval: Any) -> Any:
    """``x`` as a cotangent of a value of a type."""
    return moved(x, aval.to_cotangent_aval()) if type(aval) is ShapedArray else x


def expected(primitive: Any, avals: Any, params: dict[str, Any]) -> list[Any]:
    """The types of the results of an operation on operands of types."""
    found = results(primitive, avals, params, primitive.shape(*avals, **params))
    return list(found) if primitive.multiple_results else [found]


def without_said(primitive: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Parameters that do not say how the result is divided; what only says that keeps them."""
    if primitive.shardings is not None:
        return params
    for key in ("out_sharding", "sharding"):
        if isinstance(params.get(key), NamedSharding):
            params = {**params, key: None}
    return params


def concerns(primitive: Any, avals: Any, params: dict[str, Any]) -> bool:
    """Whether types that an operation takes or gives carry shardings.

    Functions with rules of their own are not staged yet: their operations are asked one by one.
    """
    if any(callable(p) and not isinstance(p, type) for p in params.values()):
        if primitive.name in _CALLS:
            return False
    if carries(avals) or primitive.name in ("shard_map", "reshard"):
        return True
    said = params.get("out_sharding", params.get("sharding"))
    return isinstance(said, NamedSharding) and primitive.name not in _CONSTRAINTS


def carries(avals: Any) -> bool:
    """Whether any of these types carries a sharding."""
    return any(getattr(a, "divided", None) is not None for a in avals)


@per_program
def has_types(closed: ClosedJaxpr) -> bool:
    """Whether a type anywhere in a program carries a sharding."""
    return _has_types(closed.jaxpr)


def _has_types(jaxpr: Jaxpr) -> bool:
    if carries([v.aval for v in (*jaxpr.constvars, *jaxpr.invars, *jaxpr.outvars)]):
        return True
    for eqn in jaxpr.eqns:
        if carries([v.aval for v in eqn.outvars]):
            return True
        if any(map(_has_types, jaxprs_in_params(eqn.params))):
            return True
    return False


def plain_avals(avals: Any) -> list[Any]:
    """Types without shardings."""
    return [without_axes(a) for a in avals] if meshes.explicit_ones else list(avals)
