"""Samples of products: every kind of dimension, dtypes that differ, sums in another dtype."""

import numpy as np

from tests.samples import Sample
from weft.prims.ragged_dot import RaggedDotDimensionNumbers

DTYPES = ("float32", "float64", "float16", "bfloat16", "complex64", "int32", "int8", "bool")
SHAPES = {
    "inner": ((4,), (4,), (((0,), (0,)), ((), ()))),
    "outer": ((3,), (2,), (((), ()), ((), ()))),
    "matmul": ((3, 4), (4, 2), (((1,), (0,)), ((), ()))),
    "transposed": ((4, 3), (2, 4), (((0,), (1,)), ((), ()))),
    "batch": ((2, 3, 4), (2, 4, 5), (((2,), (1,)), ((0,), (0,)))),
    "batch_last": ((3, 4, 2), (4, 3, 2), (((1,), (0,)), ((2,), (2,)))),
    "two_of_each": ((2, 3, 4, 2), (3, 2, 2, 4), (((2, 3), (3, 2)), ((0, 1), (1, 0)))),
    "crossed": ((2, 3, 4), (4, 3, 5), (((1, 2), (1, 0)), ((), ()))),
    "empty": ((3, 0), (0, 2), (((1,), (0,)), ((), ()))),
}


def normal(shape):
    return lambda rng: rng.standard_normal(shape)


def params(numbers, preferred=None):
    return {
        "dimension_numbers": numbers,
        "precision": None,
        "preferred_element_type": None if preferred is None else np.dtype(preferred),
        "out_sharding": None,
    }


SAMPLES = [
    Sample(
        name=f"dot_general_{label}",
        prim="dot_general",
        args=[normal(left), normal(right)],
        params=params(numbers),
        dtypes=DTYPES,
    )
    for label, (left, right, numbers) in SHAPES.items()
]
SAMPLES += [
    Sample(
        name=f"dot_general_{source}_to_{target}",
        prim="dot_general",
        args=[normal((3, 4)), normal((4, 2))],
        params=params(SHAPES["matmul"][2], target),
        dtypes=(source,),
        differentiable=False,
        notes="differences drown in the rounding to the target dtype",
    )
    for source, target in (("bfloat16", "float32"), ("int8", "int32"), ("float32", "bfloat16"))
]

RAGGED = {
    "rows": ((6, 4), (3, 4, 2), (((1,), (1,)), ((), ())), (0,), (0,)),
    "contracting": ((2, 6), (6, 4), (((1,), (0,)), ((), ())), (1,), ()),
    "batch": ((3, 2, 4), (3, 4, 2), (((2,), (1,)), ((0,), (0,))), (0,), ()),
}
SAMPLES += [
    Sample(
        name=f"ragged_dot_general_{label}",
        prim="ragged_dot_general",
        args=[normal(left), normal(right), lambda rng: np.array([2, 1, 3], np.int32)],
        params={
            "ragged_dot_dimension_numbers": RaggedDotDimensionNumbers(numbers, axis, groups),
            "precision": None,
            "preferred_element_type": None,
            "group_offset": None,
            "out_sharding": None,
        },
        dtypes=("float32", "float64"),
    )
    for label, (left, right, numbers, axis, groups) in RAGGED.items()
]
