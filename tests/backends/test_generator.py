"""Random integers and gamma samples by native loops, against their references."""

import numpy as np
import pytest

import weft
from weft import lax, random
from weft import numpy as jnp
from weft.base import knobs

KEYS = [[1, 2, 3, 0xFFFFFFFE], [1, 2, 0xFFFFFFFF, 0xFFFFFFFF]]
SHAPES = [(), (1,), (3,), (7, 5), (4, 6), (3, 5, 2), (1000,)]


def run(fun, backend, *args):
    with knobs.scope(backend=backend):
        return [np.asarray(x) for x in weft.tree.leaves(weft.jit(lambda *xs: fun(*xs))(*args))]


@pytest.mark.parametrize("algorithm", list(lax.RandomAlgorithm))
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_bits_are_those_of_the_reference(algorithm, dtype):
    def draw(key):
        return [
            lax.rng_bit_generator(key, s, dtype=jnp.dtype(dtype), algorithm=algorithm)
            for s in SHAPES
        ]

    with weft.enable_x64():
        for key in KEYS:
            args = np.array(key, np.uint32)
            got, want = (run(draw, b, args) for b in ("native", "reference"))
            for a, b in zip(got, want, strict=True):
                np.testing.assert_array_equal(a, b)


ALPHAS = np.concatenate([np.linspace(0.01, 5, 2000), [1e-30, 0, 1, 1e8, np.inf, np.nan, -1, -0.5]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("draw", [random.gamma, random.loggamma])
def test_samples_are_those_of_the_reference(draw, dtype):
    with weft.enable_x64():
        args = random.key(5), ALPHAS.astype(dtype)
        (got,), (want,) = (run(draw, b, *args) for b in ("native", "reference"))
        tolerance = 2e-5 if dtype == "float32" else 1e-11
        np.testing.assert_allclose(got, want, tolerance, 1e-6 * tolerance)


def test_each_key_has_its_own_samples():
    draw = weft.vmap(lambda key, a: random.gamma(key, a, (50,)))
    args = random.split(random.key(1), 6), np.linspace(0.3, 3, 6, dtype=np.float32)
    (got,), (want,) = (run(draw, b, *args) for b in ("native", "reference"))
    np.testing.assert_allclose(got, want, 2e-5)
    assert len(np.unique(got)) == got.size


def test_moments():
    key = random.key(2)
    x = np.asarray(weft.jit(lambda k: random.gamma(k, 2.5, (100_000,)))(key))
    assert abs(x.mean() - 2.5) < 0.03
    assert abs(x.var() - 2.5) < 0.1
