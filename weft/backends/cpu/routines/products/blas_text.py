"""LLVM text that gives blocks of a product to a library's ``gemm``: those of complex numbers, and
small ones by code that does for all shapes."""

from __future__ import annotations

from weft.backends.cpu.routines.products.dot_lines import (
    BATCH,
    Lines,
    function,
    least,
    load_table,
    locate,
    pointers,
    unit_of,
)

BLAS_FIELDS = (
    *(f"{what}{i}" for i in range(BATCH) for what in ("size", "lhs", "rhs", "out")),
    "rows",
    "columns",
    "depth",
    "row_block",
    "column_block",
    "row_blocks",
    "column_blocks",
    "a_row",
    "b_column",
    "out_row",
    "out_column",
    "a_order",  # the library's word for how an operand lies, and its leading stride in elements
    "a_lead",
    "b_order",
    "b_lead",
    "out_lead",
)
PLAIN, TRANSPOSED = 111, 112
_ROW_MAJOR = 101


def library_product(part: str, name: str, is_complex: bool) -> str:
    """A task over blocks: buffers are lhs, rhs, result, the table and the function."""
    f = Lines()
    pointers(f, ("lhs", "rhs", "out"))
    load_table(f, 3, BLAS_FIELDS)
    gemm = f.emit(f"load ptr, ptr {f.at('%buffers', '32')}, align 8")
    one, zero = f"{part} 1.0", f"{part} 0.0"
    if is_complex:
        one, zero = (f"ptr {f.emit(f'alloca [2 x {part}], align 16')}" for _ in range(2))
        f(f"store [2 x {part}] [{part} 1.0, {part} 0.0], {one}, align 16")
        f(f"store [2 x {part}] zeroinitializer, {zero}, align 16")
    f.loop("u", "%start", "%stop")
    column_block, row_block, outer = unit_of(f)
    at = locate(f, outer, {"lhs": "%lhs", "rhs": "%rhs", "out": "%out"})
    row = f.emit(f"mul i64 {row_block}, %row_block")
    column = f.emit(f"mul i64 {column_block}, %column_block")
    rows = least(f, "%row_block", f.emit(f"sub i64 %rows, {row}"))
    columns = least(f, "%column_block", f.emit(f"sub i64 %columns, {column}"))
    a = f.at(at["lhs"], f.emit(f"mul i64 {row}, %a_row"))
    b = f.at(at["rhs"], f.emit(f"mul i64 {column}, %b_column"))
    c = f.at(at["out"], f.emit(f"mul i64 {row}, %out_row"))
    c = f.at(c, f.emit(f"mul i64 {column}, %out_column"))
    names = ("%a_order", "%b_order", rows, columns, "%depth", "%a_lead", "%b_lead", "%out_lead")
    ta, tb, m, n, k, lda, ldb, ldc = (f"i32 {f.emit(f'trunc i64 {x} to i32')}" for x in names)
    f(
        f"call void {gemm}(i32 {_ROW_MAJOR}, {ta}, {tb}, {m}, {n}, {k}, {one}, ptr {a}, {lda},"
        f" ptr {b}, {ldb}, {zero}, ptr {c}, {ldc})"
    )
    f.close("u", "%stop", "%u, 1")
    f("ret void")
    return function(f, name)
