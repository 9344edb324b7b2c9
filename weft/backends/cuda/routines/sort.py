"""Sorts, partitions and the largest elements of rows by radix sorts."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.backends.cuda import ptx
from weft.backends.cuda.routines.base import (
    ROUTINES,
    Fill,
    Place,
    Routine,
    Run,
    bits_kind,
    ceil_div,
    given,
    made,
    module,
    scratch,
)
from weft.backends.cuda.routines.stubs import largest_stubs, sort_stubs
from weft.backends.llvm.code import Effort
from weft.backends.llvm.text.stub import known_to
from weft.base.functional import lru
from weft.kernel.kinds import u32, u64
from weft.kernel.nodes import BF16, F16, is_float
from weft.kernel.program import Type

# Warps of a block, and keys of a thread; half as many of 8 bytes.
WARPS, ITEMS = 8, 16
# Keys of all rows, and rows, from which threads have half as many keys, or all; fewer take shorter
# texts, which are assembled sooner, and more threads. Keys of a thread at least.
SOME_KEYS, MANY_KEYS, MANY_ROWS, FEWEST_ITEMS = 1 << 18, 1 << 22, 256, 4
# Blocks of a multiprocessor, where they have keys alone: more have too few registers.
RESIDENT = 3
# Counters that lanes have of a digit, for all passes, and blocks that count.
COUNTERS, COUNTING = 32, 512
# Tiles before its own that a block looks at together; more take registers.
AHEAD = 4
# Keys of a row up to which lanes of a warp share it, and rows from which all processors are busy.
SHORT, SHORT_ROWS = 128, 256
# Elements that are kept of a row, and of all that are read for them, up to which they are looked
# for one by one; keys of a row for the warps that share it.
MAX_KEPT, MAX_READ = 16, 1 << 19
_SHARED_BY = ((512, 1), (8192, 8), (1 << 31, 32))
_U8 = np.dtype(np.uint8)
# Keys are those of 1, 2, 4 and 8 bytes.
_SIZES = (1, 2, 4, 8)


class Scratch:
    """Pieces of scratch memory while they are asked for."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def new(self, size: int) -> Place:
        self.sizes.append(size)
        return scratch(len(self.sizes) - 1)


def key_names(dtype: np.dtype, descending: bool = False, exact: bool = False) -> dict[str, Any]:
    """What stubs are told of keys; ``exact`` keeps zeros of both signs and NaNs apart."""
    size = dtype.itemsize
    bits = 8 * size
    names: dict[str, Any] = {"K": bits_kind(dtype), "W": u64 if size == 8 else u32}
    kind = sort_stubs.UNSIGNED
    if is_float(dtype) or dtype.kind == "f":
        kind = sort_stubs.FLOAT
    elif dtype.kind == "i":
        kind = sort_stubs.SIGNED
    names |= {"KIND": kind, "EXACT": int(exact), "DESCENDING": int(descending), "BITS": bits}
    names |= {
        "TOP": bits - 1,
        "SIGN": 1 << (bits - 1),
        "MOST": (1 << (bits - 1)) - 1,
        "INFINITE": 0,
        "UNKNOWN": 0,
    }
    if kind == sort_stubs.FLOAT:
        view = np.dtype(f"u{size}")
        names["INFINITE"] = int(np.array(np.inf, dtype).view(view))
        names["UNKNOWN"] = int(abs(np.array(np.nan, dtype)).view(view)) & names["MOST"]
    return names


@lru(256)
def _module(main: Any, **names: Any) -> ptx.GpuModule:
    size = 8 if names.get("W") is u64 else 4
    tile = names.get("TILE", 0)
    rooms = {"counters": 1024 * names.get("WARPS", 1), "starts": 1024, "offsets": 1024}
    rooms |= {"kept_keys": size * tile, "kept_values": 4 * tile}
    if main is sort_stubs.count_digits:
        rooms = {"counters": 1024 * COUNTERS}
    several = size == 4 and names.get("VALUES") == 0 and names.get("WARPS") == WARPS
    made = module(main, known_to(main, names), rooms, (32 * WARPS, RESIDENT) if several else None)
    few = names.get("LENGTH", 1) < ptx.BRIEF_ELEMENTS
    return made.with_effort(Effort.INLINE) if few else made


def _each(main: Any, count: int, places: tuple[Place, ...], **names: Any) -> Run:
    """A kernel with a thread for each of some elements."""
    return Run(_module(main, **names), ceil_div(count, 256), 256, places)


def items_of(rows: int, length: int, size: int) -> int:
    """Keys of a thread, of rows of a length and keys of so many bytes.

    >>> [items_of(1, n, 4) for n in (1000, 2000, 4000, 100_000, 10**6)]
    [4, 8, 16, 4, 8]
    """
    most = ITEMS // 2 if size == 8 else ITEMS
    block = 32 * WARPS
    if rows * length >= MANY_KEYS or rows >= MANY_ROWS:
        return most
    if length > block * most:
        return FEWEST_ITEMS if rows * length < SOME_KEYS else most // 2
    items = FEWEST_ITEMS
    while block * items < length:
        items *= 2
    return items


def sort_rows(
    room: Scratch,
    keys: Place,
    values: Place | None,
    rows: int,
    length: int,
    names: dict[str, Any],
    numbered: bool = False,
    target: Place | None = None,
    bits: int = 0,
    moved: Place | None = None,
) -> tuple[list[Any], Place, Place]:
    """Steps that sort rows of keys with words of 4 bytes, or with their numbers in the row; also
    where the sorted keys and values are then: ``target`` and ``moved``, if given."""
    size = names["BITS"] // 8
    carries = values is not None or numbered
    which = 2 if numbered else int(carries)
    items = items_of(rows, length, size)
    warps = WARPS
    while warps > 1 and 16 * warps * items >= length:
        warps //= 2
    bits = bits or names["BITS"]
    common = {**names, "LENGTH": length, "BITS": bits, "ITEMS": items, "VALUES": which}
    none = keys
    if length <= SHORT and (length <= 32 or rows >= SHORT_ROWS):
        span = min(32, 1 << (length - 1).bit_length())
        names = {**common, "BITS": names["BITS"], "ITEMS": ceil_div(length, span)}
        names |= {"SPAN": span, "ROWS": rows}
        new_keys = target or room.new(rows * length * size)
        new_values = moved or (room.new(rows * length * 4) if carries else none)
        places = (keys, values or none, new_keys, new_values)
        step = _each(sort_stubs.sort_short, rows * span, places, **names)
        return [step], new_keys, new_values
    if length <= 32 * WARPS * items:
        common |= {"WARPS": warps, "TILE": 32 * warps * items}
        new_keys = target or room.new(rows * length * size)
        new_values = moved or (room.new(rows * length * 4) if carries else none)
        code = _module(sort_stubs.sort_block, **common)
        places = (keys, values or none, new_keys, new_values)
        return [Run(code, rows, 32 * warps, places)], new_keys, new_values
    tile = 32 * WARPS * items
    tiles = ceil_div(length, tile)
    passes = ceil_div(bits, 8)
    common |= {"WARPS": WARPS, "TILE": tile, "TILES": tiles, "PASSES": passes, "AHEAD": AHEAD}
    counted, told = 1024 * rows * passes, 2048 * rows * tiles
    counts = room.new(counted + told)
    state = scratch(counts.what, counted)
    per = ceil_div(rows * tiles, COUNTING)
    parts = ceil_div(tiles, per)
    lanes = min(8, COUNTERS // passes)
    code = _module(sort_stubs.count_digits, **common, PER=per, PARTS=parts, LANES=lanes)
    counting = Run(code, rows * parts, 32 * WARPS, (keys, counts))
    steps: list[Any] = [Fill(counts, 0, counted + told), counting]
    other = room.new(rows * length * size)
    last = target or room.new(rows * length * size)
    pairs = [none, none]
    if carries:
        pairs = [room.new(rows * length * 4), moved or room.new(rows * length * 4)]
    now_keys, now_values = keys, values or none
    for i in range(passes):
        shift = (8 * i,)
        to_keys = last if (passes - i) % 2 else other
        to_values = pairs[(passes - i) % 2]
        code = _module(sort_stubs.move_digits, **common)
        six = (now_keys, now_values, counts, state, to_keys, to_values)
        steps.append(Run(code, rows * tiles, 32 * WARPS, six, shift))
        now_keys, now_values = to_keys, to_values
        if numbered:
            common["VALUES"] = 1
    return steps, now_keys, now_values


def _parts(t: Type) -> list[tuple[np.dtype, int, int]] | None:
    """The keys of an element, most significant first: dtype, how many there are, which it is."""
    if t.dtype.kind == "c":
        part = np.dtype(f"f{t.dtype.itemsize // 2}")
        return [(part, 2, 0), (part, 2, 1)]
    if t.dtype.kind in "biuf" or t.dtype in (BF16, F16):
        return [(t.dtype, 1, 0)] if t.dtype.itemsize in _SIZES else None
    return None


def ordering(
    room: Scratch, parts: list[Any], dims: tuple[int, int, int], **options: Any
) -> tuple[list[Any], Place]:
    """Steps that find the stable order of rows by several keys, each a place and what it is."""
    outer, length, inner = dims
    rows = outer * inner
    steps: list[Any] = []
    order: Place | None = None
    for place, (dtype, stride, part) in reversed(parts):
        names = key_names(dtype, **options)
        if inner > 1 or stride > 1 or order is not None:
            pulled = room.new(rows * length * dtype.itemsize)
            told = {"LENGTH": length, "INNER": inner, "STRIDE": stride, "PART": part, "ROWS": rows}
            told |= {"K": names["K"], "PERMUTED": int(order is not None)}
            places = (place, order or place, pulled)
            steps.append(_each(sort_stubs.pull_keys, rows * length, places, **told))
            place = pulled
        more, _, order = sort_rows(room, place, order, rows, length, names, order is None)
        steps += more
    assert order is not None
    return steps, order


def _push(t: Type, number: int, order: Place, out: Place, dims: Any, kept: int) -> Run:
    outer, length, inner = dims
    size = min(t.dtype.itemsize, 8)
    copies = t.dtype.itemsize // size
    told = {"LENGTH": length, "INNER": inner, "ROWS": outer * inner, "KEPT": kept}
    told |= {"K": bits_kind(np.dtype(f"u{size}")), "COPIES": copies}
    count = outer * inner * kept * copies
    return _each(sort_stubs.push_elements, count, (given(number), order, out), **told)


def _dims(shape: Any, axis: int) -> tuple[int, int, int]:
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def _fits(ins: list[Type]) -> bool:
    sizes = (1, 2, 4, 8, 16)
    return prod(ins[0].shape) < 1 << 31 and all(t.dtype.itemsize in sizes for t in ins)


def sort(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    dims = _dims(ins[0].shape, params["dimension"])
    outer, length, inner = dims
    keys = [(given(i), _parts(ins[i])) for i in range(params["num_keys"])]
    if not _fits(ins) or any(parts is None for _, parts in keys):
        return None
    room = Scratch()
    first = keys[0][1]
    if len(ins) == 1 and inner == 1 and first is not None and len(first) == 1:
        names = key_names(first[0][0])
        steps, _, _ = sort_rows(room, given(0), None, outer, length, names, target=made(0))
        return Routine(steps, tuple(room.sizes))
    if len(keys) == 1 and inner == 1 and first is not None and len(first) == 1:
        return _with_key(ins, dims, key_names(first[0][0]))
    flat = [(place, part) for place, parts in keys for part in parts or ()]
    steps, order = ordering(room, flat, dims)
    steps += [_push(t, i, order, made(i), dims, length) for i, t in enumerate(ins)]
    return Routine(steps, tuple(room.sizes))


def _with_key(ins: list[Type], dims: Any, names: dict[str, Any]) -> Routine:
    """A sort by one key, which is sorted itself; one more operand of 4 bytes goes with it, several
    are brought where the numbers of their elements have gone."""
    outer, length, _ = dims
    room = Scratch()
    if len(ins) == 2 and ins[1].dtype.itemsize == 4:
        told = outer, length, names
        steps, _, _ = sort_rows(room, given(0), given(1), *told, target=made(0), moved=made(1))
        return Routine(steps, tuple(room.sizes))
    steps, _, order = sort_rows(room, given(0), None, outer, length, names, True, made(0))
    rest = list(enumerate(ins))[1:]
    steps += [_push(t, i, order, made(i), dims, length) for i, t in rest]
    return Routine(steps, tuple(room.sizes))


def _largest(x: Type, axis: int, kept: int, **options: Any) -> Routine | None:
    parts = _parts(x)
    if parts is None or not _fits([x]):
        return None
    room, dims = Scratch(), _dims(x.shape, axis)
    outer, length, inner = dims
    if not kept or not outer * inner:
        return Routine([])
    if len(parts) == 1 and x.dtype.itemsize <= 4 and _are_few(kept, length):
        return Routine([_one_by_one(x.dtype, dims, kept, **options)])
    steps, order = ordering(room, [(given(0), parts[0])], dims, **options)
    steps.append(_push(x, 0, order, made(0), dims, kept))
    told = {"LENGTH": length, "INNER": inner, "ROWS": outer * inner, "KEPT": kept}
    count = outer * inner * kept
    steps.append(_each(sort_stubs.push_places, count, (order, made(1)), **told))
    return Routine(steps, tuple(room.sizes))


def _are_few(kept: int, length: int) -> bool:
    """Whether it takes less time to look for elements one by one than to sort their row."""
    return kept <= MAX_KEPT and kept * length <= MAX_READ


def _one_by_one(dtype: np.dtype, dims: tuple[int, int, int], kept: int, **options: Any) -> Run:
    outer, length, inner = dims
    rows = outer * inner
    warps = next(warps for most, warps in _SHARED_BY if length <= most)
    each = WARPS if warps == 1 else 1
    names = key_names(dtype, **options)
    names |= {"LENGTH": length, "INNER": inner, "ROWS": rows, "KEPT": kept}
    names |= {"WARPS": warps, "EACH": each}
    code = _largest_module(**names)
    places = (given(0), made(0), made(1))
    return Run(code, ceil_div(rows, each), 32 * warps * each, places)


@lru(256)
def _largest_module(**names: Any) -> ptx.GpuModule:
    main = largest_stubs.keep_largest
    return module(main, known_to(main, names), {"found": 8 * 32})


def top_k(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    return _largest(ins[0], params["axis"], params["k"], descending=True, exact=True)


def approx_top_k(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    axis = params["reduction_dimension"] % len(ins[0].shape)
    kept = outs[0].shape[axis]
    if kept > ins[0].shape[axis]:
        return None
    return _largest(ins[0], axis, kept, descending=params["is_max_k"])


def partition(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    """The key of the place is found by sorting; then a sort by less, equal and more."""
    parts = _parts(ins[0])
    if parts is None or len(parts) > 1 or not _fits(ins):
        return None
    room, dims = Scratch(), _dims(ins[0].shape, len(ins[0].shape) - 1)
    rows, length, _ = dims
    names = key_names(ins[0].dtype)
    steps, ordered, _ = sort_rows(room, given(0), None, rows, length, names)
    which = room.new(rows * length)
    told = {**names, "LENGTH": length, "ROWS": rows, "KEPT": params["kth"]}
    places = (given(0), ordered, which)
    steps.append(_each(sort_stubs.split_keys, rows * length, places, **told))
    more, _, order = sort_rows(room, which, None, rows, length, key_names(_U8), True)
    steps += more
    steps += [_push(t, i, order, made(i), dims, length) for i, t in enumerate(ins)]
    return Routine(steps, tuple(room.sizes))


ROUTINES |= {
    "sort": sort,
    "top_k": top_k,
    "approx_top_k": approx_top_k,
    "partition": partition,
}
