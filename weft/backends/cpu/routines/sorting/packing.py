"""Keys split by a pivot in vectors, as LLVM text, for processors that pack the lanes of a vector.

A vector of keys is split by a pivot into two packed ones (Bramas 2017): what is below goes to other
memory, the rest is packed where it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.backends.cpu.routines.sorting.network import Lanes, extremes, shuffle
from weft.backends.cpu.routines.writer import Function, Module, Number

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


def lanes_below(f: Function, v: Lanes, count: Number, signed: bool = False) -> str:
    """The lanes below a count, which may be less than 0 if it is signed."""
    number = f.emit(f"trunc i64 {count} to i{v.bits}") if v.bits < 64 else str(count)
    word = "sgt" if signed else "ugt"
    return f.emit(f"icmp {word} {v.llvm} {splat(f, v, number)}, {counting(v)}")


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


def packed(f: Function, v: Lanes, x: str, flags: str) -> str:
    """The lanes of a vector that are wanted, side by side in front."""
    name = f"llvm.experimental.vector.compress.v{v.count}i{v.bits}"
    f.declare(name, v.llvm, f"{v.llvm}, {mask_type(v)}, {v.llvm}")
    return f.emit(f"call {v.llvm} @{name}({v.llvm} {x}, {mask_type(v)} {flags}, {v.llvm} poison)")


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


@contextmanager
def while_not_zero(f: Function, place: str) -> Iterator[str]:
    """Instructions repeated while the number at a place is not 0."""
    f.count += 1
    n = f.count
    f.line(f"br label %head{n}")
    f.label(f"head{n}")
    number = f.load("i64", place, 8)
    more = f.emit(f"icmp ne i64 {number}, 0")
    f.line(f"br i1 {more}, label %body{n}, label %done{n}")
    f.label(f"body{n}")
    yield number
    f.line(f"br label %head{n}")
    f.label(f"done{n}")


# --- splitting ------------------------------------------------------------------------------------


def split_function(module: Module, v: Lanes) -> None:
    """A function that moves keys below a pivot to other memory and packs the others; how many."""
    f = Function(module, "split", f"ptr %src, ptr %low, i64 %n, i{v.bits} %pivot, ptr %found")
    pivot = splat(f, v, "%pivot")
    # Loaded, so that a mask is turned around by an instruction on masks and not compared again.
    ones = f.local(8)
    f.store("i64", "-1", ones, 8)
    line = f.emit(f"load volatile i{v.count}, ptr {ones}, align 8")
    every = f.emit(f"bitcast i{v.count} {line} to {mask_type(v)}")
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
                seen = f.add(first, k * v.count)
                number = _split_vector(f, v, x, (pivot, every), number, f.sub(seen, number))
            after[0] = number
        below = held
        done = f.add(done, f.mul(stop, count))
    rest = f.sub("%n", done)
    inside = lanes_below(f, v, rest)
    x = load_some(f, v, f.at("%src", f.mul(done, v.step)), inside)
    less = f.emit(f"and {mask_type(v)} {inside}, {f.emit(f'icmp ult {v.llvm} {x}, {pivot}')}")
    more = f.emit(f"xor {mask_type(v)} {inside}, {less}")
    number = ones_in(f, v, less)
    for flags, base, at, size in (
        (less, "%low", below, number),
        (more, "%src", f.sub(done, below), f.sub(rest, number)),
    ):
        there = f.at(base, f.mul(at, v.step))
        store_some(f, v.count, v.bits, packed(f, v, x, flags), there, lanes_below(f, v, size))
    f.store("i64", str(f.add(below, number)), "%found", 8)
    f.close()


def _split_vector(
    f: Function, v: Lanes, x: str, limits: tuple[str, str], below: Number, above: Number
) -> Number:
    """A vector of keys given out; the number of those below the pivot so far.

    Whole vectors are stored: what is too much lies where keys have been read already.
    """
    pivot, every = limits
    less = f.emit(f"icmp ult {v.llvm} {x}, {pivot}")
    more = f.emit(f"xor {mask_type(v)} {less}, {every}")
    f.store(v.llvm, packed(f, v, x, less), f.at("%low", f.mul(below, v.step)), v.step)
    f.store(v.llvm, packed(f, v, x, more), f.at("%src", f.mul(above, v.step)), v.step)
    return f.add(below, ones_in(f, v, less))


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


def piece_start(f: Function, index: Number, length: Number, pieces: Number) -> Number:
    """Where a piece of a row begins; pieces are alike in size."""
    return f.emit(f"udiv i64 {f.mul(index, length)}, {pieces}")


def copy_keys(f: Function, v: Lanes, source: str, to: str, count: Number) -> None:
    """So many keys copied."""
    copy = f.declare("memcpy", "ptr", "ptr, ptr, i64")
    f.emit(f"call ptr {copy}(ptr {to}, ptr {source}, i64 {f.mul(count, v.step)})")


# --- pivots ---------------------------------------------------------------------------------------


class Pivot:
    """A key of some that splits them."""

    def __init__(self, f: Function, v: Lanes) -> None:
        self.f, self.v = f, v
        self.found, self.place, self.flat = f.local(16), f.local(8), f.local(8)

    def value(self) -> str:
        return self.f.load(f"i{self.v.bits}", self.place, 8)

    def split(self, keys: str, other: str, count: str) -> str:
        """Keys split; how many are below the pivot."""
        f, kind = self.f, f"i{self.v.bits}"
        args = f"ptr {keys}, ptr {other}, i64 {count}, {kind} {self.value()}, ptr {self.found}"
        f.line(f"call void @split({args})")
        return f.load("i64", self.found, 8)

    def choose(self, keys: str, count: str, depth: str) -> str:
        """Choose one that leaves something on both sides; whether all keys are the same as it."""
        f = self.f
        args = f"ptr {keys}, i64 {count}, i64 {depth}, ptr {self.place}, ptr {self.flat}"
        f.line(f"call void @choose({args})")
        return f.emit(f"icmp ne i64 {f.load('i64', self.flat, 8)}, 0")


def choose_function(module: Module, v: Lanes) -> None:
    """A function that chooses a key which leaves something on both sides.

    It says whether all keys are the same as that one. It calls the function of ranges.
    """
    range_function(module, v)
    f = Function(module, "choose", "ptr %keys, i64 %count, i64 %depth, ptr %place, ptr %flat")
    found = f.local(16)
    kind = f"i{v.bits}"
    x = sorted_lanes(f, v, _spread(f, v, "%keys", "%count"))
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


def _spread(f: Function, v: Lanes, keys: str, count: Number) -> str:
    """A vector of keys from all over."""
    step = f.emit(f"udiv i64 {count}, {v.count}")
    half = f.emit(f"lshr i64 {step}, 1")
    x = "poison"
    for i in range(v.count):
        place = f.mul(f.add(half, f.mul(step, i)), v.step)
        one = f.load(f"i{v.bits}", f.at(keys, place), v.step)
        x = f.emit(f"insertelement {v.llvm} {x}, i{v.bits} {one}, i64 {i}")
    return x
