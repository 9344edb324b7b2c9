"""Locks and forks: a child must not find a lock held by a thread that only its parent has."""

from __future__ import annotations

import os
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
