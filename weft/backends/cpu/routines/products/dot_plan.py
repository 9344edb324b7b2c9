"""A product by its axes, and its tasks under construction."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.routines.convolutions import conv_moves as moves
from weft.backends.cpu.routines.products.dot_lines import BATCH, bytes_of, dtype_of
from weft.backends.llvm.native.processor import vector_bits
from weft.base.record import Record
from weft.kernel.program import Finish, Lowered, Place, Task, contiguous

# Multiply-adds that are worth a chunk of their own.
CHUNK_WORK = 1 << 18
# Bytes that are worth a chunk when numbers are only moved.
CHUNK_BYTES = 1 << 16


class Axis(Record):
    """A size and its strides, in elements, in both operands and the result."""

    size: int
    lhs: int
    rhs: int
    out: int


ONE = Axis(1, 0, 0, 0)


class Problem(Record):
    """A product by its axes: one each of rows, columns and depth, and the outer ones."""

    outer: list[Axis]
    rows: Axis
    columns: Axis
    depth: Axis


class Operand(Record):
    """Where an operand lies, its type there, and the strides of its axes."""

    place: Place
    kind: str
    signed: bool
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Result(Record):
    """Where the result goes, and its type; or the kernel that goes on with it."""

    place: Place
    kind: str
    finish: Finish | None = None


def joined(axes: list[Axis]) -> list[Axis]:
    """Neighbouring axes as one where every stride allows it; sizes of one left out."""
    done: list[Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        if done and all(o == axis.size * i for o, i in zip(done[-1][1:], axis[1:], strict=True)):
            done[-1] = Axis(done[-1].size * axis.size, *axis[1:])
        else:
            done.append(axis)
    return done


class Plan:
    """Tasks of one product under construction, and the type in which it multiplies."""

    def __init__(self, work: str) -> None:
        self.work = work
        self.tasks: list[Task] = []
        self.scratch: list[int] = []

    def memory(self, size: int) -> Place:
        self.scratch.append(size)
        return Place("scratch", len(self.scratch) - 1)

    def task(self, text: str, places: tuple[Place, ...], extent: int, chunk: int = 1) -> None:
        self.tasks.append(Task(text, "product", places, extent, max(1, chunk)))

    def copied(self, operand: Operand, shape: tuple[int, ...], strides: tuple[int, ...]) -> Place:
        """A row-major copy of an operand with other axes."""
        size = bytes_of(operand.kind)
        dtype = np.dtype(f"u{min(8, size)}")
        each = size // dtype.itemsize
        axes = zip(shape, strides, contiguous(shape), strict=True)
        dims = [moves.Copied(n, each * a, each * b) for n, a, b in axes]
        return self.moved(operand, [*dims, moves.Copied(each, 1, 1)], (dtype, dtype))

    def moved(self, operand: Operand, dims: Any, types: Any, count: int = 0) -> Place:
        """Elements of an operand in another order, and of another type."""
        place = self.memory((count or prod(d.size for d in dims)) * types[1].itemsize)
        lanes = vector_bits() // (8 * types[1].itemsize)
        places = operand.place, place
        self.tasks.append(moves.copy_task(places, dims, types, lanes, careless=True))
        return place

    def converted(
        self,
        source: Place,
        have: np.dtype,
        want: np.dtype,
        count: int,
        parts: int = 1,
        target: Place | None = None,
    ) -> Place:
        """Numbers in another type, or the sums of parts of so many."""
        lanes = vector_bits() // (8 * min(have.itemsize, want.itemsize)) * (1 + (parts == 1))
        lanes = lanes if count >= lanes else 1
        target = target or self.memory(count * want.itemsize)
        places = (source, target, Place("numbers", (parts, count)))
        text = moves.partial_text(have, want, lanes, "product")
        self.task(text, places, blocks(count, lanes), CHUNK_BYTES // (4 * parts * lanes))
        return target

    def lowered(self) -> Lowered:
        return Lowered(self.tasks, tuple(self.scratch))


def numbers_in(fields: tuple[str, ...], numbers: dict[str, int]) -> Place:
    """A table of numbers in the order of its fields."""
    return Place("numbers", tuple(numbers[field] for field in fields))


def converted(plan: Plan, operand: Operand) -> Operand:
    """An operand in the type of the work."""
    if operand.kind == plan.work:
        return operand
    have, want = dtype_of(operand.kind, operand.signed), dtype_of(plan.work)
    place = plan.converted(operand.place, have, want, prod(operand.shape))
    return operand._replace(place=place, kind=plan.work)


def below(n: int) -> int:
    """The largest power of two up to ``n``."""
    return 1 << (max(n, 1).bit_length() - 1)


def blocks(count: int, each: int) -> int:
    return -(-count // each)


def outer_numbers(problem: Problem, left: int, right: int, out: int) -> dict[str, int]:
    """The part of a table that is about outer axes, for operands and a result of so many bytes."""
    axes = [ONE] * (BATCH - len(problem.outer)) + problem.outer
    found = {}
    for i, axis in enumerate(axes):
        found[f"size{i}"] = axis.size
        found[f"lhs{i}"] = axis.lhs * left
        found[f"rhs{i}"] = axis.rhs * right
        found[f"out{i}"] = axis.out * out
    return found


def stacked(
    problem: Problem, side: str, size: int, each: int
) -> tuple[dict[str, int], dict[str, int], int]:
    """How copies of an operand's matrices lie in a row, of ``each`` bytes: the part of a table that
    is about outer axes, the new strides of these, and how many there are."""
    table, steps, copies = {}, {}, 1
    outer = [ONE] * (BATCH - len(problem.outer)) + problem.outer
    for i in reversed(range(BATCH)):
        stride = getattr(outer[i], side)
        table[f"size{i}"] = outer[i].size if stride else 1
        table[f"from{i}"] = stride * size
        table[f"to{i}"] = steps[f"{side}{i}"] = each * copies if stride else 0
        copies *= table[f"size{i}"]
    return table, steps, copies
