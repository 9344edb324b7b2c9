"""Axes of one element change no kernels: a batch of one example is computed as the example is."""

import numpy as np
import pytest

import weft
from weft import nn
from weft import numpy as jnp


def normalised(x):
    gap = x - x.mean(-1, keepdims=True)
    return gap / jnp.sqrt((gap**2).mean(-1, keepdims=True) + 1e-5)


def masked(x):
    return nn.softmax(jnp.where(jnp.arange(x.shape[-1]) < 40, x, -1e9), axis=-1)


def clipped(x):
    return x / jnp.maximum(1, jnp.abs(x).max(-1, keepdims=True)) - jnp.sin(x).sum(-1, keepdims=True)


FUNCTIONS = {
    "softmax": lambda x: nn.softmax(x, axis=-1),
    "logarithm": lambda x: nn.log_softmax(x, axis=-1),
    "normalised": normalised,
    "masked": masked,
    "clipped": clipped,
}
ROWS = np.random.default_rng(0).standard_normal((96, 64)).astype(np.float32)


def backwards(function):
    return lambda x, g: weft.vjp(function, x)[1](g)[0]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_rows_are_as_many_kernels(name):
    fun = backwards(FUNCTIONS[name])
    given = ROWS, np.cos(ROWS)
    want, kernels = weft.jit(fun)(*given), weft.explain(fun, quiet=True)(*given).kernels
    for places in [(0,), (1,), (0, 2)]:
        xs = [np.expand_dims(x, places) for x in given]
        got = weft.jit(fun)(*xs)
        np.testing.assert_allclose(np.squeeze(got, places), want, rtol=2e-5, atol=2e-6)
        assert weft.explain(fun, quiet=True)(*xs).kernels == kernels, places
