"""Complex numbers that become real ones are not cut in silence."""

import numpy as np
import pytest

from weft import lax
from weft import numpy as jnp

NUMBERS = jnp.asarray(np.array([1 + 2j, 3 - 1j], np.complex64))


@pytest.mark.parametrize(
    "call",
    [
        lambda: jnp.concatenate([NUMBERS, NUMBERS], dtype="float32"),
        lambda: jnp.stack([NUMBERS, NUMBERS], dtype="float32"),
        lambda: jnp.prod(NUMBERS, dtype="float32"),
        lambda: jnp.cumsum(NUMBERS, dtype="float32"),
        lambda: jnp.asarray(NUMBERS, dtype="float32"),
        lambda: jnp.asarray(np.asarray(NUMBERS), dtype="float32"),
        lambda: lax.convert_element_type(NUMBERS, "float32"),
        lambda: jnp.pad(jnp.ones(2), 1, constant_values=1 + 2j),
    ],
)
def test_a_cast_warns(call):
    with pytest.warns(np.exceptions.ComplexWarning, match="imaginary part; use jnp.real"):
        assert call().dtype == np.float32


@pytest.mark.filterwarnings("error")
def test_parts_that_are_asked_for_warn_of_nothing():
    assert jnp.real(NUMBERS).tolist() == [1.0, 3.0]
    assert jnp.imag(NUMBERS).tolist() == [2.0, -1.0]
    assert jnp.abs(NUMBERS).dtype == np.float32
    assert jnp.var(NUMBERS).dtype == np.float32
    assert jnp.linalg.norm(NUMBERS).dtype == np.float32
    assert NUMBERS.astype(bool).tolist() == [True, True]
    assert jnp.fft.irfft(NUMBERS).dtype == np.float32
