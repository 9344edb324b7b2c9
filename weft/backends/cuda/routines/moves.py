"""Arrays with their axes in another order, as kernels of the compiler's IR."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.base.functional import lru
from weft.kernel.build import Builder
from weft.kernel.kernel import Buffer, Kernel, Store, affine
from weft.kernel.program import contiguous


@lru(256)
def permute(shape: tuple[int, ...], order: tuple[int, ...], size: int) -> Kernel:
    """A kernel that gives an array of elements of some bytes with its axes in another order."""
    if size == 16:
        shape, order, size = (*shape, 2), (*order, len(shape)), 8
    dtype = np.dtype(f"u{size}")
    total = prod(shape)
    strides = contiguous(shape)
    axes = [(f"a{i}", shape[axis]) for i, axis in enumerate(order)]
    outs = contiguous([n for _, n in axes])
    reads = affine(0, {name: strides[axis] for (name, _), axis in zip(axes, order, strict=True)})
    writes = affine(0, {name: n for (name, _), n in zip(axes, outs, strict=True)})
    value = Builder().load(0, dtype, reads)
    buffers = [Buffer(dtype, total, "in"), Buffer(dtype, total, "out")]
    body: list[Any] = [Store(1, writes, value)]
    if len(axes) == 1:
        return Kernel("permute", buffers, axes[0], body)
    return Kernel("permute", buffers, ("grid", total), body, tuple(axes))
