"""Databases of the OCDBT format, in which Orbax keeps arrays: values by key, from a B+tree.

A database is ``manifest.ocdbt`` and data files. Reference:
https://google.github.io/tensorstore/kvstore/ocdbt
"""

import os
import re
from typing import NamedTuple

from weft.train import tfrecord
from weft.train.checkpoint import safetensors, zstd
from weft.train.checkpoint.errors import CheckpointError

MANIFEST = "manifest.ocdbt"
_MANIFEST_MAGIC, _NODE_MAGIC = 0x0CDB3A2A, 0x0CDB20DE
_MAX_NODE = 1 << 28  # bytes
_MAX_ENTRIES = 1 << 22
_NO_OFFSET = (1 << 64) - 1  # of what has no node, or no value of its own
_PATH = re.compile(r"(?:(?!\.\.?/)[\w.-]+/)*(?!\.\.?$)[\w.-]+", re.ASCII)


class Location(NamedTuple):
    """Bytes of a data file; ``base`` begins the paths of what these bytes refer to."""

    base: str
    path: str
    offset: int
    length: int


class _Reader:
    """A position in the body of a node; reading past its end is an error."""

    def __init__(self, data: bytes, where: str) -> None:
        self.data, self.at, self.where = data, 0, where

    def fail(self, what: str) -> CheckpointError:
        return CheckpointError(f"{self.where}: is not an OCDBT database: {what}")

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise self.fail("it ends too soon")
        self.at += size
        return self.data[self.at - size : self.at]

    def varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise self.fail("a number is too long")

    def varints(self, count: int) -> list[int]:
        return [self.varint() for _ in range(count)]

    def count(self) -> int:
        value = self.varint()
        if value > _MAX_ENTRIES:
            raise self.fail(f"a node has {value} entries")
        return value

    def prefixed(self, count: int, skip: int = 0) -> tuple[list[bytes], list[list[int]]]:
        """Texts, each after the part that it shares with the one before; and columns between."""
        prefixes, lengths = [0, *self.varints(count - 1)], self.varints(count)
        columns = [self.varints(count) for _ in range(skip)]
        found: list[bytes] = []
        for prefix, length in zip(prefixes, lengths):
            before = found[-1] if found else b""
            if prefix > len(before) or prefix + length > 1 << 16:
                raise self.fail("a key shares more than there is")
            found.append(before[:prefix] + self.take(length))
        return found, columns

    def files(self, base: str) -> list[tuple[str, str]]:
        """The table of data files: what their references begin with, and their paths."""
        count = self.count()
        if not count:
            return []
        paths, (bases,) = self.prefixed(count, skip=1)
        made = []
        for path, size in zip(paths, bases):
            text = base + path.decode("ascii", "replace")
            if size > len(path):
                raise self.fail("the base of a path is longer than the path")
            made.append((base + path[:size].decode("ascii", "replace"), text))
        return made


class Database:
    """The last version of a database: the bytes of every key.

    Args:
        folder: the folder of the database.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.values: dict[str, bytes | Location] = {}
        path = os.path.join(folder, MANIFEST)
        with safetensors.open_plain(path) as file:
            data = file.read(_MAX_NODE)
        root, height = self._root(self._body(data, _MANIFEST_MAGIC, path))
        self._nodes = 0
        if root is not None:
            self._read_node(root, height, b"")

    def _body(self, data: bytes, magic: int, where: str) -> _Reader:
        """The body of the manifest or of a node, behind its header and before its checksum."""
        outer = _Reader(data, where)
        if int.from_bytes(outer.take(4), "big") != magic:
            raise outer.fail("it begins otherwise")
        length = int.from_bytes(outer.take(8), "little")
        if length != len(data) or length < 18:
            raise outer.fail(f"it has {len(data)} bytes and says {length}")
        if tfrecord.crc32c(data[:-4]) != int.from_bytes(data[-4:], "little"):
            raise CheckpointError(f"{where}: is damaged: its checksum does not fit")
        version, compression = outer.varint(), outer.varint()
        if version != 0 or compression not in (0, 1):
            raise outer.fail(f"it has version {version} and compression {compression}")
        body = data[outer.at : -4]
        return _Reader(zstd.decompress(body, _MAX_NODE, where) if compression else body, where)

    def _root(self, reader: _Reader) -> tuple[Location | None, int]:
        """Where the root of the last version is, and its height."""
        reader.take(16)  # the identifier of the database
        kind = reader.varint()
        if kind != 0:
            raise reader.fail(f"its manifest is of kind {kind}, of which there are several files")
        reader.varints(2)  # sizes of values and nodes
        reader.take(1)
        if reader.varint():  # the compression of new nodes, with its level
            reader.take(4)
        files = reader.files("")
        count = reader.count()
        if not count:
            return None, 0
        reader.varints(count)  # numbers of generations, the last one last
        heights = reader.take(count)
        ids, offsets, lengths = (reader.varints(count) for _ in range(3))
        if offsets[-1] == _NO_OFFSET:
            return None, 0
        return self._location(reader, files, ids[-1], offsets[-1], lengths[-1]), heights[-1]

    def _location(
        self, reader: _Reader, files: list[tuple[str, str]], number: int, offset: int, length: int
    ) -> Location:
        if number >= len(files):
            raise reader.fail(f"there is no data file {number}")
        if not _PATH.fullmatch(files[number][1]):
            raise reader.fail(f"it names the file {files[number][1]!r:.80}")
        return Location(*files[number], offset, length)

    def read(self, location: Location) -> bytes:
        """The bytes of a location."""
        path = os.path.join(self.folder, location.path)
        with safetensors.open_plain(path) as file:
            size = os.fstat(file.fileno()).st_size
            if location.offset + location.length > size:
                raise CheckpointError(f"{path}: has {size} bytes, fewer than the database says")
            file.seek(location.offset)
            return file.read(location.length)

    def _read_node(self, location: Location, height: int, prefix: bytes) -> None:
        self._nodes += 1
        if self._nodes > _MAX_ENTRIES or location.length > _MAX_NODE:
            raise CheckpointError(f"{self.folder}: its OCDBT database is too large")
        where = os.path.join(self.folder, location.path)
        reader = self._body(self.read(location), _NODE_MAGIC, where)
        (found,) = reader.take(1)
        if found != height:
            raise reader.fail(f"a node of height {found} is where one of {height} should be")
        files, count = reader.files(location.base), reader.count()
        if not count:
            raise reader.fail("a node is empty")
        if height:
            keys, (shared,) = reader.prefixed(count, skip=1)
            ids, offsets, lengths = (reader.varints(count) for _ in range(3))
            for at, key in enumerate(keys):
                child = self._location(reader, files, ids[at], offsets[at], lengths[at])
                self._read_node(child, height - 1, prefix + key[: shared[at]])
            return
        self._read_values(reader, files, [prefix + key for key in reader.prefixed(count)[0]])

    def _read_values(
        self, reader: _Reader, files: list[tuple[str, str]], keys: list[bytes]
    ) -> None:
        lengths, kinds = reader.varints(len(keys)), reader.varints(len(keys))
        if any(kind > 1 for kind in kinds):
            raise reader.fail("a value is of a kind that is not known")
        indirect = sum(kinds)
        ids, offsets = reader.varints(indirect), reader.varints(indirect)
        number = 0
        for key, length, kind in zip(keys, lengths, kinds):
            name = key.decode("utf-8", "replace")
            if kind:
                place = self._location(reader, files, ids[number], offsets[number], length)
                self.values[name] = place
                number += 1
            else:
                self.values[name] = reader.take(length)

    def get(self, key: str) -> bytes | None:
        """The bytes of a key, or None."""
        value = self.values.get(key)
        return self.read(value) if isinstance(value, Location) else value
