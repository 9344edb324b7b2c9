"""Keys split by a pivot in vectors, as LLVM text, for processors that pack the lanes of a vector.

A vector of keys is split by a pivot into two packed ones (Bramas 2017): what is below goes to other
memory, the rest is packed where it was.
"""

from __future__ import annotations

import numpy as np

from weft.backends.cpu.routines.sorting.network import Lanes, batcher, extremes, shuffle
from weft.backends.cpu.routines.sorting.rows import resized
from weft.backends.cpu.routines.writer import Function, Module, Number
from weft.backends.llvm.native.processor import is_arm

UNROLLED = 4
DEPTH = 64  # splits by chosen keys, after which the range of keys is halved


# --- pieces of text -------------------------------------------------------------------------------


def mask_type(v: Lanes) -> str:
    return f"<{v.count} x i1>"


def counting(v: Lanes) -> str:
    """A constant vector that counts."""
    return f"<{', '.join([f'i{v.bits} {i}' for i in range(v.count)])}>"


def splat(f: Function, v: Lanes, x: str) -> str:
    """A vector of one number that is known when it runs."""
    one = f.emit(f"insertelement {v.llvm} poison, i{v.bits} {x}, i64 0")
    return shuffle(f, v.llvm, one, "poison", [0] * v.count)


def lanes_below(f: Function, v: Lanes, count: Number) -> str:
    """The lanes below a count."""
    number = f.emit(f"trunc i64 {count} to i{v.bits}") if v.bits < 64 else str(count)
    return f.emit(f"icmp ugt {v.llvm} {splat(f, v, number)}, {counting(v)}")


def load_some(f: Function, v: Lanes, place: str, flags: str) -> str:
    """The lanes that are asked for; ones for the others."""
    name = f"llvm.masked.load.v{v.count}i{v.bits}.p0"
    f.declare(name, v.llvm, f"ptr, i32, {mask_type(v)}, {v.llvm}")
    rest = f"{v.llvm} splat (i{v.bits} -1)"
    return f.emit(
        f"call {v.llvm} @{name}(ptr {place}, i32 {v.step}, {mask_type(v)} {flags}, {rest})"
    )


def store_some(f: Function, count: int, bits: int, x: str, place: str, flags: str) -> None:
    kind, mask = f"<{count} x i{bits}>", f"<{count} x i1>"
    name = f"llvm.masked.store.v{count}i{bits}.p0"
    f.declare(name, "void", f"{kind}, ptr, i32, {mask}")
    f.line(f"call void @{name}({kind} {x}, ptr {place}, i32 {bits // 8}, {mask} {flags})")


class Packer:
    """Lanes of vectors packed in front of them, by an instruction or by permutations in a table."""

    def __init__(self, f: Function, v: Lanes) -> None:
        self.f, self.v = f, v
        self.name, self.part = "", 0  # an instruction that permutes parts of so many bytes
        if is_arm() and v.size == 16:
            self.name, self.part = "llvm.aarch64.neon.tbl1.v16i8", 1
        elif not is_arm() and v.size == 32:
            self.name, self.part = "llvm.x86.avx2.permd", 4
        if self.name:
            parts = v.step // self.part
            lanes, choices = np.arange(v.count), np.arange(1 << v.count)[:, None]
            order = np.argsort(~choices >> lanes & 1, kind="stable")[..., None]
            table = order * parts + np.arange(parts)
            self.table = f.module.constant(table.astype(f"u{self.part}"))
        else:
            # Loaded, so that a mask is inverted by an instruction on masks and not compared again.
            ones = f.local(8)
            f.store("i64", "-1", ones, 8)
            line = f.emit(f"load volatile i{v.count}, ptr {ones}, align 8")
            self.every = f.emit(f"bitcast i{v.count} {line} to {mask_type(v)}")

    def split(self, x: str, flags: str) -> tuple[str, str, str]:
        """The lanes with a flag, the others, and how many have one."""
        f, v = self.f, self.v
        if not self.name:
            others = f.emit(f"xor {mask_type(v)} {flags}, {self.every}")
            return self.packed(x, flags), self.packed(x, others), ones_in(f, v, flags)
        if is_arm():  # bits and their number by one sum over lanes
            word = f"i{v.bits}"
            weights = ", ".join([f"{word} {(1 << 16) + (1 << i)}" for i in range(v.count)])
            kept = f"{v.llvm} <{weights}>, {v.llvm} zeroinitializer"
            kept = f.emit(f"select {mask_type(v)} {flags}, {kept}")
            name = f"llvm.vector.reduce.add.v{v.count}i{v.bits}"
            f.declare(name, word, v.llvm)
            both = resized(f, word, "i64", f.emit(f"call {word} @{name}({v.llvm} {kept})"), "zext")
            number = f.emit(f"lshr i64 {both}, 16")
            choice = f.emit(f"and i64 {both}, {(1 << v.count) - 1}")
        else:
            number = ones_in(f, v, flags)
            choice = f.emit(f"bitcast {mask_type(v)} {flags} to i{v.count}")
            choice = f.emit(f"zext i{v.count} {choice} to i64")
        others = f.emit(f"xor i64 {choice}, {(1 << v.count) - 1}")
        return self.permuted(x, choice), self.permuted(x, others), number

    def packed(self, x: str, flags: str) -> str:
        f, v = self.f, self.v
        name = f"llvm.experimental.vector.compress.v{v.count}i{v.bits}"
        f.declare(name, v.llvm, f"{v.llvm}, {mask_type(v)}, {v.llvm}")
        args = f"{v.llvm} {x}, {mask_type(v)} {flags}, {v.llvm} poison"
        return f.emit(f"call {v.llvm} @{name}({args})")

    def permuted(self, x: str, choice: str) -> str:
        f, v = self.f, self.v
        kind = f"<{v.size // self.part} x i{8 * self.part}>"
        f.declare(self.name, kind, f"{kind}, {kind}")
        order = f.load(kind, f.at(self.table, f.mul(choice, v.size)), v.size)
        x = f.emit(f"bitcast {v.llvm} {x} to {kind}")
        x = f.emit(f"call {kind} @{self.name}({kind} {x}, {kind} {order})")
        return f.emit(f"bitcast {kind} {x} to {v.llvm}")


def ones_in(f: Function, v: Lanes, flags: str) -> str:
    word = f"i{v.count}"
    f.declare(f"llvm.ctpop.{word}", word, word)
    bits = f.emit(f"bitcast {mask_type(v)} {flags} to {word}")
    return f.emit(f"zext {word} {f.emit(f'call {word} @llvm.ctpop.{word}({word} {bits})')} to i64")


def lanes_step(f: Function, v: Lanes, x: str, far: int, upper: list[bool]) -> str:
    """Lanes so far from each other compared; the larger of two go where ``upper`` says."""
    other = shuffle(f, v.llvm, x, "poison", [i ^ far for i in range(v.count)])
    low, high = extremes(f, v, x, other)
    mask = [v.count + i if up else i for i, up in enumerate(upper)]
    return shuffle(f, v.llvm, low, high, mask)


def sorted_lanes(f: Function, v: Lanes, x: str) -> str:
    """A vector sorted (Batcher's bitonic sort)."""
    part = 2
    while part <= v.count:
        far = part // 2
        while far:
            upper = [bool(i & far) != bool(i & part) for i in range(v.count)]
            x = lanes_step(f, v, x, far, upper)
            far //= 2
        part *= 2
    return x


# --- splitting ------------------------------------------------------------------------------------


def split_function(module: Module, v: Lanes) -> None:
    """A function that moves keys below a pivot to other memory and packs the others; how many.

    Whole vectors are stored: what is too much lies where keys have been read already. Of the last
    keys only those that are there are stored.
    """
    f = Function(module, "split", f"ptr %src, ptr %low, i64 %n, i{v.bits} %pivot, ptr %found")
    pivot, packer = splat(f, v, "%pivot"), Packer(f, v)
    below: Number = 0
    done: Number = 0
    for vectors in (UNROLLED, 1):
        count = vectors * v.count
        stop = f.emit(f"udiv i64 {f.sub('%n', done)}, {count}")
        with f.carried(0, stop, [("i64", below)]) as (i, (held,), after):
            first = f.add(done, f.mul(i, count))
            here = f.at("%src", f.mul(first, v.step))
            loaded = [f.load(v.llvm, f.at(here, k * v.size), v.step) for k in range(vectors)]
            number: Number = held
            for k, x in enumerate(loaded):
                less = f.emit(f"icmp ult {v.llvm} {x}, {pivot}")
                low, high, some = packer.split(x, less)
                above = f.sub(f.add(first, k * v.count), number)
                f.store(v.llvm, low, f.at("%low", f.mul(number, v.step)), v.step)
                f.store(v.llvm, high, f.at("%src", f.mul(above, v.step)), v.step)
                number = f.add(number, some)
            after[0] = number
        below = held
        done = f.add(done, f.mul(stop, count))
    rest = f.sub("%n", done)
    x = load_some(f, v, f.at("%src", f.mul(done, v.step)), lanes_below(f, v, rest))
    # what is not there is larger than any pivot
    low, high, some = packer.split(x, f.emit(f"icmp ult {v.llvm} {x}, {pivot}"))
    for x, base, at, size in (
        (low, "%low", below, some),
        (high, "%src", f.sub(done, below), f.sub(rest, some)),
    ):
        there = f.at(base, f.mul(at, v.step))
        store_some(f, v.count, v.bits, x, there, lanes_below(f, v, size))
    f.store("i64", str(f.add(below, some)), "%found", 8)
    f.close()


def range_function(module: Module, v: Lanes) -> None:
    """A function that finds the least and the largest of keys, at least a vector of them."""
    f = Function(module, "range", "ptr %src, i64 %n, ptr %found")
    first = f.load(v.llvm, "%src", v.step)
    stop = f.emit(f"udiv i64 {f.add('%n', v.count - 1)}, {v.count}")
    with f.carried(0, stop, [(v.llvm, first), (v.llvm, first)]) as (i, (low, high), after):
        at = f.smaller(f.mul(i, v.count), f.sub("%n", v.count))
        x = f.load(v.llvm, f.at("%src", f.mul(at, v.step)), v.step)
        after[0], after[1] = extremes(f, v, low, x)[0], extremes(f, v, high, x)[1]
    for name, x, place in (("umin", low, 0), ("umax", high, 8)):
        called = f"llvm.vector.reduce.{name}.v{v.count}i{v.bits}"
        f.declare(called, f"i{v.bits}", v.llvm)
        found = f.emit(f"call i{v.bits} @{called}({v.llvm} {x})")
        f.store(f"i{v.bits}", found, f.at("%found", place), v.step)
    f.close()


# --- pivots ---------------------------------------------------------------------------------------


def choose_function(module: Module, v: Lanes) -> None:
    """A function that chooses a key which leaves something on both sides.

    It says whether all keys are the same as that one. It calls the function of ranges.
    """
    range_function(module, v)
    f = Function(module, "choose", "ptr %keys, i64 %count, i64 %depth, ptr %place, ptr %flat")
    found = f.local(16)
    kind = f"i{v.bits}"
    rows = _spread(f, v, "%keys", "%count")
    for a, b in batcher(len(rows)):
        rows[a], rows[b] = extremes(f, v, rows[a], rows[b])
    x = sorted_lanes(f, v, rows[(len(rows) - 1) // 2])
    low, middle, high = (
        f.emit(f"extractelement {v.llvm} {x}, i64 {i}") for i in (0, v.count // 2, v.count - 1)
    )

    def after(condition: str) -> str:
        """The key in the middle, or the next one."""
        return f.emit(f"add {kind} {middle}, {f.emit(f'zext i1 {condition} to {kind}')}")

    f.store(kind, after(f.emit(f"icmp eq {kind} {low}, {middle}")), "%place", 8)
    f.store("i64", "0", "%flat", 8)
    tired = f.emit("icmp eq i64 %depth, 0")
    same = f.emit(f"icmp eq {kind} {low}, {high}")
    with f.when(f.emit(f"or i1 {same}, {tired}")):
        f.line(f"call void @range(ptr %keys, i64 %count, ptr {found})")
        least = f.load(kind, found, v.step)
        most = f.load(kind, f.at(found, 8), v.step)
        half = f.emit(f"lshr {kind} {f.emit(f'sub {kind} {most}, {least}')}, 1")
        half = f.emit(f"add {kind} {f.emit(f'add {kind} {least}, {half}')}, 1")
        near = after(f.emit(f"icmp eq {kind} {least}, {middle}"))
        key = f.emit(f"select i1 {tired}, {kind} {half}, {kind} {near}")
        flat = f.emit(f"icmp eq {kind} {least}, {most}")
        key = f.emit(f"select i1 {flat}, {kind} {least}, {kind} {key}")
        f.store(kind, key, "%place", 8)
        f.store("i64", f.emit(f"zext i1 {flat} to i64"), "%flat", 8)
    f.close()


def _spread(f: Function, v: Lanes, keys: str, count: Number) -> list[str]:
    """Keys from all over: a vector of many lanes, or several of few."""
    vectors = 1 if v.count >= 8 else 16 // v.count
    step = f.emit(f"udiv i64 {count}, {vectors * v.count}")
    half = f.emit(f"lshr i64 {step}, 1")
    rows = ["poison"] * vectors
    for i in range(v.count):
        for row in range(vectors):
            place = f.mul(f.add(half, f.mul(step, vectors * i + row)), v.step)
            one = f.load(f"i{v.bits}", f.at(keys, place), v.step)
            rows[row] = f.emit(f"insertelement {v.llvm} {rows[row]}, i{v.bits} {one}, i64 {i}")
    return rows
