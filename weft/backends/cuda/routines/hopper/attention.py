"""Attention by our kernels for Hopper GPUs: their launches, with arrays described for copies of
tiles."""

from __future__ import annotations

import ctypes
import math
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from weft.backends.cuda import driver
from weft.backends.cuda.routines.dnn_attention import Sizes
from weft.backends.cuda.routines.hopper.backward import Backward, backward_text
from weft.backends.cuda.routines.hopper.forward import Forward, forward_text
from weft.backends.cuda.routines.hopper.ptx import PANEL
from weft.base.functional import lru
from weft.kernel.nodes import F16

# Groups of four warps of a block, forward by depth, and rows of tiles that go by.
FORWARD_GROUPS, BACKWARD_GROUPS = {64: 3, 128: 2}, 2
FORWARD_WIDTH, BACKWARD_WIDTH = 128, 64
# Rows and columns from which on a block has something to do.
SMALLEST = 64
# Columns that a row sees, on average, from which on the forward pass beats cuDNN's, by depth.
LONG = {64: 2048, 128: 4096}


def known(sizes: Sizes) -> bool:
    """Whether these kernels compute an attention on this machine's GPU."""
    return (
        sizes.depth in (64, 128)
        and min(sizes.rows, sizes.columns) >= SMALLEST
        and max(max(strides) for strides in sizes.strides) < 1 << 31  # bytes have 32 bits
        and driver.count() > 0
        and driver.device().architecture == 90
    )


def faster(sizes: Sizes) -> bool:
    """Whether the forward pass is faster than cuDNN's."""
    return sizes.columns // (1 if sizes.shift is None else 2) >= LONG[sizes.depth]


def padded(rows: int) -> int:
    """The rows, as the numbers of each are kept for the backward pass."""
    return -(-rows // (64 * BACKWARD_GROUPS)) * 64 * BACKWARD_GROUPS


def _kind(sizes: Sizes) -> str:
    return "f16" if sizes.dtype == F16 else "bf16"


def forward_of(s: Sizes) -> Forward:
    return Forward(
        *(_kind(s), s.depth, s.batch, s.heads, s.shared, s.rows, s.columns, s.shift),
        *(s.scale * math.log2(math.e), s.strides[3], FORWARD_GROUPS[s.depth], FORWARD_WIDTH),
    )


def backward_of(s: Sizes, by_columns: bool) -> Backward:
    strides = s.strides[1:3] if by_columns else s.strides[:1]
    return Backward(
        *(by_columns, _kind(s), s.depth, s.batch, s.heads, s.shared, s.rows, s.columns),
        *(padded(s.rows), s.shift, s.scale, strides, BACKWARD_GROUPS, BACKWARD_WIDTH),
    )


@lru(1)
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(3, "hopper")


@driver.per_device(64)
def _loaded(kernel: Forward | Backward) -> Future[driver.Function]:
    """The kernel, assembled by the driver, which keeps what it assembles, beside other work."""
    device = driver.device()

    def load() -> driver.Function:
        device.use()
        write: Any = forward_text if isinstance(kernel, Forward) else backward_text
        return driver.Function(write(kernel), "kernel", kernel.bytes)

    return _workers().submit(load)


class Launch:
    """A kernel on arrays of an attention: maps of some, addresses of others."""

    def __init__(self, kernel: Forward | Backward, s: Sizes, which: tuple[int, ...]) -> None:
        """``which`` are the arrays that tiles are copied of, by number: queries, keys, values,
        results and gradients of results; as many as are owned by a block first."""
        self.kernel, self.sizes = kernel, s
        self.function = _loaded(kernel)
        owned = 1 if isinstance(kernel, Forward) else 2
        self.maps = []
        for i, number in enumerate(which):
            few = number in (1, 2)
            rows, heads = (s.columns, s.shared) if few else (s.rows, s.heads)
            batch, head, row = s.strides[number]
            tile = kernel.tile if i < owned else kernel.width
            strides = (2 * row, 2 * head, 2 * batch)
            self.maps.append(((s.depth, rows, heads, s.batch), strides, (PANEL, tile, 1, 1)))

    def run(self, stream: Any, *addresses: int) -> None:
        count = len(self.maps)
        kind = _kind(self.sizes)
        given: list[Any] = [
            driver.tensor_map(kind, address, *described)
            for address, described in zip(addresses, self.maps, strict=False)
        ]
        given += map(ctypes.c_uint64, addresses[count:])
        function, kernel = self.function.result(), self.kernel
        function.launch_with(kernel.blocks, kernel.threads, given, stream)
