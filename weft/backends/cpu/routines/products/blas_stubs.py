"""Blocks of a product by a library's ``gemm``, those of complex numbers and small ones, and what
stubs call functions of BLAS with."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.backends.cpu.routines.stub_text import plain_module
from weft.backends.llvm.code import Effort, Module
from weft.base.functional import lru
from weft.kernel.kinds import f32, i32, i64, invoke, kind_of, ptr, static, values, void

ROW_MAJOR = 101
# CBLAS's codes.
NO_TRANSPOSE, TRANSPOSE, CONJUGATE_TRANSPOSE = 111, 112, 113
UPPER, LOWER = 121, 122
NON_UNIT, UNIT = 131, 132
LEFT, RIGHT = 141, 142

# Kinds and static parameters of the stubs: real numbers, their bytes, and how
# many of them an element is.
F: Any = f32


# --- calls ----------------------------------------------------------------------------------------


def bits_of(number: float, dtype: np.dtype) -> list[int]:
    """The bits of a number of some dtype, as integers of a table."""
    return np.frombuffer(np.array(number, dtype).tobytes().ljust(8, b"\0"), np.int64).tolist()


def scalar(table: ptr, word: int, *, PARTS: static) -> values:
    """A number as BLAS takes it: by value, or where complex by its address."""
    return F[table + 8 * word, 0] if PARTS == 1 else table + 8 * word


def numbers(table: ptr, first: int, count: int) -> values:
    """Some numbers of a table."""
    return [i64[table, first + i] for i in range(count)]


def blas(routine: ptr, *given: Any) -> values:
    """Call a function of BLAS for matrices of rows; its integers have 32 bits."""
    whole = [type(x) is int or x.kind.family == "signed" for x in given]
    words = [i32(x) if short else x for x, short in zip(given, whole, strict=True)]
    invoke(void, routine, i32(ROW_MAJOR), *words)


# --- products -------------------------------------------------------------------------------------

# Where the table has, for each outer axis, its size and the strides of left, right and result, from
# the last axis on; then sizes, blocks and how many there are, strides of rows and columns, and how
# operands lie: the library's word for that, with a leading stride in elements. Other strides are in
# real numbers. At last 1 and 0.
OUTER = (8, 4, 0)
SIZES, BLOCKS, STRIDES, ORDERS, ONE, ZERO = 12, 15, 19, 23, 28, 30


@lru(4)
def product_module(dtype: np.dtype) -> Module:
    """The text of products of numbers of a dtype."""
    parts = 1 + (dtype.kind == "c")
    real = kind_of(f"f{dtype.itemsize // parts}")
    made = plain_module([product], {"F": real, "BYTES": real.size, "PARTS": parts})
    return made.with_effort(Effort.QUICK)


def product(buffers: ptr, start: i64, stop: i64, *, BYTES: static) -> void:
    """Blocks of products: buffers are left, right, result, the function and the table."""
    table = ptr[buffers, 4]
    rows, columns, depth = numbers(table, SIZES, 3)
    row_block, column_block, row_blocks, column_blocks = numbers(table, BLOCKS, 4)
    a_row, b_column, out_row, out_column = numbers(table, STRIDES, 4)
    a_order, a_lead, b_order, b_lead, lead = numbers(table, ORDERS, 5)
    one = scalar(table, ONE)
    zero = scalar(table, ZERO)
    gemm = ptr[buffers, 3]
    for g in range(start, stop):
        column = g % column_blocks * column_block
        row = g // column_blocks % row_blocks * row_block
        rest = g // column_blocks // row_blocks
        left = row * a_row
        right = column * b_column
        out = row * out_row + column * out_column
        for axis in OUTER:
            count, left_step, right_step, out_step = numbers(table, axis, 4)
            left += rest % count * left_step
            right += rest % count * right_step
            out += rest % count * out_step
            rest = rest // count
        m = min(rows - row, row_block)
        n = min(columns - column, column_block)
        a = ptr[buffers, 0] + left * BYTES
        b = ptr[buffers, 1] + right * BYTES
        c = ptr[buffers, 2] + out * BYTES
        blas(gemm, a_order, b_order, m, n, depth, one, a, a_lead, b, b_lead, zero, c, lead)
