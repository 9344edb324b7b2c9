"""Promotion of operands: dtypes by the lattice, ranks by leading dimensions of size 1.

Scalars whose value is known are converted at once and become literals of a traced program.
Functions that JAX wraps in a jit of their own convert them by an equation: those promote with
``staged=True``, so that programs agree.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from weft import dtypes
from weft.base import errors, knobs
from weft.base.source import warn
from weft.core.array import Array
from weft.core.avals import ShapedArray
from weft.core.jaxpr import Literal
from weft.core.sharding import NamedSharding, PartitionSpec
from weft.core.staging import StagingTrace
from weft.core.trace import Tracer, box, state, typeof
from weft.lax.shape import broadcast_for
from weft.prims.convert import convert_element_type_p, convert_values, warn_of_lost_parts
from weft.prims.families import ANY, COMPLEX, INEXACT, NUMBER, kind_of, scalar
from weft.prims.shape import broadcast_in_dim
from weft.runtime.array import ArrayImpl, own
from weft.runtime.places import HOME, default_placement, placement

_PYTHON_SCALARS = (bool, int, float, complex)
_PLAIN = frozenset(_PYTHON_SCALARS)
_DATA = (np.ndarray, np.generic)

_P = ParamSpec("_P")
_R = TypeVar("_R")


# --- what is an array -----------------------------------------------------------------------------


def check_arraylike(name: str, *args: Any, emit_warning: bool = False) -> None:
    """Raise TypeError unless all arguments are arrays or scalars."""
    for i, x in enumerate(args):
        if isinstance(x, Array) or type(x) in _PLAIN or isinstance(x, _DATA):
            continue
        if hasattr(x, "__jax_array__") or isinstance(x, _PYTHON_SCALARS):
            continue
        message = f"{name} requires ndarray or scalar arguments, got {type(x)} at position {i}"
        if isinstance(x, (list, tuple)):
            message += "; wrap it in jnp.array(...)"
        if not emit_warning:
            raise TypeError(message)
        warn(message, DeprecationWarning)


def unwrapped(x: Any) -> Any:
    """``x`` itself, or the array that an object stands for."""
    if isinstance(x, Array) or type(x) in _PLAIN or isinstance(x, _DATA):
        return x
    method = getattr(x, "__jax_array__", None)
    return x if method is None else method()


def as_array(x: Any) -> Any:
    """A scalar or NumPy array as an array."""
    if type(x) in _PLAIN:
        aval, trace = typeof(x), state.trace
        if type(trace) is StagingTrace:
            return trace.literal(x, aval)
        made = own(np.array(x, aval.dtype), aval)
        return made if knobs.thread.default_device is None else made._at(default_placement())
    if isinstance(x, Array):
        return x
    x = unwrapped(x)
    if isinstance(x, Array):
        return x
    aval = typeof(x)
    if type(x) in _PLAIN and type(state.trace) is StagingTrace:
        return state.trace.literal(x, aval)
    return constant(np.array(x, aval.dtype), aval, x)


def constant(value: np.ndarray, aval: Any, data: Any = None) -> Any:
    """An array of values that nobody else will change; while staging, a constant of the program,
    and the same one for all that is made of the same ``data`` of the caller.

    Partial evaluation, a kind of staging, writes down what is unknown: a constant is not.
    """
    trace = state.trace
    if type(trace) is not StagingTrace:
        made = own(value, aval) if value.flags.c_contiguous else box(value, aval)
        thread = knobs.thread
        if thread.mesh is None and thread.default_device is None:
            return made
        return made._at(default_placement())
    if value.ndim:
        if type(data) is not np.ndarray:
            return trace.lift(box(value, aval))
        made = trace.copy_of(data, aval.dtype)
        if made is None:
            made = box(value, aval)
            trace.note_copy(data, made)
        return trace.lift(made)
    return trace.literal(value.item() if aval.weak_type else value[()], aval)


def beside(made: Any, *sources: Any) -> Any:
    """An array whose values were found from those of others, where these are.

    That is the device of the first committed one, or each device of its mesh.
    """
    for x in sources:
        where = x._type.placement if type(x) is ArrayImpl else HOME
        if type(made) is not ArrayImpl or where is HOME or not where.committed:
            continue
        sharding = where.sharding
        if isinstance(sharding, NamedSharding):
            whole = [None] * made.ndim if where.explicit else []
            where = placement(NamedSharding(sharding.mesh, PartitionSpec(*whole)), True)
        elif len(sharding.device_set) > 1:
            continue
        return made._at(where)
    return made


def array_kind(x: Any) -> int:
    """Which kind of numbers an array or scalar has."""
    return kind_of(typeof(x).dtype)


def ensure_array(name: str, x: Any) -> Any:
    """``x`` checked to be an array or scalar, as an array."""
    if isinstance(x, Array):
        return x
    check_arraylike(name, x)
    return as_array(x)


def ensure_arrays(name: str, *args: Any) -> list[Any]:
    """Arguments checked to be arrays or scalars, as arrays."""
    check_arraylike(name, *args)
    return [as_array(x) for x in args]


def refuse_out(name: str, out: Any) -> None:
    """Raise if an array to write to was given."""
    if out is not None:
        raise NotImplementedError(f"{name} has no out argument: arrays are immutable")


def is_known(x: Any) -> bool:
    """Whether the value of ``x`` can be looked at while tracing."""
    return not isinstance(x, Tracer) or x._concrete() is not None


def concrete(x: Any, why: str) -> Any:
    """The value behind ``x``, or the error for a traced value where a static one is needed."""
    if not isinstance(x, Tracer):
        return x
    value = x._concrete()
    if value is None:
        raise errors.ConcretizationTypeError(x, why)
    return value


# --- conversion -----------------------------------------------------------------------------------


def convert_operand(x: Any, dtype: Any, weak: bool = False) -> Any:
    """``x`` at a dtype and weak type; scalars of known value are converted at once."""
    if isinstance(x, Array):
        aval = x.aval
        if aval.dtype == dtype and aval.weak_type == weak:
            return x
        if aval.shape or isinstance(dtype, dtypes.ExtendedDType):
            return _bind_conversion(x, dtype, weak)
        if not isinstance(x, Tracer) and not x.committed:
            return _known_scalar(np.asarray(x), dtype, weak)
        written = getattr(x, "_var", None)
        if type(written) is Literal:
            return _known_scalar(np.asarray(written.val, aval.dtype), dtype, weak)
        return _bind_conversion(x, dtype, weak)
    if type(x) in _PLAIN:
        if weak:
            kind = dtypes.scalar_type_of(dtype)
            value = x if type(x) is kind else kind(x)
            if typeof(value).dtype == dtype:
                return value
            # what it goes with was made with other knobs
            return constant(np.array(value, dtype), ShapedArray((), dtype, True))
        if type(x) is complex and kind_of(dtype) != COMPLEX:
            return _known_scalar(np.asarray(x), dtype, weak)
        return scalar(dtype, x)
    if isinstance(x, np.ndarray) and x.ndim:
        if typeof(x).dtype == dtype:
            return x
        return _bind_conversion(x, dtype, weak)
    x = unwrapped(x)
    if isinstance(x, Array):
        return convert_operand(x, dtype, weak)
    value = np.asarray(x)
    own_dtype = typeof(value).dtype  # numbers of 64 bits may have to become those of 32 first
    if own_dtype != value.dtype:
        with np.errstate(all="ignore"):
            value = value.astype(own_dtype)
    return _known_scalar(value, dtype, weak)


def _bind_conversion(x: Any, dtype: Any, weak: bool) -> Any:
    warn_of_lost_parts(typeof(x).dtype, dtype)
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak, sharding=None)


def _known_scalar(value: np.ndarray, dtype: Any, weak: bool) -> Any:
    if weak:
        return dtypes.scalar_type_of(dtype)(value.item())
    if value.dtype == dtype:
        return value[()]
    warn_of_lost_parts(value.dtype, dtype)
    with np.errstate(all="ignore"):
        return convert_values(value, dtype)[()]


def convert_staged(x: Any, dtype: Any, weak: bool = False) -> Any:
    """``x`` at a dtype and weak type, by an equation also for a scalar."""
    x = unwrapped(x)
    aval = typeof(x)
    if aval.dtype == dtype and aval.weak_type == weak:
        return x
    if type(x) in _PLAIN and (knobs.thread.debug_nans or knobs.thread.debug_infs):
        return convert_operand(x, dtype, weak)  # a constant is nobody's result
    return _bind_conversion(x, dtype, weak)


# --- dtypes ---------------------------------------------------------------------------------------


def _promoted(args: Sequence[Any], settle: Callable[[Any], Any] | None, staged: bool) -> list[Any]:
    dtype, weak = dtypes.lattice_result_type(*args)
    if settle is not None:
        dtype = settle(dtype)
    convert = convert_staged if staged else convert_operand
    return [convert(x, dtype, weak) for x in args]


def promote_dtypes(*args: Any, staged: bool = False) -> list[Any]:
    """Arguments converted to the dtype that the promotion lattice gives them together."""
    if len(args) == 1:
        return list(args)
    return _promoted(args, None, staged)


def promote_dtypes_inexact(*args: Any, staged: bool = False) -> list[Any]:
    """Like ``promote_dtypes``, to an inexact dtype."""
    return _promoted(args, dtypes.to_inexact_dtype, staged)


def promote_dtypes_complex(*args: Any) -> list[Any]:
    """Like ``promote_dtypes``, to a complex dtype."""
    return _promoted(args, dtypes.to_complex_dtype, False)


# --- ranks ----------------------------------------------------------------------------------------


def promote_shapes(name: str, *args: Any) -> list[Any]:
    """Arguments of equal rank: dimensions of size 1 in front, scalars as they are."""
    if len(args) < 2:
        return list(args)
    shapes = [np.shape(x) for x in args]
    ranks = {len(s) for s in shapes if s}
    if len(ranks) < 2:
        return list(args)
    if knobs.thread.numpy_rank_promotion != "allow":
        report_rank_promotion(name, shapes)
    broadcast_for(name, *shapes)
    rank = max(ranks)
    return [_raise_rank(x, s, rank) for x, s in zip(args, shapes, strict=True)]


def _raise_rank(x: Any, shape: tuple[int, ...], rank: int) -> Any:
    if len(shape) == rank:
        return x
    lead = rank - len(shape)
    return broadcast_in_dim(x, (1,) * lead + shape, tuple(range(lead, rank)))


def report_rank_promotion(name: str, shapes: Sequence[tuple[int, ...]]) -> None:
    """Warn or raise, as the knob says, where ranks are promoted."""
    given = " ".join(map(str, shapes))
    mode = knobs.thread.numpy_rank_promotion
    why = (
        f"their ranks differ (shapes {given}) and numpy_rank_promotion is '{mode}'; reshape them to"
        " equal ranks"
    )
    if mode == "raise":
        raise ValueError(f"operands of {name} could not be broadcast together: {why}")
    warn(f"operands of {name} were broadcast: {why}")


def mixes_inside(fun: Callable[_P, _R]) -> Callable[_P, _R]:
    """``fun``, a library function whose formulas mix ranks and dtypes, under knobs that forbid it.

    What is forbidden is for users to mix their own arrays, so the dtypes of these are compared.
    """

    @functools.wraps(fun)
    def mixing(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        thread = knobs.thread
        strict = thread.numpy_dtype_promotion == "strict"
        if not strict and thread.numpy_rank_promotion == "allow":
            return fun(*args, **kwargs)
        if strict:
            _refuse_mixed_dtypes((*args, *kwargs.values()))
        with knobs.scope(numpy_rank_promotion="allow", numpy_dtype_promotion="standard"):
            return fun(*args, **kwargs)

    return mixing


def _refuse_mixed_dtypes(args: Sequence[Any]) -> None:
    """Raise TypePromotionError for inexact arrays of different dtypes."""
    arrays = [x for x in args if isinstance(x, (Array, np.ndarray))]
    inexact = [x for x in arrays if kind_of(x.dtype) & INEXACT]
    if len(inexact) > 1:
        dtypes.result_type(*inexact)


# --- both -----------------------------------------------------------------------------------------


def _checked(
    name: str, args: Sequence[Any], settle: Callable[[Any], Any] | None, staged: bool
) -> list[Any]:
    check_arraylike(name, *args)
    args = [unwrapped(x) for x in args]
    kinds = {typeof(x).dtype for x in args}
    for dtype in kinds:
        if dtype == dtypes.float0:
            raise TypeError(
                f"{name} got an array of dtype float0, the tangent of integers, which has no"
                " values; make zeros of it with np.zeros_like(x, dtype=float)"
            )
        if isinstance(dtype, dtypes.ExtendedDType) and len(kinds) > 1:
            raise TypeError(f"{name} does not accept dtypes {', '.join(map(str, kinds))}")
    if settle is None and len(args) < 2:
        return args
    return promote_shapes(name, *_promoted(args, settle, staged))


def promote_pair(name: str, x: Any, y: Any) -> Any:
    """Two operands checked, of one dtype and of equal rank. The usual cases come first."""
    ax, ay = getattr(x, "aval", None), getattr(y, "aval", None)
    if ax is not None and ay is not None:
        dtype = ax.dtype
        if ay.dtype is not dtype or ax.weak_type or ay.weak_type:
            if not kind_of(dtype) & ANY or not kind_of(ay.dtype) & ANY:
                return _checked(name, (x, y), None, False)
            dtype, weak = dtypes.promote_pair(dtype, ax.weak_type, ay.dtype, ay.weak_type)
            x, y = convert_operand(x, dtype, weak), convert_operand(y, dtype, weak)
        if len(ax.shape) == len(ay.shape) or not ax.shape or not ay.shape:
            return x, y
        return _pair_of_one_rank(name, x, y, ax.shape, ay.shape)
    if ax is not None and not ax.weak_type and _fits(type(y), ax.dtype):
        return x, scalar(ax.dtype, y)
    if ay is not None and not ay.weak_type and _fits(type(x), ay.dtype):
        return scalar(ay.dtype, x), y
    return _checked(name, (x, y), None, False)


def _fits(kind: type, dtype: Any) -> bool:
    """Whether a Python number takes the dtype of the array that it meets."""
    if dtypes.canonicalize_dtype(dtype, True) != dtype:
        return False  # a 64-bit array, used where enable_x64 is off
    if kind is float:
        return bool(kind_of(dtype) & INEXACT)
    return kind is int and bool(kind_of(dtype) & NUMBER)


def _pair_of_one_rank(
    name: str, x: Any, y: Any, x_shape: tuple[int, ...], y_shape: tuple[int, ...]
) -> tuple[Any, Any]:
    if knobs.thread.numpy_rank_promotion != "allow":
        report_rank_promotion(name, [x_shape, y_shape])
    for n, m in zip(reversed(x_shape), reversed(y_shape), strict=False):
        if n != m and n != 1 and m != 1:
            broadcast_for(name, x_shape, y_shape)
    rank = max(len(x_shape), len(y_shape))
    return _raise_rank(x, x_shape, rank), _raise_rank(y, y_shape, rank)


def promote_pair_inexact(name: str, x: Any, y: Any) -> Any:
    """Two operands checked, of one inexact dtype and of equal rank."""
    for v in (x, y):
        aval = getattr(v, "aval", None)
        if aval is not None and kind_of(aval.dtype) & INEXACT:
            return promote_pair(name, x, y)
    return _checked(name, (x, y), dtypes.to_inexact_dtype, False)


def promote_args(name: str, *args: Any, staged: bool = False) -> list[Any]:
    """Arguments checked, of one dtype and of equal rank."""
    return _checked(name, args, None, staged)


def promote_args_numeric(name: str, *args: Any, staged: bool = False) -> list[Any]:
    """Arguments checked, of one dtype that is not bool, and of equal rank."""
    return _checked(name, args, dtypes.to_numeric_dtype, staged)


def promote_args_inexact(name: str, *args: Any, staged: bool = False) -> list[Any]:
    """Arguments checked, of one inexact dtype and of equal rank."""
    if len(args) == 1:
        (x,) = args
        if isinstance(x, Array) and kind_of(x.aval.dtype) & INEXACT:
            return [x]
    return _checked(name, args, dtypes.to_inexact_dtype, staged)
