"""The array rows at odd sizes, with short inner dimensions, and in other dtypes: none may lose."""

from __future__ import annotations

from bench.rows import Row
from bench.suites import arrays
from bench.suites.arrays import Op

SIZES: dict[str, tuple[int, ...]] = {
    "2047×1003": (2047, 1003),
    "inner 3": (700_001, 3),
    "inner 10": (200_003, 10),
    "inner 28": (70_001, 28),
}
# A product of such a matrix with its turned self: the long side is what is multiplied over.
PRODUCTS: dict[str, tuple[int, ...]] = {
    "2047×1003": (2047, 1003),
    "inner 3": (1001, 3),
    "inner 10": (1001, 10),
    "inner 28": (1001, 28),
}
SHORT = {"float64": "f64", "bfloat16": "bf16"}

OPS: list[tuple[Op, dict[str, tuple[int, ...]]]] = [
    (arrays.ELEMENTWISE, SIZES),
    (arrays.AXPY, SIZES),
    (arrays.SUM, SIZES),
    (arrays.SOFTMAX, SIZES),
    (arrays.NORM, SIZES),
    (arrays.COLUMNS, SIZES),
    (arrays.TRANSPOSE, SIZES),
    (arrays.CUMSUM, SIZES),
    (arrays.SORT, SIZES),
    (arrays.ARGSORT, SIZES),
    (arrays.GATHER, {"2047×1003": (2047 * 1003,)}),
    (arrays.SCATTER, {"2047×1003": (2047 * 1003,)}),
    (arrays.NORMAL, SIZES),
    (arrays.UNIFORM, SIZES),
    (arrays.MATMUL, PRODUCTS),
    (arrays.RELU_MATMUL, PRODUCTS),
    (arrays.FFT, {"2047×1003": (2047, 1003), "odd": (1_000_003,), "rows of 28": (70_001, 28)}),
]


def _rows() -> list[Row]:
    found = []
    for op, sizes in OPS:
        for label, shape in sizes.items():
            found.append(op.row(f"{op.name} {label}", shape, target=1.0, torch=False))
        for dtype in op.dtypes:
            if dtype in SHORT:
                name = f"{op.name} {SHORT[dtype]}"
                found.append(op.row(name, dtype=dtype, target=1.0, torch=False))
    batches: dict[str, tuple[int, ...]] = {
        "100×(28×10)": (100, 28, 10),
        "5000×(3×3)": (5000, 3, 3),
        "31×(65×33)": (31, 65, 33),
    }
    for label, shape in batches.items():
        found.append(arrays.MATMUL.row(f"matmul {label}", shape, target=1.0, torch=False))
    return found


ROWS = _rows()
