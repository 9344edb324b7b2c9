"""Arrays in files of the zarr format, version 2, without compression: a file for each part.

Every process writes the parts that it has, and reads what it needs, so that an array written by
some processes can be read by others. tensorstore and other libraries read them too.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Sequence
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

HEADER = ".zarray"
# What a file is called while it is written, and the seconds after which nobody writes to it.
_PARTIAL = re.compile(r"\.(\.zarray|[0-9.]+)\.[0-9a-f]{8}")
STALE_SECONDS = 3600


def _dtype_name(dtype: Any) -> str:
    return dtype.str if dtype.kind in "biufc" and dtype.isbuiltin else dtype.name


def _dtype(name: Any) -> np.dtype | None:
    """A numeric dtype by its name; None where the name is not one."""
    if not isinstance(name, str):
        return None
    own = getattr(ml_dtypes, name, None)
    if own is not None:
        return np.dtype(own) if isinstance(own, type) and issubclass(own, np.generic) else None
    try:
        found = np.dtype(name)
    except (TypeError, ValueError):
        return None
    return found if found.kind in "biufc" and found.subdtype is None else None


def _put(path: str, data: bytes | memoryview) -> None:
    """Write a file; whoever reads it sees all of it or the one before."""
    folder, name = os.path.split(path)
    partial = os.path.join(folder, f".{name}.{secrets.token_hex(4)}")
    try:
        with open(partial, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)
        raise


def _remove_partial(folder: str) -> None:
    """Remove what processes that were killed have left of files."""
    for name in os.listdir(folder):
        if _PARTIAL.fullmatch(name):
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):  # another process may be as far
                if time.time() - os.stat(path).st_mtime > STALE_SECONDS:
                    os.unlink(path)


def begin(folder: str, shape: Sequence[int], dtype: Any, chunks: Sequence[int]) -> None:
    """Write what says how an array is divided; all processes write the same."""
    os.makedirs(folder, exist_ok=True)
    _remove_partial(folder)
    header = {
        "zarr_format": 2,
        "shape": list(shape),
        "chunks": [max(1, n) for n in chunks],
        "dtype": _dtype_name(np.dtype(dtype)),
        "compressor": None,
        "fill_value": None,
        "order": "C",
        "filters": None,
        "dimension_separator": ".",
    }
    _put(os.path.join(folder, HEADER), json.dumps(header, indent=1).encode())


def write(folder: str, index: Sequence[slice], shape: Sequence[int], value: np.ndarray) -> None:
    """Write one part."""
    places = [
        part.indices(n)[0] // max(1, size)
        for part, n, size in zip(index, shape, value.shape, strict=True)
    ]
    _put(os.path.join(folder, _name(places)), np.ascontiguousarray(value).tobytes())


def _name(places: Sequence[int]) -> str:
    return ".".join(map(str, places)) or "0"


class Stored:
    """An array in files."""

    def __init__(self, folder: str) -> None:
        path = os.path.join(folder, HEADER)
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise ValueError("a pipe or a device")
            with open(path, encoding="utf-8") as file:
                header = json.load(file)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"there is no array in {folder!r}: {HEADER} is missing"
            ) from None
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{HEADER} in {folder!r} isn't a zarr header: {error}") from None
        if not isinstance(header, dict):
            raise ValueError(f"{HEADER} in {folder!r} isn't a zarr header: {header!r:.80}")
        if header.get("compressor") or header.get("filters") or header.get("order") != "C":
            raise ValueError(
                f"the array in {folder!r} is compressed; install tensorstore to read it"
            )
        self.folder = folder
        self.shape = self._sizes(header, "shape", 0)
        self.chunks = self._sizes(header, "chunks", 1)
        if len(self.shape) != len(self.chunks):
            raise self._refused(header, "chunks", f"a size for each of {len(self.shape)} axes")
        dtype = _dtype(header.get("dtype"))
        if dtype is None:
            raise self._refused(header, "dtype", "the name of a dtype of numbers")
        self.dtype = dtype
        self.separator = header.get("dimension_separator", ".")
        if self.separator not in (".", "/"):
            raise self._refused(header, "dimension_separator", "'.' or '/'")

    def _sizes(self, header: dict[str, Any], name: str, least: int) -> tuple[int, ...]:
        sizes = header.get(name)
        if not isinstance(sizes, list) or not all(type(n) is int and n >= least for n in sizes):
            raise self._refused(header, name, f"integers from {least} up")
        return tuple(sizes)

    def _refused(self, header: dict[str, Any], name: str, wanted: str) -> ValueError:
        return ValueError(
            f"{HEADER} in {self.folder!r} is damaged: {name} must be {wanted}, got"
            f" {header.get(name)!r:.80}"
        )

    def read(self, index: Sequence[slice]) -> np.ndarray:
        """The elements of a range."""
        ranges = [part.indices(n)[:2] for part, n in zip(index, self.shape, strict=True)]
        made = np.empty([b - a for a, b in ranges], self.dtype)
        grid = [
            range(a // size, -(-b // size))
            for (a, b), size in zip(ranges, self.chunks, strict=True)
        ]
        for places in itertools.product(*grid):
            begins = [i * size for i, size in zip(places, self.chunks, strict=True)]
            both = [
                (max(a, low), min(b, low + size))
                for (a, b), low, size in zip(ranges, begins, self.chunks, strict=True)
            ]
            source = tuple(
                slice(a - low, b - low) for (a, b), low in zip(both, begins, strict=True)
            )
            target = tuple(slice(a - r, b - r) for (a, b), (r, _) in zip(both, ranges, strict=True))
            made[target] = self._chunk(places)[source]
        return made

    def _chunk(self, places: Sequence[int]) -> np.ndarray:
        name = _name(places).replace(".", self.separator)
        size, path = prod(self.chunks) * self.dtype.itemsize, os.path.join(self.folder, name)
        try:
            found = os.stat(path)
            whole = stat.S_ISREG(found.st_mode) and found.st_size == size  # a pipe would wait
            data = np.fromfile(path, np.uint8) if whole else np.empty(0, np.uint8)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"the part {name} of the array in {self.folder!r} is missing: the process that "
                "writes it may have failed"
            ) from None
        if data.size != size:
            raise ValueError(f"the part {name} of the array in {self.folder!r} is incomplete")
        return data.view(self.dtype).reshape(self.chunks)
