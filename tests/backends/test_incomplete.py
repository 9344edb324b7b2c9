"""Incomplete functions by native loops, zeta and Bessel functions by kernels and by loops."""

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


def check(fun, *args, ulps=1, absolute=0.0):
    got, want = (run(fun, b, *args) for b in ("native", "reference"))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
    finite = np.isfinite(want)
    got, want = got[finite], want[finite]
    step = np.spacing(np.abs(want)).astype(np.float64)
    apart = np.abs(got.astype(np.float64) - want.astype(np.float64))
    assert np.all(apart <= ulps * step + absolute)


GAMMAS = [lax.igamma, lax.igammac, lax.igamma_grad_a, lax.random_gamma_grad]


@pytest.mark.parametrize("fun", GAMMAS)
def test_every_region_is_that_of_the_reference(fun):
    check(fun, *operands())


@pytest.mark.parametrize("fun", GAMMAS)
def test_float64_is_that_of_the_reference(fun):
    a, x = (v.astype(np.float64) for v in operands())
    with weft.enable_x64():
        check(fun, a, x, ulps=1000, absolute=1e-13)


def betas():
    rng = np.random.default_rng(2)
    ends = [*ENDS, 0.5, 0.999, 7.9, 8.1]
    edges = [v.ravel() for v in np.meshgrid(ends[::2], ends[1::2], [0, 1e-30, 0.3, 0.5, 0.998, 1])]
    some = [np.exp(3 * rng.normal(size=2000)) for _ in range(2)] + [rng.random(2000)]
    return [np.concatenate(v) for v in zip(edges, some, strict=True)]


def test_incomplete_beta():
    a, b, x = betas()
    check(lax.betainc, *(v.astype(np.float32) for v in (a, b, x)))
    narrow = [v.astype(weft.numpy.bfloat16) for v in (a[-500:], b[-500:], x[-500:])]
    check(lax.betainc, *narrow)
    with weft.enable_x64():
        check(lax.betainc, a, b, x, ulps=4000, absolute=1e-13)


def test_zeta_and_polygamma_of_float64():
    rng = np.random.default_rng(3)
    s = np.concatenate([1 + 12 * rng.random(500), rng.integers(2, 7, 500), [0, 1, 2, 200, 1.5]])
    q = np.concatenate([20 * rng.random(500), 8 * rng.random(500) - 4, [2, -3, -3, 5, np.inf]])
    with weft.enable_x64():
        check(lax.zeta, s, q, ulps=100)
        check(lax.polygamma, np.rint(s), np.abs(q) + 0.1, ulps=100)
        check(lax.polygamma, np.zeros(3), np.array([1.5, 0.2, -1.5]), ulps=100)
        check(lambda q: lax.zeta(np.float64(2.5), q), q, ulps=100)


def test_operands_are_broadcast():
    a, x = np.float32([[0.5], [30]]), np.float32([[0.1, 2, 28]])
    check(lax.igamma, a, x)
    check(lambda x: lax.igamma(np.float32(2), x), x)


@pytest.mark.parametrize("fun", [lax.bessel_i0e, lax.bessel_i1e])
def test_bessel_functions(fun):
    check(fun, np.concatenate([*operands(), -operands()[0]]), ulps=4)


def test_zeta_left_and_right_of_zero():
    rng = np.random.default_rng(1)
    s = np.concatenate([1 + 12 * rng.random(2000), rng.integers(2, 7, 2000)]).astype(np.float32)
    q = np.concatenate([20 * rng.random(2000), 8 * rng.random(2000) - 4]).astype(np.float32)
    check(lax.zeta, s, q, ulps=2)
    check(lax.polygamma, np.rint(s), np.abs(q) + 0.1, ulps=2)
