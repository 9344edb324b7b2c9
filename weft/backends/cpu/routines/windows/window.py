"""Reductions over sliding windows, and the selections that differentiate their extrema, as native
tasks. Every result is computed by one thread, in the order of its window."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.routines.convolutions.lines import lines
from weft.backends.cpu.routines.registry import LOWERINGS
from weft.backends.cpu.routines.windows.window_text import (
    MAX_SCALAR_ELEMENTS,
    Chosen,
    Fold,
    Numbers,
    Rule,
    Select,
    Slide,
    Windows,
)
from weft.backends.llvm.native.processor import vector_bits
from weft.kernel.nodes import BF16, BOOL, F16, F32, I32
from weft.kernel.program import Lowered, Place, Task, Type, contiguous

# Elements that one piece of work should at least read.
CHUNK = 1 << 14
# Elements of windows from which on sums may be done one axis after another, to other last bits.
MIN_SEPARABLE_ELEMENTS = 36
# What windows are along an axis that they do not move along.
_PLAIN: dict[str, Any] = {
    "window_dimensions": 1,
    "window_strides": 1,
    "padding": (0, 0),
    "base_dilation": 1,
    "window_dilation": 1,
}


def _working(dtype: np.dtype) -> np.dtype | None:
    """What a dtype is computed in, or None where the reference does it."""
    if dtype in (BF16, F16):
        return F32
    return dtype if dtype.kind in "fiu" and dtype.itemsize <= 8 else None


def _end(dtype: np.dtype, kind: str) -> bytes:
    """The bits of the value that no other of a dtype is beyond."""
    if dtype.kind == "f":
        value: Any = -np.inf if kind == "max" else np.inf
    else:
        value = np.iinfo(dtype).min if kind == "max" else np.iinfo(dtype).max
    return np.asarray(value, dtype).tobytes()


def slides(shape: Sequence[int], out: Sequence[int], window: dict[str, Any]) -> list[list[Slide]]:
    """The windows of every part of a result between whose elements no holes of the base lie."""
    rank = len(shape)
    ones = (1,) * rank
    base = window.get("base_dilation") or ones
    dilation = window.get("window_dilation") or ones
    sources, targets = contiguous(shape), contiguous(out)
    along = []
    for i in range(rank):
        taps, stride = window["window_dimensions"][i], window["window_strides"][i]
        found = lines(out[i], taps, stride, window["padding"][i][0], base[i], dilation[i])
        along.append(
            [
                Slide(
                    x.size,
                    x.taps,
                    x.start,
                    x.stride,
                    max(1, x.dilation),
                    shape[i],
                    sources[i],
                    x.step * targets[i],
                    x.first * targets[i],
                    x.tap,
                    x.tap_step,
                    taps,
                )
                for x in found
            ]
        )
    return [joined(part) for part in product(*along)]


def joined(part: Sequence[Slide]) -> list[Slide]:
    """The same windows by fewer axes: neighbours along which none moves are one, and so are an axis
    along which windows move by steps of one and a few elements at each of its places."""
    out: list[Slide] = []
    for i, s in enumerate(part):
        if not out or not s.still or s.window != 1:
            out.append(s)
            continue
        o, n, last = out[-1], s.size, i == len(part) - 1
        first = o.first + s.first
        follow = o.source == n * s.source and o.target == n * s.target
        if last and n == 1:
            out[-1] = o._replace(first=first)
        elif follow and o.still and o.window == 1:
            out[-1] = s._replace(size=o.size * n, length=o.size * n, first=first)
        elif follow and last and n <= MAX_SCALAR_ELEMENTS and o.stride == 1:
            out[-1] = o._replace(
                size=o.size * n,
                start=o.start * n,
                dilation=o.dilation * n,
                length=o.length * n,
                source=s.source,
                target=s.target,
                first=first,
            )
        else:
            out.append(s)
    return out


def _task(windows: Windows, inputs: Sequence[tuple[str, int]], target: Any) -> Task:
    text, extent = windows.finish("window")
    reads = prod(s.taps * s.size for s in windows.slides) // extent
    places = [Place(*p) for p in (*inputs, target)]
    chunk = max(1, CHUNK // max(1, reads))
    return Task(text, "window", _with_table(places, windows.size), extent, chunk)


def _with_table(places: Sequence[Place], size: Numbers) -> tuple[Place, ...]:
    return (*places, Place("numbers", tuple(size.table))) if size.table else tuple(places)


def _lanes(*types: np.dtype) -> int:
    return vector_bits() // 8 // max(4, *[t.itemsize for t in types])


def _whole(shape: Sequence[int]) -> bool:
    return 0 < len(shape) and 0 < prod(shape)


def fold_of(kind: str, x: Type, out: Type, params: dict[str, Any]) -> Any:
    """What a reduction reads and computes in, its identity, both shapes and the windows; None where
    the reference does it, or where there is nothing to do."""
    dtype, shape, result = x.dtype, x.shape, out.shape
    if not prod(result) or not _whole(shape):
        return None
    if dtype == BOOL:  # bytes that are zero or one
        dtype = np.dtype(np.uint8)
    if dtype.kind == "c":  # pairs of numbers, along which no window moves
        dtype = np.dtype(f"f{dtype.itemsize // 2}")
        shape, result = (*shape, 2), (*result, 2)
        params = {k: (*v, (0, 0) if k == "padding" else 1) for k, v in params.items()}
    work = _working(dtype)
    if work is None:
        return None
    identity = bytes(work.itemsize) if kind == "sum" else _end(work, kind)
    if x.dtype == BOOL and kind == "min":
        identity = b"\1"
    return dtype, work, identity, shape, result, params


def reduce_window(kind: str) -> Any:
    """The lowering of sums or extrema."""

    def lower(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
        found = fold_of(kind, ins[0], outs[0], params)
        if found is None:
            return None if prod(outs[0].shape) else Lowered([])
        dtype, work, identity, shape, result, window = found
        tasks = []
        scratch: list[int] = []
        steps = [(shape, result, window)]
        if kind != "sum" or prod(window["window_dimensions"]) >= MIN_SEPARABLE_ELEMENTS:
            steps = _apart(shape, result, window) or steps
        have, place = dtype, ("in", 0)
        for i, (before, after, one) in enumerate(steps):
            last = i == len(steps) - 1
            out, target = (dtype, ("out", 0)) if last else (work, ("scratch", i))
            rule = Fold(kind, have, work, identity, out)
            for part in slides(before, after, one):
                windows = Windows(part, rule, ((have,), out), _lanes(work))
                tasks.append(_task(windows, [place], target))
            if not last:
                scratch.append(prod(after) * work.itemsize)
            have, place = out, target
        return Lowered(tasks, tuple(scratch))

    return lower


def _apart(
    shape: Sequence[int], result: Sequence[int], window: dict[str, Any]
) -> list[tuple[Any, Any, Any]]:
    """Large windows that overlap, one axis after another: shapes before and after, and windows.

    The last axis is the first, so that of equal extrema it is still the first one that is found.
    """
    dims, rank = window["window_dimensions"], len(shape)
    if any(d > 1 for d in window.get("base_dilation") or ()):
        return []
    before, steps, cost = tuple(shape), [], 0
    for i in reversed(range(rank)):
        after = (*before[:i], result[i], *before[i + 1 :])
        if dims[i] == 1 and after == before:
            continue
        one = {
            key: tuple(given[i] if j == i else plain for j in range(rank))
            for key, plain in _PLAIN.items()
            if (given := window.get(key)) is not None
        }
        steps.append((before, after, one))
        before = after
        cost += prod(after) * (dims[i] + 2)  # what is between is written and read
    return steps if 3 * cost < 2 * prod(result) * prod(dims) else []


def _chosen(params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Which extremum is selected, and the parameters of the windows."""
    window = {k: v for k, v in params.items() if k != "select_prim"}
    return "max" if params["select_prim"].name == "ge" else "min", window


def select_and_gather_add(
    ins: list[Type], outs: list[Type], params: dict[str, Any]
) -> Lowered | None:
    """Tasks that take the first operand where the second has its extrema."""
    (g, x), (out,) = ins, outs
    kind, window = _chosen(params)
    work = _working(x.dtype)
    if not prod(out.shape):
        return Lowered([])
    if work is None or g.dtype.itemsize > 8 or not _whole(x.shape):
        return None
    bits = np.dtype(f"u{g.dtype.itemsize}")  # it is moved, not computed with
    tasks = []
    for part in slides(x.shape, out.shape, window):
        rule = Select(kind, (x.dtype, bits), work, _end(work, kind))
        windows = Windows(part, rule, ((x.dtype, bits), bits), _lanes(work, bits))
        tasks.append(_task(windows, [("in", 1), ("in", 0)], ("out", 0)))
    return Lowered(tasks)


def select_and_scatter_add(
    ins: list[Type], outs: list[Type], params: dict[str, Any]
) -> Lowered | None:
    """Tasks that find the tap each window chooses, and sum for each element its windows."""
    (source, x), _ = ins, outs
    kind, window = _chosen(params)
    work, total = _working(x.dtype), _working(source.dtype)
    if not prod(x.shape):
        return Lowered([])
    if work is None or total is None or not _whole(source.shape):
        return None
    rule: Rule = Select(kind, (x.dtype, None), work, _end(work, kind))
    (part,) = slides(x.shape, source.shape, window)
    windows = Windows(part, rule, ((x.dtype,), I32), _lanes(work))
    tasks = [_task(windows, [("in", 1)], ("scratch", 0))]
    rule = Chosen(source.dtype, total, prod(window["window_dimensions"]))
    types = ((source.dtype, I32), source.dtype)
    for part in slides(source.shape, x.shape, _holding(window)):
        windows = Windows(part, rule, types, _lanes(total), True)
        tasks.append(_task(windows, [("in", 0), ("scratch", 0)], ("out", 0)))
    return Lowered(tasks, (4 * prod(source.shape),))


def _holding(window: dict[str, Any]) -> dict[str, Any]:
    """The windows that hold an element, as a window over them: its taps are theirs backwards."""
    dims = window["window_dimensions"]
    lows = [low for low, _ in window["padding"]]
    return {
        "window_dimensions": dims,
        "window_strides": (1,) * len(dims),
        "padding": [(n - 1 - low, 0) for n, low in zip(dims, lows, strict=True)],
        "base_dilation": window["window_strides"],
    }


for _kind in ("sum", "max", "min"):
    LOWERINGS[f"reduce_window_{_kind}"] = reduce_window(_kind)
for _lowering in (select_and_gather_add, select_and_scatter_add):
    LOWERINGS[_lowering.__name__] = _lowering
