"""Showing how arrays are laid out over devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.control.callbacks import inspect_sharding_p


def inspect_array_sharding(value: Any, *, callback: Callable[[Any], None]) -> None:
    """Call a function with the sharding of an array, also within staged programs.

    Args:
        value: the array.
        callback: the function of a sharding.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> inspect_array_sharding(jnp.zeros(3), callback=lambda s: print(s.num_devices))
        1
    """
    inspect_sharding_p.bind(value, callback=callback)


def visualize_sharding(
    shape: Any,
    sharding: Any,
    *,
    use_color: bool = True,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: Any = None,
) -> None:
    """Print which device holds which part of an array of one or two dimensions.

    Args:
        shape: the shape of the array.
        sharding: its sharding.
        use_color: accepted for JAX, no effect.
        scale: accepted for JAX, no effect.
        min_width: the smallest width of a part, in characters.
        max_width: the largest width of the drawing.
        color_map: accepted for JAX, no effect.

    Example:
        >>> import weft.numpy as jnp
        >>> visualize_sharding((4, 4), jnp.zeros(4).sharding)
        +---------+
        |  CPU 0  |
        +---------+
    """
    shape = tuple(shape)
    if not 1 <= len(shape) <= 2:
        raise ValueError(
            f"visualize_sharding shows arrays of one or two dimensions, got shape {shape}"
        )
    rows, columns = _grid(shape, sharding)
    labels = _labels(shape, sharding, rows, columns)
    width = max(min_width, max(len(text) for row in labels for text in row) + 2)
    width = min(width, max(max_width // columns - 1, 3))
    line = "+" + "+".join(["-" * width] * columns) + "+"
    print(line)
    for row in labels:
        print("|" + "|".join(text.center(width) for text in row) + "|")
        print(line)


def _grid(shape: tuple[int, ...], sharding: Any) -> tuple[int, int]:
    part = sharding.shard_shape(shape)
    counts = [n // p if p else 1 for n, p in zip(shape, part, strict=True)]
    return (1, counts[0]) if len(counts) == 1 else (counts[0], counts[1])


def _labels(shape: Any, sharding: Any, rows: int, columns: int) -> list[list[str]]:
    """The devices of each part, by the order of the mesh axes that the spec names."""
    devices = sorted(sharding.device_set, key=lambda d: d.id)
    mesh = getattr(sharding, "mesh", None)
    if mesh is None:
        everyone = ",".join(map(_name, devices))
        return [[everyone] * columns for _ in range(rows)]
    spec = [*sharding.spec, *[None] * (len(shape) - len(sharding.spec))]
    groups = [() if s is None else s if isinstance(s, tuple) else (s,) for s in spec]
    named = [mesh.axis_names.index(name) for group in groups for name in group]
    others = [i for i in range(mesh.devices.ndim) if i not in named]
    laid = mesh.devices.transpose([*named, *others]).reshape(rows, columns, -1)
    return [[",".join(map(_name, cell)) for cell in row] for row in np.asarray(laid)]


def _name(device: Any) -> str:
    return f"{device.platform.upper()} {device.id}"


def visualize_array_sharding(arr: Any, **kwargs: Any) -> None:
    """Print which device holds which part of an array, also within staged programs.

    Args:
        arr: the array.
        **kwargs: the options of ``visualize_sharding``.

    Example:
        >>> import weft.numpy as jnp
        >>> visualize_array_sharding(jnp.zeros(4))
        +---------+
        |  CPU 0  |
        +---------+
    """
    shape = np.shape(arr)
    inspect_array_sharding(arr, callback=lambda s: visualize_sharding(shape, s, **kwargs))
