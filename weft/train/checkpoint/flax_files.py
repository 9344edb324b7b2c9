"""Single files: flax's MessagePack checkpoints, and safetensors files of other libraries."""

import os
import struct
from typing import Any

from weft.linen import serialization
from weft.train.checkpoint import safetensors, sources
from weft.train.checkpoint.errors import CheckpointError


def _is_safetensors(path: str) -> bool:
    """A header of JSON begins at byte 8; MessagePack of a state dictionary begins otherwise."""
    with safetensors.open_plain(path) as file:
        first = file.read(9)
        return first[8:] == b"{" and int.from_bytes(first[:8], "little") <= safetensors.MAX_HEADER


def decode_msgpack(data: bytes, where: str) -> Any:
    """The state dictionary that flax's bytes hold; every fault is a CheckpointError.

    >>> decode_msgpack(serialization.to_bytes({"a": (1, 2)}), "a file")
    {'a': {'0': 1, '1': 2}}
    """
    try:
        return serialization.msgpack_restore(data)
    except RecursionError:
        raise CheckpointError(f"{where}: is nested too deeply") from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, struct.error) as error:
        raise CheckpointError(f"{where}: is not a checkpoint of flax: {error!s:.200}") from None


def read(path: str) -> sources.Source:
    """The leaves of a file of either kind."""
    if _is_safetensors(path):
        return sources.Memory(safetensors.load_file(path), path)
    with safetensors.open_plain(path) as file:
        tree = decode_msgpack(file.read(os.fstat(file.fileno()).st_size), path)
    if not isinstance(tree, dict):
        raise CheckpointError(f"{path}: is not a checkpoint of flax: it holds no dictionary")
    return sources.Memory(tree, path)
