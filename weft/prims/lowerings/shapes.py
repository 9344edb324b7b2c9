"""Shapes: many copies of an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.prims.shape import broadcast_in_dim, reshape


def tile(x: Any, *, reps: Any) -> Any:
    """An array repeated along each dimension: a new one before each, along which it is the same."""
    shape = np.shape(x)
    both = [size for pair in zip(reps, shape, strict=True) for size in pair]
    wide = broadcast_in_dim(x, tuple(both), tuple(range(1, 2 * len(shape), 2)))
    return reshape(wide, tuple(n * r for n, r in zip(shape, reps, strict=True)))
