"""Scalar loops of a kernel as LLVM text, and reductions that go through them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.backends.llvm.text.render import Function
from weft.base.sizes import Size
from weft.kernel.kernel import Loop, Reduce
from weft.kernel.nodes import is_float


def scalar_loop(
    f: Function,
    s: Loop,
    low: str,
    high: str,
    write: Callable[[Function, list[Any]], None],
    step: int = 1,
) -> None:
    """A loop around what is written of its body; its carried reductions go through it."""
    outside = f.known
    starts = [(f.accumulator_type(symbol), f.start_of(symbol)) for symbol in s.carries]

    def body(index: str, so_far: list[str]) -> list[str]:
        f.carried.update(zip(s.carries, so_far, strict=False))
        f.axes[s.axis] = index
        if f.kernel.grid is not None and s.axis == f.kernel.grid[0] and f.kernel.axes:
            _unfold(f, index)
        f.known = dict(outside)
        write(f, s.body)
        return [f.accumulators[symbol] for symbol in s.carries]

    finals = carry(f, [f.reduces[n] for n in s.carries], low, high, starts, body, step)
    for symbol, final in zip(s.carries, finals, strict=True):
        f.accumulators[symbol] = final
        f.carried.pop(symbol, None)
    f.known = outside


def _unfold(f: Function, index: str) -> None:
    """The positions of the axes that the grid counts."""
    for i, (axis, extent) in reversed(list(enumerate(f.kernel.axes))):
        if i == 0:
            f.axes[axis] = index
        elif type(extent) is not Size and extent == 1:
            f.axes[axis] = "0"
        else:
            count = f.size(extent)
            f.axes[axis] = f.emit(f"urem i64 {index}, {count}")
            index = f.emit(f"udiv i64 {index}, {count}")


def carry(
    f: Function,
    reduces: list[Reduce],
    low: str,
    high: str,
    carried: list[tuple[str, str]],
    body: Callable[[str, list[str]], list[str]],
    step: int,
) -> list[str]:
    """What reductions are after a loop; one that is written out combines turns pairwise."""
    if not f.unrolled or not reduces:
        return f.carry(low, high, carried, body, step, once=False)
    found = [[start for _, start in carried]] if carried[0][1] else []

    def turn(index: str, _: list[str]) -> list[str]:
        found.append(body(index, []))
        return []

    f.carry(low, high, [], turn, step)
    columns = zip(*found, strict=True)
    return [_total(f, r, [*column]) for r, column in zip(reduces, columns, strict=True)]


def _total(f: Function, r: Reduce, values: list[str]) -> str:
    """All values combined, neighbours first."""
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        odd = values[-1:] if len(values) % 2 else []
        values = [combine(f, r.op, r.dtype, a, b) for a, b in pairs] + odd
    return values[0]


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
