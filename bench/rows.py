"""What a row of a table is: a name, how each library sets it up, what is timed, what is allowed.

Rows are data. Setups run in the process of the library they are for, so this file and the suites
import nothing but the standard library and NumPy at their top.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

# A setup takes the library's top module and returns a function to time, or a Program.
Setup = Callable[[Any], Any]

# torch counts twice where a row has a setup for it: as it is, and compiled.
COMPILED_TORCH = "torch.compile"


@dataclass(frozen=True)
class Program:
    """A function and its arguments, as NumPy arrays in trees: what most setups return.

    The process of the library turns the arguments into the library's arrays (those of floats into
    ``dtype``), compiles the function unless ``compiled`` is False, and waits for each result
    unless ``wait`` is False: then calls follow each other and only the last is waited for.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    dtype: str | None = None
    compiled: bool = True
    wait: bool = True
    convert: bool = True


@dataclass(frozen=True)
class Row:
    """One measurement.

    ``setups`` has a setup for each library that takes part; ``same`` is the shorthand for those
    with JAX's interface. ``kind`` says what is measured:

    - "call": the function, in a process that stays;
    - "process": the setup is Python text, timed as a new process from start to end;
    - "cold", "warm": the first call of a Program in a new process, import left out, with an empty
      and with a filled cache on disk;
    - "peak": the peak of resident memory of a new process that calls a Program three times.
    """

    name: str
    about: str
    setups: dict[str, Any]
    kind: str = "call"
    per: int = 1  # what one call does this many times: the figure is per one of them
    unit: str = "us"
    clock: str = "cpu"
    budget: float | None = None  # in the unit, on an idle machine
    ratio: float | None = None  # the most that weft may take, as a part of the first peer's time
    beyond: str | None = None  # a library whose time is subtracted before the budget is looked at
    limit: float = 20.0  # seconds that each library may spend on the row
    brief: bool = False  # one of very many: measured for a moment only
    x64: bool = False
    devices: int = 1  # as many as the process shows its processor as
    # How results may differ from the first peer's: a part of the largest magnitude; None: anything.
    tolerance: float | None = None
    look: Callable[[list[np.ndarray]], list[np.ndarray]] | None = None  # what of results to compare

    @property
    def libraries(self) -> tuple[str, ...]:
        extra = (COMPILED_TORCH,) if "torch" in self.setups and self.kind == "call" else ()
        return (*self.setups, *extra)


def same(setup: Any, *libraries: str) -> dict[str, Any]:
    """The same setup for every library with JAX's interface."""
    return dict.fromkeys(libraries or ("weft", "jax"), setup)


SCALE = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0, "MB": 1e-6}


def names(suite: str) -> str:
    """The module that holds a suite."""
    return f"bench.suites.{suite}"
