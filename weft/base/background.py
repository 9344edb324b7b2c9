"""Work that a thread of its own does, one piece after the other, while the process goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable

from weft.base import knobs, observing
from weft.base.forks import across_forks

_last: threading.Thread | None = None
_adding = across_forks(threading.Lock())


def in_background(task: Callable[[], None]) -> None:
    """Have something done by a thread, with the settings of this one, after what came before."""
    global _last
    settings = knobs.in_key_values()
    with _adding:
        before = _last

        def run() -> None:
            if before is not None:
                before.join()
            if not is_leaving():
                with knobs.scope(**settings), observing.in_background():
                    task()

        thread: threading.Thread | None
        thread = threading.Thread(target=run, name="weft-background")
        try:
            thread.start()
        except RuntimeError:  # the system has no thread left: done here
            thread = None
        else:
            _last = thread
    if thread is None:
        run()


def is_leaving() -> bool:
    """Whether the process is about to end: whoever leaves does not wait for more of such work."""
    return not threading.main_thread().is_alive()


def settle() -> None:
    """Wait for what is being done."""
    if _last is not None:
        _last.join()
