"""Vectors of integers divided by way of floats, and floats made integers: every bit is right."""

import numpy as np
import pytest

import weft
from weft import lax
from weft.base import knobs

RANDOM = np.random.default_rng(0)
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32"]


def both(function, *args):
    """A function compiled, and by the references."""
    with knobs.backend("native"):
        found = np.asarray(weft.jit(function)(*args))
    with knobs.backend("reference"):
        return found, np.asarray(function(*[weft.numpy.asarray(x) for x in args]))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_quotients_and_remainders(dtype):
    info = np.iinfo(dtype)
    x, y = (RANDOM.integers(info.min, info.max, 20_000, dtype, endpoint=True) for _ in range(2))
    y[::3] = RANDOM.integers(max(-9, info.min), 9, len(y[::3]), dtype)
    x[:4], y[:4] = [info.min, info.max, info.min, info.max], [max(-1, info.min), 1, 1, info.max]
    # just below a multiple, where a quotient that is rounded up would be wrong
    z = np.abs(y // 2) + np.ones((), dtype)
    below = (x // z) * z - RANDOM.integers(0, 2, len(x)).astype(dtype)
    for function in (lax.div, lax.rem):
        np.testing.assert_array_equal(*both(function, x, y))
        np.testing.assert_array_equal(*both(function, below, z))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_floats_beyond_the_range_become_its_ends(dtype):
    edges = [0, -0.0, 0.5, -0.5, np.nan, np.inf, -np.inf, 2.0**31, 2.0**31 - 128, -(2.0**31)]
    edges += [-(2.0**31) - 256, 2.0**32, 2.0**32 - 256, 255.99, 256, -129, 127.5, 65536, 3e9, -1e20]
    rest = RANDOM.standard_normal(2000) * 10.0 ** RANDOM.integers(-3, 12, 2000)
    x = np.concatenate([edges, rest]).astype(np.float32)
    np.testing.assert_array_equal(*both(lambda x: lax.convert_element_type(x, dtype), x))
