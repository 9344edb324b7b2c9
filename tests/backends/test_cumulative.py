"""Partial sums, products and extrema as native tasks against the reference: every dtype and axis,
both directions, rows cut into pieces."""

import numpy as np
import pytest

import weft
from tests.backends.tasks import run_tasks
from weft import dtypes, lax
from weft.api.threads import num_threads
from weft.backends.cpu.routines import cumulative
from weft.backends.cpu.routines.registry import LOWERINGS
from weft.kernel.program import Type
from weft.prims.cumulative import cumlogsumexp_p, cummax_p, cummin_p, cumprod_p, cumsum_p

PRIMITIVES = {p.name: p for p in (cumsum_p, cumprod_p, cummax_p, cummin_p)}
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
SHAPES = [((5,), 0), ((300,), 0), ((3, 32), 1), ((3, 50, 20), 1), ((2, 7, 3), 1), ((9, 600), 0)]
CUT = [((140_001,), 0), ((2, 132_000), 1), ((50_003, 3), 0)]
SHORT = [((64, 2), 1), ((131, 3), 1), ((20_001, 4), 1)]


def run(name, x, axis, reverse):
    t = Type(x.shape, x.dtype)
    lowered = LOWERINGS[name]([t], [t], {"axis": axis, "reverse": reverse})
    return run_tasks(lowered, [x], [t])[0]


def reference(name, x, axis, reverse):
    with np.errstate(all="ignore"):
        return PRIMITIVES[name].ref(x, axis=axis, reverse=reverse).astype(x.dtype)


def accumulated(how, x, axis, reverse):
    return np.flip(how(np.flip(x, axis), axis), axis) if reverse else how(x, axis)


def random_of(shape, name):
    return np.random.default_rng([len(name), *shape])


def dtype_of(name):
    return np.dtype(dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", PRIMITIVES)
def test_integers_are_exact(name, dtype):
    for shape, axis in [SHAPES[1], SHAPES[3], CUT[0], *SHORT]:
        x = random_of(shape, dtype).integers(-(2**40), 2**40, shape).astype(dtype)
        for reverse in (False, True):
            got, want = run(name, x, axis, reverse), reference(name, x, axis, reverse)
            assert np.array_equal(got, want), (shape, axis, reverse)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_extrema_are_exact(name, dtype):
    for shape, axis in [*SHAPES, *CUT, *SHORT]:
        random = random_of(shape, dtype)
        x = random.standard_normal(shape)
        for value in (0.0, -0.0, np.inf, -np.inf, *[np.nan] * (len(shape) > 1)):
            x = np.where(random.random(shape) < 0.02, value, x)
        x = np.where(random.random(shape) < 0.5, x, -np.abs(x)).astype(dtype_of(dtype))
        for reverse in (False, True):
            got, want = run(name, x, axis, reverse), reference(name, x, axis, reverse)
            nan = want != want
            assert np.array_equal(got != got, nan)
            got, want = (np.where(nan, np.zeros((), x.dtype), y) for y in (got, want))
            assert got.tobytes() == want.tobytes(), (shape, axis, reverse)


@pytest.mark.parametrize("dtype", [*FLOATS, "complex64", "complex128"])
def test_sums_are_close(dtype):
    kind = dtype_of(dtype)
    wide = np.complex128 if kind.kind == "c" else np.float64
    epsilon = float(dtypes.finfo(kind).eps)
    for shape, axis in [*SHAPES, *CUT, *SHORT]:
        x = random_of(shape, dtype).standard_normal(shape).astype(kind)
        for reverse in (False, True):
            exact = accumulated(np.cumsum, x.astype(wide), axis, reverse)
            sizes = accumulated(np.cumsum, np.abs(x.astype(wide)), axis, reverse)
            wrong = np.abs(run("cumsum", x, axis, reverse).astype(wide) - exact)
            work = epsilon if kind.itemsize > 2 else 2**-24
            bound = sizes * work * np.sqrt(shape[axis]) + np.abs(exact) * epsilon
            assert np.all(wrong <= bound), (shape, axis, reverse)


@pytest.mark.parametrize("dtype", FLOATS)
def test_products_are_close(dtype):
    kind = dtype_of(dtype)
    epsilon = float(dtypes.finfo(kind).eps)
    for shape, axis in [*SHAPES, *CUT, *SHORT]:
        random = random_of(shape, dtype)
        x = np.exp(random.standard_normal(shape) / np.sqrt(shape[axis]) / 4)
        x = (x * np.sign(random.standard_normal(shape))).astype(kind)
        for reverse in (False, True):
            exact = accumulated(np.cumprod, x.astype(np.float64), axis, reverse)
            wrong = np.abs(run("cumprod", x, axis, reverse).astype(np.float64) - exact)
            work = epsilon if kind.itemsize > 2 else 2**-24
            assert np.all(wrong <= np.abs(exact) * (epsilon + work * shape[axis]))


@pytest.mark.parametrize("dtype", FLOATS)
def test_logarithms_of_sums_are_close(dtype):
    kind = dtype_of(dtype)
    epsilon = float(dtypes.finfo(kind).eps)
    for shape, axis in [*SHAPES[1:5], CUT[2]]:
        x = 20 * random_of(shape, dtype).standard_normal(shape)
        x[(0,) * len(shape)] = -np.inf
        x = x.astype(kind)
        for reverse in (False, True):
            got = run("cumlogsumexp", x, axis, reverse).astype(np.float64)
            params = {"axis": axis, "reverse": reverse}
            exact = cumlogsumexp_p.ref(x.astype(np.float64), **params)
            work = epsilon if kind.itemsize > 2 else 2**-24
            bound = (epsilon + 8 * work * np.log2(2 + shape[axis])) * (2 + np.abs(exact))
            finite = exact > -np.inf
            assert np.array_equal(got > -np.inf, finite)
            assert np.all(np.abs(got[finite] - exact[finite]) <= bound[finite]), (shape, reverse)


def test_what_is_not_finite_stays_where_it_begins():
    x = np.ones(40, np.float32)
    x[17], x[30] = np.inf, -np.inf
    got = run("cumsum", x, 0, False)
    assert np.all(got[:17] == np.arange(1, 18)) and np.all(got[17:30] == np.inf)
    assert np.all(np.isnan(got[30:]))
    zeros = np.full(40, -0.0, np.float32)
    assert not np.signbit(run("cumsum", zeros, 0, False)).any()


@pytest.mark.parametrize("bits", [128, 256])
def test_other_widths_of_vectors(bits, monkeypatch):
    monkeypatch.setattr(cumulative, "vector_bits", lambda: bits)
    for shape, axis in SHAPES:
        x = random_of(shape, "width").integers(0, 9, shape).astype(np.float32)
        for reverse in (False, True):
            got, want = run("cumsum", x, axis, reverse), reference("cumsum", x, axis, reverse)
            assert np.array_equal(got, want), (shape, axis, reverse)


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_bits_do_not_depend_on_threads(name):
    for shape, axis in CUT:
        x = random_of(shape, name).uniform(0.99, 1.01, shape).astype(np.float32)
        found = set()
        for threads in (1, 2, 8):
            with num_threads(threads):
                found.add(run(name, x, axis, False).tobytes())
        assert len(found) == 1


def test_what_the_reference_does():
    empty = Type((0, 3), np.dtype(np.float32))
    complex_ = Type((3,), np.dtype(np.complex64))
    assert LOWERINGS["cumsum"]([empty], [empty], {"axis": 1, "reverse": False}) is None
    assert LOWERINGS["cumprod"]([complex_], [complex_], {"axis": 0, "reverse": False}) is None


@pytest.mark.parametrize("shape", [(1,), (5,), (3, 70), (70, 3), (5000,)])
def test_sums_of_negative_zeros_are_zero(shape):
    for axis in range(len(shape)):
        for reverse in (False, True):
            fun = lambda x, a=axis, r=reverse: lax.cumsum(x, a, r)
            for way in (fun, weft.jit(fun)):
                assert not np.signbit(way(np.full(shape, -0.0, np.float32))).any()
