"""Products of numbers that the library does not know, by code that is the same for all shapes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.native.processor import has_matrices, vector_bits
from weft.backends.cpu.routines.convolutions.contract import (
    Job,
    Operand,
    Role,
    Side,
    Unfit,
    copy_task,
)
from weft.backends.cpu.routines.products.amx_text import DEPTH, SIDE
from weft.backends.cpu.routines.products.dot import FEW_TILES, work_kind
from weft.kernel.nodes import BF16
from weft.kernel.program import Lowered, Place, Task, Type, contiguous

# Cycles up to which code for one shape, which is quicker, is not worth its making; results in a row
# from which on they are computed side by side.
BRIEF, NARROW = 1 << 17, 4


def contracted(ins: list[Type], out: Type, numbers: Any) -> Lowered | None:
    """A product of numbers that the library does not know, if it is brief."""
    kind = work_kind([*ins, out])
    if kind is None or _tiled(ins, numbers):
        return None
    work = np.dtype({"float": "f4", "double": "f8", "i32": "i4", "i64": "i8"}[kind])
    (summed, outer), job = numbers, Job(work)
    sizes = [ins[0].shape[i] for i in outer[0]]
    names: list[dict[int, str]] = []
    roles: list[tuple[str, int, bool]] = [(f"b{i}", n, True) for i, n in enumerate(sizes)]
    for side, t in enumerate(ins):
        known = {axis: f"b{i}" for i, axis in enumerate(outer[side])}
        known |= {axis: f"c{i}" for i, axis in enumerate(summed[side])}
        free = [i for i in range(len(t.shape)) if i not in known]
        known |= {axis: f"{'rk'[side]}{axis}" for axis in free}
        roles += [(known[axis], t.shape[axis], True) for axis in free]
        names.append(known)
    if max([n for name, n, _ in roles if name[0] != "b"], default=1) < NARROW:
        return None  # vectors along the depth are better
    roles += [(f"c{i}", ins[0].shape[axis], False) for i, axis in enumerate(summed[0])]
    steps = iter(contiguous(out.shape))
    given = []
    for name, n, kept in roles:
        left, right = ((name, 1) if name in known.values() else None for known in names)
        given.append(Role(name, n, left, right, next(steps) if kept else 0))
    lhs, rhs = (
        Operand(
            Place("in", i),
            t.dtype,
            tuple(
                Side(names[i][axis], n, step)
                for axis, (n, step) in enumerate(zip(t.shape, contiguous(t.shape), strict=True))
            ),
        )
        for i, t in enumerate(ins)
    )
    try:
        choice = job.choose(given, lhs, rhs)
        if choice.cost > BRIEF:
            return None
        job.contract(given, lhs, rhs, (Place("out", 0), out.dtype, 0), choice)
    except Unfit:
        return None
    return job.lowered()


def _tiled(ins: list[Type], numbers: Any) -> bool:
    """Whether the processor multiplies tiles, by code that is the same for all shapes as well."""
    if any(t.dtype != BF16 for t in ins) or not has_matrices():
        return False
    depth = prod(ins[0].shape[i] for i in numbers[0][0])
    apart = prod(ins[0].shape[i] for i in numbers[1][0])
    sides = [prod(t.shape) // (depth * apart) for t in ins]
    return min(sides) >= SIDE and depth >= DEPTH and prod(sides) * depth >= FEW_TILES


def moved(
    source: Place, target: Place, size: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> Task | None:
    """A copy in row-major order of an array with strides, of elements of so many bytes; None where
    it has too many axes."""
    dtype = np.dtype(f"u{min(size, 8)}")
    more = size // dtype.itemsize
    steps = [more * n for n in contiguous(shape)]
    sides = [
        (Side("", n, more * stride), step)
        for n, stride, step in zip(shape, strides, steps, strict=True)
    ]
    if more > 1:
        sides.append((Side("", more, 1), 1))
    lanes = vector_bits() // 8 // max(4, dtype.itemsize)
    try:
        return copy_task((source, target), (dtype, dtype), sides, lanes, bytes(dtype.itemsize))
    except Unfit:
        return None
