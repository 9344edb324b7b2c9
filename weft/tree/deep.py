"""Trees that are nested more deeply than Python's limit of recursion lets functions follow."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from weft.base.forks import across_forks

T = TypeVar("T")

# Calls inside each other that are allowed beyond the limit: enough for a thousand levels, as in
# JAX. They take memory of Python's own, not of the thread's stack.
MORE_CALLS = 5000


class _Room:
    """A higher limit while any thread is inside."""

    def __init__(self) -> None:
        self.lock = across_forks(threading.RLock())
        self.inside = 0
        self.before = self.raised = 0

    def __enter__(self) -> None:
        with self.lock:
            if not self.inside:
                self.before = sys.getrecursionlimit()
                self.raised = self.before + MORE_CALLS
                sys.setrecursionlimit(self.raised)
            self.inside += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside and sys.getrecursionlimit() == self.raised:
                sys.setrecursionlimit(self.before)


_room = _Room()


def deeply(function: Callable[[], T]) -> T:
    """What a function gives that has met Python's limit of recursion, called once more."""
    with _room:
        return function()
