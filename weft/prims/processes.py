"""What processes send each other, as primitives on the memory of one process.

They are what collectives over a mesh of several processes become, once a program is written for one
process: nothing differentiates or batches them any more. Sums are made by kernels of each process,
in a fixed order, from what was sent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.base import source
from weft.core import processes
from weft.core.avals import ShapedArray
from weft.core.primitive import Primitive
from weft.core.trace import state

_LATE = "the compiler adds it after all transformations"


class Site:
    """The collective that a message belongs to, and the user's line; for errors.

    Once processes have agreed on a program, it also has the program's number and name.
    """

    __slots__ = ("number", "program", "what", "where")

    def __init__(self, what: str) -> None:
        self.what = what
        self.where = source.summarize(state.source) if state.source is not None else ""
        self.number, self.program = 0, ""

    def of(self, number: int, program: str) -> Site:
        """The same collective as one of a program that has a number."""
        made = object.__new__(Site)
        made.what, made.where = self.what, self.where
        made.number, made.program = number, program
        return made

    def __repr__(self) -> str:
        text = f"{self.what} — {self.where}" if self.where else self.what
        return f"{text}, of program {self.number}: {self.program}" if self.number else text


class Message(Primitive):
    """Bytes that go between processes."""

    costly = collective = True
    holes = {"jvp": _LATE, "transpose": _LATE, "batch": _LATE}
    host = "it communicates with another process"


class ProcessAllGather(Message):
    """What all of some processes have, one after the other; an array of shape ``sizes``."""

    name = "process_all_gather"

    def shape(
        self, x: Any, *, ranks: tuple[int, ...], sizes: tuple[int, ...], site: Any
    ) -> ShapedArray:
        return ShapedArray(sizes, x.dtype)

    @staticmethod
    def ref(x: Any, *, ranks: tuple[int, ...], sizes: tuple[int, ...], site: Any) -> Any:
        with processes.transport.at(site):
            found = processes.transport.all_gather(np.ascontiguousarray(x), ranks)
        return found.reshape(sizes)


class ProcessAllToAll(Message):
    """Row ``i`` of what a process has for the ``i``-th of some processes; a row from each.

    Without ``own``, the row that a process has for itself need not be copied: nobody reads it.
    """

    name = "process_all_to_all"

    def shape(self, x: Any, *, ranks: tuple[int, ...], own: bool, site: Any) -> ShapedArray:
        return ShapedArray(x.shape, x.dtype)

    @staticmethod
    def ref(x: Any, *, ranks: tuple[int, ...], own: bool, site: Any) -> Any:
        with processes.transport.at(site):
            return processes.transport.all_to_all(np.ascontiguousarray(x), ranks)


class ProcessPermute(Message):
    """Rows sent from process to process; zeros where none arrives.

    ``moves`` are those that this process takes part in: the process and row that is sent, and the
    process and row that it goes to. ``ranks`` are all processes of the mesh.
    """

    name = "process_permute"

    def shape(
        self, x: Any, *, ranks: tuple[int, ...], moves: tuple[tuple[int, ...], ...], site: Any
    ) -> ShapedArray:
        return ShapedArray(x.shape, x.dtype)

    @staticmethod
    def ref(
        x: Any, *, ranks: tuple[int, ...], moves: tuple[tuple[int, ...], ...], site: Any
    ) -> Any:
        with processes.transport.at(site):
            return processes.transport.permute(np.ascontiguousarray(x), moves, ranks)


class ProcessFault(Primitive):
    """Raises what has stopped a message; compiled programs call it then."""

    name = "process_fault"
    multiple_results = True
    holes = {"jvp": _LATE, "transpose": _LATE, "batch": _LATE}
    host = "raises an error"

    def shape(self, code: Any, *, site: Any, ranks: tuple[int, ...]) -> list[Any]:
        return []

    @staticmethod
    def ref(code: Any, *, site: Any, ranks: tuple[int, ...]) -> list[Any]:
        processes.transport.stopped(site, ranks, int(code))
        return []


process_fault_p = ProcessFault()
process_all_gather_p, process_all_to_all_p = ProcessAllGather(), ProcessAllToAll()
process_permute_p = ProcessPermute()
