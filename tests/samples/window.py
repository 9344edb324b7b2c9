"""Samples of windows: strides, paddings, dilations, windows that do not fit."""

from functools import partial

import numpy as np

from tests.samples import Sample
from weft import lax, make_jaxpr
from weft.prims.selection import ge_p, le_p
from weft.prims.window import reduce_window_shape

NUMBERS = ("float32", "float64", "bfloat16", "complex64", "int32")
ORDERED = ("float32", "float64", "bfloat16", "int32")
FLOATS = ("float32", "float64", "bfloat16")

# shape, window, strides, padding, base dilation, window dilation
CASES = {
    "line": ((7,), (3,), (1,), ((0, 0),), (1,), (1,)),
    "strides": ((4, 5), (2, 3), (1, 2), ((0, 1), (1, 1)), (1, 1), (1, 1)),
    "base": ((3, 4), (2, 2), (1, 2), ((0, 1), (1, 0)), (2, 3), (1, 1)),
    "window": ((5, 6), (2, 3), (2, 1), ((1, 0), (0, 0)), (1, 1), (2, 2)),
    "both": ((4, 5), (3, 2), (2, 2), ((1, 1), (0, 1)), (1, 2), (1, 2)),
    "cut": ((4, 5), (2, 2), (1, 1), ((-1, 0), (0, -2)), (1, 1), (1, 1)),
    "cube": ((3, 4, 3), (2, 1, 2), (1, 2, 1), ((0, 0),) * 3, (1, 1, 1), (1, 1, 1)),
    "none": ((3, 4), (4, 2), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)),
}
NAMES = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")


def normal(shape):
    return lambda rng: rng.standard_normal(shape)


def params(window):
    return dict(zip(NAMES, window, strict=True))


def products(window, dtype):
    zero = np.zeros((), dtype)
    return {"jaxpr": make_jaxpr(lax.mul)(zero, zero).jaxpr, "consts": ()} | params(window)


def undilated(label):
    return all(d == 1 for d in (*CASES[label][4], *CASES[label][5]))


SAMPLES = [
    Sample(
        name=f"{prim}_{label}",
        prim=prim,
        args=[normal(shape)],
        params=params(window),
        dtypes=dtypes,
    )
    for prim, dtypes in (
        ("reduce_window_sum", NUMBERS),
        ("reduce_window_max", ORDERED),
        ("reduce_window_min", ORDERED),
    )
    for label, (shape, *window) in CASES.items()
]
SAMPLES += [
    Sample(
        name=f"select_and_gather_add_{select}_{label}",
        prim="select_and_gather_add",
        args=[normal(shape), normal(shape)],
        params={"select_prim": select} | params(window),
        dtypes=FLOATS,
    )
    for select in (ge_p, le_p)
    for label, (shape, *window) in CASES.items()
]
SAMPLES += [
    Sample(
        name=f"select_and_scatter_add_{select}_{label}",
        prim="select_and_scatter_add",
        args=[normal(reduce_window_shape(shape, *window[:3])), normal(shape)],
        params={"select_prim": select} | dict(list(params(window).items())[:3]),
        dtypes=FLOATS,
    )
    for select in (ge_p, le_p)
    for label, (shape, *window) in CASES.items()
    if undilated(label)
]
SAMPLES += [
    Sample(
        name=f"reduce_window_{label}",
        prim="reduce_window",
        args=[normal(shape), lambda rng: np.ones(())],
        params=partial(products, window),
        dtypes=("float32", "float64"),
    )
    for label, (shape, *window) in CASES.items()
]
SAMPLES += [
    Sample(
        name=f"select_and_scatter_{label}",
        prim="select_and_scatter",
        args=[
            normal(shape),
            normal(reduce_window_shape(shape, *window[:3])),
            lambda rng: np.zeros(()),
        ],
        params={
            "select_jaxpr": make_jaxpr(lax.ge)(np.float32(0), np.float32(0)).jaxpr,
            "select_consts": (),
            "scatter_jaxpr": make_jaxpr(lax.add)(np.float32(0), np.float32(0)).jaxpr,
            "scatter_consts": (),
        }
        | dict(list(params(window).items())[:3]),
        dtypes=("float32",),
        mapped=(0, 1),
        notes="the initial value is one for the whole batch",
    )
    for label, (shape, *window) in CASES.items()
    if undilated(label)
]
