"""Powers whose exponent is known when a kernel is made: edges and accuracy are those of others."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp

EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, -2.0, 1e-37, -1e-37, 3e38]
EXPONENTS = [0.0, 1.0, 2.0, 3.0, 4.0, -1.0, -2.0, 0.5, -0.5, 0.25, 1.5, -1.5, 2.5, -2.5, 3.5, -3.5]


def by_general_power(x, y):
    """The same with an exponent that no kernel knows."""
    return np.asarray(weft.jit(weft.lax.pow)(x, np.full_like(x, y)))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("y", EXPONENTS)
def test_known_exponents_give_what_others_give(y, dtype):
    with weft.enable_x64(), np.errstate(all="ignore"):
        random = np.random.default_rng(0).uniform(-3, 50, 3000)
        x = np.array([*EDGES, *random]).astype(dtype)
        known = np.asarray(weft.jit(lambda a: jnp.power(a, a.dtype.type(y)))(x))
        other = by_general_power(x, y)
        assert known.dtype == other.dtype == x.dtype
        np.testing.assert_array_equal(np.isnan(known), np.isnan(other))
        some = ~np.isnan(known)
        np.testing.assert_array_equal(np.signbit(known[some]), np.signbit(other[some]))
        rtol = {"float16": 1e-3, "float32": 1.2e-7, "float64": 2.3e-16}[dtype]
        np.testing.assert_allclose(known, other, rtol)
        assert np.mean(known[some] != other[some]) < 0.03


@pytest.mark.parametrize("y", [0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.5, -3.5])
def test_roots_and_their_powers_are_right_over_the_whole_range(y):
    """Also where the result is so small that what a product is rounded by is no number."""
    low, high = sorted((-125 / y, 126 / y))
    exponents = np.random.default_rng(1).uniform(max(-125, low), min(126, high), 20_000)
    x = (2.0**exponents).astype(np.float32)
    found = np.asarray(weft.jit(lambda a: jnp.power(a, np.float32(y)))(x))
    exact = x.astype(np.float64) ** y
    assert (abs(found - exact) <= 0.51 * np.spacing(abs(exact).astype(np.float32))).all()


def test_derivatives_know_their_exponents():
    """A separate kernel once computed the exponent less one, and logarithms the power."""
    text = str(weft.make_jaxpr(weft.grad(lambda x: (x**-1.5).sum()))(jnp.ones(4)))
    assert "pow a -2.5" in text and "sub" not in text
