"""Partial sums, products, extrema and sums of exponentials along an axis, in one pass over memory.

Where a row is long, or there are too few of them, it is cut into pieces of a fixed length: the
totals of pieces first, then what comes before each, then all partial results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.routines.logaddexp import add_function
from weft.backends.cpu.routines.registry import LOWERINGS
from weft.backends.cpu.routines.writer import Function, Module, Number, kernel
from weft.backends.llvm.native.processor import vector_bits
from weft.backends.llvm.text.loops import combine
from weft.base.record import Record
from weft.base.sizes import plain
from weft.kernel.nodes import BF16, F32, NARROW, is_float
from weft.kernel.program import Lowered, Place, Task, Type

# Elements of a piece of a row, of a unit of work at least, and columns that are read together.
ROW_CHUNK_ELEMENTS, MIN_UNIT_ELEMENTS, COLUMNS_AT_ONCE = 1 << 15, 1 << 14, 512
# Elements of a row up to which whole vectors of rows are taken apart into columns.
MAX_TRANSPOSED_ROW_ELEMENTS = 4
# Units of work that are enough without cutting rows.
ENOUGH_UNITS = 4


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
    """The text of one operation on vectors of elements, or on single ones: as lanes are then."""

    def __init__(self, op: str, dtype: np.dtype, reverse: bool) -> None:
        self.op, self.dtype, self.reverse = op, dtype, reverse
        self.work = F32 if dtype in NARROW else dtype
        self.size, self.step = dtype.itemsize, self.work.itemsize
        self.lanes = vector_bits() // (8 * self.step)

    def identity(self, f: Function) -> str:
        """What changes nothing."""
        low, high = -np.inf, np.inf
        if not is_float(self.work):
            low, high = np.iinfo(self.work).min, np.iinfo(self.work).max
        number = {"add": 0, "mul": 1, "min": high}.get(self.op, low)
        return f.constant(self.work, np.asarray(number, self.work).tobytes())

    def combine(self, f: Function, x: str, y: str) -> str:
        if self.op != "logaddexp":
            return combine(f, self.op, self.work, x, y)
        kind, name = f.type_of(self.work), add_function(f.module, self.work, f.lanes)
        return f.emit(f"call {kind} {name}({kind} {x}, {kind} {y})")

    def load(self, f: Function, pointer: str) -> str:
        return f.cast(self.dtype, self.work, f.load(f.type_of(self.dtype), pointer, self.size))

    def store(self, f: Function, x: str, pointer: str) -> None:
        f.store(f.type_of(self.dtype), f.cast(self.work, self.dtype, x), pointer, self.size)

    def within(self, f: Function, x: str) -> str:
        """Partial results of the lanes of a vector."""
        n, kind, shift = self.lanes, f.type_of(self.work), 1
        while shift < n:
            # Lane i of the second operand is numbered n + i: those are all the identity.
            ahead = shift if self.reverse else -shift
            mask = [i + ahead if 0 <= i + ahead < n else n for i in range(n)]
            x = self.combine(f, x, f.shuffle(kind, x, self.identity(f), mask))
            shift *= 2
        return x

    def whole(self, f: Function, x: str) -> str:
        """The last partial result in every lane."""
        last = 0 if self.reverse else self.lanes - 1
        return f.shuffle(f.type_of(self.work), x, "poison", [last] * self.lanes)

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


def rows_text(s: Scan, shape: Shape, pieces: Pieces, totals: bool) -> str:
    """Partial results along contiguous rows, or only the totals of pieces of them.

    Buffers: elements, results and what comes before pieces, or elements and totals.
    """
    f = kernel(Module(), "scan_rows")
    src, dst = f.pointer(0), f.pointer(1)
    before = f.pointer(2) if pieces.count > 1 and not totals else ""
    one = f.type_of(s.work)
    with f.loop("%start", "%stop") as unit:
        offset, length = _piece(f, s, shape, pieces, unit)
        here, there = f.at(src, offset), f.at(dst, offset)
        first = s.identity(f)
        if before:
            first = f.load(one, f.at(before, f.mul(unit, s.step)), s.step)
        vectors = f.div(length, s.lanes)
        rest = f.sub(length, f.mul(vectors, s.lanes))
        if s.reverse and isinstance(rest, int):
            # 0 and 1 would be left out of sums and products, whose text would be another then
            rest = f.emit(f"sub i64 {rest + 2}, 2")
        f.lanes = s.lanes
        kind = f.type_of(s.work)
        with f.carried(0, vectors, [(kind, f.splat(s.work, first))]) as (i, (sum_,), after):
            at = f.mul(s.place(f, i, f.add(f.mul(vectors, s.lanes), 0), s.lanes), s.size)
            if s.reverse:
                at = f.add(at, f.mul(rest, s.size))
            x = s.load(f, f.at(here, at))
            if totals:
                after[0] = s.combine(f, sum_, x)
            else:
                x = s.within(f, x)
                s.store(f, s.combine(f, sum_, x), f.at(there, at))
                after[0] = s.combine(f, sum_, s.whole(f, x))
        if totals:  # the last of partial results of the lanes
            sum_ = s.whole(f, s.within(f, sum_))
        last = f.emit(f"extractelement {kind} {sum_}, i64 0")
        f.lanes = 1
        with f.carried(0, rest, [(one, last)]) as (i, (total,), after):
            at = s.place(f, i, rest) if s.reverse else f.add(f.mul(vectors, s.lanes), i)
            at = f.mul(at, s.size)
            after[0] = s.combine(f, total, s.load(f, f.at(here, at)))
            if not totals:
                s.store(f, str(after[0]), f.at(there, at))
        if totals:
            f.store(one, total, f.at(dst, f.mul(unit, s.step)), s.step)
    f.close()
    return f.module.text()


def _picked(f: Function, s: Scan, vectors: list[str], places: list[int]) -> str:
    """A vector of the elements at places in vectors that follow each other."""
    n, kind = s.lanes, f.type_of(s.work)
    found = "poison"
    for k, vector in enumerate(vectors):
        if any(p // n == k for p in places):
            mask = [n + p % n if p // n == k else i for i, p in enumerate(places)]
            found = f.shuffle(kind, found, vector, mask)
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
        f.lanes = n
        vectors = [s.load(f, f.at(here, k * n * s.size)) for k in range(length)]
        columns = [_picked(f, s, vectors, [r * length + j for r in range(n)]) for j in order]
        if is_float(s.work) and s.op == "add":  # sums start at zero, also those of negative zeros
            columns[0] = s.combine(f, s.identity(f), columns[0])
        for i in range(1, length):
            columns[i] = s.combine(f, columns[i - 1], columns[i])
        ordered = [columns[order.index(j)] for j in range(length)]
        for k in range(length):
            # element p of a vector is of row p // length, whose columns are vectors
            whole = [divmod(k * n + p, length) for p in range(n)]
            places = [column * n + row for row, column in whole]
            s.store(f, _picked(f, s, ordered, places), f.at(there, k * n * s.size))
        f.lanes = 1
    with f.when(f.emit(f"icmp sgt i64 %stop, {groups}")), f.loop(groups * n, shape.outer) as row:
        at = f.mul(row, bytes_of_row)
        so_far = s.identity(f)
        for j in order:
            here = f.at(f.at(src, at), j * s.size)
            so_far = s.combine(f, so_far, s.load(f, here))
            s.store(f, so_far, f.at(f.at(dst, at), j * s.size))
    f.close()
    return f.module.text()


def offsets_text(s: Scan, outer: int, count: int, inner: int) -> str:
    """Totals of pieces turned into what comes before each of them."""
    f = kernel(Module(), "offsets")
    base, kind = f.pointer(0), f.type_of(s.work)
    with f.loop("%start", "%stop") as n:  # rows and columns
        row = f.div(n, inner)
        first = f.add(f.mul(row, count * inner), f.sub(n, f.mul(row, inner)))
        with f.carried(0, count, [(kind, s.identity(f))]) as (i, (sum_,), after):
            at = f.at(base, f.mul(f.add(first, f.mul(i, inner)), s.step))
            after[0] = s.combine(f, sum_, f.load(kind, at, s.step))
            f.store(kind, sum_, at, s.step)
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
        for c in _across(f, s, width):
            kind, first = f.type_of(s.work), s.identity(f)
            if before:
                first = f.load(kind, f.at(f.at(before, own), f.mul(c, s.step)), s.step)
            f.store(kind, first, f.at(sums, f.mul(c, s.step)), s.step)
        with f.loop(0, length) as i:
            at = f.mul(s.place(f, i, length), shape.inner * s.size)
            x, y = f.at(here, at), f.at(there, at)
            for c in _across(f, s, width):
                kind, kept = f.type_of(s.work), f.at(sums, f.mul(c, s.step))
                value = s.load(f, f.at(x, f.mul(c, s.size)))
                total = s.combine(f, f.load(kind, kept, s.step), value)
                f.store(kind, total, kept, s.step)
                if not totals:
                    s.store(f, total, f.at(y, f.mul(c, s.size)))
        for c in _across(f, s, width) if totals else ():
            kind = f.type_of(s.work)
            total = f.load(kind, f.at(sums, f.mul(c, s.step)), s.step)
            f.store(kind, total, f.at(f.at(dst, own), f.mul(c, s.step)), s.step)
    f.close()
    return f.module.text()


def _across(f: Function, s: Scan, width: Number) -> Iterator[str]:
    """The columns in vectors, then those left over one by one: what is written for each."""
    whole = f.mul(f.div(width, s.lanes), s.lanes)
    for lanes, low, high in ((s.lanes, 0, whole), (1, whole, width)):
        if low != high:
            f.lanes = lanes
            with f.loop(low, high, lanes) as c:
                yield c
    f.lanes = 1


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
    if dtype.kind not in "iuf" and dtype != BF16:
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
    write = rows_text if shape.inner == 1 else columns_text
    name = "scan_rows" if shape.inner == 1 else "scan_columns"
    if pieces.count == 1:
        return Lowered([Task(write(s, shape, pieces, False), name, ins, units * blocks, chunk)])
    before = Place("scratch", 0)
    summed = shape.outer * shape.inner
    tasks = [
        Task(write(s, shape, pieces, True), name, (Place("in", 0), before), units * blocks, chunk),
        Task(offsets_text(s, shape.outer, pieces.count, shape.inner), "offsets", (before,), summed),
        Task(write(s, shape, pieces, False), name, (*ins, before), units * blocks, chunk),
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
