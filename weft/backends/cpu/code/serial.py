"""Kernels with serial loops, atomics and barriers as LLVM text.

They are what operations without a hand-written routine are lowered to. A kernel with atomics is run
by one thread, in order.
"""

from __future__ import annotations

from weft.backends.llvm.code import Module
from weft.backends.llvm.text.loops import scalar_loop
from weft.backends.llvm.text.render import Function
from weft.backends.llvm.text.serial import Writer
from weft.kernel.kernel import Atomic, Kernel, Loop, statements

# Iterations of the grid that make a chunk, so that their work is worth a thread.
CHUNK_ITERATIONS = 256


def chunk(kernel: Kernel) -> int:
    """Iterations of the grid that make a chunk; all of them where they meet in memory."""
    extent = 1 if kernel.grid is None else kernel.grid[1]
    if any(isinstance(s, Atomic) for s in statements(kernel.body)):
        return max(1, extent)
    return max(1, min(extent, CHUNK_ITERATIONS))


def render_serial(kernel: Kernel) -> Module:
    """The module of a kernel."""
    f = Function(kernel, 1)
    f.begin()
    writer = Writer(f)
    if kernel.grid is None:
        writer.block(kernel.body)
    else:
        scalar_loop(f, Loop(*kernel.grid, kernel.body), "%start", "%stop", writer.inside)
    return f.module()
