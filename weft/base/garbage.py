"""When Python looks for garbage in cycles, while somebody waits for something that makes none."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Without looking for garbage: planning makes many objects, and hardly any in cycles.

    What is new is looked at in the end: Python would look at once, and now and then at all that
    there is, while somebody waits for the first result.
    """
    enabled = gc.isenabled()
    try:  # Ctrl-C may come after any call: each of these is where the last line is still reached
        gc.disable()
        yield
    finally:
        if enabled:
            gc.enable()
            gc.collect(0)
