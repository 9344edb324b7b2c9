"""Functions handed to interpreters, in the form that extensions written for JAX expect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = [
    "StoreException", "WrappedFun", "merge_linear_aux", "transformation", "transformation2",
    "transformation_with_aux", "transformation_with_aux2", "wrap_init",
]  # fmt: skip


class StoreException(Exception):
    """A side result was asked for before the function ran, or given twice."""


class Store:
    """Where a transformed function leaves a side result."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: list[Any] = []

    def store(self, value: Any) -> None:
        """Leave the side result; that of the last call counts."""
        self._held[:] = [value]

    @property
    def val(self) -> Any:
        if not self._held:
            raise StoreException("the function whose side result is asked for has not run")
        return self._held[0]


class WrappedFun:
    """A callable that interpreters call through ``call_wrapped``."""

    def __init__(self, f: Callable[..., Any], params: dict[str, Any], debug_info: Any = None):
        self.f = f
        self.params = params
        self.debug_info = debug_info

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "<unnamed>")

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the function."""
        return self.f(*args, **{**self.params, **kwargs})

    def with_function(self, f: Callable[..., Any]) -> WrappedFun:
        """Another function, under the name of this one."""
        f.__name__ = self.__name__
        return WrappedFun(f, {}, self.debug_info)


def wrap_init(f: Callable[..., Any], params: Any = None, *, debug_info: Any = None) -> WrappedFun:
    """``f`` as a wrapped function.

    >>> wrap_init(max).call_wrapped(1, 2)
    2
    """
    return WrappedFun(f, dict(params or {}), debug_info)


def transformation(gen: Callable[..., Any], fun: Any = None, *static: Any) -> Any:
    """A transformation written as a generator: it yields arguments, is sent results, yields again.

    >>> @transformation
    ... def twice(*args):
    ...     out = yield args, {}
    ...     yield 2 * out
    >>> twice(wrap_init(max)).call_wrapped(1, 2)
    4
    """
    if fun is None:
        return lambda fun, *static: transformation(gen, fun, *static)

    def run(*args: Any, **kwargs: Any) -> Any:
        steps = gen(*static, *args, **kwargs)
        given, keywords = next(steps)
        return steps.send(fun.call_wrapped(*given, **keywords))

    return fun.with_function(run)


def transformation_with_aux(gen: Callable[..., Any], fun: Any = None, *static: Any) -> Any:
    """The same, of a generator that yields a result and a side result.

    Gives the function, and a function that gives the side result once that one has run.
    """
    if fun is None:
        return lambda fun, *static: transformation_with_aux(gen, fun, *static)
    store = Store()

    def run(*args: Any, **kwargs: Any) -> Any:
        steps = gen(*static, *args, **kwargs)
        given, keywords = next(steps)
        out, aux = steps.send(fun.call_wrapped(*given, **keywords))
        store.store(aux)
        return out

    return fun.with_function(run), lambda: store.val


def transformation2(gen: Callable[..., Any], fun: Any = None, *static: Any) -> Any:
    """A transformation written as a function of the function: ``gen(f, *static, *args)``.

    >>> @transformation2
    ... def twice(f, *args):
    ...     return 2 * f(*args)
    >>> twice(wrap_init(max)).call_wrapped(1, 2)
    4
    """
    if fun is None:
        return lambda fun, *static: transformation2(gen, fun, *static)

    def run(*args: Any, **kwargs: Any) -> Any:
        return gen(fun.call_wrapped, *static, *args, **kwargs)

    return fun.with_function(run)


def transformation_with_aux2(
    gen: Callable[..., Any], fun: Any = None, *static: Any, **options: Any
) -> Any:
    """The same with a side result: ``gen(f, store, *static, *args)`` calls ``store.store``."""
    if fun is None:
        return lambda fun, *static, **options: transformation_with_aux2(gen, fun, *static)
    store = Store()

    def run(*args: Any, **kwargs: Any) -> Any:
        return gen(fun.call_wrapped, store, *static, *args, **kwargs)

    return fun.with_function(run), lambda: store.val


def merge_linear_aux(aux1: Callable[[], Any], aux2: Callable[[], Any]) -> tuple[bool, Any]:
    """The side result of whichever of two functions ran, and whether it was the first."""
    try:
        return True, aux1()
    except StoreException:
        return False, aux2()
