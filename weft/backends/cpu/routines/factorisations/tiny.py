"""Factors of a few elements without loops, for loops that become one function.

Every place in memory is a constant there, so that LLVM keeps matrices in registers.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from weft.backends.cpu.routines.writer import Function, Module, kernel
from weft.kernel.program import Lowered, Place, Task, Type

# Instructions that an operation may take.
MAX_INSTRUCTIONS = 300

KINDS = {
    "float32": ("float", 4, "f32"),
    "float64": ("double", 8, "f64"),
    "int32": ("i32", 4, "i32"),
}
NAN = "0x7FF8000000000000"


def lower(name: str, ins: list[Type], outs: list[Type], params: Any) -> Lowered | None:
    """An operation on a few elements, or None where it is not one of these."""
    if name not in TINY or any(0 in x.shape for x in [*ins, *outs]):
        return None
    return TINY[name](ins, outs, params)


def _real(types: list[Type]) -> bool:
    """Whether all are of one dtype that is computed with here."""
    return (
        types[0].dtype.kind == "f"
        and types[0].dtype.name in KINDS
        and all(x.dtype == types[0].dtype for x in types)
    )


class Scalars:
    """A function on numbers at known places."""

    def __init__(self, ins: int, outs: int, dtype: Any) -> None:
        self.kind, self.size, self.suffix = KINDS[dtype.name]
        self.module = Module()
        self.f: Function = kernel(self.module, "tiny")
        self.places = (
            *(Place("in", i) for i in range(ins)),
            *(Place("out", i) for i in range(outs)),
        )
        self.pointers = [self.f.pointer(i) for i in range(ins + outs)]

    def lowered(self) -> Lowered:
        self.f.close()
        return Lowered([Task(self.module.text(), "tiny", self.places)])

    def load(self, buffer: int, at: int) -> str:
        place = self.f.at(self.pointers[buffer], at * self.size)
        return self.f.load(self.kind, place, self.size)

    def store(self, value: str, buffer: int, at: int) -> None:
        place = self.f.at(self.pointers[buffer], at * self.size)
        self.f.store(self.kind, value, place, self.size)

    def minus_product(self, x: str, y: str, z: str) -> str:
        kind = self.kind
        name = self.f.declare(f"llvm.fma.{self.suffix}", kind, ", ".join([kind] * 3))
        minus = self.f.emit(f"fneg {kind} {y}")
        return self.f.emit(f"call {kind} {name}({kind} {minus}, {kind} {z}, {kind} {x})")

    def call(self, name: str, x: str) -> str:
        name = self.f.declare(f"llvm.{name}.{self.suffix}", self.kind, self.kind)
        return self.f.emit(f"call {self.kind} {name}({self.kind} {x})")

    def compare(self, rule: str, x: str, y: str) -> str:
        return self.f.emit(f"fcmp {rule} {self.kind} {x}, {y}")

    def choose(self, condition: str, x: str, y: str, kind: str = "") -> str:
        kind = kind or self.kind
        return self.f.emit(f"select i1 {condition}, {kind} {x}, {kind} {y}")

    def get_index(self, buffer: int, at: int) -> str:
        return self.f.load("i32", self.f.at(self.pointers[buffer], 4 * at), 4)

    def put_index(self, value: str, buffer: int, at: int) -> None:
        self.f.store("i32", value, self.f.at(self.pointers[buffer], 4 * at), 4)

    def binary(self, op: str, x: str, y: str) -> str:
        return self.f.emit(f"{op} {self.kind} {x}, {y}")


# --- factors --------------------------------------------------------------------------------------


def _matrices(kind: Type, rows: int, columns: int, work: int) -> range | None:
    """The offsets of matrices in a stack, or None where they are not few and small."""
    count, size = prod(kind.shape[:-2]), rows * columns
    return range(0, count * size, size) if count * (size + work) <= MAX_INSTRUCTIONS else None


def cholesky(ins: list[Type], outs: list[Type], params: Any) -> Lowered | None:
    """Lower factors; a pivot that is not positive makes all of its matrix NaN."""
    n = ins[0].shape[-1]
    found = _matrices(ins[0], n, n, n**3 // 3) if _real(ins) else None
    if found is None:
        return None
    s = Scalars(1, 1, ins[0].dtype)
    for base in found:
        a = {(i, j): s.load(0, base + i * n + j) for i in range(n) for j in range(i + 1)}
        fault = "0.0"
        for k in range(n):
            fault = s.choose(s.compare("ogt", a[k, k], "0.0"), fault, NAN)
            a[k, k] = s.call("sqrt", a[k, k])
            inverse = s.binary("fdiv", "1.0", a[k, k])
            for i in range(k + 1, n):
                a[i, k] = s.binary("fmul", a[i, k], inverse)
                for j in range(k + 1, i + 1):
                    a[i, j] = s.minus_product(a[i, j], a[i, k], a[j, k])
        for i, j in product(range(n), range(n)):
            value = s.binary("fadd", a[i, j], fault) if j <= i else "0.0"
            s.store(value, 1, base + i * n + j)
    return s.lowered()


def lu(ins: list[Type], outs: list[Type], params: Any) -> Lowered | None:
    """Packed factors, the row swaps and the permutation; rows change places by choices."""
    m, n = ins[0].shape[-2:]
    least = min(m, n)
    found = _matrices(ins[0], m, n, least * m * n) if _real(ins) else None
    if found is None:
        return None
    s = Scalars(1, 3, ins[0].dtype)
    for base in found:
        a = {(i, j): s.load(0, base + i * n + j) for i in range(m) for j in range(n)}
        order = [str(i) for i in range(m)]
        for k in range(least):
            chosen, best = str(k), s.call("fabs", a[k, k])
            for i in range(k + 1, m):
                size = s.call("fabs", a[i, k])
                larger = s.compare("ogt", size, best)
                best = s.choose(larger, size, best)
                chosen = s.choose(larger, str(i), chosen, "i32")
            s.put_index(chosen, 2, base // (m * n) * least + k)
            for i in range(k + 1, m):
                here = s.f.emit(f"icmp eq i32 {chosen}, {i}")
                _exchange(s, here, order, k, i, "i32")
                for j in range(n):
                    a[k, j], a[i, j] = _exchanged(s, here, a[k, j], a[i, j], s.kind)
            usable = s.compare("une", a[k, k], "0.0")
            inverse = s.binary("fdiv", "1.0", s.choose(usable, a[k, k], "1.0"))
            for i in range(k + 1, m):
                a[i, k] = s.binary("fmul", a[i, k], inverse)
                for j in range(k + 1, n):
                    a[i, j] = s.minus_product(a[i, j], a[i, k], a[k, j])
        for i, j in product(range(m), range(n)):
            s.store(a[i, j], 1, base + i * n + j)
        for i in range(m):
            s.put_index(order[i], 3, base // n + i)
    return s.lowered()


def _exchanged(s: Scalars, here: str, x: str, y: str, kind: str) -> tuple[str, str]:
    return s.choose(here, y, x, kind), s.choose(here, x, y, kind)


def _exchange(s: Scalars, here: str, values: list[str], i: int, j: int, kind: str) -> None:
    values[i], values[j] = _exchanged(s, here, values[i], values[j], kind)


def pivots_to_permutation(ins: list[Type], outs: list[Type], params: Any) -> Lowered | None:
    """The order of rows that swaps make."""
    count, size = ins[0].shape[-1], outs[0].shape[-1]
    stacks = prod(ins[0].shape[:-1])
    if any(x.dtype.name != "int32" for x in (*ins, *outs)):
        return None
    if stacks * count * size * 3 > MAX_INSTRUCTIONS:
        return None
    s = Scalars(1, 1, ins[0].dtype)
    for g in range(stacks):
        order = [str(i) for i in range(size)]
        for k in range(count):
            chosen = s.get_index(0, g * count + k)
            for i in range(k + 1, size):
                _exchange(s, s.f.emit(f"icmp eq i32 {chosen}, {i}"), order, k, i, "i32")
        for i in range(size):
            s.put_index(order[i], 1, g * size + i)
    return s.lowered()


def triangular_solve(ins: list[Type], outs: list[Type], params: Any) -> Lowered | None:
    """Solutions by substitution; a right side is a left side of transposed matrices."""
    n = ins[0].shape[-1]
    m, k = ins[1].shape[-2:]
    left, lower, unit = params["left_side"], params["lower"], params["unit_diagonal"]
    across = params["transpose_a"] == left  # whether what is solved with is a's transpose
    row_step, column_step = (1, n) if across else (n, 1)
    sides, side_step, b_step = (k, 1, k) if left else (m, k, 1)
    found = _matrices(ins[0], n, n, n * n * sides) if _real(ins) else None
    if found is None:
        return None
    forward = lower != across
    s = Scalars(2, 1, ins[0].dtype)
    for base in found:
        start = base // (n * n) * m * k
        inverse = {}
        for j in () if unit else range(n):
            inverse[j] = s.binary("fdiv", "1.0", s.load(0, base + j * (n + 1)))
        for c in range(sides):
            at = [start + i * b_step + c * side_step for i in range(n)]
            b = [s.load(1, place) for place in at]
            for j in range(n) if forward else reversed(range(n)):
                if not unit:
                    b[j] = s.binary("fmul", b[j], inverse[j])
                for i in range(j + 1, n) if forward else range(j):
                    factor = s.load(0, base + i * row_step + j * column_step)
                    b[i] = s.minus_product(b[i], factor, b[j])
            for place, value in zip(at, b, strict=True):
                s.store(value, 2, place)
    return s.lowered()


TINY = {
    "cholesky": cholesky,
    "lu": lu,
    "lu_pivots_to_permutation": pivots_to_permutation,
    "triangular_solve": triangular_solve,
}
