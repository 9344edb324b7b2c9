"""Powers of complex infinities: NaN where JAX, and NumPy for whole exponents, say so."""

import numpy as np
import pytest

import weft
from weft import numpy as jnp

ENDS = (0.0, -0.0, 1.0, -2.0, np.inf, -np.inf)
INFINITE = [complex(a, b) for a in ENDS for b in ENDS if np.isinf(a) or np.isinf(b)]
FORWARD = [z for z in INFINITE if z.real == np.inf and z.imag == 0]


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("way", [lambda f: f, weft.jit])
@pytest.mark.parametrize("exponent", [-1, -2, -7.5, 0.5, complex(-1, -0.0)])
def test_infinities_have_no_direction(exponent, way, dtype):
    with weft.enable_x64(dtype == np.complex128):
        base = np.array(INFINITE, dtype)
        found = np.asarray(way(jnp.power)(base, np.full(base.shape, exponent, dtype)))
    assert found.dtype == dtype
    forward = np.array([z in FORWARD for z in INFINITE])
    assert np.isnan(found[~forward]).all()
    if np.real(exponent) in (-1, -2):  # NumPy's own; for others it asks the system's library
        with np.errstate(all="ignore"):
            assert np.isnan(np.power(base, np.asarray(exponent, dtype)))[~forward].all()
    want = np.inf if np.real(exponent) > 0 else 0.0
    assert (found[forward].real == want).all()


def test_powers_that_are_products():
    base = np.array([z for z in INFINITE if z not in FORWARD], np.complex64)
    one = np.ones(base.shape, np.complex64)
    assert np.isinf(jnp.power(base, one)).all()
    assert (np.asarray(jnp.power(base, 0 * one)) == 1).all()
    assert np.isclose(jnp.power(np.complex64(3 + 4j), np.complex64(-1)), (3 - 4j) / 25)
