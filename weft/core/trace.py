"""Traces and tracers: who sees a primitive when it is bound, and the per-thread state that says so.

The current trace is a thread's state, not a property of the arguments. A transformation makes a
trace that knows its parent, sets it current, and hands what it computes to the parent.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from weft import dtypes
from weft.base import errors
from weft.base.functional import lru
from weft.base.polynomials import Polynomial
from weft.base.source import NO_NAMES, NameStack, Transformed
from weft.base.traceback import api_boundary
from weft.core import hooks
from weft.core.array import Array
from weft.core.avals import AbstractValue, ShapedArray
from weft.core.registry import lookup


class Trace:
    """An interpretation of bound primitives. Subclasses say what a bound primitive means."""

    __slots__ = ("alive", "__weakref__")

    def __init__(self) -> None:
        self.alive = True

    def process_primitive(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        raise TypeError(f"{type(self).__name__} does not say what a primitive means")

    @property
    def main(self) -> Trace:
        """The trace itself, under the name by which libraries tell traces apart."""
        return self

    def full_raise(self, x: Any) -> Any:
        """The value itself: no value has to be lifted to be used in a trace."""
        return x

    def is_valid(self) -> bool:
        """Whether the function being traced has not returned yet."""
        return self.alive

    def invalidate(self) -> None:
        """Say that the function being traced has returned: its tracers must not be used again."""
        self.alive = False


class EvalTrace(Trace):
    """Nothing is traced: compute."""

    __slots__ = ()

    def process_primitive(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        for x in args:
            if isinstance(x, Tracer):
                raise escaped_tracer_error(x)
        return primitive.evaluate(args, params)


eval_trace = EvalTrace()


class FoldingTrace(Trace):
    """Computes what depends on no tracer; leaves the rest to the trace it was made in."""

    __slots__ = ("parent",)

    def __init__(self, parent: Trace) -> None:
        self.alive = True
        self.parent = parent

    def process_primitive(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        traced = any(isinstance(x, Tracer) for x in args)
        trace = self.parent if traced else eval_trace
        state.trace = trace
        try:
            return trace.process_primitive(primitive, args, params)
        finally:
            state.trace = self


class State(threading.local):
    """The state of tracing in one thread."""

    trace: Trace = eval_trace
    axis_env: tuple[tuple[Any, int], ...] = ()
    # the mesh axes over which types say whether values vary, in shard_map
    manual: frozenset[Any] = frozenset()
    # whether what types leave unclear of shardings is not refused, see division.explicit
    loosely: bool = False
    # the mesh axes over which sums that such steps make may be left to be made, see
    # division.marks
    sums: frozenset[Any] = frozenset()
    source: Any = None  # overrides the user's line while a staged equation is traced again
    name_stack: NameStack = NO_NAMES


state = State()


@contextmanager
def set_trace(trace: Trace) -> Iterator[None]:
    """Return a context manager that makes ``trace`` the current one for the block.

    Args:
        trace: the trace.

    Returns:
        A context manager.

    Example:
        >>> from weft.extend.core import find_top_trace
        >>> with set_trace(find_top_trace([])):
        ...     pass
    """
    previous = state.trace
    state.trace = trace
    try:
        yield
    finally:
        state.trace = previous


JVP, TRANSPOSE, VMAP = (NameStack([Transformed(name)]) for name in ("jvp", "transpose", "vmap"))


@contextmanager
def loosely(sums: frozenset[Any] = frozenset()) -> Iterator[None]:
    """Where an operation is one of a rule's own steps: what is not clear is not refused.

    Sums over the axes ``sums`` are left to be made, as the result's type is unreduced over them.
    """
    previous, wanted = state.loosely, state.sums
    state.loosely, state.sums = True, sums
    try:
        yield
    finally:
        state.loosely, state.sums = previous, wanted


@contextmanager
def extend_axis_env(pairs: Any) -> Iterator[None]:
    """Bind axis names to their sizes for the extent of the block."""
    previous = state.axis_env
    state.axis_env = previous + tuple((name, size) for name, size in pairs if name is not None)
    try:
        yield
    finally:
        state.axis_env = previous


def axis_size(name: Any) -> int:
    """The size of a named axis that is in scope."""
    for bound, size in reversed(state.axis_env):
        if bound == name:
            return size
    known = ", ".join(repr(n) for n, size in state.axis_env if type(size) is int) or "none"
    raise NameError(
        f"unbound axis name {name!r} (bound here: {known}); give the axis its name with"
        f" vmap(..., axis_name={name!r}) or shard_map around this call"
    )


def is_tracing() -> bool:
    return state.trace is not eval_trace


class Tracer(Array):
    """A value that stands for one that is not known while a function is traced.

    Args:
        trace: the trace that it belongs to.
        aval: its type.

    Example:
        >>> import weft
        >>> from weft.custom_derivatives import Tracer
        >>> seen = []
        >>> _ = weft.make_jaxpr(lambda x: seen.append(isinstance(x, Tracer)))(1.0)
        >>> seen
        [True]
    """

    __slots__ = ("_trace", "aval", "__weakref__")

    _trace: Any
    aval: Any
    display = "Tracer"  # the name it is printed by

    def __init__(self, trace: Any, aval: Any) -> None:
        self._trace = trace
        self.aval = aval

    # What the tracer's value depends on, for error messages; staging says more.
    def _origin_msg(self) -> str:
        return ""

    def _concrete(self) -> Any:
        """The concrete value if this tracer merely wraps one, else None."""
        return None

    def _value_or(self, error: Callable[[], Exception]) -> Any:
        value = self._concrete()
        if value is None:
            raise error()
        return value

    @api_boundary
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise errors.TracerArrayConversionError(self)

    @api_boundary
    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        raise errors.ConcretizationTypeError(
            self, "a traced array has no memory to export through DLPack"
        )

    @api_boundary
    def tolist(self) -> Any:
        raise errors.ConcretizationTypeError(self, "tolist() needs the values of the array")

    @api_boundary
    def tobytes(self, order: str = "C") -> Any:
        raise errors.ConcretizationTypeError(self, "tobytes() needs the values of the array")

    @api_boundary
    def __bool__(self) -> bool:
        check_scalar_conversion(self, "bool")
        return bool(self._value_or(lambda: errors.TracerBoolConversionError(self)))

    @api_boundary
    def __int__(self) -> int:
        check_scalar_conversion(self, "int")
        return int(self._value_or(lambda: _scalar_error(self, "int")))

    @api_boundary
    def __float__(self) -> float:
        check_scalar_conversion(self, "float")
        return float(self._value_or(lambda: _scalar_error(self, "float")))

    @api_boundary
    def __complex__(self) -> complex:
        check_scalar_conversion(self, "complex")
        return complex(self._value_or(lambda: _scalar_error(self, "complex")))

    @api_boundary
    def __index__(self) -> int:
        check_integer_conversion(self)
        error = errors.TracerIntegerConversionError
        return self._value_or(lambda: error(self)).__index__()

    @api_boundary
    def item(self, *args: Any) -> Any:
        error = errors.ConcretizationTypeError
        value = self._value_or(lambda: error(self, "item() needs the value of the array"))
        return np.asarray(value).item(*args)

    @api_boundary
    def __reduce__(self) -> Any:
        raise errors.ConcretizationTypeError(self, "a traced array cannot be pickled")

    def addupdate(self, x: Any, idx: Any = ()) -> None:
        """Add ``x`` at an index of what is referred to; of references only."""
        if not self.aval.is_ref:
            raise AttributeError(f"{self.aval.str_short()} is not a reference: use x.at[...].add")
        self.aval.addupdate(self, x, idx)

    def __getattr__(self, name: str) -> Any:
        aval = object.__getattribute__(self, "aval")
        if aval.is_high:
            return aval.attribute(self, name)
        return object.__getattribute__(self, name)  # which says again why there is none

    def __copy__(self) -> Any:
        return lookup("copy").bind(self) if type(self.aval) is ShapedArray else self

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__copy__()

    def block_until_ready(self) -> Tracer:
        return self

    def copy_to_host_async(self) -> None:
        return None

    def __repr__(self) -> str:
        return f"{self.display}({self._type()})"

    def _type(self) -> str:
        """The abstract value in a few characters, a tilde for a weak type."""
        weak = getattr(self.aval, "weak_type", False)
        return f"{'~' if weak else ''}{self.aval.str_short()}"

    def __str__(self) -> str:
        return repr(self)

    def __format__(self, spec: str) -> str:
        return repr(self)


def _scalar_error(tracer: Tracer, name: str) -> Exception:
    return errors.ConcretizationTypeError(tracer, f"{name}() needs the value of the array")


def check_scalar_conversion(x: Array, name: str) -> None:
    """Raise where NumPy would, before the question of the value comes up."""
    if isinstance(x.dtype, dtypes.ExtendedDType):
        raise TypeError(f"an array of dtype {x.dtype} cannot be converted to {name}")
    if x.size != 1:
        if name == "bool":
            what = "empty" if x.size == 0 else "more than one element"
            raise ValueError(
                f"the truth value of an array with {what} is ambiguous (shape {x.shape});"
                " use a.any() or a.all()"
            )
        raise TypeError(f"only arrays of one element can be converted to {name}, got {x.shape}")
    if x.ndim and name != "bool":
        raise TypeError(f"only 0-dimensional arrays can be converted to {name}, got {x.shape}")


def check_integer_conversion(x: Array) -> None:
    if x.ndim or not dtypes.issubdtype(x.dtype, np.integer):
        raise TypeError(
            "only integer scalar arrays can be converted to a scalar index,"
            f" got {x.aval.str_short()}"
        )


def check_leaks(trace: Trace) -> None:
    """Raise if tracers of an ended trace are still alive; asked for by a knob, for it is slow.

    Cycles that keep it are looked for among new objects first: a walk over all takes a while where
    there are millions.
    """
    for generation in range(3):
        if sys.getrefcount(trace) <= _count_of_two():
            return
        gc.collect(generation)
    leaked = [x for x in gc.get_referrers(trace) if isinstance(x, Tracer)]
    if leaked:
        raise errors.still_alive(leaked)


@lru(1)
def _count_of_two() -> int:
    """References that are counted of what a function and its caller have a name for, no others."""
    x = object()
    return (lambda x: sys.getrefcount(x))(x)


def escaped_tracer_error(x: Tracer) -> Exception:
    """The error for a tracer that is used after its function has returned."""
    return errors.leaked_tracer(x)


# --- the abstract value of any input --------------------------------------------------------------

_python_scalars = {bool: np.bool_, int: np.int32, float: np.float32, complex: np.complex64}
aval_handlers: dict[type, Callable[[Any], AbstractValue]] = {}


def typeof(x: Any) -> Any:
    """Return the type of a value: shape, dtype, weak type and sharding.

    Args:
        x: Array, traced array, NumPy array or Python number.

    Returns:
        Abstract value, such as ``ShapedArray(float32[3])``.

    Example:
        >>> typeof(1.5)
        ShapedArray(float32[], weak_type=True)
    """
    handler = aval_handlers.get(type(x))
    if handler is not None:
        return handler(x)
    aval = getattr(x, "aval", None)
    if aval is not None:
        return aval
    for kind in type(x).__mro__:
        handler = aval_handlers.get(kind)
        if handler is not None:
            return handler(x)
    if hasattr(x, "__jax_array__"):
        raise ValueError(
            f"{x!r} of type {type(x).__name__} is converted to an array only by functions of "
            "weft.numpy; pass jnp.asarray(x), or register its class as a pytree"
        )
    advice = (
        "create arrays with weft.numpy.array, and pass the elements of Python containers one by one"
    )
    if isinstance(x, (str, bytes)) or callable(x):
        advice = "close over Python values, or keep them in static fields of registered dataclasses"
    raise TypeError(f"{x!r} of type {type(x).__name__} is not a valid array type; {advice}")


def _aval_of_ndarray(x: Any) -> AbstractValue:
    return ShapedArray(x.shape, canonical_numeric(x.dtype, x))


def canonical_numeric(dtype: np.dtype, x: Any = None) -> Any:
    """The canonical dtype of NumPy data; an error if it is not numeric, or masked."""
    # told by its looks: to ask numpy.ma would load it
    if type(x) is not np.ndarray and hasattr(x, "mask") and hasattr(x, "filled"):
        raise ValueError(
            "a masked array would lose its mask here; pass x.filled(value), or x.data and"
            " x.mask as two arrays"
        )
    if dtype.kind in "OSUMm" or (dtype.kind == "V" and dtype.isbuiltin == 1):
        if dtype != dtypes.float0:
            raise TypeError(
                f"{type(x).__name__} of dtype {dtype} is not a valid array type; weft arrays"
                " hold numbers and booleans"
            )
    return dtypes.canonicalize_dtype(dtype)


def _aval_of_scalar(x: Any) -> AbstractValue:
    kind = type(x)
    if kind in _python_scalars:
        return ShapedArray((), dtypes.scalar_type_to_dtype(kind, x), kind is not bool)
    for kind in _python_scalars:
        if isinstance(x, kind):
            return ShapedArray((), dtypes.scalar_type_to_dtype(kind, x), kind is not bool)
    raise TypeError(f"{type(x).__name__} is not a scalar")


def _aval_of_dim(x: Any) -> AbstractValue:
    return ShapedArray((), dtypes.default_int_dtype(), True)


for _kind in _python_scalars:
    aval_handlers[_kind] = _aval_of_scalar
aval_handlers[Polynomial] = _aval_of_dim
aval_handlers[np.ndarray] = _aval_of_ndarray
aval_handlers[np.generic] = _aval_of_ndarray


def box(value: np.ndarray, aval: Any) -> Array:
    """A concrete array over NumPy data that nobody else will change."""
    return hooks.box(value, aval)
