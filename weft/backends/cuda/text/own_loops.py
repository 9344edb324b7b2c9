"""Kernels whose threads each run a loop to its own end (`compiler/own_loops.py`)."""

from __future__ import annotations

from weft.kernel.kernel import Kernel, Serial


def ends_by_itself(kernel: Kernel) -> bool:
    """Whether each thread runs a loop of a length that isn't known."""
    first = kernel.body[0] if kernel.serial and kernel.body and kernel.grid else None
    return isinstance(first, Serial) and first.condition is not None
