"""Equations A X + X B = C with Schur forms, by LAPACK."""

from __future__ import annotations

import functools
import math
from typing import Any

from weft.backends.cpu.routines.factorisations.stack_text import LETTERS, Stack
from weft.backends.cpu.routines.registry import LOWERINGS
from weft.base.sizes import computed
from weft.kernel.program import Lowered, Type

# Rows and columns that LAPACK solves for at a time, at least.
MIN_BLOCK = 8


def _is_real(s: Stack, at: str, count: int) -> str:
    """Whether no number of a complex matrix has an imaginary part, as ``i1``."""
    f, size = s.f, s.real.itemsize
    kind = f"i{8 * size}"

    def step(i: str, held: list[str]) -> list[str]:
        bits = f.load(kind, f.at(at, f.add(f.mul(i, 2 * size), size)), size)
        # without the sign
        return [f.emit(f"or {kind} {held[0]}, {f.emit(f'shl {kind} {bits}, 1')}")]

    (found,) = f.fold(count, kind, ["0"], step)
    return f.emit(f"icmp eq {kind} {found}, 0")


def _narrow(s: Stack, at: str, count: int) -> None:
    """The real parts of numbers, where the first half of these is."""
    f, size = s.f, s.real.itemsize
    with f.loop(0, count) as i:
        value = f.load(s.base, f.at(at, f.mul(i, 2 * size)), size)
        f.store(s.base, value, f.at(at, f.mul(i, size)), size)


def _widen(s: Stack, at: str, count: int) -> None:
    """The opposite."""
    f, size = s.f, s.real.itemsize
    with f.loop(0, count) as back:
        i = f.sub(count - 1, back)
        value, spot = f.load(s.base, f.at(at, f.mul(i, size)), size), f.at(at, f.mul(i, 2 * size))
        f.store(s.base, value, spot, size)
        f.store(s.base, "0.0", f.at(spot, size), size)


def triangular_sylvester(ins: list[Type], outs: list[Type], params: Any) -> Lowered | None:
    """Solutions for a stack of Schur forms; complex numbers that are real are taken as such."""
    if ins[2].dtype.name not in LETTERS or 0 in ins[2].shape:
        return None
    m, n = ins[2].shape[-2:]
    s = Stack(ins[2].dtype, math.prod(ins[2].shape[:-2]))
    s.careful = True
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
            answers = [_is_real(s, *pair) for pair in zip(matrices, sizes, strict=True)]
            plain = functools.reduce(lambda x, y: f.emit(f"and i1 {x}, {y}"), answers)
        with f.when(plain):
            for pair in zip(matrices, sizes, strict=True) if s.complex else ():
                _narrow(s, *pair)
            s.call(real, turned[0], turned[0], *given, *counts, *scales)
            if s.complex:
                _widen(s, x, m * n)
        with f.unless(plain) as some:
            if some:
                s.call(full, turned[1], turned[1], *given, *scales)
        scale = f.load(s.base, place, size)
        with f.when(f.emit(f"fcmp une {s.base} {scale}, 1.0")):
            with f.loop(0, m * n * (s.size // size)) as i:
                spot = f.at(x, f.mul(i, size))
                value = f.emit(f"fdiv {s.base} {f.load(s.base, spot, size)}, {scale}")
                f.store(s.base, value, spot, size)
        s.rows(x, s.member(target, g, m * n), m, n)
    return s.lowered()


LOWERINGS["triangular_sylvester"] = triangular_sylvester
