"""Kernels that go on with a block of another operation's result, while it is near.

The function made is ``void name(ptr buffers, ptr block, i64 pitch, i64 first, i64 rows, i64 stride,
i64 columns)``. A block is rows of neighbouring elements, ``pitch`` bytes apart; row r begins with
element ``first + r * stride`` of the result, counted in row-major order. ``buffers`` points at the
pointers of the kernel's buffers but the one that the block stands for.
"""

from __future__ import annotations

from weft.backends.cpu.code.loops import inner_loop
from weft.backends.llvm import code
from weft.backends.llvm.code import Module
from weft.backends.llvm.text.render import Function
from weft.kernel.kernel import Loop
from weft.kernel.program import Finish

NAME = "finish"
_PARAMETERS = (
    code.RANGE[0],
    *code.parameters("ptr", "block"),
    *code.parameters("i64", "pitch", "first", "rows", "stride", "columns"),
)


def finish_module(finish: Finish, columns: int, whole: bool = False) -> Module:
    """The module of a kernel for blocks, which are at most so many elements long.

    ``whole`` says that they are just so long, as are rows of the result in multiples.
    """
    kernel = finish.kernel
    axes = finish.axes
    f = Function(kernel, columns & -columns)
    if whole and axes[-1][1] % f.width == 0:
        f.exact = f.width
    place = 0
    for i in range(len(kernel.buffers)):
        if i != finish.buffer:
            f.line(f"%p{i} = getelementptr ptr, ptr %buffers, i64 {place}")
            f.line(f"%b{i} = load ptr, ptr %p{i}, align 8")
            place += 1
    *outer, (last, extent) = axes
    inner = Loop(last, min(extent, columns), finish.body)

    def row(number: str, _: list[str]) -> list[str]:
        begin = f.emit(f"add i64 %first, {f.emit(f'mul i64 {number}, %stride')}")
        start = f.emit(f"getelementptr i8, ptr %block, i64 {f.emit(f'mul i64 {number}, %pitch')}")
        f.line(f"%back = mul i64 {begin}, {-finish.size}")
        f.line(f"%b{finish.buffer} = getelementptr i8, ptr {start}, i64 %back")
        stop = f.emit(f"add i64 {begin}, %columns")
        if not outer:
            inner_loop(f, inner, begin, stop)
            return []

        def part(at: str, _: list[str]) -> list[str]:
            """A row of the block may go on in the next row of what the kernel runs over."""
            index = f.emit(f"udiv i64 {at}, {extent}")
            low = f.emit(f"urem i64 {at}, {extent}")
            high = f.scalar_min(f.emit(f"add i64 {low}, {f.emit(f'sub i64 {stop}, {at}')}"), extent)
            for i, (axis, count) in reversed(list(enumerate(outer))):
                f.axes[axis] = f.emit(f"urem i64 {index}, {count}") if i else index
                index = f.emit(f"udiv i64 {index}, {count}") if i else index
            inner_loop(f, inner, low, high)
            f.line(f"%part = sub i64 {high}, {low}")
            return []

        f.carry(begin, stop, [], part, "%part", once=False)
        return []

    f.carry("0", "%rows", [], row, once=False)
    f.line("ret void")
    lines = ("entry:", *f.spilled_head(), *f.lines)
    return Module([code.Function(NAME, _PARAMETERS, lines, attributes=("#0",))], f.declared)
