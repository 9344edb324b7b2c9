"""The order in which the elements of an array lie in memory: always row-major here."""

from __future__ import annotations

from typing import Any

from weft.base.record import Record


class Layout(Record):
    """The order of an array's dimensions in memory, the slowest first."""

    major_to_minor: tuple[int, ...]
    tiling: Any = None
    sub_byte_element_size_in_bits: int = 0


class Format:
    """How and where an array lies: its layout and its sharding."""

    __slots__ = ("layout", "sharding")

    def __init__(self, layout: Layout | None = None, sharding: Any = None) -> None:
        self.layout = layout
        self.sharding = sharding

    @property
    def device_local_layout(self) -> Layout | None:
        return self.layout

    def __eq__(self, other: object) -> bool:
        if type(other) is not Format:
            return False
        return (self.layout, self.sharding) == (other.layout, other.sharding)

    def __hash__(self) -> int:
        return hash((self.layout, self.sharding))

    def __repr__(self) -> str:
        return f"Format(layout={self.layout}, sharding={self.sharding})"


def format_of(array: Any) -> Format:
    """How and where an array lies."""
    return Format(Layout(tuple(range(array.ndim)), (), 0), array.sharding)
