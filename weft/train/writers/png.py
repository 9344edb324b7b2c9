"""Pictures as PNG, of 8 bits a channel and without filters. Reference: the PNG specification."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

_COLOURS = {1: 0, 2: 4, 3: 2, 4: 6}  # PNG's colour type by the number of channels


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)


def as_bytes(image: Any) -> np.ndarray:
    """A picture as bytes of shape (height, width, channels); floats are cut to 0 to 1.

    >>> as_bytes(np.array([[0.0, 1.0], [0.5, 7.0]])).tolist()
    [[[0], [255]], [[128], [255]]]
    """
    image = np.asarray(image)
    image = image[..., None] if image.ndim == 2 else image
    if image.ndim != 3 or image.shape[-1] not in _COLOURS or 0 in image.shape:
        raise ValueError(
            f"a picture has the shape (height, width, channels) with 1 to 4 channels, got"
            f" {image.shape}"
        )
    if image.dtype == np.bool_:
        return image.astype(np.uint8) * np.uint8(255)
    if image.dtype.kind in "iu":
        return np.clip(image, 0, 255).astype(np.uint8)
    unit = np.clip(np.nan_to_num(image.astype(np.float32)), 0.0, 1.0)
    return np.rint(unit * 255.0).astype(np.uint8)


def encode_png(image: Any) -> bytes:
    """Return the bytes of a PNG file.

    Args:
        image: of shape (height, width) or (height, width, channels), with 1 to 4 channels; bytes,
            or floats from 0 to 1.

    Returns:
        The bytes.

    Example:
        >>> encode_png(np.zeros((2, 2)))[:8]
        b'\\x89PNG\\r\\n\\x1a\\n'
    """
    pixels = as_bytes(image)
    height, width, channels = pixels.shape
    head = struct.pack(">IIBBBBB", width, height, 8, _COLOURS[channels], 0, 0, 0)
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    body = zlib.compress(rows.tobytes(), 6)
    chunks = _chunk(b"IHDR", head), _chunk(b"IDAT", body), _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
