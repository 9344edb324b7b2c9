"""Files of the safetensors format: named arrays, and nothing that could run.

A file is the length of its header in 8 bytes, the header as JSON, and the bytes of all arrays one
after the other. Reference: https://huggingface.co/docs/safetensors
"""

import json
import math
import os
import stat
import zlib
from collections.abc import Iterable, Mapping
from typing import IO, Any, NamedTuple

import ml_dtypes
import numpy as np

from weft.train.checkpoint import plain_json
from weft.train.checkpoint.errors import CheckpointError

DTYPES: dict[str, np.dtype] = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "F32": np.dtype("<f4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F64": np.dtype("<f8"),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "C64": np.dtype("<c8"),
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
MAX_HEADER = 100_000_000  # bytes, as in the reference implementation
_METADATA = "__metadata__"


class Entry(NamedTuple):
    """An array in a file: its dtype and shape, and where its bytes begin and end."""

    dtype: np.dtype
    shape: tuple[int, ...]
    start: int
    stop: int


class Header(NamedTuple):
    """What a file holds, and the checksum of the bytes that say so."""

    entries: dict[str, Entry]
    metadata: dict[str, str]
    checksum: int


def encode_header(entries: Mapping[str, tuple[np.dtype, tuple[int, ...]]], metadata=None) -> bytes:
    """The first bytes of a file, up to its data; arrays follow in the order of ``entries``.

    Args:
        entries: the dtype and shape of every array, by name.
        metadata: text by name, kept with the arrays.

    Returns:
        The length of the header and the header, a multiple of 8 bytes in all.

    Example:
        >>> encode_header({"a": (np.dtype("<f4"), (2,))})[8:]
        b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  '
    """
    header: dict[str, Any] = {_METADATA: dict(metadata)} if metadata else {}
    start = 0
    for name, (dtype, shape) in entries.items():
        if name == _METADATA:
            raise CheckpointError(f"an array cannot have the name {_METADATA!r}")
        stop = start + dtype.itemsize * math.prod(shape)
        header[name] = {
            "dtype": NAMES[dtype],
            "shape": list(shape),
            "data_offsets": [start, stop],
        }
        start = stop
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER:
        raise CheckpointError(f"a header of {len(text)} bytes is above {MAX_HEADER}")
    return len(text).to_bytes(8, "little") + text


def checksum(header: bytes) -> int:
    """The checksum of the first bytes of a file, as ``read_header`` gives it.

    >>> checksum(b"")
    0
    """
    return zlib.crc32(header)


def _entry(name: str, value: Any, where: str) -> Entry:
    if type(value) is not dict or set(value) != {"dtype", "shape", "data_offsets"}:
        raise CheckpointError(f"{where}: the entry of {name!r:.80} is not valid in safetensors")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if type(dtype) is not str or dtype not in DTYPES:
        raise CheckpointError(
            f"{where}: {name!r:.80} has the dtype {dtype!r:.40}; known are {', '.join(DTYPES)}"
        )
    if not plain_json.is_shape(shape):
        raise CheckpointError(f"{where}: {name!r:.80} has the shape {shape!r:.80}")
    fine = type(offsets) is list and len(offsets) == 2 and all(map(plain_json.is_size, offsets))
    size = DTYPES[dtype].itemsize
    for n in shape:
        size *= n
    if not fine or offsets[1] - offsets[0] != size:
        raise CheckpointError(
            f"{where}: {name!r:.80} has {size} bytes, and its data_offsets are {offsets!r:.80}"
        )
    return Entry(DTYPES[dtype], tuple(shape), offsets[0], offsets[1])


def open_plain(path: str) -> IO[bytes]:
    """Open a file for reading; what is not a plain file, such as a pipe, is refused."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be opened: {error}") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise CheckpointError(f"{path}: is not a plain file")
    return open(handle, "rb")


def read_header(file: IO[bytes], where: str) -> Header:
    """The header of an open file, checked against the size of the file.

    Args:
        file: a file opened for reading in binary; it is left at the first byte of the data.
        where: the name of the file, for errors.

    Returns:
        A Header. Offsets of its entries count from the beginning of the file.
    """
    whole = os.fstat(file.fileno()).st_size
    first = file.read(8)
    length = int.from_bytes(first, "little")
    if len(first) < 8 or length > min(MAX_HEADER, whole - 8):
        raise CheckpointError(f"{where}: its {whole} bytes are not a safetensors file")
    text = file.read(length)
    if len(text) < length or text[:1] != b"{":
        raise CheckpointError(f"{where}: its header is not that of a safetensors file")
    values = plain_json.loads(text, where)
    metadata = values.pop(_METADATA, {})
    if type(metadata) is not dict or not all(type(v) is str for v in metadata.values()):
        raise CheckpointError(f"{where}: {_METADATA} must map names to strings")
    entries = {name: _entry(name, value, where) for name, value in values.items()}
    end = 0
    for entry in sorted(entries.values(), key=lambda e: (e.start, e.stop)):
        if entry.start != end:
            raise CheckpointError(f"{where}: its arrays overlap or leave gaps at byte {end}")
        end = entry.stop
    if 8 + length + end != whole:
        raise CheckpointError(f"{where}: has {whole} bytes, its header says {8 + length + end}")
    begin = 8 + length
    moved = {k: e._replace(start=e.start + begin, stop=e.stop + begin) for k, e in entries.items()}
    return Header(moved, metadata, checksum(first + text))


def read_entry(file: IO[bytes], entry: Entry, where: str) -> np.ndarray:
    """The array of an entry, in memory of its own."""
    size = entry.stop - entry.start
    data = np.empty(size, np.uint8)
    file.seek(entry.start)
    if file.readinto(data.data) != size:  # type: ignore[attr-defined]
        raise CheckpointError(f"{where}: ends before byte {entry.stop}")
    if entry.dtype == np.bool_:
        if data.size and data.max() > 1:
            raise CheckpointError(f"{where}: a boolean is neither 0 nor 1")
    return data.view(entry.dtype).reshape(entry.shape)


def as_stored(array: np.ndarray) -> np.ndarray:
    """An array as safetensors can hold it: contiguous, little-endian; others become bytes.

    >>> as_stored(np.ones(3, np.complex128)).shape
    (3, 16)
    """
    dtype = array.dtype.newbyteorder("<") if array.dtype.isbuiltin != 2 else array.dtype
    array = np.asarray(array, dtype, order="C")
    if array.dtype in NAMES:
        return array
    shape = (*array.shape, array.dtype.itemsize)
    return np.frombuffer(array.tobytes(), np.uint8).reshape(shape)


def write_arrays(file: IO[bytes], arrays: Iterable[np.ndarray]) -> list[int]:
    """Write the bytes of stored arrays, one after the other; returns their checksums."""
    checksums = []
    for array in arrays:
        data = array.reshape(-1).view(np.uint8).data
        checksums.append(zlib.crc32(data))
        file.write(data)
    return checksums


def save_file(
    tensors: Mapping[str, Any],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write arrays to a safetensors file, as ``safetensors.numpy.save_file`` does.

    Args:
        tensors: arrays by name, of dtypes that the format knows.
        filename: the file, which is replaced if it is there.
        metadata: text by name, kept with the arrays.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
        >>> save_file({"w": np.arange(3.0)}, path, {"by": "me"})
        >>> load_file(path)
        {'w': array([0., 1., 2.])}
    """
    arrays = {name: np.asarray(value) for name, value in tensors.items()}
    for name, array in arrays.items():
        if array.dtype.newbyteorder("<") not in NAMES:
            raise CheckpointError(
                f"{name!r} has the dtype {array.dtype}, which the format does not support"
            )
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    stored = {name: as_stored(arrays[name]) for name in order}
    header = encode_header({k: (a.dtype, a.shape) for k, a in stored.items()}, metadata)
    with open(filename, "wb") as file:
        file.write(header)
        write_arrays(file, stored.values())


def load_file(filename: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file by name, as ``safetensors.numpy.load_file`` gives them.

    Args:
        filename: the file.

    Returns:
        NumPy arrays by name.

    Raises:
        CheckpointError: the file is not a safetensors file, or damaged.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
        >>> save_file({"b": np.ones(2, ml_dtypes.bfloat16)}, path)
        >>> load_file(path)["b"].dtype
        dtype(bfloat16)
    """
    path = os.fspath(filename)
    with open_plain(path) as file:
        header = read_header(file, path)
        return {name: read_entry(file, entry, path) for name, entry in header.entries.items()}


def load_metadata(filename: str | os.PathLike[str]) -> dict[str, str]:
    """The text that a safetensors file keeps with its arrays.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> save_file({"b": np.ones(2)}, path, {"format": "pt"})
    >>> load_metadata(path)
    {'format': 'pt'}
    """
    path = os.fspath(filename)
    with open_plain(path) as file:
        return read_header(file, path).metadata
