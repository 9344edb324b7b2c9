"""Sources of TFRecord, Parquet and Arrow files; the last two need pyarrow."""

import struct
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.train.data.errors import DataError
from weft.train.data.example import parse_example
from weft.train.data.files import File, RecordFiles
from weft.train.data.node import Node
from weft.train.data.rows import Chunk, Columns, Rows, concatenate, select
from weft.train.data.sources import as_files
from weft.train.tfrecord import masked_crc32c

_NESTED = ("list", "large_list", "fixed_size_list", "struct", "map")
_KEPT = 4  # row groups of a Parquet file that stay in memory


class TFRecords(RecordFiles):
    """Records of TFRecord files."""

    def __init__(self, path: Any, examples: bool, check: bool) -> None:
        super().__init__(path)
        self.examples, self.check = examples, check

    def describe(self) -> str:
        return "tfrecord"

    def find(self, file: File) -> np.ndarray:
        data, size, place = file.data, file.size, 0
        bounds = []
        while place < size:
            where = f"{file.path}, record {len(bounds) + 1}"
            if size - place < 12:
                raise DataError(f"{where} ends too soon")
            length, check = struct.unpack_from("<QI", data, place)
            if masked_crc32c(data[place : place + 8]) != check:
                raise DataError(f"{where} has a damaged length")
            if length > size - place - 16:
                raise DataError(f"{where} needs {length} bytes, more than remain in the file")
            # the checksum is part of what is read
            bounds.append((place + 12, place + 16 + length))
            place += 16 + length
        return np.array(bounds, np.int64).reshape(-1, 2)

    def parse(self, records: list[bytes]) -> list[Any]:
        if self.check:
            for record in records:
                if masked_crc32c(record[:-4]) != struct.unpack("<I", record[-4:])[0]:
                    raise DataError("the record is damaged: its checksum does not fit")
        if self.examples:
            return [parse_example(record[:-4]) for record in records]
        return [record[:-4] for record in records]


def _arrow(name: str, needs: str) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError(f"{name}() needs the package pyarrow: pip install pyarrow") from None
    return pyarrow.parquet if needs == "parquet" else pyarrow


class Tables(Node):
    """Rows of tables that come in groups; a subclass opens files and reads groups."""

    kind = ""

    def __init__(self, path: Any, columns: Sequence[str] | None) -> None:
        self.files = [File(each) for each in as_files(path)]
        self.columns = None if columns is None else list(columns)
        self._opened: Any = None
        self._kept: OrderedDict[int, Columns] = OrderedDict()
        self._prints: Any = None
        self._nested = False  # whether some column has lists, which batches have to stack
        groups = [
            (file, group, rows)
            for file, opened in enumerate(self._open())
            for group, rows in enumerate(self.group_rows(opened))
        ]
        self._groups = [(file, group) for file, group, _ in groups]
        self._ends = np.cumsum([0, *(rows for _, _, rows in groups)])
        self.span = int(self._ends[-1])

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_opened": None, "_kept": OrderedDict()}

    def describe(self) -> str:
        return self.kind

    def fingerprint(self) -> Any:
        if self._prints is None:
            self._prints = [file.fingerprint() for file in self.files]
        return self._prints

    def _open(self) -> list[Any]:
        if self._opened is None:
            self._opened = [self.open(file.path) for file in self.files]
            for file, opened in zip(self.files, self._opened):
                known = self.names(opened)
                for name in self.columns or ():
                    if name not in known:
                        raise DataError(
                            f"{self.kind}(columns=...) names {name!r}; {file.path} has "
                            f"{', '.join(map(repr, known))}"
                        )
        return self._opened

    def rows(self, slots: np.ndarray, epoch: int, session: dict) -> Chunk:
        owners = np.searchsorted(self._ends, slots, side="right") - 1
        parts: list[Rows] = []
        places = []
        for owner in np.unique(owners).tolist():
            place = np.flatnonzero(owners == owner)
            parts.append(select(self._group(owner), slots[place] - self._ends[owner]))
            places.append(place)
        rows = concatenate(parts)
        if len(parts) > 1:
            rows = select(rows, np.argsort(np.concatenate(places), kind="stable"))
        return Chunk(list(rows) if self._nested else rows)

    def _group(self, number: int) -> Columns:
        kept = self._kept.pop(number, None)
        if kept is None:
            file, group = self._groups[number]
            kept = self._columns(self.read(self._open()[file], group))
        self._kept[number] = kept
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return kept

    def _columns(self, table: Any) -> Columns:
        """A table of Arrow as arrays; lists and texts are arrays of objects."""
        tree = {}
        for name in table.column_names:
            values = table.column(name)
            if str(values.type).startswith(_NESTED):
                self._nested = True
                tree[name] = np.empty(table.num_rows, object)
                tree[name][:] = [_listed(value) for value in values.to_pylist()]
            else:
                array = values.to_numpy()
                tree[name] = array if array.flags.writeable else array.copy()
        return Columns(tree, table.num_rows)


def _listed(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, list) else value


class Parquet(Tables):
    """Rows of Parquet files, read a row group at a time."""

    kind = "parquet"

    def open(self, path: str) -> Any:
        return _arrow("parquet", "parquet").ParquetFile(path)

    def names(self, opened: Any) -> list[str]:
        return list(opened.schema_arrow.names)

    def group_rows(self, opened: Any) -> list[int]:
        meta = opened.metadata
        return [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]

    def read(self, opened: Any, group: int) -> Any:
        return opened.read_row_group(group, columns=self.columns)


class Arrow(Tables):
    """Rows of Arrow IPC files, which are mapped into memory."""

    kind = "arrow"

    def open(self, path: str) -> Any:
        arrow = _arrow("arrow", "arrow")
        return arrow.ipc.open_file(arrow.memory_map(path))

    def names(self, opened: Any) -> list[str]:
        return list(opened.schema.names)

    def group_rows(self, opened: Any) -> list[int]:
        return [opened.get_batch(i).num_rows for i in range(opened.num_record_batches)]

    def read(self, opened: Any, group: int) -> Any:
        table = _arrow("arrow", "arrow").Table.from_batches([opened.get_batch(group)])
        return table if self.columns is None else table.select(self.columns)
