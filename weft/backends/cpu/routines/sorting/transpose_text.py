"""Matrices transposed as LLVM text, so that what is worked on along columns lies in rows."""

from __future__ import annotations

from weft.backends.cpu.routines.sorting.network import Lanes, fields, transpose
from weft.backends.cpu.routines.writer import Function, Module, Number, kernel

# What the table holds: rows and columns of a matrix, parts that rows and columns are cut into, and
# how many of each are a part.
ROWS, COLUMNS, DOWN, ACROSS, TALL, WIDE = range(6)


def turn_text(v: Lanes, blocks: bool) -> str:
    """Matrices of elements of a vector's lanes transposed, part by part.

    In ``blocks`` of as many rows and columns as a vector has lanes, of which there must be enough:
    the last ones overlap those before them. Buffers: matrices, results, table.
    """
    module = Module()
    if blocks:
        transpose(module, v)
    f = kernel(module, "turn")
    src, dst, table = (f.pointer(i) for i in range(3))
    rows, columns, down, across, tall, wide = fields(
        f, table, ROWS, COLUMNS, DOWN, ACROSS, TALL, WIDE
    )
    block = f.local(v.count * v.size)
    parts, size = f.mul(down, across), f.mul(f.mul(rows, columns), v.step)
    with f.loop("%start", "%stop") as unit:
        matrix = f.emit(f"udiv i64 {unit}, {parts}")
        part = f.sub(unit, f.mul(matrix, parts))
        row = f.emit(f"udiv i64 {part}, {across}")
        top, left = f.mul(row, tall), f.mul(f.sub(part, f.mul(row, across)), wide)
        here, there = f.at(src, f.mul(matrix, size)), f.at(dst, f.mul(matrix, size))
        low, right = f.smaller(f.add(top, tall), rows), f.smaller(f.add(left, wide), columns)
        step = v.count if blocks else 1
        with f.loop(top, low, step) as i, f.loop(left, right, step) as j:
            if blocks:
                i = str(f.smaller(i, f.sub(rows, v.count)))
                j = str(f.smaller(j, f.sub(columns, v.count)))
            a = f.at(here, f.mul(f.add(f.mul(i, columns), j), v.step))
            b = f.at(there, f.mul(f.add(f.mul(j, rows), i), v.step))
            if blocks:
                _copy(f, v, (a, f.mul(columns, v.step)), (block, v.size))
                f.line(f"call void @transpose(ptr {block}, ptr {block})")
                _copy(f, v, (block, v.size), (b, f.mul(rows, v.step)))
            else:
                kind = f"i{v.bits}"
                f.store(kind, f.load(kind, a, v.step), b, v.step)
    f.close()
    return module.text()


def _copy(f: Function, v: Lanes, source: tuple[str, Number], result: tuple[str, Number]) -> None:
    """Vectors copied that are so far apart."""
    with f.loop(0, v.count) as k:
        x = f.load(v.llvm, f.at(source[0], f.mul(k, source[1])), v.step)
        f.store(v.llvm, x, f.at(result[0], f.mul(k, result[1])), v.step)
