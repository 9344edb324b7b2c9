"""Kernels as LLVM text: explicit vectors over one axis, scalars for what is left over.

The function made is ``void name(ptr buffers, i64 start, i64 stop)``: ``buffers`` is an array of
pointers, and the grid axis runs from ``start`` to ``stop``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.kernel.kernel import Affine, Kernel, Reduce, Store
from weft.kernel.nodes import BF16, BOOL, F16, F32, F64, I32, Value, is_float, walk

_I16 = np.dtype(np.int16)
_INT = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}
_NAMES = {BOOL: "i1", F32: "float", F64: "double", F16: "half", BF16: "bfloat"}
_BINARY_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "rem": "frem"}
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
_FLOAT_COMPARE = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_SIGNED = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_UNSIGNED = {"eq": "eq", "ne": "ne", "lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge"}
_INTRINSIC = {
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "rint": "roundeven",
    "trunc": "trunc",
}


def scalar_type(dtype: np.dtype) -> str:
    """The LLVM type of a value in registers; booleans are one bit."""
    return _NAMES.get(dtype) or _INT[dtype.itemsize]


def memory_type(dtype: np.dtype) -> str:
    """The LLVM type of a value in memory; booleans are one byte."""
    return "i8" if dtype == BOOL else scalar_type(dtype)


class Function:
    """The text of one kernel while it is written."""

    def __init__(self, kernel: Kernel, width: int) -> None:
        self.kernel = kernel
        self.width = width
        self.lines: list[str] = []
        self.declared: dict[str, str] = {}
        self.count = 0
        self.axes: dict[str, str] = {}
        self.vector_axis: str | None = None
        self.lanes = 1
        self.accumulators: dict[int, str] = {}
        self.known: dict[Any, str] = {}
        self.reduces: dict[int, Reduce] = {}
        self.carried: dict[int, str] = {}
        self.in_lanes = False

    # --- text -------------------------------------------------------------------------------------

    def fresh(self, stem: str = "v") -> str:
        self.count += 1
        return f"%{stem}{self.count}"

    def emit(self, text: str) -> str:
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def type_of(self, dtype: np.dtype) -> str:
        base = scalar_type(dtype)
        return base if self.lanes == 1 else f"<{self.lanes} x {base}>"

    def suffix(self, dtype: np.dtype) -> str:
        base = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16"}.get(
            scalar_type(dtype), scalar_type(dtype)
        )
        return base if self.lanes == 1 else f"v{self.lanes}{base}"

    def call(self, intrinsic: str, dtype: np.dtype, args: list[str], extra: str = "") -> str:
        name = f"@llvm.{intrinsic}.{self.suffix(dtype)}"
        kind = self.type_of(dtype)
        parameters = ", ".join([kind] * len(args)) + (", i1" if extra else "")
        self.declared[name] = f"declare {kind} {name}({parameters})"
        given = ", ".join(f"{kind} {a}" for a in args) + (f", {extra}" if extra else "")
        return self.emit(f"call {kind} {name}({given})")

    # --- leaves -----------------------------------------------------------------------------------

    def constant(self, dtype: np.dtype, bits: bytes) -> str:
        text = _literal(dtype, bits)
        return text if self.lanes == 1 else f"splat ({scalar_type(dtype)} {text})"

    def constant_scalar(self, dtype: np.dtype, number: Any) -> str:
        return _literal(dtype, np.asarray(number, dtype).tobytes())

    def start_of(self, symbol: int) -> str:
        """What a reduction starts from: its value so far, or its initial one."""
        reduce = self.reduces[symbol]
        found = self.carried.get(symbol)
        if found is not None:
            return found
        if self.in_lanes:
            return self.constant(reduce.dtype, np.asarray(reduce.initial, reduce.dtype).tobytes())
        return self.constant_scalar(reduce.dtype, reduce.initial)

    def accumulator_type(self, symbol: int) -> str:
        dtype = self.reduces[symbol].dtype
        return self.type_of(dtype) if self.in_lanes else scalar_type(dtype)

    def splat(self, dtype: np.dtype, name: str) -> str:
        if self.lanes == 1:
            return name
        kind, base = self.type_of(dtype), scalar_type(dtype)
        first = self.emit(f"insertelement {kind} poison, {base} {name}, i64 0")
        mask = f"<{self.lanes} x i32> zeroinitializer"
        return self.emit(f"shufflevector {kind} {first}, {kind} poison, {mask}")

    def offset(self, index: Affine, skip: str | None = None) -> str:
        """The element offset of an index, as an i64; the vector axis may be left out."""
        key = ("offset", index, skip)
        found = self.known.get(key)
        if found is not None:
            return found
        total = str(index.const)
        for axis, factor in index.terms:
            if axis == skip:
                continue
            term = self.axes[axis]
            if factor != 1:
                term = self.emit(f"mul i64 {term}, {factor}")
            total = term if total == "0" else self.emit(f"add i64 {total}, {term}")
        self.known[key] = total
        return total

    def address(self, buffer: int, offset: str) -> str:
        kind = memory_type(self.kernel.buffers[buffer].dtype)
        return self.emit(f"getelementptr {kind}, ptr %b{buffer}, i64 {offset}")

    def load(self, value: Value) -> str:
        buffer, index = value.attr
        dtype = value.dtype
        stride = index.coefficient(self.vector_axis) if self.lanes > 1 else 0
        base = self.address(buffer, self.offset(index))
        kind = memory_type(dtype)
        if self.lanes == 1 or stride == 0:
            name = self.emit(f"load {kind}, ptr {base}, align {dtype.itemsize}")
            if dtype == BOOL:
                name = self.emit(f"trunc i8 {name} to i1")
            return self.splat(dtype, name)
        vector = f"<{self.lanes} x {kind}>"
        if stride == 1:
            name = self.emit(f"load {vector}, ptr {base}, align {dtype.itemsize}")
        elif stride == -1:
            low = self.emit(f"getelementptr {kind}, ptr {base}, i64 {1 - self.lanes}")
            name = self.emit(f"load {vector}, ptr {low}, align {dtype.itemsize}")
            order = ", ".join(f"i32 {i}" for i in reversed(range(self.lanes)))
            name = self.emit(
                f"shufflevector {vector} {name}, {vector} poison, <{self.lanes} x i32> <{order}>"
            )
        else:
            name = "poison"
            for i in range(self.lanes):
                at = self.emit(f"getelementptr {kind}, ptr {base}, i64 {i * stride}")
                one = self.emit(f"load {kind}, ptr {at}, align {dtype.itemsize}")
                name = self.emit(f"insertelement {vector} {name}, {kind} {one}, i64 {i}")
        if dtype == BOOL:
            name = self.emit(f"trunc {vector} {name} to {self.type_of(dtype)}")
        return name

    def position(self, axis: str) -> str:
        name = self.splat(np.dtype(np.int64), self.axes[axis])
        if self.lanes > 1 and axis == self.vector_axis:
            steps = ", ".join(f"i64 {i}" for i in range(self.lanes))
            name = self.emit(f"add <{self.lanes} x i64> {name}, <{steps}>")
        return name

    # --- values -----------------------------------------------------------------------------------

    def value(self, root: Value) -> str:
        """Text for a value and all it depends on; each operation once a block."""
        for v in walk([root]):
            self.single(v)
        return self.known[root.number, self.lanes]

    def single(self, v: Value) -> None:
        """Text for a value whose operands have theirs."""
        key = (v.number, self.lanes)
        if key not in self.known:
            self.known[key] = self.render(v, [self.known[a.number, self.lanes] for a in v.args])

    def render(self, v: Value, args: list[str]) -> str:
        op, dtype = v.op, v.dtype
        if op == "const":
            return self.constant(dtype, v.attr)
        if op == "load":
            return self.load(v)
        if op == "index":
            return self.position(v.attr)
        if op == "acc":
            found = self.accumulators[v.attr]
            return found if self.in_lanes else self.splat(dtype, found)
        kind = self.type_of(v.args[0].dtype if op in _SIGNED else dtype)
        if op in _SIGNED:
            return self.comparison(v, kind, args)
        if op == "select":
            condition = self.type_of(BOOL)
            return self.emit(f"select {condition} {args[0]}, {kind} {args[1]}, {kind} {args[2]}")
        if op == "cast":
            return self.cast(v.args[0].dtype, dtype, args[0])
        if op == "bitcast":
            return self.emit(f"bitcast {self.type_of(v.args[0].dtype)} {args[0]} to {kind}")
        if is_float(dtype) or (op == "isnan"):
            return self.float_operation(v, args)
        return self.integer_operation(op, dtype, kind, args)

    def comparison(self, v: Value, kind: str, args: list[str]) -> str:
        operand = v.args[0].dtype
        if is_float(operand):
            return self.emit(f"fcmp {_FLOAT_COMPARE[v.op]} {kind} {args[0]}, {args[1]}")
        table = _UNSIGNED if operand.kind in "ub" else _SIGNED
        return self.emit(f"icmp {table[v.op]} {kind} {args[0]}, {args[1]}")

    def float_operation(self, v: Value, args: list[str]) -> str:
        op, dtype = v.op, v.dtype
        if op == "isnan":
            kind = self.type_of(v.args[0].dtype)
            return self.emit(f"fcmp uno {kind} {args[0]}, {args[0]}")
        kind = self.type_of(dtype)
        if op in _BINARY_FLOAT:
            return self.emit(f"{_BINARY_FLOAT[op]} {kind} {args[0]}, {args[1]}")
        if op == "neg":
            return self.emit(f"fneg {kind} {args[0]}")
        if op in ("abs", "copysign"):
            return self.call("fabs" if op == "abs" else op, dtype, args)
        if op in _INTRINSIC:
            return self.call(_INTRINSIC[op], dtype, args)
        if op == "fma":
            return self.call("fma", dtype, args)
        if op in ("min", "max"):
            return self.call("minimum" if op == "min" else "maximum", dtype, args)
        raise TypeError(f"cannot render {op} of {dtype}")

    def integer_operation(self, op: str, dtype: np.dtype, kind: str, args: list[str]) -> str:
        unsigned = dtype.kind == "u" or dtype == BOOL
        if op in _BINARY_INT:
            return self.emit(f"{_BINARY_INT[op]} {kind} {args[0]}, {args[1]}")
        if op in ("div", "rem"):
            return self.emit(f"{'u' if unsigned else 's'}{op} {kind} {args[0]}, {args[1]}")
        if op in ("min", "max"):
            return self.call(f"{'u' if unsigned else 's'}{op}", dtype, args)
        if op == "neg":
            return self.emit(f"sub {kind} {self.constant(dtype, bytes(dtype.itemsize))}, {args[0]}")
        if op == "abs":
            return self.call("abs", dtype, args, "i1 false")
        if op == "not":
            ones = np.full((), -1, f"i{dtype.itemsize}").tobytes() if dtype != BOOL else b"\x01"
            return self.emit(f"xor {kind} {args[0]}, {self.constant(dtype, ones)}")
        if op == "popcount":
            return self.call("ctpop", dtype, args)
        if op == "clz":
            return self.call("ctlz", dtype, args, "i1 false")
        raise TypeError(f"cannot render {op} of {dtype}")

    def cast(self, have: np.dtype, want: np.dtype, x: str) -> str:
        source, target = self.type_of(have), self.type_of(want)
        if want == BOOL:
            zero = self.constant(have, bytes(have.itemsize))
            test = "fcmp une" if is_float(have) else "icmp ne"
            return self.emit(f"{test} {source} {x}, {zero}")
        if is_float(have):
            if is_float(want):
                return self.float_cast(have, want, x)
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

    def whole(self, number: int, dtype: np.dtype = I32) -> str:
        """An integer constant for every lane."""
        return self.constant(dtype, np.asarray(number, dtype).tobytes())

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

    # --- statements -------------------------------------------------------------------------------

    def store(self, s: Store) -> None:
        dtype = self.kernel.buffers[s.buffer].dtype
        name = self.value(s.value)
        stride = s.at.coefficient(self.vector_axis) if self.lanes > 1 else 1
        base = self.address(s.buffer, self.offset(s.at))
        kind = memory_type(dtype)
        if dtype == BOOL:
            wide = kind if self.lanes == 1 else f"<{self.lanes} x {kind}>"
            name = self.emit(f"zext {self.type_of(dtype)} {name} to {wide}")
        if self.lanes == 1:
            self.line(f"store {kind} {name}, ptr {base}, align {dtype.itemsize}")
            return
        vector = f"<{self.lanes} x {kind}>"
        if stride == 1:
            self.line(f"store {vector} {name}, ptr {base}, align {dtype.itemsize}")
            return
        for i in range(self.lanes):
            one = self.emit(f"extractelement {vector} {name}, i64 {i}")
            at = self.emit(f"getelementptr {kind}, ptr {base}, i64 {i * stride}")
            self.line(f"store {kind} {one}, ptr {at}, align {dtype.itemsize}")


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
        return f"0xR{int(value.view(np.uint16)):04X}"
    return str(int(value))
