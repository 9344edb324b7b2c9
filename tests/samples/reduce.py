"""Samples of reductions: one axis, several, none, and empty ones."""

from functools import partial

import numpy as np

from tests.samples import Sample
from weft import lax, make_jaxpr

NUMBERS = ("float32", "float64", "float16", "bfloat16", "complex64", "int32", "uint8")
ORDERED = ("float32", "float64", "bfloat16", "int32", "uint8", "bool")
BITS = ("bool", "int32", "uint8")
SHAPES = {
    "first": ((3, 4), (0,)),
    "last": ((3, 4), (1,)),
    "middle": ((2, 3, 4), (1,)),
    "two": ((2, 3, 4), (0, 2)),
    "all": ((3, 4), (0, 1)),
    "none": ((3, 4), ()),
    "scalar": ((), ()),
    "odd": ((7,), (0,)),
    "empty": ((0, 3), (0,)),
    "nothing": ((0, 3), (1,)),
}
DTYPES = {
    "reduce_sum": NUMBERS,
    "reduce_prod": NUMBERS,
    "reduce_max": ORDERED,
    "reduce_min": ORDERED,
    "reduce_and": BITS,
    "reduce_or": BITS,
    "reduce_xor": BITS,
}


def normal(shape):
    return lambda rng: rng.standard_normal(shape)


def products(axes, dtype):
    zero = np.zeros((), dtype)
    program = make_jaxpr(lax.mul)(zero, zero)
    return {"computation": lax.mul, "jaxpr": program, "dimensions": axes}


def params(prim, axes):
    return {"axes": axes} | ({"out_sharding": None} if prim == "reduce_sum" else {})


SAMPLES = [
    Sample(
        name=f"{prim}_{label}",
        prim=prim,
        args=[normal(shape)],
        params=params(prim, axes),
        dtypes=dtypes,
    )
    for prim, dtypes in DTYPES.items()
    for label, (shape, axes) in SHAPES.items()
    # The extremum of nothing has a value but no derivative.
    if label != "empty" or prim not in ("reduce_max", "reduce_min")
]
SAMPLES += [
    Sample(
        name=f"{prim}_empty",
        prim=prim,
        args=[normal((0, 3))],
        params={"axes": (0,)},
        dtypes=("int32", "uint8", "bool"),
    )
    for prim in ("reduce_max", "reduce_min")
]
SAMPLES += [
    Sample(
        name=f"{prim}_{label}",
        prim=prim,
        args=[normal(shape)],
        params={"axes": axes, "index_dtype": np.dtype(index)},
        dtypes=ORDERED,
    )
    for prim in ("argmax", "argmin")
    for label, shape, axes, index in (
        ("first", (3, 4), (0,), np.int32),
        ("last", (3, 4), (1,), np.uint8),
        ("line", (7,), (0,), np.int32),
    )
]
SAMPLES += [
    Sample(
        name=f"reduce_{label}",
        prim="reduce",
        args=[normal(shape), lambda rng: np.ones(())],
        params=partial(products, axes),
        dtypes=("float32", "float64"),
    )
    for label, (shape, axes) in SHAPES.items()
]
