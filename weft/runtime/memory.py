"""Memory of arrays: 64-byte aligned blocks, kept for reuse up to a limit of bytes."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from weft.base.forks import across_forks

ALIGNMENT = 64
# Freed blocks kept in all, and the smallest size worth keeping.
LIMIT = 1 << 30
SMALLEST = 1 << 14

_free: dict[int, list[Any]] = {}
_kept = 0
# Taken again by the thread that has it, where memory is given back while garbage is collected.
_lock = across_forks(threading.RLock())


class Block:
    """A piece of memory that goes back to the pool when nobody refers to it any more."""

    __slots__ = ("__array_interface__", "_memory", "_size")

    def __init__(self, size: int, memory: Any) -> None:
        self._size = size
        self._memory = memory
        address = memory.__array_interface__["data"][0]
        aligned = (address + ALIGNMENT - 1) & -ALIGNMENT
        self.__array_interface__ = {
            "data": (aligned, False),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        if _give_back is not None:  # as it is when the process ends
            _give_back(self._size, self._memory)


def _give_back(size: int, memory: Any) -> None:
    global _kept
    with _lock:
        if _kept + size <= LIMIT:
            _free.setdefault(size, []).append(memory)
            _kept += size


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised array of our own memory."""
    global _kept
    count = 1
    for n in shape:
        count *= n
    size = count * dtype.itemsize
    if size < SMALLEST:
        return np.empty(shape, dtype)
    rounded = (size + 4095) & -4096
    memory = None
    with _lock:
        blocks = _free.get(rounded)
        if blocks:
            memory = blocks.pop()
            _kept -= rounded
    if memory is None:
        memory = np.empty(rounded + ALIGNMENT, np.uint8)
    raw = np.asarray(Block(rounded, memory))
    return raw[:size].view(dtype).reshape(shape)


def release_all() -> None:
    """Free all blocks that are kept for reuse."""
    global _kept
    with _lock:
        _free.clear()
        _kept = 0
