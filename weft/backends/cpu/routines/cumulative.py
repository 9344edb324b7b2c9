"""Partial sums, products, extrema and sums of exponentials along an axis, in one pass over memory.

Where a row is long, or there are too few of them, it is cut into pieces of a fixed length: the
totals of pieces first, then what comes before each, then all partial results.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.backends.cpu.native.processor import vector_bits
from weft.backends.cpu.routines.logaddexp import add_function
from weft.backends.cpu.routines.registry import LOWERINGS
from weft.backends.cpu.routines.sorting.network import shuffle
from weft.backends.cpu.routines.writer import Function, Module, Number, kernel
from weft.base.record import Record
from weft.base.sizes import plain
from weft.kernel.program import Lowered, Place, Task, Type

# Elements of a piece of a row, of a unit of work at least, and columns that are read together.
ROW_CHUNK_ELEMENTS, MIN_UNIT_ELEMENTS, COLUMNS_AT_ONCE = 1 << 15, 1 << 14, 512
# Elements of a row up to which whole vectors of rows are taken apart into columns.
MAX_TRANSPOSED_ROW_ELEMENTS = 4
# Units of work that are enough without cutting rows.
ENOUGH_UNITS = 4
_FLOATS = {2: "half", 4: "float", 8: "double"}
_SUFFIXES = {"float": "f32", "double": "f64"}


class Shape(Record):
    """Outer rows, the length of the axis, and elements beside each other."""

    outer: int
    length: int
    inner: int


class Pieces(Record):
    """How an axis is cut: elements of a piece, and how many there are."""

    size: int
    count: int


class Scan:
    """The text of one operation on vectors of elements."""

    def __init__(self, op: str, dtype: np.dtype, reverse: bool) -> None:
        self.op, self.reverse = op, reverse
        self.size = dtype.itemsize
        self.brain = dtype == dtypes.bfloat16
        self.floating = self.brain or dtype.kind == "f"
        self.unsigned = dtype.kind == "u"
        if self.floating:
            self.memory = "i16" if self.brain else _FLOATS[self.size]
            self.work = "double" if self.size == 8 else "float"
        else:
            self.memory = self.work = f"i{8 * self.size}"
        self.step = max(self.size, 4) if self.floating else self.size  # bytes of a work value
        self.lanes = vector_bits() // (8 * self.step)

    def kind(self, lanes: int) -> str:
        return self.work if lanes == 1 else f"<{lanes} x {self.work}>"

    def identity(self, lanes: int) -> str:
        """What changes nothing."""
        bits = 8 * self.size
        if self.floating:
            low = -np.inf
            number = {"mul": 1.0, "max": low, "min": np.inf, "logaddexp": low}.get(self.op, 0.0)
            text = f"0x{np.float64(number).view(np.uint64):016X}"
        elif self.op in ("max", "min"):
            low = 0 if self.unsigned else -(1 << (bits - 1))
            high = -1 if self.unsigned else (1 << (bits - 1)) - 1
            text = str(low if self.op == "max" else high)
        else:
            text = "1" if self.op == "mul" else "0"
        return text if lanes == 1 else f"splat ({self.work} {text})"

    def combine(self, f: Function, x: str, y: str, lanes: int) -> str:
        kind = self.kind(lanes)
        if self.op == "logaddexp":
            wide = np.dtype(np.float64 if self.work == "double" else np.float32)
            name = add_function(f.module, wide, lanes)
            return f.emit(f"call {kind} {name}({kind} {x}, {kind} {y})")
        if self.op in ("add", "mul"):
            return f.emit(f"{'f' if self.floating else ''}{self.op} {kind} {x}, {y}")
        if self.floating:
            name, suffix = f"{self.op}imum", _SUFFIXES[self.work]
        else:
            name, suffix = f"{'u' if self.unsigned else 's'}{self.op}", self.work
        name = f"llvm.{name}.{suffix if lanes == 1 else f'v{lanes}{suffix}'}"
        f.declare(name, kind, f"{kind}, {kind}")
        return f.emit(f"call {kind} @{name}({kind} {x}, {kind} {y})")

    # --- memory -----------------------------------------------------------------------------------

    def load(self, f: Function, pointer: str, lanes: int) -> str:
        vector = (lambda k: k) if lanes == 1 else (lambda k: f"<{lanes} x {k}>")
        x = f.load(vector(self.memory), pointer, self.size)
        if self.brain:
            x = f.emit(f"zext {vector('i16')} {x} to {vector('i32')}")
            sixteen = "16" if lanes == 1 else "splat (i32 16)"
            x = f.emit(f"shl {vector('i32')} {x}, {sixteen}")
            return f.emit(f"bitcast {vector('i32')} {x} to {vector('float')}")
        if self.memory != self.work:
            return f.emit(f"fpext {vector(self.memory)} {x} to {vector(self.work)}")
        return x

    def store(self, f: Function, x: str, pointer: str, lanes: int) -> None:
        vector = (lambda k: k) if lanes == 1 else (lambda k: f"<{lanes} x {k}>")
        if self.brain:
            x = self._to_brain(f, x, lanes)
        elif self.memory != self.work:
            x = f.emit(f"fptrunc {vector(self.work)} {x} to {vector(self.memory)}")
        f.store(vector(self.memory), x, pointer, self.size)

    def _to_brain(self, f: Function, x: str, lanes: int) -> str:
        """The upper half of floats, rounded to nearest even; NaN stays NaN."""
        vector = (lambda k: k) if lanes == 1 else (lambda k: f"<{lanes} x {k}>")
        number = (lambda n: str(n)) if lanes == 1 else (lambda n: f"splat (i32 {n})")
        whole = vector("i32")
        b = f.emit(f"bitcast {vector('float')} {x} to {whole}")
        odd = f.emit(f"and {whole} {f.emit(f'lshr {whole} {b}, {number(16)}')}, {number(1)}")
        bias = f.emit(f"add {whole} {odd}, {number(0x7FFF)}")
        rounded = f.emit(f"add {whole} {b}, {bias}")
        quiet = f.emit(f"or {whole} {b}, {number(0x400000)}")
        nan = f.emit(f"fcmp uno {vector('float')} {x}, {x}")
        bit = vector("i1")
        chosen = f.emit(f"select {bit} {nan}, {whole} {quiet}, {whole} {rounded}")
        high = f.emit(f"lshr {whole} {chosen}, {number(16)}")
        return f.emit(f"trunc {whole} {high} to {vector('i16')}")

    # --- inside of a vector -----------------------------------------------------------------------

    def within(self, f: Function, x: str) -> str:
        """Partial results of the lanes of a vector."""
        n, kind, shift = self.lanes, self.kind(self.lanes), 1
        while shift < n:
            # Lane i of the second operand is numbered n + i: those are all the identity.
            if self.reverse:
                mask = [i + shift if i + shift < n else n for i in range(n)]
            else:
                mask = [i - shift if i >= shift else n for i in range(n)]
            x = self.combine(f, x, shuffle(f, kind, x, self.identity(n), mask), n)
            shift *= 2
        return x

    def whole(self, f: Function, x: str) -> str:
        """The last partial result in every lane."""
        last = 0 if self.reverse else self.lanes - 1
        return shuffle(f, self.kind(self.lanes), x, "poison", [last] * self.lanes)

    def spread(self, f: Function, x: str) -> str:
        """A value in every lane."""
        kind = self.kind(self.lanes)
        one = f.emit(f"insertelement {kind} poison, {self.work} {x}, i64 0")
        return shuffle(f, kind, one, "poison", [0] * self.lanes)

    def place(self, f: Function, i: Number, end: Number, count: int = 1) -> Number:
        """Where the ``i``-th step along an axis with so many is; a step takes ``count``."""
        if not self.reverse:
            return f.mul(i, count)
        return f.sub(end, f.mul(f.add(i, 1), count))


# --- rows -----------------------------------------------------------------------------------------


def _piece(f: Function, s: Scan, shape: Shape, pieces: Pieces, unit: str) -> tuple[str, Number]:
    """Bytes before a unit's piece of a row, and its elements; a scan begins with the first."""
    row = f.div(unit, pieces.count)
    number = f.sub(unit, f.mul(row, pieces.count))
    low = f.mul(number, pieces.size)
    length = f.smaller(f.sub(shape.length, low), pieces.size)
    if pieces.count == 1:
        length = shape.length
    if s.reverse:
        low = f.sub(f.sub(shape.length, low), length)
    element = f.mul(f.add(f.mul(row, shape.length), low), shape.inner)
    return str(f.mul(element, s.size)), length


def rows_text(s: Scan, shape: Shape, pieces: Pieces) -> str:
    """Partial results along contiguous rows: elements, results, and what comes before pieces."""
    f = kernel(Module(), "scan_rows")
    src, dst = f.pointer(0), f.pointer(1)
    before = f.pointer(2) if pieces.count > 1 else ""
    kind = s.kind(s.lanes)
    with f.loop("%start", "%stop") as unit:
        offset, length = _piece(f, s, shape, pieces, unit)
        here, there = f.at(src, offset), f.at(dst, offset)
        first = s.identity(1)
        if before:
            first = f.load(s.work, f.at(before, f.mul(unit, s.step)), s.step)
        vectors = f.div(length, s.lanes)
        rest = f.sub(length, f.mul(vectors, s.lanes))
        if s.reverse and isinstance(rest, int):
            # 0 and 1 would be left out of sums and products, whose text would be another then
            rest = f.emit(f"sub i64 {rest + 2}, 2")
        so_far = [(kind, s.spread(f, first))]
        with f.carried(0, vectors, so_far) as (i, (sum_,), after):
            at = f.mul(s.place(f, i, f.add(f.mul(vectors, s.lanes), 0), s.lanes), s.size)
            if s.reverse:
                at = f.add(at, f.mul(rest, s.size))
            x = s.within(f, s.load(f, f.at(here, at), s.lanes))
            s.store(f, s.combine(f, sum_, x, s.lanes), f.at(there, at), s.lanes)
            after[0] = s.combine(f, sum_, s.whole(f, x), s.lanes)
        last = f.emit(f"extractelement {kind} {sum_}, i64 0")
        with f.carried(0, rest, [(s.work, last)]) as (i, (one,), after):
            at = s.place(f, i, rest) if s.reverse else f.add(f.mul(vectors, s.lanes), i)
            at = f.mul(at, s.size)
            after[0] = s.combine(f, one, s.load(f, f.at(here, at), 1), 1)
            s.store(f, str(after[0]), f.at(there, at), 1)
    f.close()
    return f.module.text()


def _picked(f: Function, s: Scan, vectors: list[str], places: list[int]) -> str:
    """A vector of the elements at places in vectors that follow each other."""
    n, kind = s.lanes, s.kind(s.lanes)
    found = "poison"
    for k, vector in enumerate(vectors):
        if any(p // n == k for p in places):
            mask = [n + p % n if p // n == k else i for i, p in enumerate(places)]
            found = shuffle(f, kind, found, vector, mask)
    return found


def short_rows_text(s: Scan, shape: Shape) -> str:
    """Partial results along very short rows, a vector of them at a time: elements, results."""
    f = kernel(Module(), "scan_short")
    src, dst = f.pointer(0), f.pointer(1)
    n, length = s.lanes, shape.length
    order = list(reversed(range(length))) if s.reverse else list(range(length))
    groups = shape.outer // n
    bytes_of_row = length * s.size
    with f.loop("%start", f.smaller("%stop", groups)) as group:
        at = f.mul(group, n * bytes_of_row)
        here, there = f.at(src, at), f.at(dst, at)
        vectors = [s.load(f, f.at(here, k * n * s.size), n) for k in range(length)]
        columns = [_picked(f, s, vectors, [r * length + j for r in range(n)]) for j in order]
        if s.floating and s.op == "add":  # sums start at zero, also those of negative zeros
            columns[0] = s.combine(f, s.identity(n), columns[0], n)
        for i in range(1, length):
            columns[i] = s.combine(f, columns[i - 1], columns[i], n)
        ordered = [columns[order.index(j)] for j in range(length)]
        for k in range(length):
            # element p of a vector is of row p // length, whose columns are vectors
            whole = [divmod(k * n + p, length) for p in range(n)]
            places = [column * n + row for row, column in whole]
            s.store(f, _picked(f, s, ordered, places), f.at(there, k * n * s.size), n)
    with f.when(f.emit(f"icmp sgt i64 %stop, {groups}")), f.loop(groups * n, shape.outer) as row:
        at = f.mul(row, bytes_of_row)
        so_far = s.identity(1)
        for j in order:
            here = f.at(f.at(src, at), j * s.size)
            so_far = s.combine(f, so_far, s.load(f, here, 1), 1)
            s.store(f, so_far, f.at(f.at(dst, at), j * s.size), 1)
    f.close()
    return f.module.text()


def row_totals_text(s: Scan, shape: Shape, pieces: Pieces) -> str:
    """The total of each piece: elements, totals."""
    f = kernel(Module(), "row_totals")
    src, dst = f.pointer(0), f.pointer(1)
    count, kind = 4, s.kind(s.lanes)
    with f.loop("%start", "%stop") as unit:
        offset, length = _piece(f, s, shape, pieces, unit)
        here = f.at(src, offset)
        turns = f.div(length, count * s.lanes)
        so_far: list[tuple[str, Number]] = [(kind, s.identity(s.lanes))] * count
        with f.carried(0, turns, so_far) as (i, sums, after):
            at = f.at(here, f.mul(i, count * s.lanes * s.size))
            for k in range(count):
                x = s.load(f, f.at(at, k * s.lanes * s.size), s.lanes)
                after[k] = s.combine(f, sums[k], x, s.lanes)
        total = sums[0]
        for other in sums[1:]:
            total = s.combine(f, total, other, s.lanes)
        # The last of partial results of the lanes is the total of them.
        total = f.emit(f"extractelement {kind} {s.whole(f, s.within(f, total))}, i64 0")
        done = f.mul(turns, count * s.lanes)
        with f.carried(done, length, [(s.work, total)]) as (i, (one,), after):
            x = s.load(f, f.at(here, f.mul(i, s.size)), 1)
            after[0] = s.combine(f, one, x, 1)
        f.store(s.work, one, f.at(dst, f.mul(unit, s.step)), s.step)
    f.close()
    return f.module.text()


def offsets_text(s: Scan, outer: int, count: int, inner: int) -> str:
    """Totals of pieces turned into what comes before each of them."""
    f = kernel(Module(), "offsets")
    base = f.pointer(0)
    with f.loop("%start", "%stop") as n:  # rows and columns
        row = f.div(n, inner)
        first = f.add(f.mul(row, count * inner), f.sub(n, f.mul(row, inner)))
        with f.carried(0, count, [(s.work, s.identity(1))]) as (i, (sum_,), after):
            at = f.at(base, f.mul(f.add(first, f.mul(i, inner)), s.step))
            after[0] = s.combine(f, sum_, f.load(s.work, at, s.step), 1)
            f.store(s.work, sum_, at, s.step)
    f.close()
    return f.module.text()


# --- columns --------------------------------------------------------------------------------------


def columns_text(s: Scan, shape: Shape, pieces: Pieces, totals: bool) -> str:
    """Partial results along columns, or only the totals of pieces of them.

    Buffers: elements, results and what comes before pieces, or elements and totals.
    """
    f = kernel(Module(), "scan_columns")
    src, dst = f.pointer(0), f.pointer(1)
    before = f.pointer(2) if pieces.count > 1 and not totals else ""
    sums = f.local(COLUMNS_AT_ONCE * s.step)
    blocks = -(-shape.inner // COLUMNS_AT_ONCE)
    with f.loop("%start", "%stop") as n:
        unit = f.div(n, blocks)
        column = f.mul(f.sub(n, f.mul(unit, blocks)), COLUMNS_AT_ONCE)
        width = shape.inner
        if blocks > 1:
            width = f.smaller(f.sub(shape.inner, column), COLUMNS_AT_ONCE)
        offset, length = _piece(f, s, shape, pieces, str(unit))
        offset = str(f.add(offset, f.mul(column, s.size)))
        here, there = f.at(src, offset), f.at(dst, offset)
        own = f.mul(f.add(f.mul(unit, shape.inner), column), s.step)  # of totals
        for lanes, low, high in _across(f, s, width):
            with f.loop(low, high, lanes) as c:
                first = s.identity(lanes)
                if before:
                    at = f.at(f.at(before, own), f.mul(c, s.step))
                    first = f.load(s.kind(lanes), at, s.step)
                f.store(s.kind(lanes), first, f.at(sums, f.mul(c, s.step)), s.step)
        with f.loop(0, length) as i:
            at = f.mul(s.place(f, i, length), shape.inner * s.size)
            x, y = f.at(here, at), f.at(there, at)
            for lanes, low, high in _across(f, s, width):
                with f.loop(low, high, lanes) as c:
                    kept = f.at(sums, f.mul(c, s.step))
                    value = s.load(f, f.at(x, f.mul(c, s.size)), lanes)
                    total = s.combine(f, f.load(s.kind(lanes), kept, s.step), value, lanes)
                    f.store(s.kind(lanes), total, kept, s.step)
                    if not totals:
                        s.store(f, total, f.at(y, f.mul(c, s.size)), lanes)
        if totals:
            with f.loop(0, width) as c:
                total = f.load(s.work, f.at(sums, f.mul(c, s.step)), s.step)
                f.store(s.work, total, f.at(f.at(dst, own), f.mul(c, s.step)), s.step)
    f.close()
    return f.module.text()


def _across(f: Function, s: Scan, width: Number) -> list[tuple[int, Number, Number]]:
    """The columns in vectors, then those left over one by one."""
    whole = f.mul(f.div(width, s.lanes), s.lanes)
    out: list[tuple[int, Number, Number]] = []
    if whole != 0:
        out.append((s.lanes, 0, whole))
    if whole != width:
        out.append((1, whole, width))
    return out


# --- primitives -----------------------------------------------------------------------------------


def lower(op: str, t: Type, axis: int, reverse: bool) -> Lowered | None:
    """The tasks of partial results along an axis."""
    dtype = t.dtype
    shape = Shape(prod(t.shape[:axis]), t.shape[axis], prod(t.shape[axis + 1 :]))
    if not prod(shape):
        return None
    if dtype.kind == "c" and op == "add":
        dtype = np.dtype(f"f{dtype.itemsize // 2}")
        shape = shape._replace(inner=2 * shape.inner)
    if dtype.kind not in "iuf" and dtype != dtypes.bfloat16:
        return None
    if op == "logaddexp" and dtype.kind in "iu":
        return None
    s = Scan(op, dtype, reverse)
    blocks = 1 if shape.inner == 1 else -(-shape.inner // COLUMNS_AT_ONCE)
    width = min(shape.inner, COLUMNS_AT_ONCE)
    pieces = Pieces(shape.length, 1)
    few = shape.outer * blocks < ENOUGH_UNITS
    if few and shape.length * width >= 4 * ROW_CHUNK_ELEMENTS:
        size = max(1, ROW_CHUNK_ELEMENTS // width)
        pieces = Pieces(size, -(-shape.length // size))
    units = shape.outer * pieces.count
    each = pieces.size * width
    ins = (Place("in", 0), Place("out", 0))
    if shape.inner == 1 < shape.length <= MAX_TRANSPOSED_ROW_ELEMENTS and shape.outer >= s.lanes:
        groups = -(-shape.outer // s.lanes)
        chunk = MIN_UNIT_ELEMENTS // (plain(shape.length) * s.lanes)
        return Lowered([Task(short_rows_text(s, shape), "scan_short", ins, groups, chunk)])
    chunk = max(1, MIN_UNIT_ELEMENTS // plain(each))
    if pieces.count == 1:
        if shape.inner == 1:
            return Lowered([Task(rows_text(s, shape, pieces), "scan_rows", ins, units, chunk)])
        text = columns_text(s, shape, pieces, False)
        return Lowered([Task(text, "scan_columns", ins, units * blocks, chunk)])
    before = Place("scratch", 0)
    if shape.inner == 1:
        names = ("row_totals", "scan_rows")
        texts = (row_totals_text(s, shape, pieces), rows_text(s, shape, pieces))
    else:
        names = ("scan_columns", "scan_columns")
        texts = tuple([columns_text(s, shape, pieces, totals) for totals in (True, False)])
    summed = shape.outer * shape.inner
    tasks = [
        Task(texts[0], names[0], (Place("in", 0), before), units * blocks, chunk),
        Task(offsets_text(s, shape.outer, pieces.count, shape.inner), "offsets", (before,), summed),
        Task(texts[1], names[1], (*ins, before), units * blocks, chunk),
    ]
    return Lowered(tasks, (units * shape.inner * s.step,))


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
