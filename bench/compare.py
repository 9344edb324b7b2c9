"""Whether two libraries computed the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def read(path: Path) -> list[np.ndarray] | None:
    """The results that a worker left, in order."""
    if not path.exists():
        return None
    with np.load(path) as kept:
        return [kept[f"arr_{i}"] for i in range(len(kept.files))]


def difference(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference as a part of the largest magnitude: 0 for equal, inf for unlike."""
    if found.shape != expected.shape:
        return float("inf")
    if found.size == 0:
        return 0.0
    wide = np.complex128 if "c" in (found.dtype.kind, expected.dtype.kind) else np.float64
    found, expected = found.astype(wide), expected.astype(wide)
    finite = np.isfinite(expected)
    odd = ~finite & (found != expected) & ~(np.isnan(found) & np.isnan(expected))
    if not np.array_equal(np.isfinite(found), finite) or odd.any():
        return float("inf")
    if not finite.any():
        return 0.0
    scale = float(np.max(np.abs(expected[finite])))
    most = float(np.max(np.abs(found[finite] - expected[finite])))
    return most / scale if scale else (0.0 if most == 0.0 else float("inf"))


def disagreement(row: Any, found: Path, expected: Path) -> str:
    """What is wrong with the results of one library, measured by another's; empty if nothing."""
    mine, theirs = read(found), read(expected)
    if row.tolerance is None or mine is None or theirs is None:
        return ""
    if len(mine) != len(theirs):
        return f"{len(mine)} results, not {len(theirs)}"
    worst = max((difference(a, b) for a, b in zip(mine, theirs)), default=0.0)
    return f"differs by {worst:.1e}" if worst > row.tolerance else ""
