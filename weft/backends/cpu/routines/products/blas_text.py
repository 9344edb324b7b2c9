"""LLVM text that gives blocks of a product to a library's ``gemm``: those of complex numbers, and
small ones by code that does for all shapes."""

from __future__ import annotations

import numpy as np

from weft.backends.cpu.routines.contractions.conv_writer import Text
from weft.backends.llvm.text.instructions import scalar_type

BATCH = 3  # outer axes, each with a size and the strides of left, right and result
# Strides are in numbers of which a complex one has two.
# An order is the library's word for how an operand lies, with its leading stride in elements.
FIELDS = (
    *(f"{what}{i}" for i in range(BATCH) for what in ("count", "left", "right", "out")),
    *"rows columns depth row_block column_block row_blocks column_blocks a_row b_column".split(),
    *"out_row out_column a_order a_lead b_order b_lead out_lead".split(),
)
PLAIN, TRANSPOSED = 111, 112
_ROW_MAJOR = 101


def library_product(real: np.dtype, is_complex: bool, name: str) -> str:
    """A task over blocks: buffers are left, right, result, the function and the table."""
    text, part = Text((0, 1, 2, 3), fields=FIELDS), scalar_type(real)
    one, zero = f"{part} 1.0", f"{part} 0.0"
    if is_complex:
        one, zero = (f"ptr {text.emit(f'alloca [2 x {part}], align 16')}" for _ in range(2))
        text.line(f"store [2 x {part}] [{part} 1.0, {part} 0.0], {one}, align 16")
        text.line(f"store [2 x {part}] zeroinitializer, {zero}, align 16")

    def item(number: str, _: list[str]) -> list[str]:
        counts = [*(f"%count{i}" for i in range(BATCH)), "%row_blocks", "%column_blocks"]
        *outer, row, column = text.indices(number, counts)
        row, column = text.scaled(row, "%row_block"), text.scaled(column, "%column_block")
        rows = text.least(text.less("%rows", row), "%row_block")
        columns = text.least(text.less("%columns", column), "%column_block")
        places = (
            ("left", [text.scaled(row, "%a_row")]),
            ("right", [text.scaled(column, "%b_column")]),
            ("out", [text.scaled(row, "%out_row"), text.scaled(column, "%out_column")]),
        )
        a, b, c = (
            text.at(
                f"%b{k}",
                text.total([*(text.scaled(x, f"%{side}{i}") for i, x in enumerate(outer)), *more]),
                real,
            )
            for k, (side, more) in enumerate(places)
        )
        names = ("%a_order", "%b_order", rows, columns, "%depth", "%a_lead", "%b_lead", "%out_lead")
        ta, tb, m, n, k, lda, ldb, ldc = (
            f"i32 {text.emit(f'trunc i64 {x} to i32')}" for x in names
        )
        text.line(
            f"call void %b3(i32 {_ROW_MAJOR}, {ta}, {tb}, {m}, {n}, {k}, {one}, ptr {a}, {lda},"
            f" ptr {b}, {ldb}, {zero}, ptr {c}, {ldc})"
        )
        return []

    text.loop("%start", "%stop", [], item)
    return text.finish(name)
