"""What compiled programs are checked for: the knobs of ``weft.checks`` as one value."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.base import knobs


class Kinds(NamedTuple):
    """What programs are checked for; ``overflow`` has the names of dtypes, or says ``signed``."""

    nan: bool
    inf: bool
    indices: bool
    division: bool
    overflow: str

    def wraps(self, dtype: Any) -> bool:
        """Whether integers of a dtype must not wrap."""
        if not self.overflow or getattr(dtype, "kind", "") not in ("i", "u"):
            return False
        if self.overflow == "signed":
            return dtype.kind == "i"
        return dtype.name in self.overflow.split(",")

    def is_bad(self, value: Any) -> Any:
        """Where an array holds what operations must not make."""
        value = np.asarray(value)
        if value.dtype.name not in ("float32", "float64", "complex64", "complex128"):
            value = value.astype(np.float32)
        bad = np.isnan(value) if self.nan else np.zeros(value.shape, bool)
        return bad | np.isinf(value) if self.inf else bad


def asked() -> Kinds | None:
    """What the knobs ask for; None if that is nothing."""
    thread = knobs.thread
    overflow = thread.check_overflow or ""
    if not (
        thread.check_nan
        or thread.check_inf
        or thread.check_index
        or thread.check_division
        or overflow
    ):
        return None
    return Kinds(
        thread.check_nan,
        thread.check_inf,
        thread.check_index,
        thread.check_division,
        overflow,
    )
