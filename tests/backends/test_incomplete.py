"""Incomplete gamma functions by native tasks, zeta and Bessel functions by kernels."""

import numpy as np
import pytest

import weft
from weft import lax
from weft.base import knobs

ENDS = [0, -0.0, 1e-30, 1e-6, 0.3, 1, 1.5, 3, 19.9, 20, 20.5, 100, 1e4, 1e8, -0.5, 1e30]
ENDS += [np.inf, -np.inf, np.nan]


def operands():
    a, x = (v.ravel() for v in np.meshgrid(ENDS, ENDS))
    rng = np.random.default_rng(0)
    some = np.exp(3 * rng.normal(size=3000))
    near = some * np.exp(0.7 * rng.normal(size=3000))
    return [np.concatenate(v).astype(np.float32) for v in ((a, some), (x, near))]


def run(fun, backend, *args):
    with knobs.scope(backend=backend):
        return np.asarray(weft.jit(lambda *xs: fun(*xs))(*args))


def check(fun, *args, ulps=1):
    got, want = (run(fun, b, *args) for b in ("native", "interpret"))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
    finite = np.isfinite(want)
    step = np.spacing(np.abs(want[finite]))
    assert np.all(np.abs(got[finite] - want[finite]) <= ulps * step)


@pytest.mark.parametrize("fun", [lax.igamma, lax.igammac, lax.igamma_grad_a, lax.random_gamma_grad])
def test_every_region_is_that_of_the_reference(fun):
    check(fun, *operands())


def test_operands_are_broadcast():
    a, x = np.float32([[0.5], [30]]), np.float32([[0.1, 2, 28]])
    check(lax.igamma, a, x)
    check(lambda x: lax.igamma(np.float32(2), x), x)


@pytest.mark.parametrize("fun", [lax.bessel_i0e, lax.bessel_i1e])
def test_bessel_functions(fun):
    check(fun, np.concatenate([*operands(), -operands()[0]]))


def test_zeta_left_and_right_of_zero():
    rng = np.random.default_rng(1)
    s = np.concatenate([1 + 12 * rng.random(2000), rng.integers(2, 7, 2000)]).astype(np.float32)
    q = np.concatenate([20 * rng.random(2000), 8 * rng.random(2000) - 4]).astype(np.float32)
    check(lax.zeta, s, q, ulps=2)
    check(lax.polygamma, np.rint(s), np.abs(q) + 0.1, ulps=2)
