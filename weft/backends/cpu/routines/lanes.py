"""Vectors of one kind of float: their lanes, and bytes of what they hold."""

from __future__ import annotations

import numpy as np


class Lanes:
    """Vectors of floats of so many bytes, each vector of so many bits."""

    def __init__(self, itemsize: int, bits: int) -> None:
        self.itemsize = itemsize
        self.count = max(2, bits // (8 * itemsize))
        self.bytes = self.count * itemsize
        self.row = 2 * self.bytes  # one element of every lane, complex
        self.element = 2 * itemsize
        self.real = np.dtype(f"f{itemsize}")
