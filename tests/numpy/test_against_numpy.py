"""Functions of ``weft.numpy`` against NumPy: values, shapes and dtypes, over shapes and dtypes."""

import warnings
from typing import Any

import numpy as np
import pytest

import weft.numpy as jnp
from weft import dtypes

RNG = np.random.default_rng(7)
FLOATS, INTS, BOOLS, COMPLEX = ("float32",), ("int32", "uint8"), ("bool",), ("complex64",)
NUMBERS = FLOATS + INTS
ALL = NUMBERS + BOOLS + COMPLEX
SHAPES = ((), (3,), (0,), (2, 3), (2, 1, 4))


def sample(shape: tuple[int, ...], dtype: str, low: float = -3, high: float = 3) -> np.ndarray:
    values = RNG.uniform(low, high, shape)
    if dtype == "complex64":
        values = values + 1j * RNG.uniform(low, high, shape)
    if dtype == "bool":
        values = values > 0
    if dtype == "uint8":
        values = np.abs(values)
    return np.asarray(values).astype(dtype)


def same_kind(ours: Any, theirs: Any) -> bool:
    """Whether dtypes agree up to NumPy's wider defaults."""
    wide = {"float64": "float32", "int64": "int32", "uint64": "uint32", "complex128": "complex64"}
    return str(ours) == wide.get(str(theirs), str(theirs))


def check(ours: Any, theirs: Any, dtype: bool = True) -> None:
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            check(a, b, dtype)
        return
    theirs = np.asarray(theirs)
    if dtype:
        assert same_kind(ours.dtype, theirs.dtype), (ours.dtype, theirs.dtype)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(np.asarray(ours), theirs, rtol=2e-5, atol=2e-5)


# name: (dtypes, low, high, dtype follows NumPy's)
UNARY: dict[str, tuple[tuple[str, ...], float, float, bool]] = {
    **dict.fromkeys(("exp", "sin", "cos", "sinh", "cosh", "tanh"), (FLOATS + COMPLEX, -2, 2, True)),
    **dict.fromkeys(("expm1", "arctan", "arcsinh", "cbrt", "rint", "trunc"), (FLOATS, -3, 3, True)),
    **dict.fromkeys(("log", "log2", "log10", "log1p", "sqrt", "exp2"), (FLOATS, 0.1, 4, True)),
    **dict.fromkeys(("arcsin", "arccos", "arctanh", "tan", "sinc"), (FLOATS, -0.9, 0.9, True)),
    **dict.fromkeys(("isfinite", "isnan", "isinf", "logical_not"), (ALL, -3, 3, True)),
    **dict.fromkeys(("square", "abs", "conj", "real"), (NUMBERS + COMPLEX, -3, 3, True)),
    **dict.fromkeys(
        ("floor", "ceil", "sign", "fabs", "signbit", "negative"), (FLOATS, -3, 3, True)
    ),
    **dict.fromkeys(("deg2rad", "rad2deg", "nan_to_num", "spacing", "i0"), (FLOATS, -9, 9, True)),
    **dict.fromkeys(("frexp", "modf"), (FLOATS, -9, 9, False)),
    **dict.fromkeys(("bitwise_count", "invert"), (INTS, 0, 9, True)),
    "angle": (FLOATS + COMPLEX, -3, 3, True),
    "reciprocal": (FLOATS, 0.5, 3, True),
    "arccosh": (FLOATS, 1.1, 4, True),
}


@pytest.mark.parametrize("name", sorted(UNARY))
def test_unary(name: str) -> None:
    kinds, low, high, dtype = UNARY[name]
    for kind in kinds:
        for shape in SHAPES:
            x = sample(shape, kind, low, high)
            check(getattr(jnp, name)(x), getattr(np, name)(x), dtype)


BINARY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("add", "multiply", "equal", "not_equal", "logical_and", "logical_xor"), ALL),
    **dict.fromkeys(("subtract", "maximum", "minimum", "less", "greater_equal"), NUMBERS),
    **dict.fromkeys(("arctan2", "hypot", "logaddexp", "logaddexp2", "copysign", "power"), FLOATS),
    **dict.fromkeys(("fmax", "fmin", "heaviside", "nextafter", "float_power", "divide"), FLOATS),
    **dict.fromkeys(("floor_divide", "remainder", "fmod", "divmod"), ("float32", "int32")),
    **dict.fromkeys(("gcd", "lcm"), ("int32",)),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), ("int32", "uint8", "bool")),
    **dict.fromkeys(("left_shift", "right_shift"), ("int32",)),
}
PAIRS = (((), ()), ((3,), (3,)), ((2, 3), (3,)), ((2, 1), (3,)), ((), (2, 2)), ((0,), (1,)))


@pytest.mark.parametrize("name", sorted(BINARY))
def test_binary(name: str) -> None:
    low = 0.5 if name in ("power", "float_power", "left_shift", "right_shift") else -3
    for kind in BINARY[name]:
        for left, right in PAIRS:
            x, y = sample(left, kind, low), sample(right, kind, low)
            if name in ("floor_divide", "remainder", "fmod", "divmod"):
                y = np.where(y == 0, 1, y).astype(kind)
            check(getattr(jnp, name)(x, y), getattr(np, name)(x, y))


# function: keyword arguments to try
REDUCTIONS: dict[str, tuple[tuple[str, ...], tuple[dict[str, Any], ...]]] = {
    **{
        n: (NUMBERS + COMPLEX, ({}, {"axis": 0}, {"axis": (0, 1)}, {"axis": -1, "keepdims": True}))
        for n in ("sum", "prod", "mean")
    },
    **{n: (NUMBERS, ({}, {"axis": 1}, {"keepdims": True})) for n in ("max", "min", "ptp")},
    **{n: (ALL, ({}, {"axis": 1})) for n in ("all", "any", "count_nonzero")},
    **{n: (NUMBERS, ({}, {"axis": 0}, {"axis": 1, "ddof": 1})) for n in ("var", "std")},
    **{n: (NUMBERS, ({}, {"axis": 0})) for n in ("argmax", "argmin", "median", "cumsum")},
    **{n: (FLOATS, ({}, {"axis": 0})) for n in ("nansum", "nanmean", "nanmax", "nanmedian")},
    "average": (FLOATS, ({}, {"axis": 1})),
    "cumprod": (FLOATS, ({}, {"axis": 1})),
}
WIDER_IN_NUMPY = ("cumsum", "median")  # NumPy widens small integers, or takes doubles


@pytest.mark.parametrize("name", sorted(REDUCTIONS))
def test_reductions(name: str) -> None:
    kinds, options = REDUCTIONS[name]
    for kind in kinds:
        x = sample((3, 4), kind)
        for option in options:
            ours, theirs = getattr(jnp, name)(x, **option), getattr(np, name)(x, **option)
            check(ours, theirs, dtype=kind != "uint8" or name not in WIDER_IN_NUMPY)


M, V, T = sample((3, 4), "float32"), sample((5,), "float32"), sample((2, 3, 4), "float32")
I, W = np.array([3, 1, 3, 0, 1]), np.array([1.0, 2.0, 3.0], np.float32)
N = np.where(M > 1, np.nan, M)

# what is called, with any number of arguments, on both libraries
CALLS = {
    "append": lambda m: m.append(V, 1.0),
    "apply_along_axis": lambda m: m.apply_along_axis(lambda r: r * 2, 0, M),
    "apply_over_axes": lambda m: m.apply_over_axes(m.sum, T, [0, 2]),
    "argsort": lambda m: m.argsort(M, axis=0),
    "argwhere": lambda m: m.argwhere(M > 0),
    "array_split": lambda m: m.array_split(V, 2),
    "atleast_3d": lambda m: m.atleast_3d(M),
    "bartlett": lambda m: m.bartlett(5),
    "bincount": lambda m: m.bincount(I),
    "bincount/weights": lambda m: m.bincount(I, weights=V),
    "blackman": lambda m: m.blackman(6),
    "block": lambda m: m.block([[m.array(M), m.array(M)], [m.array(M), m.array(M)]]),
    "broadcast_arrays": lambda m: m.broadcast_arrays(M, W[:, None]),
    "c_": lambda m: m.c_[m.array(V), m.array(V)],
    "clip": lambda m: m.clip(M, -1, 1),
    "column_stack": lambda m: m.column_stack([V, V]),
    "compress": lambda m: m.compress(m.array([True, False, True]), M, axis=0),
    "concatenate": lambda m: m.concatenate([M, M], axis=1),
    "convolve": lambda m: m.convolve(V, W, mode="same"),
    "correlate": lambda m: m.correlate(V, W, mode="full"),
    "corrcoef": lambda m: m.corrcoef(M),
    "cov": lambda m: m.cov(M, rowvar=False, ddof=0),
    "cov/weights": lambda m: m.cov(M, aweights=np.arange(1.0, 5.0, dtype=np.float32)),
    "cross": lambda m: m.cross(M[:, :3], M[:, 1:]),
    "delete": lambda m: m.delete(V, m.array([0, 3])),
    "diag": lambda m: m.diag(W, -1),
    "diagonal": lambda m: m.diagonal(T, 1, 1, 2),
    "diagflat": lambda m: m.diagflat(M[:2, :2], 1),
    "diff": lambda m: m.diff(M, 2, axis=1),
    "digitize": lambda m: m.digitize(V, m.array([-1.0, 0.0, 1.0])),
    "dot": lambda m: m.dot(M, M.T),
    "dsplit": lambda m: m.dsplit(T, 2),
    "dstack": lambda m: m.dstack([M, M]),
    "ediff1d": lambda m: m.ediff1d(M, to_end=9),
    "einsum": lambda m: m.einsum("ij,kj->ik", M, M),
    "einsum/trace": lambda m: m.einsum("ii->i", M[:, :3]),
    "eye": lambda m: m.eye(3, 4, k=1),
    "flip": lambda m: m.flip(T, (0, 2)),
    "full_rows": lambda m: m.full((2, 3), m.array(W)),
    "geomspace": lambda m: m.geomspace(1, 1000, 4),
    "gradient": lambda m: m.gradient(M, axis=1),
    "gradient/coordinates": lambda m: m.gradient(V, m.array([0.0, 1.0, 3.0, 4.0, 8.0])),
    "hamming": lambda m: m.hamming(5),
    "hanning": lambda m: m.hanning(5),
    "histogram_bin_edges": lambda m: m.histogram_bin_edges(V, 4),
    "hstack": lambda m: m.hstack([M, M]),
    "indices": lambda m: m.indices((2, 3)),
    "inner": lambda m: m.inner(M, M),
    "insert": lambda m: m.insert(M, 1, 5, axis=1),
    "interp": lambda m: m.interp(m.array([0.5, 2.2]), np.arange(5.0, dtype=np.float32), V),
    "intersect1d": lambda m: m.intersect1d(I, m.array([1, 3, 9])),
    "isin": lambda m: m.isin(I, m.array([1, 9])),
    "kaiser": lambda m: m.kaiser(5, 3.0),
    "kron": lambda m: m.kron(M, W),
    "lexsort": lambda m: m.lexsort((V, I)),
    "linspace": lambda m: m.linspace(0, 1, 7, endpoint=False),
    "logspace": lambda m: m.logspace(0, 2, 3),
    "matmul": lambda m: m.matmul(T, M.T),
    "meshgrid": lambda m: m.meshgrid(V, W, indexing="ij"),
    "moveaxis": lambda m: m.moveaxis(T, 0, -1),
    "nanpercentile": lambda m: m.nanpercentile(N, 30),
    "nanquantile": lambda m: m.nanquantile(N, m.array([0.2, 0.9], dtype="float32"), axis=1),
    "outer": lambda m: m.outer(V, W),
    "packbits": lambda m: m.packbits(m.array([1, 0, 1, 1, 0, 0, 1, 0, 1])),
    "pad": lambda m: m.pad(M, ((1, 2), (0, 1)), constant_values=7),
    "pad/reflect": lambda m: m.pad(V, (7, 3), mode="reflect"),
    "pad/symmetric": lambda m: m.pad(M, 2, mode="symmetric", reflect_type="odd"),
    "pad/wrap": lambda m: m.pad(V, (7, 3), mode="wrap"),
    "pad/edge": lambda m: m.pad(M, 1, mode="edge"),
    "pad/ramp": lambda m: m.pad(V, 2, mode="linear_ramp", end_values=(1, 2)),
    "pad/mean": lambda m: m.pad(M, 1, mode="mean"),
    "percentile": lambda m: m.percentile(M, 30, axis=1),
    "poly": lambda m: m.poly(W),
    "polyadd": lambda m: m.polyadd(V, W),
    "polyder": lambda m: m.polyder(V, 2),
    "polyint": lambda m: m.polyint(V, 2),
    "polymul": lambda m: m.polymul(V, W),
    "polyval": lambda m: m.polyval(W, V),
    "polyfit": lambda m: m.polyfit(np.arange(5, dtype=np.float32), V, 2),
    "quantile": lambda m: m.quantile(M, m.array([0.2, 0.9], dtype="float32"), axis=0),
    "r_": lambda m: m.r_[m.array(V), 1.0, m.array(W)],
    "ravel/F": lambda m: m.ravel(M, order="F"),
    "repeat": lambda m: m.repeat(M, m.array([1, 0, 2]), axis=0),
    "reshape/F": lambda m: m.reshape(T, (4, 6), order="F"),
    "resize": lambda m: m.resize(V, (2, 4)),
    "roll": lambda m: m.roll(M, (1, -2), axis=(0, 1)),
    "roots": lambda m: m.sort(m.roots(m.array([1.0, -6.0, 11.0, -6.0])).real),
    "rot90": lambda m: m.rot90(T, 3, (1, 2)),
    "round": lambda m: m.round(M, 1),
    "searchsorted": lambda m: m.searchsorted(np.sort(V), M),
    "select": lambda m: m.select([M < 0, M < 1], [M, 2 * M], 9.0),
    "setdiff1d": lambda m: m.setdiff1d(I, m.array([1])),
    "setxor1d": lambda m: m.setxor1d(I, m.array([1, 7])),
    "sort": lambda m: m.sort(N, axis=0),
    "split": lambda m: m.split(M, [1, 3], axis=1),
    "stack": lambda m: m.stack([V, V], axis=1),
    "swapaxes": lambda m: m.swapaxes(T, 0, 2),
    "take": lambda m: m.take(M, m.array([2, 0]), axis=1),
    "take_along_axis": lambda m: m.take_along_axis(M, np.argsort(M, 1), axis=1),
    "tensordot": lambda m: m.tensordot(T, T, axes=((0, 1), (0, 1))),
    "tile": lambda m: m.tile(M, (2, 1, 2)),
    "trace": lambda m: m.trace(T, 1, 0, 2),
    "trapezoid": lambda m: m.trapezoid(M, dx=0.5, axis=0),
    "tri": lambda m: m.tri(3, 4, 1),
    "tril": lambda m: m.tril(T, -1),
    "tril_indices": lambda m: m.tril_indices(3, 1, 4),
    "triu": lambda m: m.triu(M, 1),
    "trim_zeros": lambda m: m.trim_zeros(m.array([0, 0, 1, 0, 2, 0])),
    "union1d": lambda m: m.union1d(I, m.array([1, 7])),
    "unique": lambda m: m.unique(I, return_index=True, return_inverse=True, return_counts=True),
    "unpackbits": lambda m: m.unpackbits(m.array([3, 129], dtype="uint8"), bitorder="little"),
    "unravel_index": lambda m: m.unravel_index(m.array([3, 11]), (3, 4)),
    "unwrap": lambda m: m.unwrap(np.array([0.0, 3.0, 6.5, 1.0], np.float32)),
    "vander": lambda m: m.vander(W, 4, increasing=True),
    "vdot": lambda m: m.vdot(M, M),
    "vstack": lambda m: m.vstack([V, V]),
    "where": lambda m: m.where(M > 0, M, 0),
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_calls(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(CALLS[name](jnp), CALLS[name](np))


def test_histograms_follow_numpy_in_value() -> None:
    check(jnp.histogram(V, bins=3, range=(-3, 3)), np.histogram(V, 3, (-3, 3)), dtype=False)
    check(jnp.histogram(V, density=True), np.histogram(V, density=True), dtype=False)
    check(jnp.histogram2d(V, V, bins=2)[0], np.histogram2d(V, V, bins=2)[0], dtype=False)


def test_sized_sets_fill_up() -> None:
    assert jnp.unique(I, size=5, fill_value=-1).tolist() == [0, 1, 3, -1, -1]
    assert jnp.setdiff1d(I, jnp.array([1]), size=4, fill_value=-1).tolist() == [0, 3, -1, -1]
    assert jnp.union1d(I, jnp.array([7]), size=6, fill_value=9).tolist() == [0, 1, 3, 7, 9, 9]
    assert jnp.intersect1d(I, jnp.array([1, 7]), size=2, fill_value=-1).tolist() == [1, -1]
    assert jnp.setxor1d(I, jnp.array([1, 7]), size=4, fill_value=-1).tolist() == [0, 3, 7, -1]


def test_searching_methods_agree() -> None:
    a = np.array([-1.0, -0.0, 0.0, 2.0, np.nan], np.float32)
    v = np.array([-2.0, 0.0, 2.0, 3.0, np.nan], np.float32)
    for side in ("left", "right"):
        want = np.searchsorted(a, v, side=side)
        for method in ("scan", "scan_unrolled", "sort", "compare_all"):
            got = jnp.searchsorted(a, v, side=side, method=method)
            if method != "sort":
                assert got.tolist() == want.tolist(), (side, method)


def test_default_dtypes() -> None:
    assert jnp.zeros(2).dtype == jnp.arange(2.0).dtype == dtypes.default_float_dtype()
    assert jnp.arange(2).dtype == jnp.argmax(V).dtype == dtypes.default_int_dtype()
    assert jnp.sum(np.ones(3, np.uint8)).dtype == np.uint32
    assert jnp.mean(np.ones(3, np.float16)).dtype == np.float16
