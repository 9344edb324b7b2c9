"""The memory spaces that types speak of: ``weft.memory.Space`` is this class."""

from __future__ import annotations

import enum


class MemorySpace(enum.Enum):
    """Memory of the device, of the host, or either; on CPUs they are one.

    >>> MemorySpace.Host
    MemorySpace.Host
    """

    Device = enum.auto()
    Host = enum.auto()
    Any = enum.auto()

    def __repr__(self) -> str:
        return f"MemorySpace.{self.name}"
