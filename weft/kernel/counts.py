"""Numbers that counts of random events are drawn with, shared by references and kernels."""

from __future__ import annotations

import numpy as np

# Draws of an element after which it is given up; none is expected to need half as many.
MOST = 256
_STIRLING_TAIL = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
    0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.010411265261972,
    0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def stirling_tail(dtype: np.dtype) -> tuple[float, ...]:
    """log(k!) less Stirling's approximation of it, for k from 0 to 9 and for all beyond.

    These are JAX's: beyond 9 the series is that at 9, in the precision of the dtype.
    """
    f = dtype.type
    square = f(100)
    beyond = (f(1 / 12) - (f(1 / 360) - f(1 / 1260) / square) / square) / f(10)
    return (*_STIRLING_TAIL, float(beyond))
