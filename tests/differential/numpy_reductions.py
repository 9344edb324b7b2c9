"""Cases of the reductions, statistics, sorting and searching functions of ``numpy``."""

from typing import Any

import numpy as np

from tests.differential.harness import (
    ALL,
    BOOLS,
    COMPLEX,
    FLOATS,
    INTS,
    NUMBERS,
    REAL,
    SMALL,
    Spec,
    Table,
)

table = Table("numpy")

AXES: list[dict[str, Any]] = [
    {},
    {"axis": 0},
    {"axis": -1, "keepdims": True},
    {"axis": (0, 2)},
    {"axis": (-1, 0), "keepdims": True},
    {"keepdims": True},
]
ONE_AXIS: list[dict[str, Any]] = [{}, {"axis": 0}, {"axis": -2}]
WHERE = np.array([[True, False, True, True], [False, True, True, False], [True] * 4])


def with_nan(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind not in "fc":
        return x
    x = x.copy()
    x.reshape(-1)[::4] = np.nan
    return x


for names, dtypes, how in (
    ("sum prod", REAL + SMALL[:1], {"ulp": 8, "scaled": True}),
    ("sum prod", COMPLEX, {"ulp": 32, "scaled": True}),
    ("mean", NUMBERS, {"ulp": 8, "scaled": True}),
    ("var std", REAL + COMPLEX, {"ulp": 16, "scaled": True}),
    ("max min amax amin ptp", REAL, {}),
    ("all any count_nonzero", ALL, {}),
    ("median", FLOATS + INTS, {"ulp": 4}),
):
    table.options(names, AXES, (2, 3, 4), dtypes=dtypes, **how)
    table.options(names, [{}], (37,), dtypes=dtypes[:2], **how)
    table.options(names, [{}], (), dtypes=dtypes[:2], **how)
for names, how in (("sum prod", {"ulp": 8, "scaled": True}), ("all any count_nonzero", {})):
    table.options(names, [{}, {"axis": 0}, {"axis": 1}], (0, 3), dtypes=FLOATS + INTS, **how)
table.options("max min", [{"axis": 1}], (0, 3), dtypes=FLOATS + INTS)
table.options("mean var std", [{}], (0,), ulp=8)
chosen: list[dict[str, Any]] = [{"where": WHERE}, {"where": WHERE, "axis": 1}]
table.options("sum prod mean var std any all", chosen, (3, 4), ulp=16, scaled=True)
starts: list[dict[str, Any]] = [{"initial": 2}, {"initial": 2, "axis": 0}]
table.options("sum prod max min", starts, (3, 4), dtypes=FLOATS + INTS, ulp=8, scaled=True)
both: list[dict[str, Any]] = [{"initial": 1, "where": WHERE, "axis": 0}]
table.options("sum prod max min", both, (3, 4), dtypes=FLOATS + INTS, ulp=8, scaled=True)
table.options("var std", [{"ddof": 1}, {"axis": 1, "ddof": 2}], (3, 4), ulp=16, scaled=True)
table.options("var std", [{"correction": 1}], (3, 4), ulp=16, scaled=True)
table.options("sum prod mean", [{"dtype": "float32"}], (3, 4), dtypes=INTS, ulp=8, scaled=True)
table.options("sum prod", [{"dtype": "int32"}], (3, 4), dtypes=SMALL[:2])

table.options(
    "argmax argmin", [*ONE_AXIS, {"axis": 1, "keepdims": True}], (3, 4), dtypes=REAL + BOOLS
)
table.options("argmax argmin", ONE_AXIS, Spec((3, 4), make=with_nan))
table.options("cumsum cumprod", ONE_AXIS, (3, 4), dtypes=NUMBERS[:2] + COMPLEX, ulp=8, scaled=True)
table.options("cumsum cumprod", [{}], (0,), ulp=8, scaled=True)
table.options("cumsum cumprod", [{"dtype": "float32"}], (3, 4), dtypes=INTS, ulp=8, scaled=True)
running: list[dict[str, Any]] = [{"axis": 0}, {"axis": -1, "include_initial": True}]
table.options("cumulative_sum cumulative_prod", running, (3, 4), ulp=8, scaled=True)
table.options("nancumsum nancumprod", ONE_AXIS, Spec((3, 4), make=with_nan), ulp=8, scaled=True)

some = Spec((3, 4), make=with_nan)
nan_axes: list[dict[str, Any]] = [{}, {"axis": 0}, {"axis": 1, "keepdims": True}]
table.options("nansum nanprod nanmean", nan_axes, some, dtypes=FLOATS + INTS, ulp=8, scaled=True)
table.options("nanvar nanstd", [*nan_axes, {"ddof": 1}], some, ulp=16, scaled=True)
table.options("nanmax nanmin", nan_axes, some, dtypes=FLOATS + INTS)
table.options("nanmedian", nan_axes, some, ulp=4)
table.options("nanargmax nanargmin", [{}, {"axis": 1}], some)
table.options(
    "nansum nanmean nanmax",
    [{}],
    Spec((4,), make=lambda x: np.full(x.shape, np.nan, x.dtype)),
    ulp=8,
    scaled=True,
)

quantiles = [0.0, 0.3, 0.5, 1.0]
methods = ("linear", "lower", "higher", "midpoint", "nearest")
for method in methods:
    table.add(
        "quantile",
        lambda m, x, method=method: [
            m.quantile(x, np.array(quantiles, x.dtype), method=method),
            m.quantile(x, 0.3, axis=0, method=method),
            m.nanquantile(x, 0.7, axis=1, keepdims=True, method=method),
        ],
        (3, 5),
        label=method,
        dtypes=FLOATS,
        ulp=8,
        scaled=True,
    )
    table.add(
        "percentile",
        lambda m, x, method=method: [
            m.percentile(x, 30.0, method=method),
            m.percentile(x, np.array([10.0, 90.0], x.dtype), axis=-1, method=method),
            m.nanpercentile(x, 55.0, axis=0, method=method),
        ],
        (3, 5),
        label=method,
        ulp=8,
        scaled=True,
    )
table.add("quantile", lambda m, x: m.quantile(x, 0.5, axis=(0, 1)), (2, 3, 4), ulp=8)
table.add("nanquantile", lambda m, x: m.nanquantile(x, 0.4, axis=0), some, ulp=8, scaled=True)
table.add("nanpercentile", lambda m, x: m.nanpercentile(x, 40.0), some, ulp=8, scaled=True)

table.options("average", [{}, {"axis": 1}, {"axis": (0, 1)}], (3, 4), ulp=8, scaled=True)
table.add(
    "average",
    lambda m, x, w: [m.average(x, axis=1, weights=w), *m.average(x, 1, w, returned=True)],
    (3, 4),
    Spec((4,), low=0.5),
    ulp=16,
    scaled=True,
)
table.options("cov corrcoef", [{}, {"rowvar": False}], (3, 5), ulp=64, scaled=True)
table.options("cov", [{"bias": True}, {"ddof": 0}], (3, 5), ulp=64, scaled=True)
table.add("cov", lambda m, x, y: m.cov(x, y), (3, 5), (3, 5), ulp=64, scaled=True)
table.add(
    "cov",
    lambda m, x: [
        m.cov(x, fweights=np.array([1, 2, 1, 3, 1])),
        m.cov(x, aweights=np.array([1, 2, 1, 3, 1.0], np.float32)),
    ],
    (3, 5),
    ulp=64,
    scaled=True,
)
table.add(
    "histogram",
    lambda m, x: [
        *m.histogram(x, bins=5, range=(-3, 3)),
        *m.histogram(x, bins=4, range=(-2, 2), density=True),
        m.histogram_bin_edges(x, 6, range=(-1, 1)),
        m.histogram(x, bins=np.array([-3, -1, 0, 3], np.float32))[0],
    ],
    (37,),
    ulp=8,
    dtype=False,
)
table.add(
    "histogram",
    lambda m, x, w: m.histogram(x, bins=5, range=(-3, 3), weights=w)[0],
    (37,),
    (37,),
    ulp=16,
    scaled=True,
    dtype=False,
)
table.add(
    "histogram2d",
    lambda m, x, y: [
        *m.histogram2d(x, y, bins=4, range=[[-3, 3], [-2, 2]]),
        m.histogram2d(x, y, bins=[3, 5], range=[[-3, 3], [-2, 2]], density=True)[0],
    ],
    (37,),
    (37,),
    ulp=8,
    dtype=False,
)
table.add(
    "histogramdd",
    lambda m, x: m.histogramdd(x, bins=[2, 3, 4], range=[(-3, 3)] * 3)[0],
    (37, 3),
    dtype=False,
)
table.add(
    "bincount",
    lambda m, x: [m.bincount(x, minlength=9)],
    Spec((12,), dtype="int32", low=0, high=6),
    jit=False,
)
table.add(
    "bincount",
    lambda m, x, w: m.bincount(x, weights=w, minlength=9),
    Spec((12,), dtype="int32", low=0, high=6),
    (12,),
    ulp=8,
    scaled=True,
    jit=False,
)
# places are of 32 bits as long as they fit
table.add(
    "digitize",
    lambda m, x: [
        m.digitize(x, np.array([-2, 0, 1], np.float32)),
        m.digitize(x, np.array([-2, 0, 1], np.float32), right=True),
        m.digitize(x, np.array([1, 0, -2], np.float32)),
    ],
    (2, 5),
    dtype=False,
)
for side in ("left", "right"):
    table.add(
        "searchsorted",
        lambda m, a, v, side=side: m.searchsorted(m.sort(a), v, side=side),
        (7,),
        (2, 3),
        dtypes=REAL,
        label=side,
        dtype=False,
    )
table.add(
    "searchsorted",
    lambda m, a, v: m.searchsorted(a, v, sorter=m.argsort(a)),
    (7,),
    (),
    label="sorter",
    dtype=False,
)
table.add("searchsorted", None, (0,), (3,), label="empty", dtype=False)

# --- sorting --------------------------------------------------------------------------------------

orders: list[dict[str, Any]] = [{}, {"axis": 0}, {"axis": None}]
table.options("sort", orders, (3, 5), dtypes=ALL + SMALL)
table.options("argsort", [{**o, "stable": True} for o in orders], (3, 5), dtypes=ALL)
table.options("sort argsort", [{}], Spec((3, 5), make=with_nan))
table.options("sort", [{}, {"axis": 0}], (0, 3))
table.options("sort", [{}], (200,), dtypes=FLOATS + INTS)
table.add("sort_complex", lambda m, x: m.sort_complex(x), (7,), dtypes=COMPLEX + FLOATS)
table.add(
    "partition",
    lambda m, x: [
        m.sort(m.partition(x, 3)[..., :3]),
        m.partition(x, 3)[..., 3],
        m.sort(m.take_along_axis(x, m.argpartition(x, 2, axis=0), axis=0), axis=0),
    ],
    (4, 6),
    dtypes=REAL,
)
table.add("lexsort", lambda m, x, y: m.lexsort((x, y)), (12,), (12,), dtypes=INTS + FLOATS)
table.add("lexsort", lambda m, x: m.lexsort(x, axis=-1), (2, 3, 4), dtypes=INTS)
table.add("nonzero", lambda m, x: list(m.nonzero(x)), (3, 4), dtypes=ALL, jit=False)
table.add("flatnonzero", lambda m, x: m.flatnonzero(x), (3, 4), dtypes=ALL, jit=False)
table.add("argwhere", lambda m, x: m.argwhere(x), (3, 4), dtypes=ALL, jit=False)
table.add("nonzero", lambda m, x: m.argwhere(x), (0, 2), jit=False)
table.add("extract", lambda m, x: m.extract(x > 0, x), (3, 4), dtypes=REAL, jit=False)
table.add(
    "compress",
    lambda m, x: [
        m.compress(np.array([True, False, True]), x, axis=0),
        m.compress(np.array([False, True]), x),
    ],
    (3, 4),
    dtypes=REAL,
    jit=False,
)
table.add(
    "trim_zeros",
    lambda m, x: [m.trim_zeros(x), m.trim_zeros(x, "f"), m.trim_zeros(x, "b")],
    Spec((7,), make=lambda x: np.array([0, 0, 1, 0, 2, 0, 0], x.dtype)),
    dtypes=FLOATS + INTS,
    jit=False,
)

# --- sets -----------------------------------------------------------------------------------------

table.add("unique", lambda m, x: m.unique(x), (12,), dtypes=REAL + BOOLS, jit=False)
table.add(
    "unique",
    lambda m, x: list(
        m.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=None)
    ),
    (3, 4),
    dtypes=INTS + ("uint8",),
    jit=False,
)
table.add(
    "unique",
    lambda m, x: list(m.unique(x, axis=0, return_index=True, return_counts=True)),
    Spec((6, 2), low=0, high=1),
    dtypes=INTS,
    label="axis",
    jit=False,
)
table.add("unique", lambda m, x: m.unique(x), Spec((3, 4), make=with_nan), label="nan", jit=False)
table.add("unique", lambda m, x: m.unique(x), (0,), label="empty", jit=False)
table.add(
    "unique_counts",
    lambda m, x: [m.unique_counts(x).values, m.unique_counts(x).counts],
    (12,),
    dtypes=INTS,
    jit=False,
)
table.add("unique_values", lambda m, x: m.sort(m.unique_values(x)), (12,), dtypes=INTS, jit=False)
table.add(
    "unique_inverse",
    lambda m, x: m.take(m.unique_inverse(x).values, m.unique_inverse(x).inverse_indices),
    (3, 4),
    dtypes=INTS,
    jit=False,
)
table.add(
    "unique_all",
    lambda m, x: m.take(m.unique_all(x).values, m.unique_all(x).inverse_indices),
    (3, 4),
    dtypes=INTS,
    jit=False,
)
table.add(
    "union1d",
    lambda m, x, y: [
        m.union1d(x, y),
        m.intersect1d(x, y),
        m.setdiff1d(x, y),
        m.setxor1d(x, y),
        *m.intersect1d(x, y, return_indices=True),
    ],
    (7,),
    (2, 3),
    dtypes=INTS + ("uint8",),
    jit=False,
)
table.add(
    "isin",
    lambda m, x, y: [m.isin(x, y), m.isin(x, y, invert=True)],
    (3, 4),
    (5,),
    dtypes=INTS + FLOATS,
)
table.add("isin", lambda m, x, y: m.isin(x, y), (3,), (0,), label="empty")
