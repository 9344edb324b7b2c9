"""Functions with a quick form for some arguments: it agrees with NumPy and with the other form."""

import functools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.core.interpret import flushed

RANDOM = np.random.default_rng(0)


def same(found, expected):
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float16", "float32"])
@pytest.mark.parametrize("size", [1, 7, 200])
def test_sets_of_known_values_are_those_of_traced_ones(dtype, size):
    x = jnp.asarray(RANDOM.integers(0, 20, size)).astype(dtype)
    y = jnp.asarray(RANDOM.integers(0, 30, size // 2 + 1)).astype(dtype)
    known = jnp.unique(x, return_index=True, return_inverse=True, return_counts=True)
    sized = weft.jit(
        lambda x: jnp.unique(
            x, return_index=True, return_inverse=True, return_counts=True, size=len(known[0])
        )
    )(x)
    for a, b in zip(known, sized, strict=True):
        assert a.dtype == b.dtype
        same(a, b)
    same(jnp.unique(x), known[0])
    same(weft.jit(lambda x: jnp.unique(x, size=len(known[0])))(x), known[0])
    for function in (jnp.union1d, jnp.intersect1d, jnp.setdiff1d, jnp.setxor1d):
        found = function(x, y)
        assert found.dtype == x.dtype
        if len(found):
            same(found, function(x, y, size=len(found)))


def test_nan_is_one_element_and_the_first_zero_stands_for_both():
    x = jnp.array([np.nan, 0.0, -0.0, np.nan, 1.0])
    found = jnp.unique(x)
    assert found.shape == (3,) and not np.signbit(found[0])
    assert np.signbit(jnp.unique(x[jnp.array([2, 1, 4])])[0])
    assert jnp.unique(x, equal_nan=False).shape == (4,)
    assert jnp.setxor1d(x, x[1:3]).shape[0] >= 2


@pytest.mark.parametrize("count", [3, 65, 300])
def test_membership_by_comparing_and_by_searching(count):
    x, tests = RANDOM.integers(0, 400, 500), RANDOM.integers(0, 400, count)
    same(jnp.isin(x, tests), np.isin(x, tests))
    same(jnp.isin(x, tests, invert=True), np.isin(x, tests, invert=True))


@pytest.mark.parametrize("size", [40, 64, 1000, 1025])
@pytest.mark.parametrize("part", [0.0, 0.05, 1.0])
def test_positions_that_are_searched_for(size, part):
    mask = RANDOM.random(size) < part
    positions = weft.jit(jnp.nonzero, static_argnames=("size", "fill_value"))
    for wanted in (1, size // 40, size // 2):
        for fill in (None, -1):
            (found,) = positions(mask, size=wanted, fill_value=fill)
            right = np.full(wanted, 0 if fill is None else fill)
            known = np.nonzero(mask)[0][:wanted]
            right[: len(known)] = known
            same(found, right)


@pytest.mark.parametrize("kth", [0, 5, -1])
@pytest.mark.parametrize("dtype", ["int32", "float32", "uint8"])
def test_partitions(kth, dtype):
    x = RANDOM.integers(0, 50, (4, 37)).astype(dtype)
    ordered, end = np.sort(x), kth % 37 + 1
    same(jnp.partition(x, kth), np.concatenate([ordered[:, :end], ordered[:, end:][:, ::-1]], 1))
    places = np.asarray(jnp.argpartition(x, kth))
    same(np.sort(places), np.broadcast_to(np.arange(37), (4, 37)))
    same(np.take_along_axis(x, places, 1)[:, :end], ordered[:, :end])


@pytest.mark.parametrize(
    "at", [(1, 9.0), (1, 9.0, 0), (-1, np.arange(4.0), 0), (4, np.arange(3.0), 1)]
)
def test_insertion_at_one_place(at):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    same(jnp.insert(x, *at), np.insert(x, *at))


@pytest.mark.parametrize("gone", [slice(3), slice(4, 1, -1), slice(None, None, 2), slice(2, 2)])
def test_deletion_of_slices(gone):
    x = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    for axis in (None, 0, 1):
        same(jnp.delete(x, gone, axis), np.delete(x, gone, axis))


@pytest.mark.parametrize("order", ["big", "little"])
def test_bits_in_bytes(order):
    for shape, axis in [((16,), None), ((13,), None), ((3, 17), 1), ((9, 4), 0), ((0,), None)]:
        x = RANDOM.integers(0, 2, shape) * 3
        same(jnp.packbits(x, axis, order), np.packbits(x, axis, order))


def test_triangles_by_their_indices():
    for n, k, m in [(3, 0, None), (3, 1, 5), (4, -2, 2), (0, 0, None)]:
        for found, right in zip(jnp.triu_indices(n, k, m), np.triu_indices(n, k, m), strict=True):
            assert found.dtype == jnp.int32
            same(found, right)
        for found, right in zip(jnp.tril_indices(n, k, m), np.tril_indices(n, k, m), strict=True):
            same(found, right)


def test_division_of_polynomials():
    u, v = RANDOM.standard_normal(30), RANDOM.standard_normal(4) + 3
    for a, b in [(u, v), (v, u), (u[:1], v[:1])]:
        quotient, rest = (np.asarray(x, float) for x in jnp.polydiv(a, b))
        whole = np.polyadd(np.polymul(quotient, b), rest)[-len(a) :]
        np.testing.assert_allclose(whole, a, atol=1e-3)
    assert np.isfinite(weft.grad(lambda u: jnp.sum(jnp.polydiv(u, v)[0] ** 2))(u)).all()
    with pytest.raises(ValueError, match="vectors of coefficients"):
        jnp.polydiv(np.ones((3, 3)), np.ones((2, 3)))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_powers_of_two_at_the_ends_of_the_range(dtype):
    size = 10.0 ** RANDOM.integers(-4, 4, 500)
    odd = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 1e-40]
    x = np.concatenate([RANDOM.standard_normal(500) * size, odd]).astype(dtype)
    shift = RANDOM.integers(-320, 320, len(x)).astype(np.int32)
    with np.errstate(all="ignore"):
        same(jnp.ldexp(x, shift), flushed(np.ldexp(x, shift)))


def test_extraction_of_known_elements():
    mask, x = RANDOM.random(50) < 0.5, RANDOM.standard_normal(50).astype(np.float32)
    same(jnp.extract(mask, jnp.asarray(x)), x[mask])
    rows = x.reshape(5, 10)
    same(jnp.compress(mask[:5], jnp.asarray(rows), axis=0), rows[mask[:5]])


def test_polynomials_and_loops_of_few_steps_on_large_arrays():
    x = RANDOM.standard_normal(40_000).astype(np.float32)
    p = RANDOM.standard_normal(6).astype(np.float32)
    np.testing.assert_allclose(weft.jit(jnp.polyval)(p, x), np.polyval(p, x), rtol=1e-3, atol=1e-3)
    xs = RANDOM.standard_normal((5, 40_000)).astype(np.float32)

    def total(x, xs, p):
        step = lambda c, row: (c * 0.5 + row[0] * row[1], None)
        return weft.lax.scan(step, x, (xs, p), reverse=True)[0]

    right = x
    for row, factor in zip(xs[::-1], p[4::-1], strict=True):
        right = right * np.float32(0.5) + row * factor
    np.testing.assert_allclose(weft.jit(total)(x, xs, p[:5]), right, rtol=1e-5, atol=1e-5)
    counted = weft.jit(lambda x: weft.lax.fori_loop(0, 4, lambda i, c: c * 0.5 + i, x))(x)
    np.testing.assert_allclose(counted, x / 16 + 4.25, rtol=1e-5, atol=1e-5)


def test_products_of_complex_vectors():
    x, y = (
        (RANDOM.standard_normal(5000) + 1j * RANDOM.standard_normal(5000)).astype(np.complex64)
        for _ in range(2)
    )
    np.testing.assert_allclose(weft.jit(jnp.vdot)(x, y), np.vdot(x, y), rtol=1e-4)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32"])
@pytest.mark.parametrize("high", [20, 100, 2**31 - 1])
@pytest.mark.parametrize("count", [70, 500])
def test_membership_of_integers(dtype, high, count):
    random = np.random.default_rng(high)
    x, tests = (random.integers(-high, high, n).astype(dtype) for n in (1000, count))
    for invert in (False, True):
        want = np.isin(x, tests, invert=invert)
        isin = functools.partial(jnp.isin, invert=invert)
        same(isin(x, tests), want)
        same(weft.jit(isin)(x, tests), want)


def test_membership_at_the_ends_of_a_dtype():
    ends = np.array([-(2**31), 2**31 - 1, 0, 5] * 20, np.int32)
    tests = np.array([2**31 - 1, -(2**31), *[5] * 100], np.int32)
    same(jnp.isin(ends, tests), np.isin(ends, tests))
    rows, many = np.arange(400, dtype=np.int32).reshape(4, 100), ends.reshape(4, 20)
    many = np.tile(many, 5)
    want = np.stack([np.isin(a, b) for a, b in zip(rows, many, strict=True)])
    same(weft.vmap(jnp.isin)(rows, many), want)


@pytest.mark.parametrize("kth", [0, 700, 2500, -1])
@pytest.mark.parametrize("axis", [0, 1])
def test_partitions_of_long_rows(kth, axis):
    x = RANDOM.integers(0, 3000, (2, 5000)).astype(np.float32)
    x = x if axis else x.T
    right = np.take(np.sort(x, axis), [kth], axis)
    parts = weft.jit(lambda x: (jnp.partition(x, kth, axis), jnp.argpartition(x, kth, axis)))
    split, places = parts(x)
    same(np.take_along_axis(x, np.asarray(places), axis), split)
    same(np.sort(split, axis), np.sort(x, axis))
    same(np.take(split, [kth], axis), right)
    before, after = np.split(np.asarray(split), [kth % 5000], axis)
    assert (before <= right).all() and (after >= right).all()
    weights = np.expand_dims(np.arange(5000.0, dtype=np.float32), 1 - axis)
    slope = weft.grad(lambda x: (jnp.partition(x, kth, axis) * weights).sum())(x)
    same(slope, np.argsort(np.asarray(places), axis))


@pytest.mark.parametrize("size", [3, 40, 1000, 2000])
def test_positions_and_distinct_elements_of_a_size(size):
    x = np.random.default_rng(0).integers(0, 60, 1000).astype(np.int32)
    found = np.unique(x)
    want = np.concatenate([found, np.full(2000, found[0])])[:size]
    same(weft.jit(lambda x: jnp.unique(x, size=size))(x), want.astype(np.int32))
    places = np.flatnonzero(x)
    want = np.concatenate([places, np.zeros(2000)])[:size].astype(np.int32)
    same(weft.jit(lambda x: jnp.flatnonzero(x, size=size))(x), want)
    grid = jnp.nonzero(x.reshape(20, 50), size=size, fill_value=-1)
    rest = max(size - len(places), 0)
    for got, axis in zip(grid, np.nonzero(x.reshape(20, 50)), strict=True):
        same(got, np.concatenate([axis[:size], np.full(rest, -1)]).astype(np.int32))


@pytest.mark.parametrize("function", [jnp.partition, jnp.argpartition])
@pytest.mark.parametrize("kth", [9, -10])
def test_a_place_that_an_axis_does_not_have(function, kth):
    with pytest.raises(ValueError, match=rf"kth={kth} for an axis of 9 elements"):
        function(jnp.arange(9.0), kth)


@pytest.mark.parametrize("leading", [0, 1, 3, 5])
@pytest.mark.parametrize("dtype", ["int32", "float32", "complex64"])
def test_roots_of_known_polynomials(leading, dtype):
    p = np.array([0, 0, 0, 0, 0, 2, -12, 22, -12]).astype(dtype)[5 - leading :]
    found = np.asarray(jnp.roots(p))
    assert found.dtype == np.complex64
    np.testing.assert_allclose(np.sort(found.real), [1, 2, 3], rtol=1e-4)
    padded = np.asarray(weft.jit(lambda p: jnp.roots(p, strip_zeros=False))(p))
    np.testing.assert_allclose(np.sort(padded.real)[:3], [1, 2, 3], rtol=1e-4)
    assert np.isnan(padded).sum() == leading
    assert jnp.roots(np.zeros(4, dtype)).shape == (0,)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "int32", "float16", "float32"])
@pytest.mark.parametrize("number", [0.5, -0.0, 1e30, float("nan")])
def test_operators_on_arrays_and_floats_give_the_same_every_time(dtype, number):
    x = jnp.asarray(np.array([0, 1, 1, 0, 1])).astype(dtype)
    for operator in ("add", "rsub", "mul", "truediv", "rtruediv", "lt", "eq"):
        with np.errstate(all="ignore"):  # the first calls are NumPy's, which warns of overflow
            results = [getattr(x, f"__{operator}__")(number) for _ in range(4)]
        for again in results[1:]:
            assert again.aval == results[0].aval
            same(again, results[0])
