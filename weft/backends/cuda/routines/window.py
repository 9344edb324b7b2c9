"""Sums and extrema of sliding windows, and the selections that differentiate them; convolutions in
which each channel has a filter of its own, with their gradients.

Windows over planes, or lines, whose channels come last in memory share what they read.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

import numpy as np

from weft.backends.cuda.ptx import GpuModule
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
from weft.backends.cuda.routines.stubs import cumulative_stubs, plane_stubs
from weft.backends.cuda.routines.stubs import window_stubs as stubs
from weft.backends.llvm.text.stub import known_to
from weft.base.functional import lru
from weft.base.record import Record
from weft.kernel.nodes import NARROW
from weft.kernel.program import Type, contiguous

_OPS = {
    "reduce_window_sum": cumulative_stubs.ADD,
    "reduce_window_max": cumulative_stubs.MAX,
    "reduce_window_min": cumulative_stubs.MIN,
}
# Bytes of neighbouring channels that a thread reads at once, and its results at most.
WORD, OUTS = 16, 4
# Registers of a thread that hold what it reads and sums; sums of a gradient by filters that it has.
MAX_ITEMS, MAX_SUMS = 64, 48
# Warps that share the sums of parts.
SLICES = 16
# Threads from which on each may have more results; those of a gradient by filters, and its parts
# at most.
ENOUGH_THREADS, PART_THREADS, MAX_PARTS = 1 << 17, 1 << 16, 512
# Seconds that a thread waits for what it reads of a group of results, and the bytes of parts that
# are written and read in one.
ROUND, PART_RATE = 5e-7, 3e12


class Axis(Record):
    """An axis of windows: results, elements of a window, how far apart these are, padding before,
    the dilation of the window, and elements of the operand."""

    results: int
    window: int
    stride: int
    low: int
    dilation: int
    size: int


class Planes(Record):
    """How windows over planes are divided among threads."""

    images: int
    down: Axis
    across: Axis
    inner: int
    dtype: np.dtype
    vector: int
    outs: int

    @property
    def groups(self) -> int:
        """Groups of neighbouring results of a row, in all images."""
        return self.images * self.down.results * ceil_div(self.across.results, self.outs)

    @property
    def channels(self) -> int:
        """Groups of neighbouring channels."""
        return self.inner // self.vector

    def names(self) -> dict[str, Any]:
        down, across = self.down, self.across
        single = self.outs == 1
        bytes_ = self.vector * self.dtype.itemsize
        words = bytes_ // 4 if self.dtype in NARROW and bytes_ in (8, 16) else 0
        if self.dtype.itemsize == 4 and self.vector == 4:
            words = 4
        names: dict[str, Any] = {
            "WORDS": words,
            "INNER": self.inner,
            "VECTOR": self.vector,
            "OUTS": self.outs,
        }
        names |= {"ROWS": down.results, "COLUMNS": across.results}
        names |= {"DOWN": down.window, "ACROSS": across.window}
        names |= {"ROW_STRIDE": down.stride, "STRIDE": across.stride}
        names |= {"TOP": down.low, "LEFT": across.low, "ROW_STEP": down.dilation}
        names |= {"IN_ROWS": down.size, "IN_COLUMNS": across.size}
        names |= {"STEP": across.dilation if single else 1, "SPAN": span(across, self.outs)}
        return names


def span(axis: Axis, outs: int) -> int:
    """Columns that the windows of neighbouring results reach."""
    return axis.window if outs == 1 else (outs - 1) * axis.stride + axis.window


def planes(
    images: int, down: Axis, across: Axis, inner: int, dtype: np.dtype, sums: int = 0
) -> Planes | None:
    """How threads divide windows; None where they are too wide for registers. ``sums`` is how many
    a thread has of a channel besides."""
    most = [n for n in (8, 4, 2, 1) if inner % n == 0 and n * dtype.itemsize <= WORD]
    alone = across.dilation > 1 or across.stride > across.window
    width = max(4, dtype.itemsize) // 4
    for vector in most:
        made = None
        for outs in (1, OUTS // 2, OUTS):  # as many as leave enough threads
            registers = vector * width * (span(across, outs) + max(outs, sums))
            new = Planes(images, down, across, inner, dtype, vector, outs)
            if (outs > 1 and alone) or registers > MAX_ITEMS or outs >= 2 * across.results:
                break
            if made is not None and new.groups * new.channels < ENOUGH_THREADS:
                break
            made = new
        if made is not None:
            return made
    return None


@lru(128)
def _plane_module(main: Any, room: int, **names: Any) -> GpuModule:
    return module(main, known_to(main, names), {"totals": room} if room else None)


def _plane_run(main: Any, count: int, places: tuple[Place, ...], names: dict[str, Any]) -> Run:
    code = _plane_module(main, 0, COUNT=count, **names)
    return Run(code, ceil_div(count, 256), 256, places)


def by_planes(
    shape: Any, out: Any, params: dict[str, Any], common: dict[str, Any], dtype: np.dtype
) -> Routine | None:
    """Sums or extrema of windows, where they have one channel of one image each."""
    rank = len(shape)
    ones = (1,) * rank
    sizes, strides = params["window_dimensions"], params["window_strides"]
    base, dilation = params.get("base_dilation") or ones, params.get("window_dilation") or ones
    windows = [
        k
        for k in range(rank)
        if (sizes[k], strides[k], *params["padding"][k]) != (1, 1, 0, 0) or out[k] != shape[k]
    ]
    if not windows or max(base) > 1 or windows[-1] - windows[0] >= 2 or windows[-1] == rank - 1:
        return None
    axis_of = lambda k: Axis(
        out[k], sizes[k], strides[k], params["padding"][k][0], dilation[k], shape[k]
    )
    inner, images = prod(shape[windows[-1] + 1 :]), prod(shape[: windows[0]])
    down = axis_of(windows[0]) if len(windows) == 2 else Axis(1, 1, 1, 0, 1, 1)
    found = planes(images, down, axis_of(windows[-1]), inner, dtype)
    if found is None or found.vector == 1:
        return None  # threads would read neighbours of a row in any case
    names = {**found.names(), **common}
    places = (given(0), made(0))
    return Routine(
        [_plane_run(plane_stubs.reduce_planes, found.groups * found.channels, places, names)]
    )


def _is_last(shape: Any, batch: int, channels: int, space: Any) -> bool:
    """Whether memory has the batch first, then space, then channels."""
    order = [i for i in (batch, *space, channels) if shape[i] > 1]
    return order == sorted(order)


def _axes(params: dict[str, Any], sizes: Any, windows: Any, results: Any, turned: bool) -> Any:
    """Rows and columns; of a gradient by filters, strides and dilations have changed places."""
    found = [Axis(1, 1, 1, 0, 1, 1)] * (2 - len(sizes))
    for k in range(len(sizes)):
        stride, dilation = params["window_strides"][k], params["rhs_dilation"][k]
        if turned:
            stride, dilation = dilation, stride
        low = params["padding"][k][0]
        found.append(Axis(results[k], windows[k], stride, low, dilation, sizes[k]))
    return found


def depthwise(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    """A convolution with a separate filter for each channel, or its gradient by the filters."""
    (x, w), (out,) = ins, outs
    common = numbers_of(x.dtype)
    xs, ws, os = params["dimension_numbers"]
    if common is None or x.dtype.kind in "bc" or len(xs) not in (3, 4):
        return None
    if max(params["lhs_dilation"]) > 1:
        return None
    if (
        len({t.dtype for t in (x, w, out)}) > 1
        or max(prod(t.shape) for t in (x, w, out)) >= 1 << 31
    ):
        return None
    sizes_of = lambda t, spec: tuple(t.shape[i] for i in spec)
    data, filters, result = sizes_of(x, xs), sizes_of(w, ws), sizes_of(out, os)
    if params["batch_group_count"] > 1:
        if not params["batch_group_count"] == data[0] == filters[0] or result[0] != 1:
            return None
        order = _is_last(x.shape, xs[1], xs[0], xs[2:]), _is_last(w.shape, ws[1], ws[0], ws[2:])
        if not all(order):
            return None
        axes = _axes(params, data[2:], result[2:], filters[2:], True)
        return _by_filters(data[1], axes, data[0], out, os, common)
    groups = params["feature_group_count"]
    if not 1 < groups == data[1] == filters[0] or filters[1] != 1:
        return None
    if not _is_last(x.shape, xs[0], xs[1], xs[2:]) or not _is_last(out.shape, os[0], os[1], os[2:]):
        return None
    down, across = _axes(params, data[2:], filters[2:], result[2:], False)
    found = planes(data[0], down, across, groups, x.dtype)
    if found is None:
        return None
    steps = contiguous(w.shape)
    names = {**found.names(), **common, "IDENTITY": 0, "W_CHANNEL": steps[ws[0]]}
    rows = [0, 0, *(steps[i] for i in ws[2:])][-2:]
    names |= {"W_ROW": rows[0], "W_COLUMN": rows[1]}
    places = (given(0), given(1), made(0))
    return Routine(
        [_plane_run(plane_stubs.filter_planes, found.groups * found.channels, places, names)]
    )


def _by_filters(
    images: int, axes: Any, channels: int, out: Type, os: Any, common: dict[str, Any]
) -> Routine | None:
    down, across = axes
    found = planes(images, down, across, channels, out.dtype, across.window)
    if found is None:
        return None
    each = down.window if down.window * across.window * found.vector <= MAX_SUMS else 1
    threads = found.channels * (down.window // each)
    taps = down.window * across.window * channels
    bytes_ = 2 * taps * common["WIDTH"]  # of a part
    most = round(sqrt(found.groups * ROUND * PART_RATE / bytes_))
    parts = max(1, min(MAX_PARTS, most, ceil_div(PART_THREADS, threads), found.groups))
    names = {**found.names(), **common, "IDENTITY": 0, "EACH": each}
    names |= {"PARTS": parts, "GROUPS": found.groups}
    first = _plane_run(
        plane_stubs.filter_parts, threads * parts, (given(0), given(1), scratch(0)), names
    )
    steps = contiguous(out.shape)
    rows = [0, 0, *(steps[i] for i in os[2:])][-2:]
    names = {
        **common,
        "COUNT": taps,
        "PARTS": parts,
        "SLICES": SLICES,
        "INNER": channels,
        "ACROSS": across.window,
    }
    names |= {"O_ROW": rows[0], "O_COLUMN": rows[1], "O_CHANNEL": steps[os[1]]}
    room = 32 * SLICES * common["WIDTH"]
    code = _plane_module(plane_stubs.sum_parts, room, **names)
    second = Run(code, ceil_div(taps, 32), 32 * SLICES, (scratch(0), made(0)))
    return Routine([first, second], (parts * taps * common["WIDTH"],))


# --- windows of any axes --------------------------------------------------------------------------


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
        found = by_planes(shape, result, params, told, dtype)
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
