"""Notes on what is traced, for compilers; weft's has no use for them and keeps none."""

from __future__ import annotations

from typing import Any

from weft.core.trace import typeof
from weft.tree.functions import tree_leaves

__all__ = ["set_xla_metadata"]


class _Scope:
    """A block, or a function, in which notes hold."""

    def __init__(self, notes: dict[str, Any]) -> None:
        self.notes = notes

    def __enter__(self) -> _Scope:
        return self

    def __exit__(self, *error: Any) -> None:
        return None


def set_xla_metadata(x: Any = None, **kwargs: Any) -> Any:
    """Put notes on a value, or with ``x`` left out on what is traced in a ``with`` block.

    >>> import weft.numpy as jnp
    >>> with set_xla_metadata(scheduling="early"):
    ...     y = jnp.ones(2) + 1
    >>> set_xla_metadata(y, scheduling="late")
    Array([2., 2.], dtype=float32)
    """
    if x is None:
        return _Scope(kwargs)
    for leaf in tree_leaves(x):
        typeof(leaf)
    return x
