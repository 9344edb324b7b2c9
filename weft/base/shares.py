"""A range of work that threads of Python share: each takes one piece of it after the other."""

from __future__ import annotations

import threading
from math import isqrt

# Seconds of work on one range after which threads of Python help.
HELP_AFTER_S = 0.001
# Seconds of one piece at most: signals are heard, and helpers waited for, between pieces.
CALL_S = 0.01
# Seconds that a helper costs whoever begins it, and a piece all that wait for Python's lock.
HELPER_S = 0.0002


class Rest:
    """What is left of a range: taken in pieces of whole chunks, which become smaller to the end.

    A call by Python costs as much as a small chunk, so one or two chunks alone tell how long one
    takes (``each``, in seconds), and a piece is as many as do not make others wait for it.
    """

    def __init__(self, start: int, stop: int, chunk: int) -> None:
        self.next, self.stop, self.chunk = start, stop, chunk
        self.sharers, self.each, self.least = 1, 0.0, 0.0
        self.lock = threading.Lock()

    def count(self) -> int:
        """How many chunks are left."""
        return -(-(self.stop - self.next) // self.chunk)

    def expected(self) -> float:
        """Seconds that one thread would need for them."""
        return self.count() * self.each

    def learn(self, seconds: float, low: int, high: int) -> None:
        """Take note of how long a piece took. The first one brings code and memory near: where that
        may be what took so long, another single chunk is looked at."""
        each = seconds / -(-(high - low) // self.chunk)
        sure = self.least or not each < HELP_AFTER_S < each * self.count()
        self.least = min(each, self.least or each)
        if sure:
            self.each = self.least

    def share(self, threads: int) -> int:
        """How many threads share what is left, of so many that may: n of them need the nth part of
        the time, and the time to begin them all."""
        expected = self.expected()
        if expected > HELP_AFTER_S:
            worth = max(2, isqrt(int(expected / HELPER_S)))
            self.sharers = max(1, min(threads, self.count(), worth))
        return self.sharers

    def take(self) -> tuple[int, int] | None:
        """The range of the next piece, if one is left."""
        with self.lock:
            low, many = self.next, 1
            if low >= self.stop:
                return None
            if self.each:
                many = max(1, min(self._fair(), int(CALL_S / self.each)))
            self.next = min(low + many * self.chunk, self.stop)
            return low, self.next

    def _fair(self) -> int:
        """Chunks of a piece that leaves enough for others, and does not end too soon."""
        count, sharers = self.count(), self.sharers
        if sharers == 1:
            return count
        return max(count // (3 * sharers), min(int(HELPER_S / self.each), count // sharers))

    def close(self) -> int | None:
        """Have nothing more taken; where what is left begins."""
        with self.lock:
            left = self.next if self.next < self.stop else None
            self.next = self.stop
            return left
