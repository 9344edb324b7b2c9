"""Samples of convolutions: layouts, strides, paddings, dilations and groups."""

from tests.samples import Sample
from weft.prims.conv import ConvDimensionNumbers

DTYPES = ("float32", "float64", "bfloat16", "complex64", "int32")
PLAIN = ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2))
PLANE = ConvDimensionNumbers((0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3))
LAST = ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
MIXED = ConvDimensionNumbers((1, 0, 3, 2), (2, 1, 3, 0), (3, 0, 1, 2))
POINT = ConvDimensionNumbers((0, 1), (0, 1), (0, 1))

# lhs, rhs, strides, padding, lhs dilation, rhs dilation, layout, feature groups, batch groups
CASES = {
    "line": ((2, 3, 6), (4, 3, 2), (1,), ((0, 0),), (1,), (1,), PLAIN, 1, 1),
    "stride": ((1, 2, 7), (3, 2, 3), (2,), ((1, 1),), (1,), (1,), PLAIN, 1, 1),
    "cut": ((1, 2, 7), (3, 2, 3), (1,), ((-1, 2),), (1,), (1,), PLAIN, 1, 1),
    "lhs_dilation": ((1, 2, 4), (3, 2, 3), (1,), ((1, 2),), (2,), (1,), PLAIN, 1, 1),
    "rhs_dilation": ((1, 2, 7), (3, 2, 3), (1,), ((1, 0),), (1,), (2,), PLAIN, 1, 1),
    "all": ((1, 2, 5), (3, 2, 3), (3,), ((2, -1),), (2,), (2,), PLAIN, 1, 1),
    "features": ((2, 4, 5), (6, 2, 3), (1,), ((1, 1),), (1,), (1,), PLAIN, 2, 1),
    "depthwise": ((1, 3, 5), (3, 1, 2), (2,), ((0, 1),), (1,), (1,), PLAIN, 3, 1),
    "batches": ((4, 2, 5), (6, 2, 2), (1,), ((0, 0),), (1,), (1,), PLAIN, 1, 2),
    "plane": ((1, 2, 4, 5), (3, 2, 2, 3), (1, 2), ((1, 0), (1, 1)), (1, 1), (1, 1), PLANE, 1, 1),
    "last": ((1, 4, 5, 2), (3, 2, 2, 4), (1, 1), ((1, 1), (0, 1)), (1, 1), (1, 1), LAST, 1, 1),
    "mixed": ((4, 1, 3, 4), (2, 2, 6, 3), (1, 2), ((1, 1), (0, 1)), (1, 2), (2, 1), MIXED, 2, 1),
    "point": ((3, 4), (5, 4), (), (), (), (), POINT, 1, 1),
}  # fmt: skip


def normal(shape):
    return lambda rng: rng.standard_normal(shape)


def params(strides, padding, lhs_dilation, rhs_dilation, layout, features, batches):
    return {
        "window_strides": strides,
        "padding": padding,
        "lhs_dilation": lhs_dilation,
        "rhs_dilation": rhs_dilation,
        "dimension_numbers": layout,
        "feature_group_count": features,
        "batch_group_count": batches,
        "precision": None,
        "preferred_element_type": None,
        "out_sharding": None,
    }


SAMPLES = [
    Sample(
        name=f"conv_general_dilated_{label}",
        prim="conv_general_dilated",
        args=[normal(left), normal(right)],
        params=params(*rest),
        dtypes=DTYPES,
    )
    for label, (left, right, *rest) in CASES.items()
]
