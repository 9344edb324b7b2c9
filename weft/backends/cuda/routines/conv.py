"""Convolutions: cuDNN's where it has the kind, also for gradients, which are convolutions of other
sizes; a kernel of our own for the rest."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.backends.cuda import libraries
from weft.backends.cuda.driver import per_device
from weft.backends.cuda.routines import dnn, window
from weft.backends.cuda.routines.base import (
    ROUTINES,
    Fill,
    Library,
    Place,
    Routine,
    ceil_div,
    given,
    launch,
    made,
    scratch,
)
from weft.backends.cuda.routines.cumulative import numbers_of
from weft.backends.cuda.routines.moves import permute
from weft.backends.cuda.routines.products import compute_of
from weft.backends.cuda.routines.sort import Scratch
from weft.backends.cuda.routines.stubs import conv_stubs as stubs
from weft.backends.llvm.text.stub import known_to
from weft.base.functional import lru
from weft.kernel.build import Builder
from weft.kernel.kernel import Buffer, Kernel, Store, affine
from weft.kernel.nodes import F32, NARROW
from weft.kernel.program import Type, contiguous

_FULL = 68
# Threads that keep a GPU busy, and products that each has at least where windows are divided.
ENOUGH_THREADS, LEAST_PRODUCTS = 1 << 17, 64


@per_device(64)
def _convolution(kind: str, sizes: dnn.Sizes) -> Any:
    if sizes.last:
        try:
            return dnn.planned(kind, sizes)
        except libraries.DriverError:
            pass
    try:
        return dnn.Convolution(kind, sizes)
    except (NotImplementedError, libraries.DriverError):
        return None


@lru(64)
def _padded(
    shape: tuple[int, ...], low: tuple[int, ...], out: tuple[int, ...], size: int
) -> Kernel:
    """A kernel that copies an array into a larger one."""
    return _boxed(shape, low, out, size, True)


@lru(64)
def _cropped(
    shape: tuple[int, ...], low: tuple[int, ...], whole: tuple[int, ...], size: int
) -> Kernel:
    """A kernel that copies a box of a larger array."""
    return _boxed(shape, low, whole, size, False)


def _boxed(
    shape: tuple[int, ...], low: tuple[int, ...], whole: tuple[int, ...], size: int, into: bool
) -> Kernel:
    dtype = np.dtype(f"u{size}")
    axes = [(f"a{i}", n) for i, n in enumerate(shape)]
    names = [name for name, _ in axes]
    strides = contiguous(whole)
    start = sum(n * s for n, s in zip(low, strides, strict=True))
    small = affine(0, dict(zip(names, contiguous(shape), strict=True)))
    large = affine(start, dict(zip(names, strides, strict=True)))
    sizes = [prod(shape), prod(whole)] if into else [prod(whole), prod(shape)]
    buffers = [Buffer(dtype, sizes[0], "in"), Buffer(dtype, sizes[1], "out")]
    reads, writes = (small, large) if into else (large, small)
    store = Store(1, writes, Builder().load(0, dtype, reads))
    return Kernel("pad" if into else "crop", buffers, ("grid", prod(shape)), [store], tuple(axes))


@lru(64)
def _reversed(shape: tuple[int, ...], order: tuple[int, ...], space: int, size: int) -> Kernel:
    """A kernel that gives an array with its axes in another order, and those of space, which begin
    at one of them, in reverse."""
    back = frozenset(range(space, space + len(shape) - 2))
    strides = contiguous(shape)
    axes = [(f"a{i}", shape[axis]) for i, axis in enumerate(order)]
    start = sum((shape[axis] - 1) * strides[axis] for axis in back)
    signed = [-strides[axis] if axis in back else strides[axis] for axis in order]
    reads = affine(start, {name: n for (name, _), n in zip(axes, signed, strict=True)})
    outs = contiguous([n for _, n in axes])
    writes = affine(0, {name: n for (name, _), n in zip(axes, outs, strict=True)})
    dtype, total = np.dtype(f"u{size}"), prod(shape)
    buffers = [Buffer(dtype, total, "in"), Buffer(dtype, total, "out")]
    store = Store(1, writes, Builder().load(0, dtype, reads))
    return Kernel("reverse", buffers, ("grid", total), [store], tuple(axes))


class _Plan:
    """The steps of a convolution while they are made."""

    def __init__(
        self, ins: list[Type], outs: list[Type], params: dict[str, Any], last: bool
    ) -> None:
        """``last`` is whether the library has channels last in memory."""
        self.ins, self.out, self.params = ins, outs[0], params
        self.dtype = ins[0].dtype
        self.steps: list[Any] = []
        self.room = Scratch()
        self.last = last
        self.specs = params["dimension_numbers"]

    def brought(self, number: int, order: tuple[int, ...]) -> Place:
        """An operand with its axes in an order: batch, channels, space, or as the layout says."""
        return self._permuted(given(number), self.ins[number].shape, order)

    def _permuted(self, place: Place, shape: tuple[int, ...], order: tuple[int, ...]) -> Place:
        if self.last:
            order = (order[0], *order[2:], order[1])
        long = [i for i in order if shape[i] > 1]
        if long == sorted(long):
            return place
        new = self.room.new(prod(shape) * self.dtype.itemsize)
        self.steps.append((permute(shape, order, self.dtype.itemsize), (place, new)))
        return new

    def grouped_filters(self, groups: int) -> Place:
        """The second operand with what it makes and what it is made of exchanged in each group."""
        ws, shape = self.specs[1], self.ins[1].shape
        if groups == 1:
            return self.brought(1, (ws[1], ws[0], *ws[2:]))
        split = (*shape[: ws[0]], groups, shape[ws[0]] // groups, *shape[ws[0] + 1 :])
        after = [axis + (axis > ws[0]) for axis in ws[1:]]
        channels, space = ws[0] + 1, after[1:]
        order = (ws[0], after[0], channels, *space)
        if self.last:
            order = (ws[0], after[0], *space, channels)
        new = self.room.new(prod(shape) * self.dtype.itemsize)
        self.steps.append((permute(split, order, self.dtype.itemsize), (given(1), new)))
        return new

    def arranged(self, sizes: Any) -> tuple[int, ...]:
        """Numbers for batch, channels and space in the order in which memory has them."""
        return (sizes[0], *sizes[2:], sizes[1]) if self.last else tuple(sizes)

    def padded(self, place: Place, data: Any, padding: Any) -> tuple[Place, tuple[int, ...]]:
        """Data with zeros around it, and its sizes."""
        low = (0, 0, *(first for first, _ in padding))
        more = (0, 0, *(first + second for first, second in padding))
        whole = tuple(n + m for n, m in zip(data, more, strict=True))
        size = prod(whole) * self.dtype.itemsize
        new = self.room.new(size)
        self.steps.append(Fill(new, 0, size))
        arranged = [self.arranged(x) for x in (data, low, whole)]
        kernel = _padded(arranged[0], arranged[1], arranged[2], self.dtype.itemsize)
        self.steps.append((kernel, (place, new)))
        return new, whole

    def finished(
        self,
        kind: str,
        sizes: dnn.Sizes,
        places: tuple[Place, Place],
        shape: Any,
        crop: Any = None,
        reverse: bool = False,
    ) -> Any:
        """The routine, whose result has the axes of ``shape`` as the layout says; ``crop`` has the
        sizes of the result and where in that of the library it begins; ``reverse`` is whether the
        library gives it back to front."""
        found = _convolution(kind, sizes)
        if found is None:
            return None
        # the order in which the library writes batch, channels and space, by axes of the result
        order = shape
        if self.last:
            order = (order[0], *order[2:], order[1])
        work = self.room.new(max(found.workspace, 16))
        place = made(0)
        long = [i for i in order if self.out.shape[i] > 1]
        direct = long == sorted(long) and not reverse
        if not direct:
            place = self.room.new(prod(self.out.shape) * self.dtype.itemsize)
        target = place
        if crop is not None:
            target = self.room.new(prod(sizes.data) * self.dtype.itemsize)
        self.steps.append(Library(found.run, (*places, target, work), f"cudnn{kind}"))
        if crop is not None:
            box, low, whole = (self.arranged(x) for x in (*crop, sizes.data))
            self.steps.append((_cropped(box, low, whole, self.dtype.itemsize), (target, place)))
        if not direct:
            sizes_ = tuple(self.out.shape[i] for i in order)
            back = tuple(order.index(i) for i in range(len(order)))
            kernel = permute(sizes_, back, self.dtype.itemsize)
            if reverse:
                kernel = _reversed(sizes_, back, 1 if self.last else 2, self.dtype.itemsize)
            self.steps.append((kernel, (place, made(0))))
        return Routine(self.steps, tuple(self.room.sizes))


def _with_dnn(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    """A convolution by the library, in the first layout that it has it in."""
    dtype = ins[0].dtype
    if dtype not in dnn.TYPES or ins[1].dtype != dtype or outs[0].dtype != dtype:
        return None
    if len(ins[0].shape) not in (4, 5) or not libraries.has("cudnn"):
        return None
    for last in layouts(ins[0], params):
        found = _in_layout(_Plan(ins, outs, params, last))
        if found is not None:
            return found
    return None


def layouts(x: Type, params: dict[str, Any]) -> tuple[bool, ...]:
    """Whether channels come last, by what is tried first. Tensor cores want them there; arrays of
    float32 that have them elsewhere are left as they are."""
    if x.dtype in NARROW:
        return (True,)
    xs = params["dimension_numbers"][0]
    # an axis of one element is nowhere: a line has a column behind its channels
    long = [axis for axis, n in enumerate(x.shape) if n > 1 or axis in xs[:2]]
    tensor = x.dtype == F32 and compute_of(x.dtype, params) != _FULL
    return (True, False) if tensor and long[-1] in xs[:2] else (False,)


def _in_layout(plan: _Plan) -> Routine | None:
    (x, w), out, params, dtype = plan.ins, plan.out, plan.params, plan.dtype
    xs, ws, os = plan.specs
    rank = len(xs) - 2
    sizes_of = lambda t, spec: tuple(t.shape[i] for i in spec)
    data, filters, result = sizes_of(x, xs), sizes_of(w, ws), sizes_of(out, os)
    strides, dilation = tuple(params["window_strides"]), tuple(params["rhs_dilation"])
    base, padding = tuple(params["lhs_dilation"]), [tuple(p) for p in params["padding"]]
    groups = params["feature_group_count"]
    exact = compute_of(dtype, params) == _FULL
    common = {"groups": groups, "last": plan.last, "exact": exact}
    large = prod(filters[2:]) > 4 * prod(result[2:])
    parts = params["batch_group_count"]
    if parts > 1:  # a gradient by filters, of a convolution of groups
        if any(b > 1 for b in base) or groups > 1:
            return None
        return _filter_gradient(plan, data, filters, result, common | {"groups": parts})
    if any(b > 1 for b in base):
        if large and groups == 1:
            return _transposed_filter_gradient(plan, data, filters, result, common)
        return _data_gradient(plan, data, filters, result, common)
    if groups == 1 and large:
        return _filter_gradient(plan, data, filters, result, common)
    if any(n < 0 for p in padding for n in p):
        return None
    places = [plan.brought(0, tuple(xs)), plan.brought(1, tuple(ws))]
    if any(low != high for low, high in padding):
        places[0], data = plan.padded(places[0], data, padding)
        padding = [(0, 0)] * rank
    low = tuple(p[0] for p in padding)
    sizes = dnn.Sizes(dtype, data, filters, result, low, strides, dilation, **common)
    return plan.finished(dnn.FORWARD, sizes, (places[0], places[1]), tuple(os))


def _data_gradient(plan: _Plan, data: Any, filters: Any, result: Any, common: Any) -> Any:
    """A convolution of a dilated operand: the gradient, by data, of one with strides."""
    params = plan.params
    base, dilation = tuple(params["lhs_dilation"]), tuple(params["rhs_dilation"])
    groups = common["groups"]
    if any(s > 1 for s in params["window_strides"]) or (groups > 1 and filters[1] == 1):
        return None  # depthwise ones have few products for each result
    low, high = [], []
    for i, (first, _) in enumerate(params["padding"]):
        pad = (filters[2 + i] - 1) * dilation[i] - first
        extent = (filters[2 + i] - 1) * dilation[i] + 1
        after = pad
        if (result[2 + i] + 2 * pad - extent) // base[i] + 1 != data[2 + i]:
            after = (data[2 + i] - 1) * base[i] + extent - result[2 + i] - pad
        if pad < 0 or after < 0:
            return None
        low.append(pad)
        high.append(after)
    crop = None
    if low != high:  # the gradient of what was padded, whose rims are then left out
        crop = (result, (0, 0, *low))
        whole = [n + a + b for n, a, b in zip(result[2:], low, high, strict=True)]
        result, low = (*result[:2], *whole), [0] * len(low)
    xs, _, os = plan.specs
    # what is convolved is the gradient; its channels are the features of the filters
    turned = (groups * filters[1], filters[0] // groups, *filters[2:])
    sizes = dnn.Sizes(
        plan.dtype, result, turned, data, tuple(low), base, dilation, flipped=True, **common
    )
    places = (plan.grouped_filters(groups), plan.brought(0, tuple(xs)))
    return plan.finished(dnn.DATA, sizes, places, tuple(os), crop)


def _filter_gradient(plan: _Plan, data: Any, filters: Any, result: Any, common: Any) -> Any:
    """A convolution with a large kernel and few results: the gradient, by filters, of another."""
    params = plan.params
    strides, dilation = tuple(params["window_strides"]), tuple(params["rhs_dilation"])
    low = [first for first, _ in params["padding"]]
    extents = [(n - 1) * s + 1 for n, s in zip(result[2:], strides, strict=True)]
    fits = lambda data, low: all(
        (n + 2 * pad - e) // d + 1 == f
        for n, pad, e, d, f in zip(data[2:], low, extents, dilation, filters[2:], strict=True)
    )
    if min(low) < 0:
        return None
    xs, ws, os = plan.specs
    swapped = lambda s: (s[1], s[0], *s[2:])
    place = plan.brought(0, swapped(xs))
    if not fits(data, low):
        padding = [(first, max(second, 0)) for first, second in params["padding"]]
        place, whole = plan.padded(place, swapped(data), padding)
        data, low = swapped(whole), [0] * len(low)
        if not fits(data, low):
            return None
    sizes = dnn.Sizes(
        plan.dtype,
        swapped(data),
        swapped(result),
        swapped(filters),
        tuple(low),
        dilation,
        strides,
        **common,
    )
    places = (place, plan.brought(1, swapped(ws)))
    return plan.finished(dnn.FILTER, sizes, places, swapped(os))


def _transposed_filter_gradient(
    plan: _Plan, data: Any, filters: Any, result: Any, common: Any
) -> Any:
    """The same of a transposed convolution: a dilated operand and a large kernel, which the library
    takes for the data; filters come out in reverse, as it is slow where it has to reverse them."""
    params = plan.params
    base, strides = tuple(params["lhs_dilation"]), tuple(params["window_strides"])
    if any(n > 1 for n in params["rhs_dilation"]):
        return None
    low = [
        (n - 1) * s - first
        for n, s, (first, _) in zip(result[2:], strides, params["padding"], strict=True)
    ]
    # elements that the library reads of each axis, of which all are there
    reads = [
        (n - 1) * b + (k - 1) * s + 1
        for n, b, k, s in zip(data[2:], base, result[2:], strides, strict=True)
    ]
    if min(low) < 0:
        return None
    xs, ws, os = plan.specs
    swapped = lambda s: (s[1], s[0], *s[2:])
    place, whole = plan.brought(1, swapped(ws)), swapped(filters)
    rows = list(zip(whole[2:], low, reads, base, strict=True))
    if any(not 0 <= n + 2 * pad - read < b for n, pad, read, b in rows):
        padding = [(pad, max(0, read - n - pad)) for n, pad, read, _ in rows]
        place, whole = plan.padded(place, whole, padding)
        low = [0] * len(low)
        if any(n - r >= b for n, r, b in zip(whole[2:], reads, base, strict=True)):
            return None
    sizes = dnn.Sizes(
        *(plan.dtype, whole, result, swapped(data), tuple(low), base, strides),
        **common,
    )
    places = (place, plan.brought(0, swapped(xs)))
    return plan.finished(dnn.FILTER, sizes, places, tuple(os), reverse=True)


# --- our own --------------------------------------------------------------------------------------


def _direct(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    x, w = ins
    (out,) = outs
    common = numbers_of(x.dtype)
    if common is None or w.dtype != x.dtype or out.dtype != x.dtype or x.dtype.kind == "b":
        return None
    if max(prod(t.shape) for t in (x, w, out)) >= 1 << 31:
        return None
    xs, ws, os = params["dimension_numbers"]
    steps = [contiguous(t.shape) for t in (x, w, out)]
    rows = []
    for k in reversed(range(len(xs) - 2)):
        rows.append(
            [
                *(out.shape[os[2 + k]], w.shape[ws[2 + k]], params["window_strides"][k]),
                *(params["padding"][k][0], params["lhs_dilation"][k], params["rhs_dilation"][k]),
                *(x.shape[xs[2 + k]], steps[0][xs[2 + k]], steps[1][ws[2 + k]]),
                steps[2][os[2 + k]],
            ]
        )
    features, groups = w.shape[ws[0]], params["batch_group_count"]
    names = {
        **common,
        "RANK": len(rows),
        "NUMBERS": 10,
        "DILATED": 1,
        "COUNT": prod(row[0] for row in rows),
        "WINDOW": prod(row[1] for row in rows),
        "CHANNELS": w.shape[ws[1]],
        "FEATURES": features,
        "GROUP": features // params["feature_group_count"],
        "BATCHES": out.shape[os[0]],
        "BATCH_GROUP": features // groups if groups > 1 else 0,
        "X_BATCH": steps[0][xs[0]],
        "X_CHANNEL": steps[0][xs[1]],
        "W_FEATURE": steps[1][ws[0]],
        "W_CHANNEL": steps[1][ws[1]],
        "O_BATCH": steps[2][os[0]],
        "O_FEATURE": steps[2][os[1]],
    }
    # neighbouring features are neighbours in memory where channels come last
    along = (names["W_FEATURE"], names["X_BATCH"] if groups > 1 else 1, names["O_FEATURE"])
    names["FEATURES_FIRST"] = int(sum(step == 1 for step in along) > 1 and features > 1)
    table = Place("const", np.array(rows or [[1] * 10], np.int64))
    results, window = prod(out.shape), names["WINDOW"]
    parts = parts_of(results, window, names["CHANNELS"])
    step = ceil_div(window, parts)
    parts = ceil_div(window, step)
    names |= {"PARTS": parts, "STEP": step}
    target = made(0) if parts == 1 else scratch(0)
    places = (given(0), given(1), table, target)
    first = launch(stubs.convolve, results * parts, places, **known_to(stubs.convolve, names))
    if parts == 1:
        return Routine([first])
    added = {**common, "PARTS": parts, "COUNT": results}
    added = known_to(stubs.add_parts, added)
    second = launch(stubs.add_parts, results, (scratch(0), made(0)), **added)
    return Routine([first, second], (8 * parts * results,))


def parts_of(results: int, window: int, channels: int) -> int:
    """Parts of a window that threads of their own have, so that there are enough threads, and each
    has enough to do."""
    wanted = min(ENOUGH_THREADS // max(results, 1), window * channels // LEAST_PRODUCTS)
    return max(1, min(window, wanted))


def _as_plane(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Any:
    """A convolution along a line as one of a plane of one column."""
    specs = params["dimension_numbers"]
    if len(specs[0]) != 3:
        return ins, outs, params
    arrays = [t._replace(shape=(*t.shape, 1)) for t in (*ins, *outs)]
    # the column comes last in memory, whatever axis is it in the specification
    more: dict[str, Any] = {"dimension_numbers": tuple((*spec, 3) for spec in specs)}
    for name, value in (("window_strides", 1), ("lhs_dilation", 1), ("rhs_dilation", 1)):
        more[name] = (*params[name], value)
    more["padding"] = (*params["padding"], (0, 0))
    return arrays[:2], arrays[2:], {**params, **more}


def conv_general_dilated(ins: list[Type], outs: list[Type], params: Any) -> Routine | None:
    """A convolution by a kernel of our own, or by cuDNN."""
    found = window.depthwise(ins, outs, params)
    if found is not None:
        return found
    found = _with_dnn(*_as_plane(ins, outs, params))
    return _direct(ins, outs, params) if found is None else found


ROUTINES["conv_general_dilated"] = conv_general_dilated
