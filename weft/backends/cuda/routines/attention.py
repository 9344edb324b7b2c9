"""Attention that the compiler recognised, without its scores in memory.

On Hopper GPUs by cuDNN's kernels, or by ours (`hopper`) where these are faster or the same bits are
asked for in every run; elsewhere by kernels that are stubs (`stubs/attention_stubs.py`). For the
backward pass a logarithm of each row is kept: on Hopper to the base e, elsewhere to the base 2. One
row of queries for each head has a kernel of its own (`stubs/decode_stubs.py`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.backends.cuda.ptx import GpuModule
from weft.backends.cuda.routines import dnn_attention as dnn
from weft.backends.cuda.routines.base import (
    ROUTINES,
    Library,
    Place,
    Routine,
    Run,
    accessors,
    ceil_div,
    given,
    made,
    module,
    scratch,
)
from weft.backends.cuda.routines.hopper import attention as hopper
from weft.backends.cuda.routines.stubs import attention_stubs as stubs
from weft.backends.cuda.routines.stubs import decode_stubs as row_stubs
from weft.backends.llvm.text.stub import known_to
from weft.base.functional import lru
from weft.base.record import Record
from weft.kernel.nodes import BF16, F16
from weft.kernel.program import Type, contiguous

# Warps of a block, 16 rows each; columns of a tile.
WARPS, COLUMNS = 4, 64
# Of one row for each head: threads of a block, columns that each reads at a time, columns of a
# block at least, and blocks that are enough for them to have more; elements of a row at most.
ROW_THREADS, ROW_COLUMNS, SMALLEST_RANGE, ENOUGH_BLOCKS = 512, 4, 256, 1 << 10
MAX_ROW_DEPTH = 256
# Elements of keys from which such an operation is one; loops of less may be one kernel without it.
MIN_KEPT = 1 << 13


def supported(dtype: np.dtype, depth: int) -> bool:
    """Whether there are kernels for rows of so many elements of a dtype."""
    return dtype in (BF16, F16) and depth in (16, 32, 64, 128)


def row_supported(dtype: np.dtype, depth: int, kept: int) -> bool:
    """The same for one row of queries for each head, and so many elements of keys."""
    return kept >= MIN_KEPT and dtype in (BF16, F16, np.float32) and depth <= MAX_ROW_DEPTH


@lru(64)
def _module(main: Any, **names: Any) -> GpuModule:
    return module(main, known_to(main, names), {"tiles": 0})


class _Call(Record):
    """An attention, forward or backward: what it computes, and where its arrays are.

    The arrays: queries, keys, values, results, backward also the gradients of results. Others are a
    logarithm for each row and, backward, the gradients of queries, keys and values.
    """

    sizes: dnn.Sizes
    arrays: tuple[Place, ...]
    stats: Place
    grads: tuple[Place, ...] = ()


def _axes(t: Type, order: str) -> tuple[int, int, int]:
    """The strides of batch, head and row; ``order`` has a letter for each axis."""
    found = dict(zip(order, contiguous(t.shape), strict=True))
    return found["b"], found["h"], found["t"]


def _apart(ins: list[Type], params: dict[str, Any]) -> _Call:
    """A call whose queries, keys and values are arrays each."""
    back = len(ins) > 3
    orders = params["orders"]
    arrays = [*ins[:3], ins[3], ins[5]] if back else [*ins, ins[0]]
    orders = (*orders[:3], orders[0], *orders[3:])
    q, k = (dict(zip(o, t.shape, strict=True)) for t, o in zip(ins[:2], orders[:2], strict=True))
    sizes = dnn.Sizes(
        *(ins[0].dtype, q["b"], q["h"], k["h"], q["t"], k["t"], q["d"]),
        *(tuple(map(_axes, arrays, orders)), params["scale"], params["causal"]),
    )
    if back:
        return _Call(
            sizes, tuple(map(given, (0, 1, 2, 3, 5))), given(4), tuple(map(made, range(3)))
        )
    return _Call(sizes, (given(0), given(1), given(2), made(0)), made(1))


def _packed(ins: list[Type], params: dict[str, Any]) -> _Call:
    """A call whose queries, keys and values are parts of each row of one array."""
    back = len(ins) > 1
    (heads, shared), depth = params["heads"], params["depth"]
    batch, rows, width = ins[0].shape
    parts = ((rows * width, depth, width),) * 3
    whole = ((rows * heads * depth, depth, heads * depth),) * (2 if back else 1)
    sizes = dnn.Sizes(
        *(ins[0].dtype, batch, heads, shared, rows, rows, depth),
        *(parts + whole, params["scale"], params["causal"]),
    )
    offsets = [2 * depth * n for n in (0, heads, heads + shared)]
    arrays = tuple(Place("in", 0, n) for n in offsets)
    if back:
        grads = tuple(Place("out", 0, n) for n in offsets)
        return _Call(sizes, (*arrays, given(1), given(3)), given(2), grads)
    return _Call(sizes, (*arrays, made(0)), made(1))


def _names(s: dnn.Sizes) -> dict[str, Any]:
    names: dict[str, Any] = {
        "HALF": int(s.dtype == F16),
        "D": s.depth,
        "BATCH": s.batch,
        "HEADS": s.heads,
        "GROUP": s.heads // s.shared,
        "ROWS": s.rows,
        "COLUMNS": s.columns,
        "CAUSAL": int(s.shift is not None),
        "SHIFT": s.shift or 0,
        "SCALE": float(np.float32(s.scale)),
        "SCALE_LOG2": float(np.float32(s.scale * math.log2(math.e))),
        "SWIZZLE": min(8, s.depth // 8),
        "WARPS": WARPS,
        "TM": 16 * WARPS,
        "TN": COLUMNS,
    }
    for strides, prefix in zip(s.strides, "QKVOG", strict=False):
        batch, head, row = strides
        names |= {f"{prefix}_BATCH": batch, f"{prefix}_HEAD": head, f"{prefix}_ROW": row}
    return names


def _forward(call: _Call) -> Routine | None:
    """Results, and a number for each row."""
    s = call.sizes
    if not supported(s.dtype, s.depth):
        return None
    places = (*call.arrays, call.stats)
    ours = hopper.known(s)
    plan = None if ours and hopper.faster(s) else dnn.plan(dnn.forward, s)
    if plan is not None:
        return Routine([Library(plan.run, (*places, scratch(0)))], (max(plan.workspace, 16),))
    if ours:
        launch = hopper.Launch(hopper.forward_of(s), s, (0, 1, 2))
        return Routine([Library(launch.run, places)])
    names = _names(s)
    tile, wide = 2 * s.depth * names["TM"], 2 * s.depth * names["TN"]
    blocks = ceil_div(s.rows, names["TM"]) * s.heads * s.batch
    dynamic = tile + 4 * wide
    run = Run(_module(stubs.forward, **names), blocks, 32 * WARPS, places, dynamic=dynamic)
    return Routine([run])


def _backward(call: _Call) -> Routine | None:
    """Gradients of queries, keys and values, where their operands are in theirs."""
    s = call.sizes
    if not supported(s.dtype, s.depth):
        return None
    plan = dnn.plan(dnn.backward, s)
    if plan is not None:
        places = (*call.arrays, call.stats, *call.grads, *map(scratch, range(3)))
        rooms = (*dnn.scratch_sizes(s), max(plan.workspace, 16))
        return Routine([Library(plan.run, places)], rooms)
    return _hopper_backward(call) if hopper.known(s) else _stub_backward(call)


def _hopper_backward(call: _Call) -> Routine:
    s, room = call.sizes, scratch(0)
    q, k, v, o, g = call.arrays
    dq, dk, dv = call.grads
    padded = hopper.padded(s.rows)
    count = padded * s.heads * s.batch
    code = _module(stubs.row_numbers, **_names(s), PADDED=padded)
    columns = hopper.Launch(hopper.backward_of(s, True), s, (1, 2, 0, 4))
    rows = hopper.Launch(hopper.backward_of(s, False), s, (0, 4, 1, 2))
    steps = [
        Run(code, ceil_div(count, 8), 256, (g, o, call.stats, room)),
        Library(columns.run, (k, v, q, g, room, dk, dv)),
        Library(rows.run, (q, g, k, v, room, dq)),
    ]
    return Routine(steps, (8 * count,))


def _stub_backward(call: _Call) -> Routine:
    s, room = call.sizes, scratch(0)
    names = _names(s)
    q, k, v, o, g = call.arrays
    dq, dk, dv = call.grads
    count = s.rows * s.heads * s.batch
    sums = Run(_module(stubs.row_products, **names), ceil_div(count, 8), 256, (g, o, room))
    common = (q, k, v, g, call.stats, room)
    tile = 2 * s.depth * names["TM"]
    narrow = names | {"TN": min(32, COLUMNS) if s.depth > 64 else COLUMNS}
    wide = 2 * s.depth * narrow["TN"]
    keys = Run(
        _module(stubs.keys_backward, **narrow),
        ceil_div(s.columns, names["TM"]) * s.shared * s.batch,
        32 * WARPS,
        (*common, dk, dv),
        dynamic=2 * tile + 2 * wide + 8 * narrow["TN"],
    )
    queries = Run(
        _module(stubs.queries_backward, **narrow),
        ceil_div(s.rows, names["TM"]) * s.heads * s.batch,
        32 * WARPS,
        (*common, dq),
        dynamic=2 * tile + 4 * wide,
    )
    return Routine([sums, keys, queries], (4 * count,))


# --- one row --------------------------------------------------------------------------------------


@lru(64)
def _row_module(threads: int, **names: Any) -> GpuModule:
    warps = threads // 32
    rooms = {"parts": 4 * warps * (names["D"] + 2), "flag": 16}
    sizes = {"THREADS": threads, "WARPS": warps}
    return module(row_stubs.decode, known_to(row_stubs.decode, names | sizes), rooms, (threads, 1))


def _lanes(depth: int, itemsize: int) -> tuple[int, int]:
    """How many lanes have a row, a power of 2, and how many elements each has of it."""
    vector = 16 // itemsize
    while 32 * vector < depth:
        vector *= 2
    return 1 << (ceil_div(depth, vector) - 1).bit_length(), vector


def _row_names(ins: list[Type], params: dict[str, Any], threads: int) -> dict[str, Any]:
    """What stubs of one row for each head are given, for blocks of so many threads."""
    (_, heads, shared, columns, depth), dtype = params["sizes"], ins[0].dtype
    lanes, vector = _lanes(depth, dtype.itemsize)
    steps = lanes.bit_length() - 1
    limited, shift = params["shift"] is not None, params["shift"] or 0
    names = {
        **accessors(dtype),
        "SIZE": dtype.itemsize,
        "D": depth,
        "VECTOR": vector,
        "HEADS": heads,
        "GROUP": heads // shared,
        "COLUMNS": columns,
        "LANES": lanes,
        "LANE_STEPS": steps,
        "COLUMN_STEPS": 5 - steps,
        "ACROSS": threads // lanes,
        "DEEP": ROW_COLUMNS,
        "LIMITED": int(limited),
        "LIMIT_BATCH": int(limited and math.prod(ins[3].shape) > 1),
        "SHIFT": shift,
        "MEAN": int(params["mean"]),
        "SCALE_LOG2": float(np.float32(params["scale"] * math.log2(math.e))),
    }
    for prefix, place in zip("QKV", params["places"], strict=True):
        words = (f"{prefix}_{word}" for word in ("OFFSET", "BATCH", "HEAD", "ROW"))
        names |= dict(zip(words, place, strict=True))
    apart = [n for place in params["places"] for n in place]
    whole = [math.prod(t.shape) for t in ins[:3]]
    names["ALIGNED"] = int(not any(n % vector for n in (depth, *apart, *whole)))
    return names


def _decoded(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    (batch, heads, _, columns, depth), dtype = params["sizes"], ins[0].dtype
    if not row_supported(dtype, depth, MIN_KEPT):
        return None
    total = batch * heads
    split = SMALLEST_RANGE * ceil_div(total * columns, SMALLEST_RANGE * ENOUGH_BLOCKS)
    ranges = ceil_div(columns, split)
    names = _row_names(ins, params, ROW_THREADS) | {"RANGE": split, "RANGES": ranges}
    counts = Place("state", np.zeros(total, np.uint32))
    limits = given(3) if params["shift"] is not None else given(0)
    places = (*map(given, range(3)), limits, made(0), scratch(0), counts)
    run = Run(_row_module(ROW_THREADS, **names), total * ranges, ROW_THREADS, places)
    return Routine([run], (4 * total * ranges * (depth + 2),))


@lru(16)
def _cluster_texts(threads: int, blocks: int, **names: Any) -> tuple[GpuModule, GpuModule]:
    warps, row = threads // 32, 4 * (names["D"] + 2)
    sizes = {"THREADS": threads, "WARPS": warps, "BLOCKS": blocks, "DEEP": 1}
    sizes["LINES"] = ceil_div(names["SIZE"] * names["D"], 128)
    rooms = {"parts": warps * row, "all": blocks * row}
    near = module(row_stubs.touch_head, names | sizes)
    return near, module(row_stubs.decode_head, names | sizes, rooms)


def part_of_attention(node: Any, blocks: int, threads: int) -> tuple[GpuModule, GpuModule] | None:
    """Texts by which a cluster of so many blocks has the attention of a head, of an operation that
    says how many columns are seen: a kernel of keys, values and that, which brings them near, and
    one of all operands and the result."""
    params = node.eqn.params
    ins = [Type(x.aval.shape, x.aval.dtype) for x in node.eqn.invars]
    depth, dtype = params["sizes"][-1], ins[0].dtype
    if params["shift"] is None or not row_supported(dtype, depth, MIN_KEPT):
        return None
    return _cluster_texts(threads, blocks, **_row_names(ins, params, threads))


# How a primitive's operands are described, and what computes it.
_CALLS: dict[str, Any] = {
    "attention": (_apart, _forward),
    "attention_backward": (_apart, _backward),
    "packed_attention": (_packed, _forward),
    "packed_attention_backward": (_packed, _backward),
}


def prepare(eqn: Any) -> None:
    """Have cuDNN begin to make what an equation will need, beside the rest of a compilation."""
    if eqn.primitive.name in _CALLS:
        describe, compute = _CALLS[eqn.primitive.name]
        ins = [Type(x.aval.shape, x.aval.dtype) for x in eqn.invars]
        s = describe(ins, eqn.params).sizes
        forward = compute is _forward
        if supported(s.dtype, s.depth) and not (forward and hopper.known(s) and hopper.faster(s)):
            dnn.begin(dnn.forward if forward else dnn.backward, s)


def _lowering(describe: Any, compute: Any) -> Any:
    def lowered(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
        return compute(describe(ins, params))

    return lowered


ROUTINES |= {name: _lowering(*functions) for name, functions in _CALLS.items()}
ROUTINES["decode_attention"] = _decoded
