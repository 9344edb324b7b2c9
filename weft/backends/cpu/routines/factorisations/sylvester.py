"""Equations A X + X B = C with Schur forms, by LAPACK in blocks and products between them."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from weft.backends.cpu.routines.factorisations.stack_text import (
    COLUMN_MAJOR,
    LETTERS,
    NO_TRANSPOSE,
    Stack,
    Whole,
)
from weft.backends.cpu.routines.registry import LOWERINGS
from weft.backends.cpu.routines.writer import Number
from weft.kernel.program import Lowered, Type

# Rows and columns that LAPACK solves for at a time; it does so without blocks of its own.
BLOCK = 32


class _Solver:
    """Instructions that solve one equation of a type in memory of its own."""

    def __init__(self, s: Stack, dtype: np.dtype, m: int, n: int) -> None:
        self.s, self.f, self.m, self.n = s, s.f, m, n
        self.size, self.complex = dtype.itemsize, dtype.kind == "c"
        letter = LETTERS[dtype.name]
        self.trsyl = s.pointer("library", f"LAPACKE_{letter}trsyl_work")
        self.gemm = s.pointer("library", f"cblas_{letter}gemm")
        self.less, self.one = (self.number(x) for x in (-1, 1))
        self.a, self.b, self.x = (s.scratch(k, self.size) for k in (m * m, n * n, m * n))
        self.scale = s.scratch(1)
        self.rows, self.columns = (s.scratch(-(-k // BLOCK) + 1, 8) for k in (m, n))

    def number(self, value: int) -> str:
        """A number as BLAS takes it."""
        if not self.complex:
            return f"{self.s.base} {value}.0"
        return self.s.number(value)

    def run(self, adjoint: bool) -> None:
        """Solve for what is in memory."""
        if adjoint or max(self.m, self.n) <= BLOCK:
            self.solve("N" if not adjoint else "C" if self.complex else "T", 0, self.m, 0, self.n)
        else:
            self.blocks()

    def place(self, base: str, row: Number, column: Number, step: int) -> str:
        """An element of a matrix whose columns are ``step`` apart."""
        f = self.f
        return f.at(base, f.mul(f.add(row, f.mul(column, step)), self.size))

    def whole(self, x: Number) -> Whole:
        f = self.f
        return Whole(str(x) if isinstance(x, int) else f.emit(f"trunc i64 {x} to i32"))

    def bounds(self, form: str, size: int, to: str) -> None:
        """Where blocks begin: between two rows that belong to one eigenvalue none does."""
        s, f = self.s, self.f
        with f.loop(0, -(-size // BLOCK) + 1) as k:
            at = f.smaller(f.mul(k, BLOCK), size)
            if not self.complex:
                inside = f.emit(f"icmp slt i64 {at}, {size}")
                inner = f.emit(f"icmp sgt i64 {at}, 0")
                inside = f.emit(f"and i1 {inside}, {inner}")
                offset = f.mul(f.add(at, f.mul(f.sub(at, 1), size)), self.size)
                offset = f.emit(f"select i1 {inside}, i64 {offset}, i64 0")
                below = f.load(s.base, f.at(form, offset), self.size)
                pair = f.emit(f"fcmp une {s.base} {below}, 0.0")
                pair = f.emit(f"and i1 {inside}, {pair}")
                at = f.add(at, f.emit(f"zext i1 {pair} to i64"))
            f.store("i64", str(at), f.at(to, f.mul(k, 8)), 8)

    def bound(self, bounds: str, k: Number) -> str:
        f = self.f
        return f.load("i64", f.at(bounds, f.mul(k, 8)), 8)

    def solve(self, turned: str, i: Number, rows: Number, j: Number, columns: Number) -> None:
        """A block of X from what is left of C there."""
        s, f = self.s, self.f
        at = self.place(self.x, i, j, self.m)
        a, b = self.place(self.a, i, i, self.m), self.place(self.b, j, j, self.n)
        sizes = (self.whole(rows), self.whole(columns))
        s.call(self.trsyl, turned, turned, 1, *sizes, a, self.m, b, self.n, at, self.m, self.scale)
        real = s.real.itemsize
        scale = f.load(s.base, self.scale, real)
        parts = self.size // real
        with f.when(f.emit(f"fcmp une {s.base} {scale}, 1.0")):
            with f.loop(0, columns) as c, f.loop(0, f.mul(rows, parts)) as r:
                spot = f.at(self.place(at, 0, c, self.m), f.mul(r, real))
                value = f.emit(f"fdiv {s.base} {f.load(s.base, spot, real)}, {scale}")
                f.store(s.base, value, spot, real)

    def subtract(self, sizes: tuple[Number, ...], *places: tuple[str, int]) -> None:
        """C -= A B for matrices at given places with columns so far apart."""
        (a, lda), (b, ldb), (c, ldc) = places
        codes = (COLUMN_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE)
        head = ", ".join(f"i32 {x}" for x in (*codes, *(self.whole(k).name for k in sizes)))
        self.f.line(
            f"call void {self.gemm}({head}, {self.less}, ptr {a}, i32 {lda}, ptr {b}, i32 {ldb},"
            f" {self.one}, ptr {c}, i32 {ldc})"
        )

    def blocks(self) -> None:
        """All blocks: columns from the first to the last, in each rows from the last to the
        first."""
        f, m, n = self.f, self.m, self.n
        count = -(-m // BLOCK)
        self.bounds(self.a, m, self.rows)
        self.bounds(self.b, n, self.columns)
        with f.loop(0, -(-n // BLOCK)) as block:
            j = self.bound(self.columns, block)
            after = self.bound(self.columns, f.add(block, 1))
            width = f.sub(after, j)
            with f.loop(0, count) as turn:
                row = f.sub(count - 1, turn)
                i = self.bound(self.rows, row)
                height = f.sub(self.bound(self.rows, f.add(row, 1)), i)
                self.solve("N", i, height, j, width)
                self.subtract(
                    (i, width, height),
                    (self.place(self.a, 0, i, m), m),
                    (self.place(self.x, i, j, m), m),
                    (self.place(self.x, 0, j, m), m),
                )
            self.subtract(
                (m, f.sub(n, after), width),
                (self.place(self.x, 0, j, m), m),
                (self.place(self.b, j, after, n), n),
                (self.place(self.x, 0, after, m), m),
            )


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


def _narrowed(s: Stack, at: str, to: str, count: int) -> None:
    """The real parts of numbers."""
    f, size = s.f, s.real.itemsize
    with f.loop(0, count) as i:
        value = f.load(s.base, f.at(at, f.mul(i, 2 * size)), size)
        f.store(s.base, value, f.at(to, f.mul(i, size)), size)


def _widened(s: Stack, at: str, to: str, count: int) -> None:
    """Real numbers as complex ones."""
    f, size = s.f, s.real.itemsize
    with f.loop(0, count) as i:
        spot = f.at(to, f.mul(i, 2 * size))
        f.store(s.base, f.load(s.base, f.at(at, f.mul(i, size)), size), spot, size)
        f.store(s.base, "0.0", f.at(spot, size), size)


def triangular_sylvester(ins: list[Type], outs: list[Type], params: Any) -> Lowered | None:
    """Solutions for a stack of Schur forms; complex numbers that are real are taken as such."""
    if ins[2].dtype.name not in LETTERS or 0 in ins[2].shape:
        return None
    m, n = ins[2].shape[-2:]
    s = Stack(ins[2].dtype, math.prod(ins[2].shape[:-2]))
    s.careful = True
    f, adjoint = s.f, params["adjoint"]
    sizes = (m * m, n * n, m * n)
    sources, target = [s.operand(i) for i in range(3)], s.result(0)
    full = _Solver(s, s.dtype, m, n)
    real = _Solver(s, s.real, m, n) if s.complex else None
    with f.loop("%start", "%stop") as g:
        s.columns(s.member(sources[0], g, sizes[0]), full.a, m, m)
        s.columns(s.member(sources[1], g, sizes[1]), full.b, n, n)
        s.columns(s.member(sources[2], g, sizes[2]), full.x, m, n)
        if real is None:
            full.run(adjoint)
        else:
            given = list(
                zip((full.a, full.b, full.x), (real.a, real.b, real.x), sizes, strict=True)
            )
            answers = [_is_real(s, at, count) for at, _, count in given]
            plain = functools.reduce(lambda x, y: f.emit(f"and i1 {x}, {y}"), answers)
            with f.when(plain):
                for at, to, count in given:
                    _narrowed(s, at, to, count)
                real.run(adjoint)
                _widened(s, real.x, full.x, sizes[2])
            with f.when(f.emit(f"xor i1 {plain}, true")):
                full.run(adjoint)
        s.rows(full.x, s.member(target, g, sizes[2]), m, n)
    return s.lowered()


LOWERINGS["triangular_sylvester"] = triangular_sylvester
