"""``shard_map`` and ``smap``: a function written for one device, run by all devices of a mesh."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from weft.api.jit import hoist_tracers
from weft.api.staging import stage_call
from weft.base import knobs
from weft.base.functional import wraps
from weft.base.traceback import api_boundary
from weft.control.shard_map import shard_map_p
from weft.core.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    axes_of,
    check_spec,
)
from weft.core.trace import eval_trace, extend_axis_env, state, typeof
from weft.division.mesh_layout import part_aval
from weft.division.programs.manual_axes import check_out_specs, manual_scope
from weft.parallel.objects import on_arrays
from weft.parallel.values import Values
from weft.tree.compare import broadcast_prefix
from weft.tree.functions import tree_flatten, tree_leaves, tree_unflatten

if TYPE_CHECKING:
    from weft.api.function_types import Function

P = ParamSpec("P")
R = TypeVar("R")


class _Infer:
    """The mark of specs that are taken from the arguments."""

    def __repr__(self) -> str:
        return "weft.sharding.Infer"


Infer = _Infer()


class Later:
    """Specs of results that are found once the function has been staged."""

    def __init__(self, find: Callable[[], Any]) -> None:
        self.find = find


@overload
def shard_map(
    f: Callable[P, R],
    /,
    *,
    out_specs: Any,
    in_specs: Any = ...,
    mesh: Any = None,
    axis_names: Any = frozenset(),
    check_vma: bool = True,
) -> Function[P, R]: ...
@overload
def shard_map(
    f: None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = ...,
    mesh: Any = None,
    axis_names: Any = frozenset(),
    check_vma: bool = True,
) -> Callable[[Callable[P, R]], Function[P, R]]: ...
def shard_map(
    f: Callable[..., Any] | None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = Infer,
    mesh: Any = None,
    axis_names: Any = frozenset(),
    check_vma: bool = True,
) -> Any:
    """Return a function that runs on every device of a mesh, each with its part of the arguments.

    Args:
        f: Function written for one device; axes of the mesh have names in it, for collectives. Left
            out, a decorator is returned.
        out_specs: Partition specs of the results, a prefix of their tree: parts are joined along
            divided dimensions.
        in_specs: Partition specs of the arguments, a prefix of their tree; by default found from
            the types of the arguments.
        mesh: Mesh of devices; by default the current one.
        axis_names: Axes of the mesh that ``f`` divides by hand; by default all. The compiler
            divides over the others.
        check_vma: If true, check that results which a spec calls the same on all devices are.

    Returns:
        Function of whole arrays with the arguments of ``f``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import P
        >>> mesh = weft.make_mesh((1,), 'x', (weft.sharding.AxisType.Auto,))
        >>> total = weft.shard_map(lambda x: weft.lax.psum(x.sum(), 'x'), mesh=mesh,
        ...                        in_specs=P('x'), out_specs=P())
        >>> float(total(jnp.arange(4.0)))
        6.0
    """
    options = (mesh, in_specs, out_specs, axis_names, check_vma)
    if f is None:
        return lambda g: shard_map(
            g,
            mesh=mesh,
            in_specs=in_specs,
            out_specs=out_specs,
            axis_names=axis_names,
            check_vma=check_vma,
        )
    if not callable(f):
        raise TypeError(f"shard_map takes a function, got {f!r}")
    _check_specs_given(in_specs, out_specs)

    @wraps(f, updated=())
    @api_boundary
    def mapped(*args: Any) -> Any:
        return _call(f, options, args)

    return mapped


@overload
def smap(
    f: Callable[P, R], /, *, in_axes: Any = ..., out_axes: Any, axis_name: Any
) -> Function[P, R]: ...
@overload
def smap(
    f: None = None, /, *, in_axes: Any = ..., out_axes: Any, axis_name: Any
) -> Callable[[Callable[P, R]], Function[P, R]]: ...
def smap(
    f: Callable[..., Any] | None = None,
    /,
    *,
    in_axes: Any = Infer,
    out_axes: Any,
    axis_name: Any,
) -> Any:
    """Return a function that runs on every device of one mesh axis, each with its part.

    Args:
        f: Function written for one device. Left out, a decorator is returned.
        in_axes: For each argument the dimension that is divided, or None; by default found from the
            types.
        out_axes: For each result the dimension along which parts are joined, or None.
        axis_name: Axis of the current mesh.

    Returns:
        Function of whole arrays with the arguments of ``f``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> with weft.set_mesh(weft.make_mesh((1,), 'x', (weft.sharding.AxisType.Auto,))):
        ...     weft.smap(lambda x: x * 2, in_axes=0, out_axes=0, axis_name='x')(jnp.arange(3))
        Array([0, 2, 4], dtype=int32)
    """
    if f is None:
        return lambda g: smap(g, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)
    if not isinstance(axis_name, str) and isinstance(axis_name, (tuple, list, set)):
        raise TypeError(f"smap maps one axis, got axis_name={axis_name!r}; nest smap for several")

    def spec(axis: Any) -> PartitionSpec:
        if axis is None:
            return PartitionSpec()
        if isinstance(axis, bool) or not isinstance(axis, int):
            raise TypeError(f"smap takes positions or None as axes, got {axis!r}")
        if axis < 0:
            raise ValueError(f"smap takes axes counted from the front, got {axis}")
        return PartitionSpec(*[None] * axis, axis_name)

    def specs(axes: Any) -> Any:
        leaves, tree = tree_flatten(axes, is_leaf=lambda x: x is None)
        return tree_unflatten(tree, [spec(axis) for axis in leaves])

    return shard_map(
        f,
        in_specs=Infer if in_axes is Infer else specs(in_axes),
        out_specs=specs(out_axes),
        axis_names={axis_name},
    )


def _is_spec(x: Any) -> bool:
    return x is None or isinstance(x, PartitionSpec)


def _check_specs_given(in_specs: Any, out_specs: Any) -> None:
    for what, specs in (("in_specs", in_specs), ("out_specs", out_specs)):
        if specs is Infer or type(specs) is Later:
            continue
        for spec in tree_leaves(specs, is_leaf=_is_spec):
            if not _is_spec(spec):
                raise TypeError(
                    f"shard_map takes partition specs as {what}, got {spec!r} of type"
                    f" {type(spec).__name__}; write P('x', None)"
                )


def _mesh(mesh: Any) -> Any:
    current = knobs.thread.mesh
    if mesh is None:
        found = None if current is None else current[0] or current[1]
        if found is None or found.empty:
            raise ValueError(
                "shard_map needs a mesh: pass mesh=..., or set one with weft.set_mesh(mesh)"
            )
        return found
    if not isinstance(mesh, (Mesh, AbstractMesh)):
        raise TypeError(f"shard_map takes a Mesh, got {mesh!r} of type {type(mesh).__name__}")
    if isinstance(mesh, AbstractMesh) and current is not None and current[0] is not None:
        if current[0].shape == mesh.shape:
            return current[0]
    return mesh


def _check_context(mesh: Any, args: Any) -> None:
    """Raise ValueError where another mesh is set, or where nothing says which devices are meant."""
    if not isinstance(mesh, (Mesh, AbstractMesh)):
        return
    current = knobs.thread.mesh
    if current is not None and not current[1].empty:
        if current[1] != mesh.abstract_mesh:
            raise ValueError(
                f"shard_map got {mesh}, and the mesh that is set is {current[1]}; leave mesh out to"
                " use that, and name the manual axes in axis_names"
            )
    elif isinstance(mesh, AbstractMesh) and state.trace is eval_trace:
        given = [getattr(x, "sharding", None) for x in tree_leaves(args)]
        if not any(isinstance(s, NamedSharding) for s in given):
            raise ValueError(
                f"shard_map got {mesh}, which names no devices, and no argument is on a mesh; pass"
                " a Mesh, or set one with weft.set_mesh(mesh)"
            )


def _call(f: Any, options: Any, args: tuple[Any, ...]) -> Any:
    mesh, in_specs, out_specs, axis_names, check_vma = options
    if mesh is not None and type(out_specs) is not Later:
        _check_context(mesh, args)
    mesh = _mesh(mesh)
    name = getattr(f, "__name__", type(f).__name__)
    manual = _manual_axes(mesh, axis_names)
    special = None if in_specs is Infer else on_arrays(f, in_specs, out_specs, args)
    if special is not None:
        f, in_specs, out_specs, args, finish = special
        return finish(_call(f, (mesh, in_specs, out_specs, axis_names, check_vma), args))
    leaves, in_tree = tree_flatten((args, {}))
    avals = [typeof(x) for x in leaves]
    specs = _argument_specs(in_specs, args, leaves, avals, mesh, manual, name)
    sizes = {axis: n for axis, n in mesh.shape.items() if axis in manual}
    inner = [part_aval(a, s, sizes) for a, s in zip(avals, specs, strict=True)]
    rest = mesh.abstract_mesh.update(
        axis_types=tuple(
            AxisType.Manual if n in manual else t
            for n, t in zip(mesh.axis_names, mesh.axis_types, strict=True)
        )
    )
    inner = [_left_over(i, a, rest) for i, a in zip(inner, avals, strict=True)]
    varying = [frozenset(s.names()) for s in specs]
    if knobs.thread.remove_size_one_mesh_axis_from_type:
        varying = [frozenset(n for n in axes if mesh.shape[n] != 1) for axes in varying]
    bound = [(axis, n) for axis, n in mesh.shape.items() if axis in manual]
    if state.trace is eval_trace and type(mesh) is Mesh and _runs_eagerly(out_specs):
        f = _with_values(f, (mesh, in_specs, axis_names, check_vma), args, manual)
    with extend_axis_env(bound), manual_scope(mesh, manual if check_vma else None):
        if check_vma:
            outer = [a.mat.varying for a in avals]
            inner = [a.varying(v | o) for a, v, o in zip(inner, varying, outer, strict=True)]
            inner = [_marked(a, s) for a, s in zip(inner, specs, strict=True)]
        closed, out_tree = stage_call(f, args, {}, inner, in_tree, "shard_map")
    if type(out_specs) is Later and mesh.size > 1:
        _refuse_order(closed, name)
    closed, hoisted = hoist_tracers(closed)
    specs = [PartitionSpec()] * len(hoisted) + specs
    outs = _result_specs(out_specs, out_tree, closed.out_avals, mesh, manual, name)
    if check_vma:
        check_out_specs(closed, outs, manual, name)
    results = shard_map_p.bind(
        *hoisted,
        *leaves,
        jaxpr=closed,
        mesh=mesh,
        in_specs=tuple(specs),
        out_specs=tuple(outs),
        check_vma=check_vma,
        manual_axes=frozenset(manual),
    )
    return tree_unflatten(out_tree, results)


def _runs_eagerly(out_specs: Any) -> bool:
    """Whether the function is run for this call alone: pmap stages it for all of its kind."""
    return type(out_specs) is not Later or knobs.thread.disable_jit


def _with_values(f: Any, options: Any, args: tuple[Any, ...], manual: Any) -> Any:
    """The function, in which values can be looked at while it is staged on these arguments."""
    mesh, in_specs, axis_names, check_vma = options
    stacked = PartitionSpec(tuple(manual))

    def run(program: Any) -> Any:
        flat = lambda *given: program(*tree_leaves(given))
        return _call(flat, (mesh, in_specs, stacked, axis_names, check_vma), args)

    values = Values(run, mesh, manual, check_vma)

    @wraps(f, updated=())
    def seen(*given: Any) -> Any:
        trace: Any = state.trace
        trace.values = values
        return f(*given)

    return seen


def _refuse_order(closed: Any, name: str) -> None:
    """Raise ValueError for ordered effects in pmap: devices run side by side."""
    found = [effect for effect in closed.effects if effect.ordered]
    if found:
        raise ValueError(
            f"{name} has ordered effects ({found[0]}), and pmap runs it on several devices at once;"
            " use ordered=False"
        )


def _left_over(part: Any, aval: Any, mesh: Any) -> Any:
    """The type of a part that is divided over the axes that are not divided by hand."""
    if aval.divided is None:
        return part
    return part.update(sharding=NamedSharding(mesh, PartitionSpec(*aval.divided.spec)))


def _marked(part: Any, spec: PartitionSpec) -> Any:
    """The type of a part that is unreduced or reduced over axes."""
    if not (spec.unreduced or spec.reduced):
        return part
    return part.update(manual_axis_type=part.mat.update(**spec.marks()))


def _divided_outside() -> set[Any]:
    """The mesh axes that an outer shard_map divides by hand."""
    known = () if knobs.thread.mesh is None else knobs.thread.mesh[1].shape
    return {n for n, _ in state.axis_env if n in known}


def _manual_axes(mesh: Any, axis_names: Any) -> tuple[Any, ...]:
    if not isinstance(axis_names, (set, frozenset)):
        raise TypeError(
            f"shard_map takes a set of axis_names, got {axis_names!r} of type"
            f" {type(axis_names).__name__}; write {{'x'}}"
        )
    wanted = set(axis_names) or set(mesh.axis_names) - _divided_outside() or set(mesh.axis_names)
    for axis in wanted:
        if axis not in mesh.axis_names:
            raise ValueError(
                f"shard_map got axis_names={set(axis_names)}, and the mesh has the axes"
                f" {mesh.axis_names}"
            )
    free = tuple(n for n in mesh.axis_names if n in wanted)
    taken = _divided_outside()
    for axis in free:
        if axis in taken:
            raise ValueError(
                f"the mesh axis {axis!r} is already manual in an outer shard_map; name other axes "
                "in axis_names"
            )
    return free


def _argument_specs(
    in_specs: Any, args: Any, leaves: Any, avals: Any, mesh: Any, manual: Any, name: str
) -> list[PartitionSpec]:
    if in_specs is Infer:
        auto = [n for n in mesh.auto_axes if n in manual]
        if auto:
            raise TypeError(
                f"shard_map of {name} needs in_specs (in_axes for smap): its axes {auto} are of"
                " type Auto, so types do not say how arguments are sharded over them"
            )
        specs = [_inferred(x, mesh, manual) for x in leaves]
    else:
        if isinstance(in_specs, list):
            in_specs = tuple(in_specs)
        if type(in_specs) is tuple and len(in_specs) != len(args):
            raise ValueError(
                f"shard_map got in_specs for {len(in_specs)} arguments of {name}, which is called"
                f" with {len(args)}; give one spec for all, or a tuple with one for each"
            )
        try:
            specs = broadcast_prefix(in_specs, args, is_leaf=_is_spec)
        except ValueError as error:
            raise ValueError(f"in_specs of shard_map do not fit the arguments: {error}") from None
        specs = [PartitionSpec() if s is None else s for s in specs]
    for i, (spec, aval) in enumerate(zip(specs, avals, strict=True)):
        _check_argument(i, spec, aval, mesh, manual, name)
        if in_specs is not Infer:
            _check_type(i, spec, aval, mesh, manual, name)
    return specs


def _check_type(i: int, spec: PartitionSpec, aval: Any, mesh: Any, manual: Any, name: str) -> None:
    """Raise ValueError where a type says that an argument is divided in another way."""
    explicit = [n for n in mesh.explicit_axes if n in manual]
    if knobs.thread.remove_size_one_mesh_axis_from_type:
        explicit = [n for n in explicit if mesh.shape[n] != 1]
    if not explicit:
        return
    parts = () if aval.divided is None else aval.divided.spec
    said = [tuple(n for n in axes_of(p) if n in explicit) for p in parts]
    given = [tuple(n for n in axes_of(p) if n in explicit) for p in spec]
    while said and not said[-1]:
        said.pop()
    while given and not given[-1]:
        given.pop()
    marks = PartitionSpec() if aval.divided is None else aval.divided.spec
    if said != given or marks.marks() != spec.marks():
        raise ValueError(
            f"in_specs say {spec} for argument {i} of {name}, and its type is {aval.str_short()};"
            " leave in_specs out, because the types contain explicit mesh axes, or move the "
            f"argument first with weft.reshard(x, {spec})"
        )


def _inferred(x: Any, mesh: Any, manual: Any) -> PartitionSpec:
    divided = getattr(typeof(x), "divided", None)
    if divided is not None:
        parts = [tuple(n for n in axes_of(p) if n in manual) for p in divided.spec]
        return PartitionSpec(*parts, **divided.spec.marks())
    sharding = getattr(x, "sharding", None)
    if not isinstance(sharding, NamedSharding) or sharding.mesh != mesh:
        return PartitionSpec()
    return PartitionSpec(*[tuple(n for n in axes_of(p) if n in manual) for p in sharding.spec])


def _check_axes(spec: PartitionSpec, mesh: Any, manual: Any, what: str, name: str) -> None:
    check_spec(spec, mesh)
    if PartitionSpec.UNCONSTRAINED in spec:
        raise ValueError(
            f"{what} of {name} leave a dimension of {spec} unconstrained, but each device must "
            "know its part: name mesh axes, or write None to replicate the dimension"
        )
    if (spec.unreduced or spec.reduced) and set(manual) != set(mesh.axis_names):
        raise NotImplementedError(
            f"{what} of {name} say {spec}: axes can't be unreduced or reduced while only "
            f"{set(manual)} are manual; leave axis_names out"
        )
    for axis in spec.names():
        if axis not in manual:
            raise ValueError(
                f"{what} of {name} name the axis {axis!r}, which is not among axis_names"
                f" {set(manual)}; only manual axes can be named"
            )


def _check_argument(
    i: int, spec: PartitionSpec, aval: Any, mesh: Any, manual: Any, name: str
) -> None:
    _check_axes(spec, mesh, manual, "in_specs", name)
    shape = aval.shape
    if len(spec) > len(shape):
        raise ValueError(
            f"in_specs give argument {i} of {name} the spec {spec} for {len(spec)} dimensions, and"
            f" it has the shape {shape}, with {len(shape)}"
        )
    for d, part in enumerate(spec):
        count = 1
        for axis in axes_of(part):
            count *= mesh.shape[axis]
        if shape[d] % count:
            raise ValueError(
                f"argument {i} of {name} has the shape {shape}, and its spec {spec} shards "
                f"dimension {d} over {part!r}: its size {shape[d]} is not divisible by {count}"
            )


def _result_specs(
    out_specs: Any, out_tree: Any, avals: Any, mesh: Any, manual: Any, name: str
) -> list[PartitionSpec]:
    if type(out_specs) is Later:
        out_specs = out_specs.find()
    example = tree_unflatten(out_tree, list(avals))
    try:
        specs = broadcast_prefix(out_specs, example, is_leaf=_is_spec)
    except ValueError as error:
        raise ValueError(f"out_specs of shard_map do not fit the results: {error}") from None
    specs = [PartitionSpec() if s is None else s for s in specs]
    for i, (spec, aval) in enumerate(zip(specs, avals, strict=True)):
        _check_axes(spec, mesh, manual, "out_specs", name)
        if len(spec) > len(aval.shape):
            raise ValueError(
                f"out_specs give result {i} of {name} the spec {spec} for {len(spec)} dimensions,"
                f" and it has the shape {aval.shape}, with {len(aval.shape)}"
            )
    return specs
