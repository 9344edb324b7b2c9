"""Some of the calls of compiled functions, verified in the background: the knob ``verify_rate``."""

from __future__ import annotations

import atexit
import math
import os
import random
import threading
from collections import deque
from typing import Any

import numpy as np

from weft.api.jit import set_sampler
from weft.api.verifying.verify import Check
from weft.base import errors, knobs, logs, source
from weft.base.background import in_background
from weft.core.trace import is_tracing
from weft.runtime.array import ArrayImpl
from weft.tree.functions import tree_map

# Calls that wait to be verified; while there are so many, no more are taken.
MAX_WAITING = 4

_random = random.Random()
_waiting: deque[None] = deque()
_mismatches: deque[str] = deque(maxlen=64)


class _Thread(threading.local):
    """How many calls of a thread pass before one is verified, at a rate."""

    rate = 0.0
    left = 0


_thread = _Thread()


def _end() -> None:
    """Tell at the end of the process what no further call has told."""
    while _mismatches:
        logs.log(logs.WARNING, f"verify_rate found a mismatch in {_mismatches.popleft()}")


atexit.register(_end)
if hasattr(os, "register_at_fork"):  # the threads that verify are the parent's
    os.register_at_fork(after_in_child=_waiting.clear)


def start() -> Any:
    """Have calls made here from now on, and say how."""
    set_sampler(call)
    return call


def call(function: Any, args: Any, kwargs: Any) -> Any:
    """The result of a call, which may be one that is verified."""
    if _mismatches:
        _tell()
    values, own = knobs.thread, _thread
    rate = values.verify_rate
    if own.rate != rate:
        own.rate, own.left = rate, _gap(rate)
    own.left -= 1
    if own.left > 0 or is_tracing() or len(_waiting) >= MAX_WAITING:
        with knobs.native_calls():
            return function(*args, **kwargs)
    _thread.left = _gap(rate)
    kept = tree_map(_kept, (args, kwargs))
    where = source.summarize(source.current())
    with knobs.native_calls():
        result = function(*args, **kwargs)
        _waiting.append(None)
        in_background(lambda: _verify(function, kept, where))
    return result


def _gap(rate: float) -> int:
    """How many calls to go on to the next one: they come at random, at a rate."""
    if rate >= 1:
        return 1
    return 1 + int(math.log(1 - _random.random()) / math.log1p(-rate))


def _kept(x: Any) -> Any:
    """An argument that nobody else can change, donate or delete."""
    if type(x) is ArrayImpl:
        return x.__copy__()
    return x.copy() if isinstance(x, np.ndarray) else x


def _verify(function: Any, kept: Any, where: str) -> None:
    """Run a call again in other ways, and note what does not agree."""
    args, kwargs = kept
    try:
        check = Check(function, None, False)
        with knobs.verify_rate(0.0):  # the call that verifies is not one to verify
            check.call(args, kwargs)
            check.walk()
            check.compare()
    except Exception as error:  # side effects, references: not verified
        text = f"verify_rate: the call at {where} was not verified: {error}"
        logs.log(logs.level_of(False), text)
        return
    finally:
        _waiting.pop()
    if not check.report.ok:
        _mismatches.append(f"the call of {check.report.name} at {where}: {check.report}")


def _tell() -> None:
    """Warn of mismatches, or raise, as the knob says."""
    while _mismatches:
        text = f"verify_rate found a mismatch in {_mismatches.popleft()}"
        if knobs.thread.verify_error:
            raise errors.VerificationError(text)
        source.warn(text, UserWarning)
