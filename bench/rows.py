"""What a row of a table is: a name, how each library sets it up, what is timed, what is allowed.

Rows are data. Setups run in the process of the library they are for, so this file and the suites
import nothing but the standard library and NumPy at their top.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

# A setup takes the library's top module and returns a function to time.
Setup = Callable[[Any], Callable[[], Any]]


@dataclass(frozen=True)
class Row:
    """One measurement.

    ``setups`` has a setup for each library that takes part; ``same`` is the shorthand for those
    with JAX's interface. With ``kind`` "call" the function is timed in a process that stays;
    with "process" the setup is Python text, timed as a new process from start to end.
    """

    name: str
    about: str
    setups: dict[str, Any]
    kind: str = "call"
    per: int = 1  # what one call does this many times: the figure is per one of them
    unit: str = "us"
    budget: float | None = None  # in the unit, on an idle machine
    ratio: float | None = None  # the most that weft may take, as a part of the first peer's time
    beyond: str | None = None  # a library whose time is subtracted before the budget is looked at
    libraries: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "libraries", tuple(self.setups))


def same(setup: Any, *libraries: str) -> dict[str, Any]:
    """The same setup for every library with JAX's interface."""
    return dict.fromkeys(libraries or ("weft", "jax"), setup)


SCALE = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}


def names(suite: str) -> str:
    """The module that holds a suite."""
    return f"bench.suites.{suite}"
