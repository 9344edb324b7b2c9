"""Arrays in files of the zarr format, version 2, without compression: a file for each part.

Every process writes the parts that it has, and reads what it needs, so that an array written by
some processes can be read by others. tensorstore and other libraries read them too.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

HEADER = ".zarray"


def _dtype_name(dtype: Any) -> str:
    return dtype.str if dtype.kind in "biufc" and dtype.isbuiltin else dtype.name


def _dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def _put(path: str, data: bytes | memoryview) -> None:
    """Write a file; whoever reads it sees all of it or the one before."""
    partial = f"{path}.{os.getpid()}"
    with open(partial, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def begin(folder: str, shape: Sequence[int], dtype: Any, chunks: Sequence[int]) -> None:
    """Write what says how an array is divided; all processes write the same."""
    os.makedirs(folder, exist_ok=True)
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
        try:
            with open(os.path.join(folder, HEADER), encoding="utf-8") as file:
                header = json.load(file)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"there is no array in {folder!r}: {HEADER} is missing"
            ) from None
        if header.get("compressor") or header.get("filters") or header.get("order") != "C":
            raise ValueError(
                f"the array in {folder!r} is compressed; install tensorstore to read it"
            )
        self.folder = folder
        self.shape = tuple(header["shape"])
        self.chunks = tuple(header["chunks"])
        self.dtype = _dtype(header["dtype"])
        self.separator = header.get("dimension_separator", ".")

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
        try:
            data = np.fromfile(os.path.join(self.folder, name), np.uint8)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"the part {name} of the array in {self.folder!r} is missing: the process that was"
                " to write it may not have come to an end"
            ) from None
        if data.size != int(np.prod(self.chunks)) * self.dtype.itemsize:
            raise ValueError(f"the part {name} of the array in {self.folder!r} is not whole")
        return data.view(self.dtype).reshape(self.chunks)
