"""LLVM text of products with few rows: vectors run along the depth and are summed at the end.

Both operands have neighbouring depths side by side. Sizes and strides come in a table, as for the
other products; the sum of an element has a fixed order.
"""

from __future__ import annotations

from weft.backends.cpu.routines.products.dot_lines import (
    BATCH,
    Lines,
    Shape,
    bytes_of,
    dtype_of,
    function,
    is_floating,
    least,
    load_table,
    locate,
    memory_kind,
    multiply_add,
    pointers,
)
from weft.backends.llvm.text.instructions import SUFFIXES
from weft.base.functional import lru

ROWS_FIELDS = (
    *(f"{what}{i}" for i in range(BATCH) for what in ("size", "lhs", "rhs", "out")),
    "columns",
    "depth",
    "column_block",
    "column_blocks",
    "a_row",
    "b_column",
    "out_row",
    "out_column",
)


# Sums up to which the lanes of each are added by instructions of its own.
FEW_SUMS = 8


@lru(64)
def row_products(shape: Shape, name: str) -> str:
    """A task over blocks of columns, ``width`` of them in registers at a time.

    Buffers are lhs, rhs, result and the table. The depth is at least a vector.
    """
    f, (work, _, lanes, rows, together) = Lines(), shape
    pointers(f, ("lhs", "rhs", "out"))
    load_table(f, 3, ROWS_FIELDS)
    many = rows * together > FEW_SUMS
    if many:
        f(f"%kept = alloca [{rows * together * lanes} x {work}], align 64")
    f(f"%whole = and i64 %depth, {-lanes}")
    left = f.emit("sub i64 %depth, %whole")
    mask = _mask(f, lanes, left)
    f.loop("u", "%start", "%stop")
    block = f.emit("urem i64 %u, %column_blocks")
    outer = f.emit("udiv i64 %u, %column_blocks")
    at = locate(f, outer, {"lhs": "%lhs", "rhs": "%rhs", "out": "%out"})
    first = f.emit(f"mul i64 {block}, %column_block")
    last = least(f, f.emit(f"add i64 {first}, %column_block"), "%columns")
    bound = f.emit(f"sub i64 %columns, {together}")
    f.loop("j", first, last)
    place = least(f, "%j", bound)
    b = [f.at(at["rhs"], f.emit(f"mul i64 {place}, %b_column"))]
    a = [at["lhs"]]
    while len(b) < together:
        b.append(f.at(b[-1], "%b_column"))
    while len(a) < rows:
        a.append(f.at(a[-1], "%a_row"))
    sums = _sums(f, shape, a, b, mask)
    to = f.at(at["out"], f.emit(f"mul i64 {place}, %out_column"))
    if many:
        _store_kept(f, shape, sums, to)
    else:
        for j in range(together):
            to = to if j == 0 else f.at(to, "%out_column")
            there = to
            for i in range(rows):
                there = there if i == 0 else f.at(there, "%out_row")
                _store(f, shape, sums[i, j], there)
    f.close("j", last, f"%j, {together}")
    f.close("u", "%stop", "%u, 1")
    f("ret void")
    return function(f, name)


def _mask(f: Lines, lanes: int, left: str) -> str:
    """Which lanes of the last vector of the depth are not in a whole vector before it."""
    count = f.emit(f"sub i64 {lanes}, {left}")
    one = f.emit(f"insertelement <{lanes} x i64> poison, i64 {count}, i32 0")
    zeros = f"<{lanes} x i32> zeroinitializer"
    limit = f.emit(f"shufflevector <{lanes} x i64> {one}, <{lanes} x i64> poison, {zeros}")
    numbers = ", ".join(f"i64 {i}" for i in range(lanes))
    return f.emit(f"icmp sge <{lanes} x i64> <{numbers}>, {limit}")


def _sums(
    f: Lines, shape: Shape, a: list[str], b: list[str], mask: str
) -> dict[tuple[int, int], str]:
    """Vectors of partial sums of every row of ``a`` with every one of ``b``.

    What is left over of the depth comes first, by its last vector without what is counted later.
    """
    work, _, lanes, rows, together = shape
    vector, size = f"<{lanes} x {work}>", bytes_of(work)
    places = [(i, j) for i in range(rows) for j in range(together)]
    begin = f.emit(f"sub i64 %depth, {lanes}")
    offset = f.emit(f"mul i64 {begin}, {size}")

    def masked(pointer: str) -> str:
        x = f.emit(f"load {vector}, ptr {f.at(pointer, offset)}, align {size}")
        return f.emit(f"select <{lanes} x i1> {mask}, {vector} {x}, {vector} zeroinitializer")

    left, right = [masked(p) for p in a], [masked(p) for p in b]
    sums = [multiply_add(f, work, lanes, left[i], right[j], "zeroinitializer") for i, j in places]

    def body(k: str, so_far: list[str]) -> list[str]:
        at = f.emit(f"mul i64 {k}, {size}")
        left = [f.emit(f"load {vector}, ptr {f.at(p, at)}, align {size}") for p in a]
        right = [f.emit(f"load {vector}, ptr {f.at(p, at)}, align {size}") for p in b]
        return [
            multiply_add(f, work, lanes, left[i], right[j], x)
            for (i, j), x in zip(places, so_far, strict=True)
        ]

    sums = f.carry("0", "%whole", [(vector, x) for x in sums], body, lanes)
    return dict(zip(places, sums, strict=True))


def _store_kept(f: Lines, shape: Shape, sums: dict[tuple[int, int], str], to: str) -> None:
    """Sums by way of memory, so that the text of adding their lanes is there once."""
    work, _, lanes, rows, together = shape
    vector, size = f"<{lanes} x {work}>", lanes * bytes_of(work)
    for (i, j), x in sums.items():
        at = f.at("%kept", str((i * together + j) * size))
        f(f"store {vector} {x}, ptr {at}, align {size}")
    f.loop("row", "0", str(rows))
    line = f.at(to, f.emit("mul i64 %row, %out_row"))
    kept = f.at("%kept", f.emit(f"mul i64 %row, {together * size}"))
    f.loop("column", "0", str(together))
    there = f.at(line, f.emit("mul i64 %column, %out_column"))
    here = f.at(kept, f.emit(f"mul i64 %column, {size}"))
    _store(f, shape, f.emit(f"load {vector}, ptr {here}, align {size}"), there)
    f.close("column", str(together), "%column, 1")
    f.close("row", str(rows), "%row, 1")


def _store(f: Lines, shape: Shape, x: str, to: str) -> None:
    """The sum of a vector's lanes, in halves, as a number of the result."""
    work, out, lanes, _, _ = shape
    vector, first = f"<{lanes} x {work}>", f"{work} -0.0, " if is_floating(work) else ""
    name = f"@llvm.vector.reduce.{'fadd' if first else 'add'}.v{lanes}{SUFFIXES.get(work, work)}"
    f.declared[name] = f"declare {work} {name}({f'{work}, ' if first else ''}{vector})"
    how = "call reassoc" if first else "call"
    total = f.emit(f"{how} {work} {name}({first}{vector} {x})")
    f.lanes = 1
    y = f.cast(dtype_of(work), dtype_of(out), total)
    f(f"store {memory_kind(out)} {y}, ptr {to}, align {bytes_of(out)}")
