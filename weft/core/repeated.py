"""Which booleans repeat smaller ones: a choice that is the same for a whole row has such a mask."""

from __future__ import annotations

import weakref
from typing import Any

# By identity: the repeated array, the smaller one, and the dimensions that it has there.
_repeated: dict[int, tuple[Any, Any, tuple[int, ...]]] = {}


def remember(out: Any, x: Any, dims: tuple[int, ...]) -> None:
    """Note that ``out`` is ``x`` at its dimensions ``dims``, for as long as it lives."""
    if out is not x:
        number = id(out)
        dead = weakref.ref(out, lambda _: _repeated.pop(number, None))
        _repeated[number] = dead, x, tuple(dims)


def origin(x: Any) -> tuple[Any, tuple[int, ...]] | None:
    """The smallest array that ``x`` is known to repeat, and the dimensions that it has in ``x``."""
    found = None
    while (entry := _repeated.get(id(x))) is not None and entry[0]() is x:
        _, x, dims = entry
        found = x, dims if found is None else tuple(found[1][d] for d in dims)
    return found
