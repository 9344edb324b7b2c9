"""What happens while functions are traced, compiled and called, told to whoever listens."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

# Called with (kind, name, begin, end, details); times in ns of ``time.perf_counter_ns``.
Listener = Callable[[str, str, int, int, dict[str, Any]], None]
listener: Listener | None = None


def listen(new: Listener | None) -> None:
    """Tell ``new`` what happens from now on; None for nobody."""
    global listener
    listener = new


def begin() -> int:
    """When something begins, if somebody listens, or 0."""
    return 0 if listener is None else perf_counter_ns()


def end(began: int, kind: str, name: str, **details: Any) -> None:
    """Tell of something that began at a time that ``begin`` gave, and has ended."""
    told = listener
    if began and told is not None:
        told(kind, name, began, perf_counter_ns(), details)
