"""Notes on what is traced: equations keep them, and StableHLO text shows them.

They are for other compilers, as attributes of operations; weft's own has no use for them.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any

from weft.base import knobs, source
from weft.core.jaxpr import ClosedJaxpr
from weft.core.primitive import Primitive
from weft.core.staging import stage
from weft.tree.functions import tree_map

__all__ = ["set_xla_metadata"]


class _Scope(ContextDecorator):
    """A block, or a function, in which notes hold beside those around it."""

    def __init__(self, notes: dict[str, Any]) -> None:
        self.notes = notes
        self.entered: list[Any] = []

    def __enter__(self) -> None:
        source.has_notes = True
        both = {**dict(knobs.thread.xla_metadata), **self.notes}
        scope = knobs.xla_metadata(tuple(sorted(both.items())))
        scope.__enter__()
        self.entered.append(scope)

    def __exit__(self, *error: Any) -> None:
        self.entered.pop().__exit__(*error)


class Note(Primitive):
    """A value with notes on the operation that gives it."""

    def __init__(self) -> None:
        self.name = "xla_metadata_value"  # not entered among weft's own primitives
        self.differentials = ()

    def shape(self, x: Any, **params: Any) -> Any:
        return x

    def ref(self, x: Any, **params: Any) -> Any:  # type: ignore[override]
        return x

    def program(self, avals: Any, params: dict[str, Any]) -> ClosedJaxpr:
        return stage(lambda x: [x], avals)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        return self.bind(*primals, **params), tangents[0]

    def batch(self, axis: Any, args: Any, dims: Any, **params: Any) -> tuple[Any, Any]:
        return self.bind(*args, **params), dims[0]


xla_metadata_value_p = Note()


def set_xla_metadata(x: Any = None, **kwargs: Any) -> Any:
    """Put notes on a value, or on what is traced in a block or a function.

    Args:
        x: the value, or a function. Without it the result is a context manager.
        **kwargs: the notes, by name.

    Returns:
        The value, the function, or a context manager.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> def f(x):
        ...     with set_xla_metadata(scheduling="early"):
        ...         return jnp.sin(x)
        >>> 'mhlo.frontend_attributes = {scheduling = "early"}' in weft.jit(f).lower(1.0).as_text()
        True
    """
    if x is None:
        return _Scope(kwargs)
    if not kwargs:
        return x
    notes = tuple(sorted(kwargs.items()))
    return tree_map(lambda leaf: xla_metadata_value_p.bind(leaf, xla_metadata_kvs=notes), x)
