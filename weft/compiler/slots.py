"""The slots of a program while it is planned."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.base.sizes import Size, plain
from weft.kernel.program import Slot

# Bytes that no machine has; sums of a few such sizes still fit a machine word.
IMPOSSIBLE_BYTES = 1 << 45


class Slots:
    """Numbered slots; constants of equal bytes are there once."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self.under: dict[int, tuple[int, ...]] = {}  # what a view may point at
        self.constants: list[Any] = []
        self.known_constants: dict[Any, int] = {}

    def slot(self, role: str, size: int, what: Any = None) -> int:
        if plain(size) > IMPOSSIBLE_BYTES:
            raise MemoryError(f"a compiled function needs an array of {size:,} bytes")
        self.slots.append(Slot(role, size, what))
        return len(self.slots) - 1

    def view(self, *under: int) -> int:
        number = self.slot("view", self.slots[under[0]].size)
        self.under[number] = under
        return number

    def constant(self, value: Any) -> int:
        """The slot of a constant; equal bytes are one."""
        value = np.ascontiguousarray(value).reshape(np.shape(value))
        key = (value.tobytes(), value.dtype)
        number = self.known_constants.get(key)
        return self._add_constant(value, key) if number is None else number

    def numbers(self, values: Any) -> int:
        """The slot of a table of 64-bit numbers; those with named sizes are filled in later."""
        if not any(type(n) is Size for n in values):
            return self.constant(np.array(values, np.int64))
        key = tuple(values)
        number = self.known_constants.get(key)
        if number is None:
            number = self.slot("const", 8 * len(key), len(self.constants))
            self.known_constants[key] = number
            self.constants.append(key)
        return number

    def _add_constant(self, value: np.ndarray, key: Any) -> int:
        value.flags.writeable = False
        number = self.known_constants[key] = self.slot("const", value.nbytes, len(self.constants))
        self.constants.append(value)
        return number
