"""Sums and extrema of sliding windows, and the selections that differentiate them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.backends.cuda.ptx import GpuModule
from weft.backends.cuda.routines import plane
from weft.backends.cuda.routines.base import (
    ROUTINES,
    Place,
    Routine,
    Run,
    ceil_div,
    given,
    made,
    module,
    scratch,
)
from weft.backends.cuda.routines.cumulative import identity, numbers_of
from weft.backends.cuda.routines.stubs import cumulative_stubs
from weft.backends.cuda.routines.stubs import window_stubs as stubs
from weft.backends.llvm.text.stub import known_to
from weft.base.functional import lru
from weft.kernel.program import Type, contiguous

_OPS = {
    "reduce_window_sum": cumulative_stubs.ADD,
    "reduce_window_max": cumulative_stubs.MAX,
    "reduce_window_min": cumulative_stubs.MIN,
}


@lru(128)
def _module(main: Any, numbers: tuple[int, ...], **names: Any) -> GpuModule:
    return module(main, known_to(main, names), numbers={"table": numbers} if numbers else None)


def _run(
    main: Any, count: int, places: tuple[Place, ...], numbers: tuple[int, ...], **names: Any
) -> Run:
    code = _module(main, numbers, COUNT=count, **names)
    return Run(code, ceil_div(count, 256 * names["VECTOR"]), 256, places)


def _table(shape: Any, out: Any, params: dict[str, Any]) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The numbers of windows, and what stubs are told of them."""
    rank = len(shape)
    ones = (1,) * rank
    base, window = params.get("base_dilation") or ones, params.get("window_dilation") or ones
    strides = contiguous(shape)
    rows: list[list[int]] = []
    for k in reversed(range(rank)):
        size, stride = params["window_dimensions"][k], params["window_strides"][k]
        low = params["padding"][k][0]
        row = [out[k], size, stride, low, base[k], window[k], shape[k], strides[k]]
        plain = (size, stride, low, base[k]) == (1, 1, 0, 1) and out[k] == shape[k]
        if plain and rows and rows[-1][1:6] == [1, 1, 0, 1, 1] and rows[-1][0] == rows[-1][6]:
            rows[-1][0] *= out[k]
            rows[-1][6] *= out[k]
            continue
        if plain:
            row[5] = 1
        rows.append(row)
    rows = rows or [[1] * 3 + [0] + [1] * 4]  # a scalar: one window of one element
    names = {"RANK": len(rows), "NUMBERS": 8, "WINDOW": prod(params["window_dimensions"])}
    names["DILATED"] = int(any(d > 1 for d in base))
    names["VECTOR"] = 1
    if rows and rows[0][1:6] == [1, 1, 0, 1, 1] and rows[0][0] == rows[0][6]:
        names["VECTOR"] = next(n for n in (8, 4, 2, 1) if rows[0][0] % n == 0)
    return tuple(n for row in rows for n in row), names


def lowering(name: str) -> Any:
    op = _OPS[name]

    def lower(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
        (x,), (out,) = ins, outs
        shape, result, dtype = x.shape, out.shape, x.dtype
        if dtype.kind == "c" and op == cumulative_stubs.ADD:
            dtype = np.dtype(f"f{dtype.itemsize // 2}")
            shape, result, params = (*shape, 2), (*result, 2), _with_parts(params)
        common = numbers_of(dtype)
        if common is None or dtype.kind == "c" or max(prod(shape), prod(result)) >= 1 << 31:
            return None
        told = {**common, "OP": op, "IDENTITY": identity(op, dtype)}
        found = plane.window(shape, result, params, told, dtype)
        if found is not None:
            return found
        table, names = _table(shape, result, params)
        names |= told
        places = (given(0), made(0))
        return Routine([_run(stubs.reduce_windows, prod(result), places, table, **names)])

    return lower


def _with_parts(params: dict[str, Any]) -> dict[str, Any]:
    """The numbers of windows with an axis more, for the parts of complex numbers."""
    more: dict[str, Any] = {}
    for name, value in params.items():
        more[name] = (*value, (0, 0) if name == "padding" else 1)
    return more


def _selection(
    x: Type, out: Any, params: dict[str, Any]
) -> tuple[tuple[int, ...], dict[str, Any]] | None:
    common = numbers_of(x.dtype)
    if common is None or x.dtype.kind == "c" or prod(x.shape) >= 1 << 31:
        return None
    least = params["select_prim"].name == "le"
    op = cumulative_stubs.MIN if least else cumulative_stubs.MAX
    table, names = _table(x.shape, out, params)
    return table, {**names, **common, "LEAST": int(least), "IDENTITY": identity(op, x.dtype)}


def select_and_gather_add(ins: Any, outs: Any, params: Any) -> Routine | None:
    found = _selection(ins[1], outs[0].shape, params)
    if found is None:
        return None
    table, names = found
    places = (given(0), given(1), made(0))
    return Routine([_run(stubs.gather_chosen, prod(outs[0].shape), places, table, **names)])


def select_and_scatter_add(ins: Any, outs: Any, params: Any) -> Routine | None:
    source, x = ins
    found = _selection(x, source.shape, params)
    if found is None:
        return None
    table, names = found
    count = prod(source.shape)
    keep = _run(stubs.keep_chosen, count, (given(1), scratch(0)), table, **names)
    strides = contiguous(source.shape)
    rows, around = [], 1
    for k in reversed(range(len(x.shape))):
        size, stride = params["window_dimensions"][k], params["window_strides"][k]
        near = ceil_div(size, stride)
        low = params["padding"][k][0]
        rows.append([x.shape[k], source.shape[k], stride, low, near, strides[k]])
        around *= near
    rows = rows or [[1, 1, 1, 0, 1, 1]]
    names |= {"RANK": len(rows), "WINDOW": around}
    numbers = tuple(n for row in rows for n in row)
    places = (given(0), scratch(0), made(0))
    add = _run(stubs.add_chosen, prod(x.shape), places, numbers, **names)
    return Routine([keep, add], (4 * count,))


for _name in _OPS:
    ROUTINES[_name] = lowering(_name)
ROUTINES |= {
    "select_and_gather_add": select_and_gather_add,
    "select_and_scatter_add": select_and_scatter_add,
}
