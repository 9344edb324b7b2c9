"""How operations are counted. Those without a rule here only move data and count as nothing."""

from __future__ import annotations

import math
from typing import Any

from weft.experimental.roofline.counting import (
    RooflineResult,
    RooflineRuleContext,
    RooflineShape,
    rules,
)
from weft.prims.index_dims import GatherScatterMode

Context = RooflineRuleContext

UNARY = (
    "abs acos asin atan cbrt ceil conj cos cosh exp expm1 floor imag integer_pow is_finite log"
    " log1p logistic neg not real round rsqrt sign sin sinh sqrt square tan bessel_i0e bessel_i1e"
    " digamma erf_inv erf erfc lgamma"
).split()
BINARY = "add sub mul div rem and or xor gt lt ge le eq ne min max".split()
CUMULATIVE = "cummax cummin cumprod cumsum".split()
SCATTERS = "scatter scatter_add scatter-add scatter_max scatter_min scatter_mul scatter_sub".split()


def _moved(ctx: Context) -> int:
    """Bytes of all operands and results."""
    return sum(shape.bytes for shape in (*ctx.operands, *ctx.results))


def _elementwise(ctx: Context, *shapes: Any, **params: Any) -> RooflineResult:
    return RooflineResult(unfused_flops=ctx.results[0].size, unfused_hbm_bytes=_moved(ctx))


def _cumulative(times: int) -> Any:
    def rule(ctx: Context, *shapes: Any, axis: int, **params: Any) -> RooflineResult:
        count = times * ctx.operands[0].shape[axis]
        return RooflineResult(unfused_flops=count, unfused_hbm_bytes=_moved(ctx))

    return rule


def _reduce_sum(ctx: Context, *shapes: Any, axes: Any, **params: Any) -> RooflineResult:
    (x,) = ctx.operands
    summed = math.prod(x.shape[axis] for axis in axes)
    left = math.prod(n for axis, n in enumerate(x.shape) if axis not in axes)
    moved = x.dtype.itemsize * (x.size + left)
    return RooflineResult(unfused_flops=(summed - 1) * left, unfused_hbm_bytes=moved)


def _select(ctx: Context, *shapes: Any, **params: Any) -> RooflineResult:
    moved = ctx.operands[0].bytes + ctx.results[0].bytes
    return RooflineResult(unfused_flops=ctx.results[0].size, unfused_hbm_bytes=moved)


def _dot(ctx: Context, *shapes: Any, dimension_numbers: Any, **params: Any) -> RooflineResult:
    lhs, rhs = ctx.operands
    (contracted, _), (batch, _) = dimension_numbers
    shared = math.prod(lhs.shape[d] for d in (*contracted, *batch))
    flops = 2 * lhs.size * rhs.size // max(shared, 1)
    moved = 0 if ctx.pin_lhs_in_vmem else lhs.bytes + ctx.results[0].bytes
    moved += 0 if ctx.pin_rhs_in_vmem else rhs.bytes
    return RooflineResult(
        flops=flops, unfused_flops=flops, hbm_bytes=moved, unfused_hbm_bytes=moved
    )


def _conv(ctx: Context, *shapes: Any, **params: Any) -> RooflineResult:
    lhs, rhs = ctx.operands
    out = ctx.results[0]
    numbers = params["dimension_numbers"]
    products = 1
    for d in range(len(lhs.shape) - 2):
        products *= _inside_window(
            lhs.shape[numbers.lhs_spec[2 + d]],
            rhs.shape[numbers.rhs_spec[2 + d]],
            out.shape[numbers.out_spec[2 + d]],
            params["window_strides"][d],
            params["padding"][d][0],
            params["lhs_dilation"][d],
            params["rhs_dilation"][d],
        )
    batch = lhs.shape[numbers.lhs_spec[0]] // params["batch_group_count"]
    features = rhs.shape[numbers.rhs_spec[1]] * out.shape[numbers.out_spec[1]]
    return RooflineResult(
        unfused_flops=2 * batch * features * products, unfused_hbm_bytes=_moved(ctx)
    )


def _inside_window(size: int, window: int, count: int, stride: int, low: int, apart: int, by: int):
    """How many pairs of a window's element and an output fall on an element of the input."""
    found = 0
    for k in range(window):
        for i in range(count):
            place = i * stride - low + k * by
            found += place % apart == 0 and 0 <= place // apart < size
    return found


def _gather(ctx: Context, *shapes: Any, mode: Any, **params: Any) -> RooflineResult:
    indices, out = ctx.operands[1], ctx.results[0]
    checked = GatherScatterMode.from_any(mode).drops
    # two comparisons, their conjunction and its reduction for an index; a choice for an element
    flops = 4 * indices.size + out.size if checked else 0
    return RooflineResult(unfused_flops=flops, unfused_hbm_bytes=2 * out.bytes + indices.bytes)


def _scatter(ctx: Context, *shapes: Any, **params: Any) -> RooflineResult:
    _, indices, updates = ctx.operands
    name = ctx.primitive.name
    flops = 0 if name == "scatter" else updates.size
    return RooflineResult(unfused_flops=flops, unfused_hbm_bytes=3 * updates.bytes + indices.bytes)


def _called(ctx: Context, *shapes: Any, **params: Any) -> RooflineResult:
    return RooflineResult(unfused_hbm_bytes=_moved(ctx))


# --- between devices ------------------------------------------------------------------------------


def _names(axes: Any) -> tuple[Any, ...]:
    return tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)


def _on(axes: Any, moved: float, hops: float) -> RooflineResult:
    return RooflineResult(
        ici_bytes={axis: int(moved) for axis in axes},
        ici_latency={axis: int(hops) for axis in axes},
    )


def _ring(ctx: Context, axes: tuple[Any, ...], size: float) -> RooflineResult:
    """A collective along rings, one axis after the other, the longest first."""
    sizes = {axis: ctx.mesh.shape[axis] for axis in axes}
    if math.prod(sizes.values()) == 1:
        return _on(axes, 0, 0)
    order = sorted(axes, key=lambda axis: sizes[axis], reverse=True)
    part, moved = size // len(order), 0.0
    for axis in order:
        moved += part * (sizes[axis] - 1)
        part *= sizes[axis]
    return _on(order, moved, sizes[order[0]] * len(order))


def _gathered(ctx: Context, *shapes: Any, axis_name: Any, **params: Any) -> RooflineResult:
    return _ring(ctx, _names(axis_name), RooflineShape.total_bytes(ctx.avals_in))


def _reduced(ctx: Context, axes: tuple[Any, ...]) -> RooflineResult:
    count = math.prod(ctx.mesh.shape[axis] for axis in axes)
    return _ring(ctx, axes, RooflineShape.total_bytes(ctx.avals_in) / count)


def _scattered(ctx: Context, *shapes: Any, axis_name: Any, **params: Any) -> RooflineResult:
    return _reduced(ctx, _names(axis_name))


def _summed(ctx: Context, *shapes: Any, axes: Any, **params: Any) -> RooflineResult:
    return 2 * _reduced(ctx, _names(axes))  # scattered, then gathered


def _largest(ctx: Context, *shapes: Any, axes: Any, **params: Any) -> RooflineResult:
    return _ring(ctx, _names(axes), sum(shape.dtype.itemsize for shape in ctx.operands))


def _all_to_all(ctx: Context, *shapes: Any, axis_name: Any, **params: Any) -> RooflineResult:
    axes = _names(axis_name)
    sizes = [ctx.mesh.shape[axis] for axis in axes]
    if math.prod(sizes) == 1:
        return _on(axes, 0, 0)
    across = min(sizes) ** (len(axes) - 1) * (2 if min(sizes) > 2 else 1)
    moved = RooflineShape.total_bytes(ctx.avals_in) * math.prod(sizes) / 2 / across
    return _on(axes, moved, sum(size / 2 for size in sizes))


rules.update(dict.fromkeys((*UNARY, *BINARY), _elementwise))
rules.update(dict.fromkeys(CUMULATIVE, _cumulative(1)))
rules.update(dict.fromkeys(SCATTERS, _scatter))
rules.update(dict.fromkeys(("pure_callback", "io_callback", "debug_callback"), _called))
rules.update(dict.fromkeys(("psum", "psum_invariant"), _summed))
rules.update(dict.fromkeys(("pmax", "pmin"), _largest))
rules.update(
    cumlogsumexp=_cumulative(2), reduce_sum=_reduce_sum, select_n=_select, dot_general=_dot,
    conv_general_dilated=_conv, gather=_gather, all_gather=_gathered, reduce_scatter=_scattered,
    all_to_all=_all_to_all,
)  # fmt: skip
