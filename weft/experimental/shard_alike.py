"""Arrays that are to be divided over devices in the same way."""

from __future__ import annotations

from typing import Any

from weft.api.placement import device_put
from weft.core.sharding import NamedSharding
from weft.core.trace import Tracer, typeof
from weft.tree.functions import tree_flatten, tree_unflatten

__all__ = ["shard_alike"]


def shard_alike(x: Any, y: Any) -> tuple[Any, Any]:
    """Two trees of arrays of the same shapes, both divided as the one that is divided.

    Where one array is over a mesh and the other is not, the other is moved there. Within ``jit``
    it is a hint: the compiler divides operations by their operands, and moves nothing for it.

    >>> import weft.numpy as jnp
    >>> from weft.experimental.shard_alike import shard_alike
    >>> shard_alike(jnp.ones(2), jnp.zeros(2))
    (Array([1., 1.], dtype=float32), Array([0., 0.], dtype=float32))
    """
    xs, tree = tree_flatten(x)
    ys, other = tree_flatten(y)
    if tree != other:
        raise ValueError(f"shard_alike takes two trees of one structure, got {tree} and {other}")
    for a, b in zip(xs, ys, strict=True):
        if typeof(a).shape != typeof(b).shape:
            raise ValueError(
                f"shard_alike takes arrays of the same shapes, got {typeof(a).shape} and"
                f" {typeof(b).shape}"
            )
    pairs = [_alike(a, b) for a, b in zip(xs, ys, strict=True)]
    return tree_unflatten(tree, [a for a, _ in pairs]), tree_unflatten(tree, [b for _, b in pairs])


def _alike(x: Any, y: Any) -> tuple[Any, Any]:
    if isinstance(x, Tracer) or isinstance(y, Tracer):
        return x, y
    if _is_divided(x):
        return x, device_put(y, x.sharding)
    if _is_divided(y):
        return device_put(x, y.sharding), y
    return x, y


def _is_divided(x: Any) -> bool:
    place = getattr(x, "sharding", None)
    return isinstance(place, NamedSharding) and not place.is_fully_replicated
