"""The kinds of kernel that are written for each processor, once each, against NumPy.

`./weft-test --emulate` runs these on an emulated processor, where every line takes its time.
"""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax

RNG = np.random.default_rng(0)


def normal(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def check(fun, want, *args, tolerance=2e-6):
    out = weft.jit(fun)(*args)
    np.testing.assert_allclose(out, want, rtol=tolerance, atol=tolerance)


def test_elementwise_and_reductions():
    x, y = normal(37, 65), normal(37, 65)
    want = np.exp(x) * np.tanh(y) + np.maximum(x, 0.5)
    check(lambda x, y: jnp.exp(x) * jnp.tanh(y) + jnp.maximum(x, 0.5), want, x, y)
    wide = np.exp(x.astype(np.float64))
    check(lambda x: weft.nn.softmax(x), wide / wide.sum(1, keepdims=True), x)
    check(lambda x: x.sum(0) + x.max(), x.sum(0) + x.max(), x, tolerance=1e-5)


@pytest.mark.parametrize("shape", [(5, 7, 3), (40, 33, 50)])
def test_products(shape):
    m, k, n = shape
    a, b = normal(m, k), normal(k, n)
    check(lambda a, b: a @ b, a.astype(np.float64) @ b, a, b, tolerance=2e-5)


def test_convolution():
    x, w = normal(1, 6, 7, 4), normal(3, 3, 4, 8)
    want = np.zeros((1, 4, 5, 8))
    for i in range(3):
        for j in range(3):
            want += x[:, i : i + 4, j : j + 5].astype(np.float64) @ w[i, j]
    numbers = ("NHWC", "HWIO", "NHWC")
    fun = lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=numbers)
    check(fun, want, x, w, tolerance=2e-5)


def test_order_indices_and_integers():
    x = RNG.integers(-1000, 1000, 300, dtype=np.int32)
    assert np.array_equal(weft.jit(jnp.sort)(x), np.sort(x))
    at = RNG.integers(0, 50, 300)
    want = np.zeros(50, np.int32)
    np.add.at(want, at, x)
    assert np.array_equal(weft.jit(lambda i, x: jnp.zeros(50, jnp.int32).at[i].add(x))(at, x), want)
    assert np.array_equal(weft.jit(jnp.cumsum)(x), np.cumsum(x, dtype=np.int32))


def test_derivatives_loops_and_draws():
    x = normal(16)
    check(weft.grad(lambda x: jnp.sum(jnp.sin(x) * x)), np.cos(x) * x + np.sin(x), x)
    steps = lambda x: lax.fori_loop(0, 5, lambda i, c: c * 0.5 + i, x)
    want = x
    for i in range(5):
        want = want * np.float32(0.5) + np.float32(i)
    check(steps, want, x)
    assert weft.random.bits(weft.random.key(0), (2,)).tolist() == [4070199207, 4202968722]


def test_denormals_are_flushed():
    tiny = np.full(40, 1e-40, np.float32)
    assert not np.any(weft.jit(lambda x: x * 2)(tiny))
