"""LLVM instructions on numbers or vectors of them: constants, integer arithmetic, conversions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from weft.backends.llvm.code import Call, Memory
from weft.kernel.nodes import BF16, BOOL, F16, F32, F64, I32, is_float

_I16 = np.dtype(np.int16)
_INT = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}
_COUNTED = {*_INT.values(), "ptr"}
# A bfloat16 is its bits: it is computed with as a float32, and LLVM moves vectors of its own type
# by functions that few C libraries have.
_NAMES = {BOOL: "i1", F32: "float", F64: "double", F16: "half", BF16: "i16"}
# What is moved in their stead.
MEMORY: dict[np.dtype, np.dtype] = {BOOL: np.dtype(np.int8), F16: _I16, BF16: _I16}
SUFFIXES = {"float": "f32", "double": "f64", "half": "f16"}
_BINARY_INT = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "shl": "shl",
    "lshr": "lshr",
    "ashr": "ashr",
}


def scalar_type(dtype: np.dtype) -> str:
    """The LLVM type of a value in registers; booleans are one bit."""
    return _NAMES.get(dtype) or _INT[dtype.itemsize]


def memory_type(dtype: np.dtype) -> str:
    """The LLVM type of a value in memory; booleans are one byte, narrow floats are bits, which
    every processor can move."""
    return scalar_type(MEMORY.get(dtype, dtype))


def constant_memory(name: str, array: np.ndarray) -> Memory:
    """A constant with an array's bytes."""
    text = "\\" + array.tobytes().hex("\\")
    kind = f"[{array.nbytes} x i8]"
    return Memory(name, f'private unnamed_addr constant {kind} c"{text}", align 64')


class TooLong(Exception):
    """More lines than loops may be written out to."""


class Lines:
    """Lines of a function while it is written."""

    freezes = True  # all that loops carry; else what LLVM counts in, whole numbers and pointers

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.block = "entry"  # the one that lines are added to
        self.unrolled = 0  # lines up to which loops are written out, if any are
        self.count = 0

    def fresh(self, stem: str = "v") -> str:
        self.count += 1
        return f"%{stem}{self.count}"

    def emit(self, text: str) -> str:
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def call_function(self, name: str, arguments: Iterable[str], result: str = "void") -> str:
        """Call a function of the module: what it returns, if anything."""
        if result == "void":
            self.lines.append(Call("  call void ", name, arguments))
            return ""
        found = self.fresh()
        self.lines.append(Call(f"  {found} = call {result} ", name, arguments))
        return found

    def label(self, name: str) -> None:
        self.block = name
        self.lines.append(f"{name}:")

    def carry(
        self,
        first: str,
        last: str,
        carried: Sequence[tuple[str, str]],
        body: Callable[[str, list[str]], list[str]],
        step: int | str = 1,
        once: bool = True,
    ) -> list[str]:
        """What values are after a loop; ``carried`` are their types and first ones.

        It runs at least ``once``, or may not run at all. Every block and every branch costs LLVM
        time, even those that it removes again: a loop that is known to run has no test before it.
        Of values that are frozen LLVM does not see how they grow: to look for other ways of
        counting takes a third of its time, and these are as good as any.
        """
        known = range(int(first), int(last)) if first.isdigit() and last.isdigit() else None
        if self.unrolled and known is not None:
            values = [start for _, start in carried]
            for i in known[:: int(step)]:
                values = body(str(i), values)
                if len(self.lines) > self.unrolled:
                    raise TooLong
            return values
        once = once or bool(known)
        self.count += 1
        n, before = self.count, self.block
        if once:
            self.line(f"br label %loop{n}")
        else:
            some = self.emit(f"icmp slt i64 {first}, {last}")
            self.line(f"br i1 {some}, label %loop{n}, label %done{n}")
        self.label(f"loop{n}")
        place, index = len(self.lines), self.fresh("i")
        inside = [self.fresh() for _ in carried]
        results = body(index, inside)
        results = [
            self.emit(f"freeze {kind} {result}") if self.freezes or kind in _COUNTED else result
            for (kind, _), result in zip(carried, results, strict=True)
        ]
        following = self.emit(f"freeze i64 {self.emit(f'add i64 {index}, {step}')}")
        more = self.emit(f"icmp slt i64 {following}, {last}")
        self.line(f"br i1 {more}, label %loop{n}, label %done{n}")
        phis = [
            f"phi {kind} [ {start}, %{before} ], [ {result}, %{self.block} ]"
            for (kind, start), result in zip(carried, results, strict=True)
        ]
        counter = f"  {index} = phi i64 [ {first}, %{before} ], [ {following}, %{self.block} ]"
        named = [f"  {name} = {phi}" for name, phi in zip(inside, phis, strict=True)]
        self.lines[place:place] = [counter, *named]
        self.label(f"done{n}")
        return results if once else [self.emit(phi) for phi in phis]

    def scalar_min(self, x: str, most: int | str) -> str:
        less = self.emit(f"icmp slt i64 {x}, {most}")
        return self.emit(f"select i1 {less}, i64 {x}, i64 {most}")

    @contextmanager
    def when(self, condition: str | bool, to: str = "") -> Iterator[bool]:
        """Instructions run only where a condition holds; whether any are to be written.

        What follows comes after them, unless they lead to another place.
        """
        if isinstance(condition, bool):
            yield condition
            return
        self.count += 1
        n = self.count
        self.line(f"br i1 {condition}, label %then{n}, label %after{n}")
        self.label(f"then{n}")
        yield True
        self.line(f"br label %{to or f'after{n}'}")
        self.label(f"after{n}")

    def chosen(self, place: str, size: int) -> str:
        """The number of a branch, of so many bytes in memory; not less than 0."""
        kind = f"i{8 * size}"
        index = self.emit(f"load {kind}, ptr {place}")
        if size < 8:
            index = self.emit(f"{'zext' if size == 1 else 'sext'} {kind} {index} to i64")
        low = self.emit(f"icmp slt i64 {index}, 0")
        return self.emit(f"select i1 {low}, i64 0, i64 {index}")

    def switch(self, index: str, regions: Sequence[Any], write: Callable[[Any], None]) -> None:
        """Run one of several regions by its number, or the last one."""
        self.count += 1
        n, last = self.count, len(regions) - 1
        cases = " ".join(f"i64 {i}, label %case{n}.{i}" for i in range(last))
        self.line(f"switch i64 {index}, label %case{n}.{last} [ {cases} ]")
        for i, region in enumerate(regions):
            self.label(f"case{n}.{i}")
            write(region)
            self.line(f"br label %joined{n}")
        self.label(f"joined{n}")

    def transposed(self, rows: list[str], kind: str) -> list[str]:
        """A square of vectors with rows and columns exchanged: halves swapped, then quarters."""
        rows, n = list(rows), len(rows)
        distance = n // 2
        while distance:
            for i in range(n):
                if i & distance:
                    continue
                first, second = rows[i], rows[i + distance]
                low = [k if not k & distance else n + k - distance for k in range(n)]
                high = [k + distance if not k & distance else n + k for k in range(n)]
                rows[i] = self.shuffle(kind, first, second, low)
                rows[i + distance] = self.shuffle(kind, first, second, high)
            distance //= 2
        return rows

    def shuffle(self, kind: str, x: str, y: str, order: Sequence[int | None]) -> str:
        """Elements of two vectors by number; None where any will do."""
        mask = ", ".join(["i32 poison" if i is None else f"i32 {i}" for i in order])
        return self.emit(f"shufflevector {kind} {x}, {kind} {y}, <{len(order)} x i32> <{mask}>")

    def in_all_lanes(self, kind: str, lane: str, lanes: int, x: str) -> str:
        """One value in all lanes of a vector."""
        first = self.emit(f"insertelement {kind} poison, {lane} {x}, i64 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.emit(f"shufflevector {kind} {first}, {kind} poison, {zeros}")


class Instructions(Lines):
    """Lines for as many lanes as vectors have just then."""

    def __init__(self) -> None:
        super().__init__()
        self.declared: dict[str, str] = {}
        self.lanes = 1
        self.mask: str | None = None  # lanes that may touch memory, where not all may

    def type_of(self, dtype: np.dtype) -> str:
        base = scalar_type(dtype)
        return base if self.lanes == 1 else f"<{self.lanes} x {base}>"

    def suffix(self, dtype: np.dtype) -> str:
        base = SUFFIXES.get(scalar_type(dtype), scalar_type(dtype))
        return base if self.lanes == 1 else f"v{self.lanes}{base}"

    def call(self, intrinsic: str, dtype: np.dtype, args: list[str], extra: str = "") -> str:
        name = f"@llvm.{intrinsic}.{self.suffix(dtype)}"
        kind = self.type_of(dtype)
        parameters = ", ".join([kind] * len(args)) + (", i1" if extra else "")
        self.declared[name] = f"declare {kind} {name}({parameters})"
        given = ", ".join(f"{kind} {a}" for a in args) + (f", {extra}" if extra else "")
        return self.emit(f"call {kind} {name}({given})")

    # --- constants --------------------------------------------------------------------------------

    def constant(self, dtype: np.dtype, bits: bytes) -> str:
        text = _literal(dtype, bits)
        return text if self.lanes == 1 else f"splat ({scalar_type(dtype)} {text})"

    def constant_scalar(self, dtype: np.dtype, number: Any) -> str:
        return _literal(dtype, np.asarray(number, dtype).tobytes())

    def whole(self, number: int, dtype: np.dtype = I32) -> str:
        """An integer constant for every lane."""
        return self.constant(dtype, np.asarray(number, dtype).tobytes())

    def splat(self, dtype: np.dtype, name: str) -> str:
        if self.lanes == 1:
            return name
        return self.in_all_lanes(self.type_of(dtype), scalar_type(dtype), self.lanes, name)

    # --- integers ---------------------------------------------------------------------------------

    def integer_operation(self, op: str, dtype: np.dtype, kind: str, args: list[str]) -> str:
        unsigned = dtype.kind == "u" or dtype == BOOL
        if op in _BINARY_INT:
            return self.emit(f"{_BINARY_INT[op]} {kind} {args[0]}, {args[1]}")
        if op in ("div", "rem"):
            below = args[1]
            known = not below.startswith("%")  # a constant, which the assembler divides by quickly
            size = below.startswith("%sized")  # the same in all lanes, and not zero
            if self.mask is not None and self.lanes > 1 and not known and not size:
                # lanes that are not used divide by 1
                one = self.constant(dtype, np.asarray(1, dtype).tobytes())
                flags = f"<{self.lanes} x i1> {self.mask}"
                below = self.emit(f"select {flags}, {kind} {below}, {kind} {one}")
            if self.lanes > 1 and not known and dtype.itemsize <= 4:
                return self.divided(op, dtype, args[0], below, size)
            return self.emit(f"{'u' if unsigned else 's'}{op} {kind} {args[0]}, {below}")
        if op in ("min", "max"):
            return self.call(f"{'u' if unsigned else 's'}{op}", dtype, args)
        if op == "neg":
            return self.emit(f"sub {kind} {self.constant(dtype, bytes(dtype.itemsize))}, {args[0]}")
        if op == "abs":
            return self.call("abs", dtype, args, "i1 false")
        if op == "not":
            ones = np.full((), -1, f"i{dtype.itemsize}").tobytes() if dtype != BOOL else b"\x01"
            return self.emit(f"xor {kind} {args[0]}, {self.constant(dtype, ones)}")
        if op == "mulhi":
            return self.high_product(dtype, args)
        if op == "popcount":
            return self.call("ctpop", dtype, args)
        if op == "clz":
            return self.call("ctlz", dtype, args, "i1 false")
        raise TypeError(f"cannot render {op} of {dtype}")

    def divided(self, op: str, dtype: np.dtype, x: str, y: str, size: bool = False) -> str:
        """A quotient or remainder of vectors by a division of floats; no vectors divide integers.

        With twice the bits of the operands, a quotient that is rounded never reaches the next
        integer: it is off by less than the distance of x / y from there, at least 1 / y. What is
        divided by a size is multiplied by a number of 32 bits' inverse, a little more than that.
        """
        kind, letter = self.type_of(dtype), "u" if dtype.kind in "ub" else "s"
        wide = self.type_of(np.dtype(np.float64 if dtype.itemsize == 4 else np.float32))
        above, below = (self.emit(f"{letter}itofp {kind} {z} to {wide}") for z in (x, y))
        if size and dtype.itemsize == 4:
            more = self.constant(F64, np.float64(1 + 2.0**-50).tobytes())
            inverse = self.emit(f"fdiv {wide} {more}, {below}")
            ratio = self.emit(f"fmul {wide} {above}, {inverse}")
        else:
            ratio = self.emit(f"fdiv {wide} {above}, {below}")
        quotient = self.emit(f"fpto{letter}i {wide} {ratio} to {kind}")
        if op == "div":
            return quotient
        whole = self.emit(f"mul {kind} {quotient}, {y}")
        return self.emit(f"sub {kind} {x}, {whole}")

    def high_product(self, dtype: np.dtype, args: list[str]) -> str:
        """The high half of the product, through integers of twice the width."""
        bits = 8 * dtype.itemsize
        kind = self.type_of(dtype)
        wide = f"i{2 * bits}" if self.lanes == 1 else f"<{self.lanes} x i{2 * bits}>"
        extend = "zext" if dtype.kind == "u" else "sext"
        x, y = (self.emit(f"{extend} {kind} {a} to {wide}") for a in args)
        product = self.emit(f"mul {wide} {x}, {y}")
        shift = str(bits) if self.lanes == 1 else f"splat (i{2 * bits} {bits})"
        high = self.emit(f"lshr {wide} {product}, {shift}")
        return self.emit(f"trunc {wide} {high} to {kind}")

    # --- conversions ------------------------------------------------------------------------------

    def cast(self, have: np.dtype, want: np.dtype, x: str) -> str:
        if have == BF16 and want != BF16:
            have, x = F32, self.from_bfloat(x)
        source, target = self.type_of(have), self.type_of(want)
        if want == BOOL:
            zero = self.constant(have, bytes(have.itemsize))
            test = "fcmp une" if is_float(have) else "icmp ne"
            return self.emit(f"{test} {source} {x}, {zero}")
        if is_float(have):
            if is_float(want):
                return self.float_cast(have, want, x)
            if self.lanes > 1 and want.itemsize <= 4 and have.itemsize >= 4:
                return self.to_integer(have, want, x)
            rule = "fptoui" if want.kind == "u" else "fptosi"
            name = f"@llvm.{rule}.sat.{self.suffix(want)}.{self.suffix(have)}"
            self.declared[name] = f"declare {target} {name}({source})"
            return self.emit(f"call {target} {name}({source} {x})")
        if is_float(want):
            if want.itemsize < 4:
                return self.float_cast(F32, want, self.cast(have, F32, x))
            rule = "uitofp" if have.kind in "ub" else "sitofp"
            return self.emit(f"{rule} {source} {x} to {target}")
        if have != BOOL and have.itemsize == want.itemsize:
            return x
        if have != BOOL and want.itemsize < have.itemsize:
            return self.emit(f"trunc {source} {x} to {target}")
        return self.emit(f"{'zext' if have.kind in 'ub' else 'sext'} {source} {x} to {target}")

    def to_integer(self, have: np.dtype, want: np.dtype, x: str) -> str:
        """Vectors of floats as integers, those beyond their range as its ends, NaN as zero.

        The intrinsic for this takes vectors apart on some processors.
        """
        source, target = self.type_of(have), self.type_of(want)
        limits = np.iinfo(want)
        # the floats next to the ends, inside of them
        low = np.asarray(limits.min, have)
        high = np.asarray(limits.max, have)
        if int(high) > limits.max:
            high = np.nextafter(high, np.zeros((), have))
        first, last = self.constant(have, low.tobytes()), self.constant(have, high.tobytes())
        flags = f"<{self.lanes} x i1>"
        above = self.emit(f"fcmp ogt {source} {x}, {first}")
        inside = self.emit(f"select {flags} {above}, {source} {x}, {source} {first}")
        below = self.emit(f"fcmp olt {source} {inside}, {last}")
        inside = self.emit(f"select {flags} {below}, {source} {inside}, {source} {last}")
        rule = "fptoui" if want.kind == "u" else "fptosi"
        found = self.emit(f"{rule} {source} {inside} to {target}")
        most = self.constant(want, np.asarray(limits.max, want).tobytes())
        over = self.emit(f"fcmp ogt {source} {x}, {last}")
        found = self.emit(f"select {flags} {over}, {target} {most}, {target} {found}")
        zero = self.constant(want, bytes(want.itemsize))
        odd = self.emit(f"fcmp uno {source} {x}, {x}")
        return self.emit(f"select {flags} {odd}, {target} {zero}, {target} {found}")

    def float_cast(self, have: np.dtype, want: np.dtype, x: str) -> str:
        """Conversions between floats by instructions that every processor of a kind has."""
        if have == want:
            return x
        if have.itemsize < 4 or want.itemsize < 4:
            if have == BF16:
                return self.float_cast(F32, want, self.from_bfloat(x))
            if have == F16 and want != F32:
                return self.float_cast(F32, want, self.float_cast(have, F32, x))
            if want == BF16:
                return self.to_bfloat(self.float_cast(have, F32, x))
            if have == F64:
                return self.float_cast(F32, want, self.rounded_to_odd(x))
        rule = "fpext" if want.itemsize > have.itemsize else "fptrunc"
        return self.emit(f"{rule} {self.type_of(have)} {x} to {self.type_of(want)}")

    def from_bfloat(self, x: str) -> str:
        short, wide = self.type_of(_I16), self.type_of(I32)
        bits = self.emit(f"bitcast {self.type_of(BF16)} {x} to {short}")
        bits = self.emit(f"zext {short} {bits} to {wide}")
        bits = self.emit(f"shl {wide} {bits}, {self.whole(16)}")
        return self.emit(f"bitcast {wide} {bits} to {self.type_of(F32)}")

    def to_bfloat(self, x: str) -> str:
        """Round to nearest even on the bits: the instruction for it flushes denormal numbers."""
        single, short, wide = self.type_of(F32), self.type_of(_I16), self.type_of(I32)
        bits = self.emit(f"bitcast {single} {x} to {wide}")
        last = self.emit(f"lshr {wide} {bits}, {self.whole(16)}")
        odd = self.emit(f"and {wide} {last}, {self.whole(1)}")
        carried = self.emit(f"add {wide} {bits}, {self.whole(0x7FFF)}")
        carried = self.emit(f"add {wide} {carried}, {odd}")
        # a NaN keeps its sign and stays one, whatever bits are cut off
        quiet = self.emit(f"and {wide} {bits}, {self.whole(-(1 << 31))}")
        quiet = self.emit(f"or {wide} {quiet}, {self.whole(0x7FC00000)}")
        nan = self.emit(f"fcmp uno {single} {x}, {x}")
        chosen = self.emit(f"select {self.type_of(BOOL)} {nan}, {wide} {quiet}, {wide} {carried}")
        high = self.emit(f"lshr {wide} {chosen}, {self.whole(16)}")
        cut = self.emit(f"trunc {wide} {high} to {short}")
        return self.emit(f"bitcast {short} {cut} to {self.type_of(BF16)}")

    def rounded_to_odd(self, x: str) -> str:
        """float64 as float32 whose last bit says whether anything was cut off.

        Rounding that once more, to float16, gives what rounding once gives.
        """
        double, wide = self.type_of(F64), self.type_of(I32)
        near = self.float_cast(F64, F32, x)
        back = self.float_cast(F32, F64, near)
        bits = self.emit(f"bitcast {self.type_of(F32)} {near} to {wide}")
        sizes = [self.call("fabs", F64, [v]) for v in (back, x)]
        above = self.emit(f"fcmp ogt {double} {sizes[0]}, {sizes[1]}")
        one = self.emit(f"zext {self.type_of(BOOL)} {above} to {wide}")
        below = self.emit(f"sub {wide} {bits}, {one}")
        inexact = self.emit(f"fcmp one {double} {back}, {x}")
        sticky = self.emit(f"zext {self.type_of(BOOL)} {inexact} to {wide}")
        odd = self.emit(f"or {wide} {below}, {sticky}")
        return self.emit(f"bitcast {wide} {odd} to {self.type_of(F32)}")


def _literal(dtype: np.dtype, bits: bytes) -> str:
    value = np.frombuffer(bits, dtype)[0]
    if dtype == BOOL:
        return "true" if value else "false"
    if dtype == F32:
        wide = np.float64(value)
        if np.isnan(value):
            return "0x7FF8000000000000"
        return f"0x{int(wide.view(np.uint64)):016X}"
    if dtype == F64:
        return f"0x{int(value.view(np.uint64)):016X}"
    if dtype == F16:
        return f"0xH{int(value.view(np.uint16)):04X}"
    if dtype == BF16:
        return str(int(value.view(np.int16)))
    return str(int(value))
