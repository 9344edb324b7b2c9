"""Transposition of matrices by a function that takes all sizes."""

from __future__ import annotations

from weft.backends.cpu.routines.lanes import Lanes
from weft.backends.cpu.routines.square_stubs import square_names, squares
from weft.backends.cpu.routines.writer import Function, Module, Number, kernel
from weft.backends.llvm.native import processor

# Rows of a matrix of few columns, or the other way round, that are near while they are turned.
PART = 512
_TURN = "ptr noalias %at, i64 %step, ptr noalias %to, i64 %stride, i64 %rows, i64 %columns"


def turn_text(size: int) -> str:
    """The text of a kernel that transposes matrices part by part: matrices, results, and a table of
    rows, columns, rows and columns of a part, and the parts that rows are cut into."""
    f = kernel(Module(), "turn")
    f.without_care()
    source, result, table = (f.pointer(i) for i in range(3))
    rows, columns, tall, wide, across = (f.load("i64", f.at(table, 8 * i), 8) for i in range(5))
    down = f.div(f.sub(f.add(rows, tall), 1), tall)
    with f.loop("%start", "%stop") as unit:
        line = f.div(unit, across)
        matrix = f.mul(f.div(line, down), f.mul(rows, columns))
        top, left = f.mul(f.rem(line, down), tall), f.mul(f.rem(unit, across), wide)
        at = f.at(source, f.mul(f.add(f.add(matrix, f.mul(top, columns)), left), size))
        to = f.at(result, f.mul(f.add(f.add(matrix, f.mul(left, rows)), top), size))
        part = f.smaller(tall, f.sub(rows, top)), f.smaller(wide, f.sub(columns, left))
        turn(f, size, at, to, (columns, rows, *part))
    f.close()
    return f.module.text()


def turn(f: Function, size: int, at: str, to: str, sizes: tuple[Number, ...]) -> None:
    """Row r and column c of a matrix to row c and column r of another, elements of so many bytes.

    ``sizes``: how many elements rows are apart in both, rows and columns.
    """
    name = f"turn{size}"
    if name not in f.module.functions:
        _turn(Function(f.module, name, _TURN), size)
    step, stride, rows, columns = sizes
    f.line(
        f"call void @{name}(ptr {at}, i64 {f.mul(step, size)}, ptr {to}, i64 {f.mul(stride, size)},"
        f" i64 {rows}, i64 {columns})"
    )


def _turn(f: Function, size: int) -> None:
    """Lines as they are, matrices of few rows or columns number by number, others in squares."""
    flags = {}
    for name, n, apart in (("row", "%rows", "%stride"), ("column", "%columns", "%step")):
        one, near = (f.emit(f"icmp eq i64 {x}") for x in (f"{n}, 1", f"{apart}, {size}"))
        flags[name] = f.emit(f"and i1 {one}, {near}")
    line = f.emit(f"or i1 {flags['row']}, {flags['column']}")
    lanes = Lanes(size, processor.vector_bits()) if size in (4, 8) else None
    few = "true"
    if lanes is not None:
        less = f.smaller("%rows", "%columns")
        few = f.emit(f"icmp slt i64 {less}, {lanes.count}")
    with f.when(line):
        copy = f.declare("llvm.memcpy.p0.p0.i64", "void", "ptr, ptr, i64, i1")
        bytes_ = f.mul(f.mul("%rows", "%columns"), size)
        f.line(f"call void {copy}(ptr %to, ptr %at, i64 {bytes_}, i1 false)")
    with f.when(f.emit(f"select i1 {line}, i1 false, i1 {few}")):
        tall = f.emit("icmp slt i64 %columns, %rows")
        with f.when(tall), f.loop(0, "%rows", PART) as top:
            end = f.smaller(f.add(top, PART), "%rows")
            with f.loop(0, "%columns") as c, f.loop(top, end) as r:
                _move(f, size, r, c)
        with f.when(f.emit(f"xor i1 {tall}, true")), f.loop(0, "%columns", PART) as left:
            end = f.smaller(f.add(left, PART), "%columns")
            with f.loop(0, "%rows") as r, f.loop(left, end) as c:
                _move(f, size, r, c)
    if lanes is not None:
        some = f.emit(f"or i1 {line}, {few}")
        with f.when(f.emit(f"xor i1 {some}, true")):
            _turn_squares(f, lanes)
    f.close()


def _move(f: Function, size: int, r: str, c: str) -> None:
    kind = f"i{8 * size}"
    spot = f.at(f.at("%at", f.mul(r, "%step")), f.mul(c, size))
    place = f.at(f.at("%to", f.mul(c, "%stride")), f.mul(r, size))
    f.store(kind, f.load(kind, spot, min(8, size)), place, min(8, size))


def _turn_squares(f: Function, v: Lanes) -> None:
    """Squares, of which the last in each direction may overlap those before."""
    n, size = v.count, v.itemsize
    last, edge = f.sub("%rows", n), f.sub("%columns", n)
    count, rest = f.div("%columns", n), f.rem("%columns", n)
    rest = f.smaller(rest, 1)
    with f.loop(0, "%rows", n) as row:
        r = f.smaller(row, last)
        spot, place = f.at("%at", f.mul(r, "%step")), f.at("%to", f.mul(r, size))
        for c, many in ((0, count), (edge, rest)):
            source, target = f.at(spot, f.mul(c, size)), f.at(place, f.mul(c, "%stride"))
            given = (source, "%step", target, "%stride", many, n * size, f.mul("%stride", n))
            f.call_stub(squares, *given, **square_names(v))
