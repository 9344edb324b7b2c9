"""Reductions over sliding windows, and the selections that differentiate their extrema, as native
tasks. Every result is computed by one thread, in the order of its window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, product
from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.routines.contractions.contraction import Plan, blocks, unknown
from weft.backends.cpu.routines.contractions.conv_text import Axis, Clip, Contraction, Dim
from weft.backends.cpu.routines.contractions.lines import Line, lines
from weft.backends.cpu.routines.contractions.rules import Rule
from weft.backends.cpu.routines.contractions.tiles import VECTORS, Role, choose
from weft.backends.cpu.routines.registry import LOWERINGS
from weft.backends.cpu.sizes import named
from weft.backends.llvm.native.processor import registers, vector_bits
from weft.backends.llvm.tasks import Lowered, Place
from weft.base.record import Record
from weft.base.sizes import Size, is_one, is_writing
from weft.kernel.nodes import BF16, BOOL, F16, F32, I32
from weft.kernel.program import Type, contiguous

# Elements that one piece of work should at least read.
CHUNK = 1 << 14
# How many reads of a window are written out one after another.
MAX_UNROLLED_READS = 64
# Fewer rows than this are cut into pieces of at least so many results.
ENOUGH_ROWS = 64
MIN_CHUNK_RESULTS = 4096
# Tiles of a row of which the last may have many results of the one before it.
MANY_TILES = 16
# Elements of the last axis that are too few for vectors along it.
MAX_SCALAR_ELEMENTS = 6
# Strides that a text for other shapes knows are below this.
MIN_NAMED_STRIDE = 64
# Elements of windows from which on sums may be done one axis after another, to other last bits.
MIN_SEPARABLE_ELEMENTS = 36


class Window(Record):
    """Windows along an axis, as ``lines`` takes them."""

    taps: int = 1
    stride: int = 1
    low: int = 0
    base: int = 1
    dilation: int = 1


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


def windows_of(params: dict[str, Any]) -> list[Window]:
    """The windows along every axis."""
    dims = params["window_dimensions"]
    lows = [low for low, _ in params["padding"]]
    holes = [params.get(f"{name}_dilation") or (1,) * len(dims) for name in ("base", "window")]
    return list(map(Window, dims, params["window_strides"], lows, *holes))


def slides(shape: Sequence[int], out: Sequence[int], windows: list[Window]) -> list[list[Line]]:
    """The windows of every part of a result between whose elements no holes of the base lie."""
    along = []
    sources, targets = contiguous(shape), contiguous(out)
    for n, results, source, to, w in zip(shape, out, sources, targets, windows, strict=True):
        along.append([x.placed(n, source, to, w.taps) for x in lines(results, *w)])
    return [joined(part) for part in product(*along)]


def joined(part: Sequence[Line]) -> list[Line]:
    """The same windows by fewer axes: neighbours along which none moves are one, and so are an axis
    along which windows move by steps of one and a few elements at each of its places."""
    out: list[Line] = []
    for i, s in enumerate(part):
        if not out or not s.still or s.window != 1:
            out.append(s)
            continue
        o, n, last = out[-1], s.size, i == len(part) - 1
        first = o.first + s.first
        follow = o.source == n * s.source and o.step == n * s.step
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
                step=s.step,
                first=first,
            )
        else:
            out.append(s)
    return out


class Windows(Plan):
    """Contractions over windows: rows of results lie along the last axis, where vectors are."""

    def sweep(
        self, slides: Sequence[Line], rule: Rule, places: Sequence[Place], out: np.dtype
    ) -> None:
        """The task of a rule over windows; places are its operands and the result."""
        *outer, last = slides
        chosen = rule.does == "chosen"  # taps are counted backwards, and parts have the same text
        name, values = _names(slides, chosen)
        # Either all windows are whole or any may not be, so that there are not many texts: any may
        # not in a part of a result between whose elements others lie.
        part = any(s.tap_step > 1 for s in slides)
        each = not is_writing() or (not part and all(s.whole for s in slides if s.window > 1))
        wholes = [s.whole and (each or s.window == 1) for s in slides]
        lanes = vector_bits() // 8 // max(4, *[t.itemsize for t in (*rule.types, *rule.kinds)])
        taps = prod([s.taps for s in slides])
        start, target = (sum(n) for n in zip(*[(s.start * s.source, s.first) for s in slides]))
        stride, to = last.stride * last.source, name(last.step, MIN_NAMED_STRIDE)
        numbers = [(1 - 2 * chosen) * n for n in contiguous(tuple([s.window for s in slides]))]
        tap = sum([s.tap * n for s, n in zip(slides, numbers, strict=True)])
        tap = name(tap + prod([s.window for s in slides]) - 1) if chosen else tap

        def dims(first: int, whole: bool) -> Iterator[Dim]:
            """Those of taps, for results from one of each row on."""
            for i, (s, number) in enumerate(zip(slides, numbers, strict=True)):
                inside = whole if s is last else wholes[i]
                if not inside or s.taps != 1:
                    begin = s.start + first * s.stride if s is last else s.start
                    axis = -1 if s is last else i
                    clip = Clip(axis, name(begin), s.stride, s.dilation, name(s.length))
                    known = inside and s.taps * VECTORS[-1] <= MAX_UNROLLED_READS
                    step = name(s.dilation * s.source, MIN_NAMED_STRIDE)
                    taps = s.taps if known else name(s.taps)
                    yield Dim(taps, step, step, s.tap_step * number, None if inside else clip)

        def tiles(first: int, count: int, pieces: Any, whole: bool = True) -> Contraction:
            """Tiles of results from one of each row on, whose windows are whole along it or not."""
            wide = sum(pieces[-1])
            many = blocks(count, wide)
            many = many if whole and is_one(many) else name(many)
            at = name(start + first * stride)
            pieces = tuple([(name(n) if type(n) is Size else n, width) for n, width in pieces])
            return Contraction(
                rule.kinds[-1],
                out,
                (Axis(many, wide, many if is_one(wide) else name(count), stride, stride, to),),
                (),
                Dim(wide, stride, stride, to),
                pieces,
                tuple(dims(first, whole)),
                at,
                at,
                name(target + first * last.step),
                registers(),
                unrolled=MAX_UNROLLED_READS,
                rule=rule,
                tap=tap,
            )

        begin, stop = last.middle()
        row = [(begin + n, *given) for n, *given in row_of(last, stop - begin, lanes, taps)]
        if not wholes[-1]:
            ends = ((0, begin), (stop, last.size - stop))
            row += [(n, count, ((0, 1),), False) for n, count in ends if count or is_writing()]
        rows = prod([s.size for s in outer])
        together = bool(outer) and rows // outer[-1].size >= ENOUGH_ROWS
        extent = rows // outer[-1].size if together else rows
        run = run_of(row[0], rows) if last.step == 1 else 0
        main, *more = [tiles(*given) for given in row]
        axes = []
        for s in outer:
            size, moved = name(s.size), name(s.stride * s.source, MIN_NAMED_STRIDE)
            axes.append(Axis(size, 1, size, moved, moved, name(s.step, MIN_NAMED_STRIDE)))
        if run:
            extent *= blocks(row[0][1], run * main.grid[0].step)
        main = main._replace(
            grid=(*(axes or [Axis(1, 1, 1, 0, 0, 0)]), *main.grid),
            run=run and name(run),
            together=together,
            more=tuple(more),
        )
        chunk = CHUNK // max(1, prod([s.taps * s.size for s in slides]) // extent)
        given = (places[0], places[-2], places[-1])
        self.contract(main, given, extent, max(1, chunk), values=values)


def _names(slides: Sequence[Line], shared: bool) -> Any:
    """What gives names to numbers that a text need not know, where it serves other shapes or is
    ``shared``, and the values of these."""
    size = next((n for s in slides for n in s if type(n) is Size), None)
    values: dict[str, int] = {}
    numbers = count()

    def name(n: Any, least: int | None = None) -> Any:
        if least is not None and type(n) is int and n < least:
            return n
        if is_writing():
            return n if size is None else unknown(n, next(numbers), size)
        return named(n, values, n) if shared else n

    return name, values


def run_of(tiles: Any, rows: int) -> int:
    """How many tiles of a row an item has where there are few rows, or 0 for all."""
    _, count, pieces, *_ = tiles
    wide = sum(pieces[-1])
    run = blocks(max(MIN_CHUNK_RESULTS, count * rows // ENOUGH_ROWS), wide)
    return run if rows < ENOUGH_ROWS and count >= 2 * run * wide else 0


def row_of(last: Line, count: int, lanes: int, taps: int) -> list[Any]:
    """The tiles of so many results of a row, each of so many taps: where some begin, how many
    results they have, and their vectors. The last vector may begin earlier than where the one
    before it ends."""
    if not count:
        return []
    size = vector_bits() // 8 // lanes
    if last.stride > 2:  # reads are many, so that few elements should be read twice
        lanes = min(lanes, 4 if count < ENOUGH_ROWS else 8)
    width = min(lanes, 1 << max(0, count.bit_length() - 1))
    wide = width * VECTORS[-1]
    if not is_writing():
        moves = last.stride * last.source
        roles = [Role("o", count, "o", moves, 0, 1), Role("t", taps, "t", last.source, 0, 0)]
        wide = choose(roles, "o", width, size).width

    def vectors(count: int) -> Any:
        many = int(blocks(count, width))
        tail = width // 2 if many > 1 and 2 * (count - (many - 1) * width) <= width else width
        return (*[(i * width, width) for i in range(many - 1)], (count - tail, tail))

    if count <= wide:
        return [(0, count, vectors(count))]
    if is_writing() or count >= MANY_TILES * wide:
        return [(0, count, vectors(wide))]
    rest = count % wide
    found = [(0, count - rest, vectors(wide))]
    if rest:
        rest = max(rest, width)
        found.append((count - rest, rest, vectors(rest)))
    return found


def _whole(shape: Sequence[int]) -> bool:
    return 0 < len(shape) and 0 < prod(shape)


def reduce_window(kind: str) -> Any:
    """The lowering of sums or extrema."""

    def lower(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
        (shape, dtype), (result, _) = ins[0][:2], outs[0][:2]
        windows, least = windows_of(params), dtype == BOOL and kind == "min"
        if dtype == BOOL:  # bytes that are zero or one
            dtype = np.dtype(np.uint8)
        if dtype.kind == "c":  # pairs of numbers, along which no window moves
            dtype = np.dtype(f"f{dtype.itemsize // 2}")
            shape, result, windows = (*shape, 2), (*result, 2), [*windows, Window()]
        work = _working(dtype)
        if not prod(result):
            return Lowered([])
        if work is None or not _whole(shape):
            return None
        identity = bytes(work.itemsize) if kind == "sum" else _end(work, kind)
        identity = b"\1" if least else identity
        plan = Windows(work, "window")
        steps = [(shape, result, windows)]
        if kind != "sum" or prod([w.taps for w in windows]) >= MIN_SEPARABLE_ELEMENTS:
            steps = _apart(shape, result, windows) or steps
        have, place = dtype, Place("in", 0)
        for i, (before, after, one) in enumerate(steps):
            last = i == len(steps) - 1
            rule = Rule(kind, ("left",), (have,), (work,), identity)
            have = dtype if last else work
            target = Place("out", 0) if last else plan.memory(prod(after) * work.itemsize)
            for part in slides(before, after, one):
                plan.sweep(part, rule, (place, target), have)
            place = target
        return plan.lowered()

    return lower


def _apart(shape: Sequence[int], result: Sequence[int], windows: list[Window]) -> list[Any]:
    """Large windows that overlap, one axis after another: shapes before and after, and windows.

    The last axis is the first, so that of equal extrema it is still the first one that is found.
    """
    if any(w.base > 1 for w in windows):
        return []
    before, steps, cost = tuple(shape), [], 0
    for i, w in reversed(list(enumerate(windows))):
        after = (*before[:i], result[i], *before[i + 1 :])
        if w.taps == 1 and after == before:
            continue
        steps.append((before, after, [w if w is v else Window() for v in windows]))
        before = after
        cost += prod(after) * (w.taps + 2)  # what is between is written and read
    return steps if 3 * cost < 2 * prod(result) * prod([w.taps for w in windows]) else []


def _extremum(params: dict[str, Any]) -> str:
    """Which one is selected."""
    return "max" if params["select_prim"].name == "ge" else "min"


def select_and_gather_add(
    ins: list[Type], outs: list[Type], params: dict[str, Any]
) -> Lowered | None:
    """Tasks that take the first operand where the second has its extrema."""
    (g, x), (out,) = ins, outs
    kind, windows = _extremum(params), windows_of(params)
    work = _working(x.dtype)
    if not prod(out.shape):
        return Lowered([])
    if work is None or g.dtype.itemsize > 8 or not _whole(x.shape):
        return None
    bits = np.dtype(f"u{g.dtype.itemsize}")  # it is moved, not computed with
    rule = Rule(kind, ("left", "right"), (x.dtype, bits), (work, bits), _end(work, kind))
    plan, places = Windows(work, "window"), [Place("in", 1), Place("in", 0), Place("out", 0)]
    for part in slides(x.shape, out.shape, windows):
        plan.sweep(part, rule, places, bits)
    return plan.lowered()


def select_and_scatter_add(
    ins: list[Type], outs: list[Type], params: dict[str, Any]
) -> Lowered | None:
    """Tasks that find the tap each window chooses, and sum for each element its windows."""
    (source, x), _ = ins, outs
    kind, windows = _extremum(params), windows_of(params)
    work, total = _working(x.dtype), _working(source.dtype)
    if not prod(x.shape):
        return Lowered([])
    if work is None or total is None or not _whole(source.shape):
        return None
    plan = Windows(work, "window")
    taps = plan.memory(4 * prod(source.shape))
    rule = Rule(kind, ("left", "out"), (x.dtype,), (work, I32), _end(work, kind))
    (part,) = slides(x.shape, source.shape, windows)
    plan.sweep(part, rule, [Place("in", 1), taps], I32)
    types, zero = (source.dtype, I32), bytes(total.itemsize)
    rule = Rule("chosen", ("left", "right", "out"), types, (total,), zero)
    places = [Place("in", 0), taps, Place("out", 0)]
    # The windows that hold an element, as a window over them: its taps are theirs backwards.
    holding = [Window(w.taps, 1, w.taps - 1 - w.low, w.stride) for w in windows]
    for part in slides(source.shape, x.shape, holding):
        plan.sweep(part, rule, places, source.dtype)
    return plan.lowered()


for _kind in ("sum", "max", "min"):
    LOWERINGS[f"reduce_window_{_kind}"] = reduce_window(_kind)
for _lowering in (select_and_gather_add, select_and_scatter_add):
    LOWERINGS[_lowering.__name__] = _lowering
