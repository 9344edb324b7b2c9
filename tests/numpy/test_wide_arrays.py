"""Arrays of 64 bits made under ``enable_x64`` and used outside of it: as JAX 0.10.2 answers."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax

CASES = {
    "zeros_like": (jnp.zeros_like, "float64"),
    "ones_like": (jnp.ones_like, "float64"),
    "empty_like": (jnp.empty_like, "float64"),
    "full_like": (lambda x: jnp.full_like(x, 7), "float64"),
    "full_like of rows": (lambda x: jnp.full_like(x, np.ones(3)), "float64"),
    "lax.full_like": (lambda x: lax.full_like(x, 7), "float64"),
    "a dtype asked for": (lambda x: jnp.zeros_like(x, dtype=jnp.float32), "float32"),
    "cumsum": (jnp.cumsum, "float32"),
    "cumprod": (jnp.cumprod, "float32"),
    "lax.cumsum": (lax.cumsum, "float64"),
    "sum": (jnp.sum, "float32"),
    "add": (lambda x: x + x, "float64"),
    "inv": (jnp.linalg.inv, "float32"),
    "cholesky": (jnp.linalg.cholesky, "float32"),
    "eigh": (lambda x: jnp.linalg.eigh(x)[0], "float32"),
    "solve": (lambda x: jnp.linalg.solve(x, x), "float64"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("compiled", [False, True])
def test_dtypes(name, compiled):
    fun, dtype = CASES[name]
    with weft.enable_x64(True):
        x = 2.0 * jnp.eye(3)
        want = np.asarray(fun(x), dtype)
    out = (weft.jit(fun) if compiled else fun)(x)
    assert out.dtype == dtype
    np.testing.assert_allclose(out, want, rtol=1e-6)
