"""Functions that say themselves what ``vmap`` makes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.control.custom_batching import custom_vmap as custom_vmap
from weft.lax.control_flow import map as _map
from weft.tree.functions import tree_flatten, tree_map, tree_unflatten


def sequential_vmap(f: Callable[..., Any]) -> custom_vmap:
    """Return a function that ``vmap`` calls in a loop, once for each element.

    Args:
        f: the function.

    Returns:
        A ``custom_vmap`` function of the same arguments.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> @sequential_vmap
        ... def f(x):
        ...     weft.debug.print("{}", x)
        ...     return x + 1
        >>> weft.vmap(f)(jnp.arange(2))
        0
        1
        Array([1, 2], dtype=int32)
    """
    looped = custom_vmap(f)

    @looped.def_vmap
    def rule(axis_size: int, in_batched: Any, *args: Any) -> Any:
        leaves, tree = tree_flatten(args)
        flags = tree_flatten(tuple(in_batched))[0]

        def one(elements: Any) -> Any:
            given = iter(elements)
            return looped(
                *tree_unflatten(
                    tree, [next(given) if b else x for x, b in zip(leaves, flags, strict=True)]
                )
            )

        out = _map(one, [x for x, b in zip(leaves, flags, strict=True) if b])
        return out, tree_map(lambda _: True, out)

    return looped
