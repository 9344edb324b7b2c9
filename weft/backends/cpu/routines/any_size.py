"""Code of matrices that does for any size: the numbers of a finished text read from a table, and
transposition by a function that is told all sizes."""

from __future__ import annotations

import re

from weft.backends.cpu.native import processor
from weft.backends.cpu.routines.fourier.fft_text import Lanes
from weft.backends.cpu.routines.squares import squares
from weft.backends.cpu.routines.writer import Function, Number
from weft.backends.cpu.sizes import read_sizes
from weft.base.functional import lru
from weft.base.sizes import is_writing
from weft.kernel.program import Place

# Rows of a matrix of few columns, or the other way round, that are near while they are turned.
PART = 512
_TURN = "ptr noalias %at, i64 %step, ptr noalias %to, i64 %stride, i64 %rows, i64 %columns"


@lru(1)
def _rules() -> dict[str, tuple[re.Pattern[str], int]]:
    """Where the numbers of an instruction are that may be read, and the least one that is."""
    operand = re.compile(r"( i64 |, )(\d+)\b")
    argument = re.compile(r"(\b(?:i64|i32) )(\d+)\b")
    alone = re.compile(r"(\bi64 )(\d+)\b")
    first = re.compile(r"(\[ )(\d+)(?=, %)")
    return {
        **dict.fromkeys(("udiv", "urem", "slt"), (operand, 0)),
        **dict.fromkeys(("add", "sub", "mul"), (operand, 2)),
        **dict.fromkeys(("select", "getelementptr", "alloca"), (alone, 2)),
        "call": (argument, 0),
        "phi": (first, 2),
    }


def reading(
    text: str, name: str, places: tuple[Place, ...], kept: frozenset[int]
) -> tuple[str, tuple[Place, ...]]:
    """A text whose function reads all its sizes from a table, its last buffer.

    Numbers that are multiplied by and kept are those that tell how large an element is. Other
    functions of the text are told their sizes.
    """
    if is_writing():  # sizes that are named are read, and no others
        return text, places
    numbers: list[int] = []
    narrow: list[int] = []
    rules = _rules()
    before, start, body = text.partition(f"@{name}(ptr %buffers, i64 %start, i64 %stop)")
    body, end, after = body.partition("\n}")
    lines = body.split("\n")
    for i, line in enumerate(lines):
        words = line.split(" ", 6)
        at = 4 if len(words) > 4 and words[3] == "=" else 2
        if len(words) <= at:
            continue
        what = words[at]
        if what == "icmp":
            what = words[at + 1]
        rule = rules.get(what)
        if rule is None or "getelementptr ptr" in line or " x i" in line:
            continue
        pattern, least = rule

        def read(found: re.Match[str], what: str = what, least: int = least) -> str:
            number = int(found[2])
            if number < least or (what == "mul" and number in kept):
                return found[0]
            numbers.append(number)
            place = f"%sized{len(numbers) - 1}"
            if found[1] == "i32 ":
                narrow.append(len(numbers) - 1)
                place += ".i32"
            return found[1] + place

        lines[i] = pattern.sub(read, line)
    if not numbers:
        return text, places
    head = read_sizes(range(len(numbers)), len(places))
    head += [f"  %sized{i}.i32 = trunc i64 %sized{i} to i32" for i in narrow]
    lines[2:2] = head
    text = "".join([before, start, "\n".join(lines), end, after])
    return text, (*places, Place("numbers", tuple(numbers)))


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
    lanes = Lanes(size, processor.vector_bits()) if size <= 8 else None
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
            source = (f.at(spot, f.mul(c, size)), "%step", n * size)
            target = (f.at(place, f.mul(c, "%stride")), "%stride", f.mul("%stride", n))
            squares(f, v, source, target, many)
