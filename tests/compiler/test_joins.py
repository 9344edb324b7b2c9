"""Joins of many small operands: compiled, as those of a few are."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp

X = jnp.arange(1.0, 41.0)

JOINS = {
    "scalars": lambda x: jnp.stack([x[i] * x[i + 1] for i in range(9)]),
    "many scalars": lambda x: jnp.stack([x[i % 8] for i in range(64)]),
    "rows": lambda x: jnp.stack([x[i : i + 3] * 2 for i in range(12)], axis=-1),
    "pieces": lambda x: jnp.concatenate([x[i : i + 2] for i in range(16)]),
    "array": lambda x: jnp.array([[x[3 * i + j] for j in range(3)] for i in range(3)]),
}


@pytest.mark.parametrize("name", JOINS)
def test_small_joins_call_no_python(name):
    join = JOINS[name]
    assert "Python call" not in str(weft.explain(join)(X))
    with weft.disable_jit():
        expected = join(X)
    np.testing.assert_array_equal(weft.jit(join)(X), expected)


def test_gradients_and_batches_of_small_joins():
    def join(x):
        return jnp.stack([jnp.sin(x[i]) * x[i + 1] for i in range(12)])

    weights = np.arange(12.0, dtype=np.float32)
    gradient = weft.jit(weft.grad(lambda x: jnp.sum(weights * join(x))))(X)
    x = np.asarray(X, np.float64)
    expected = np.zeros(40)
    expected[:12] += weights * np.cos(x[:12]) * x[1:13]
    expected[1:13] += weights * np.sin(x[:12])
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-4)
    batch = weft.jit(weft.vmap(join))(jnp.stack([X, 2 * X]))
    np.testing.assert_allclose(batch[1], join(2 * X), rtol=1e-5)


def test_large_joins_of_many_operands_agree():
    parts = [np.full((50, 3), i, np.float32) for i in range(20)]
    joined = weft.jit(lambda *xs: jnp.concatenate(xs, axis=1))(*parts)
    np.testing.assert_array_equal(joined, np.concatenate(parts, axis=1))
