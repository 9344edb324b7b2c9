"""The manifest of a checkpoint: which leaves there are, and where the bytes of each lie.

It is JSON behind its own checksum, and nothing in it is believed before it is checked: a manifest
that ``decode`` returns names plain files of its own folder, and divides every array exactly.
"""

import dataclasses
import hashlib
import json
import re
from typing import Any

import ml_dtypes
import numpy as np

from weft.train.checkpoint import plain_json, structure
from weft.train.checkpoint.errors import CheckpointError

FILE = "manifest.json"
FORMAT, VERSION = "weft.checkpoint", 1
MAX_BYTES = 1 << 28
DATA_FILE = re.compile(r"process_[0-9]{5}\.safetensors")
_HEAD = re.compile(rb'\{"sha256":"([0-9a-f]{64})","manifest":')
_SCALARS = {"bool": bool, "str": str, "int": str, "float": str, "complex": list, "bytes": str}
_ARRAYS = ("array", "numpy", "key")
_OTHER_DTYPES = {
    name: np.dtype(getattr(ml_dtypes, name))
    for name in dir(ml_dtypes)
    if name.startswith(("bfloat", "float", "int", "uint")) and hasattr(ml_dtypes, name)
    if isinstance(getattr(ml_dtypes, name), type)
}
_BUILTIN_DTYPES = {
    name: np.dtype(name)
    for name in (
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 "
        "complex64 complex128"
    ).split()
}
KNOWN_DTYPES = {**_OTHER_DTYPES, **_BUILTIN_DTYPES}


@dataclasses.dataclass(frozen=True)
class Part:
    """A block of an array: the file and tensor that hold it, and where in the array it lies."""

    file: str
    tensor: str
    start: tuple[int, ...]
    shape: tuple[int, ...]
    crc32: int


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A leaf of the tree: an array and its parts, or the value of a Python scalar."""

    kind: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    impl: str = ""
    parts: tuple[Part, ...] = ()
    value: Any = None

    @property
    def is_array(self) -> bool:
        """Whether the leaf is stored in data files."""
        return self.kind in _ARRAYS


@dataclasses.dataclass(frozen=True)
class Manifest:
    """All that is known of a checkpoint but for the numbers in its arrays."""

    step: int
    tree: Any
    leaves: dict[str, Leaf]
    files: dict[str, tuple[int, int]]  # bytes, and the checksum of the header
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)
    metadata: Any = None
    created: float = 0.0


def _leaf_json(leaf: Leaf) -> dict[str, Any]:
    if not leaf.is_array:
        return {"kind": leaf.kind, "value": leaf.value}
    made: dict[str, Any] = {"kind": leaf.kind, "dtype": leaf.dtype, "shape": list(leaf.shape)}
    if leaf.kind == "key":
        made["impl"] = leaf.impl
    made["parts"] = [
        {**dataclasses.asdict(part), "start": list(part.start), "shape": list(part.shape)}
        for part in leaf.parts
    ]
    return made


def encode(manifest: Manifest) -> bytes:
    """The bytes of a manifest file.

    >>> decode(encode(Manifest(3, None, {}, {})), "a file").step
    3
    """
    body = {
        "format": FORMAT,
        "version": VERSION,
        "step": manifest.step,
        "created": manifest.created,
        "metrics": {name: float(value).hex() for name, value in manifest.metrics.items()},
        "metadata": manifest.metadata,
        "tree": manifest.tree,
        "leaves": {name: _leaf_json(leaf) for name, leaf in manifest.leaves.items()},
        "files": {n: {"bytes": b, "header_crc32": c} for n, (b, c) in manifest.files.items()},
    }
    try:
        text = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"metadata must be JSON: {error}") from None
    digest = hashlib.sha256(text).hexdigest().encode()
    return b'{"sha256":"' + digest + b'","manifest":' + text + b"}\n"


def _expect(fine: bool, where: str, what: str) -> None:
    if not fine:
        raise CheckpointError(f"{where}: {what}")


def _decode_part(value: Any, rank: int, where: str) -> Part:
    fields = {"file", "tensor", "start", "shape", "crc32"}
    _expect(type(value) is dict and set(value) == fields, where, "a part lacks a field")
    name, start, shape = value["file"], value["start"], value["shape"]
    fine = type(name) is str and DATA_FILE.fullmatch(name) is not None
    _expect(fine, where, f"a part lies in {name!r:.80}, which is not a data file of a checkpoint")
    fine = plain_json.is_shape(start) and plain_json.is_shape(shape)
    fine = fine and len(start) == len(shape) == rank and plain_json.is_size(value["crc32"])
    _expect(fine and type(value["tensor"]) is str, where, "a part has wrong bounds")
    return Part(name, value["tensor"], tuple(start), tuple(shape), value["crc32"])


def _check_tiling(shape: tuple[int, ...], parts: tuple[Part, ...], where: str) -> None:
    """Raise unless the parts are the cells of a grid over the array, each of them once."""
    bounds = []
    for axis, size in enumerate(shape):
        starts = sorted({part.start[axis] for part in parts})
        _expect(bool(starts) and starts[0] == 0, where, f"parts of {shape} leave a gap")
        bounds.append({a: b - a for a, b in zip(starts, [*starts[1:], size])})
    cells = 1
    for sizes in bounds:
        cells *= len(sizes)
    fits = all(
        part.shape == tuple(sizes[a] for sizes, a in zip(bounds, part.start)) for part in parts
    )
    distinct = len({part.start for part in parts}) == len(parts)
    _expect(fits and distinct and len(parts) == cells, where, f"parts do not make up {shape}")


def _decode_leaf(name: str, value: Any, where: str) -> Leaf:
    where = f"{where}, {name!r:.120}"
    kind: Any = value.get("kind") if type(value) is dict else None
    if type(kind) is str and kind in _SCALARS:
        fine = set(value) == {"kind", "value"} and type(value["value"]) is _SCALARS[kind]
        _expect(fine, where, f"a wrong value of type {kind}")
        return Leaf(kind, value=value["value"])
    _expect(type(kind) is str and kind in _ARRAYS, where, f"an unknown kind {kind!r:.40}")
    fields = {"kind", "dtype", "shape", "parts"} | ({"impl"} if kind == "key" else set())
    _expect(set(value) == fields, where, "an array lacks a field")
    dtype, shape, parts = value["dtype"], value["shape"], value["parts"]
    known = type(dtype) is str and dtype in KNOWN_DTYPES
    _expect(known, where, f"an unknown dtype {dtype!r:.40}")
    _expect(plain_json.is_shape(shape), where, f"a wrong shape {shape!r:.80}")
    _expect(type(parts) is list and type(value.get("impl", "")) is str, where, "wrong parts")
    made = tuple(_decode_part(part, len(shape), where) for part in parts)
    _check_tiling(tuple(shape), made, where)
    return Leaf(kind, dtype, tuple(shape), value.get("impl", ""), made)


def _metric(text: Any, where: str) -> float:
    try:
        return float.fromhex(text)
    except (TypeError, ValueError, OverflowError):
        raise CheckpointError(f"{where}: a metric {text!r:.40}") from None


def decode(data: bytes, where: str) -> Manifest:
    """The manifest that the bytes hold.

    Args:
        data: the bytes of a manifest file.
        where: the name of the file, for errors.

    Raises:
        CheckpointError: they are not the bytes that ``encode`` wrote, or not of a checkpoint.
    """
    head = _HEAD.match(data)
    _expect(head is not None and data.endswith(b"}\n"), where, "is not a manifest of weft")
    assert head is not None
    text = data[head.end() : -2]
    same = hashlib.sha256(text).hexdigest().encode() == head[1]
    _expect(same, where, "is damaged: its checksum does not fit")
    body = plain_json.loads(text, where)
    _expect(type(body) is dict and body.get("format") == FORMAT, where, "is not a manifest of weft")
    version = body.get("version")
    _expect(type(version) is int, where, "has no version")
    _expect(version == VERSION, where, f"has format version {version}; this weft reads {VERSION}")
    fields = "format version step created metrics metadata tree leaves files".split()
    _expect(set(body) == set(fields), where, "has other fields than a manifest")
    tables = all(type(body[name]) is dict for name in ("metrics", "leaves", "files"))
    _expect(tables and plain_json.is_size(body["step"]), where, "has fields of wrong types")
    _expect(type(body["created"]) in (int, float), where, "has a wrong time")
    leaves = {name: _decode_leaf(name, leaf, where) for name, leaf in body["leaves"].items()}
    files = {}
    for name, file in body["files"].items():
        fine = DATA_FILE.fullmatch(name) and type(file) is dict
        fine = fine and set(file) == {"bytes", "header_crc32"}
        _expect(bool(fine) and all(map(plain_json.is_size, file.values())), where, "a wrong file")
        files[name] = file["bytes"], file["header_crc32"]
    used = [(part.file, part.tensor) for leaf in leaves.values() for part in leaf.parts]
    _expect(len(set(used)) == len(used), where, "two parts share a tensor")
    _expect({file for file, _ in used} <= set(files), where, "a part lies in no listed file")
    unused = set(leaves)
    structure.check(body["tree"], unused, where)
    _expect(not unused, where, "some leaves are not in its tree")
    metrics = {name: _metric(value, where) for name, value in body["metrics"].items()}
    return Manifest(
        body["step"], body["tree"], leaves, files, metrics, body["metadata"], body["created"]
    )
