"""Rows of register tiles, and the panels that they read, as machine code of AVX-512.

It is what LLVM makes of the same plans, in a tenth of a millisecond instead of five to ten: sums
stay in registers, a step loads the vectors beside each other, and for each point broadcasts a
number and adds its products. What tiles there are, and in which order, is the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from weft.backends.cpu.code import avx512
from weft.backends.cpu.code.avx512 import (
    LESS,
    NOT_ZERO,
    R8,
    R9,
    R10,
    R11,
    R12,
    R14,
    R15,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    VECTOR_BYTES,
    ZERO,
    Code,
    Memory,
    fits,
)
from weft.backends.cpu.routines.contractions.conv_text import Contraction, Dim, Panel, Tile, Walk
from weft.backends.cpu.routines.contractions.conv_writer import Coded, Text
from weft.backends.llvm.code import Parameter
from weft.base.sizes import is_one, same
from weft.kernel.nodes import F32, F64

VECTORS = 32  # registers of vectors
# What the function of a row is given before its numbers.
_ROW = (*[Parameter("ptr")] * 3, *[Parameter("i64")] * 2)
# Loops begin where the processor begins to read instructions.
ALIGN = 64
# Where a tile's left and right operands are, and places of its left one eight strides apart.
LEFT, RIGHT = (R10, R14, R15), R11
# What holds a stride, and three, five and seven of them.
MULTIPLES = {1: R9, 3: RBX, 5: RBP, 7: R12}
SAVED = (RBX, RBP, R12, R14, R15)
# Memory of a row: where its tile begins, and counters of loops around the innermost one.
PLACE, MAX_LOOPS = 0, 7


def coded(plan: Contraction) -> dict[str, Coded]:
    """The functions of a contraction that are written here, by their names."""
    found: dict[str, Coded] = {}
    if avx512.has_avx512() and _is_plain(plan):
        row = _Row(plan)
        if row.is_possible:
            found["row"] = row.made()
        if plan.panel is not None and _is_copied(plan.panel, plan):
            found["pack"] = _pack(plan.panel)
    return found


def _is_plain(plan: Contraction) -> bool:
    """Whether sums of products of whole vectors and numbers are written as they are."""
    work, vector, whole = plan.work, plan.vector, VECTOR_BYTES // plan.work.itemsize
    return (
        (plan.rule is None and work in (F32, F64) and plan.out == work)
        and not (plan.finish or plan.ahead)
        and vector[1:4] == (0, 1, 1)
        and all(width == whole for _, width in plan.pieces)
        and not any(d.right for d in plan.box)
        and all(d.size and not d.clip for d in plan.reduced)
    )


def _is_copied(panel: Panel, plan: Contraction) -> bool:
    """Whether a panel's rows are copied as they are, in whole vectors."""
    row, across = panel.dims
    size = across.size * plan.work.itemsize
    return (
        (panel.have == plan.work and row.plain and across.plain)
        and (across.source, across.target) == (1, 1)
        and type(size) is int
        and size % VECTOR_BYTES == 0
        and size <= VECTORS * VECTOR_BYTES
    )


def _pack(panel: Panel) -> Coded:
    """The function that copies a panel of the right operand."""
    (row, across), code, size = panel.dims, Code(), panel.have.itemsize
    places = range(0, int(across.size) * size, VECTOR_BYTES)
    head = code.here(ALIGN)
    for i, offset in enumerate(places):
        code.load(i, Memory(RDI, offset))
    for i, offset in enumerate(places):
        code.write(Memory(RSI, offset), i)
    code.add(RDI, RCX)
    code.add(RSI, R8)
    code.count_down(RDX)
    code.jump(NOT_ZERO, head)
    code.leave()
    given = [str(row.size), str(row.source * size), str(row.target * size)]
    return Coded("pack", (Parameter("ptr"),) * 2, code.made(), given)


class _Row:
    """The function of the tiles along the last axis, from the places of the first one on."""

    def __init__(self, plan: Contraction) -> None:
        self.plan, self.code, self.size = plan, Code(), plan.work.itemsize
        self.points = list(product(*[range(d.size) for d in plan.box]))
        self.dims, self.walks = Tile(Text(()), plan, {}).walks()
        # The axis of the box whose stride in the left operand is read.
        read = [i for i, d in enumerate(plan.box) if not fits(d.left * self.size)]
        self.read = read[0] if read else None
        self.bases = LEFT[: 1 + max(p[read[0]] for p in self.points) // 8 if read else 1]
        beside = len(plan.pieces)
        sums = len(self.points) * beside
        # One number is broadcast; a vector alone has it as a factor in memory.
        self.factor, self.vectors = sums, range(VECTORS - beside, VECTORS)
        self.is_possible = (
            len(read) <= 1
            and (not read or plan.box[read[0]].size <= 8 * len(LEFT))
            and sums + 1 + beside <= VECTORS
            and len(self.dims) <= MAX_LOOPS
        )
        self.saved = SAVED if read else ()
        self.locals = 8 * (1 + len(self.dims))
        self.given = ["0" if not read else str(plan.box[read[0]].left * self.size)]

    # --- numbers: those that are known are in the code, others are parameters ---------------------

    def parameter(self, number: Any) -> Memory:
        """A number that the function is given on the stack."""
        name = str(number)
        if name not in self.given[1:]:
            self.given.append(name)
        around = self.locals + 8 * len(self.saved) + 8
        return Memory(RSP, around + 8 * (self.given.index(name, 1) - 1))

    def put(self, target: int, number: Any) -> None:
        if fits(number):
            self.code.set_number(target, number)
        else:
            self.code.move(target, self.parameter(number))

    def add(self, target: int, number: Any) -> None:
        if fits(number):
            self.code.add_number(target, number)
        else:
            self.code.add(target, self.parameter(number))

    def scaled(self, target: int, source: int, number: Any) -> None:
        if fits(number):
            self.code.multiply_number(target, source, number)
        else:
            self.code.move(target, source)
            self.code.multiply(target, self.parameter(number))

    # --- the function -----------------------------------------------------------------------------

    def made(self) -> Coded:
        code = self.code
        for register in self.saved:
            code.push(register)
        code.add_number(RSP, -self.locals)
        if self.read is not None:
            code.lea(RBX, Memory(R9, 0, R9, 2))
            code.lea(RBP, Memory(R9, 0, R9, 4))
            code.lea(R12, Memory(R9, 0, RBX, 2))
        head = code.here()
        self.begin()
        for number in range(self.factor):
            code.clear(number)
        self.nest(self.dims, 1)
        self.store()
        code.add_number(RCX, 1)
        code.compare(RCX, R8)
        code.jump(LESS, head)
        code.add_number(RSP, self.locals)
        for register in reversed(self.saved):
            code.pop(register)
        code.leave()
        return Coded("row", _ROW, code.made(), self.given)

    def begin(self) -> None:
        """Find the places of a tile by its number."""
        code, axis, size = self.code, self.plan.grid[-1], self.size
        self.scaled(RAX, RCX, axis.step)
        if not is_one(axis.count) and not same(axis.count * axis.step, axis.size):
            self.put(LEFT[0], axis.size - axis.step)
            code.least(RAX, LEFT[0])
        code.store(Memory(RSP, PLACE), RAX)
        for target, start, stride, panels in (
            (LEFT[0], RDI, axis.left, axis.tiles),
            (RIGHT, RSI, axis.right, axis.panels),
        ):
            if not (panels or stride):
                code.move(target, start)
                continue
            self.scaled(target, RCX if panels else RAX, (panels or stride) * size)
            code.add(target, start)
        for before, base in zip(self.bases, self.bases[1:], strict=False):
            code.lea(base, Memory(before, 0, R9, 8))

    def nest(self, dims: Sequence[Dim], depth: int) -> list[Any]:
        """The sums over some dimensions; how far operands have moved, in elements."""
        code = self.code
        if not dims:
            moved = [self.walk(walk) for walk in self.walks]
            return [sum(along) for along in zip(*moved, strict=True)]
        dim, counter = dims[0], Memory(RSP, 8 * depth)
        self.put(RAX, dim.size)
        code.store(counter, RAX)
        head = code.here()
        inside = self.nest(dims[1:], depth + 1)
        self.move(dim.left - inside[0], dim.right - inside[1])
        code.count_down(counter)
        code.jump(NOT_ZERO, head)
        return [dim.size * dim.left, dim.size * dim.right]

    def walk(self, walk: Walk) -> list[Any]:
        """The innermost loop."""
        code, turns = self.code, walk.turns
        if is_one(turns.size):
            return self.steps(walk.offsets)
        self.put(RAX, turns.size)
        skip = None
        if len(self.walks) > 1:  # it may have no turn
            code.test(RAX)
            skip = code.jump(ZERO)
        head = code.here(ALIGN)
        inside = self.steps(walk.offsets)
        self.move(turns.left - inside[0], turns.right - inside[1])
        code.count_down(RAX)
        code.jump(NOT_ZERO, head)
        if skip is not None:
            code.land(skip, code.here())
        return [turns.size * turns.left, turns.size * turns.right]

    def steps(self, offsets: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Some steps written out; operands move where their strides are read."""
        moved: list[Any] = [0, 0]
        for number, step in enumerate(offsets):
            apart = [s - m for s, m in zip(step, moved, strict=True)]
            if number:
                ahead = [0 if fits(n * self.size) else n for n in apart]
                self.move(*ahead)
                moved = [m + n for m, n in zip(moved, ahead, strict=True)]
                apart = [n - m for n, m in zip(apart, ahead, strict=True)]
            self.step(int(apart[0]), int(apart[1]))
        return moved

    def step(self, left: int, right: int) -> None:
        code, work, pieces = self.code, self.plan.work, self.plan.pieces
        for vector, (first, _) in zip(self.vectors, pieces, strict=True):
            code.load(vector, Memory(RIGHT, (right + first) * self.size))
        for number, point in enumerate(self.points):
            place, first = self.place(point, left), number * len(pieces)
            if len(pieces) == 1:
                code.fma_broadcast(work, first, self.vectors[0], place)
                continue
            code.broadcast(work, self.factor, place)
            for i, vector in enumerate(self.vectors):
                code.fma(work, first + i, self.factor, vector)

    def place(self, point: tuple[int, ...], left: int) -> Memory:
        """Where a point's number is at a step."""
        box, read = self.plan.box, self.read
        known = [i * d.left for n, (i, d) in enumerate(zip(point, box, strict=True)) if n != read]
        offset = (left + sum(known)) * self.size
        if read is None:
            return Memory(LEFT[0], offset)
        far, near = divmod(point[read], 8)
        if not near:
            return Memory(LEFT[far], offset)
        scale = near & -near  # an odd multiple of the stride is in a register
        return Memory(LEFT[far], offset, MULTIPLES[near // scale], scale)

    def move(self, left: Any, right: Any) -> None:
        for base in self.bases:
            self.add(base, left * self.size)
        self.add(RIGHT, right * self.size)

    def store(self) -> None:
        """Write the sums, row by row."""
        code, plan, out = self.code, self.plan, LEFT[0]
        code.move(RAX, Memory(RSP, PLACE))
        self.scaled(out, RAX, plan.grid[-1].out * self.size)
        code.add(out, RDX)
        at: Any = 0
        for number, point in enumerate(self.points):
            place = sum(i * d.out for i, d in zip(point, plan.box, strict=True))
            if not fits((place - at) * self.size):
                self.add(out, (place - at) * self.size)
                at = place
            for i, (first, _) in enumerate(plan.pieces):
                offset = (int(place - at) + first) * self.size
                code.write(Memory(out, offset), number * len(plan.pieces) + i)
