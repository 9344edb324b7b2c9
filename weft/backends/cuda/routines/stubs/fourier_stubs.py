"""Numbers of an array multiplied by a factor, as a stub."""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.routines.device import block, thread
from weft.kernel.kinds import f32, i64, ptr, void

# Names that stubs are given; here so that they can be written.
C: Any = f32
COUNT = 0
FACTOR = 1.0


def scale(x: ptr) -> void:
    number = block() * 256 + thread()
    if number < i64(COUNT):
        C[x, number] = C[x, number] * FACTOR
