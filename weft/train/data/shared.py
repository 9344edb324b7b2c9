"""Memory that two processes see: files without names, so that nothing is left behind."""

import ctypes
import mmap
import os
import tempfile
import weakref
from collections.abc import Callable, Sequence
from typing import Any

_ALIGNMENT = 64


def new_file(size: int) -> int:
    """A file in memory that has no name; the descriptor is the only way to it."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("weft-data", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            handle = os.dup(file.fileno())
    os.ftruncate(handle, max(size, 1))
    return handle


def places(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Where buffers of some sizes go, one after the other, and how much they need in all.

    >>> places([3, 100, 1])
    ([0, 64, 192], 256)
    """
    starts, end = [], 0
    for size in sizes:
        starts.append(end)
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return starts, end


def write(memory: Any, starts: Sequence[int], buffers: Sequence[memoryview]) -> None:
    """Copy buffers to their places."""
    view = memoryview(memory)
    for start, buffer in zip(starts, buffers):
        view[start : start + buffer.nbytes] = buffer
    view.release()


class Slab:
    """A piece of shared memory, as one of the two processes sees it."""

    def __init__(self, number: int, size: int, handle: int | None = None) -> None:
        self.number, self.size = number, size
        self.handle = new_file(size) if handle is None else handle
        self.memory = mmap.mmap(self.handle, size)

    def close_handle(self) -> None:
        """Forget the file; the mapping stays."""
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1

    def lend(self, back: Callable[["Slab"], None]) -> memoryview:
        """All of the memory; when nobody uses it any more, ``back`` is called with the slab."""
        holder = (ctypes.c_char * self.size).from_buffer(self.memory)
        weakref.finalize(holder, back, self).atexit = False
        return memoryview(holder).cast("B")
