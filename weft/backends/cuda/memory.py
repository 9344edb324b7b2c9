"""Memory of a GPU: blocks are kept when they are given back, and given out again.

All work is put in order by one stream, so that a block may be given out again at once: what is
computed in it then comes after what was computed in it before.
"""

from __future__ import annotations

import bisect
import threading

from weft.backends.cuda import driver

# Blocks are of multiples of these many bytes: small ones, and large ones.
SMALL_STEP, LARGE_STEP, LARGE = 512, 2 << 20, 1 << 20
# A block that is larger than what was asked for by more than a part of it isn't given out.
WASTE = 8


class Pool:
    """The blocks of a device.

    >>> pool = Pool(lambda size: 1 << 20, lambda address: None)
    >>> a = pool.take(1000)
    >>> pool.give_back(a)
    >>> pool.take(900) == a, pool.stats()["bytes_in_use"]
    (True, 1024)
    """

    def __init__(self, allocate=driver.allocate, free=driver.free) -> None:  # type: ignore[no-untyped-def]
        self._allocate, self._free = allocate, free
        self._sizes: dict[int, int] = {}  # of all blocks, by address
        self._kept: list[tuple[int, int]] = []  # size and address of those not in use, in order
        self._lock = threading.Lock()
        self.in_use = self.peak = self.reserved = self.largest = self.count = 0

    def take(self, size: int) -> int:
        """The address of a block of at least so many bytes."""
        step = SMALL_STEP if size < LARGE else LARGE_STEP
        size = max(-(-size // step), 1) * step
        with self._lock:
            i = bisect.bisect_left(self._kept, (size, 0))
            if i < len(self._kept) and self._kept[i][0] <= size + size // WASTE:
                found, address = self._kept.pop(i)
            else:
                found, address = size, self._new(size)
            self.in_use += found
            self.peak = max(self.peak, self.in_use)
            self.largest = max(self.largest, found)
            self.count += 1
            return address

    def _new(self, size: int) -> int:
        try:
            address = self._allocate(size)
        except driver.OutOfMemory:
            self._release()
            address = self._allocate(size)
        self._sizes[address] = size
        self.reserved += size
        return address

    def give_back(self, address: int) -> None:
        """Have a block given out again."""
        with self._lock:
            size = self._sizes[address]
            self.in_use -= size
            bisect.insort(self._kept, (size, address))

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
            self._release()

    def stats(self) -> dict[str, int]:
        """Bytes in use and held, as JAX names them."""
        return {
            "bytes_in_use": self.in_use,
            "peak_bytes_in_use": self.peak,
            "largest_alloc_size": self.largest,
            "num_allocs": self.count,
            "bytes_reserved": self.reserved,
            "pool_bytes": self.reserved,
        }


pool = Pool()


def memory_stats() -> dict[str, int]:
    """What is in use of the first GPU's memory, and how much there is."""
    driver.device().use()
    free, total = driver.device().memory()
    return {**pool.stats(), "bytes_limit": total, "bytes_free": free}


class Buffer:
    """Memory of the device, given back when nothing refers to it any more."""

    __slots__ = ("address", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.address = pool.take(size)

    def __del__(self) -> None:
        if hasattr(self, "address"):
            pool.give_back(self.address)
