"""Who wants to know what is traced, compiled and copied: the scopes of a thread.

A scope is told of each call that traced or compiled something, and of each array that was copied,
and may refuse it. The knobs ``log_recompiles`` and ``log_transfers`` log the same. What a thread of
the background compiles is told to nobody: no call waits for it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any

from weft.base import knobs, logs, source
from weft.base.lazy import Late
from weft.base.record import Record

# loaded when a report is written
text = Late("weft.base.text")

Reasons = Callable[[], Sequence[str]]


class Recompile(Record):
    """A call that traced or compiled something.

    Args:
        function: Name of the function or operation, with the line that defines it.
        line: Line of the call, like "train.py:12 (main)".
        stages: What was done: "traced", "compiled" or both.
        reasons: What changed since the nearest earlier call, one text each.
        seconds: Time that it took.
        first: Whether it was the first call of this function.

    Example:
        >>> Recompile("f at a.py:1", "a.py:3", ("traced",), ("x: shape (2,) → (3,)",), 0.5, False)
        f at a.py:1, called at a.py:3: traced in 500 ms
          x: shape (2,) → (3,)
    """

    function: str
    line: str
    stages: tuple[str, ...]
    reasons: tuple[str, ...]
    seconds: float
    first: bool

    def title(self) -> str:
        """Function, line, and what was done."""
        done = " and ".join(self.stages)
        return (
            f"{self.function}, called at {self.line}: {done} in {text.seconds_text(self.seconds)}"
        )

    def __repr__(self) -> str:
        return "\n  ".join([self.title(), *self.reasons])


class Transfer(Record):
    """An array that was copied.

    Args:
        direction: "host to device", "device to host", "device to device" or "gathered".
        what: Type of the array, like "float32[3]".
        nbytes: Number of bytes.
        function: What copied it.
        line: Line that did, like "train.py:12 (main)".
        explicit: Whether it was asked for, by ``device_put`` or ``device_get``.

    Example:
        >>> Transfer("host to device", "float32[3]", 12, "step", "train.py:12", False)
        float32[3] (12 bytes), host to device: step at train.py:12
    """

    direction: str
    what: str
    nbytes: int
    function: str
    line: str
    explicit: bool

    def __repr__(self) -> str:
        size = text.bytes_text(self.nbytes)
        return f"{self.what} ({size}), {self.direction}: {self.function} at {self.line}"


class Scope:
    """One who is told. ``watches_transfers`` says whether of copies, too; ``holds`` whether code
    that nobody asked for is left for later."""

    watches_transfers = False
    holds = False

    def begins(self, call: Call) -> None:
        """A call is about to trace or compile something for the first time; it may be refused."""

    def ended(self, recompile: Recompile) -> None:
        """A call that did has ended."""

    def copied(self, transfer: Transfer) -> None:
        """An array is about to be copied; it may be refused."""


class Call:
    """A call in progress, the outermost of its thread."""

    __slots__ = (
        "function",
        "owner",
        "_where",
        "stages",
        "reasons",
        "first",
        "why",
        "seconds",
        "depth",
    )

    def __init__(self, function: str, owner: Any = None) -> None:
        self.function, self.owner = function, owner
        self._where: source.SourceInfo | None = None
        self.stages: Sequence[str] = ()
        self.reasons: Sequence[str] = ()
        self.first = False
        self.seconds, self.depth = 0.0, 0
        # why it compiles what has been traced before
        self.why: Reasons | None = None

    @property
    def where(self) -> source.SourceInfo:
        """The user's line; most calls make and copy nothing, so it's looked for when asked for."""
        if self._where is None:
            self._where = source.current()
        return self._where

    def made(self, stage: str) -> None:
        """Note a stage of what it makes, and where it was called."""
        self.stages = (*self.stages, stage)
        _ = self.where

    def recompile(self) -> Recompile:
        """What is known of it."""
        stages = tuple(dict.fromkeys(self.stages))
        given = tuple(dict.fromkeys(self.reasons))
        where = source.summarize(self.where)
        return Recompile(self.function, where, stages, given, self.seconds, self.first)


class _Thread(threading.local):
    """The scopes that a thread is in, innermost last, and the call it is making."""

    scopes: tuple[Scope, ...] = ()
    transfers = 0  # how many of the scopes are told of copies
    call: Call | None = None
    in_background = False


thread = _Thread()


def is_on() -> bool:
    """Whether somebody is to be told of what this thread does."""
    own = thread
    if own.in_background:
        return False
    if own.scopes:
        return True
    values = knobs.thread
    return bool(values.log_recompiles or values.log_transfers)


def begins() -> bool:
    """Whether a call is to be observed: those within it are a part of it."""
    return thread.call is None and is_on()


def watches_transfers() -> bool:
    """Whether somebody is to be told of copies."""
    return bool(thread.transfers or knobs.thread.log_transfers)


def holds() -> bool:
    """Whether code that nobody asked for is left for later: no call may wait for it."""
    return any(scope.holds for scope in thread.scopes)


@contextlib.contextmanager
def within(scope: Scope) -> Iterator[None]:
    """Tell a scope what this thread does."""
    thread.scopes = (*thread.scopes, scope)
    thread.transfers += scope.watches_transfers
    try:
        with knobs.observed_calls() if scope.watches_transfers else contextlib.nullcontext():
            yield
    finally:
        thread.transfers -= scope.watches_transfers
        thread.scopes = tuple([s for s in thread.scopes if s is not scope])


@contextlib.contextmanager
def in_background() -> Iterator[None]:
    """While something is compiled for which nobody waits."""
    before, thread.in_background = thread.in_background, True
    try:
        yield
    finally:
        thread.in_background = before


class calling:
    """A scope of one call; those who listen are told when it ends."""

    __slots__ = ("_call", "_native")

    def __init__(self, function: str, owner: Any = None) -> None:
        self._call, self._native = Call(function, owner), knobs.native_calls()

    def __enter__(self) -> None:
        thread.call = self._call
        self._native.__enter__()

    def __exit__(self, *_: Any) -> None:
        self._native.__exit__()
        thread.call = None
        if self._call.stages:
            _tell(self._call)


@contextlib.contextmanager
def making(stage: str, function: str, why: Reasons, first: bool = False) -> Iterator[None]:
    """While something is traced or compiled; raises where a scope does not allow it."""
    outer = thread.call
    call = outer or Call(function)
    if call.depth:
        pass  # a part of what is being made
    elif not call.stages:
        call.first = first
        call.reasons = (*call.reasons, *why())
        call.made(stage)
        try:
            for scope in thread.scopes:
                scope.begins(call)
        except Exception:
            call.stages = ()
            raise
    else:
        call.made(stage)
    began = perf_counter()
    thread.call = call
    call.depth += 1
    try:
        yield
    finally:
        thread.call = outer
        call.depth -= 1
        if not call.depth:
            call.seconds += perf_counter() - began
        if outer is None:
            _tell(call)


def _tell(call: Call) -> None:
    made = call.recompile()
    for scope in thread.scopes:
        scope.ended(made)
    if knobs.thread.log_recompiles:
        logs.log(logs.WARNING, f"Recompile: {made!r}")


def copied(direction: str, what: str, nbytes: int, function: str, explicit: bool) -> None:
    """Tell of an array that is about to be copied; raises where a scope does not allow it."""
    if thread.in_background:
        return
    call = thread.call
    where = source.summarize(source.current() if call is None else call.where)
    made = Transfer(direction, what, nbytes, function, where, explicit)
    for scope in thread.scopes:
        scope.copied(made)
    if knobs.thread.log_transfers:
        logs.log(logs.WARNING, f"Transfer: {made!r}")
