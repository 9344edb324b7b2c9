"""Samples of slices, gathers and scatters: in and out of bounds, repeated and distinct indices."""

import numpy as np

from tests.samples import ANY, FLOATS, INTEGERS, NUMBERS, ORDERED, Sample, fixed, normal, whole
from tests.samples.index_cases import random_case
from weft import lax
from weft.prims.index_dims import GatherScatterMode, ScatterDimensionNumbers

CLIP, FILL = GatherScatterMode.CLIP, GatherScatterMode.FILL_OR_DROP
PROMISE = GatherScatterMode.PROMISE_IN_BOUNDS
MOVED = (*ANY, "float8_e5m2", "int4")


def strided(label, shape, starts, limits, strides):
    params = {"start_indices": starts, "limit_indices": limits, "strides": strides}
    return Sample(f"slice_{label}", "slice", [normal(*shape)], params, MOVED, linear=((0,),))


SAMPLES = [
    strided("box", (4, 5), (1, 0), (3, 4), None),
    strided("steps", (4, 5), (0, 1), (4, 5), (2, 3)),
    strided("nothing", (4, 5), (2, 1), (2, 4), None),
    strided("all", (3,), (0,), (3,), (1,)),
    strided("scalar", (), (), (), None),
]
STARTS = {"inside": 1, "beyond": 9, "before": -9}
SAMPLES += [
    Sample(
        name=f"dynamic_slice_{label}_{index}",
        prim="dynamic_slice",
        args=[normal(4, 5), fixed(start, index), fixed(2, index)],
        params={"slice_sizes": (2, 3)},
        dtypes=MOVED,
        linear=((0,),),
    )
    for label, start in STARTS.items()
    for index in ("int32", "uint8", "int8")
    if start >= 0 or index != "uint8"
]
SAMPLES += [
    Sample(
        name=f"dynamic_slice_{label}",
        prim="dynamic_slice",
        args=[normal(*shape), *(whole(0, 4, dtype=np.int32) for _ in shape)],
        params={"slice_sizes": sizes},
        dtypes=MOVED,
        linear=((0,),),
    )
    for label, shape, sizes in (
        ("varying", (4, 5), (2, 2)),
        ("line", (6,), (3,)),
        ("scalar", (), ()),
        ("nothing", (4, 5), (0, 5)),
    )
]
SAMPLES += [
    Sample(
        name=f"dynamic_update_slice_{label}",
        prim="dynamic_update_slice",
        args=[normal(*shape), normal(*update), *(whole(-1, 6, dtype=np.int32) for _ in shape)],
        dtypes=MOVED,
        linear=((0, 1), (0,), (1,)),
    )
    for label, shape, update in (
        ("box", (4, 5), (2, 3)),
        ("line", (6,), (2,)),
        ("scalar", (), ()),
        ("nothing", (4, 5), (0, 3)),
    )
]

# operand, indices, offset_dims, collapsed, start_index_map, slice sizes
GATHERS = {
    "rows": ((5, 3), (4, 1), (1,), (0,), (0,), (1, 3)),
    "elements": ((5, 3), (4, 2), (), (0, 1), (0, 1), (1, 1)),
    "windows": ((5, 4), (3, 2), (1, 2), (), (0, 1), (2, 3)),
    "window_first": ((5, 4), (3, 1), (0,), (1,), (1,), (2, 1)),
    "one": ((5, 3), (1,), (0,), (0,), (0,), (1, 3)),
    "grid": ((5, 3), (2, 2, 1), (0,), (0,), (0,), (1, 3)),
}


def gather(label, mode, low, high):
    shape, indices, offset, collapsed, index_map, sizes = GATHERS[label]
    numbers = lax.GatherDimensionNumbers(offset, collapsed, index_map)
    # NaN, the usual fill value, has no differences and no linear map.
    fill = 0 if mode is FILL else None
    return Sample(
        name=f"gather_{label}_{mode.name.lower()}",
        prim="gather",
        args=[normal(*shape), whole(low, high, *indices, dtype=np.int32)],
        params={
            "dimension_numbers": numbers,
            "slice_sizes": sizes,
            "unique_indices": False,
            "indices_are_sorted": False,
            "mode": mode,
            "fill_value": fill,
        },
        dtypes=MOVED,
        linear=((0,),),
    )


SAMPLES += [gather(label, mode, -2, 8) for label in GATHERS for mode in (CLIP, FILL)]
SAMPLES += [gather(label, PROMISE, 0, 2) for label in GATHERS]


def batched_gather(k):
    rng = np.random.default_rng(k)
    shape, indices, numbers, sizes = random_case(rng)
    low, high = (-2, 6) if k % 2 else (0, 1)
    return Sample(
        name=f"gather_random_{k}",
        prim="gather",
        args=[normal(*shape), whole(low, high, *indices, dtype=np.int32)],
        params={
            "dimension_numbers": numbers,
            "slice_sizes": sizes,
            "unique_indices": False,
            "indices_are_sorted": False,
            "mode": (CLIP, FILL, PROMISE)[k % 3 if k % 2 == 0 else k % 2],
            "fill_value": 0 if k % 2 or k % 3 == 1 else None,
        },
        dtypes=("float32", "complex64", "int32"),
        linear=((0,),),
    )


SAMPLES += [batched_gather(k) for k in range(24)]

# operand, indices, updates, update_window_dims, inserted, scatter_dims
SCATTERS = {
    "rows": ((5, 3), (4, 1), (4, 3), (1,), (0,), (0,)),
    "elements": ((5, 3), (4, 2), (4,), (), (0, 1), (0, 1)),
    "windows": ((5, 4), (2, 2), (2, 2, 3), (1, 2), (), (0, 1)),
    "one": ((5, 3), (1,), (3,), (0,), (0,), (0,)),
}
COMBINED = {
    "scatter_add": NUMBERS,
    "scatter_sub": NUMBERS,
    "scatter_mul": NUMBERS,
    "scatter_min": ORDERED,
    "scatter_max": ORDERED,
}


def distinct(high, *shape):
    """Index vectors whose first entries do not repeat."""

    def make(rng):
        indices = rng.integers(0, 2, shape).astype(np.int32)
        indices.reshape(-1, shape[-1])[:, 0] = rng.permutation(high)[: indices[..., 0].size]
        return indices

    return make


def scatter(function, label, mode, unique, dtypes):
    shape, indices, updates, window, inserted, dims = SCATTERS[label]
    numbers = ScatterDimensionNumbers(window, inserted, dims)
    scatter_of = getattr(lax, function)

    def call(x, i, u):
        return scatter_of(x, i, u, numbers, mode=mode, unique_indices=unique)

    # Windows of two rows that start two rows apart do not meet.
    step = 2 if label == "windows" else 1
    apart = distinct(4 // step if step == 2 else 5, *indices)
    places = (lambda rng: apart(rng) * step) if unique else whole(-2, 7, *indices, dtype=np.int32)
    jointly = function in ("scatter", "scatter_add", "scatter_sub")
    linear = ((0, 2), (0,), (2,)) if jointly else ((0,), (2,))
    product = function == "scatter_mul" and not unique
    return Sample(
        name=f"{function}_{label}_{mode or 'default'}{'_unique' if unique else ''}",
        prim=function.replace("_", "-"),
        args=[normal(*shape), places, normal(*updates)],
        fun=call,
        dtypes=dtypes,
        linear=linear if unique and function not in ("scatter_min", "scatter_max") else (),
        wrt=(0,) if product else None,
        tol=16,
        notes="derivatives by repeated factors are not defined" if product else "",
    )


SAMPLES += [
    scatter(function, label, mode, unique, dtypes)
    for function, dtypes in {"scatter": MOVED, **COMBINED}.items()
    for label in SCATTERS
    for mode, unique in ((None, False), ("clip", False), (None, True))
]
SAMPLES += [
    Sample(
        name="scatter_apply",
        prim="scatter",
        args=[normal(5, 3), whole(0, 5, 4, 1, dtype=np.int32)],
        fun=lambda x, i: lax.scatter_apply(
            x, i, lambda v: v * v, ScatterDimensionNumbers((1,), (0,), (0,)), update_shape=(4, 3)
        ),
        dtypes=(*FLOATS, *INTEGERS),
        wrt=(),
        notes="an arbitrary function of old values has no derivative here, as in JAX",
    )
]
