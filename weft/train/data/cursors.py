"""Reading a pipeline from front to back, from any position.

A cursor has ``pull(count)``, which returns the next rows (none at the end), and ``state()`` and
``restore(state)``, whose states are plain JSON. Who computes the rows of an indexed node is up to a
runner: this thread (``Here``), other threads, or other processes.
"""

import itertools
import time
from collections import deque
from typing import Any

import numpy as np

from weft.train.data.errors import is_placed
from weft.train.data.rows import Chunk, Rows, concatenate, select

QUICK = 2e-3  # seconds: a chunk that took less is followed by a larger one


class Ticket:
    """A chunk that somebody computes: rows of the slots from ``start`` up to ``stop``."""

    def __init__(self, node: Any, start: int, stop: int, epoch: int, session: dict) -> None:
        self.node, self.start, self.stop = node, start, stop
        self.epoch, self.session = epoch, session
        # for runners
        self.result: tuple[Chunk, float] | None = None
        self.error: Exception | None = None
        self.cancelled, self.number, self.done = False, -1, None

    def compute(self) -> tuple[Chunk, float]:
        """The chunk, and the seconds that it took."""
        began = time.perf_counter()
        chunk = self.node.rows(np.arange(self.start, self.stop), self.epoch, self.session)
        return chunk, time.perf_counter() - began


class Here:
    """Runs tickets in this thread, when they are waited for."""

    ahead, halted = 1, False

    def submit(self, ticket: Ticket) -> None:
        """Take a ticket."""

    def wait(self, ticket: Ticket) -> tuple[Chunk, float]:
        """The chunk of a ticket, and the seconds that it took."""
        return ticket.compute()

    def cancel(self, ticket: Ticket) -> None:
        """Forget a ticket."""

    def close(self) -> None:
        """End."""


HERE = Here()
_readers = itertools.count()


class IndexedCursor:
    """Reads an indexed node: its state is the next slot."""

    def __init__(self, node: Any, runner: Any = HERE, epoch: int = 0) -> None:
        self.node, self.runner, self.epoch = node, runner, epoch
        # a runner's name for this reader, and what nodes keep open for it
        self._session: dict = {"key": next(_readers)}
        self._begin(0)

    def _begin(self, slot: int) -> None:
        self._slot = self._requested = slot  # the next to deliver, the next to ask for
        self._chunk, self._first, self._taken = Chunk([]), slot, 0
        self._pending: deque[Ticket] = deque()
        self._size, self._ended = 1, False
        self._careful = slot  # up to here, one slot at a time

    def state(self) -> Any:
        return self._slot

    def restore(self, state: Any) -> None:
        for ticket in self._pending:
            self.runner.cancel(ticket)
        self._begin(int(state))

    def close(self) -> None:
        self.restore(self._slot)

    def pull(self, count: int) -> Rows:
        parts: list[Rows] = []
        while count > 0:
            left = len(self._chunk.rows) - self._taken
            if not left:
                if not self._load(count):
                    break
                continue
            taken = min(left, count)
            begin, self._taken = self._taken, self._taken + taken
            if taken == len(self._chunk.rows):
                parts.append(self._chunk.rows)
            else:
                parts.append(select(self._chunk.rows, slice(begin, self._taken)))
            count -= taken
            self._slot = self._after()
        return concatenate(parts)

    def _after(self) -> int:
        """The slot after the last that was delivered; it does not depend on sizes of chunks."""
        where = self._chunk.where
        return self._first + 1 + int(self._taken - 1 if where is None else where[self._taken - 1])

    def _ask(self, wanted: int) -> bool:
        """Submit a ticket for the next slots, if there are any."""
        span = self.node.span
        size = max(self._size, min(wanted, self.node.block))
        if self._requested < self._careful:
            size = 1
        stop = self._requested + size if span is None else min(self._requested + size, span)
        if self._ended or stop <= self._requested:
            return False
        ticket = Ticket(self.node, self._requested, stop, self.epoch, self._session)
        self.runner.submit(ticket)
        self._pending.append(ticket)
        self._requested = stop
        return True

    def _load(self, wanted: int) -> bool:
        """Have the next chunk; False at the end."""
        ahead = 1 if self._requested < self._careful else self.runner.ahead
        while len(self._pending) < ahead and self._ask(wanted):
            pass
        if not self._pending:
            return False
        ticket = self._pending.popleft()
        try:
            chunk, seconds = self.runner.wait(ticket)
        except Exception as error:
            for other in self._pending:
                self.runner.cancel(other)
            delivered = self._slot
            self._begin(ticket.start)
            self._slot = delivered
            if ticket.stop == ticket.start + 1 or is_placed(error, together=True):
                raise
            self._careful = ticket.stop  # deliver what comes before the element that fails
            return self._load(1)
        if self._size < self.node.block and seconds < QUICK:
            self._size = min(2 * self._size, self.node.block)
        self._chunk, self._first, self._taken = chunk, ticket.start, 0
        self._ended = self._ended or chunk.ended
        return True
