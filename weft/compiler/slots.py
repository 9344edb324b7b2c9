"""The values of a program while it is made: what memory each is, and how long it is in use."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.compiler.arena import Life
from weft.kernel.program import Slot

# Bytes that no machine has; sums of a few such sizes still fit a machine word.
MOST = 1 << 45


class Slots:
    """Numbered values; constants of equal bytes, and functions of a library, are there once."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self.under: dict[int, tuple[int, ...]] = {}  # what a view may point at
        self.lives: dict[int, Life] = {}
        self.clock = 0
        self.constants: list[Any] = []
        self.known_constants: dict[Any, int] = {}
        self.libraries: dict[str, int] = {}

    def slot(self, role: str, size: int, what: Any = None) -> int:
        if size > MOST:
            raise MemoryError(f"a compiled function needs an array of {size:,} bytes")
        self.slots.append(Slot(role, size, what))
        number = len(self.slots) - 1
        if role == "temp":
            self.lives[number] = Life(size, self.clock, self.clock)
        return number

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

    def _add_constant(self, value: np.ndarray, key: Any) -> int:
        value.flags.writeable = False
        number = self.known_constants[key] = self.slot("const", value.nbytes, len(self.constants))
        self.constants.append(value)
        return number

    def library(self, name: str) -> int:
        """The slot of a library's function."""
        number = self.libraries.get(name)
        if number is None:
            number = self.libraries[name] = self.slot("library", 0, name)
        return number

    def touch(self, slots: Any) -> None:
        """Say that slots are in use now."""
        for number in slots:
            life = self.lives.get(number)
            if life is not None:
                self.lives[number] = life._replace(last=max(life.last, self.clock))
            elif number in self.under:
                self.touch(self.under[number])
