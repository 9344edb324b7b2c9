"""How soon Python's threads give way to each other, while some of them wait for LLVM.

A thread that comes back from LLVM needs Python's lock for microseconds, and would wait five
milliseconds for it, the usual interval, wherever another thread is planning: as long as LLVM takes
for a small kernel.
"""

from __future__ import annotations

import sys
import threading

from weft.base.forks import across_forks

INTERVAL = 2e-4


class BriskSwitches:
    """A scope, for any number of threads, in which Python's lock changes hands sooner."""

    def __init__(self) -> None:
        self._lock = across_forks(threading.Lock())
        self._inside = 0
        self._before = 0.0
        self._set = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(INTERVAL, self._before))
                self._set = sys.getswitchinterval()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            # whoever has changed it meanwhile has the last word
            if self._inside == 0 and sys.getswitchinterval() == self._set:
                sys.setswitchinterval(self._before)


brisk_switches = BriskSwitches()
