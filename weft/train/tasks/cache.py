"""Preprocessed data on the disk: values and offsets of every feature, and a manifest.

A folder appears under its name when all of it is there. Every file has a checksum, and the manifest
says of which source and preprocessors the data is.
"""

import json
import logging
import os
import shutil
import uuid
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from weft.train.tasks.features import TaskError

MANIFEST = "manifest.json"
FORMAT, VERSION = "weft.task_cache", 1
BUFFERED_ELEMENTS = 1024
_KINDS = ("text", "bytes", "array", "scalar", "number")
_LOG = logging.getLogger("weft.train.tasks")


class CachedRows:
    """The elements of a cache, which stay on the disk until they are read."""

    def __init__(self, folder: str, manifest: Mapping[str, Any]) -> None:
        self.folder, self.manifest = folder, manifest
        self._length = int(manifest["examples"])
        self._open()

    def _open(self) -> None:
        self._columns = [
            _Column(self.folder, at, c) for at, c in enumerate(self.manifest["columns"])
        ]

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "manifest": self.manifest, "_length": self._length}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < self._length:
            raise IndexError(f"element {index} of {self._length}")
        return {column.name: column.at(index) for column in self._columns}


class _Column:
    def __init__(self, folder: str, number: int, spec: Mapping[str, Any]) -> None:
        self.name, self.kind, self.shape = spec["name"], spec["kind"], tuple(spec["shape"])
        self.values = _mapped(os.path.join(folder, f"{number}.values"), np.dtype(spec["dtype"]))
        self.offsets = _mapped(os.path.join(folder, f"{number}.offsets"), np.dtype("<i8"))

    def at(self, index: int) -> Any:
        part = self.values[int(self.offsets[index]) : int(self.offsets[index + 1])]
        if self.kind == "array":
            return np.array(part).reshape(-1, *self.shape)
        if self.kind in ("text", "bytes"):
            return part.tobytes().decode("utf-8") if self.kind == "text" else part.tobytes()
        return part[0].item() if self.kind == "number" else part[0]


def _mapped(path: str, dtype: np.dtype) -> np.ndarray:
    if not os.path.getsize(path):
        return np.zeros(0, dtype)
    return np.asarray(np.memmap(path, dtype, "r"))


class _ColumnWriter:
    """Collects a feature of some elements and appends it to its files."""

    def __init__(self, folder: str, number: int, name: str, first: Any) -> None:
        self.name, self.kind, array = name, *_kind(first)
        self.dtype, self.shape = array.dtype.newbyteorder("<"), array.shape[1:]
        paths = [os.path.join(folder, f"{number}.{part}") for part in ("values", "offsets")]
        self._files = [open(path, "wb") for path in paths]
        self._checks, self._sizes = [0, 0], [0, 0]
        self._end, self._parts, self._ends = 0, [], [0]

    def add(self, value: Any, number: int) -> None:
        kind, array = _kind(value)
        if (
            kind != self.kind
            or array.shape[1:] != self.shape
            or array.dtype.kind != self.dtype.kind
        ):
            raise TaskError(
                f"feature {self.name!r} of element {number} is {kind} of {array.dtype} and shape"
                f" {array.shape}; that of the first element is {self.kind} of {self.dtype} and"
                f" shape (..., {', '.join(map(str, self.shape))})"
            )
        self._parts.append(array.astype(self.dtype).tobytes())
        self._end += array.size
        self._ends.append(self._end)

    def flush(self) -> None:
        for at, part in enumerate((b"".join(self._parts), np.array(self._ends, "<i8").tobytes())):
            self._files[at].write(part)
            self._checks[at] = zlib.crc32(part, self._checks[at])
            self._sizes[at] += len(part)
        self._parts, self._ends = [], []

    def finish(self) -> dict[str, Any]:
        self.flush()
        for file in self._files:
            file.flush()
            os.fsync(file.fileno())
        self.close()
        return {
            "name": self.name, "kind": self.kind, "dtype": self.dtype.str,
            "shape": list(self.shape), "checksums": self._checks, "sizes": self._sizes,
        }  # fmt: skip

    def close(self) -> None:
        for file in self._files:
            file.close()


def _kind(value: Any) -> tuple[str, np.ndarray]:
    if isinstance(value, str):
        return "text", np.frombuffer(value.encode("utf-8"), np.uint8)
    if isinstance(value, bytes):
        return "bytes", np.frombuffer(value, np.uint8)
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        raise TaskError(f"a cache can hold strings, bytes and numbers, not {type(value).__name__}")
    if array.ndim:
        return "array", array
    return ("scalar" if isinstance(value, (np.generic, np.ndarray)) else "number"), array.reshape(1)


def write(folder: str, elements: Iterable[Any], origin: Mapping[str, Any]) -> dict[str, Any]:
    """Write elements to a folder, which is there as a whole or not at all.

    Args:
        folder: the folder; one that is there is replaced.
        elements: dictionaries of texts, bytes, numbers and arrays.
        origin: checksums of what the elements are made from.

    Returns:
        The manifest.
    """
    parent, name = os.path.split(os.path.abspath(folder))
    os.makedirs(parent, exist_ok=True)
    temporary = os.path.join(parent, f".{name}.writing.{uuid.uuid4().hex[:12]}")
    os.mkdir(temporary)
    columns: list[_ColumnWriter] = []
    try:
        count = 0
        for count, element in enumerate(elements, 1):
            _add(element, count - 1, columns, temporary)
            if count % BUFFERED_ELEMENTS == 0:
                for column in columns:
                    column.flush()
        manifest = {
            "format": FORMAT, "version": VERSION, "examples": count, "origin": dict(origin),
            "columns": [column.finish() for column in columns],
        }  # fmt: skip
        manifest["checksum"] = _checksum(manifest)
        with open(os.path.join(temporary, MANIFEST), "w", encoding="utf-8") as file:
            json.dump(manifest, file)
            file.flush()
            os.fsync(file.fileno())
        _replace(temporary, os.path.abspath(folder))
    except BaseException:
        for column in columns:
            column.close()
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return manifest


def _add(element: Any, number: int, columns: list[_ColumnWriter], folder: str) -> None:
    if not isinstance(element, Mapping):
        raise TaskError(f"a cache can hold only dictionaries, not {type(element).__name__}")
    if not number:
        for at, (name, value) in enumerate(element.items()):
            columns.append(_ColumnWriter(folder, at, str(name), value))
    if set(element) != {column.name for column in columns}:
        raise TaskError(
            f"element {number} has the features {sorted(element)}, and the first element"
            f" {sorted(column.name for column in columns)}"
        )
    for column in columns:
        column.add(element[column.name], number)


def _replace(temporary: str, final: str) -> None:
    if os.path.lexists(final):
        old = f"{temporary}.old"
        os.rename(final, old)
        os.rename(temporary, final)
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.rename(temporary, final)
    handle = os.open(os.path.dirname(final), os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _checksum(manifest: Mapping[str, Any]) -> int:
    held = {name: value for name, value in manifest.items() if name != "checksum"}
    return zlib.crc32(json.dumps(held, sort_keys=True).encode())


def read_manifest(folder: str) -> dict[str, Any] | None:
    """The manifest of a cache; None if there is no cache.

    Args:
        folder: the folder.

    Raises:
        TaskError: it is damaged.
    """
    path = os.path.join(folder, MANIFEST)
    if not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            manifest = json.load(file)
        good = manifest["format"] == FORMAT and manifest["version"] == VERSION
        if not good or manifest["checksum"] != _checksum(manifest):
            raise ValueError("its checksum or version does not fit")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise TaskError(f"the cache {folder} is damaged: {error}") from None
    return manifest


def open_rows(folder: str, manifest: Mapping[str, Any]) -> CachedRows:
    """The elements of a cache, after a look at all checksums.

    Args:
        folder: the folder.
        manifest: its manifest.

    Raises:
        TaskError: a file is damaged or missing.
    """
    for number, column in enumerate(manifest["columns"]):
        if column["kind"] not in _KINDS:
            raise TaskError(f"the cache {folder} has a column of kind {column['kind']!r}")
        for part, check, size in zip(("values", "offsets"), column["checksums"], column["sizes"]):
            path = os.path.join(folder, f"{number}.{part}")
            if not os.path.isfile(path) or _file_checksum(path) != (check, size):
                raise TaskError(
                    f"the cache {folder} is damaged: the checksum of {number}.{part}, of feature"
                    f" {column['name']!r}, does not fit; build it again with cache(rebuild=True)"
                )
    return CachedRows(folder, manifest)


def _file_checksum(path: str) -> tuple[int, int]:
    check, size = 0, 0
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            check, size = zlib.crc32(part, check), size + len(part)
    return check, size


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What changed since a cache was written, in words.

    Args:
        old: the origin in the manifest.
        new: the origin now.
    """
    found = []
    if old.get("source") != new["source"]:
        found.append("the source")
    before, now = old.get("preprocessors", []), new["preprocessors"]
    if [name for name, _ in before] != [name for name, _ in now]:
        found.append("the list of preprocessors")
    else:
        found += [f"preprocessor {b[0]}" for a, b in zip(before, now) if list(a) != list(b)]
    if old.get("features") != new["features"]:
        found.append("the output features")
    if old.get("seed") != new["seed"]:
        found.append("the seed")
    return found


def log_rebuild(folder: str, changed: list[str]) -> None:
    """Say why a cache is written again.

    Args:
        folder: the folder.
        changed: what changed.
    """
    _LOG.warning("rebuilding the cache %s: %s changed", folder, " and ".join(changed))
