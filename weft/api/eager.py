"""Operators on concrete arrays by native code, once the same types have come twice.

The first time an operator meets some types, the ordinary way through Python runs; a program of
its own is made at the second time, or as soon after as there is time for it (see
``weft.runtime.policy``), and native code answers from then on. Results do not change: an
operation that is rounded in another way natively runs natively from the start.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from weft.api.learning import SEEN, Learning, Unknown, staged_reading
from weft.base import knobs, observing
from weft.base.errors import locate
from weft.base.functional import name_of
from weft.base.source import refusing_warnings
from weft.base.traceback import named_as, shorten
from weft.core.staging import stage
from weft.core.trace import is_tracing, typeof
from weft.runtime import evaluate, guards, policy
from weft.runtime.array import ArrayImpl, from_numpy
from weft.runtime.client import host
from weft.runtime.evaluate import remember
from weft.runtime.function import NativeFunction
from weft.runtime.patterns import OperationPattern
from weft.runtime.shapes import Kinds

_BINARY = """
__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __floordiv__ __mod__
__matmul__ __and__ __or__ __xor__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__
""".split()
_UNARY = ("__neg__", "__abs__", "__invert__")
# dtypes whose arrays take Python integers of any size that the default integer holds
_WIDE = frozenset(np.dtype(c) for c in "fdilq")
_OPERANDS = (int, ArrayImpl, np.ndarray)
_BUILTIN = frozenset(np.dtype(c) for c in "?bhilqBHILQefdFD")
# dtypes of NumPy scalars that native code does not read where arrays have 32 bits
_CUT = frozenset(np.dtype(c) for c in "LQD")
# dtypes of floats that round them, and those that are rounded once at most on their way there
_HALVES = frozenset([np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)])
_REAL = _HALVES | frozenset(np.dtype(c) for c in "bhilqBHILQfd")
_FEW = range(-(1 << 15), 1 << 15)


class Eager(NativeFunction):
    """An operation on arrays that learns to be native."""

    __slots__ = ("_fun", "_named", "_seen")

    def __init__(self, fun: Callable[..., Any]) -> None:
        self._fun = fun
        # how often arguments of some types have come, or the program in named sizes that took them
        self._seen: dict[Any, Any] = {}
        self._named = Kinds()

    def _slow(self, *args: Any, **options: Any) -> Any:
        if observing.begins():
            return guards.observed(self, name_of(self._fun).strip("_"), args, options)
        if knobs.thread.context_key.plain is not None:
            return guards.natively(self, args, options)
        if guards.is_on() and not is_tracing():
            guards.from_host(args, "an operation")
            return self._fun(*args, **options)
        idle = not is_tracing() and host().learns
        if idle and type(args[0]) is ArrayImpl:
            plain = self._plain(args)
            if plain is not None:
                return self(*plain, **options)
        if not idle:
            return self._fun(*args, **options)
        if not options:
            sized = self._sized(args)
            if sized is not None:
                return sized
        result = self._compute(args, options)
        if type(result) is ArrayImpl:
            self._learn(args, options)
        return result

    def _compute(self, args: Any, options: dict[str, Any]) -> Any:
        """The result, while nothing is traced."""
        return self._fun(*args, **options)

    def _plain(self, args: Any) -> Any:
        """The arguments with arrays for what of NumPy's native code cannot read, if there is any.

        It says what they are while nothing is traced, so they are the same to the operation.
        """
        if any(_is_foreign(x) for x in args[1:]):
            return [from_numpy(np.asarray(x)) if _is_foreign(x) else x for x in args]
        return None

    def _key(self, args: Any) -> Any:
        """The types of the arguments; raises Unknown where native code cannot tell them."""
        first = args[0]
        return tuple([operand_key(x, first.aval.dtype) for x in args])

    def _parts(self, args: Any, options: dict[str, Any]) -> tuple[Any, Any]:
        """The operation as a function of arrays and numbers alone, and these."""
        fun = self._fun
        return lambda *xs: [fun(*xs, **options)], args

    def _given(self, args: Any) -> list[Any]:
        """How native code takes each argument."""
        return [("leaf", expected(x, args[0].aval.dtype)) for x in args]

    def _sized(self, args: Any) -> Any:
        """The result by a program in named sizes, if there is one that serves these."""
        thread = knobs.thread
        if not thread.shape_generic or thread.no_tracing or evaluate.is_restricted():
            return None
        if type(args[0]) is not ArrayImpl:
            return None
        try:
            key = (knobs.context_key(), self._key(args), ())
            seen = self._seen.get(key)
        except (Unknown, TypeError):
            return None
        if type(seen) is int or (seen is None and observing.holds()):
            return None
        fun, leaves = self._parts(args, {})
        if seen is None:
            trace = lambda avals: (stage(fun, avals), None)
            served = self._named.find(leaves, self._structure(args), trace)
            if served is None:
                return None
            seen = self._seen[key] = served[0]
        elif seen.elements() <= policy.FEW_ELEMENTS:
            avals = [typeof(x) for x in leaves]
            found = OperationPattern(self, self._given(args), {}, None)
            host().remember_instance(found, avals, seen)
        elif not observing.holds():
            self._seen[key] = 1  # code for large arrays is worth making
            return None
        return host().call_instance(seen, leaves)[0]

    def _structure(self, args: Any) -> tuple[Any, ...]:
        """What of arguments is part of a program."""
        return ()

    def _program(self, args: Any, options: dict[str, Any]) -> tuple[Any, Any]:
        """The operation staged, and how native code takes each argument."""
        return staged_reading(*self._parts(args, options)), self._given(args)

    def _learn(self, args: Any, options: dict[str, Any]) -> None:
        try:
            named = tuple([(k, type(v), v) for k, v in sorted(options.items())])
            key = (knobs.context_key(), self._key(args), named)
            times = self._seen.get(key, 0) + 1
        except (Unknown, TypeError):
            return
        if len(self._seen) >= SEEN:
            self._seen.clear()
        if knobs.thread.no_tracing or (times == 2 and observing.holds()):
            return
        if times == 2 and not policy.account.allows():
            return
        if times == 2:
            try:
                with refusing_warnings():
                    closed, given = self._program(args, options)
            except Exception:
                closed = None  # the values decide, or there is a warning: it stays Python's
            if closed is not None:
                times -= not remember(OperationPattern(self, given, options, closed))
        self._seen[key] = times


def _is_foreign(x: Any) -> bool:
    """Whether NumPy's numbers do not lie as native code reads them."""
    kind = type(x)
    if kind is np.ndarray:
        flags = x.flags
        return x.dtype in _BUILTIN and not (flags.c_contiguous and flags.aligned)
    return isinstance(x, np.generic) and x.dtype in _CUT and not knobs.thread.enable_x64


def operand_key(x: Any, dtype: Any) -> Any:
    """The type of an operand beside an array of a dtype; raises Unknown for what has none."""
    kind = type(x)
    if kind is ArrayImpl:
        return x._type
    if (kind is np.ndarray or isinstance(x, np.generic)) and x.dtype in _BUILTIN:
        return kind, x.shape, x.dtype
    if dtype in _BUILTIN and (kind is float or kind is bool):
        return kind
    if kind is int:
        if x in _span(dtype):
            return kind
    raise Unknown


def expected(x: Any, dtype: Any) -> Any:
    """An operand as native code is told of it."""
    return _span(dtype) if type(x) is int and dtype not in _WIDE else x


@functools.cache
def _span(dtype: Any) -> range:
    """The Python integers that an operation takes beside arrays of a dtype without complaint."""
    if dtype in _WIDE:
        return range(-(1 << 63), 1 << 63)
    if dtype in _BUILTIN and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return range(limits.min, min(limits.max, (1 << 31) - 1) + 1)
    return _FEW if dtype in _HALVES else range(0)


class Indexing(Eager):
    """``x[index]``: whole numbers are operands, slices are part of the program."""

    __slots__ = ()

    def _plain(self, args: Any) -> Any:
        x, index, *rest = args
        plain = _plain_index(index)
        return None if plain is index else [x, plain, *rest]

    def _key(self, args: Any) -> Any:
        x, index = args
        return x._type, _index_key(index, "iu")

    def _parts(self, args: Any, options: dict[str, Any]) -> tuple[Any, Any]:
        x, index = args
        operands: list[Any] = []
        collect(index, operands)
        fun = self._fun

        def pick(x: Any, *given: Any) -> list[Any]:
            return [fun(x, _rebuilt(index, iter(given)), **options)]

        return pick, [x, *operands]

    def _given(self, args: Any) -> list[Any]:
        x, index = args[:2]
        operands: list[Any] = []
        collect(index, operands)
        return [("leaf", x), ("index", (index, x.aval.shape, len(operands)))]

    def _structure(self, args: Any) -> tuple[Any, ...]:
        return (_index_structure(args[1]),)


class Updating(Indexing):
    """``x.at[index].set(values)`` and the like, of the array, the index and the values.

    ``masked`` is the operation for an index that is a mask and values that are one number: where
    nothing is traced, ``fun`` looks at the mask.
    """

    __slots__ = ("_masked",)

    def __init__(self, fun: Callable[..., Any], masked: Callable[..., Any]) -> None:
        super().__init__(fun)
        self._masked = masked

    def _plain(self, args: Any) -> Any:
        x, index, *values = args
        plain = _plain_index(index)
        if type(plain) is np.ndarray and plain.dtype == np.bool_:
            plain = from_numpy(plain)
        given = [from_numpy(np.asarray(v)) if _is_foreign(v) else v for v in values]
        same = plain is index and all(a is b for a, b in zip(given, values, strict=True))
        return None if same else [x, plain, *given]

    def _compute(self, args: Any, options: dict[str, Any]) -> Any:
        # how many elements a mask picks would be another size each time
        if not options and len(args) == 3 and _is_mask(args[1]) and _takes_mask(*args):
            return self._masked(*args)
        return self._fun(*args, **options)

    def _key(self, args: Any) -> Any:
        if len(args) != 3:
            raise Unknown
        x, index, values = args
        aval = x.aval
        key = _index_key(index, "biu")
        if _is_mask(index) and not _takes_mask(x, index, values):
            raise Unknown
        return x._type, key, operand_key(values, aval.dtype)

    def _parts(self, args: Any, options: dict[str, Any]) -> tuple[Any, Any]:
        x, index, values = args
        operands: list[Any] = []
        collect(index, operands)
        fun = self._masked if _is_mask(index) else self._fun

        def update(x: Any, *given: Any) -> list[Any]:
            *parts, values = given
            return [fun(x, _rebuilt(index, iter(parts)), values, **options)]

        return update, [x, *operands, values]

    def _given(self, args: Any) -> list[Any]:
        return [*super()._given(args), ("leaf", expected(args[2], args[0].aval.dtype))]


def _is_mask(index: Any) -> bool:
    return type(index) is ArrayImpl and index.aval.dtype == np.bool_


def _takes_mask(x: Any, mask: Any, value: Any) -> bool:
    """Whether an update by a mask does the same to all its elements, whichever they are."""
    aval, shape = x.aval, mask.aval.shape
    if aval.dtype not in _REAL or type(value) not in (ArrayImpl, float, int, bool):
        return False
    # a mask without dimensions is a new axis
    return bool(shape) and shape == aval.shape[: len(shape)] and not np.ndim(value)


def _plain_index(index: Any) -> Any:
    """An index with numbers and arrays for those of NumPy's; itself where there are none."""
    kind = type(index)
    if kind is tuple:
        parts = tuple([_plain_index(i) for i in index])
        same = all(a is b for a, b in zip(parts, index, strict=True))
        return index if same else parts
    if isinstance(index, np.integer):
        return int(index)
    if kind is np.ndarray and index.dtype.kind in "iu" and _is_foreign(index):
        return from_numpy(index)
    return index


def _index_key(index: Any, kinds: str) -> Any:
    kind = type(index)
    if kind is int:
        return int
    if kind is ArrayImpl and index.aval.dtype.kind in kinds:
        return index._type
    if kind is np.ndarray and index.dtype.kind in "iu" and index.dtype in _BUILTIN:
        return kind, index.shape, index.dtype
    if kind is slice:
        parts = (index.start, index.stop, index.step)
        if all(p is None or type(p) is int for p in parts):
            return slice, parts
    if index is None or index is Ellipsis:
        return index
    if kind is tuple:
        return tuple([_index_key(i, "iu") for i in index])
    raise Unknown


def _index_structure(index: Any) -> Any:
    """An index without its operands."""
    if type(index) is tuple:
        return tuple([_index_structure(part) for part in index])
    if type(index) is slice:
        return slice, index.start, index.stop, index.step
    return None if type(index) in _OPERANDS else (type(index), index)


def collect(index: Any, operands: list[Any]) -> None:
    """The parts of an index that are operands, in order."""
    if type(index) is tuple:
        for part in index:
            collect(part, operands)
    elif type(index) in _OPERANDS:
        operands.append(index)


def _rebuilt(index: Any, operands: Any) -> Any:
    """An index with its operands replaced."""
    if type(index) is tuple:
        return tuple([_rebuilt(part, operands) for part in index])
    return next(operands) if type(index) in _OPERANDS else index


def _binary(eager: Eager, name: str) -> Any:
    def operate(self: Any, other: Any) -> Any:
        try:
            return eager(self, other)
        except Exception as error:
            locate(error)
            shorten(error)
            raise

    operate.__name__ = operate.__qualname__ = name
    return operate


def _unary(eager: Eager, name: str) -> Any:
    def operate(self: Any) -> Any:
        try:
            return eager(self)
        except Exception as error:
            locate(error)
            shorten(error)
            raise

    operate.__name__ = operate.__qualname__ = name
    return operate


def learnt_method(method: Any, part: Any, masked: Callable[..., Any] | None = None) -> Any:
    """A method of parts of arrays that learns: ``part(x, index).method(values)``.

    ``masked`` is what updates do for masks, and None where nothing is updated.
    """

    def fun(x: Any, index: Any, *values: Any, **options: Any) -> Any:
        return method(part(x, index), *values, **options)

    eager = Indexing(fun) if masked is None else Updating(fun, masked)

    def operate(self: Any, *values: Any, **options: Any) -> Any:
        try:
            return eager(self.array, self.index, *values, **options)
        except Exception as error:
            locate(error)
            shorten(error)
            raise

    return named_as(method, operate)


def attach(name: str, method: Callable[..., Any]) -> None:
    """Give concrete arrays the operator that learns, of a method, where there is one."""
    if name == "__getitem__":
        setattr(ArrayImpl, name, _binary(Indexing(method), name))
    elif name == "__matmul__":
        # sums are rounded in another order natively: it is native from the first call on
        setattr(ArrayImpl, name, _binary(Eager(Learning(method)), name))
    elif name in _BINARY:
        setattr(ArrayImpl, name, _binary(Eager(method), name))
    elif name in _UNARY:
        setattr(ArrayImpl, name, _unary(Eager(method), name))
