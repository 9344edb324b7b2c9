"""The larger and smaller of floats and a number that is known, with NaN and both zeros."""

import functools

import numpy as np
import pytest

import weft
import weft.numpy as jnp


def _called(function, known, first, x):
    return function(known, x) if first else function(x, known)


VALUES = np.array([0.0, -0.0, 1, -1, np.nan, np.inf, -np.inf, 2e-38, -2e-38, 3.5] * 3, np.float32)


@pytest.mark.parametrize("number", [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2e-38])
@pytest.mark.parametrize("first", [True, False])
def test_extremes_of_a_known_number(number: float, first: bool) -> None:
    known = np.float32(number)
    zeros = (VALUES == 0) & (known == 0)
    signs = np.signbit(VALUES), np.signbit(known)
    for name, negative in (("maximum", signs[0] & signs[1]), ("minimum", signs[0] | signs[1])):
        function = getattr(jnp, name)
        one_known = functools.partial(_called, function, known, first)
        found = np.asarray(weft.jit(one_known)(VALUES))
        want = getattr(np, name)(VALUES, known)
        want = np.where(zeros, np.where(negative, -0.0, 0.0), want)
        np.testing.assert_array_equal(found, want)
        there = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(found)[there], np.signbit(want)[there])
