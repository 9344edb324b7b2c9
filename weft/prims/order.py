"""Comparison in the total order of floats, in which NaN equals itself and -0 comes before 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.prims.families import ANY, COMPLEX, FLOAT, kind_of
from weft.prims.selection import Comparison


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


def _lowered_key(k: Any, x: Any) -> Any:
    """The same integers in a kernel."""
    if not kind_of(x.dtype) & FLOAT:
        return x
    bits = k.bitcast(x, f"i{x.dtype.itemsize}")
    # all ones below zero: flips every bit but the sign there
    spread = k.ashr(bits, k.like(bits, 8 * x.dtype.itemsize - 1))
    return k.xor(bits, k.and_(spread, k.like(bits, np.iinfo(bits.dtype).max)))


class TotalOrder(Comparison):
    """A comparison of the integers that floats are in the total order."""

    arithmetic = False  # bits are compared
    widens = False
    compare = ""  # the builder's

    def lower(self, k: Any, x: Any, y: Any) -> Any:
        return getattr(k, self.compare)(_lowered_key(k, x), _lowered_key(k, y))


class EqTo(TotalOrder):
    """Equal in the total order: NaN equals itself, 0 and -0 differ."""

    name, accepts, compare = "eq_to", ANY, "eq"
    ref = _on_total_order(np.equal)

    def lower_parts(self, k: Any, x: Any, y: Any) -> Any:
        pairs = zip(x.parts, y.parts, strict=True)
        return k.and_(*(self.lower(k, a, b) for a, b in pairs))


class LeTo(TotalOrder):
    """Less or equal in the total order."""

    name, compare = "le_to", "le"
    ref = _on_total_order(np.less_equal)


class LtTo(TotalOrder):
    """Less in the total order."""

    name, compare = "lt_to", "lt"
    ref = _on_total_order(np.less)


eq_to_p, le_to_p, lt_to_p = EqTo(), LeTo(), LtTo()
