"""The singular value decomposition of one square matrix by the steps of LAPACK's gesdd, the last
two of which, U and Vᵀ from those of the bidiagonal matrix, are computed side by side."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weft.backends.cpu.routines.factorisations.stack_text import COLUMN_MAJOR, Stack
from weft.base.sizes import computed
from weft.kernel.program import Lowered, Type

# Rows from which a second thread is worth it.
MIN_ROWS = 64
# What the first task leaves for the second: vectors to be multiplied by reflectors, vectors that
# are complete, or none.
_STEPS, _COMPLETE, _FAILED = 1, 2, 3

Ask = Callable[..., list[int]]


class _Memory:
    """The scratch memory of both tasks, in the same order in each."""

    def __init__(self, s: Stack, n: int, ask: Ask) -> None:
        (self.whole,) = ask("gesdd", s.dtype, ("A", n, n, *_matrix(n, 5)), [s.dtype], 1)
        (self.reduce,) = ask("gebrd", s.dtype, (n, n, *_matrix(n, 5)[:2], *[None] * 4), [s.dtype])
        head = ("Q", "L", "N", n, n, n, None, n, None, None, n)
        (self.product,) = ask("ormbr", s.dtype, head, [s.dtype])
        self.matrix, self.u, self.vt = (s.scratch(n * n) for _ in range(3))
        self.off, self.left, self.right = (s.scratch(n) for _ in range(3))
        work = computed(max, self.whole, self.reduce, 3 * n * n + 4 * n, 2 * self.product)
        self.work, self.integers, self.state = s.scratch(work), s.scratch(8 * n, 4), s.scratch(1, 4)
        self.bytes = s.used


def _matrix(n: int, kind: int) -> tuple[int | None, ...]:
    """Arguments of gesdd from the matrix on: it, values, U and Vᵀ, with their leading sizes."""
    return (None, n, None, None, n, None, n)[: kind + 2]


def svd(a: Type, ask: Ask) -> Lowered:
    """Descending singular values, U and Vᵀ of a real square matrix.

    ``ask`` gives the lengths of work arrays that a routine of LAPACK wants.
    """
    n = a.shape[-1]
    first, second = Stack(a.dtype, 1), Stack(a.dtype, 1)
    memory = _bidiagonal(first, n, ask)
    _vectors(second, n, ask)
    tasks = [first.task(1, 1), second.task(2, 1)]
    return Lowered(tasks, (memory.bytes,))


def _bidiagonal(s: Stack, n: int, ask: Ask) -> _Memory:
    """Values, and vectors of the bidiagonal matrix; numbers so large or small that gesdd scales
    them are left to it."""
    f = s.f
    names = ("gebrd", "bdsdc", "gesdd", "lange")
    source, values = s.operand(0), s.result(0)
    gebrd, bdsdc, gesdd, lange = (s.routine(stem) for stem in names)
    m = _Memory(s, n, ask)
    s.columns(source, m.matrix, n, n)
    given = f"i8 signext {ord('M')}, i32 {n}, i32 {n}, ptr {m.matrix}, i32 {n}, ptr {m.work}"
    largest = f.emit(f"call {s.base} {lange}(i32 {COLUMN_MAJOR}, {given})")
    limits = np.finfo(s.real)
    low = float(np.sqrt(np.float64(limits.tiny)) / limits.eps)
    bounds = [np.float64(np.float32(x) if s.size == 4 else x) for x in (low, 1 / low)]
    above, below = (
        f.emit(f"fcmp {test} {s.base} {largest}, 0x{bound.view(np.uint64):016X}")
        for test, bound in zip(("oge", "ole"), bounds, strict=True)
    )
    plain = f.emit(f"and i1 {above}, {below}")
    f.store("i32", str(_COMPLETE), m.state, 4)
    with f.when(plain):
        arrays = (values, m.off, m.left, m.right, m.work, m.reduce)
        s.call(gebrd, n, n, m.matrix, n, *arrays)
        vectors = (m.u, n, m.vt, n, m.work, m.integers, m.work, m.integers)
        info = s.call(bdsdc, "U", "I", n, values, m.off, *vectors)
        f.store("i32", str(_STEPS), m.state, 4)
        with s.when_failed(info):
            f.store("i32", str(_FAILED), m.state, 4)
    with f.when(f.emit(f"xor i1 {plain}, true")):
        vectors = (m.u, n, m.vt, n, m.work, m.whole, m.integers)
        info = s.call(gesdd, "A", n, n, m.matrix, n, values, *vectors)
        with s.when_failed(info):
            f.store("i32", str(_FAILED), m.state, 4)
    with f.when(f.emit(f"icmp eq i32 {f.load('i32', m.state, 4)}, {_FAILED}")):
        s.fill_nan(values, n, real=True)
    return m


def _vectors(s: Stack, n: int, ask: Ask) -> None:
    """U, the first unit of work, and Vᵀ, the second, from vectors of the bidiagonal matrix."""
    f = s.f
    u, vt, ormbr = s.result(1), s.result(2), s.routine("ormbr")
    m = _Memory(s, n, ask)
    more = f.at(m.work, m.product * s.size)
    sides = [(("Q", "L", "N"), m.left, m.u, u, m.work), (("P", "R", "T"), m.right, m.vt, vt, more)]
    with f.loop("%start", "%stop") as unit:
        for i, (head, factors, vectors, out, work) in enumerate(sides):
            with f.when(f.emit(f"icmp eq i64 {unit}, {i}")):
                state = f.load("i32", m.state, 4)
                with f.when(f.emit(f"icmp eq i32 {state}, {_STEPS}")):
                    where = (m.matrix, n, factors, vectors, n, work, m.product)
                    s.call(ormbr, *head, n, n, n, *where)
                s.rows(vectors, out, n, n)
                with f.when(f.emit(f"icmp eq i32 {state}, {_FAILED}")):
                    s.fill_nan(out, n * n)
