"""Kernels that go on with a block of another operation's result, while it is near.

The function made is ``void name(ptr buffers, ptr block, i64 pitch, i64 first, i64 rows, i64 stride,
i64 columns)``. A block is rows of neighbouring elements, ``pitch`` bytes apart; row r begins with
element ``first + r * stride`` of the result, counted in row-major order. ``buffers`` points at the
pointers of the kernel's buffers but the one that the block stands for.
"""

from __future__ import annotations

from weft.backends.cpu.loops import inner_loop
from weft.backends.cpu.render import Function
from weft.kernel.kernel import Loop
from weft.kernel.program import Finish

NAME = "finish"
_PARAMETERS = (
    "ptr noalias %buffers, ptr %block, i64 %pitch, i64 %first, i64 %rows, i64 %stride, i64 %columns"
)


def finish_text(finish: Finish, columns: int) -> str:
    """The LLVM text of a kernel for blocks; ``columns`` is what their length is a multiple of."""
    kernel = finish.kernel
    axes = finish.axes
    f = Function(kernel, columns & -columns)
    place = 0
    for i in range(len(kernel.buffers)):
        if i != finish.buffer:
            f.line(f"%p{i} = getelementptr ptr, ptr %buffers, i64 {place}")
            f.line(f"%b{i} = load ptr, ptr %p{i}, align 8")
            place += 1
    _open(f, "row", "0", "%rows")
    begin = f.emit(f"add i64 %first, {f.emit('mul i64 %row, %stride')}")
    row = f.emit(f"getelementptr i8, ptr %block, i64 {f.emit('mul i64 %row, %pitch')}")
    f.line(f"%back = mul i64 {begin}, {-finish.size}")
    f.line(f"%b{finish.buffer} = getelementptr i8, ptr {row}, i64 %back")
    *outer, (last, extent) = axes
    inner = Loop(last, min(extent, columns), finish.body)
    if not outer:
        f.axes[last] = begin
        inner_loop(f, inner, begin, f.emit(f"add i64 {begin}, %columns"))
    else:
        # a row of the block may go on in the next row of what the kernel runs over
        stop = f.emit(f"add i64 {begin}, %columns")
        _open(f, "at", begin, stop)
        index = f.emit(f"udiv i64 %at, {extent}")
        low = f.emit(f"urem i64 %at, {extent}")
        left = f.emit(f"sub i64 {stop}, %at")
        high = f.emit(f"add i64 {low}, {left}")
        less = f.emit(f"icmp slt i64 {high}, {extent}")
        high = f.emit(f"select i1 {less}, i64 {high}, i64 {extent}")
        for i, (axis, count) in reversed(list(enumerate(outer))):
            f.axes[axis] = f.emit(f"urem i64 {index}, {count}") if i else index
            index = f.emit(f"udiv i64 {index}, {count}") if i else index
        inner_loop(f, inner, low, high)
        _close(f, "at", stop, f.emit(f"sub i64 {high}, {low}"))
    _close(f, "row", "%rows", "1")
    f.line("ret void")
    head = f"define void @{NAME}({_PARAMETERS}) #0 {{"
    return "\n".join([*f.declared.values(), head, "entry:", *f.lines, "}", ""])


def _open(f: Function, name: str, low: str, high: str) -> None:
    """Begin a loop whose counter is ``%name``."""
    f.line(f"br label %{name}.before")
    f.label(f"{name}.before")
    some = f.emit(f"icmp slt i64 {low}, {high}")
    f.line(f"br i1 {some}, label %{name}.body, label %{name}.done")
    f.label(f"{name}.body")
    f.line(f"%{name} = phi i64 [ {low}, %{name}.before ], [ %{name}.next, %{name}.latch ]")


def _close(f: Function, name: str, high: str, step: str) -> None:
    f.line(f"br label %{name}.latch")
    f.label(f"{name}.latch")
    f.line(f"%{name}.next = add i64 %{name}, {step}")
    f.line(f"%{name}.more = icmp slt i64 %{name}.next, {high}")
    f.line(f"br i1 %{name}.more, label %{name}.body, label %{name}.done")
    f.label(f"{name}.done")
