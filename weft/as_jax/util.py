"""Small helpers that JAX keeps in ``jax._src.util`` and libraries borrow from there."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from weft.base.functional import concatenate as concatenate
from weft.base.functional import merge_lists as merge_lists
from weft.base.functional import name_of as name_of
from weft.base.functional import partition_list as partition_list
from weft.base.functional import safe_map as safe_map
from weft.base.functional import safe_zip as safe_zip
from weft.base.functional import split_list as split_list
from weft.base.functional import unzip2 as unzip2
from weft.base.functional import weakref_lru_cache as weakref_lru_cache
from weft.numpy import moveaxis as moveaxis


def unzip3(triples: Iterable[tuple[Any, Any, Any]]) -> tuple[list[Any], list[Any], list[Any]]:
    """Three lists of a list of triples.

    >>> unzip3([(1, 2, 3), (4, 5, 6)])
    ([1, 4], [2, 5], [3, 6])
    """
    rows = list(triples)
    return [r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows]


def foreach(f: Callable[..., Any], *args: Iterable[Any]) -> None:
    """Call a function on the elements of sequences of one length."""
    safe_map(f, *args)


def subvals(items: Sequence[Any], replace: Iterable[tuple[int, Any]]) -> tuple[Any, ...]:
    """The items, those at some positions replaced.

    >>> subvals((1, 2, 3), [(1, 5)])
    (1, 5, 3)
    """
    items = list(items)
    for position, value in replace:
        items[position] = value
    return tuple(items)


def tuple_insert(t: tuple[Any, ...], idx: int, val: Any) -> tuple[Any, ...]:
    """The tuple with a value before position ``idx``."""
    _check_position(idx, len(t) + 1)
    return (*t[:idx], val, *t[idx:])


def tuple_delete(t: tuple[Any, ...], idx: int) -> tuple[Any, ...]:
    """The tuple without position ``idx``."""
    _check_position(idx, len(t))
    return (*t[:idx], *t[idx + 1 :])


def tuple_update(t: tuple[Any, ...], idx: int, val: Any) -> tuple[Any, ...]:
    """The tuple with another value at position ``idx``."""
    _check_position(idx, len(t))
    return (*t[:idx], val, *t[idx + 1 :])


def _check_position(idx: int, end: int) -> None:
    if not 0 <= idx < end:
        raise IndexError(f"position {idx} is not in a tuple; it must be from 0 to {end - 1}")


def canonicalize_axis(axis: Any, num_dims: int) -> int:
    """An axis counted from the front.

    >>> canonicalize_axis(-1, 3)
    2
    """
    axis = int(axis)
    if not -num_dims <= axis < num_dims:
        raise ValueError(f"axis {axis} is out of bounds for an array of {num_dims} axes")
    return axis % num_dims


def ceil_of_ratio(x: int, y: int) -> int:
    """How many parts of size ``y`` hold ``x``."""
    return -(-x // y)


def next_power_of_2(x: int) -> int:
    """The smallest power of two that is at least ``x``.

    >>> next_power_of_2(5)
    8
    """
    if x < 0:
        raise ValueError(f"next_power_of_2 needs a number that is not negative, got {x}")
    return 1 << max(x - 1, 0).bit_length()


def curry(f: Callable[..., Any]) -> Callable[..., Any]:
    """``curry(f)(a)(b)`` is ``f(a, b)``."""
    return functools.partial(functools.partial, f)


def flatten(xs: Iterable[Iterable[Any]]) -> list[Any]:
    """The elements of lists, in one list."""
    return concatenate(xs)


def unflatten(xs: Iterable[Any], ns: Iterable[int]) -> list[list[Any]]:
    """Lists of the given lengths, of the elements of one.

    >>> unflatten([1, 2, 3], [1, 2])
    [[1], [2, 3]]
    """
    rest = iter(xs)
    return [[next(rest) for _ in range(n)] for n in ns]


def cache(max_size: int | None = 4096, *, trace_context_in_key: Any = True) -> Callable[..., Any]:
    """``functools.lru_cache`` of the given size."""
    return functools.lru_cache(maxsize=max_size)


def memoize(f: Callable[..., Any]) -> Callable[..., Any]:
    """``functools.lru_cache`` without a limit."""
    return functools.lru_cache(maxsize=None)(f)


def wraps(
    wrapped: Any, namestr: str | None = None, docstr: str | None = None, **kwargs: Any
) -> Callable[..., Any]:
    """``functools.wraps`` with templates for the name and the docstring."""

    def decorate(fun: Any) -> Any:
        name, doc = fun_name(wrapped), getattr(wrapped, "__doc__", "") or ""
        fun.__name__ = (namestr or "{fun}").format(fun=name)
        fun.__module__ = getattr(wrapped, "__module__", "<unknown module>")
        fun.__doc__ = (docstr or "{doc}").format(fun=name, doc=doc, **kwargs)
        fun.__qualname__ = getattr(wrapped, "__qualname__", fun.__name__)
        fun.__wrapped__ = wrapped
        return fun

    return decorate


def fun_name(fun: Any, default: str = "<unnamed function>") -> str:
    """The name of a function, or of that which a ``functools.partial`` is of."""
    name = name_of(fun)
    return default if name == "<unnamed function>" else name


class HashablePartial:
    """A ``functools.partial`` that is equal to another of the same function and arguments.

    >>> HashablePartial(max, 3) == HashablePartial(max, 3)
    True
    """

    def __init__(self, f: Any, *args: Any, **kwargs: Any) -> None:
        self.f, self.args, self.kwargs = f, args, kwargs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.f(*self.args, *args, **self.kwargs, **kwargs)

    def _key(self) -> Any:
        code = getattr(self.f, "__code__", self.f)
        return code, self.args, tuple(sorted(self.kwargs.items()))

    def __eq__(self, other: object) -> bool:
        return type(other) is HashablePartial and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


def prod(xs: Iterable[Any]) -> Any:
    """The product of sizes."""
    return np.prod([1, *xs], dtype=object)
