"""What native code calls: the class of functions that have a native way in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class NativeFunction:
    """A function with entries that native code tries before it calls ``_slow``.

    Until native code is loaded, and where there is none, ``_slow`` is all there is.
    """

    __slots__ = ("_entries",)
    _entries: Any  # what native code reads, and the entries that its words point to

    # What lets native code have the calls of a class, once it is loaded.
    take_calls: Callable[[type], None] | None = None

    def __init_subclass__(cls) -> None:
        if NativeFunction.take_calls is not None:
            NativeFunction.take_calls(cls)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._slow(*args, **kwargs)

    def _slow(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{type(self).__name__} does not define a call")
