"""The Cholesky factor of one large matrix, in square tiles shared by all threads.

The tiles do not depend on the number of threads. A counter in scratch memory says which column of
tiles is next, so that every step runs the same code.
"""

from __future__ import annotations

import numpy as np

from weft.backends.cpu.routines.factorisations.stack_text import (
    CONJUGATE_TRANSPOSE,
    LOWER,
    NO_TRANSPOSE,
    NON_UNIT,
    RIGHT,
    ROW_MAJOR,
    TRANSPOSE,
    Stack,
    Whole,
)
from weft.backends.cpu.routines.writer import Number
from weft.kernel.program import Lowered, Task, Type

MIN_SIDE = 384  # below, one call of LAPACK is as good


def cholesky(kind: Type) -> Lowered:
    """The lower factor, or NaN where the matrix is not positive."""
    n = kind.shape[-1]
    size = 128 if n < 2048 else 256
    steps = -(-n // size)
    tiles = _Tiles(kind.dtype, n, size)
    first, diagonal, panel, update, last = (
        tiles.begin(),
        tiles.diagonal(),
        tiles.panel(),
        tiles.update(),
        tiles.end(),
    )
    tasks = [first]
    for step in range(steps):
        rest = steps - step - 1
        tasks.append(diagonal)
        if rest:
            tasks += [panel._replace(extent=rest), update._replace(extent=rest * rest)]
    return Lowered([*tasks, last], (64,))


class _Tiles:
    def __init__(self, dtype: np.dtype, n: int, size: int) -> None:
        self.dtype, self.n, self.size = dtype, n, size
        self.turned = CONJUGATE_TRANSPOSE if dtype.kind == "c" else TRANSPOSE

    def open(self, *names: str) -> tuple[Stack, str, str, list[str]]:
        """A kernel, its matrix, its counter, and functions of BLAS."""
        s = Stack(self.dtype, 1)
        target, counter = s.result(0), s.slot
        stems = [n if n.startswith("LAPACKE") else f"cblas_{s.letter}{n}" for n in names]
        return s, target, counter, [s.pointer("library", name) for name in stems]

    def tile(self, s: Stack, base: str, row: Number, column: Number) -> str:
        f = s.f
        place = f.add(f.mul(row, self.n * self.size), f.mul(column, self.size))
        return f.at(base, f.mul(place, s.size))

    def height(self, s: Stack, row: Number) -> str:
        """The rows of a row of tiles; the last one may have fewer."""
        f = s.f
        rows = f.smaller(self.size, f.sub(self.n, f.mul(row, self.size)))
        return f.emit(f"trunc i64 {rows} to i32")

    def begin(self) -> Task:
        """The lower triangle copied, zeros above, the counter at 0."""
        s, target, counter, _ = self.open()
        f, n = s.f, self.n
        source = s.operand(0)
        with f.loop("%start", "%stop") as row:
            offset = f.mul(row, n * s.size)
            to, kept = f.at(target, offset), f.mul(f.add(row, 1), s.size)
            s.copy(to, f.at(source, offset), kept)
            s.clear(f.at(to, kept), f.sub(n * s.size, kept))
            with f.when(f.emit(f"icmp eq i64 {row}, 0")):
                s.clear(counter, 16)
        return s.task(n, max(1, 65536 // (n * s.size)))

    def diagonal(self) -> Task:
        """The factor of the next tile on the diagonal; a failure is noted."""
        s, target, counter, _ = self.open()
        f = s.f
        potrf = s.routine("potrf")
        k = f.load("i64", counter, 8)
        height = self.height(s, k)
        at = self.tile(s, target, k, k)
        info = s.call(potrf, "U", Whole(height), at, self.n)
        with s.when_failed(info):
            f.store("i64", "1", f.at(counter, 8), 8)
        f.store("i64", str(f.add(k, 1)), counter, 8)
        return s.task(1, 1)

    def panel(self) -> Task:
        """The tiles below it, solved with it."""
        s, target, counter, (trsm,) = self.open("trsm")
        f, n = s.f, self.n
        after = f.load("i64", counter, 8)
        k = f.sub(after, 1)
        with f.loop("%start", "%stop") as i:
            row = f.add(after, i)
            codes = (ROW_MAJOR, RIGHT, LOWER, self.turned, NON_UNIT)
            head = ", ".join(f"i32 {code}" for code in codes)
            diagonal, at = self.tile(s, target, k, k), self.tile(s, target, row, k)
            f.line(
                f"call void {trsm}({head}, i32 {self.height(s, row)}, i32 {self.size},"
                f" {s.number(1)}, ptr {diagonal}, i32 {n}, ptr {at}, i32 {n})"
            )
        return s.task(1, 1)

    def update(self) -> Task:
        """What the panel takes away from the tiles right of it, on and below the diagonal."""
        s, target, counter, (gemm, rank_k) = self.open(
            "gemm", "herk" if self.dtype.kind == "c" else "syrk"
        )
        f, n, size = s.f, self.n, self.size
        after = f.load("i64", counter, 8)
        k = f.sub(after, 1)
        rest = f.sub(-(-n // size), after)
        with f.loop("%start", "%stop") as g:
            i = f.emit(f"udiv i64 {g}, {rest}")
            j = f.emit(f"urem i64 {g}, {rest}")
            row, column = f.add(after, i), f.add(after, j)
            spots = [self.tile(s, target, x, k) for x in (row, column)]
            at = self.tile(s, target, row, column)
            high, wide = self.height(s, row), self.height(s, column)
            with f.when(f.emit(f"icmp eq i64 {i}, {j}")):
                f.line(
                    f"call void {rank_k}(i32 {ROW_MAJOR}, i32 {LOWER}, i32 {NO_TRANSPOSE},"
                    f" i32 {high}, i32 {size}, {s.base} -1.0, ptr {spots[0]}, i32 {n},"
                    f" {s.base} 1.0, ptr {at}, i32 {n})"
                )
            with f.when(f.emit(f"icmp ugt i64 {i}, {j}")):
                f.line(
                    f"call void {gemm}(i32 {ROW_MAJOR}, i32 {NO_TRANSPOSE}, i32 {self.turned},"
                    f" i32 {high}, i32 {wide}, i32 {size}, {s.number(-1)}, ptr {spots[0]}, i32 {n},"
                    f" ptr {spots[1]}, i32 {n}, {s.number(1)}, ptr {at}, i32 {n})"
                )
        return s.task(1, 1)

    def end(self) -> Task:
        """NaN on and below the diagonal where a tile failed."""
        s, target, counter, _ = self.open()
        f, n = s.f, self.n
        failed = f.load("i64", f.at(counter, 8), 8)
        with f.when(f.emit(f"icmp ne i64 {failed}, 0")), f.loop("%start", "%stop") as row:
            s.fill_nan(f.at(target, f.mul(row, n * s.size)), f.add(row, 1))
        return s.task(n, max(1, 65536 // (n * s.size)))
