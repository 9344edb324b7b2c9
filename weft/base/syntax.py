"""Source text as syntax trees, by one thread at a time.

Up to Python 3.12 the depth of ``ast.parse`` is counted for all threads together (CPython's issue
106905): where two threads parse at once, one of them may get a SystemError for sound text.
"""

from __future__ import annotations

import ast
import threading
import time

from weft.base.forks import across_forks

# Tries, as users' threads may parse too, and seconds before the second one, which then double.
TRIES = 6
FIRST_PAUSE_S = 0.001

_parsing = across_forks(threading.RLock())


def parse(text: str) -> ast.Module:
    """The syntax tree of a text."""
    pause = FIRST_PAUSE_S
    for left in reversed(range(TRIES)):
        try:
            with _parsing:
                return ast.parse(text)
        except SystemError:
            if not left:
                raise
            time.sleep(pause)
            pause *= 2
    raise AssertionError("not reached")
