"""Samples of cumulative reductions: both directions, odd and even lengths, short ones."""

import numpy as np

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


def some(shape):
    """Few different numbers, many of them equal."""
    return lambda rng: rng.integers(-2, 3, shape).astype(np.float64)


SAMPLES += [
    Sample(
        name=f"extreme_tangent_{label}{'_reverse' if reverse else ''}_{part}",
        prim="extreme_tangent",
        args=[normal(shape), some(shape), some(shape)],
        params={"axis": axis, "reverse": reverse, "least": reverse, "transposed": part == "back"},
        dtypes=FLOATS,
        wrt=(0,),
        linear=((0,),),
    )
    for label, (shape, axis) in SHAPES.items()
    for reverse in (False, True)
    for part in ("forth", "back")
]
