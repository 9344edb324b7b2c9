"""Partial sums, products, extrema and sums of exponentials along an axis, in one pass over memory.

Where a row is long, or there are too few of them, it is cut into pieces of a fixed length: the
totals of pieces first, then what comes before each, then all partial results.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.routines import cumulative_stubs as stubs
from weft.backends.cpu.routines.cumulative_stubs import COLUMNS_AT_ONCE
from weft.backends.cpu.routines.logaddexp import native
from weft.backends.cpu.routines.registry import LOWERINGS
from weft.backends.llvm.native.processor import vector_bits
from weft.backends.llvm.tasks import Lowered, Place, Task
from weft.backends.llvm.text.stub import known_to, translate_main
from weft.base.sizes import plain
from weft.kernel.kinds import f16, kind_of, u16, u32, u64
from weft.kernel.nodes import BF16, F16, F32, F64, NARROW, is_float
from weft.kernel.program import Type

# Elements of a piece of a row, and of a unit of work at least.
ROW_CHUNK_ELEMENTS, MIN_UNIT_ELEMENTS = 1 << 15, 1 << 14
# Elements of a row up to which whole vectors of rows are taken apart into columns.
MAX_TRANSPOSED_ROW_ELEMENTS = 4
# Units of work that are enough without cutting rows.
ENOUGH_UNITS = 4


def names_for(op: str, dtype: np.dtype, reverse: bool) -> dict[str, Any]:
    """What stubs are given for an operation on elements of a dtype."""
    work = F32 if dtype in NARROW else dtype
    kind, lanes = kind_of(work), vector_bits() // (8 * work.itemsize)
    narrow = u16 if dtype == BF16 else f16 if dtype == F16 else kind
    low, high = -np.inf, np.inf
    if not is_float(work):
        low, high = np.iinfo(work).min, np.iinfo(work).max
    identity = {"add": 0, "mul": 1, "min": high}.get(op, low)
    names: dict[str, Any] = {"F": kind, "V": kind.of(lanes), "N": narrow, "NV": narrow.of(lanes)}
    names |= {"OP": getattr(stubs, op.upper()), "IDENTITY": identity, "REVERSE": reverse}
    names |= {"FLOATS": is_float(work), "BFLOATS": dtype == BF16, "W": u32 if dtype != F64 else u64}
    names |= {"LANES": lanes, "LAST": [0 if reverse else lanes - 1] * lanes}
    ahead = [step if reverse else -step for step in (1, 2, 4, 8, 16, 32) if step < lanes]
    # lanes from the first operand's number on are the identity
    names["SHIFTS"] = [
        [i + step if 0 <= i + step < lanes else lanes for i in range(lanes)] for step in ahead
    ]
    names |= {"N_SIZE": dtype.itemsize, "F_SIZE": work.itemsize}
    several = op == "logaddexp"
    names["logaddexp"] = native(work, 1) if several else None
    names["logaddexp_lanes"] = native(work, lanes) if several else None
    return names


def picked(lanes: int, places: list[int]) -> list[Any]:
    """Which lanes of which vectors, one after the other, are at some places in all of them."""
    first, *others = sorted({p // lanes for p in places})
    found: list[Any] = [
        (first, [lanes + p % lanes if p // lanes == first else None for p in places])
    ]
    for k in others:
        order = [lanes + p % lanes if p // lanes == k else i for i, p in enumerate(places)]
        found.append((k, order))
    return found


def orders(length: int, lanes: int, reverse: bool) -> dict[str, Any]:
    """What turns vectors of very short rows into vectors of their columns, and back."""
    numbers = range(lanes * length)
    across = [n % length * lanes + n // length for n in numbers]
    columns = [(k, picked(lanes, list(numbers[k::length]))) for k in range(length)]
    rows = [(k, picked(lanes, across[k * lanes :][:lanes])) for k in range(length)]
    return {"LENGTH": length, "TO_COLUMNS": columns[:: -1 if reverse else 1], "TO_ROWS": rows}


def lower(op: str, t: Type, axis: int, reverse: bool) -> Lowered | None:
    """The tasks of partial results along an axis."""
    dtype = t.dtype
    outer, length, inner = prod(t.shape[:axis]), t.shape[axis], prod(t.shape[axis + 1 :])
    if not outer * length * inner:
        return None
    if dtype.kind == "c" and op == "add":
        dtype, inner = np.dtype(f"f{dtype.itemsize // 2}"), 2 * inner
    if dtype.kind not in "iuf" and dtype != BF16:
        return None
    if op == "logaddexp" and dtype.kind in "iu":
        return None
    blocks = 1 if inner == 1 else -(-inner // COLUMNS_AT_ONCE)
    width = min(inner, COLUMNS_AT_ONCE)
    size, pieces = length, 1
    if outer * blocks < ENOUGH_UNITS and length * width >= 4 * ROW_CHUNK_ELEMENTS:
        size = max(1, ROW_CHUNK_ELEMENTS // width)
        pieces = -(-length // size)
    names = names_for(op, dtype, reverse)
    names |= {"OUTER": outer, "LENGTH": length, "INNER": inner, "BLOCKS": blocks}
    names |= {"PIECE": size, "PIECES": pieces, "CUT": pieces > 1, "WIDE": blocks > 1}
    names |= {"BEFORE": 0, "TOTALS": 0}

    def task(main: Any, places: tuple[Place, ...], extent: int, chunk: int, **more: Any) -> Task:
        text = translate_main(main, known_to(main, names | more), loop=True)
        return Task(text, main.__name__, places, extent, chunk)

    ins, lanes = (Place("in", 0), Place("out", 0)), names["LANES"]
    if inner == 1 < length <= MAX_TRANSPOSED_ROW_ELEMENTS and outer >= lanes:
        groups, chunk = -(-outer // lanes), MIN_UNIT_ELEMENTS // (plain(length) * lanes)
        names |= orders(int(length), lanes, reverse)
        return Lowered([task(stubs.scan_short, ins, groups, chunk)])
    units = outer * pieces * blocks
    chunk = max(1, MIN_UNIT_ELEMENTS // plain(size * width))
    main = stubs.scan_rows if inner == 1 else stubs.scan_columns
    if pieces == 1:
        return Lowered([task(main, ins, units, chunk)])
    before = Place("scratch", 0)
    tasks = [
        task(main, (Place("in", 0), before), units, chunk, TOTALS=True),
        task(stubs.offsets, (before,), outer * inner, 1),
        task(main, (*ins, before), units, chunk, BEFORE=True),
    ]
    return Lowered(tasks, (outer * pieces * inner * names["F_SIZE"],))


def lowering(op: str) -> Callable[..., Lowered | None]:
    """The function that lowers partial results of an operation."""

    def found(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
        return lower(op, ins[0], params["axis"], params["reverse"])

    return found


LOWERINGS.update(
    cumsum=lowering("add"),
    cumprod=lowering("mul"),
    cummax=lowering("max"),
    cummin=lowering("min"),
    cumlogsumexp=lowering("logaddexp"),
)
