"""Sources of lines: text, JSON lines and CSV, found by an index of where lines begin."""

import abc
import csv
import json
import mmap
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from weft.train.data.errors import DataError, add_place
from weft.train.data.node import Node
from weft.train.data.rows import Chunk
from weft.train.data.sources import as_files, sampled_checksum

_NEWLINE, _QUOTE = 0x0A, 0x22
_SCAN = 1 << 24  # bytes that are looked through at once


class File:
    """A file in memory, mapped when it is first read in a process."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = os.path.getsize(path)
        self._data: Any = None

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_data": None}

    @property
    def data(self) -> Any:
        if self._data is None:
            if not self.size:
                return b""
            with open(self.path, "rb") as file:
                if os.fstat(file.fileno()).st_size < self.size:
                    raise DataError(f"{self.path} has become shorter since it was opened")
                self._data = mmap.mmap(file.fileno(), self.size, access=mmap.ACCESS_READ)
        return self._data

    def fingerprint(self) -> Any:
        """What tells this file from another, or from what it was before a change."""
        check = sampled_checksum(lambda start, count: self.data[start : start + count], self.size)
        return [os.path.basename(self.path), self.size, check]


class RecordFiles(Node, abc.ABC):
    """Records of one file or several; a subclass finds and reads them."""

    def __init__(self, path: Any) -> None:
        self.files = [File(each) for each in as_files(path)]
        self._ready = False
        self._prints: Any = None
        self._bounds: list[np.ndarray] = []
        self._ends = np.zeros(1, np.int64)

    @abc.abstractmethod
    def find(self, file: File) -> np.ndarray:
        """Where records begin and, in a second column, end."""

    def prepare(self) -> None:
        if not self._ready:
            self._bounds = [self.find(file) for file in self.files]
            self._ends = np.cumsum([0, *map(len, self._bounds)])
            self._ready = True

    @property
    def span(self) -> int:
        self.prepare()
        return int(self._ends[-1])

    def fingerprint(self) -> Any:
        if self._prints is None:
            self._prints = [[*file.fingerprint(), len(b)] for file, b in self._bounded()]
        return self._prints

    def _bounded(self) -> list[tuple[File, np.ndarray]]:
        self.prepare()
        return list(zip(self.files, self._bounds))

    def records(self, slots: np.ndarray) -> list[bytes]:
        """The bytes of some records."""
        self.prepare()
        made: list[bytes] = []
        if len(self.files) == 1:
            data = self.files[0].data
            return [data[a:b] for a, b in self._bounds[0][slots].tolist()]
        owners = np.searchsorted(self._ends, slots, side="right") - 1
        for owner, slot in zip(owners.tolist(), slots.tolist()):
            begin, end = self._bounds[owner][slot - self._ends[owner]]
            made.append(self.files[owner].data[begin:end])
        return made

    def place(self, slot: int) -> str:
        """The file of a record, and its number there."""
        owner = int(np.searchsorted(self._ends, slot, side="right") - 1)
        return f"{self.files[owner].path}, record {slot - int(self._ends[owner]) + 1}"

    @abc.abstractmethod
    def parse(self, records: list[bytes]) -> list[Any]:
        """The elements of some records."""

    def rows(self, slots: np.ndarray, epoch: int, session: dict) -> Chunk:
        records = self.records(slots)
        try:
            return Chunk(self.parse(records))
        except Exception:
            for slot, record in zip(slots.tolist(), records):  # which one is it?
                try:
                    self.parse([record])
                except Exception as error:
                    add_place(error, self.describe(), slot)
                    raise DataError(f"{self.place(slot)}: {error}") from error
            raise


class Lines(RecordFiles):
    """Lines of text files."""

    def __init__(self, path: Any, encoding: str | None = "utf-8") -> None:
        super().__init__(path)
        self.encoding = encoding

    def describe(self) -> str:
        return "text"

    def find(self, file: File) -> np.ndarray:
        return line_bounds(file.data)

    def parse(self, records: list[bytes]) -> list[Any]:
        if self.encoding is None:
            return records
        return [record.decode(self.encoding) for record in records]


def line_bounds(data: Any, quotes: bool = False) -> np.ndarray:
    """Where lines begin and end, without their ends.

    With ``quotes``, a line goes on while a double quote is open.

    >>> line_bounds(b"one\\ntwo\\r\\n\\nfour").tolist()
    [[0, 3], [4, 7], [9, 9], [10, 14]]
    """
    size, ends, quoted = len(data), [np.zeros(0, np.int64)], 0
    for start in range(0, size, _SCAN):
        part = np.frombuffer(data, np.uint8, min(_SCAN, size - start), start)
        found = np.flatnonzero(part == _NEWLINE)
        if quotes:
            marks = np.flatnonzero(part == _QUOTE)
            found, seen = (
                found[(np.searchsorted(marks, found) + quoted) % 2 == 0],
                len(marks),
            )
            quoted += seen
        ends.append(found + start)
    stops = np.concatenate(ends)
    if size and (not len(stops) or stops[-1] != size - 1):
        stops = np.append(stops, size)
    starts = np.concatenate([np.zeros(1, np.int64), stops[:-1] + 1])[: len(stops)]
    if len(stops):
        whole = np.frombuffer(data, np.uint8)
        before = whole[np.maximum(stops - 1, 0)]
        stops = stops - ((before == 0x0D) & (stops > starts))
    return np.stack([starts, stops], 1)


class JsonLines(Lines):
    """A JSON value a line."""

    def describe(self) -> str:
        return "jsonl"

    def find(self, file: File) -> np.ndarray:
        bounds = line_bounds(file.data)
        return bounds[bounds[:, 1] > bounds[:, 0]]

    def parse(self, records: list[bytes]) -> list[Any]:
        scan = _DECODER.scan_once
        made = []
        for record in records:
            text = record.decode("utf-8")
            try:
                value, end = scan(text, 0)
            except StopIteration:
                value, end = None, -1
            if end != len(text):  # spaces around the value, or something else
                value = json.loads(text)
            made.append(value)
        return made


_DECODER = json.JSONDecoder()


class Csv(RecordFiles):
    """Rows of CSV files, as dictionaries."""

    def __init__(self, path: Any, columns: Any, types: Any, delimiter: str) -> None:
        super().__init__(path)
        self.delimiter = delimiter
        self.header = columns is None
        self.columns = self._first_line() if columns is None else list(columns)
        self.converters = self._converters(types)

    def describe(self) -> str:
        return "csv"

    def _first_line(self) -> list[str]:
        for file in self.files:
            bounds = line_bounds(file.data, quotes=True)
            if len(bounds):
                return self._split([file.data[bounds[0, 0] : bounds[0, 1]]])[0]
        raise DataError(f"{self.files[0].path} is empty: it has no header line with column names")

    def _converters(self, types: Any) -> list[tuple[str, Callable[[str], Any]]]:
        if types is None or not isinstance(types, Mapping):
            return [(name, types or str) for name in self.columns]
        for name in types:
            if name not in self.columns:
                raise DataError(
                    f"csv(types=...) names a column {name!r}; the file has "
                    f"{', '.join(map(repr, self.columns))}"
                )
        return [(name, types.get(name, str)) for name in self.columns]

    def _split(self, records: list[bytes]) -> list[list[str]]:
        texts = [record.decode("utf-8") for record in records]
        return list(csv.reader(texts, delimiter=self.delimiter, strict=True))

    def find(self, file: File) -> np.ndarray:
        bounds = line_bounds(file.data, quotes=True)[1 if self.header else 0 :]
        return bounds[bounds[:, 1] > bounds[:, 0]]

    def parse(self, records: list[bytes]) -> list[Any]:
        made = []
        width = len(self.columns)
        # a record may have line ends inside of quotes: it is one text, so csv sees it as one
        for cells in self._split(records):
            if len(cells) != width:
                raise DataError(f"a row has {len(cells)} cells, but there are {width} columns")
            element = {}
            for (name, convert), cell in zip(self.converters, cells):
                try:
                    element[name] = convert(cell)
                except (TypeError, ValueError) as error:
                    raise DataError(f"column {name!r}: {error}") from None
            made.append(element)
        if len(made) != len(records):
            raise DataError("a row has line ends outside of quotes")
        return made
