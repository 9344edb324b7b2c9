"""Bytes that zstd compressed, by the decoder of Python 3.14 or of the package ``zstandard``."""

import importlib
from typing import Any

from weft.train.checkpoint.errors import CheckpointError


def _module() -> Any:
    try:
        return importlib.import_module("compression.zstd")
    except ModuleNotFoundError:
        pass
    try:
        return importlib.import_module("zstandard")
    except ModuleNotFoundError:
        return None


def is_there() -> bool:
    """Whether there is a decoder."""
    return _module() is not None


def decompress(data: bytes, limit: int, where: str) -> bytes:
    """What the bytes hold; no more than one byte above the limit is ever made.

    Args:
        data: a frame of zstd.
        limit: how many bytes there may be.
        where: the name of the file, for errors.
    """
    module = _module()
    if module is None:
        raise CheckpointError(
            f"{where}: is compressed with zstd; use Python 3.14, or pip install 'weft[train]'"
        )
    decoder = module.ZstdDecompressor()
    try:
        if module.__name__ == "zstandard":
            with decoder.stream_reader(data) as reader:
                made = reader.read(limit + 1)
        else:
            made = decoder.decompress(data, max_length=limit + 1)
    except (module.ZstdError, ValueError, EOFError) as error:
        raise CheckpointError(f"{where}: its zstd data is damaged: {error}") from None
    if len(made) > limit:
        raise CheckpointError(f"{where}: holds more than {limit} bytes")
    return made
