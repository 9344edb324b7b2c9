"""What a row of a table is: a name, how each library sets it up, what is timed, what is allowed.

Rows are data. Setups run in the process of the library they are for, so this file and the suites
import nothing but the standard library and NumPy at their top.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

# A setup takes the library's top module and returns a function to time, or a Program.
Setup = Callable[[Any], Any]

# torch counts twice where a row has a setup for it: as it is, and compiled.
COMPILED_TORCH = "torch.compile"
# JAX where a row asks it for cuDNN's attention, which it does not choose by itself.
JAX_CUDNN = "jax, cuDNN"
# Another version of weft, from a folder that the command line names.
OTHER_WEFT = "weft.other"
# weft's programs compiled and run by a PJRT plugin: the same front, another compiler.
XLA = "XLA"
# What a row may take of its time in that version.
OTHER_RATIO = 1.05


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
    work: float = 0.0  # bytes or operations of a call, where the unit is a rate; budgets are floors
    gpu: bool = False  # runs on a GPU, of torch only what is compiled
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
        own = tuple(name for name in self.setups if name != "torch" or not self.gpu)
        compiled = "torch" in self.setups and (self.gpu or self.kind == "call")
        return (*own, *([COMPILED_TORCH] if compiled else []))

    def figure(self, seconds: float) -> float:
        """What a call that takes some time comes to, in the row's unit."""
        return self.work / seconds * 1e-12 if self.unit in RATES else seconds * SCALE[self.unit]


def same(setup: Any, *libraries: str) -> dict[str, Any]:
    """The same setup for every library with JAX's interface."""
    return dict.fromkeys(libraries or ("weft", "jax"), setup)


def beside_other(row: Row) -> Row:
    """The row measured by another version of weft, which it may take a little longer than."""
    setups = {"weft": row.setups["weft"], OTHER_WEFT: row.setups["weft"], **row.setups}
    return replace(row, setups=setups, ratio=OTHER_RATIO, budget=None)


# Units of work in a second.
RATES = ("TB/s", "TFLOP/s")
SCALE = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0, "MB": 1e-6}


def names(suite: str) -> str:
    """The module that holds a suite."""
    return f"bench.suites.{suite}"
