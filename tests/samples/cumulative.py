"""Samples of cumulative reductions: both directions, odd and even lengths, short ones."""

from tests.samples import Sample

NUMBERS = ("float32", "float64", "float16", "bfloat16", "complex64", "int32", "uint8")
ORDERED = ("float32", "float64", "bfloat16", "int32", "uint8")
FLOATS = ("float32", "float64", "bfloat16")
SHAPES = {
    "first": ((5, 3), 0),
    "last": ((3, 6), 1),
    "middle": ((2, 4, 3), 1),
    "one": ((1,), 0),
    "two": ((2,), 0),
    "empty": ((0, 3), 0),
}
DTYPES = {
    "cumsum": NUMBERS,
    "cumprod": NUMBERS,
    "cummax": ORDERED,
    "cummin": ORDERED,
    "cumlogsumexp": FLOATS,
}


def normal(shape):
    return lambda rng: rng.standard_normal(shape)


SAMPLES = [
    Sample(
        name=f"{prim}_{label}{'_reverse' if reverse else ''}",
        prim=prim,
        args=[normal(shape)],
        params={"axis": axis, "reverse": reverse},
        dtypes=dtypes,
    )
    for prim, dtypes in DTYPES.items()
    for label, (shape, axis) in SHAPES.items()
    for reverse in (False, True)
]
