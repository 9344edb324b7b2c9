"""Arrays of the zarr format, version 2, read from any store of bytes by key.

Chunks may be plain, or compressed with zstd or zlib.
"""

import itertools
import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.train.checkpoint import manifest, plain_json, zstd
from weft.train.checkpoint.errors import CheckpointError

Store = Callable[[str], bytes | None]
MAX_CHUNKS = 1 << 24


def decompress(data: bytes, kind: str | None, size: int, where: str) -> bytes:
    """The ``size`` bytes that a chunk holds.

    >>> decompress(zlib.compress(b"abc"), "zlib", 3, "a chunk")
    b'abc'
    """
    if kind == "zstd":
        data = zstd.decompress(data, size, where)
    elif kind in ("zlib", "gzip"):
        unpacker = zlib.decompressobj(wbits=31 if kind == "gzip" else 15)
        try:
            data = unpacker.decompress(data, size + 1)
        except zlib.error as error:
            raise CheckpointError(f"{where}: its {kind} data is damaged: {error}") from None
    elif kind is not None:
        raise CheckpointError(f"{where}: is compressed with {kind!r:.40}; known are zstd and zlib")
    if len(data) != size:
        raise CheckpointError(f"{where}: has {len(data)} bytes instead of {size}")
    return data


def _dtype(name: Any, where: str) -> np.dtype:
    plain = {dtype.str: dtype for dtype in manifest.KNOWN_DTYPES.values() if dtype.isbuiltin == 1}
    known = {**manifest.KNOWN_DTYPES, **plain}
    if type(name) is not str or name not in known:
        raise CheckpointError(f"{where}: has the dtype {name!r:.40}")
    return known[name]


def read_array(store: Store, prefix: str, where: str) -> np.ndarray:
    """The array whose keys begin with ``prefix/``.

    Args:
        store: gives the bytes of a key, or None.
        prefix: the name of the array.
        where: the name of the store, for errors.
    """
    where = f"{where}, {prefix!r:.120}"
    text = store(f"{prefix}/.zarray")
    if text is None:
        raise CheckpointError(f"{where}: does not exist")
    meta = plain_json.loads(text, where)
    if type(meta) is not dict or meta.get("zarr_format") != 2 or meta.get("filters"):
        raise CheckpointError(f"{where}: is not a zarr array of version 2 without filters")
    shape: Any = meta.get("shape")
    chunks: Any = meta.get("chunks")
    order: Any = meta.get("order", "C")
    fine = plain_json.is_shape(shape) and plain_json.is_shape(chunks) and order in ("C", "F")
    if not fine or len(shape) != len(chunks) or not all(chunks):
        raise CheckpointError(f"{where}: has the shape {shape!r:.80} in chunks {chunks!r:.80}")
    dtype = _dtype(meta.get("dtype"), where)
    compressor = meta.get("compressor")
    kind = compressor.get("id") if type(compressor) is dict else None
    separator = meta.get("dimension_separator", ".")
    counts = [-(-n // c) for n, c in zip(shape, chunks)]
    if separator not in (".", "/") or math.prod(counts) > MAX_CHUNKS:
        raise CheckpointError(f"{where}: has {counts} chunks")
    size = dtype.itemsize * math.prod(chunks)
    pieces: dict[tuple[int, ...], np.ndarray] = {}
    for place in itertools.product(*map(range, counts)):
        name = separator.join(map(str, place)) or "0"
        data = store(f"{prefix}/{name}")
        if data is None:
            raise CheckpointError(f"{where}: lacks the chunk {name}")
        values = np.frombuffer(decompress(data, kind, size, where), dtype)
        pieces[place] = values.reshape(chunks, order=order)
    made = np.empty(shape, dtype)  # allocated once all chunks are there
    for place, values in pieces.items():
        low = [p * c for p, c in zip(place, chunks)]
        to = tuple(slice(a, min(a + c, n)) for a, c, n in zip(low, chunks, shape))
        made[to] = values[tuple(slice(0, s.stop - s.start) for s in to)]
    return made
