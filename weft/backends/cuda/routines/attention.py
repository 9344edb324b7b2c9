"""Attention that the compiler recognised, without its scores in memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.backends.cuda.routines.base import (
    ROUTINES,
    Routine,
    Run,
    ceil_div,
    given,
    made,
    module,
    scratch,
)
from weft.backends.cuda.routines.stubs import attention_stubs as stubs
from weft.base.functional import lru
from weft.kernel.nodes import BF16, F16
from weft.kernel.program import Type, contiguous

# Warps of a block, 16 rows each; columns of a tile.
WARPS, COLUMNS = 4, 64


def supported(dtype: np.dtype, depth: int) -> bool:
    """Whether there are kernels for rows of so many elements of a dtype."""
    return dtype in (BF16, F16) and depth in (16, 32, 64, 128)


@lru(64)
def _text(main: Any, **names: Any) -> str:
    return module(main, names, {"tiles": 0})


def _strides(t: Type, order: str, prefix: str) -> dict[str, int]:
    """The strides of batch, head and row, by name; ``order`` has a letter for each axis."""
    found = dict(zip(order, contiguous(t.shape), strict=True))
    return {
        f"{prefix}_BATCH": found["b"],
        f"{prefix}_HEAD": found["h"],
        f"{prefix}_ROW": found["t"],
    }


def _size(t: Type, order: str, axis: str) -> int:
    return t.shape[order.index(axis)]


def _common(q: Type, k: Type, v: Type, params: dict[str, Any]) -> dict[str, Any]:
    orders, scale = params["orders"], params["scale"]
    heads, shared = _size(q, orders[0], "h"), _size(k, orders[1], "h")
    shift = params["causal"]
    names: dict[str, Any] = {
        "HALF": int(q.dtype == F16),
        "D": _size(q, orders[0], "d"),
        "BATCH": _size(q, orders[0], "b"),
        "HEADS": heads,
        "GROUP": heads // shared,
        "ROWS": _size(q, orders[0], "t"),
        "COLUMNS": _size(k, orders[1], "t"),
        "CAUSAL": int(shift is not None),
        "SHIFT": shift or 0,
        "SCALE": float(np.float32(scale)),
        "SCALE_LOG2": float(np.float32(scale * math.log2(math.e))),
        "SWIZZLE": min(8, _size(q, orders[0], "d") // 8),
        "WARPS": WARPS,
        "TM": 16 * WARPS,
        "TN": COLUMNS,
    }
    for t, order, prefix in zip((q, k, v), orders, "QKV", strict=False):
        names |= _strides(t, order, prefix)
    return names


def attention(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    """Results, in the order of the queries, and a number for each row."""
    q, k, v = ins
    names = _common(q, k, v, params)
    if not supported(q.dtype, names["D"]):
        return None
    names |= _strides(outs[0], params["orders"][0], "O")
    tile, wide = 2 * names["D"] * names["TM"], 2 * names["D"] * names["TN"]
    blocks = ceil_div(names["ROWS"], names["TM"]) * names["HEADS"] * names["BATCH"]
    places = (given(0), given(1), given(2), made(0), made(1))
    dynamic = tile + 4 * wide
    run = Run(_text(stubs.forward, **names), blocks, 32 * WARPS, places, dynamic=dynamic)
    return Routine([run])


def attention_backward(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    """Gradients of queries, keys and values, each by batch, head and row."""
    q, k, v, o, _, g = ins
    names = _common(q, k, v, params)
    if not supported(q.dtype, names["D"]):
        return None
    names |= _strides(o, params["orders"][0], "O") | _strides(g, params["orders"][3], "G")
    rows, heads, batch = names["ROWS"], names["HEADS"], names["BATCH"]
    deep = names["D"] > 64
    sums = Run(
        _text(stubs.row_products, **names),
        ceil_div(rows * heads * batch, 8),
        256,
        (given(5), given(3), scratch(0)),
    )
    common = (given(0), given(1), given(2), given(5), given(4), scratch(0))
    tile = 2 * names["D"] * names["TM"]
    narrow = names | {"TN": min(32, COLUMNS) if deep else COLUMNS}
    wide = 2 * narrow["D"] * narrow["TN"]
    columns = ceil_div(names["COLUMNS"], names["TM"]) * heads // names["GROUP"] * batch
    keys = Run(
        _text(stubs.keys_backward, **narrow),
        columns,
        32 * WARPS,
        (*common, made(1), made(2)),
        dynamic=2 * tile + 2 * wide + 8 * narrow["TN"],
    )
    queries = Run(
        _text(stubs.queries_backward, **narrow),
        ceil_div(rows, names["TM"]) * heads * batch,
        32 * WARPS,
        (*common, made(0)),
        dynamic=2 * tile + 4 * wide,
    )
    return Routine([sums, keys, queries], (4 * rows * heads * batch,))


ROUTINES |= {"attention": attention, "attention_backward": attention_backward}
