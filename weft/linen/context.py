"""What goes on in this thread: the modules being called, interceptors, captures, call records."""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


class _Context(threading.local):
    def __init__(self):
        self.modules: list[Any] = [None]
        self.captures: list[Any] = []
        self.interceptors: list[Any] = []
        self.records: list[Any] = []


context = _Context()


class _Naming:
    """Whether calls of modules name what they compute, for profiles and ``weft.explain``."""

    enabled = True


naming = _Naming()


def enable_named_call() -> None:
    """Name what every module computes after it, in profiles; the default.

    >>> from weft import linen as nn
    >>> nn.enable_named_call()
    """
    naming.enabled = True


def disable_named_call() -> None:
    """Stop naming what modules compute after them.

    >>> from weft import linen as nn
    >>> nn.disable_named_call()
    >>> nn.enable_named_call()
    """
    naming.enabled = False


@contextlib.contextmanager
def override_named_call(enable: bool = True) -> Iterator[None]:
    """Return a context manager in which modules name what they compute, or do not.

    Args:
        enable: whether they do.

    Returns:
        A context manager.

    Example:
        >>> from weft import linen as nn
        >>> with nn.override_named_call(False):
        ...     pass
    """
    before, naming.enabled = naming.enabled, enable
    try:
        yield
    finally:
        naming.enabled = before


@dataclass(frozen=True)
class InterceptorContext:
    """What an interceptor is told: the module, the method's name, and the method itself."""

    module: Any
    method_name: str
    orig_method: Any


@contextlib.contextmanager
def intercept_methods(interceptor: Callable[..., Any]) -> Iterator[None]:
    """Return a context manager in which a function is called instead of every module method.

    Args:
        interceptor: ``interceptor(next_fun, args, kwargs, context)``; ``next_fun(*args, **kwargs)``
            calls the method, and ``context`` says which one it is.

    Returns:
        A context manager.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> def double(next_fun, args, kwargs, context):
        ...     return next_fun(*args, **kwargs) * 2
        >>> model = nn.Dense(1, kernel_init=nn.initializers.ones)
        >>> with nn.intercept_methods(double):
        ...     out, _ = model.init_with_output(weft.random.key(0), jnp.ones(3))
        >>> out
        Array([6.], dtype=float32)
    """
    context.interceptors.append(interceptor)
    try:
        yield
    finally:
        context.interceptors.pop()


def run_interceptors(fun, name: str, module, args, kwargs):
    """Call a method through every interceptor, the innermost scope first."""
    call = functools.partial(fun, module)
    about = InterceptorContext(module, name, call)
    for interceptor in reversed(context.interceptors):
        call = _intercepted(interceptor, call, about)
    return call(*args, **kwargs)


def _intercepted(interceptor, fun, about):
    @functools.wraps(fun.func if isinstance(fun, functools.partial) else fun)
    def call(*args, **kwargs):
        return interceptor(fun, args, kwargs, about)

    return call
