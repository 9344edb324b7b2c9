"""Functions handed to interpreters, in the form that extensions written for JAX expect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = [
    "StoreException", "WrappedFun", "merge_linear_aux", "transformation", "transformation2",
    "transformation_with_aux", "transformation_with_aux2", "wrap_init",
]  # fmt: skip


class StoreException(Exception):
    """The error when a side result is asked for before the function ran, or given twice.

    >>> issubclass(StoreException, Exception)
    True
    """


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
            raise StoreException("the function that sets this auxiliary result has not run")
        return self._held[0]


class WrappedFun:
    """A callable that interpreters call through ``call_wrapped``.

    Args:
        f: the function.
        params: parameters of transformations, by name.
        debug_info: the names of the function and its arguments.

    Example:
        >>> wrap_init(max).call_wrapped(1, 2)
        2
    """

    def __init__(
        self, f: Callable[..., Any], params: dict[str, Any], debug_info: Any = None
    ) -> None:
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
    """Return a function as a wrapped function.

    Args:
        f: the function.
        params: parameters of transformations, by name.
        debug_info: the names of the function and its arguments.

    Returns:
        A ``WrappedFun``.

    Example:
        >>> wrap_init(max).call_wrapped(1, 2)
        2
    """
    return WrappedFun(f, dict(params or {}), debug_info)


def transformation(gen: Callable[..., Any], fun: Any = None, *static: Any) -> Any:
    """Return a transformation written as a generator.

    The generator yields arguments, is sent results, and yields the new results.

    Args:
        gen: the transformation.
        fun: the wrapped function. Without it the result is a decorator.
        *static: further arguments of the transformation.

    Returns:
        A wrapped function, or a function of wrapped functions.

    Example:
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
    """Return a transformation written as a generator that yields a result and a side result.

    Args:
        gen: the transformation.
        fun: the wrapped function. Without it the result is a decorator.
        *static: further arguments of the transformation.

    Returns:
        A wrapped function, and a function that returns the side result once that one has run.

    Example:
        >>> @transformation_with_aux
        ... def counted(*args):
        ...     out = yield args, {}
        ...     yield out, len(args)
        >>> fun, count = counted(wrap_init(max))
        >>> fun.call_wrapped(1, 2), count()
        (2, 2)
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
    """Return a transformation written as a function of the function: ``gen(f, *static, *args)``.

    Args:
        gen: the transformation.
        fun: the wrapped function. Without it the result is a decorator.
        *static: further arguments of the transformation.

    Returns:
        A wrapped function, or a function of wrapped functions.

    Example:
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
    """Return a transformation with a side result: ``gen(f, store, *static, *args)``.

    ``gen`` calls ``store.store`` with the side result.

    Args:
        gen: the transformation.
        fun: the wrapped function. Without it the result is a decorator.
        *static: further arguments of the transformation.
        **options: accepted for JAX, no effect.

    Returns:
        A wrapped function, and a function that returns the side result once that one has run.

    Example:
        >>> @transformation_with_aux2
        ... def counted(f, store, *args):
        ...     store.store(len(args))
        ...     return f(*args)
        >>> fun, count = counted(wrap_init(max))
        >>> fun.call_wrapped(1, 2), count()
        (2, 2)
    """
    if fun is None:
        return lambda fun, *static, **options: transformation_with_aux2(gen, fun, *static)
    store = Store()

    def run(*args: Any, **kwargs: Any) -> Any:
        return gen(fun.call_wrapped, store, *static, *args, **kwargs)

    return fun.with_function(run), lambda: store.val


def merge_linear_aux(aux1: Callable[[], Any], aux2: Callable[[], Any]) -> tuple[bool, Any]:
    """Return the side result of whichever of two functions ran, and whether it was the first.

    Args:
        aux1: the function that returns the first side result.
        aux2: the function that returns the second.

    Returns:
        A pair of a boolean and the side result.

    Example:
        >>> def missing():
        ...     raise StoreException
        >>> merge_linear_aux(lambda: 5, missing)
        (True, 5)
    """
    try:
        return True, aux1()
    except StoreException:
        return False, aux2()
