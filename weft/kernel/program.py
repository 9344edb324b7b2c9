"""Programs: what a compiled function does, as nodes over slots of memory.

Native functions are called as ``void f(ptr buffers, i64 start, i64 stop)`` over a range that
threads share in pieces of a fixed size; ``buffers`` is an array of pointers. Arrays are row-major
and contiguous. A slot is a pointer: to an argument, a constant, a result, planned memory, or, for
a view, to wherever a node has made it point.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.base.record import Record
from weft.kernel.kernel import Kernel, Loop


class Type(Record):
    """Shape and dtype of an operand or a result; whether anything needs it."""

    shape: tuple[int, ...]
    dtype: np.dtype
    used: bool = True


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a row-major array, in elements."""
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


class Place(Record):
    """What a pointer given to a task points at.

    ``in`` and ``out``: an operand or a result by number; ``scratch``: memory of the operation by
    number; ``library``: the function of a library, by name; ``numbers``: a constant table of
    64-bit integers, given as such, so that one text serves many shapes; ``data``: a constant array;
    ``code``: a native function that the task calls, by its text and name; ``finish``: a buffer of
    the kernel that goes on with the result, by number.
    """

    kind: str
    what: int | str | tuple[Any, ...] | np.ndarray


class Task(Record):
    """A native function and the range it runs over, in pieces that do not depend on threads."""

    text: str  # an LLVM module that defines the function
    name: str
    places: tuple[Place, ...]
    extent: int = 1
    chunk: int = 1


class Lowered(Record):
    """An operation as tasks, and the bytes of each piece of scratch memory they share.

    ``in_place`` is the same for a result that has the memory of the first operand.
    """

    tasks: list[Task]
    scratch: tuple[int, ...] = ()
    in_place: Any = None


class Finish(Record):
    """A kernel that goes on with an operation's result, block by block as it is computed.

    It is one nest of loops around stores. Loops count the elements of the result in row-major
    order, and that is where the kernel reads ``buffer``, which stands for the result, and writes.
    """

    kernel: Kernel
    buffer: int

    @property
    def axes(self) -> list[tuple[str, int]]:
        """The loops, outermost first."""
        return self._nest()[0]

    @property
    def body(self) -> list[Any]:
        """The stores inside all loops."""
        return self._nest()[1]

    def _nest(self) -> tuple[list[tuple[str, int]], list[Any]]:
        axes = [self.kernel.grid] if self.kernel.grid is not None else []
        body = self.kernel.body
        while isinstance(body[0], Loop):
            axes.append((body[0].axis, body[0].extent))
            body = body[0].body
        return axes, body

    @property
    def size(self) -> int:
        """Bytes of an element of the result."""
        buffer = self.kernel.buffers[self.buffer]
        return buffer.size // prod(n for _, n in self.axes) * buffer.dtype.itemsize


# --- programs -------------------------------------------------------------------------------------


class Slot(Record):
    """A pointer of a program.

    Roles: ``arg``, ``const`` and ``out`` (``what`` is their number), ``temp`` (planned memory;
    ``what`` is the type of the value it holds, or the
    operation that works in it),
    ``view`` (set by nodes), ``library`` (``what`` is the name of a function), ``code`` (``what`` is
    the number of a native function of the program).
    """

    role: str
    size: int
    what: Any = None


class Launch(Record):
    """A native function run over a range."""

    code: int
    slots: tuple[int, ...]
    extent: int
    chunk: int


class Copy(Record):
    """Bytes of one slot to another."""

    target: int
    source: int
    size: int


class Point(Record):
    """A view made to point where another slot does."""

    view: int
    base: int


class Swap(Record):
    """Two views that change places."""

    first: int
    second: int


class Branch(Record):
    """One of several regions, by the number in a slot, clamped to those there are."""

    choice: int
    size: int  # bytes of the number
    regions: tuple[tuple[Any, ...], ...]


class While(Record):
    """A body repeated as long as a condition gives true."""

    condition: tuple[Any, ...]
    flag: int
    body: tuple[Any, ...]


class For(Record):
    """A body repeated a number of times; in each, views point at one slice of their base."""

    trips: int
    reverse: bool
    slices: tuple[tuple[int, int, int], ...]  # view, base, bytes of a slice
    body: tuple[Any, ...]


class Blocks(Record):
    """A loop for a block of elements: nodes over slots of its own, one of them the loop.

    ``arrays`` are slots of arrays of ``total`` elements, each with the bytes of an element: a block
    is ``width`` of these. A loop of unknown length does at most ``most`` rounds at a time.
    """

    nodes: tuple[Any, ...]
    width: int
    total: int
    arrays: dict[int, int]
    most: int


def inner_regions(node: Any) -> list[Any]:
    """The regions inside a node."""
    if isinstance(node, While):
        return [node.condition, node.body]
    if isinstance(node, For):
        return [node.body]
    return list(node.regions) if isinstance(node, Branch) else []


def launched(nodes: Any) -> set[int]:
    """The native functions that nodes call; those of a loop that became one are called no more."""
    found: set[int] = set()
    for node in nodes:
        if isinstance(node, Launch):
            found.add(node.code)
        for region in inner_regions(node):
            found |= launched(region)
    return found


def called(slots: Any) -> set[int]:
    """The native functions that others are given to call."""
    return {slot.what for slot in slots if slot.role == "code"}


class Host(Record):
    """A call of Python, by the number of the equation it computes."""

    number: int


class HostCall(Record):
    """An equation that Python computes: its operands and results, each a slot or None."""

    eqn: Any
    ins: tuple[int, ...]
    outs: tuple[int, ...]


class Result(Record):
    """Where a result comes from: ``slot``, ``arg``, ``const``, ``same`` as an earlier one, or
    ``taken``, the memory of an argument that was donated and has been written over."""

    kind: str
    number: int


class Program(Record):
    """A compiled function before its code is loaded."""

    slots: list[Slot]
    offsets: list[int]  # of planned memory, by slot
    arena: int
    nodes: tuple[Any, ...]
    codes: list[tuple[str, str]]  # text and name of every native function
    constants: list[Any]
    hosts: list[HostCall]
    results: list[Result]
