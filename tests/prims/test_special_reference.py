"""The special functions' NumPy references against mpmath, SciPy and JAX's answers at the edges."""

import ml_dtypes
import mpmath as mp
import numpy as np
import pytest
import scipy.special as sc

from weft.prims import complex_reference as on_complex
from weft.prims import special as prims

INF, NAN = np.inf, np.nan
erf, erfc, erf_inv = prims.erf_p.ref, prims.erfc_p.ref, prims.erf_inv_p.ref
lgamma, digamma = prims.lgamma_p.ref, prims.digamma_p.ref
bessel_i0e, bessel_i1e = prims.bessel_i0e_p.ref, prims.bessel_i1e_p.ref
zeta, polygamma = prims.zeta_p.ref, prims.polygamma_p.ref
igamma, igammac = prims.igamma_p.ref, prims.igammac_p.ref
igamma_grad_a, random_gamma_grad = prims.igamma_grad_a_p.ref, prims.random_gamma_grad_p.ref
regularized_incomplete_beta = prims.regularized_incomplete_beta_p.ref


def sample(*, low, high, n=60, log=False, seed=0):
    x = np.random.default_rng(seed).uniform(low, high, n)
    return 10.0**x if log else x


def error_in_ulp(got, wanted):
    """Largest distance between float64 results and exact values, in units of the last place."""
    worst = 0.0
    for g, w in zip(got, wanted, strict=True):
        unit = float(np.spacing(abs(float(w))))
        worst = max(worst, abs(float((mp.mpf(float(g)) - w) / mp.mpf(unit))))
    return worst


def exact(fun, *operands, digits=40):
    with mp.workdps(digits):
        return [fun(*map(mp.mpf, map(float, row))) for row in zip(*operands, strict=True)]


UNARY = [
    (erf, mp.erf, np.r_[sample(low=-6, high=6), sample(low=-300, high=0, log=True)], 2),
    (erfc, mp.erfc, np.r_[sample(low=-6, high=26), sample(low=-1, high=1)], 3),
    (
        lgamma,
        mp.loggamma,
        np.r_[sample(low=0, high=20), sample(low=-300, high=300, log=True), 1 + 1e-9, 2 - 1e-9],
        3,
    ),
    (
        digamma,
        mp.digamma,
        np.r_[sample(low=0, high=20), sample(low=-300, high=300, log=True), 1.4616321449683622],
        3,
    ),
    (
        bessel_i0e,
        lambda x: mp.exp(-abs(x)) * mp.besseli(0, x),
        np.r_[sample(low=-20, high=20), sample(low=-5, high=4, log=True)],
        6,
    ),
    (
        bessel_i1e,
        lambda x: mp.exp(-abs(x)) * mp.besseli(1, x),
        np.r_[sample(low=-20, high=20), sample(low=-5, high=4, log=True)],
        8,
    ),
]


@pytest.mark.parametrize(
    ("fun", "truth", "x", "bound"), UNARY, ids=lambda v: getattr(v, "__name__", "")
)
def test_unary_is_accurate(fun, truth, x, bound):
    assert error_in_ulp(fun(x), exact(truth, x)) <= bound


def test_negative_axis_of_gamma_functions():
    x = sample(low=-20, high=0, n=200)
    np.testing.assert_allclose(lgamma(x), sc.gammaln(x), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(digamma(x), sc.digamma(x), rtol=1e-13, atol=1e-13)


def test_zeta_and_polygamma():
    s, q = 1 + sample(low=-8, high=0.5, log=True), sample(low=-3, high=1, log=True, seed=1)
    assert error_in_ulp(zeta(s, q), exact(mp.zeta, s, q, digits=80)) <= 4
    n = np.random.default_rng(2).integers(0, 30, 60).astype(float)
    x = sample(low=-3, high=3, log=True, seed=3)
    truth = exact(lambda n, x: mp.polygamma(int(n), x), n, x)
    assert error_in_ulp(polygamma(n, x), truth) <= 4
    n, x = 1 + n % 5, -sample(low=0, high=40, seed=4)
    truth = [float(v) for v in exact(lambda n, x: mp.polygamma(int(n), x), n, x)]
    np.testing.assert_allclose(polygamma(n, x), truth, rtol=1e-12)


def gamma_operands():
    rng = np.random.default_rng(5)
    small = sample(low=-4, high=0, n=25, log=True), sample(low=-4, high=0, n=25, log=True, seed=1)
    middle = sample(low=-1, high=1.3, n=25, log=True)
    large = sample(low=1.3, high=6, n=25, log=True)
    return [
        small,
        (middle, middle * np.exp(rng.normal(size=25))),
        (large, large + 2 * np.sqrt(large) * rng.normal(size=25)),
        (large[:10], large[:10] * rng.choice([0.2, 3.0], 10)),
    ]


@pytest.mark.parametrize("case", range(4))
def test_incomplete_gamma(case):
    a, x = gamma_operands()[case]

    def lower(a, x):
        return mp.gammainc(a, 0, x, regularized=True)

    def upper(a, x):
        return mp.gammainc(a, x, mp.inf, regularized=True)

    if case == 3:
        np.testing.assert_allclose(igamma(a, x), sc.gammainc(a, x), rtol=1e-11)
        np.testing.assert_allclose(igammac(a, x), sc.gammaincc(a, x), rtol=1e-11)
        return
    assert error_in_ulp(igamma(a, x), exact(lower, a, x, digits=50)) <= 60
    assert error_in_ulp(igammac(a, x), exact(upper, a, x, digits=50)) <= 60

    def slope(a, x):
        h = a * mp.mpf(10) ** -20
        return (lower(a + h, x) - lower(a - h, x)) / (2 * h)

    def sample_slope(a, x):
        return -slope(a, x) / (x ** (a - 1) * mp.exp(-x) / mp.gamma(a))

    a, x = a[:10], x[:10]
    assert error_in_ulp(igamma_grad_a(a, x), exact(slope, a, x, digits=60)) <= 80
    assert error_in_ulp(random_gamma_grad(a, x), exact(sample_slope, a, x, digits=60)) <= 40


def test_huge_shape_parameter():
    a = np.array([1e10, 1e10, 1e15, 1e4])
    x = np.array([1e10, 1e10 + 2e5, 1e15, 1.5e4])
    np.testing.assert_allclose(igamma(a, x), sc.gammainc(a, x), rtol=1e-12)
    np.testing.assert_allclose(random_gamma_grad(a[:1], x[:1]), [1.0], rtol=1e-9)


@pytest.mark.parametrize(("low", "high"), [(-3, 0), (-1, 1.5), (1, 4)])
def test_incomplete_beta(low, high):
    rng = np.random.default_rng(6)
    a, b = (10.0 ** rng.uniform(low, high, 200) for _ in range(2))
    x = np.where(rng.random(200) < 0.7, rng.beta(a, b), rng.random(200))
    wanted = sc.betainc(a, b, x)
    keep = wanted > 1e-250
    got = regularized_incomplete_beta(a, b, x)
    np.testing.assert_allclose(got[keep], wanted[keep], rtol=2e-12)


# Rows of operands and answer, as JAX 0.10.2 gives them.
EDGES = [
    (
        erf_inv,
        [(0, 0), (1, INF), (-1, -INF), (1.5, NAN), (INF, NAN), (NAN, NAN)],
    ),
    (erf, [(INF, 1), (-INF, -1), (NAN, NAN), (30, 1)]),
    (erfc, [(INF, 0), (-INF, 2), (NAN, NAN), (0, 1), (40, 0)]),
    (
        lgamma,
        [(0, INF), (-1, INF), (-2, INF), (INF, INF), (-INF, INF), (NAN, NAN), (1, 0), (2, 0)],
    ),
    (digamma, [(0, NAN), (-1, NAN), (INF, INF), (-INF, NAN), (NAN, NAN)]),
    (bessel_i0e, [(0, 1), (INF, 0), (-INF, 0), (NAN, NAN)]),
    (bessel_i1e, [(0, 0), (INF, 0), (-INF, 0), (NAN, NAN)]),
    (
        polygamma,
        [(0, 0, NAN), (1, 0, INF), (1, -1, INF), (2, 0, NAN), (-1, 2, NAN), (1.5, 2, NAN)]
        + [(NAN, 1, NAN), (1, NAN, NAN), (INF, 1, NAN), (1, INF, NAN), (1, -INF, INF)]
        + [(0, INF, INF), (0, -INF, NAN), (3, -2.5, 194.74787621918773)],
    ),
    (
        zeta,
        [(1, 1, INF), (0.5, 1, NAN), (2, 0, INF), (2, -1, INF), (3, 0, NAN), (3, -1, NAN)]
        + [(2.5, -0.5, NAN), (INF, 2, NAN), (NAN, 1, NAN), (2, NAN, NAN), (2, INF, NAN)]
        + [(2, -INF, INF), (2, -1.5, 9.379246644989122), (1e10, 2, 0)],
    ),
    (
        igamma,
        [(0, 0, NAN), (0, 1, 1), (1, 0, 0), (1, -1, NAN), (1, INF, 1), (-1, 1, NAN)]
        + [(INF, 1, NAN), (INF, INF, 1), (2, NAN, NAN), (0, INF, 1), (INF, 0, 0), (0, NAN, NAN)],
    ),
    (
        igammac,
        [(0, 0, NAN), (0, 1, 0), (1, 0, 1), (1, -1, NAN), (1, INF, 0), (-1, 1, NAN)]
        + [(INF, 1, NAN), (INF, INF, 0), (2, NAN, NAN), (0, INF, 0), (INF, 0, 1), (0, NAN, NAN)],
    ),
    (
        igamma_grad_a,
        [(0, 1, NAN), (1, 0, 0), (1, -1, NAN), (1, INF, NAN), (INF, 1, NAN), (INF, 0, 0)],
    ),
    (
        random_gamma_grad,
        [(0, 1, NAN), (1, 0, 0), (1, -1, NAN), (1, INF, NAN), (INF, 1, NAN), (INF, 0, 0)],
    ),
    (
        regularized_incomplete_beta,
        [(0, 1, 0.5, 1), (1, 0, 0.5, 0), (0, 0, 0.5, NAN), (1, 1, 0, 0), (1, 1, 1, 1)]
        + [(1, 1, -0.1, NAN), (1, 1, 1.1, NAN), (-1, 1, 0.5, NAN), (INF, 1, 0.5, 0)]
        + [(1, INF, 0.5, 1), (INF, INF, 0.5, NAN), (NAN, 1, 0.5, NAN), (0, 1, 0, 0)]
        + [(0, 1, 1, 1), (1, 0, 1, 1), (1, 0, 0, 0), (INF, 1, 1, 1), (2, 3, 0.3, 0.3483)],
    ),
]


@pytest.mark.parametrize(("fun", "rows"), EDGES, ids=lambda v: getattr(v, "__name__", ""))
@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
def test_edges(fun, rows, dtype):
    if dtype == ml_dtypes.bfloat16:
        rows = [r for r in rows if all(v in (0, 1, -1, 2, 3, 0.5, INF, -INF) for v in r)]
    *operands, wanted = np.array(rows, float).T
    got = fun(*(np.asarray(x, dtype) for x in operands))
    assert got.dtype == dtype
    tolerance = 1e-14 if dtype == np.float64 else 1e-6
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=tolerance)


def test_signed_zero_and_shapes():
    for fun in (erf, erf_inv, bessel_i1e):
        assert np.signbit(fun(np.float64(-0.0)))
    assert lgamma(np.float32(3.5)).shape == ()
    assert igamma(np.ones((2, 1)), np.ones((1, 3))).shape == (2, 3)
    assert erf(np.zeros((0, 3))).shape == (0, 3)


def test_narrow_floats_round_once():
    x = np.linspace(-3, 3, 101).astype(ml_dtypes.bfloat16)
    wanted = sc.erf(x.astype(float)).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(erf(x), wanted)


COMPLEX = [
    ("asin", mp.asin), ("acos", mp.acos), ("atan", mp.atan), ("asinh", mp.asinh),
    ("acosh", mp.acosh), ("atanh", mp.atanh), ("tan", mp.tan), ("tanh", mp.tanh),
    ("sqrt", mp.sqrt), ("rsqrt", lambda z: 1 / mp.sqrt(z)), ("square", lambda z: z * z),
    ("sign", lambda z: z / abs(z)), ("exp2", lambda z: mp.exp(z * mp.log(2))),
    ("expm1", mp.expm1), ("log1p", mp.log1p), ("logistic", lambda z: 1 / (1 + mp.exp(-z))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "truth"), COMPLEX, ids=lambda v: v if isinstance(v, str) else "")
def test_complex_functions(name, truth):
    rng = np.random.default_rng(7)
    scale = 10.0 ** rng.uniform(-12, 1, 60)
    z = (rng.normal(size=60) + 1j * rng.normal(size=60)) * scale
    with mp.workdps(40):
        wanted = np.array([complex(truth(mp.mpc(complex(v)))) for v in z])
    got = getattr(on_complex, name)(z)
    np.testing.assert_array_less(np.abs(got - wanted), 1e-14 * np.abs(wanted))
    single = getattr(on_complex, name)(z.astype(np.complex64))
    assert single.dtype == np.complex64


def test_complex_ends_of_range_and_cuts():
    zero = complex(-2.0, -0.0)
    assert on_complex.sqrt(np.array(zero)).imag > 0
    assert on_complex.asin(np.array(zero)).imag > 0
    assert on_complex.acos(np.array(zero)).imag < 0
    assert on_complex.acosh(np.array(zero)).imag > 0
    assert on_complex.asinh(np.array(complex(-0.0, 2.0))).real > 0
    assert on_complex.expm1(np.array(800 + 0j)) == complex(INF, 0)
    assert on_complex.logistic(np.array(-800 + 1j)) == 0
    assert on_complex.square(np.array(1e200 + 1e200j)).real == 0
    assert on_complex.rsqrt(np.array(complex(INF, 1))) == 0
    assert on_complex.sign(np.array(1e308 + 1e308j)).real == pytest.approx(0.5**0.5)
    edge = np.array(-0.5 + 0.8660254037844386j)
    assert float(on_complex.log1p(edge).real) == pytest.approx(-4.34531893e-17, rel=1e-6)
