"""The bits of integers of fewer bits than a byte."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax

BYTES = np.array([0x10, 0x32, 0x9F, 0x7C], "uint8")
NIBBLES = [[0, 1], [2, 3], [15, 9], [12, 7]]


@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint32", "float16"])
def test_wide_to_narrow_and_back(wrap, dtype):
    x = BYTES.view(dtype)
    count = 2 * x.itemsize
    unsigned = wrap(lambda x: lax.bitcast_convert_type(x, jnp.uint4))(x)
    assert unsigned.shape == (*x.shape, count) and unsigned.dtype == jnp.uint4
    np.testing.assert_array_equal(np.asarray(unsigned).astype(int).ravel(), np.ravel(NIBBLES))
    signed = wrap(lambda x: lax.bitcast_convert_type(x, jnp.int4))(x)
    expected = (np.ravel(NIBBLES) + 8) % 16 - 8
    np.testing.assert_array_equal(np.asarray(signed).astype(int).ravel(), expected)
    back = wrap(lambda x: lax.bitcast_convert_type(x, np.dtype(dtype)))
    for narrow in (unsigned, signed):
        np.testing.assert_array_equal(np.asarray(back(narrow)).view("uint8"), BYTES)


def test_two_bits():
    found = lax.bitcast_convert_type(jnp.arange(4, dtype="int8"), jnp.int2)
    np.testing.assert_array_equal(np.asarray(found).astype(int)[:, 0], [0, 1, -2, -1])
    np.testing.assert_array_equal(
        np.asarray(lax.bitcast_convert_type(found, jnp.int8)), np.arange(4)
    )


def test_views():
    assert jnp.zeros((2, 32), jnp.uint4).view(jnp.int8).shape == (2, 16)
    found = jnp.arange(16, dtype=jnp.uint4).view(jnp.uint8)
    np.testing.assert_array_equal(found, [0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE])
    found = jnp.arange(4, dtype=jnp.int8).view(jnp.uint4)
    np.testing.assert_array_equal(np.asarray(found).astype(int), [0, 0, 1, 0, 2, 0, 3, 0])


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="last dimension of size 2"):
        lax.bitcast_convert_type(jnp.arange(3, dtype=jnp.uint4), jnp.int8)


def test_the_largest_float_of_four_bits_is_an_integer():
    x = jnp.asarray([-6, 6, 1.5], "float4_e2m1fn")
    assert x.astype(int).tolist() == weft.jit(lambda x: x.astype(int))(x).tolist() == [-6, 6, 1]
