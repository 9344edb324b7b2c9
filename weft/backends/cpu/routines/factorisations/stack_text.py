"""Kernels over the matrices of a stack: calls of LAPACK with memory of their own, and copies.

LAPACK wants columns one after another, arrays here have rows so: matrices are transposed on the
way in and out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.backends.cpu.routines.factorisations import stack_stubs
from weft.backends.cpu.routines.factorisations.transpose import turn_code
from weft.backends.cpu.routines.writer import Function, Module, Number, kernel
from weft.backends.llvm.native.llvm import LIGHT, QUICK
from weft.base.record import Record
from weft.base.sizes import Size, computed
from weft.kernel.kinds import kind_of
from weft.kernel.program import Lowered, Place, Task

NAME = "stack"
LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
COLUMN_MAJOR, ROW_MAJOR = 102, 101
# CBLAS's codes.
NO_TRANSPOSE, TRANSPOSE, CONJUGATE_TRANSPOSE = 111, 112, 113
UPPER, LOWER = 121, 122
NON_UNIT, UNIT = 131, 132
LEFT, RIGHT = 141, 142
# A stack is at most so many pieces of work, each with memory of its own, in all so many bytes.
MAX_UNITS, MAX_SCRATCH_BYTES = 64, 1 << 28


def _chunk(count: int, scratch: int) -> int:
    """Matrices of a piece of work, of so many that each want so many bytes of memory."""
    most = max(2, min(MAX_UNITS, MAX_SCRATCH_BYTES // max(1, scratch)))
    return max(1, -(-count // most))


class Stack:
    """A kernel that does the same with every matrix of a stack, of any size."""

    def __init__(self, dtype: np.dtype, count: int) -> None:
        self.dtype = dtype
        self.letter = LETTERS[dtype.name]
        self.complex = dtype.kind == "c"
        self.real = np.dtype(f"f{dtype.itemsize // 2}") if self.complex else dtype
        self.base = "float" if self.real.itemsize == 4 else "double"
        self.size = dtype.itemsize
        self.count = count
        self.module = Module()
        self.f: Function = kernel(self.module, NAME)
        self.places: list[Place] = []
        self.used = 0
        self.slot = self._slot()

    def _slot(self) -> str:
        """The memory of this piece of work; how much is known at the end."""
        self.places.append(Place("scratch", 0))
        base = self.f.pointer(0)
        self.hole = len(self.f.lines)
        self.f.lines.append("")
        return self.f.at(base, "%slot")

    # --- memory -----------------------------------------------------------------------------------

    def pointer(self, kind: str, what: int | str) -> str:
        self.places.append(Place(kind, what))
        return self.f.pointer(len(self.places) - 1)

    def operand(self, i: int) -> str:
        return self.pointer("in", i)

    def result(self, i: int) -> str:
        return self.pointer("out", i)

    def scratch(self, count: int, itemsize: int = 0) -> str:
        """Memory for so many numbers."""
        at = self.f.at(self.slot, self.used)
        self.used += -(-max(1, count) * (itemsize or self.size) // 64) * 64
        return at

    def member(self, base: str, g: str, count: int, itemsize: int = 0) -> str:
        """The part of an array that belongs to matrix ``g``: so many numbers."""
        return self.f.at(base, self.f.mul(g, count * (itemsize or self.size)))

    def lowered(self) -> Lowered:
        """The finished operation."""
        chunk = computed(_chunk, self.count, self.used)
        pieces = -(-self.count // chunk)
        self.f.lines[self.hole] = (
            f"  %piece = udiv i64 %start, {chunk}\n  %slot = mul i64 %piece, {self.used}"
        )
        task = self._closed(self.count, chunk)
        return Lowered([task], (max(64, pieces * self.used),))

    def task(self, extent: int, chunk: int) -> Task:
        """The kernel as one task of several, which share their memory."""
        self.f.lines[self.hole] = "  %slot = mul i64 0, 0"
        return self._closed(extent, chunk)

    def _closed(self, extent: int, chunk: int) -> Task:
        self.f.without_care()
        called = self.module.functions.keys() - {"fill_nan"}  # which is rarely called
        self.f.close()
        care = LIGHT if "conjugate" in called else "" if called else QUICK
        return Task(care + self.module.text(), NAME, tuple(self.places), extent, chunk)

    # --- copies -----------------------------------------------------------------------------------

    def copy(self, to: str, at: str, size: Number) -> None:
        """Copy so many bytes."""
        name = self.f.declare("llvm.memcpy.p0.p0.i64", "void", "ptr, ptr, i64, i1")
        self.f.line(f"call void {name}(ptr {to}, ptr {at}, i64 {size}, i1 false)")

    def clear(self, at: str, size: Number) -> None:
        name = self.f.declare("llvm.memset.p0.i64", "void", "ptr, i8, i64, i1")
        self.f.line(f"call void {name}(ptr {at}, i8 0, i64 {size}, i1 false)")

    def turn(self, at: str, step: int, to: str, stride: int, rows: int, columns: int) -> None:
        """Row r and column c of a matrix with rows ``step`` apart to row c, column r of another."""
        f, (text, name) = self.f, turn_code(self.size)
        self.module.functions.setdefault(name, text.replace("define void", "define internal void"))
        words = f"i64 {f.mul(step, self.size)}, ptr {to}, i64 {f.mul(stride, self.size)}"
        f.line(f"call void @{name}(ptr {at}, {words}, i64 {rows}, i64 {columns})")

    def columns(self, at: str, to: str, m: int, n: int) -> None:
        """An m by n matrix of rows, column after column."""
        self.turn(at, n, to, m, m, n)

    def rows(self, at: str, to: str, m: int, n: int) -> None:
        """An m by n matrix of columns, row after row."""
        self.turn(at, m, to, n, n, m)

    def keep_upper(self, at: str, m: int, n: int) -> None:
        """Zeros below the diagonal of an m by n matrix of rows."""
        f = self.f
        with f.loop(1, m) as row:
            self.clear(f.at(at, f.mul(row, n * self.size)), f.mul(f.smaller(row, n), self.size))

    def stub(self, function: Any, *given: Number) -> str:
        """What a stub of real numbers returns."""
        return self.f.call_stub(function, *given, F=kind_of(self.real))

    def fill_nan(self, at: str, count: Number, real: bool = False) -> None:
        """NaN in every number, real ones or those of the stack."""
        total = count if real or not self.complex else self.f.mul(count, 2)
        self.stub(stack_stubs.fill_nan, at, total)

    def finite_columns(self, at: str, to: str, n: int) -> str:
        """A square matrix column after column; whether it is finite. If not it becomes zeros, as
        iterations of LAPACK need not end on NaN or infinity."""
        ok = self.stub(stack_stubs.is_finite, at, n * n * (2 if self.complex else 1))
        self.columns(at, to, n, n)
        with self.f.unless(ok):
            self.clear(to, n * n * self.size)
        return ok

    # --- LAPACK -----------------------------------------------------------------------------------

    def routine(self, stem: str) -> str:
        """The address of a routine for the stack's dtype; to be asked for before the loop."""
        return self.pointer("library", f"LAPACKE_{self.letter}{stem}_work")

    def call(self, routine: str, *given: Any) -> str:
        """Call a routine; its ``info``."""
        return self.f.emit(f"call i32 {routine}(i32 {COLUMN_MAJOR}, {arguments(given)})")

    def number(self, value: int) -> str:
        """A number as BLAS takes it: by value, or where complex by its address."""
        if not self.complex:
            return f"{self.base} {value}.0"
        return f"ptr {self.module.constant(np.array([value, 0], self.real))}"

    def when_failed(self, info: str, given: str = "true") -> Any:
        """Instructions for where a routine failed, or what it was given was no good."""
        bad = self.f.emit(f"icmp ne i32 {info}, 0")
        return self.f.when(self.f.emit(f"select i1 {given}, i1 {bad}, i1 true"))


class Whole(Record):
    """A 32-bit integer known when run, as an argument."""

    name: str


def arguments(given: tuple[Any, ...]) -> str:
    """Arguments of a call: characters, integers and pointers."""
    words = []
    for x in given:
        if isinstance(x, (int, Size)):
            words.append(f"i32 {x}")
        elif isinstance(x, Whole):
            words.append(f"i32 {x.name}")
        elif len(x) == 1:
            words.append(f"i8 signext {ord(x)}")
        else:
            words.append(f"ptr {x}")
    return ", ".join(words)
