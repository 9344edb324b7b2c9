"""Locks and forks: a child must not find a lock held by a thread that only its parent has."""

from __future__ import annotations

import os
import threading
from typing import TypeVar

Lock = TypeVar("Lock")


def across_forks(lock: Lock) -> Lock:
    """A lock that forks wait for, so that it is free in the child; for locks of modules."""
    acquire, release = lock.acquire, lock.release  # type: ignore[attr-defined]
    taken = []  # empty where the lock was made after the fork had begun

    def before() -> None:
        acquire()
        taken.append(True)

    def after() -> None:
        if taken:
            taken.pop()
            release()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=after, after_in_child=after)
    return lock


class Stay:
    """A stretch of code that forks wait for and that any number of threads may be in at once.

    Threads enter and leave it by ``with``; a fork acquires it, waiting for the other threads.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside: list[int] = []  # threads, each as often as it has entered

    def __enter__(self) -> None:
        with self._changed:
            self._inside.append(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._inside.remove(threading.get_ident())
            self._changed.notify_all()

    def count(self) -> int:
        """How often threads have entered it that have not left."""
        return len(self._inside)

    def acquire(self) -> None:
        me = threading.get_ident()
        self._changed.acquire()
        while any(thread != me for thread in self._inside):
            self._changed.wait()

    def release(self) -> None:
        self._changed.release()
