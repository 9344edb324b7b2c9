"""Loops of a kernel as LLVM text: vectors over the innermost axis, then what is left over."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.backends.cpu.render import Function, memory_type, scalar_type
from weft.kernel.kernel import Kernel, Loop, Reduce, Store, statements
from weft.kernel.nodes import Value, is_float, walk


def render(kernel: Kernel, width: int) -> str:
    """The LLVM text of a kernel, with vectors of ``width`` lanes."""
    f = Function(kernel, width)
    f.reduces = {s.symbol: s for s in statements(kernel.body) if isinstance(s, Reduce)}
    for i, buffer in enumerate(kernel.buffers):
        if buffer.role == "row":
            f.line(f"%b{i} = alloca [{buffer.size} x {memory_type(buffer.dtype)}], align 64")
            continue
        f.line(f"%p{i} = getelementptr ptr, ptr %buffers, i64 {i}")
        f.line(f"%b{i} = load ptr, ptr %p{i}, align 8")
    if kernel.grid is None:
        block(f, kernel.body)
    else:
        loop(f, Loop(kernel.grid[0], kernel.grid[1], kernel.body), "%start", "%stop")
    f.line("ret void")
    head = [f"define void @{kernel.name}(ptr noalias %buffers, i64 %start, i64 %stop) #0 {{"]
    declarations = list(f.declared.values())
    return "\n".join([*declarations, *head, "entry:", *f.lines, "}", ""])


def block(f: Function, body: list[Any]) -> None:
    """Statements one after the other; a reduction here is a single value."""
    for s in body:
        if isinstance(s, Loop):
            loop(f, s, "0", str(s.extent))
        elif isinstance(s, Store):
            f.store(s)
        else:
            value, so_far = f.value(s.value), f.carried.get(s.symbol)
            if so_far is not None:
                value = combine(f, s.op, s.dtype, so_far, value)
            f.accumulators[s.symbol] = value


def loop(f: Function, s: Loop, low: str, high: str) -> None:
    if s.lanes:
        lanes_loop(f, s, low, high)
    elif f.in_lanes or any(isinstance(inner, Loop) for inner in s.body):
        outer_loop(f, s, low, high)
    else:
        inner_loop(f, s, low, high)


def lanes_loop(f: Function, s: Loop, low: str, high: str) -> None:
    """Iterations side by side, each running the loops inside; single ones for what is left."""
    f.in_lanes = True
    span = f.emit(f"sub i64 {high}, {low}")
    whole = f.emit(f"and i64 {span}, {-f.width}")
    middle = f.emit(f"add i64 {low}, {whole}")
    plain = s._replace(lanes=False, carries=())
    for lanes, first, last in ((f.width, low, middle), (1, middle, high)):
        f.lanes, f.vector_axis = lanes, s.axis
        outer_loop(f, plain, first, last, lanes)
    f.lanes, f.vector_axis, f.in_lanes = 1, None, False


def outer_loop(f: Function, s: Loop, low: str, high: str, step: int = 1) -> None:
    """A scalar loop around other loops; its carried reductions go through it."""
    outside = f.known
    f.count += 1
    tag = f"o{f.count}"
    starts = {symbol: f.start_of(symbol) for symbol in s.carries}
    f.line(f"br label %{tag}pre")
    f.label(f"{tag}pre")
    enter = f.emit(f"icmp slt i64 {low}, {high}")
    f.line(f"br i1 {enter}, label %{tag}head, label %{tag}exit")
    f.label(f"{tag}head")
    f.line(f"%{tag}i = phi i64 [ {low}, %{tag}pre ], [ %{tag}n, %{tag}latch ]")
    for symbol in s.carries:
        kind = f.accumulator_type(symbol)
        f.line(
            f"%{tag}a{symbol} = phi {kind} [ {starts[symbol]}, %{tag}pre ],"
            f" [ %{tag}u{symbol}, %{tag}latch ]"
        )
        f.carried[symbol] = f"%{tag}a{symbol}"
    f.axes[s.axis] = f"%{tag}i"
    f.known = dict(outside)
    block(f, s.body)
    f.line(f"br label %{tag}latch")
    f.label(f"{tag}latch")
    for symbol in s.carries:
        kind = f.accumulator_type(symbol)
        f.line(f"%{tag}u{symbol} = freeze {kind} {f.accumulators[symbol]}")
    f.line(f"%{tag}n = add i64 %{tag}i, {step}")
    again = f.emit(f"icmp slt i64 %{tag}n, {high}")
    f.line(f"br i1 {again}, label %{tag}head, label %{tag}exit")
    f.label(f"{tag}exit")
    for symbol in s.carries:
        kind = f.accumulator_type(symbol)
        f.accumulators[symbol] = f.emit(
            f"phi {kind} [ {starts[symbol]}, %{tag}pre ], [ %{tag}u{symbol}, %{tag}latch ]"
        )
        f.carried.pop(symbol, None)
    f.known = outside


def inner_loop(f: Function, s: Loop, low: str, high: str) -> None:
    """Vectors while a whole one fits, then single elements (or one overlapping vector)."""
    reduces = [r for r in s.body if isinstance(r, Reduce)]
    roots = [r.value for r in s.body]
    starts = {r.symbol: f.start_of(r.symbol) for r in reduces}
    if f.width > 1:
        span = f.emit(f"sub i64 {high}, {low}")
        whole = f.emit(f"and i64 {span}, {-f.width}")
        middle = f.emit(f"add i64 {low}, {whole}")
        starts = _run(f, s, roots, reduces, starts, low, middle, f.width)
        low = middle
    finals = _run(f, s, roots, reduces, starts, low, high, 1)
    f.accumulators.update(finals)


def _run(
    f: Function,
    s: Loop,
    roots: list[Value],
    reduces: list[Reduce],
    starts: dict[int, str],
    low: str,
    high: str,
    lanes: int,
) -> dict[int, str]:
    """One loop at one width; scalar accumulators in, scalar accumulators out."""
    outside, f.known = f.known, dict(f.known)
    f.lanes, f.vector_axis = lanes, s.axis
    _hoist(f, roots, s.axis)
    f.count += 1
    tag = f"l{f.count}"
    f.line(f"br label %{tag}pre")
    f.label(f"{tag}pre")
    initial = {
        r.symbol: f.constant(r.dtype, np.asarray(r.initial, r.dtype).tobytes()) for r in reduces
    }
    if lanes == 1:
        initial = dict(starts)
    enter = f.emit(f"icmp slt i64 {low}, {high}")
    f.line(f"br i1 {enter}, label %{tag}head, label %{tag}exit")
    f.label(f"{tag}head")
    f.line(f"%{tag}i = phi i64 [ {low}, %{tag}pre ], [ %{tag}n, %{tag}head ]")
    f.axes[s.axis] = f"%{tag}i"
    updates = {}
    for r in reduces:
        kind = f.type_of(r.dtype)
        f.line(
            f"%{tag}a{r.symbol} = phi {kind} [ {initial[r.symbol]}, %{tag}pre ],"
            f" [ %{tag}u{r.symbol}, %{tag}head ]"
        )
    for statement in s.body:
        if isinstance(statement, Store):
            f.store(statement)
        else:
            updates[statement.symbol] = f.value(statement.value)
    for r in reduces:
        combined = combine(f, r.op, r.dtype, f"%{tag}a{r.symbol}", updates[r.symbol])
        f.line(f"%{tag}u{r.symbol} = freeze {f.type_of(r.dtype)} {combined}")
    f.line(f"%{tag}n = add i64 %{tag}i, {lanes}")
    again = f.emit(f"icmp slt i64 %{tag}n, {high}")
    f.line(f"br i1 {again}, label %{tag}head, label %{tag}exit")
    f.label(f"{tag}exit")
    finals = {}
    for r in reduces:
        kind = f.type_of(r.dtype)
        merged = f.emit(
            f"phi {kind} [ {initial[r.symbol]}, %{tag}pre ], [ %{tag}u{r.symbol}, %{tag}head ]"
        )
        finals[r.symbol] = merged
    for r in reduces:
        if lanes > 1:
            finals[r.symbol] = _horizontal(f, r, finals[r.symbol], lanes, starts[r.symbol])
    f.lanes, f.vector_axis = 1, None
    f.known = outside
    return finals


def combine(f: Function, op: str, dtype: np.dtype, x: str, y: str) -> str:
    """Two partial results as one."""
    kind = f.type_of(dtype)
    if op in ("min", "max"):
        if is_float(dtype):
            return f.call("minimum" if op == "min" else "maximum", dtype, [x, y])
        sign = "u" if dtype.kind in "ub" else "s"
        return f.call(f"{sign}{op}", dtype, [x, y])
    prefix = "f" if is_float(dtype) and op in ("add", "mul") else ""
    return f.emit(f"{prefix}{op} {kind} {x}, {y}")


def _horizontal(f: Function, r: Reduce, vector: str, lanes: int, start: str) -> str:
    """The lanes of an accumulator combined by halves, then with the start value."""
    base = scalar_type(r.dtype)
    name, width = vector, lanes
    while width > 1:
        half = width // 2
        kind = f"<{width} x {base}>"
        low = ", ".join(f"i32 {i}" for i in range(half))
        high = ", ".join(f"i32 {i}" for i in range(half, width))
        a = f.emit(f"shufflevector {kind} {name}, {kind} poison, <{half} x i32> <{low}>")
        b = f.emit(f"shufflevector {kind} {name}, {kind} poison, <{half} x i32> <{high}>")
        f.lanes = half
        if half == 1:
            one = f"<1 x {base}>"
            a = f.emit(f"extractelement {one} {a}, i64 0")
            b = f.emit(f"extractelement {one} {b}, i64 0")
        name = combine(f, r.op, r.dtype, a, b)
        width = half
    f.lanes = 1
    return combine(f, r.op, r.dtype, start, name)


def _hoist(f: Function, roots: list[Value], axis: str) -> None:
    """Render what does not depend on the axis before the loop."""
    varying: set[int] = set()
    for v in walk(roots):
        if v.op == "index" and v.attr == axis:
            varying.add(v.number)
        elif v.op == "load" and v.attr[1].coefficient(axis):
            varying.add(v.number)
        elif any(a.number in varying for a in v.args):
            varying.add(v.number)
        else:
            f.single(v)
