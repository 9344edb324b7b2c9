"""Work that waits until the result at hand has been given out: what is written to disk."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable

from weft.base.forks import across_forks

# Seconds that whoever made the work has to himself.
START_DELAY_S = 0.02

_tasks: deque[Callable[[], None]] = deque()
_working = across_forks(threading.RLock())
_begun = False


def later(task: Callable[[], None]) -> None:
    """Have something done soon by a thread, or when the process ends."""
    global _begun
    _tasks.append(task)
    if not _begun:
        _begun = True
        with contextlib.suppress(RuntimeError):  # no thread any more: done when the process ends
            threading.Thread(target=_work, name="weft-write", daemon=True).start()


def settle() -> None:
    """Do now what is left to do."""
    with _working:
        while _tasks:
            _tasks.popleft()()


def _work() -> None:
    global _begun
    time.sleep(START_DELAY_S)
    _begun = False  # what comes from here on may find the thread gone
    while _tasks:
        with _working:  # one at a time: a fork waits for no more than that
            if _tasks:
                _tasks.popleft()()


def _forget() -> None:
    global _begun
    _tasks.clear()  # the parent does them
    _begun = False


atexit.register(settle)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
