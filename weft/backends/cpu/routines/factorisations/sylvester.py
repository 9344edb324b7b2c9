"""Equations A X + X B = C with Schur forms, by LAPACK."""

from __future__ import annotations

import math
from typing import Any

from weft.backends.cpu.routines.factorisations.stack_stubs import (
    BYTES,
    CHUNK,
    MEMORY,
    TABLE,
    addresses,
    call,
    divide,
    is_real,
    narrow,
    turns,
    widen,
)
from weft.backends.cpu.routines.factorisations.stacks import LETTERS, Stack
from weft.backends.cpu.routines.products.blas_stubs import numbers
from weft.backends.cpu.routines.registry import LOWERINGS
from weft.backends.llvm.tasks import Lowered
from weft.base.sizes import computed
from weft.kernel.kinds import i64, ptr, static, void
from weft.kernel.program import Type

# Rows and columns that LAPACK solves for at a time, at least.
MIN_BLOCK = 8
# Arrays, calls, and numbers of elements in the table.
A, B, X, SCALE = 0, 2, 4, 6
REAL, FULL = range(2)
COUNTS = 2


def triangular_sylvester(ins: list[Type], outs: list[Type], params: Any) -> Lowered | None:
    """Solutions for a stack of Schur forms; complex numbers that are real are taken as such."""
    if ins[2].dtype.name not in LETTERS or 0 in ins[2].shape:
        return None
    m, n = ins[2].shape[-2:]
    s = Stack(ins[2].dtype, math.prod(ins[2].shape[:-2]))
    s.numbers += [m * m, n * n, m * n]
    a, b, x = s.columns(0, m, m), s.columns(1, n, n), s.columns(2, m, n)
    given = (1, m, n, a, m, b, n, x, m, s.scratch(1))
    blocks = -(-computed(max, m, n) // MIN_BLOCK)
    counts = (s.scratch(2 * blocks + 2, 4), 2 * blocks + 2)
    scales = (s.scratch(3 * blocks * blocks, s.real.itemsize), blocks)
    real, full = "TC" if params["adjoint"] else "NN"
    name = f"LAPACKE_{LETTERS[s.real.name]}trsyl3_work"
    s.routine(name, (real, real, *given, *counts, *scales))
    if s.complex:
        s.lapack("trsyl3", (full, full, *given, *scales))
    s.rows(x, 0, m, n)
    return s.lowered(sylvester)


def sylvester(buffers: ptr, start: i64, stop: i64, *, PARTS: static) -> void:
    """Solutions X for a stack of A, B and C."""
    table = ptr[buffers, TABLE]
    memory = ptr[buffers, MEMORY] + start // i64[table, CHUNK] * i64[table, BYTES]
    na, nb, nx = numbers(table, COUNTS, 3)
    for g in range(start, stop):
        at = addresses(buffers, table, memory, g)
        turns(0, 3, buffers, table, at)
        if PARTS == 1:
            call(REAL, buffers, table, at)
        elif is_real(at[A], na) and is_real(at[B], nb) and is_real(at[X], nx):
            narrow(at[A], na)
            narrow(at[B], nb)
            narrow(at[X], nx)
            call(REAL, buffers, table, at)
            widen(at[X], nx)
        else:
            call(FULL, buffers, table, at)
        divide(at[X], nx * PARTS, at[SCALE])
        turns(3, 4, buffers, table, at)


LOWERINGS["triangular_sylvester"] = triangular_sylvester
