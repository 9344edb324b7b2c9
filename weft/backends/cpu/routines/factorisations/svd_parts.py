"""The singular value decomposition of one square matrix by the steps of LAPACK's gesdd, the last
two of which, U and Vᵀ from those of the bidiagonal matrix, are computed side by side."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.backends.cpu.routines.factorisations.stack_stubs import (
    COLUMN_MAJOR,
    MEMORY,
    TABLE,
    addresses,
    arguments,
    call,
    fill_nan,
    turns,
)
from weft.backends.cpu.routines.factorisations.stacks import Stack, ask
from weft.backends.cpu.routines.factorisations.transpose import turn_code
from weft.backends.cpu.sizes import hand_on
from weft.backends.llvm.tasks import Lowered
from weft.base.sizes import computed
from weft.kernel.kinds import f32, i32, i64, invoke, ptr, static, values, void
from weft.kernel.program import Type
from weft.lapack import openblas

# Rows from which a second thread is worth it.
MIN_ROWS = 64
# What the first task leaves for the second: vectors to be multiplied by reflectors, vectors that
# are complete, or none.
STEPS_LEFT, COMPLETE, FAILED = 1, 2, 3
# Arrays of both tasks by number, and calls of the first.
STATE, VALUES = 9, 10
LANGE, GEBRD, BDSDC, GESDD = range(4)
# The number of rows in the table.
N = 2

# Kinds and static parameters of the stubs: numbers, between which the largest
# one of a matrix is where gesdd does not scale it, what is called, and the result of each side.
F: Any = f32


class _Memory:
    """The scratch memory of both tasks."""

    def __init__(self, s: Stack, n: int) -> None:
        s.numbers.append(n)
        (self.whole,) = ask("gesdd", s.dtype, ("A", n, n, *_matrix(n, 5)), [s.dtype], 1)
        (self.reduce,) = ask("gebrd", s.dtype, (n, n, *_matrix(n, 5)[:2], *[None] * 4), [s.dtype])
        head = ("Q", "L", "N", n, n, n, None, n, None, None, n)
        (self.product,) = ask("ormbr", s.dtype, head, [s.dtype])
        self.matrix, self.u, self.vt = (s.scratch(n * n) for _ in range(3))
        self.off, self.left, self.right = (s.scratch(n) for _ in range(3))
        work = computed(max, self.whole, self.reduce, 3 * n * n + 4 * n, self.product)
        self.work, self.more = s.scratch(work), s.scratch(self.product)
        self.integers, self.state = s.scratch(8 * n, 4), s.scratch(1, 4)


def _matrix(n: int, kind: int) -> tuple[int | None, ...]:
    """Arguments of gesdd from the matrix on: it, values, U and Vᵀ, with their leading sizes."""
    return (None, n, None, None, n, None, n)[: kind + 2]


def svd(a: Type) -> Lowered:
    """Descending singular values, U and Vᵀ of a real square matrix."""
    n = a.shape[-1]
    openblas.preload()
    hand_on(*turn_code(a.dtype.itemsize))  # which takes LLVM longest
    first = Stack(a.dtype, 1)
    memory = _Memory(first, n)
    second = first.with_same_memory()
    _bidiagonal(first, n, memory)
    _vectors(second, n, memory)
    tasks = [first.task(bidiagonal, 1, 1), second.task(vectors, 2, 1)]
    return Lowered(tasks, (second.used,))


def _bidiagonal(s: Stack, n: int, m: _Memory) -> None:
    values_ = s.result(0, n)
    s.turn(s.operand(0, n * n), n, m.matrix, n, n)
    s.lapack("lange", ("M", n, n, m.matrix, n, m.work))
    both = (m.u, n, m.vt, n, m.work)
    s.lapack("gebrd", (n, n, m.matrix, n, values_, m.off, m.left, m.right, m.work, m.reduce))
    s.lapack("bdsdc", ("U", "I", n, values_, m.off, *both, m.integers, m.work, m.integers))
    s.lapack("gesdd", ("A", n, n, m.matrix, n, values_, *both, m.whole, m.integers))
    limits = np.finfo(s.real)
    low = float(np.sqrt(np.float64(limits.tiny)) / limits.eps)
    s.names |= {"LOW": float(s.real.type(low)), "HIGH": float(s.real.type(1 / low))}


def bidiagonal(buffers: ptr, start: i64, stop: i64, *, LOW: static, HIGH: static) -> void:
    """Values, and vectors of the bidiagonal matrix; numbers so large or small that gesdd scales
    them are left to it."""
    table = ptr[buffers, TABLE]
    at = addresses(buffers, table, ptr[buffers, MEMORY], start)
    turns(0, 1, buffers, table, at)
    size = largest(buffers, table, at)
    state = i32(COMPLETE)
    if (size >= LOW) & (size <= HIGH):
        call(GEBRD, buffers, table, at)
        state = i32(STEPS_LEFT)
        if call(BDSDC, buffers, table, at) != 0:
            state = i32(FAILED)
    elif call(GESDD, buffers, table, at) != 0:
        state = i32(FAILED)
    if state == FAILED:
        fill_nan(at[VALUES], i64[table, N])
    i32[at[STATE], 0] = state


def largest(buffers: ptr, table: ptr, at: values, *, CALLS: static) -> values:
    """The largest of the numbers of a matrix."""
    routine = ptr[buffers, CALLS[LANGE][0]]
    return invoke(F, routine, i32(COLUMN_MAJOR), *arguments(LANGE, table, at))


def _vectors(s: Stack, n: int, m: _Memory) -> None:
    for i, (head, factors, found, work) in enumerate(
        [(("Q", "L", "N"), m.left, m.u, m.work), (("P", "R", "T"), m.right, m.vt, m.more)]
    ):
        s.lapack("ormbr", (*head, n, n, n, m.matrix, n, factors, found, n, work, m.product))
        s.rows(found, i + 1, n, n)
    s.names["SIDES"] = tuple([(i, step[3][1]) for i, step in enumerate(s.steps)])


def vectors(buffers: ptr, start: i64, stop: i64, *, SIDES: static) -> void:
    """U, the first unit of work, and Vᵀ, the second, from vectors of the bidiagonal matrix."""
    table = ptr[buffers, TABLE]
    at = addresses(buffers, table, ptr[buffers, MEMORY], i64(0))
    state = i32[at[STATE], 0]
    for unit in range(start, stop):
        for side, to in SIDES:
            if unit == side:
                if state == STEPS_LEFT:
                    call(side, buffers, table, at)
                turns(side, side + 1, buffers, table, at)
                if state == FAILED:
                    fill_nan(at[to], i64[table, N] * i64[table, N])
