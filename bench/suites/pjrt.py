"""weft's own compiler for GPUs next to XLA, which compiles and runs the same programs of weft's.

XLA is a PJRT plugin. Rows are those of `cuda`, without other libraries.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bench.rows import XLA, Program, Row
from bench.suites import cuda

# What weft's own compiler may take of XLA's time.
TARGET = 1.0
# Elements of each result that are compared.
LOOKED_AT = 4096


def some(results: list[np.ndarray]) -> list[np.ndarray]:
    """Elements of each result, from all over it."""
    return [x.reshape(-1)[:: max(x.size // LOOKED_AT, 1)] for x in results]


def eager(module: Any) -> Program:
    """A single operation outside of ``jit``."""
    return Program(lambda a, b: a + b, cuda.sized((16,), (16,))(), compiled=False, wait=False)


def row(found: Row) -> Row:
    setup = found.setups["weft"]
    # products of narrow numbers, in another order; a long recurrence magnifies every difference
    narrow = "step" in found.name or found.unit == "TFLOP/s"
    tolerance = 5e-2 if narrow else 2e-3
    tolerance = None if found.name.startswith("scan") else tolerance
    return replace(
        found,
        setups={"weft": setup, XLA: setup},
        budget=None,
        ratio=TARGET,
        tolerance=tolerance,
        look=some,
    )


EAGER = Row(
    "operation outside of jit",
    "a + b of 16 elements, calls without waiting",
    {"weft": eager, XLA: eager},
    clock="wall",
    gpu=True,
    ratio=TARGET,
    tolerance=0.0,
)
CALLS = [r for r in [*cuda.ROWS_OF_ARRAYS, *cuda.ROWS_OF_PROGRAMS] if r.kind == "call"]
ROWS = [EAGER, *map(row, CALLS)]
