"""What compiled programs are checked for: the knobs of ``weft.checks`` as one value.

A call of a device need not wait for its checks. What looks at them is kept here, and asked when the
next call has begun, when a value is read, when the scope ends, or when the process does.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from weft.base import knobs


class Kinds(NamedTuple):
    """What programs are checked for; ``overflow`` has the names of dtypes, or says ``signed``."""

    nan: bool
    inf: bool
    indices: bool
    division: bool
    overflow: str

    def wraps(self, dtype: Any) -> bool:
        """Whether integers of a dtype must not wrap."""
        if not self.overflow or getattr(dtype, "kind", "") not in ("i", "u"):
            return False
        if self.overflow == "signed":
            return dtype.kind == "i"
        return dtype.name in self.overflow.split(",")

    def is_bad(self, value: Any) -> Any:
        """Where an array holds what operations must not make."""
        value = np.asarray(value)
        if value.dtype.name not in ("float32", "float64", "complex64", "complex128"):
            value = value.astype(np.float32)
        bad = np.isnan(value) if self.nan else np.zeros(value.shape, bool)
        return bad | np.isinf(value) if self.inf else bad


def asked() -> Kinds | None:
    """What the knobs ask for; None if that is nothing."""
    thread = knobs.thread
    overflow = thread.check_overflow or ""
    if not (
        thread.check_nan
        or thread.check_inf
        or thread.check_index
        or thread.check_division
        or overflow
    ):
        return None
    return Kinds(
        thread.check_nan,
        thread.check_inf,
        thread.check_index,
        thread.check_division,
        overflow,
    )


class Scope(knobs.Setting):
    """A scope of ``weft.checks``: when it ends, no check of its calls is left to be looked at."""

    __slots__ = ()

    def __exit__(self, kind: Any = None, *rest: Any) -> None:
        super().__exit__(kind, *rest)
        if kind is None:
            settle()


class _Calls(threading.local):
    """The calls of a thread whose checks are to be looked at, oldest first."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.busy = False
        self.process = 0


class _Raises:
    """A check that is known to have failed."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self) -> None:
        raise self.error


_calls = _Calls()


def may_wait() -> bool:
    """Whether a call of this thread may leave its checks to later: somebody will ask."""
    depth = knobs.thread.overrides.depth
    inside = any(depth.get(name) for name in _NAMES)
    return inside or threading.current_thread() is threading.main_thread()


_NAMES = ("check_nan", "check_inf", "check_index", "check_division", "check_overflow")


def later(look: Callable[[], None]) -> None:
    """Have the checks of a call looked at later, and now those of the calls before it."""
    if not _calls.process:
        atexit.register(settle)
    _calls.process = os.getpid()
    _calls.waiting.append(look)
    _settle(1)


def settle(again: bool = False) -> None:
    """Look at the checks of all calls of this thread; the first that has failed raises.

    It does so ``again`` the next time, where somebody who asks may ignore errors.
    """
    if _calls.waiting:
        _settle(0, again)


def _settle(left: int, again: bool = False) -> None:
    calls = _calls
    if calls.busy:  # the search for the operation reads values
        return
    if calls.process != os.getpid():  # they are the parent's
        calls.waiting.clear()
    calls.busy = True
    try:
        while len(calls.waiting) > left:
            calls.waiting.pop(0)()
    except BaseException as error:
        calls.waiting.clear()  # what follows has seen the values of a call that failed
        if again:
            calls.waiting.append(_Raises(error))
        raise
    finally:
        calls.busy = False
