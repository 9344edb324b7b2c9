"""Batching: a trace that carries, beside a value, which of its axes is the mapped one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.base import knobs
from weft.base.lazy import Late
from weft.base.source import NO_NAMES, NameStack
from weft.core import sharding as meshes
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, match_axis
from weft.core.caches import per_program
from weft.core.effects import touches_refs
from weft.core.jaxpr import ClosedJaxpr, jaxpr_as_fun
from weft.core.sharding import NamedSharding, PartitionSpec
from weft.core.staging import stage
from weft.core.trace import VMAP, Trace, Tracer, check_leaks, state, typeof

# needed where types carry shardings
explicit = Late("weft.division.explicit")
# needed with mutable references only
without_refs = Late("weft.transforms.discharge")


class BatchTracer(Tracer):
    """A value of the parent trace of which one axis is mapped over.

    Args:
        trace: the trace that it belongs to.
        val: the value.
        batch_dim: the axis that is mapped over; None for none.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> seen = []
        >>> _ = weft.vmap(lambda x: seen.append(isinstance(x, BatchTracer)))(jnp.ones(2))
        >>> seen
        [True]
    """

    __slots__ = ("val", "batch_dim")
    display = "VmapTracer"

    def __init__(self, trace: BatchTrace, val: Any, batch_dim: int | None) -> None:
        self._trace = trace
        self.val = val
        self.batch_dim = batch_dim
        self.aval = unbatched(typeof(val), batch_dim)

    def widen(self, size: int) -> None:
        """Make a mapped reference of one that is not, where a mapped value goes into it."""
        self.val = typeof(self.val).widened(self.val, size)
        self.batch_dim = 0

    def _origin_msg(self) -> str:
        return self._trace.origin_message(self)

    def __repr__(self) -> str:
        batched = typeof(self.val).str_short()
        return f"{self.display}(aval={self._type()}, batched={batched})"


class MappedAxis(AxisData):
    """An axis with a mark of the one call of ``vmap`` that maps it; equality does not see it."""

    tag: object


class BatchTrace(Trace):
    """Applies each primitive's ``batch`` rule where an operand is mapped.

    A function with a custom rule runs under another trace than the one that it was called in;
    the two share the ``tag`` of the axis, so that tracers which the function closes over are
    known there.
    """

    __slots__ = ("parent", "axis", "debug_info", "args", "tag")

    def __init__(self, parent: Trace, axis: AxisData, debug_info: Any = None) -> None:
        self.alive = True
        if type(axis) is not MappedAxis:
            axis = MappedAxis(*axis)
            axis.tag = object()
        self.tag = axis.tag
        self.parent = parent
        self.axis = axis
        self.debug_info = debug_info
        self.args: list[Any] = []

    def split(self, x: Any) -> tuple[Any, int | None]:
        """The underlying value of ``x`` and its batch dimension."""
        if type(x) is BatchTracer and x._trace.tag is self.tag:
            return x.val, x.batch_dim
        return x, None

    def wrap(self, x: Any, dim: int | None) -> Any:
        return x if dim is None else BatchTracer(self, x, dim)

    def owns(self, x: Any) -> bool:
        return type(x) is BatchTracer and x._trace.tag is self.tag

    def process_primitive(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        values: list[Any] = []
        dims: list[int | None] = []
        mapped = False
        for x in args:
            if type(x) is BatchTracer and x._trace.tag is self.tag:
                values.append(x.val)
                dims.append(x.batch_dim)
                if x.batch_dim is not None:
                    mapped = True
            else:
                values.append(x)
                dims.append(None)
        if not mapped and primitive.axis_names is not None:
            mapped = self.axis.name in primitive.axis_names(params)
        if primitive.discharge is not None and mapped and touches_refs(primitive, params):
            return without_refs.bind_discharged(primitive, args, params)
        parent = self.parent
        previous = state.trace
        state.trace = parent
        try:
            if not mapped:
                found = parent.process_primitive(primitive, values, params)
                return BatchTracer(self, found, None) if primitive.makes_ref else found
            if primitive.writes_ref and dims[0] is None and self.owns(args[0]):
                args[0].widen(self.axis.size)
                values[0], dims[0] = args[0].val, 0
            if primitive.batch is None:
                raise NotImplementedError(
                    f"batching rule for {primitive} is not defined, so vmap cannot go through it"
                )
            if meshes.explicit_ones:
                out, out_dims = _batch_typed(self.axis, primitive, values, dims, params)
            else:
                out, out_dims = primitive.batch(self.axis, values, dims, **params)
        except Exception as error:
            given = [unbatched(typeof(x), d) for x, d in zip(values, dims, strict=True)]
            primitive.check_types(given, params, error)
            raise
        finally:
            state.trace = previous
        if primitive.multiple_results:
            return [self.wrap(x, d) for x, d in zip(out, out_dims, strict=True)]
        return self.wrap(out, out_dims)

    def origin_message(self, x: BatchTracer) -> str:
        """Which function is mapped and which argument ``x`` is, as far as that is known."""
        inner = x.val._origin_msg() if isinstance(x.val, Tracer) else ""
        info = self.debug_info
        if info is None:
            return inner
        verb = "is being" if self.alive else "was"
        text = f"\nThe function that {verb} mapped by vmap is {info.func_src_info}."
        names = info.names() or ()
        mapped = [n for n, a in zip(names, self.args, strict=False) if type(a) is BatchTracer]
        own = [n for n, a in zip(names, self.args, strict=False) if a is x]
        if own:
            text += f"\nThe value is the argument {own[0]}."
        elif mapped:
            text += f"\nThe value depends on the mapped arguments ({', '.join(mapped)})."
        return inner + text


def unbatched(aval: Any, dim: int | None) -> Any:
    """The type of one element of a batch."""
    if dim is None:
        return aval
    shape = aval.shape[:dim] + aval.shape[dim + 1 :]
    if aval.is_ref:
        return aval.update(shape=shape)
    made = ShapedArray(shape, aval.dtype, aval.weak_type, manual_axis_type=aval.mat)
    if aval.divided is None:
        return made if aval.named is None else made.on_mesh(aval.named)
    parts = list(aval.divided.spec)
    del parts[dim]
    return made.update(sharding=aval.divided.with_parts(parts))


def batched(aval: Any, size: int, dim: int | None) -> Any:
    """The type of a batch of values of type ``aval``."""
    if dim is None:
        return aval
    shape = aval.shape
    sizes = (*shape[:dim], size, *shape[dim:])
    made = ShapedArray(sizes, aval.dtype, aval.weak_type, manual_axis_type=aval.mat)
    if aval.divided is None:
        return made if aval.named is None else made.on_mesh(aval.named)
    parts = list(aval.divided.spec)
    parts.insert(dim, None)
    return made.update(sharding=aval.divided.with_parts(parts))


def _batch_typed(
    axis: AxisData, primitive: Any, values: Any, dims: Any, params: Any
) -> tuple[Any, Any]:
    """A batch of results where types may carry shardings: as for one element, and along the batch
    as the operands are."""
    avals = [typeof(x) for x in values]
    if not explicit.concerns(primitive, avals, params):
        return primitive.batch(axis, values, dims, **params)
    single = [unbatched(a, d) for a, d in zip(avals, dims, strict=True)]
    wanted = explicit.expected(primitive, single, params)
    over = next(
        (
            (a.divided.mesh, a.divided.spec[d])
            for a, d in zip(avals, dims, strict=True)
            if d is not None and a.divided is not None and a.divided.spec[d] is not None
        ),
        None,
    )
    params = explicit.without_said(primitive, params)
    with explicit.loosely(explicit.sums_in(wanted)):
        out, out_dims = primitive.batch(axis, values, dims, **params)
    several = primitive.multiple_results
    given = zip(out if several else [out], out_dims if several else [out_dims], wanted, strict=True)
    found = [explicit.moved(x, _along(batched(a, axis.size, d), d, over)) for x, d, a in given]
    return (found, out_dims) if several else (found[0], out_dims)


def _along(aval: Any, dim: int | None, over: Any) -> Any:
    """The type of a batch that is divided over mesh axes."""
    if dim is None or over is None or type(aval) is not ShapedArray:
        return aval
    mesh, axes = over
    parts = [None] * len(aval.shape) if aval.divided is None else list(aval.divided.spec)
    parts[dim] = axes
    marked = {} if aval.divided is None else aval.divided.spec.marks()
    return aval.update(sharding=NamedSharding(mesh, PartitionSpec(*parts, **marked)))


def batch(
    fun: Callable[..., Sequence[Any]],
    axis: AxisData,
    args: Sequence[Any],
    in_dims: Sequence[int | None],
    debug_info: Any = None,
    named: NameStack = VMAP,
) -> tuple[list[Any], list[int | None]]:
    """Results of a function of flat arguments over a batch, and their batch dimensions."""
    parent, names = state.trace, state.name_stack
    trace = BatchTrace(parent, axis, debug_info)
    values = [trace.wrap(x, d) for x, d in zip(args, in_dims, strict=True)]
    trace.args = values
    previous_env = state.axis_env
    state.trace, state.name_stack = trace, named.inside(names)
    if axis.name is not None:
        state.axis_env = (*previous_env, (axis.name, axis.size))
    try:
        outs = [trace.split(x) for x in fun(*values)]
    finally:
        state.trace, state.name_stack = parent, names
        state.axis_env = previous_env
        trace.alive = False
        trace.args = []  # else trace and tracers would keep each other, and the arrays, alive
    if knobs.thread.check_tracer_leaks:
        del values
        check_leaks(trace)
    return [x for x, _ in outs], [d for _, d in outs]


def batch_to(
    fun: Callable[..., Sequence[Any]],
    axis: AxisData,
    args: Sequence[Any],
    in_dims: Sequence[int | None],
    out_dims: Sequence[int | None],
) -> list[Any]:
    """``batch`` with the results' batch dimensions moved to where they are wanted."""
    outs, dims = batch(fun, axis, args, in_dims)
    return [
        match_axis(axis.size, d, wanted, x)
        for x, d, wanted in zip(outs, dims, out_dims, strict=True)
    ]


def batch_jaxpr(
    closed: ClosedJaxpr,
    axis: AxisData,
    in_batched: Sequence[bool],
    instantiate: Sequence[bool] | bool,
) -> tuple[ClosedJaxpr, list[bool]]:
    """The program over a batch (batch dimensions in front) and which outputs are batched."""
    if isinstance(instantiate, bool):
        instantiate = [instantiate] * len(closed.out_avals)
    in_dims = tuple([0 if b else None for b in in_batched])
    return _batch_jaxpr(closed, axis, in_dims, tuple(instantiate))


@per_program
def _batch_jaxpr(
    closed: ClosedJaxpr,
    axis: AxisData,
    in_dims: tuple[int | None, ...],
    instantiate: tuple[bool, ...],
) -> tuple[ClosedJaxpr, list[bool]]:
    out_batched: list[bool] = []
    fun = jaxpr_as_fun(closed)

    def over_batch(*args: Any) -> list[Any]:
        outs, dims = batch(fun, axis, args, in_dims, named=NO_NAMES)
        out_batched.extend(i or d is not None for i, d in zip(instantiate, dims, strict=True))
        return [
            match_axis(axis.size, d, 0, x) if b else x
            for x, d, b in zip(outs, dims, out_batched, strict=True)
        ]

    avals = [batched(a, axis.size, d) for a, d in zip(closed.in_avals, in_dims, strict=True)]
    staged = stage(over_batch, avals, closed.debug_info)
    return staged, out_batched
