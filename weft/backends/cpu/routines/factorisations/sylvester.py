"""Equations A X + X B = C with Schur forms, by LAPACK."""

from __future__ import annotations

import functools
import math
from typing import Any

from weft.backends.cpu.routines.factorisations import stack_stubs
from weft.backends.cpu.routines.factorisations.stack_text import LETTERS, Stack
from weft.backends.cpu.routines.registry import LOWERINGS
from weft.base.sizes import computed
from weft.kernel.program import Lowered, Type

# Rows and columns that LAPACK solves for at a time, at least.
MIN_BLOCK = 8


def triangular_sylvester(ins: list[Type], outs: list[Type], params: Any) -> Lowered | None:
    """Solutions for a stack of Schur forms; complex numbers that are real are taken as such."""
    if ins[2].dtype.name not in LETTERS or 0 in ins[2].shape:
        return None
    m, n = ins[2].shape[-2:]
    s = Stack(ins[2].dtype, math.prod(ins[2].shape[:-2]))
    f, size = s.f, s.real.itemsize
    sources, target = [s.operand(i) for i in range(3)], s.result(0)
    sizes = (m * m, n * n, m * n)
    a, b, x = matrices = [s.scratch(size) for size in sizes]
    blocks = -(-computed(max, m, n) // MIN_BLOCK)
    counts = (s.scratch(2 * blocks + 2, 4), 2 * blocks + 2)
    scales = (s.scratch(3 * blocks * blocks, size), blocks)
    place = s.scratch(1)
    given = (1, m, n, a, m, b, n, x, m, place)
    real = s.pointer("library", f"LAPACKE_{LETTERS[s.real.name]}trsyl3_work")
    full = s.routine("trsyl3") if s.complex else real
    turned = "TC" if params["adjoint"] else "NN"
    with f.loop("%start", "%stop") as g:
        for source, to, rows, columns in zip(sources, matrices, (m, n, m), (m, n, n), strict=True):
            s.columns(s.member(source, g, rows * columns), to, rows, columns)
        plain: str | bool = True
        if s.complex:
            answers = [
                s.stub(stack_stubs.is_real, *pair) for pair in zip(matrices, sizes, strict=True)
            ]
            plain = functools.reduce(lambda x, y: f.emit(f"and i1 {x}, {y}"), answers)
        with f.when(plain):
            for pair in zip(matrices, sizes, strict=True) if s.complex else ():
                s.stub(stack_stubs.narrow, *pair)
            s.call(real, turned[0], turned[0], *given, *counts, *scales)
            if s.complex:
                s.stub(stack_stubs.widen, x, m * n)
        with f.unless(plain) as some:
            if some:
                s.call(full, turned[1], turned[1], *given, *scales)
        s.stub(stack_stubs.divide, x, m * n * (s.size // size), place)
        s.rows(x, s.member(target, g, m * n), m, n)
    return s.lowered()


LOWERINGS["triangular_sylvester"] = triangular_sylvester
