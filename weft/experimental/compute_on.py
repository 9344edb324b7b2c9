"""Where a part of a program is to be computed: beside or on the device.

On a CPU the device is the host, so both are the same place. On a GPU everything runs on the GPU.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from weft.api.placement import device_put
from weft.memory import Space
from weft.tree.compare import broadcast_prefix
from weft.tree.functions import tree_flatten, tree_unflatten

__all__ = ["compute_on", "compute_on2"]

_KINDS = ("device_host", "device", "tpu_sparsecore")


def _check(compute_type: Any) -> None:
    if not isinstance(compute_type, str):
        raise TypeError(f"compute_type must be a string, got {compute_type!r}")
    if compute_type not in _KINDS and not compute_type.startswith("gpu_stream:"):
        raise ValueError(
            f"compute_type must be one of {', '.join(_KINDS)} or 'gpu_stream:N', got "
            f"{compute_type!r}"
        )


@contextmanager
def compute_on(compute_type: str) -> Iterator[None]:
    """A block, or a function, whose operations are to be computed at a place.

    >>> import weft, weft.numpy as jnp
    >>> from weft.experimental.compute_on import compute_on
    >>> @compute_on("device_host")
    ... def double(x):
    ...     return 2 * x
    >>> weft.jit(double)(jnp.ones(2))
    Array([2., 2.], dtype=float32)
    """
    _check(compute_type)
    yield


def compute_on2(
    f: Callable[..., Any] | None = None,
    *,
    compute_type: str,
    out_memory_spaces: Any,
    compiler_options: Any = None,
) -> Callable[..., Any]:
    """``f`` computed at a place, its results in memory spaces, one or a tree of them.

    >>> import weft, weft.numpy as jnp
    >>> from weft.experimental.compute_on import compute_on2
    >>> space = weft.memory.Space.Device
    >>> compute_on2(jnp.sin, compute_type="device_host", out_memory_spaces=space)(jnp.zeros(2))
    Array([0., 0.], dtype=float32)
    """
    if f is None:
        options = {"compute_type": compute_type, "out_memory_spaces": out_memory_spaces}
        return functools.partial(compute_on2, **options, compiler_options=compiler_options)
    _check(compute_type)
    is_space = lambda x: isinstance(x, Space)

    @functools.wraps(f)
    def placed(*args: Any, **kwargs: Any) -> Any:
        outs = f(*args, **kwargs)
        leaves, tree = tree_flatten(outs)
        spaces = broadcast_prefix(out_memory_spaces, outs, is_leaf=is_space)
        moved = [device_put(x, space) for x, space in zip(leaves, spaces, strict=True)]
        return tree_unflatten(tree, moved)

    return placed
