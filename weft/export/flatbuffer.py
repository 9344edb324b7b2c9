"""Tables of FlatBuffers: fields by their numbers, from bytes that may come from anyone."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any


class Table:
    """A table in some bytes; fields that are missing are None."""

    __slots__ = ("at", "data", "fields")

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at
        start = at - self._number("<i", at)
        size = self._number("<H", start)
        if size < 4 or size % 2:
            raise ValueError(f"a table names {size} bytes of offsets")
        self.fields = [self._number("<H", start + i) for i in range(4, size, 2)]

    @classmethod
    def root(cls, data: bytes) -> Table:
        """The table that the bytes begin with."""
        return cls(data, struct.unpack_from("<I", data)[0])

    def _number(self, form: str, at: int) -> int:
        if at < 0:
            raise ValueError(f"an offset points {-at} bytes before the data")
        return int(struct.unpack_from(form, self.data, at)[0])

    def _place(self, field: int) -> int | None:
        offset = self.fields[field] if field < len(self.fields) else 0
        return self.at + offset if offset else None

    def _reference(self, at: int) -> int:
        return at + self._number("<I", at)

    def number(self, field: int, form: str = "B", default: int = 0) -> int:
        """A number, of a format of ``struct``."""
        at = self._place(field)
        return default if at is None else self._number(f"<{form}", at)

    def table(self, field: int) -> Table | None:
        at = self._place(field)
        return None if at is None else Table(self.data, self._reference(at))

    def raw(self, field: int) -> bytes | None:
        """A string or a vector of bytes."""
        at = self._place(field)
        return None if at is None else self._raw(self._reference(at))

    def _raw(self, at: int) -> bytes:
        size = self._number("<I", at)
        if size > len(self.data) - at - 4:
            raise ValueError(f"{size} bytes are named, {len(self.data) - at - 4} are there")
        return self.data[at + 4 : at + 4 + size]

    def text(self, field: int, default: str = "") -> str:
        found = self.raw(field)
        return default if found is None else found.decode("utf-8")

    def _items(self, field: int, size: int) -> range:
        at = self._place(field)
        if at is None:
            return range(0)
        start = self._reference(at)
        count = self._number("<I", start)
        if count * size > len(self.data) - start - 4:
            raise ValueError(f"a vector of {count} items is longer than the bytes")
        return range(start + 4, start + 4 + count * size, size)

    def numbers(self, field: int, form: str) -> list[int]:
        items = self._items(field, struct.calcsize(f"<{form}"))
        return [self._number(f"<{form}", at) for at in items]

    def tables(self, field: int) -> list[Table]:
        return self._each(field, lambda at: Table(self.data, at))

    def texts(self, field: int) -> list[str]:
        return self._each(field, lambda at: self._raw(at).decode("utf-8"))

    def _each(self, field: int, read: Callable[[int], Any]) -> list[Any]:
        return [read(self._reference(at)) for at in self._items(field, 4)]
