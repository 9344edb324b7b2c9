"""Floats of eight bits and integers of fewer: every value, and rounding as the reference does."""

import numpy as np
import pytest

import weft
from tests.runtime import ways
from weft import dtypes, lax
from weft import numpy as jnp
from weft.base import knobs

NAMES = ["float8_e4m3fn", "float8_e5m2", "int2", "uint2", "int4", "uint4"]


def run(fun, *args):
    with knobs.scope(backend="native"):
        return np.asarray(weft.jit(lambda *xs: fun(*xs))(*args))


def reference(fun, *args):
    return np.asarray(ways.interpreted(fun, *args))


def every(name):
    dtype = np.dtype(getattr(dtypes, name))
    count = 256 if name.startswith("float") else 1 << int(name[-1])
    return np.arange(count, dtype=np.uint8).view(dtype)


def same(got, want):
    if got.dtype.itemsize > 1 or got.dtype.name.startswith("float"):
        with np.errstate(invalid="ignore"):
            wide = [x.astype(np.float64) for x in (got, want)]
        np.testing.assert_array_equal(*wide)
        np.testing.assert_array_equal(*(np.signbit(x[~np.isnan(x)]) for x in wide))
    else:
        np.testing.assert_array_equal(got.astype(np.int32), want.astype(np.int32))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", ["float32", "bfloat16", "int32"])
def test_every_value_is_read(name, target):
    x = every(name)
    fun = lambda x: lax.convert_element_type(x, target)
    same(run(fun, x), reference(fun, x))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_values_are_rounded(name, source):
    with weft.enable_x64(True), np.errstate(all="ignore"):
        bits = np.arange(0, 1 << 16, 3, dtype=np.uint16).view(np.float16).astype(np.float64)
        x = np.concatenate([bits, bits * (1 + 2.0**-40), bits * (1 - 2.0**-40), bits * 2.0**8])
        x = x.astype(source)
        fun = lambda x: lax.convert_element_type(x, name)
        same(run(fun, x), reference(fun, x))


@pytest.mark.parametrize("name", NAMES)
def test_arithmetic_rounds_or_wraps_around(name):
    x, y = (v.ravel() for v in np.meshgrid(every(name), every(name)))
    for fun in (jnp.add, jnp.subtract, jnp.multiply, jnp.maximum):
        same(run(fun, x, y), reference(fun, x, y))


@pytest.mark.parametrize("name", ("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz"))
def test_the_nan_without_a_sign_has_none_in_other_dtypes(name):
    x = jnp.asarray(np.array([-np.inf, np.nan, 1.5, -0.0], np.float32)).astype(name)
    for fun in (lambda x: x.astype(np.float32), weft.jit(lambda x: x.astype(np.float32))):
        wide = np.asarray(fun(x))
        assert np.isnan(wide[:2]).all() and not np.signbit(wide).any() and wide[2] == 1.5
