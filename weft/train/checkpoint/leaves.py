"""Leaves of a tree as manifests and files hold them, and Python scalars back from there."""

from typing import Any, NamedTuple

import numpy as np

import weft
from weft import dtypes, random
from weft.train.checkpoint import manifest
from weft.train.checkpoint.errors import CheckpointError
from weft.train.checkpoint.manifest import Leaf


class Block(NamedTuple):
    """A part of an array that this process writes, and where in the array it lies."""

    start: tuple[int, ...]
    array: np.ndarray


def is_key(value: Any) -> bool:
    """Whether a value is an array of typed random keys, or stands for one.

    >>> is_key(weft.random.key(0)), is_key(weft.random.PRNGKey(0))
    (True, False)
    """
    dtype = getattr(value, "dtype", None)
    return dtype is not None and dtypes.issubdtype(dtype, dtypes.prng_key)


def _scalar(value: Any) -> Leaf | None:
    kind = type(value)
    if kind in (bool, str):
        return Leaf(kind.__name__, value=value)
    if kind is int:
        return Leaf("int", value=hex(value))
    if kind is float:
        return Leaf("float", value=value.hex())
    if kind is complex:
        return Leaf("complex", value=[value.real.hex(), value.imag.hex()])
    if kind is bytes:
        return Leaf("bytes", value=value.hex())
    return None


def scalar_value(leaf: Leaf, where: str) -> Any:
    """The Python scalar that a leaf holds.

    >>> scalar_value(Leaf("int", value="0x10"), "a file")
    16
    """
    text = leaf.value
    try:
        if leaf.kind == "int":
            return int(text, 16)
        if leaf.kind == "float":
            return float.fromhex(text)
        if leaf.kind == "complex":
            real, imag = text
            return complex(float.fromhex(real), float.fromhex(imag))
        return bytes.fromhex(text) if leaf.kind == "bytes" else text
    except (TypeError, ValueError, OverflowError):
        raise CheckpointError(f"{where}: {text!r:.80} is not of type {leaf.kind}") from None


def _blocks(array: Any, first: bool) -> list[Block]:
    """What this process writes of an array: all of it, or the parts that no other writes."""
    if isinstance(array, np.ndarray) or array.is_fully_addressable:
        return [Block((0,) * array.ndim, np.asarray(array))] if first else []
    found = []
    for shard in array.addressable_shards:
        if shard.replica_id == 0:
            start = tuple(s.indices(n)[0] for s, n in zip(shard.index, array.shape))
            found.append(Block(start, np.asarray(shard.data)))
    return found


def take(name: str, value: Any, first: bool = True, copy: bool = False) -> tuple[Leaf, list[Block]]:
    """A leaf for the manifest, without its parts, and the blocks that this process writes.

    Args:
        name: the leaf's name, for errors.
        value: an array, an array of keys, or a Python scalar.
        first: whether this process writes what all processes have.
        copy: whether NumPy arrays are copied, because the caller may change them. Arrays of weft
            never change, and a NumPy view keeps their memory when they are donated.

    Example:
        >>> take("w", np.ones(2))[0]
        Leaf(kind='numpy', dtype='float64', shape=(2,), impl='', parts=(), value=None)
    """
    scalar = _scalar(value)
    if scalar is not None:
        return scalar, []
    kind, impl = "array", ""
    if is_key(value):
        kind, impl = "key", str(random.key_impl(value))
        value = random.key_data(value)
    elif isinstance(value, (np.ndarray, np.generic)):
        kind = "numpy"
        value = np.array(value) if copy else np.asarray(value)
    elif not isinstance(value, weft.Array):
        raise CheckpointError(
            f"{name!r} is of type {type(value).__name__}; a checkpoint can hold arrays, random "
            "keys,"
            " bool, int, float, complex, str, bytes and None"
        )
    dtype = np.dtype(value.dtype).name
    if dtype not in manifest.KNOWN_DTYPES:
        raise CheckpointError(f"{name!r} has the dtype {value.dtype}, which cannot be stored")
    return Leaf(kind, dtype, tuple(value.shape), impl), _blocks(value, first)
