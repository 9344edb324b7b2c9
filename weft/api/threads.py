"""How many threads compiled functions use: for the process, or for a scope of one thread."""

from __future__ import annotations

import operator
from typing import Any

from weft.base import knobs
from weft.base.cores import threads


def set_num_threads(n: int | None) -> None:
    """Set how many threads compiled functions use on the CPU.

    Args:
        n: Number of threads; None for all cores that this process may use.

    Results do not depend on it.

    Example:
        >>> import weft
        >>> weft.set_num_threads(2)
        >>> weft.get_num_threads()
        2
        >>> weft.set_num_threads(None)
    """
    knobs.num_threads.set_global(_checked(n, "set_num_threads"))


def num_threads(n: int | None) -> knobs.Setting:
    """Return a context manager under which compiled functions use a number of threads.

    Args:
        n: Number of threads; None for all cores that this process may use.

    Returns:
        Context manager, also usable as a decorator. Results don't depend on the number of threads.

    Example:
        >>> import weft
        >>> with weft.num_threads(1):
        ...     weft.get_num_threads()
        1
    """
    return knobs.num_threads(_checked(n, "num_threads"))


def get_num_threads() -> int:
    """Return how many threads compiled functions called here may use.

    Returns:
        Python integer.

    Example:
        >>> import weft
        >>> weft.get_num_threads() >= 1
        True
    """
    return threads()


def _checked(n: Any, name: str) -> int | None:
    if n is None:
        return None
    try:
        count = operator.index(n)
    except TypeError:
        raise TypeError(
            f"{name} takes an integer or None; got {n!r} of type {type(n).__name__}"
        ) from None
    if count < 1:
        raise ValueError(f"{name} takes at least 1 thread; got {count}. Write None for all cores")
    return count
