"""A line on the terminal while a function is traced or compiled for long.

It says what is being made, how far that is and for how long it has been going on, and is gone at
the end. Nothing is written unless the error stream is a terminal or a notebook's.
"""

from __future__ import annotations

import os
import sys
import threading
from time import monotonic
from typing import Any

from weft.base import knobs
from weft.base.forks import across_forks

# Seconds after which a line appears, and between two of its states.
AFTER_S, EVERY_S = 2.0, 0.2
# Seconds within which a function that was traced and is compiled counts as one piece of work.
TOGETHER_S = 0.2


class making:
    """A context in which a function is traced or compiled; ``stage`` is the word for it."""

    __slots__ = ("stage", "name", "line")

    def __init__(self, stage: str, name: str) -> None:
        self.stage, self.name = stage, name
        self.line: _Line | None = None

    def __enter__(self) -> None:
        global _line
        if _line is None and knobs.compile_progress.value and _is_seen(sys.stderr):
            self.line = _line = _Line(self.stage, self.name)

    def __exit__(self, *_: Any) -> None:
        global _line
        if self.line is not None:
            _line = None
            self.line.end()


def expect(count: int) -> Any:
    """Say that the function that this thread makes has more parts to compile.

    ``finish`` takes what this gives: other threads may compile them.
    """
    line = _line
    if line is None or line.maker != threading.get_ident():
        return None
    line.expected += count
    return line


def finish(line: Any, count: int) -> None:
    """Say that parts of a function are compiled."""
    if line is not None:
        with _counting:
            line.finished += count


class _Line:
    """The line of one function, written by a thread of its own once it takes long."""

    def __init__(self, stage: str, name: str) -> None:
        global _last
        self.stage, self.name, self.stream = stage, name, sys.stderr
        self.expected = self.finished = 0
        self.maker = threading.get_ident()
        now = monotonic()
        before, self.began = _last, now
        if before is not None and before[0] == name and now - before[2] < TOGETHER_S:
            self.began = before[1]
        self.width = 0
        self.over = threading.Event()
        self.thread: threading.Thread | None
        self.thread = threading.Thread(target=self._show, name="weft-progress", daemon=True)
        try:
            self.thread.start()
        except RuntimeError:  # the system has no thread left
            self.thread = None

    def end(self) -> None:
        """Take the line away."""
        global _last
        _last = (self.name, self.began, monotonic())
        self.over.set()
        if self.thread is not None and self.width:
            self.thread.join()

    def text(self) -> str:
        """What the line says now."""
        seconds = f"{monotonic() - self.began:.0f} s"
        if not self.expected:
            return f"weft: {self.stage} {self.name}, {seconds}"
        parts = f"{self.finished} of {self.expected} kernels"
        return f"weft: {self.stage} {self.name}: {parts}, {seconds}"

    def _show(self) -> None:
        if self.over.wait(max(self.began + AFTER_S - monotonic(), 0.0)):
            return
        while True:
            self._write(self.text())
            if self.over.wait(EVERY_S):
                return self._write("")

    def _write(self, text: str) -> None:
        try:
            columns = os.get_terminal_size(self.stream.fileno()).columns - 1
        except (OSError, ValueError, AttributeError):
            columns = 100
        text = text[: max(columns, 20)]
        try:
            self.stream.write(f"\r{text:<{self.width}}" + ("" if text else "\r"))
            self.stream.flush()
        except (OSError, ValueError):  # nobody reads it any more
            self.over.set()
        self.width = len(text)


_counting = across_forks(threading.Lock())
_line: _Line | None = None
_last: tuple[str, float, float] | None = None


def _is_seen(stream: Any) -> bool:
    """Whether somebody sees a line that is written again and again."""
    if type(stream).__module__.startswith("ipykernel"):
        return True
    try:
        return stream is not None and stream.isatty()
    except (AttributeError, ValueError):
        return False


def _forget() -> None:
    global _line
    _line = None  # its thread is the parent's


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
