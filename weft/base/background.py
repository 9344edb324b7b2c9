"""Work that a thread of its own does, one piece after the other, while the process goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable

from weft.base import knobs

_last: threading.Thread | None = None


def in_background(task: Callable[[], None]) -> None:
    """Have something done by a thread, with the settings of this one, after what came before."""
    global _last
    settings, before = knobs.in_key_values(), _last

    def run() -> None:
        if before is not None:
            before.join()
        if threading.main_thread().is_alive():  # whoever leaves does not wait for more of it
            with knobs.scope(**settings):
                task()

    _last = threading.Thread(target=run, name="weft-background")
    _last.start()


def settle() -> None:
    """Wait for what is being done."""
    if _last is not None:
        _last.join()
