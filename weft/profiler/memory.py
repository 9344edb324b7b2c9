"""Profiles of memory: what arrays are alive, in the format of pprof."""

from __future__ import annotations

import gzip
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from weft.api.environment import live_arrays


def device_memory_profile(backend: str | None = None) -> bytes:
    """Return a profile of the arrays that are alive, by shape and dtype.

    Args:
        backend: accepted for JAX, no effect.

    Returns:
        The bytes of a gzipped profile that ``pprof`` reads.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> x = jnp.ones(1000)
        >>> weft.profiler.device_memory_profile()[:2]
        b'\\x1f\\x8b'
    """
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for array in live_arrays(backend):
        label = array.aval.str_short()
        counts[label] += 1
        sizes[label] += array.nbytes
    rows = [(label, counts[label], size) for label, size in sizes.most_common()]
    return gzip.compress(_profile(rows))


def save_device_memory_profile(filename: Any, backend: str | None = None) -> None:
    """Write a profile of the memory in use to a file, for ``pprof``.

    Args:
        filename: the path of the file.
        backend: accepted for JAX, no effect.

    Example:
        >>> import os, tempfile, weft
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     weft.profiler.save_device_memory_profile(folder + "/memory.prof")
        ...     os.listdir(folder)
        ['memory.prof']
    """
    Path(os.fspath(filename)).write_bytes(device_memory_profile(backend))


# The message of https://github.com/google/pprof/blob/main/proto/profile.proto: fields of Profile
# are sample_type 1, sample 2, location 4, function 5, string_table 6.


def _profile(rows: Iterable[tuple[str, int, int]]) -> bytes:
    texts = ["", "allocations", "count", "space", "bytes"]
    parts = [
        _field(1, _number(1, 1) + _number(2, 2)),
        _field(1, _number(1, 3) + _number(2, 4)),
    ]
    for i, (label, count, size) in enumerate(rows, 1):
        texts.append(label)
        values = _packed(2, [count, size])
        parts.append(_field(2, _packed(1, [i]) + values))
        parts.append(_field(4, _number(1, i) + _field(4, _number(1, i))))
        parts.append(_field(5, _number(1, i) + _number(2, len(texts) - 1)))
    parts += [_field(6, text.encode()) for text in texts]
    return b"".join(parts)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _packed(field: int, values: list[int]) -> bytes:
    return _field(field, b"".join(map(_varint, values)))
