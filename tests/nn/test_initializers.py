"""Initialisers: their statistics, shapes and errors."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.nn import initializers

KEY = weft.random.key(3)


@pytest.mark.parametrize(
    ("name", "fan", "scale"),
    [
        ("glorot_uniform", 250, 1.0),
        ("glorot_normal", 250, 1.0),
        ("lecun_uniform", 100, 1.0),
        ("lecun_normal", 100, 1.0),
        ("he_uniform", 100, 2.0),
        ("he_normal", 100, 2.0),
    ],
)
def test_variance(name, fan, scale):
    x = np.asarray(getattr(initializers, name)()(KEY, (100, 400)))
    assert x.dtype == np.float32
    np.testing.assert_allclose(x.std(), np.sqrt(scale / fan), rtol=0.02)
    assert abs(x.mean()) < 0.01


def test_fans_of_convolution_kernels():
    make = initializers.variance_scaling(1.0, "fan_out", "normal", in_axis=1, out_axis=0)
    x = np.asarray(make(KEY, (200, 10, 5, 5)))
    np.testing.assert_allclose(x.std(), 1 / np.sqrt(200 * 25), rtol=0.02)


def test_complex_weights():
    for distribution in ("uniform", "normal", "truncated_normal"):
        make = initializers.variance_scaling(1.0, "fan_in", distribution, dtype=jnp.complex64)
        x = np.asarray(make(KEY, (100, 400)))
        assert x.dtype == np.complex64
        np.testing.assert_allclose(np.mean(np.abs(x) ** 2), 0.01, rtol=0.03)


def test_simple_ones():
    np.testing.assert_array_equal(initializers.zeros(KEY, (2, 3)), np.zeros((2, 3)))
    np.testing.assert_array_equal(initializers.ones(KEY, (2,), jnp.int32), np.ones(2))
    np.testing.assert_array_equal(initializers.constant(2.0)(KEY, (2,)), [2, 2])
    np.testing.assert_allclose(initializers.normal(0.5)(KEY, (50, 50)).std(), 0.5, rtol=0.05)
    x = initializers.uniform(0.5)(KEY, (1000,))
    assert 0 <= float(x.min()) and float(x.max()) < 0.5
    x = initializers.truncated_normal(2.0, lower=-1.0, upper=1.0)(KEY, (1000,))
    assert float(abs(x).max()) <= 2
    assert isinstance(initializers.zeros, initializers.Initializer)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (2, 3, 4)])
def test_orthogonal(shape):
    x = np.asarray(initializers.orthogonal(2.0)(KEY, shape)).reshape(-1, shape[-1])
    product = x @ x.T if x.shape[0] <= x.shape[1] else x.T @ x
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)


def test_delta_orthogonal():
    x = np.asarray(initializers.delta_orthogonal()(KEY, (3, 5, 2, 4)))
    np.testing.assert_allclose(x[1, 2] @ x[1, 2].T, np.eye(2), atol=1e-5)
    assert np.count_nonzero(x) == 8


def test_errors():
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        initializers.glorot_normal()(KEY, (3,))
    with pytest.raises(ValueError, match="mode="):
        initializers.variance_scaling(1.0, "fan", "normal")(KEY, (3, 3))
    with pytest.raises(ValueError, match="distribution="):
        initializers.variance_scaling(1.0, "fan_in", "flat")(KEY, (3, 3))
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        initializers.orthogonal()(KEY, (3,))
    with pytest.raises(ValueError, match="at least as many outputs"):
        initializers.delta_orthogonal()(KEY, (3, 4, 2))
