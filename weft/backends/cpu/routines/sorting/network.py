"""Sorting networks on vectors: which are compared, and the LLVM text of what compares them."""

from __future__ import annotations

from weft.backends.cpu.routines.writer import Function, Module
from weft.base.record import Record


class Lanes(Record):
    """The vectors of a sort."""

    count: int
    bits: int  # of a record

    @property
    def llvm(self) -> str:
        return f"<{self.count} x i{self.bits}>"

    @property
    def size(self) -> int:
        return self.count * self.bits // 8

    @property
    def step(self) -> int:
        return self.bits // 8


# --- pieces of text -------------------------------------------------------------------------------


def shuffle(f: Function, kind: str, a: str, b: str, mask: list[int]) -> str:
    lanes = ", ".join([f"i32 {i}" for i in mask])
    return f.emit(f"shufflevector {kind} {a}, {kind} {b}, <{len(mask)} x i32> <{lanes}>")


def extremes(f: Function, v: Lanes, a: str, b: str) -> tuple[str, str]:
    """The smaller and the larger of records."""
    out = []
    for name in ("umin", "umax"):
        called = f"llvm.{name}.v{v.count}i{v.bits}"
        f.declare(called, v.llvm, f"{v.llvm}, {v.llvm}")
        out.append(f.emit(f"call {v.llvm} @{called}({v.llvm} {a}, {v.llvm} {b})"))
    return out[0], out[1]


def transpose_function(module: Module, v: Lanes) -> None:
    """A function that swaps rows and lanes of as many vectors as have lanes."""
    f = Function(module, "transpose", "ptr %src, ptr %dst")
    transpose_blocks(f, v, "%src", "%dst", v.count)
    f.close()


def block_function(
    module: Module, name: str, v: Lanes, count: int, pairs: list[tuple[int, int]]
) -> None:
    """A function that compares pairs of so many vectors, in registers."""
    f = Function(module, name, "ptr %block")
    compare_pairs(f, v, [f.at("%block", k * v.size) for k in range(count)], pairs)
    f.close()


def compare_pairs(f: Function, v: Lanes, places: list[str], pairs: list[tuple[int, int]]) -> None:
    """Vectors at some places compared pair by pair, in registers."""
    rows = [f.load(v.llvm, place, v.size) for place in places]
    for a, b in pairs:
        rows[a], rows[b] = extremes(f, v, rows[a], rows[b])
    for place, x in zip(places, rows, strict=True):
        f.store(v.llvm, x, place, v.size)


def transpose_blocks(f: Function, v: Lanes, src: str, dst: str, rows: int) -> None:
    """The same for each block of so many rows."""
    n, step = v.count, 1
    while step < n:
        first = [j if not j & step else n + j - step for j in range(n)]
        second = [j + step if not j & step else n + j for j in range(n)]
        with f.loop(0, rows // 2) as i:  # those without the step's bit: a loop is less to compile
            low = f.emit(f"and i64 {i}, {step - 1}")
            place = f.mul(f.sub(f.mul(i, 2), low), v.size)
            a, b = (f.load(v.llvm, f.at(src, f.add(place, k * v.size)), v.step) for k in (0, step))
            for k, mask in ((0, first), (step, second)):
                to = f.at(dst, f.add(place, k * v.size))
                f.store(v.llvm, shuffle(f, v.llvm, a, b, mask), to, v.step)
        src, step = dst, 2 * step


def batcher(n: int) -> list[tuple[int, int]]:
    """The comparisons that sort ``n`` elements, a power of two (Batcher 1968)."""
    pairs = []
    p = 1
    while p < n:
        k = p
        while k:
            for j in range(k % p, n - k, 2 * k):
                for i in range(min(k, n - j - k)):
                    if (i + j) // (2 * p) == (i + j + k) // (2 * p):
                        pairs.append((i + j, i + j + k))
            k //= 2
        p *= 2
    return pairs


def halves(n: int) -> list[tuple[int, int]]:
    """The comparisons that sort ``n`` elements which rise and then fall."""
    pairs = []
    k = n // 2
    while k:
        pairs += [(i, i + k) for i in range(n) if not i & k]
        k //= 2
    return pairs
