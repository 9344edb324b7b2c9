"""Cumulative reductions: a serial loop along the axis for each row, with its state in registers."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from weft.core.registry import lookup
from weft.kernel import math
from weft.kernel.build import Builder
from weft.kernel.kernel import Carry, Serial, Store, affine
from weft.kernel.lowering import Lowering, buffer_of, nested
from weft.kernel.nodes import F32, NARROW, Value, layout, tiny
from weft.kernel.program import Type
from weft.prims.cumulative import logaddexp as bound_logaddexp
from weft.prims.cumulative import parallel_scan
from weft.prims.families import COMPLEX, kind_of

Combine = Callable[[Builder, Value, Value], Value]


def logaddexp(k: Builder, x: Value, y: Value) -> Value:
    """``log(exp(x) + exp(y))`` without overflow."""
    apart = k.sub(x, y)
    small = math.log1p(k, math.exp(k, k.neg(k.abs(apart))))
    # The difference is NaN for a NaN and for equal infinities: there the sum is the answer.
    return k.select(k.isnan(apart), k.add(x, y), k.add(k.max(x, y), small))


def _lowest(dtype: np.dtype) -> Any:
    return -np.inf if dtype.kind not in "iu" else np.iinfo(dtype).min


def _highest(dtype: np.dtype) -> Any:
    return np.inf if dtype.kind not in "iu" else np.iinfo(dtype).max


def _lowered(
    ins: list[Type], outs: list[Type], params: dict[str, Any], combine: Combine, start: Any
) -> Lowering | None:
    (x,), axis = ins, params["axis"]
    part, n = layout(x.dtype)
    if tiny(x.dtype) or (n > 1 and combine is not Builder.add):
        return None
    wide = F32 if part in NARROW else part
    outer, extent, inner = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
    step = inner * n
    k = Builder()
    first, along = (n * inner * (extent - 1), -step) if params["reverse"] else (0, step)
    begun = k.const(start(wide) if callable(start) else start, wide)
    carried, body = [], []
    for i in range(n):
        at = affine(first + i, {"o": extent * step, "j": along, "q": n * (inner > 1)})
        so_far = k.make("acc", (), wide, i)
        total = combine(k, so_far, k.cast(k.load(0, part, at), wide))
        carried.append(Carry(i, begun, total))
        body.append(Store(1, at, k.cast(total, part)))
    loop = Serial(tuple(carried), body, "j", extent)
    buffers = [buffer_of(x, "in"), buffer_of(outs[0], "out")]
    axes = [("o", outer), ("q", inner)] if inner > 1 else [("o", outer)]
    kernel = nested("cumulative", buffers, axes if outer >= inner else axes[::-1], [loop])
    return Lowering([(kernel, (0, 1))])


def sums(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowering | None:
    return _lowered(ins, outs, params, Builder.add, 0)


def products(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowering | None:
    return _lowered(ins, outs, params, Builder.mul, 1)


def greatest(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowering | None:
    return _lowered(ins, outs, params, Builder.max, _lowest)


def least(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowering | None:
    return _lowered(ins, outs, params, Builder.min, _highest)


def logarithms(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowering | None:
    if kind_of(ins[0].dtype) == COMPLEX:
        return None
    return _lowered(ins, outs, params, logaddexp, _lowest)


# --- what kernels do not carry: complex numbers, but for sums, and numbers of a byte -------------


def _scanned(x: Any, axis: int, reverse: bool, combine: Callable[[Any, Any], Any]) -> Any:
    found = parallel_scan(lambda a, b: [combine(a[0], b[0])], [x], reverse, axis)[0]
    return lookup("copy").bind(found) if np.shape(x)[axis] < 2 else found


def scanned(name: str) -> Callable[..., Any]:
    """A cumulative reduction in logarithmic depth."""

    def lower(x: Any, *, axis: int, reverse: bool) -> Any:
        combine = bound_logaddexp if name == "logaddexp" else lookup(name).bind
        return _scanned(x, axis, reverse, combine)

    return lower


scanned_sums, scanned_products = scanned("add"), scanned("mul")
scanned_greatest, scanned_least = scanned("max"), scanned("min")
scanned_logarithms = scanned("logaddexp")


def extreme_tangent(t: Any, x: Any, out: Any, **params: Any) -> Any:
    """Tangents of running extremes in logarithmic depth."""
    return lookup("extreme_tangent").decompose(t, x, out, **params)
