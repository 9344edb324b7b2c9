"""Comparison in the total order of floats, in which NaN equals itself and -0 comes before 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.prims.arithmetic import Comparison
from weft.prims.families import ANY, COMPLEX, FLOAT, kind_of


def total_order_key(x: np.ndarray) -> np.ndarray:
    """Integers in the total order -NaN < -inf < ... < -0 < 0 < ... < inf < NaN."""
    if not kind_of(x.dtype) & FLOAT:
        return x
    bits = x.view(f"i{x.dtype.itemsize}")
    flipped = bits ^ np.array(np.iinfo(bits.dtype).max, bits.dtype)
    return np.where(bits < 0, flipped, bits)


def _on_total_order(compare: Any) -> Any:
    def reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if kind_of(x.dtype) == COMPLEX:
            real_same = compare(total_order_key(x.real.copy()), total_order_key(y.real.copy()))
            return real_same & compare(
                total_order_key(x.imag.copy()), total_order_key(y.imag.copy())
            )
        return compare(total_order_key(x), total_order_key(y))

    return staticmethod(reference)


class EqTo(Comparison):
    """Equal in the total order: NaN equals itself, 0 and -0 differ."""

    name, accepts = "eq_to", ANY
    ref = _on_total_order(np.equal)


class LeTo(Comparison):
    """Less or equal in the total order."""

    name = "le_to"
    ref = _on_total_order(np.less_equal)


class LtTo(Comparison):
    """Less in the total order."""

    name = "lt_to"
    ref = _on_total_order(np.less)


eq_to_p, le_to_p, lt_to_p = EqTo(), LeTo(), LtTo()
