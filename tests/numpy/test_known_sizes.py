"""Results whose size depends on values: of many elements natively, with NumPy's answers."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.runtime import policy

N = 5000
RNG = np.random.default_rng(0)
VECTORS = {
    "few kinds": RNG.integers(-30, 90, N).astype(np.int32),
    "many kinds": RNG.integers(-(2**31), 2**31, N).astype(np.int32),
    "bytes": RNG.integers(-128, 128, N).astype(np.int8),
    "flags": RNG.random(N) < 0.5,
    "floats": RNG.integers(0, 2000, N).astype(np.float32) / 7,
    "one": np.full(N, 3, np.int32),
}


@pytest.fixture(autouse=True)
def natively(monkeypatch):
    monkeypatch.setattr(policy, "LARGE_ELEMENTS", 1)


def same(found, expected):
    found = np.asarray(found)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(N,), (50, 100), (5, 10, 100), (0,), (1,)])
@pytest.mark.parametrize("dtype", [np.bool_, np.int16, np.float32, np.complex64, jnp.bfloat16])
def test_positions(shape, dtype):
    value = RNG.integers(0, 2, shape).astype(dtype)
    x = jnp.asarray(value)
    for found, expected in zip(jnp.nonzero(x), np.nonzero(value), strict=True):
        assert found.dtype == np.int32
        same(found, expected)
    same(jnp.argwhere(x), np.argwhere(value))
    same(jnp.flatnonzero(x), np.flatnonzero(value))
    for found, expected in zip(jnp.where(x), np.where(value), strict=True):
        same(found, expected)


@pytest.mark.parametrize(
    "dtype", [np.bool_, np.int8, np.float16, jnp.bfloat16, np.float32, np.complex64]
)
def test_masks(dtype):
    for shape in ((N,), (50, 100), (0,), (1,)):
        value = RNG.integers(0, 2, shape).astype(dtype)
        mask = RNG.random(shape) < 0.4
        found = jnp.asarray(value)[mask]
        assert found.dtype == value.dtype and not found.weak_type
        same(found, value[mask])
        same(jnp.asarray(value)[jnp.asarray(mask)], value[mask])
        same(jnp.extract(mask, jnp.asarray(value)), value[mask])
    rows = jnp.asarray(RNG.random((50, 100), np.float32))
    some = RNG.random(50) < 0.5
    same(rows[some], np.asarray(rows)[some])
    same(jnp.compress(some, rows, axis=0), np.asarray(rows)[some])


def test_masks_keep_weak_types_and_derivatives():
    x = jnp.full(N, 2.0)
    mask = RNG.random(N) < 0.5
    weak = jnp.asarray(1.0) * np.ones(N, np.float32)
    assert (weak * 1)[mask].weak_type == (weak * 1).weak_type
    same(weft.grad(lambda x: (x[mask] ** 2).sum())(x), np.where(mask, 4, 0))
    same(weft.jit(lambda x: x[mask])(x), np.full(mask.sum(), 2))


@pytest.mark.parametrize("name", VECTORS)
def test_unique(name):
    value = VECTORS[name]
    x = jnp.asarray(value)
    same(jnp.unique(x), np.unique(value))
    for flags in np.ndindex(2, 2, 2):
        index, inverse, counts = map(bool, flags)
        found = jnp.unique(x, index, inverse, counts)
        expected = np.unique(value, index, inverse, counts)
        if not any(flags):
            found, expected = (found,), (expected,)
        for a, b in zip(found, expected, strict=True):
            same(a, b)
        assert found[0].dtype == value.dtype
        assert all(a.dtype == np.int32 for a in found[1:])
    square = jnp.unique_inverse(x.reshape(50, 100))
    same(square.inverse_indices, np.unique(value, return_inverse=True)[1].reshape(50, 100))


@pytest.mark.parametrize("size", [1, 2, 3, 17])
def test_unique_of_few(size):
    value = RNG.integers(0, 3, size).astype(np.int32)
    for a, b in zip(jnp.unique_all(jnp.asarray(value)), np.unique_all(value), strict=True):
        same(a, b)


def test_unique_of_special_floats():
    value = RNG.choice(np.array([np.nan, -np.nan, 0.0, -0.0, 1.0, -np.inf], np.float32), N)
    value[0] = -0.0
    x = jnp.asarray(value)
    for equal in (True, False):
        found = jnp.unique(x, equal_nan=equal)
        same(found, np.unique(value, equal_nan=equal))
        assert np.signbit(np.asarray(found)[1])  # the zero that comes first
    found = jnp.unique(x, True, True, True)
    same(found[0], [-np.inf, 0, 1, np.nan])
    same(found[0][found[2]], value)
    same(found[3].sum(), N)
    same(found[1], [np.argmax(value == v) for v in (-np.inf, 0, 1)] + [np.argmax(value != value)])


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("assume_unique", [False, True])
def test_two_sets(name, assume_unique):
    a, b = VECTORS[name][: N // 2], VECTORS[name][N // 3 :]
    if assume_unique:
        a, b = (RNG.permutation(np.unique(v)) for v in (a, b))
    x, y = jnp.asarray(a), jnp.asarray(b)
    for function in "setdiff1d setxor1d intersect1d".split():
        found = getattr(jnp, function)(x, y, assume_unique=assume_unique)
        same(found, getattr(np, function)(a, b, assume_unique=assume_unique))
    same(jnp.union1d(x, y), np.union1d(a, b))
    options = {"assume_unique": assume_unique, "return_indices": True}
    for found, expected in zip(
        jnp.intersect1d(x, y, **options), np.intersect1d(a, b, **options), strict=True
    ):
        same(found, expected)


@pytest.mark.parametrize("sizes", [(0, 0), (0, 5), (5, 0)])
def test_two_sets_of_nothing(sizes):
    x, y = (jnp.arange(n, dtype=np.float32) for n in sizes)
    for function in "union1d setdiff1d setxor1d intersect1d".split():
        found = getattr(jnp, function)(x, y)
        same(found, getattr(np, function)(np.asarray(x), np.asarray(y)))


def test_unique_numbers_are_as_weak_as_their_array_unless_complex():
    assert jnp.unique(2.5).weak_type
    assert jnp.unique(3, size=1).weak_type
    assert not jnp.unique(jnp.array([3.0, 1.0])).weak_type
    assert not jnp.unique(1 + 2j).weak_type
    assert not jnp.unique(1 + 2j, size=1).weak_type


def test_unique_takes_flags_that_are_no_bools():
    values, index, inverse = jnp.unique(jnp.array([3, 1, 3]), 1, 2.5)
    assert values.tolist() == [1, 3]
    assert index.tolist() == [1, 0]
    assert inverse.tolist() == [1, 0, 1]


def test_the_bound_of_a_range_that_must_be_known_is_named():
    with pytest.raises(weft.errors.ConcretizationTypeError, match="arange needs a concrete stop"):
        weft.jit(lambda n: jnp.arange(n))(3)
    with pytest.raises(weft.errors.ConcretizationTypeError, match="arange needs a concrete start"):
        weft.jit(lambda n: jnp.arange(n, 3))(0)
    with pytest.raises(TypeError, match="at least one number"):
        jnp.arange(None)
