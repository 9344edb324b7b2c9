"""Functions handed to interpreters, in the form that extensions written for JAX expect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class WrappedFun:
    """A callable that interpreters call through ``call_wrapped``."""

    def __init__(self, f: Callable[..., Any], params: dict[str, Any]) -> None:
        self.f = f
        self.params = params

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "<unnamed>")

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        return self.f(*args, **{**self.params, **kwargs})


def wrap_init(f: Callable[..., Any], params: Any = None, **_: Any) -> WrappedFun:
    """``f`` as a wrapped function."""
    return WrappedFun(f, dict(params or {}))
