"""What planning asks of a backend: native functions for kernels, loops and operations."""

from __future__ import annotations

from typing import Any, Protocol

from weft.base.record import Record
from weft.core.jaxpr import ClosedJaxpr
from weft.kernel.program import Blocks, Finish, Lowered, Type


class Piece(Record):
    """A native function: its text and name, its range, and its buffers.

    Buffers are numbers of the kernel's (those of a row, on its stack, left out), and after these
    of its scratch memory.
    """

    text: str
    name: str
    extent: int
    chunk: int
    buffers: tuple[int, ...]
    sizes: tuple[int, ...] = ()  # a table that it reads, its last buffer


class Target(Protocol):
    """What planning asks of a backend."""

    general: bool  # whether code is to do for arrays of other sizes too

    def exact(self) -> Target:
        """The same machine, for code of sizes that are the same for all arrays."""

    def simplify(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """A program without calls, shared and pruned."""

    def kernel(self, kernel: Any, looped: bool = False) -> tuple[list[Piece], list[int]]:
        """A kernel as pieces to be run in order, and the bytes of scratch memory they share; in a
        loop, one of a few elements is meant to become part of a larger function."""

    def loop(self, node: Any, slots: Any, codes: Any, inside: int) -> Any:
        """A small loop as one function: its text and the slots it takes, or None."""

    def calls(self, node: Any, slots: Any) -> Any:
        """A loop as a function that calls its kernels: its text, the slots and the native functions
        it takes, or None."""

    def block(self, size: int, values: int) -> int:
        """Elements that a loop is done for at a time, so that values of that size, so many and
        some more, are in registers."""

    def blocks(self, blocks: Blocks, slots: Any, codes: Any) -> Any:
        """A function that runs a loop for block after block: its text and the slots it takes,
        after one for the number of rounds and one for whether there are more; or None."""

    def hero(
        self,
        name: str,
        ins: list[Type],
        outs: list[Type],
        params: Any,
        finish: Finish | None = None,
        looped: bool = False,
    ) -> Lowered | None:
        """Tasks of an operation that is not fused; with a kernel that goes on with its result, of
        both, or None where they stay apart. ``looped`` is meant as for kernels."""

    def sized(self, text: str, name: str, buffers: int) -> tuple[str, list[int]] | None:
        """A function that reads its sizes from a table, after so many buffers, and these, or None
        where they stay in its text."""

    def begin(self, text: str, name: str) -> None:
        """Told of a native function that the program will call; it may be compiled by now."""

    def share(
        self, codes: list[tuple[str, str]], buffers: dict[int, int]
    ) -> dict[int, tuple[tuple[str, str], list[int]]]:
        """Of native functions, by number and with how many buffers each has: for those that one
        function can stand for, that function and a table of numbers, its last buffer."""
