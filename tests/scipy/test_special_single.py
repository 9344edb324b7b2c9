"""Special functions of float32, whose formulas are shorter than those of float64."""

import numpy as np
import pytest
import scipy.special as sc

import weft
from weft.scipy import special

RANDOM = np.random.default_rng(0)
UNIT = np.concatenate(
    [
        RANDOM.uniform(0, 1, 20000),
        10.0 ** RANDOM.uniform(-37, 0, 5000),
        1 - 10.0 ** RANDOM.uniform(-7, 0, 5000),
        0.5 + RANDOM.uniform(-1e-3, 1e-3, 5000),
    ]
).astype(np.float32)
LINE = np.concatenate([RANDOM.uniform(-9, 12, 20000), 10.0 ** RANDOM.uniform(-20, 2, 5000)])
LINE = LINE.astype(np.float32)
POSITIVE = np.abs(LINE)
# Right of 0: e**(x**2) has the error of x**2 left of it.
CASES = [
    ("logit", UNIT, 2),
    ("ndtri", UNIT, 4),
    ("erfcx", POSITIVE, 6),
    ("dawsn", LINE, 6),
    ("gammaln", POSITIVE, 1),
    ("spence", POSITIVE, 6),
]


def units(found, wanted):
    """The largest error in units in the last place of float32."""
    found, spacing = np.asarray(found, np.float64), np.spacing(np.abs(wanted).astype(np.float32))
    return np.max(np.abs(found - wanted) / np.maximum(spacing, 2.0**-149))


@pytest.mark.parametrize(("name", "x", "most"), CASES)
def test_within_units_of_float64(name, x, most):
    with np.errstate(all="ignore"):
        wanted = getattr(sc, name)(x.astype(np.float64))
    keep = np.isfinite(wanted) & (np.abs(wanted) < 3e38)
    assert keep.sum() > 20000
    assert units(weft.jit(getattr(special, name))(x[keep]), wanted[keep]) <= most


def test_logit_at_its_ends():
    x = np.array([0, 1, 0.5, -0.0, -0.5, 1.5, np.nan, 2e-38, 1e-37, np.nextafter(1, 0)], np.float32)
    with np.errstate(all="ignore"):
        wanted = sc.logit(x.astype(np.float64))
    found = np.asarray(special.logit(x))
    np.testing.assert_allclose(found, wanted, 2e-7)
    assert not np.signbit(found[2])


def test_gammaln_next_to_its_zeros_and_at_its_ends():
    for zero in (1.0, 2.0):
        x = (zero + np.linspace(-1e-5, 1e-5, 1001)).astype(np.float32)
        x = x[x != zero]
        assert units(special.gammaln(x), sc.gammaln(x.astype(np.float64))) <= 1
    ends = np.array([0, np.inf, np.nan, -1, -2, 1, 2, 1e30, 2e-38, -0.5, -30.5], np.float32)
    found, wanted = np.asarray(special.gammaln(ends)), sc.gammaln(ends.astype(np.float64))
    np.testing.assert_allclose(found, wanted, 2e-7)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 29, 30, 50])
def test_orders_of_the_exponential_integral(n):
    x = np.r_[0.0, 1e-30, np.linspace(0.05, 1, 40), np.linspace(1.001, 30, 60), np.nan, -1.0]
    with np.errstate(all="ignore"):
        wanted = sc.expn(n, x)
    np.testing.assert_allclose(special.expn(n, x.astype(np.float32)), wanted, 4e-6)
    with weft.enable_x64():
        np.testing.assert_allclose(special.expn(n, x), wanted, 1e-13)
        np.testing.assert_allclose(special.expn(np.full_like(x, n), x), wanted, 1e-13)
