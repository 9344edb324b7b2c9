"""Memory of a GPU: blocks are kept when they are given back, and given out again.

All work is put in order by one stream, so that a block may be given out again at once: what is
computed in it then comes after what was computed in it before.
"""

from __future__ import annotations

import bisect
import ctypes
import sys
import threading
from collections import deque
from math import prod
from typing import Any

import numpy as np

from weft.backends.cuda import driver
from weft.backends.cuda.calls import stubs
from weft.base import knobs
from weft.base.lasting import lasting

# Blocks are of multiples of these many bytes: small ones, and large ones.
SMALL_STEP, LARGE_STEP, LARGE = 512, 2 << 20, 1 << 20
# A block that is larger than what was asked for by more than a part of it isn't given out.
WASTE = 8


def _rounded(size: int) -> int:
    """The bytes of a block that is to have so many."""
    step = SMALL_STEP if size < LARGE else LARGE_STEP
    return max(-(-size // step), 1) * step


class Pool:
    """The blocks of a device.

    >>> pool = Pool(lambda size: 1 << 20, lambda address: None)
    >>> a = pool.take(1000)
    >>> pool.give_back(a)
    >>> pool.take(900) == a, pool.stats()["bytes_in_use"]
    (True, 1024)
    """

    def __init__(
        self, allocate: Any = driver.allocate, free: Any = driver.free, number: int = 0
    ) -> None:
        self.number = number
        self._allocate, self._free = allocate, free
        self._sizes: dict[int, int] = {}  # of all blocks, by address
        self._kept: list[tuple[int, int]] = []  # size and address of those not in use, in order
        # given back, to be sorted in when somebody next asks: garbage is collected at any moment
        self._returned: deque[int] = deque()
        # blocks that native code gives out and takes back itself, by size, and how it does
        self._lists: dict[int, np.ndarray] = {}
        self._pieces: Any = None
        self._lock = threading.Lock()
        self._counts = np.zeros(2, np.int64)  # bytes in use, and most so far
        self.reserved = self.largest = self.count = 0

    def take(self, size: int) -> int:
        """The address of a block of at least so many bytes."""
        size = _rounded(size)
        with self._lock:
            self._sort_in()
            pieces = self._lists.get(size)
            if pieces is not None and pieces[stubs.LIST_LENGTH]:
                self._empty(pieces)
            i = bisect.bisect_left(self._kept, (size, 0))
            if i < len(self._kept) and self._kept[i][0] <= size + size // WASTE:
                found, address = self._kept.pop(i)
            else:
                found, address = size, self._new(size)
            counts = self._counts
            counts[stubs.IN_USE] += found
            counts[stubs.PEAK] = max(counts)
            self.largest = max(self.largest, found)
            self.count += 1
            return address

    def _new(self, size: int) -> int:
        try:
            address = self._within_limit(size)
        except driver.OutOfMemory:
            self._empty_all()
            self._release()
            address = self._within_limit(size)
        self._sizes[address] = size
        self.reserved += size
        return address

    def _within_limit(self, size: int) -> int:
        """Memory of the device, if no more of it is taken than may be."""
        fraction = knobs.gpu_memory_fraction.value
        if fraction < 1 and self is not pinned:
            total = driver.device().memory()[1]
            if self.reserved + size > fraction * total:
                raise driver.OutOfMemory("no more of the GPU's memory may be taken")
        return self._allocate(size)

    def give_back(self, address: int) -> None:
        """Have a block given out again."""
        self._returned.append(address)

    def _sort_in(self) -> None:
        while self._returned:
            address = self._returned.popleft()
            size = self._sizes[address]
            self._counts[stubs.IN_USE] -= size
            bisect.insort(self._kept, (size, address))

    # --- lists of native code ---------------------------------------------------------------------

    def list_of(self, size: int, pieces: Any) -> int:
        """The address of the list that native code takes blocks of at least so many bytes from.

        ``pieces`` is how blocks are put there and taken: ``calls/fast.py`` has them.
        """
        size = _rounded(size)
        with self._lock:
            self._pieces = pieces
            found = self._lists.get(size)
            if found is None:
                found = np.zeros(stubs.LIST_WORDS, np.int64)
                found[stubs.LIST_BYTES] = size
                found[stubs.LIST_COUNTS] = self._counts.ctypes.data
                # arrays that outlive the pool, as modules go, give their blocks back to these
                self._lists[size] = lasting(found)
                lasting(self._counts)
        return found.ctypes.data

    def refill(self, where: int) -> None:
        """Put a block into a list that is empty."""
        words = (ctypes.c_int64 * stubs.LIST_WORDS).from_address(where)
        address = self.take(words[stubs.LIST_BYTES])
        with self._lock:
            self._counts[stubs.IN_USE] -= self._sizes[address]  # until it is taken from there
        self._pieces.put(where, address)

    def _empty(self, pieces: np.ndarray) -> None:
        """Have the blocks of a list back."""
        while pieces[stubs.LIST_LENGTH]:
            address = self._pieces.take(pieces.ctypes.data)
            bisect.insort(self._kept, (self._sizes[address], address))

    def _empty_all(self) -> None:
        for pieces in self._lists.values():
            self._empty(pieces)

    def _release(self) -> None:
        """Give what isn't in use back to the device."""
        for size, address in self._kept:
            self._free(address)
            del self._sizes[address]
            self.reserved -= size
        self._kept.clear()

    def release(self) -> None:
        """Give all blocks that aren't in use back to the device."""
        with self._lock:
            self._sort_in()
            self._empty_all()
            self._release()

    def stats(self) -> dict[str, int]:
        """Bytes in use and held, as JAX names them."""
        with self._lock:
            self._sort_in()
        return {
            "bytes_in_use": int(self._counts[stubs.IN_USE]),
            "peak_bytes_in_use": int(self._counts[stubs.PEAK]),
            "largest_alloc_size": self.largest,
            "num_allocs": self.count,
            "bytes_reserved": self.reserved,
            "pool_bytes": self.reserved,
        }


pool = Pool()  # of the first GPU
_pools = {0: pool}


def pool_of(number: int) -> Pool:
    """The blocks of a GPU, which has to be in use where new ones are taken."""
    found = _pools.get(number)
    return _pools.setdefault(number, Pool(number=number)) if found is None else found


def memory_stats(number: int | None = None) -> dict[str, int]:
    """What is in use of a GPU's memory, and how much there is; without a number, of this thread's
    GPU."""
    before, device = driver.device(), driver.device(number)
    device.use()
    free, total = device.memory()
    before.use()
    return {**pool_of(device.number).stats(), "bytes_limit": total, "bytes_free": free}


class Buffer:
    """Memory of the device, given back when nothing refers to it any more.

    ``foreign`` is what gives it back where it is another library's; ``host`` is a copy of it that
    is on its way to the host.
    """

    __slots__ = ("address", "pool", "size", "foreign", "host")
    pool: Any  # a Pool; None of memory that is another library's
    foreign: Any
    host: np.ndarray | None

    def __init__(self, size: int, of: Pool | None = None) -> None:
        """Memory of a pool; without one, of that of the GPU that this thread uses."""
        self.size = size
        self.foreign = self.host = None
        self.pool = pool_of(driver.device().number) if of is None else of
        self.address = self.pool.take(size)

    @classmethod
    def over(cls, address: int, size: int, foreign: Any) -> Buffer:
        """Memory that is another library's."""
        made = object.__new__(cls)
        made.address, made.size, made.foreign = address, size, foreign
        made.host = made.pool = None
        return made

    def __del__(self) -> None:
        if hasattr(self, "address") and self.foreign is None:
            self.pool.give_back(self.address)


# --- copies ---------------------------------------------------------------------------------------

# Results up to so many bytes are copied to memory of the host that can't be paged out, which is
# kept. Operands go by way of such memory, in pieces.
MOST_PINNED = 256 << 20
_RING, _PIECE = 64 << 20, 8 << 20

pinned = Pool(driver.allocate_host, driver.free_host)


class Pinned:
    """Memory of the host that the device copies to, given back with the array over it."""

    __slots__ = ("__array_interface__", "address")

    def __init__(self, size: int) -> None:
        self.address = pinned.take(size)
        data = {"data": (self.address, False), "shape": (size,), "typestr": "|u1", "version": 3}
        self.__array_interface__ = data

    def __del__(self) -> None:
        if pinned is not None and hasattr(self, "address"):
            pinned.give_back(self.address)


class Ring:
    """Pinned memory that operands pass through, one after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._start = self._used = 0

    def copy_in(self, address: int, host: int, size: int) -> None:
        """Copy to the device; the host's memory may change when this returns."""
        with self._lock:
            if not self._start:
                self._start = driver.allocate_host(_RING)
            for first in range(0, size, _PIECE):
                piece = min(_PIECE, size - first)
                if self._used + piece > _RING:
                    driver.synchronize()  # copies from here are over
                    self._used = 0
                where = self._start + self._used
                self._used += -(-piece // 64) * 64
                ctypes.memmove(where, host + first, piece)
                driver.copy_in(address + first, where, piece, wait=False)


_rings: dict[int, Ring] = {}  # by GPU


def copy_in(buffer: Buffer, value: np.ndarray) -> None:
    """Copy contiguous values to the device; they may change when this returns."""
    number = driver.device().number
    ring = _rings.get(number) or _rings.setdefault(number, Ring())
    ring.copy_in(buffer.address, value.ctypes.data, value.nbytes)


def _landing(dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Fresh memory of the host for values."""
    size = prod(shape) * dtype.itemsize
    if size > MOST_PINNED:
        return np.empty(shape, dtype)
    return np.asarray(Pinned(size))[:size].view(dtype).reshape(shape)


def begin_copy_out(buffer: Buffer, dtype: Any, shape: tuple[int, ...]) -> None:
    """Begin to copy values to the host."""
    if type(buffer) is Buffer and buffer.host is None:
        found = _landing(dtype, shape)
        driver.copy_out(found.ctypes.data, buffer.address, found.nbytes, wait=False)
        buffer.host = found


class Arrival:
    """Values on their way to the host, on a stream that what comes after doesn't wait for."""

    moment: Any = None

    def __init__(self, buffer: Buffer, dtype: Any, shape: tuple[int, ...]) -> None:
        self.device, self.found = driver.device(), _landing(dtype, shape)
        self.buffer = buffer  # it must not be used again meanwhile
        place = self.found.ctypes.data
        self.moment = driver.copy_aside(place, buffer.address, self.found.nbytes)

    def __call__(self) -> np.ndarray:
        """The values, once they are there."""
        if self.moment is not None:
            self.device.use()
            moment, self.moment = self.moment, None
            driver.wait_until(moment)
        return self.found

    def __del__(self) -> None:
        if self.moment is not None and not sys.is_finalizing():
            used = driver.in_use()
            self()  # nobody else may have the memory before
            if used is not None:
                used.use()


def copy_out(buffer: Buffer, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The values of a buffer on the host; waits for them."""
    found = buffer.host
    if found is None or found.dtype != dtype or found.shape != shape:
        found = _landing(dtype, shape)
        driver.copy_out(found.ctypes.data, buffer.address, found.nbytes)
    else:
        driver.synchronize()
        buffer.host = None
    return found
