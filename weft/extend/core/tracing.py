"""The state of tracing and the types of mapped values, for those who write transformations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.base import errors
from weft.core.avals import ShapedArray
from weft.core.effects import no_effects
from weft.core.jaxpr import JaxprEqn
from weft.core.staging import StagingTrace
from weft.core.trace import Trace, Tracer, eval_trace, is_tracing, state, typeof
from weft.core.trace import set_trace as set_current_trace
from weft.transforms.vmap import BatchTrace

__all__ = [
    "OpaqueTraceState", "TraceTag", "concrete_or_error", "find_top_trace",
    "get_opaque_trace_state", "mapped_aval", "new_jaxpr_eqn", "nonempty_axis_env_DO_NOT_USE",
    "set_current_trace", "take_current_trace", "trace_state_clean", "unmapped_aval",
    "unsafe_am_i_under_a_jit_DO_NOT_USE", "unsafe_am_i_under_a_vmap_DO_NOT_USE",
    "unsafe_get_axis_names_DO_NOT_USE", "valid_jaxtype",
]  # fmt: skip


class OpaqueTraceState:
    """What is being traced now; equal as long as it is the same."""

    __slots__ = ("_trace",)

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self._trace is other._trace

    def __hash__(self) -> int:
        return id(self._trace)


class TraceTag:
    """A mark that tells the traces of one transformation from those of others.

    >>> TraceTag() == TraceTag()
    False
    """


def get_opaque_trace_state(convention: Any = None) -> OpaqueTraceState:
    """Return what is being traced now, to be compared with a later state.

    Args:
        convention: accepted for JAX, no effect.

    Returns:
        A state that can be compared and hashed.

    Example:
        >>> get_opaque_trace_state() == get_opaque_trace_state()
        True
    """
    return OpaqueTraceState(state.trace)


def trace_state_clean() -> bool:
    """Whether nothing is being traced."""
    return state.trace is eval_trace


def find_top_trace(values: Any) -> Trace:
    """Return the trace that a primitive of these operands would go to: the current one.

    Args:
        values: the operands.

    Returns:
        A trace.

    Example:
        >>> find_top_trace([1.0]) is find_top_trace([])
        True
    """
    return state.trace


@contextmanager
def take_current_trace() -> Iterator[Trace]:
    """Return a context manager that gives the current trace, and traces nothing in the block.

    Returns:
        A context manager.

    Example:
        >>> with take_current_trace() as trace:
        ...     trace is not None
        True
    """
    previous = state.trace
    state.trace = eval_trace
    try:
        yield previous
    finally:
        state.trace = previous


def valid_jaxtype(x: Any) -> bool:
    """Return whether ``x`` is an array or a number.

    Args:
        x: any object.

    Returns:
        True or False.

    Example:
        >>> valid_jaxtype(1.0), valid_jaxtype("one")
        (True, False)
    """
    try:
        typeof(x)
    except TypeError:
        return False
    return True


def mapped_aval(size: int, axis: int | None, aval: Any) -> Any:
    """Return the type of one element along an axis.

    Args:
        size: the size of the axis.
        axis: the axis; None leaves the type as it is.
        aval: the type.

    Returns:
        A type.

    Example:
        >>> mapped_aval(3, 0, ShapedArray((3, 4), "float32"))
        ShapedArray(float32[4])
    """
    if axis is None:
        return aval
    shape = list(aval.shape)
    if shape.pop(axis) != size:
        raise TypeError(f"{aval.str_short()} does not have size {size} along axis {axis}")
    return ShapedArray(tuple(shape), aval.dtype, aval.weak_type)


def unmapped_aval(size: int, axis: int | None, aval: Any, explicit_mesh_axis: Any = None) -> Any:
    """Return the type of several elements along a new axis.

    Args:
        size: the size of the axis.
        axis: where the axis goes; None leaves the type as it is.
        aval: the type of one element.
        explicit_mesh_axis: the mesh axis over which the new axis is divided.

    Returns:
        A type.

    Example:
        >>> unmapped_aval(3, 1, ShapedArray((4,), "float32"))
        ShapedArray(float32[4,3])
    """
    if axis is None:
        return aval
    shape = list(aval.shape)
    shape.insert(axis, size)
    return ShapedArray(tuple(shape), aval.dtype, aval.weak_type)


def concrete_or_error(force: Any, val: Any, context: str = "") -> Any:
    """Return ``force(val)`` of a value that must be known; the error for a traced one says why.

    Args:
        force: a function of the value, such as ``int``, or None.
        val: the value.
        context: why it must be known, for the error.

    Returns:
        What ``force`` returns, or the value.

    Example:
        >>> concrete_or_error(int, 3.0)
        3
    """
    if isinstance(val, Tracer):
        known = val._concrete()
        if known is None:
            raise errors.ConcretizationTypeError(val, context or "its value is needed here")
        val = known
    return val if force is None else force(val)


def new_jaxpr_eqn(
    invars: Any,
    outvars: Any,
    primitive: Any,
    params: Any,
    effects: Any = no_effects,
    source_info: Any = None,
    ctx: Any = None,
) -> JaxprEqn:
    """Return an equation of a program.

    Args:
        invars: the operands, variables or literals.
        outvars: the variables of the results.
        primitive: the primitive.
        params: its parameters.
        effects: the effects of the step.
        source_info: the user's line. By default the current one.
        ctx: accepted for JAX, no effect.

    Returns:
        A ``JaxprEqn``.

    Example:
        >>> import weft
        >>> eqn = weft.make_jaxpr(lambda x: x + 1.0)(1.0).jaxpr.eqns[0]
        >>> new_jaxpr_eqn(eqn.invars, eqn.outvars, eqn.primitive, eqn.params).primitive
        add
    """
    return JaxprEqn(list(invars), list(outvars), primitive, params, effects, source_info)


def nonempty_axis_env_DO_NOT_USE() -> bool:
    """Return whether a named axis is being mapped.

    Returns:
        True or False.

    Example:
        >>> nonempty_axis_env_DO_NOT_USE()
        False
    """
    return bool(state.axis_env)


def unsafe_get_axis_names_DO_NOT_USE() -> list[Any]:
    """Return the names of the axes being mapped.

    Returns:
        A list.

    Example:
        >>> unsafe_get_axis_names_DO_NOT_USE()
        []
    """
    return [name for name, _ in state.axis_env]


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    """Return whether a function is being staged.

    Returns:
        True or False.

    Example:
        >>> unsafe_am_i_under_a_jit_DO_NOT_USE()
        False
    """
    return any(isinstance(trace, StagingTrace) for trace in _traces())


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:
    """Return whether a function is being mapped, with or without a named axis.

    Returns:
        True or False.

    Example:
        >>> unsafe_am_i_under_a_vmap_DO_NOT_USE()
        False
    """
    return any(isinstance(trace, BatchTrace) for trace in _traces()) or bool(state.axis_env)


def _traces() -> Iterator[Any]:
    trace: Any = state.trace
    while trace is not None and is_tracing():
        yield trace
        trace = getattr(trace, "parent", None)
