"""Kernels as C functions: loops are loops, and each scalar value is a variable of its block."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

import numpy as np

from weft.kernel.kernel import (
    Affine,
    Atomic,
    Barrier,
    Kernel,
    Loop,
    Reduce,
    Serial,
    Store,
    statements,
)
from weft.kernel.nodes import BF16, BOOL, F16, F32, F64, NARROW, Value, is_float, walk

_ALONE = (Loop, Serial, Barrier)
_INFIX = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "shl": "<<"}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
# Functions of C's mathematical library.
_FUNCTIONS = {
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "rint": "rint",
    "trunc": "trunc",
    "abs": "fabs",
    "copysign": "copysign",
    "rem": "fmod",
    "fma": "fma",
}


def memory_kind(dtype: np.dtype) -> str:
    """The C type of an element in memory."""
    if dtype == BOOL:
        return "u8"
    return "u16" if dtype in NARROW else _name(dtype)


def value_kind(dtype: np.dtype) -> str:
    """The C type of a value; narrow floats are computed in float32."""
    if dtype == BOOL:
        return "int"
    return "f32" if dtype in NARROW else _name(dtype)


def _name(dtype: np.dtype) -> str:
    return f"{dtype.kind}{8 * dtype.itemsize}"


def _wide(dtype: np.dtype) -> str:
    """The unsigned type in which arithmetic of a type wraps."""
    return "u64" if dtype.itemsize == 8 else "u32"


def literal(dtype: np.dtype, number: Any) -> str:
    """A constant; a NaN keeps nothing but that."""
    if dtype == BOOL:
        return str(int(number))
    if dtype.kind in "iu":
        whole = int(number)
        if whole == -(1 << 63):
            return "INT64_MIN"
        suffix = ("U" if dtype.kind == "u" else "") + ("LL" if dtype.itemsize == 8 else "")
        return f"(({_name(dtype)}){whole}{suffix})"
    exact = float(number)
    if exact != exact:
        return f"(({value_kind(dtype)})NAN)"
    if exact in (float("inf"), float("-inf")):
        return f"(({value_kind(dtype)}){'-' if exact < 0 else ''}INFINITY)"
    return f"({exact.hex()}{'' if dtype == F64 else 'f'})"


def kernel_text(kernel: Kernel, name: str, used: set[str]) -> str:
    """A C function of a kernel's buffers; adds the helpers that it calls to ``used``."""
    return _Writer(kernel, used).function(name)


class _Writer:
    """One kernel while it is written."""

    def __init__(self, kernel: Kernel, used: set[str]) -> None:
        self.kernel, self.used = kernel, used
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[int, str] = {}  # values of the block at hand, by number
        self.count = 0
        self.carried: set[int] = set()  # reductions that go on in a loop further out
        self.reductions = {s.symbol: s for s in statements(kernel.body) if isinstance(s, Reduce)}

    def function(self, name: str) -> str:
        parameters = []
        for i, b in enumerate(self.kernel.buffers):
            const = "const " if b.role == "in" else ""
            parameters.append(f"{const}{memory_kind(b.dtype)} *b{i}")
        self._grid()
        head = f"static void {name}({', '.join(parameters) or 'void'}) {{"
        text = "\n".join(self.lines)
        for i in range(len(parameters)):
            if not re.search(rf"\bb{i}\b", text):
                head += f"\n    (void)b{i};"
        return "\n".join([head, *self.lines, "}", ""])

    def _grid(self) -> None:
        kernel = self.kernel
        if kernel.grid is None:
            self._body(kernel.body)
            return
        axes = kernel.grid_axes
        for axis, extent in axes:
            self._open(f"for (i64 {axis} = 0; {axis} < {extent}; {axis}++)")
        self._body(kernel.body)
        for _ in axes:
            self._close()

    # --- lines ------------------------------------------------------------------------------------

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def _open(self, head: str) -> None:
        self._line(head + " {")
        self.depth += 1

    def _close(self) -> None:
        self.depth -= 1
        self._line("}")

    def _call(self, helper: str, *args: str) -> str:
        self.used.add(helper)
        return f"{helper}({', '.join(args)})"

    # --- statements -------------------------------------------------------------------------------

    def _body(self, body: list[Any]) -> None:
        """Statements one after the other; those without loops read before they write."""
        for s in body:
            if isinstance(s, Reduce):  # of this very block: complete when the block is over
                self._declare(s)
        for alone, group in groupby(body, lambda s: isinstance(s, _ALONE)):
            run = list(group)
            if not alone:
                self._run(run)
                continue
            for s in run:
                if isinstance(s, Loop):
                    self._loop(s)
                elif isinstance(s, Serial):
                    self._serial(s)

    def _declare(self, s: Reduce) -> None:
        if s.symbol not in self.carried:
            self.carried.add(s.symbol)
            start = literal(s.dtype, np.asarray(s.initial, s.dtype))
            self._line(f"{value_kind(s.dtype)} s{s.symbol} = {start};")

    def _loop(self, s: Loop) -> None:
        before = set(self.carried)
        inside = [x for x in s.body if isinstance(x, Reduce)]
        for symbol in s.carries:
            self._declare(self.reductions[symbol])
        for reduce in inside:
            self._declare(reduce)
        test = f"{s.axis} < {s.extent}"
        if s.whole is not None:
            piece, total = s.whole
            test += f" && {piece} * {s.extent} + {s.axis} < {total}"
        self._open(f"for (i64 {s.axis} = 0; {test}; {s.axis}++)")
        self._body(s.body)
        self._close()
        self.carried = before

    def _serial(self, s: Serial) -> None:
        self.names = {}
        for c in s.carried:
            start = self._value(c.initial)
            self._line(f"{value_kind(c.initial.dtype)} s{c.symbol} = {start};")
        if s.axis is not None:
            self._open(f"for (i64 {s.axis} = 0; {s.axis} < {s.extent}; {s.axis}++)")
        else:
            assert s.condition is not None
            self._open("for (;;)")
            self.names = {}
            self._line(f"if (!({self._value(s.condition)})) break;")
        self._body(s.body)
        self.names = {}
        after = [self._value(c.after) for c in s.carried]
        held = []
        for c, value in zip(s.carried, after, strict=True):
            self.count += 1
            held.append(f"n{self.count}")
            self._line(f"{value_kind(c.after.dtype)} {held[-1]} = {value};")
        for c, name in zip(s.carried, held, strict=True):
            self._line(f"s{c.symbol} = {name};")
        self._close()
        self.names = {}

    def _run(self, run: list[Any]) -> None:
        self.names = {}
        for s in run:
            for v in s.operands:
                self._value(v)
        for s in run:
            if isinstance(s, Reduce):
                symbol = f"s{s.symbol}"
                made = self._combined(s.op, s.dtype, symbol, self._cast(s.value, s.dtype))
                self._line(f"{symbol} = {made};")
            elif isinstance(s, Atomic):
                self._atomic(s)
            else:
                assert isinstance(s, Store)
                dtype = self.kernel.buffers[s.buffer].dtype
                value = self._cast(s.value, dtype)
                self._line(f"{self._place(s.buffer, s.at, s.offset)} = {self._kept(dtype, value)};")
        self.names = {}

    def _atomic(self, s: Atomic) -> None:
        dtype = self.kernel.buffers[s.buffer].dtype
        place = self._place(s.buffer, s.at, s.offset)
        made = self._combined(s.op, dtype, self._read(dtype, place), self._value(s.value))
        test = "" if s.mask is None else f"if ({self._value(s.mask)}) "
        self._line(f"{test}{place} = {self._kept(dtype, made)};")

    def _combined(self, op: str, dtype: np.dtype, x: str, y: str) -> str:
        return self._operation(op, dtype, dtype, [x, y])

    # --- memory -----------------------------------------------------------------------------------

    def _index(self, at: Affine) -> str:
        terms = [axis if factor == 1 else f"{factor} * {axis}" for axis, factor in at.terms]
        if at.const or not terms:
            terms.append(str(at.const))
        return " + ".join(terms)

    def _place(self, buffer: int, at: Affine, offset: Value | None) -> str:
        index = self._index(at)
        if offset is not None:
            index += f" + (i64){self._value(offset)}"
        return f"b{buffer}[{index}]"

    def _read(self, dtype: np.dtype, place: str) -> str:
        if dtype == BF16:
            return self._call("from_bf16", place)
        return self._call("from_f16", place) if dtype == F16 else place

    def _kept(self, dtype: np.dtype, value: str) -> str:
        if dtype == BF16:
            return self._call("to_bf16", value)
        return self._call("to_f16", value) if dtype == F16 else value

    # --- values -----------------------------------------------------------------------------------

    def _value(self, root: Value) -> str:
        for v in walk([root]):
            if v.number in self.names:
                continue
            text = self._rendered(v, [self.names[a.number] for a in v.args])
            if v.op in ("const", "index", "acc"):
                self.names[v.number] = text
                continue
            self.count += 1
            name = f"v{self.count}"
            self._line(f"const {value_kind(v.dtype)} {name} = {text};")
            self.names[v.number] = name
        return self.names[root.number]

    def _cast(self, value: Value, dtype: np.dtype) -> str:
        text = self._value(value)
        return text if value.dtype == dtype else self._converted(value.dtype, dtype, text)

    def _rendered(self, v: Value, args: list[str]) -> str:
        op, dtype = v.op, v.dtype
        if op == "const":
            return literal(dtype, np.frombuffer(v.attr, dtype)[0])
        if op == "index":
            return v.attr if dtype.itemsize == 8 else f"(({_name(dtype)}){v.attr})"
        if op == "acc":
            return f"s{v.attr}"
        if op == "load":
            index = self._index(v.attr[1])
            if args:
                index += f" + (i64){args[0]}"
            memory = self.kernel.buffers[v.attr[0]].dtype
            return self._read(memory, f"b{v.attr[0]}[{index}]")
        if op == "select":
            return f"{args[0]} ? {args[1]} : {args[2]}"
        if op == "cast":
            return self._converted(v.args[0].dtype, dtype, args[0])
        if op == "bitcast":
            return self._bitcast(v.args[0].dtype, dtype, args[0])
        if op == "isnan":
            return f"{args[0]} != {args[0]}"
        return self._operation(op, v.args[0].dtype, dtype, args)

    def _operation(self, op: str, operand: np.dtype, dtype: np.dtype, args: list[str]) -> str:
        if op in _COMPARE:
            return f"{args[0]} {_COMPARE[op]} {args[1]}"
        if is_float(dtype):
            text = self._of_floats(op, dtype, args)
            return self._call("round_f16", text) if dtype == F16 else text
        if dtype == BOOL:
            return self._of_truths(op, args)
        return self._of_integers(op, dtype, args)

    def _of_floats(self, op: str, dtype: np.dtype, args: list[str]) -> str:
        if op in _FUNCTIONS:
            name = _FUNCTIONS[op] + ("" if dtype == F64 else "f")
            return f"{name}({', '.join(args)})"
        if op == "neg":
            return f"-{args[0]}"
        if op in ("min", "max"):
            return self._call(f"{op}_{'f64' if dtype == F64 else 'f32'}", *args)
        return f"{args[0]} {'/' if op == 'div' else _INFIX[op]} {args[1]}"

    def _of_truths(self, op: str, args: list[str]) -> str:
        if op == "not":
            return f"!{args[0]}"
        sign = {"min": "&", "mul": "&", "max": "|", "add": "^", "sub": "^"}.get(op) or _INFIX[op]
        return f"{args[0]} {sign} {args[1]}"

    def _of_integers(self, op: str, dtype: np.dtype, args: list[str]) -> str:
        kind, bits, wide = _name(dtype), 8 * dtype.itemsize, _wide(dtype)
        if op in ("div", "rem"):
            return f"({kind})({args[0]} {'/' if op == 'div' else '%'} {args[1]})"
        if op in ("add", "sub", "mul", "and", "or", "xor"):
            return f"({kind})(({wide}){args[0]} {_INFIX[op]} ({wide}){args[1]})"
        if op == "shl":
            return f"({kind})(({wide}){args[0]} << {args[1]})"
        if op in ("lshr", "ashr"):
            return f"({kind})(({'u' if op == 'lshr' else 'i'}{bits}){args[0]} >> {args[1]})"
        if op in ("min", "max"):
            return f"{args[0]} {'<' if op == 'min' else '>'} {args[1]} ? {args[0]} : {args[1]}"
        if op == "neg":
            return f"({kind})(0 - ({wide}){args[0]})"
        if op == "abs":
            return f"{args[0]} < 0 ? ({kind})(0 - ({wide}){args[0]}) : {args[0]}"
        if op == "not":
            return f"({kind})~{args[0]}"
        if op == "popcount":
            return f"({kind}){self._call('popcount', f'(u{bits}){args[0]}')}"
        if op == "clz":
            return f"({kind}){self._call('clz', f'(u{bits}){args[0]}', str(bits))}"
        if op == "mulhi" and bits == 64:
            return self._call(f"mulhi_{kind}", *args)
        if op == "mulhi":
            twice = f"{dtype.kind}64"
            return f"({kind})((u64)(({twice}){args[0]} * ({twice}){args[1]}) >> {bits})"
        raise TypeError(f"cannot write {op} of {dtype} in C")

    def _converted(self, have: np.dtype, want: np.dtype, x: str) -> str:
        if have == want:
            return x
        if want == BOOL:
            return f"{x} != 0"
        if is_float(have):
            if not is_float(want):
                source = "f64" if have == F64 else "f32"
                return self._call(f"to_{_name(want)}_{source}", x)
            if want == F16:
                return self._call("round_f16", self._call("odd_f32", x) if have == F64 else x)
            if want == BF16:
                rounded = x if have != F64 else f"(f32){x}"
                return self._call("from_bf16", self._call("to_bf16", rounded))
            return f"({value_kind(want)}){x}"
        if want in NARROW:
            return self._converted(F32, want, f"(f32){x}")
        return f"({value_kind(want)}){x}"

    def _bitcast(self, have: np.dtype, want: np.dtype, x: str) -> str:
        if have == want:
            return x
        if have in NARROW:
            return f"({_name(want)}){self._kept(have, x)}"
        if want in NARROW:
            return self._read(want, f"(u16){x}")
        if is_float(have) or is_float(want):
            return self._call(f"bits_{value_kind(have)}_{value_kind(want)}", x)
        return f"({value_kind(want)}){x}"
