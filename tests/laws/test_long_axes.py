"""Axes just below, at and above 2^31 elements: indices and bounds that 32 bits do not hold.

One array of int8 takes 2 GB; each case holds a few of them at a time.
"""

import gc
import os

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax

LENGTHS = (2**31 - 9, 2**31, 2**31 + 9)
GIGABYTES = 2**30
pytestmark = pytest.mark.full


def _available() -> int:
    """Bytes that can be had without swapping."""
    try:
        with open("/proc/meminfo") as file:
            found = dict(line.split(":") for line in file)
        return int(found["MemAvailable"].split()[0]) * 1024
    except OSError:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(params=LENGTHS, ids=lambda n: f"2^31{n - 2**31:+d}")
def n(request):
    weft.config.update("jax_enable_x64", True)
    gc.collect()
    yield request.param
    gc.collect()


def needs(gigabytes):
    have = _available()
    if have < gigabytes * GIGABYTES:
        pytest.skip(f"needs {gigabytes} GB of memory, {have / GIGABYTES:.1f} GB are available")


def pattern(n):
    """Values that differ near the ends and near 2^31: i mod 119."""
    out = np.empty(n, np.int8)
    block = np.arange(119 * 4096, dtype=np.int64).astype(np.int64) % 119
    block = block.astype(np.int8)
    for start in range(0, n, block.size):
        out[start : start + block.size] = block[: min(block.size, n - start)]
    return out


def places(n):
    return [0, 7, 2**30, n // 2 + 50, n - 10, n - 2, n - 1]


def test_reading(n):
    needs(7)
    x = jnp.asarray(pattern(n))
    value = lambda i: i % 119
    read = weft.jit(lambda x, i: x[i])
    for i in places(n):
        assert x[i] == value(i) and read(x, i) == value(i) and x[i - n] == value(i)
        assert read(x, np.int64(i - n)) == value(i)
        assert lax.dynamic_index_in_dim(x, i, keepdims=False) == value(i)
    at = np.asarray(places(n))
    want = at % 119
    assert jnp.take(x, at).tolist() == x[at].tolist() == want.tolist()
    assert weft.jit(lambda x, i: x[i])(x, at).tolist() == want.tolist()
    outside = np.asarray([n, n + 5, -n - 1])
    assert x.at[outside].get(mode="fill", fill_value=-3).tolist() == [-3] * 3
    assert x.at[outside].get(mode="clip").tolist() == [value(n - 1), value(n - 1), 0]


def test_slicing(n):
    needs(9)
    host = pattern(n)
    x = jnp.asarray(host)
    assert np.array_equal(x[n - 1000 :], host[n - 1000 :])
    assert np.array_equal(x[-1000:-1], host[-1000:-1])
    assert np.array_equal(x[5 :: 2**28], host[5 :: 2**28])
    assert np.array_equal(x[:: -(2**28)], host[:: -(2**28)])
    assert np.array_equal(x[::-1][:1000], host[::-1][:1000])
    for start in (n - 100, n - 20, n, 2**40):  # the last ones are moved inside
        first = min(start, n - 64)
        cut = weft.jit(lambda x, i: lax.dynamic_slice(x, (i,), (64,)))(x, start)
        assert np.array_equal(cut, host[first : first + 64])
    del x
    gc.collect()
    both = weft.jit(lambda a, b: jnp.concatenate([a, b]))(host[: n - 100], host[n - 100 :])
    assert np.array_equal(both[-200:], host[-200:])
    assert jnp.array_equal(both, host)


@pytest.mark.parametrize("mode", (None, "clip", "drop", "promise_in_bounds"))
def test_writing_one_place(n, mode):
    needs(7)
    for compiled in (False, True):
        way = weft.jit if compiled else lambda f, **_: f
        put = way(lambda x, i: x.at[i].set(5, mode=mode))
        plus = way(lambda x, i: x.at[i].add(3, mode=mode))
        x = jnp.zeros(n, jnp.int8)
        for i in (7, n // 2, n - 2, n - 1):
            out = put(x, i)
            assert (out[i], jnp.count_nonzero(out)) == (5, 1)
            del out
            out = plus(x, np.int64(i))
            assert (out[i], jnp.count_nonzero(out)) == (3, 1)
            del out
        for i in (n + 3, -n - 1):
            if mode == "clip":
                assert put(x, i)[n - 1 if i > 0 else 0] == 5
            elif mode != "promise_in_bounds":
                assert jnp.count_nonzero(put(x, i)) == 0


def test_writing_several_places_and_slices(n):
    needs(7)
    x = jnp.zeros(n, jnp.int8)
    at = np.asarray(places(n))
    for fun in (
        lambda x, i: x.at[i].set(5),
        lambda x, i: x.at[i].add(5),
        lambda x, i: x.at[i].max(5),
    ):
        out = weft.jit(fun)(x, at)
        assert out[at].tolist() == [5] * len(at) and jnp.count_nonzero(out) == len(at)
        del out
    out = x.at[n - 2 :].set(5)
    assert out[-3:].tolist() == [0, 5, 5] and jnp.count_nonzero(out) == 2
    del out
    out = weft.jit(lambda x, u: x.at[n - 100 : n].add(u))(x, np.ones(100, np.int8))
    assert jnp.count_nonzero(out) == 100 and jnp.count_nonzero(out[-100:]) == 100
    del out
    update = lambda x, i: lax.dynamic_update_slice(x, np.full(4, 9, np.int8), (i,))
    for start in (n - 4, n + 5, 2**40):
        out = weft.jit(update)(x, start)
        assert out[-5:].tolist() == [0, 9, 9, 9, 9] and jnp.count_nonzero(out) == 4
        del out


def test_reductions(n):
    needs(7)
    host = pattern(n)
    whole, rest = divmod(n, 119)
    total = whole * (118 * 119 // 2) + rest * (rest - 1) // 2
    x = jnp.asarray(host)
    assert jnp.sum(x, dtype=jnp.int64) == total
    assert weft.jit(lambda x: jnp.sum(x.astype(jnp.int64)))(x) == total
    assert jnp.count_nonzero(x) == n - whole - (rest > 0)
    assert (jnp.max(x), jnp.min(x)) == (118, 0)
    del x
    gc.collect()
    host[n - 2] = 125
    host[n - 1] = -7
    assert jnp.argmax(host) == n - 2 and weft.jit(jnp.argmin)(host) == n - 1
    assert weft.jit(lambda x: jnp.mean(x, dtype=jnp.float64))(host) == pytest.approx(
        (total - (n - 2) % 119 + 125 - (n - 1) % 119 - 7) / n, rel=1e-12
    )
    del host
    counted = weft.jit(lambda: lax.iota(jnp.int64, n).sum())()
    assert counted == n * (n - 1) // 2


def test_running_sums(n):
    needs(9)
    x = jnp.ones(n, jnp.int8)
    out = jnp.cumsum(x, dtype=jnp.int8)
    for i in places(n):
        assert out[i] == np.int64(i + 1).astype(np.int8)
    out = lax.cummax(x.at[n - 5].set(9))
    assert out[n - 6 : n - 3].tolist() == [1, 9, 9]


def test_sorting(n):
    needs(22)  # sorting takes eight bytes an element on its way
    host = np.zeros(n, np.int8)
    host[0], host[n - 1], host[n // 2] = 5, -5, 3
    out = jnp.sort(host)
    assert (out[0], out[1], out[n - 3], out[n - 2], out[n - 1]) == (-5, 0, 0, 3, 5)
    assert jnp.count_nonzero(out) == 3
    found = jnp.searchsorted(out, np.asarray([-9, -1, 0, 1, 4, 9], np.int8))
    assert found.tolist() == [0, 1, 1, n - 2, n - 1, n]


def test_two_axes_whose_product_is_long(n):
    needs(7)
    rows = n // 1024 + 1
    host = pattern(rows * 1024).reshape(rows, 1024)
    x = jnp.asarray(host)
    last = rows - 1
    assert x[last, 1023] == host[last, 1023]
    assert np.array_equal(weft.jit(lambda x, i: x[i])(x, last), host[last])
    assert np.array_equal(jnp.sum(x, 1, dtype=jnp.int32)[-5:], host[-5:].sum(1))
    assert np.array_equal(weft.jit(lambda x: x.T[3])(x)[-5:], host[-5:, 3])
    out = weft.jit(lambda x, i: x.at[i, 5].set(-1))(x, last)
    assert out[last, 5] == -1 and np.array_equal(out[last - 1], host[last - 1])


def test_products_over_a_long_axis(n):
    needs(40)  # operands may be widened to the eight bytes of the result
    host = pattern(n)
    ones = np.ones(n, np.int8)
    whole, rest = divmod(n, 119)
    total = whole * (118 * 119 // 2) + rest * (rest - 1) // 2
    dot = lambda a, b: lax.dot_general(
        a, b, (((0,), (0,)), ((), ())), preferred_element_type=jnp.int64
    )
    assert dot(host, ones) == weft.jit(dot)(host, ones) == total


def test_products_along_a_long_axis(n):
    needs(15)  # the matrix, once more in the four bytes of the result, and that
    host, half = pattern(n), n // 2
    matrix = host[: half * 2].reshape(2, half)
    row = weft.jit(lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32))
    out = row(np.asarray([[1, 1]], np.int8), matrix)
    assert out[0, half - 1] == int(matrix[0, half - 1]) + int(matrix[1, half - 1])
    assert out[0, 0] == int(matrix[0, 0]) + int(matrix[1, 0])


def test_loops_count_past_32_bits(n):
    del n
    step = weft.jit(lambda start: lax.while_loop(lambda i: i < start + 3, lambda i: i + 1, start))
    assert step(np.int64(2**31 - 2)) == 2**31 + 1
    loop = weft.jit(lambda lo, hi: lax.fori_loop(lo, hi, lambda i, s: s + i, np.int64(0)))
    assert loop(2**31 - 1, 2**31 + 2) == 3 * 2**31
