"""Transposition of matrices by a function that takes all sizes."""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.routines.lanes import Lanes
from weft.backends.cpu.routines.square_stubs import square_names, squares
from weft.backends.cpu.routines.stub_text import calling_module
from weft.backends.llvm.code import Module
from weft.backends.llvm.native import processor
from weft.base.functional import lru
from weft.kernel.kinds import f64, i64, memcpy, ptr, static, u8, u16, u32, u64, void

# Kinds and static parameters of the stubs: an element and its bytes, and how
# many elements a side of a square has, if there are squares of them.
E: Any = u32
# Rows of a matrix of few columns, or the other way round, that are near while they are turned.
STRIP = 512

# Elements by their bytes, which are copied alone.
_KINDS = {1: u8, 2: u16, 4: u32, 8: u64, 16: f64.of(2)}


@lru(32)
def _names(size: int, bits: int) -> dict[str, Any]:
    """What stubs are given for elements of so many bytes, and vectors of so many bits."""
    names = {"E": _KINDS[size], "ITEM": size, "SQUARES": int(size in (4, 8))}
    return names | (square_names(Lanes(size, bits)) if size in (4, 8) else {"LANES": 0})


def turn_code(size: int) -> tuple[Module, str]:
    """The text and the name of the function for elements of so many bytes."""
    return _turn_code(size, processor.vector_bits())


@lru(16)
def _turn_code(size: int, bits: int) -> tuple[str, str]:
    careful = [squares, turn_elements]
    return calling_module(
        turn_matrix, _names(size, bits), careful, apart=True
    ), turn_matrix.__name__


def turn_module(size: int) -> Module:
    """The text of a kernel that transposes matrices part by part."""
    return _turn_module(size, processor.vector_bits())


@lru(16)
def _turn_module(size: int, bits: int) -> Module:
    return calling_module(turn, _names(size, bits), [turn_matrix])


def turn(buffers: ptr, start: i64, stop: i64, *, ITEM: static) -> void:
    """Parts of matrices. Buffers are matrices, results, and a table of rows, columns, rows and
    columns of a part, and the parts that rows are cut into."""
    table = ptr[buffers, 2]
    rows = i64[table, 0]
    columns = i64[table, 1]
    tall = i64[table, 2]
    wide = i64[table, 3]
    across = i64[table, 4]
    down = (rows + tall - 1) // tall
    for unit in range(start, stop):
        line = unit // across
        matrix = line // down * rows * columns
        top = line % down * tall
        left = unit % across * wide
        at = ptr[buffers, 0] + (matrix + top * columns + left) * ITEM
        to = ptr[buffers, 1] + (matrix + left * rows + top) * ITEM
        high = min(tall, rows - top)
        turn_matrix(at, columns * ITEM, to, rows * ITEM, high, min(wide, columns - left))


def turn_matrix(
    at: ptr,
    step: i64,
    to: ptr,
    stride: i64,
    rows: i64,
    columns: i64,
    *,
    ITEM: static,
    LANES: static,
    SQUARES: static,
) -> void:
    """Row r and column c of a matrix to row c and column r of another.

    Of both, the bytes from a row to the next. Lines are copied as they are, matrices of few rows or
    columns element by element, others in squares.
    """
    if (rows == 1) & (stride == ITEM) | (columns == 1) & (step == ITEM):
        memcpy(to, at, rows * columns * ITEM)
    elif not SQUARES:
        turn_elements(at, step, to, stride, rows, columns)
    elif min(rows, columns) < LANES:
        turn_elements(at, step, to, stride, rows, columns)
    else:
        turn_squares(at, step, to, stride, rows, columns)


def turn_elements(
    at: ptr, step: i64, to: ptr, stride: i64, rows: i64, columns: i64, *, ITEM: static
) -> void:
    """The same element by element, some of the longer side at a time."""
    tall = columns < rows
    many = rows if tall else columns
    few = columns if tall else rows
    # bytes from an element to the next along both sides
    down, across = step if tall else ITEM, ITEM if tall else step
    near, far = ITEM if tall else stride, stride if tall else ITEM
    for first in range(0, many, STRIP):
        for i in range(few):
            for j in range(first, min(first + STRIP, many)):
                E[to + i * far + j * near, 0] = E[at + i * across + j * down, 0]


def turn_squares(
    at: ptr,
    step: i64,
    to: ptr,
    stride: i64,
    rows: i64,
    columns: i64,
    *,
    ITEM: static,
    LANES: static,
) -> void:
    """The same in squares, of which the last in each direction may overlap those before."""
    edge = columns - LANES
    rest = min(columns % LANES, i64(1))
    for row in range(0, rows, LANES):
        r = min(row, rows - LANES)
        spot = at + r * step
        place = to + r * ITEM
        squares(spot, step, place, stride, columns // LANES, LANES * ITEM, stride * LANES)
        squares(spot + edge * ITEM, step, place + edge * stride, stride, rest, 0, 0)
