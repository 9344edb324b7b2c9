"""Programs: what a compiled function does, as nodes over slots of memory.

The compiler makes a Program of kernels and operations and knows no machine; a backend compiles it.
Arrays are row-major and contiguous. A slot is memory: an argument, a constant, a result, a
temporary, or, for a view, wherever a node has made it point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
    """Memory of a program.

    Roles: ``arg``, ``const`` and ``out`` (``what`` is their number), ``temp`` (a temporary;
    ``what`` is the type of the value it holds, or the operation that works in it) and ``view`` (set
    by nodes). A backend may add roles of its own.
    """

    role: str
    size: int
    what: Any = None


class Launch(Record):
    """A kernel run on slots, one for each of its buffers that isn't scratch of a row.

    ``writes`` are the slots whose values it completes.
    """

    kernel: Kernel
    slots: tuple[int, ...]
    writes: tuple[int, ...] = ()


class Op(Record):
    """An operation that isn't fused: its equation, and the slots of operands and results.

    With an epilogue, ``outs`` are what that writes, and ``slots`` are those of its buffers, -1 for
    the operation's own result. ``offer`` is what the backend answered when it was asked whether it
    supports that.
    """

    eqn: Any
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    epilogue: Finish | None = None
    slots: tuple[int, ...] = ()
    offer: Any = None


class Host(Record):
    """An equation that Python computes."""

    eqn: Any
    ins: tuple[int, ...]
    outs: tuple[int, ...]


class Collective(Record):
    """A message between processes, or devices with memory of their own: its equation, and slots.

    A backend may begin it here and wait for it at the first node that needs its slots.
    """

    eqn: Any
    ins: tuple[int, ...]
    outs: tuple[int, ...]


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
    """One of several regions, by the number in a slot, clamped to those there are.

    ``uses`` are slots that are in use until the end of every region.
    """

    choice: int
    size: int  # bytes of the number
    regions: tuple[tuple[Any, ...], ...]
    uses: tuple[int, ...] = ()


class While(Record):
    """A body repeated as long as a condition gives true.

    ``uses`` are slots that are in use throughout; slots from ``inside`` up are the loop's own.
    """

    condition: tuple[Any, ...]
    flag: int
    body: tuple[Any, ...]
    uses: tuple[int, ...] = ()
    inside: int = 0


class For(Record):
    """A body repeated a number of times; in each, views point at one slice of their base.

    ``uses`` and ``inside`` are as for `While`. ``work`` is roughly the number of operations of a
    round, where rounds are independent, so that threads may share them; else 0.
    """

    trips: int
    reverse: bool
    slices: tuple[tuple[int, int, int], ...]  # view, base, bytes of a slice
    body: tuple[Any, ...]
    uses: tuple[int, ...] = ()
    inside: int = 0
    work: float = 0.0


class Lanes(Record):
    """How the elements of a loop in blocks end one by one.

    ``live`` is the slot that has, after the loop, a boolean for each element of the block: whether
    it goes on. The loop's flag counts these. ``carried`` are pairs of slots, for what goes round:
    before the loop and after it.
    """

    live: int
    carried: tuple[tuple[int, int], ...]


class Blocks(Record):
    """A loop that works element by element, done block by block: all iterations for one block of
    ``width`` elements, then the next, so that what it carries stays in registers.

    ``slots``, ``constants`` and ``nodes`` are a block's own, one of the nodes the loop. ``arrays``
    are its slots of ``total`` elements, each with the bytes of an element. A loop of unknown length
    (``trips`` is None) does at most ``most`` iterations at a time.
    """

    slots: list[Slot]
    constants: list[Any]
    nodes: tuple[Any, ...]
    width: int
    total: int
    arrays: dict[int, int]
    most: int
    trips: int | None
    sliced: bool  # whether iterations read rows of arrays
    # each element ends for itself: another one takes its place in the block
    lanes: Lanes | None = None


class RunBlocks(Record):
    """Blocks run on the slots of a program.

    ``places`` gives the program's slot for a block's, ``init`` and ``outs`` pairs of them for what
    the loop carries; ``others`` are as large as the results, for loops run in several goes.
    """

    blocks: Blocks
    places: dict[int, int]
    init: tuple[tuple[int, int], ...]
    outs: tuple[tuple[int, int], ...]
    others: tuple[int, ...]
    offer: Any = None


def inner_regions(node: Any) -> list[Any]:
    """The regions inside a node."""
    if isinstance(node, While):
        return [node.condition, node.body]
    if isinstance(node, For):
        return [node.body]
    return list(node.regions) if isinstance(node, Branch) else []


def with_regions(node: Any, change: Callable[[Any], Any]) -> Any:
    """A node with each region inside it as ``change`` gives it."""
    if isinstance(node, While):
        return node._replace(condition=change(node.condition), body=change(node.body))
    if isinstance(node, For):
        return node._replace(body=change(node.body))
    if isinstance(node, Branch):
        return node._replace(regions=tuple(map(change, node.regions)))
    return node


def all_nodes(nodes: Any) -> Iterator[Any]:
    """Nodes, each followed by those inside it."""
    for node in nodes:
        yield node
        for region in inner_regions(node):
            yield from all_nodes(region)


class Result(Record):
    """Where a result comes from: ``slot``, ``arg``, ``const``, ``same`` as an earlier one, or
    ``taken``, the memory of an argument that was donated and has been written over."""

    kind: str
    number: int


class Program(Record):
    """A planned function: kernels and operations over slots, for any backend to compile.

    ``under`` says which slots a view may point at; ``given`` has the constants that are the traced
    function's own, by number.
    """

    slots: list[Slot]
    under: dict[int, tuple[int, ...]]
    constants: list[Any]
    given: dict[int, Any]
    nodes: tuple[Any, ...]
    results: list[Result]
