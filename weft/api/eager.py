"""Operators on concrete arrays by native code, once the same types have come twice.

The first time an operator meets some types, the ordinary way through Python runs; a program of
its own is made at the second time, and native code answers from then on. Results do not change:
an operation that is rounded in another way natively runs natively from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.base import knobs
from weft.base.errors import locate
from weft.base.traceback import shorten
from weft.core.staging import stage
from weft.core.trace import is_tracing, typeof
from weft.runtime.array import ArrayImpl
from weft.runtime.evaluate import remember_operation
from weft.runtime.function import NativeFunction

# Types that one operator remembers having met; past it, it starts anew.
SEEN = 1024

_BINARY = """
__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __floordiv__ __mod__
__matmul__ __and__ __or__ __xor__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__
""".split()
_UNARY = ("__neg__", "__abs__", "__invert__")
# dtypes whose arrays take Python integers of any size that the default integer holds
_WIDE = frozenset(np.dtype(c) for c in "fdilq")


class Unknown(Exception):
    """An argument that native code does not take."""


class Eager(NativeFunction):
    """An operation on arrays that learns to be native."""

    __slots__ = ("_fun", "_seen")

    def __init__(self, fun: Callable[..., Any]) -> None:
        self._fun = fun
        self._seen: dict[Any, int] = {}

    def _slow(self, *args: Any) -> Any:
        result = self._fun(*args)
        if type(result) is ArrayImpl and knobs.thread.backend == "native" and not is_tracing():
            self._learn(args)
        return result

    def _key(self, args: Any) -> Any:
        """The types of the arguments; raises Unknown where native code cannot tell them."""
        first = args[0]
        key = []
        for x in args:
            kind = type(x)
            if kind is ArrayImpl:
                key.append(x.aval)
            elif kind is float and first.aval.dtype.kind in "biufc":
                key.append(float)
            elif kind is int and first.aval.dtype in _WIDE:
                key.append(int)
            else:
                raise Unknown
        return tuple(key)

    def _program(self, args: Any) -> tuple[Any, Any]:
        """The operation staged, and how native code takes each argument."""
        closed = stage(lambda *xs: [self._fun(*xs)], [typeof(x) for x in args])
        return closed, [("leaf", x) for x in args]

    def _learn(self, args: Any) -> None:
        try:
            key = (knobs.context_key(), self._key(args))
        except Unknown:
            return
        times = self._seen.get(key, 0) + 1
        if len(self._seen) >= SEEN:
            self._seen.clear()
        if times == 2:
            closed, given = self._program(args)
            times -= not remember_operation(self, closed, given)
        self._seen[key] = times


class Indexing(Eager):
    """``x[index]``: whole numbers are operands, slices are part of the program."""

    __slots__ = ()

    def _key(self, args: Any) -> Any:
        x, index = args
        return x.aval, _index_key(index)

    def _program(self, args: Any) -> tuple[Any, Any]:
        x, index = args
        operands: list[Any] = []
        collect(index, operands)
        fun = self._fun

        def pick(x: Any, *given: Any) -> list[Any]:
            return [fun(x, _rebuilt(index, iter(given)))]

        closed = stage(pick, [x.aval, *map(typeof, operands)])
        return closed, [("leaf", x), ("index", (index, x.aval.shape))]


def _index_key(index: Any) -> Any:
    kind = type(index)
    if kind is int:
        return int
    if kind is ArrayImpl and index.aval.dtype.kind in "iu":
        return index.aval
    if kind is slice:
        parts = (index.start, index.stop, index.step)
        if all(p is None or type(p) is int for p in parts):
            return slice, parts
    if index is None or index is Ellipsis:
        return index
    if kind is tuple:
        return tuple([_index_key(i) for i in index])
    raise Unknown


def collect(index: Any, operands: list[Any]) -> None:
    """The parts of an index that are operands, in order."""
    if type(index) is tuple:
        for part in index:
            collect(part, operands)
    elif type(index) in (int, ArrayImpl):
        operands.append(index)


def _rebuilt(index: Any, operands: Any) -> Any:
    """An index with its operands replaced."""
    if type(index) is tuple:
        return tuple([_rebuilt(part, operands) for part in index])
    return next(operands) if type(index) in (int, ArrayImpl) else index


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


def attach(name: str, method: Callable[..., Any]) -> None:
    """Give concrete arrays the operator that learns, of a method, where there is one."""
    if name == "__getitem__":
        setattr(ArrayImpl, name, _binary(Indexing(method), name))
    elif name in _BINARY:
        setattr(ArrayImpl, name, _binary(Eager(method), name))
    elif name in _UNARY:
        setattr(ArrayImpl, name, _unary(Eager(method), name))
