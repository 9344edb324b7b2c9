"""``weft.scipy.stats`` against SciPy in float64, with derivatives, compiled and batched."""

import numpy as np
import pytest
import scipy.stats as reference

import weft
import weft.numpy as jnp
from weft.scipy import stats

RNG = np.random.default_rng(0)
INF, NAN = np.inf, np.nan


@pytest.fixture(autouse=True)
def double():
    with weft.enable_x64(True):
        yield


def spread(low, high, n=40):
    return RNG.uniform(low, high, n)


REAL = np.r_[spread(-4, 4), -INF, INF, 0.0, NAN]
UNIT = np.r_[spread(0, 1), 0.0, 1.0, -0.5, 1.5, NAN]
COUNTS = np.r_[RNG.integers(0, 12, 40), -1, 3, 0, 50].astype(float)
LEVELS = np.r_[spread(0.01, 0.99), -0.1, 1.1, NAN, 0.5]
SHAPE, WIDE = spread(0.3, 4, 44), spread(0.3, 4, 45)
P, N = spread(0.05, 0.95, 44), RNG.integers(5, 20, 44).astype(float)
LOC, SCALE = spread(-1, 1, 44), spread(0.5, 3, 44)

DENSITY = "logpdf pdf"
TAILS = "cdf logcdf sf logsf"
# distribution, functions, operands
CASES = [
    ("norm", f"{DENSITY} {TAILS}", [REAL, LOC, SCALE]),
    ("norm", "ppf isf", [LEVELS, LOC, SCALE]),
    ("bernoulli", "logpmf pmf", [np.r_[0, 1, 1, 2, -1, 0.0], np.r_[0.2, 0.2, 0.7, 0.5, 0.5, 1.0]]),
    ("bernoulli", "cdf", [COUNTS - 1, P]),
    ("bernoulli", "ppf", [spread(0.01, 0.99, 44), P]),
    ("beta", f"{DENSITY} {TAILS}", [UNIT, WIDE, WIDE[::-1]]),
    ("beta", "logpdf cdf", [REAL, SHAPE, SHAPE[::-1], LOC, SCALE]),
    ("betabinom", "logpmf pmf", [COUNTS, N, SHAPE, SHAPE[::-1]]),
    ("binom", "logpmf pmf", [COUNTS, N, P]),
    ("cauchy", f"{DENSITY} {TAILS}", [REAL, LOC, SCALE]),
    ("cauchy", "ppf isf", [spread(0.01, 0.99, 44), LOC, SCALE]),
    ("chi2", f"{DENSITY} {TAILS}", [REAL, SHAPE, LOC, SCALE]),
    ("expon", f"{DENSITY} {TAILS}", [REAL, LOC, SCALE]),
    ("expon", "ppf", [LEVELS, LOC, SCALE]),
    ("gamma", f"{DENSITY} {TAILS}", [REAL, SHAPE, LOC, SCALE]),
    ("gennorm", f"{DENSITY} cdf", [REAL, SHAPE]),
    ("geom", "logpmf pmf", [COUNTS, P]),
    ("gumbel_l", f"{DENSITY} {TAILS}", [REAL, LOC, SCALE]),
    ("gumbel_l", "ppf", [LEVELS, LOC, SCALE]),
    ("gumbel_r", f"{DENSITY} {TAILS}", [REAL, LOC, SCALE]),
    ("gumbel_r", "ppf", [LEVELS, LOC, SCALE]),
    ("laplace", f"{DENSITY} cdf", [REAL, LOC, SCALE]),
    ("logistic", f"{DENSITY} cdf sf", [REAL, LOC, SCALE]),
    ("logistic", "ppf isf", [spread(0.01, 0.99, 44), LOC, SCALE]),
    ("nbinom", "logpmf pmf", [COUNTS, N, P]),
    ("pareto", f"{DENSITY} {TAILS}", [np.abs(REAL) + 0.5, SHAPE, LOC, SCALE]),
    ("pareto", "ppf", [LEVELS, SHAPE, LOC, SCALE]),
    ("poisson", "logpmf pmf cdf", [COUNTS, SHAPE]),
    ("poisson", "entropy", [np.r_[0.01, 0.5, 3.0, 12.0, 49.0]]),
    ("t", DENSITY, [REAL, SHAPE, LOC, SCALE]),
    ("truncnorm", f"{DENSITY} {TAILS}", [REAL, -SHAPE, SHAPE[::-1], LOC, SCALE]),
    ("truncnorm", f"{DENSITY} {TAILS}", [spread(3, 9), 3.0, 9.0]),
    ("uniform", f"{DENSITY} cdf", [REAL, LOC, SCALE]),
    ("uniform", "ppf", [LEVELS, LOC, SCALE]),
    ("vonmises", DENSITY, [spread(-3, 3), 2.5]),
    ("wrapcauchy", DENSITY, [spread(0, 6), 0.4]),
]
NAMED = [(d, f, operands) for d, names, operands in CASES for f in names.split()]
IDS = [f"{d}.{f}-{i}" for i, (d, f, _) in enumerate(NAMED)]


@pytest.mark.parametrize(("distribution", "name", "operands"), NAMED, ids=IDS)
def test_against_scipy(distribution, name, operands):
    function = getattr(getattr(stats, distribution), name)
    with np.errstate(all="ignore"):
        wanted = getattr(getattr(reference, distribution), name)(*operands)
    got = function(*operands)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, wanted, rtol=2e-9, atol=1e-13)


JITTED = {(d, f): operands for d, f, operands in NAMED if f in ("logpdf", "logpmf", "cdf", "ppf")}


@pytest.mark.parametrize(("distribution", "name"), JITTED, ids=lambda x: str(x))
def test_compiled_is_eager(distribution, name):
    operands = JITTED[distribution, name]
    function = getattr(getattr(stats, distribution), name)
    np.testing.assert_allclose(
        weft.jit(function)(*operands), function(*operands), rtol=1e-12, atol=1e-14
    )


# a point inside the support of each, where derivatives by all operands are looked at
POINTS = {
    "norm": [0.3, 0.1, 1.2], "cauchy": [0.3, 0.1, 1.2], "expon": [0.8, 0.1, 1.2],
    "gumbel_l": [0.3, 0.1, 1.2], "gumbel_r": [0.3, 0.1, 1.2], "laplace": [0.3, 0.1, 1.2],
    "logistic": [0.3, 0.1, 1.2], "uniform": [0.3, 0.1, 1.2], "gamma": [0.8, 1.7, 0.1, 1.2],
    "chi2": [0.8, 1.7, 0.1, 1.2], "pareto": [2.8, 1.7, 0.1, 1.2], "t": [0.8, 1.7, 0.1, 1.2],
    "gennorm": [0.8, 1.7], "vonmises": [0.8, 1.7], "wrapcauchy": [0.8, 0.4],
    "truncnorm": [0.3, -1.1, 0.9, 0.1, 1.2], "beta": [0.4, 1.3, 2.1],
    "binom": [3.0, 7.0, 0.4], "nbinom": [3.0, 7.0, 0.4], "betabinom": [3.0, 7.0, 1.2, 0.7],
    "poisson": [3.0, 1.7], "geom": [3.0, 0.4], "bernoulli": [1.0, 0.4],
}  # fmt: skip
DISCRETE = {"binom", "nbinom", "betabinom", "poisson", "geom", "bernoulli"}


@pytest.mark.parametrize("distribution", POINTS)
def test_derivatives(distribution):
    """Of the densities by every operand but a count, and of the distribution by its first."""
    at = POINTS[distribution]
    module = getattr(stats, distribution)
    counts = {"binom": 2, "nbinom": 2, "betabinom": 2}.get(distribution, 1)
    first = counts if distribution in DISCRETE else 0
    names = [("logpmf", first), ("pmf", first)] if first else [("logpdf", first), ("pdf", first)]
    if not first and hasattr(module, "cdf"):
        names += [("cdf", None)]
    for name, start in names:
        function = getattr(module, name)
        for i in [0] if start is None else range(start, len(at)):
            found = weft.grad(function, argnums=i)(*at)
            step = np.eye(len(at))[i] * 1e-6
            wanted = (function(*(at + step)) - function(*(at - step))) / 2e-6
            np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-9)


def test_derivative_of_cdf_is_pdf():
    for distribution, at in POINTS.items():
        module = getattr(stats, distribution)
        if distribution in DISCRETE or not hasattr(module, "cdf"):
            continue
        slope = weft.grad(module.cdf)(*at)
        np.testing.assert_allclose(slope, module.pdf(*at), rtol=1e-9)


def test_derivatives_outside_are_zero():
    """What is not taken does not spoil derivatives."""
    for name in ("cdf", "sf"):
        for x in (-50.0, 50.0):
            assert weft.grad(getattr(stats.beta, name))(x, 0.3, 2.0) == 0
            assert weft.grad(getattr(stats.truncnorm, name))(x, -1.0, 1.0) == 0
            assert weft.grad(stats.laplace.cdf)(40 * x) == 0
        assert weft.grad(getattr(stats.gamma, name))(-1.0, 0.3) == 0
    assert weft.grad(stats.gamma.logpdf)(-1.0, 0.3) == 0


def test_batches_and_broadcasts():
    x, scale = spread(-2, 2, 5), spread(0.5, 2, 3)
    wanted = reference.norm.logpdf(x[:, None], 0.3, scale)
    np.testing.assert_allclose(stats.norm.logpdf(x[:, None], 0.3, scale), wanted, rtol=1e-12)
    mapped = weft.vmap(lambda a: weft.vmap(lambda s: stats.norm.logpdf(a, 0.3, s))(scale))(x)
    np.testing.assert_allclose(mapped, wanted, rtol=1e-12)


def test_dtypes():
    with weft.enable_x64(False):
        for x, dtype, weak in (
            (jnp.int32(1), "float32", False),
            (jnp.float16(1), "float16", False),
            (jnp.ones(2, jnp.bfloat16), "bfloat16", False),
            (1, "float32", True),
            (1.0, "float32", True),
        ):
            for found in (stats.expon.logpdf(x), stats.gamma.pdf(x, 2), stats.uniform.pdf(x)):
                assert found.dtype == dtype
            assert stats.expon.logpdf(x).weak_type == weak


def test_tails_are_accurate():
    # JAX and plain differences from 1 give 0 for these
    np.testing.assert_allclose(stats.cauchy.cdf(-1e12), 1e-12 / np.pi, rtol=1e-12)
    np.testing.assert_allclose(stats.norm.isf(1e-30), reference.norm.isf(1e-30), rtol=1e-12)
    wanted = reference.truncnorm.logcdf(8.5, 8.0, 9.0)
    np.testing.assert_allclose(stats.truncnorm.logcdf(8.5, 8.0, 9.0), wanted, rtol=1e-9)


def test_poisson_entropy_of_large_means():
    # 0.5 log(2 pi e mu) - 1/(12 mu) - ..., summed in 40 digits
    for mu, wanted in ((60.0, 3.464710097858322), (1e3, 4.872732797642851)):
        np.testing.assert_allclose(stats.poisson.entropy(mu), wanted, rtol=1e-9)


def test_dirichlet():
    alpha = np.array([0.7, 2.0, 3.0])
    x = RNG.dirichlet(alpha, 4).T
    wanted = reference.dirichlet.logpdf(x, alpha)
    np.testing.assert_allclose(stats.dirichlet.logpdf(x, alpha), wanted, rtol=1e-12)
    np.testing.assert_allclose(stats.dirichlet.logpdf(x[:2], alpha), wanted, rtol=1e-12)
    np.testing.assert_allclose(stats.dirichlet.pdf(x, alpha), np.exp(wanted), rtol=1e-12)
    assert stats.dirichlet.logpdf(np.array([0.2, 0.2, 0.2]), alpha) == -INF
    for bad in (x, x.T):
        with pytest.raises(ValueError, match="dirichlet"):
            stats.dirichlet.logpdf(bad, alpha[:2] if bad is x else alpha)


def test_multinomial():
    p, x = np.array([0.2, 0.5, 0.3]), np.array([[1, 3, 1], [0, 5, 0], [2, 2, 2]])
    wanted = reference.multinomial.logpmf(x, 5, p)
    np.testing.assert_allclose(stats.multinomial.logpmf(x, 5, p), wanted, rtol=1e-12)
    np.testing.assert_allclose(stats.multinomial.pmf(x, 5, p), np.exp(wanted), rtol=1e-12)
    never = stats.multinomial.logpmf(np.array([1, 4, 0]), 5, np.array([0.2, 0.8, 0.0]))
    np.testing.assert_allclose(never, reference.binom.logpmf(1, 5, 0.2), rtol=1e-12)
    with pytest.raises(ValueError, match="integer counts"):
        stats.multinomial.logpmf(x * 1.0, 5, p)


def test_multivariate_normal():
    normal, wanted = stats.multivariate_normal, reference.multivariate_normal
    mean, x = spread(-1, 1, 3), RNG.standard_normal((5, 3))
    root = RNG.standard_normal((3, 3))
    cov = root @ root.T + np.eye(3)
    np.testing.assert_allclose(normal.logpdf(x, mean, cov), wanted.logpdf(x, mean, cov), rtol=1e-12)
    np.testing.assert_allclose(normal.pdf(x[0], mean, cov), wanted.pdf(x[0], mean, cov), rtol=1e-12)
    np.testing.assert_allclose(
        normal.logpdf(x, mean, 2.0), wanted.logpdf(x, mean, 2 * np.eye(3)), rtol=1e-12
    )
    np.testing.assert_allclose(
        normal.logpdf(x, 0.5, 2.0), reference.norm.logpdf(x, 0.5, np.sqrt(2)), rtol=1e-12
    )
    means, covs = np.stack([mean, -mean]), np.stack([cov, 2 * cov])
    stacked = [[wanted.logpdf(a, m, c) for m, c in zip(means, covs, strict=True)] for a in x]
    np.testing.assert_allclose(normal.logpdf(x[:, None], means, covs), stacked, rtol=1e-12)
    slope = weft.grad(lambda c: normal.logpdf(x, mean, c).sum())(cov)
    step = np.eye(3)[:1].T @ np.eye(3)[:1] * 1e-6
    rise = normal.logpdf(x, mean, cov + step).sum() - normal.logpdf(x, mean, cov - step).sum()
    np.testing.assert_allclose(slope[0, 0], rise / 2e-6, rtol=1e-6)
    for bad in (np.eye(2), np.ones(3)):
        with pytest.raises(ValueError, match="covariance"):
            normal.logpdf(x, mean, bad)
    with pytest.raises(NotImplementedError):
        normal.logpdf(x, mean, cov, allow_singular=True)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("keepdims", [False, True])
def test_mode(axis, keepdims):
    x = RNG.integers(0, 4, (6, 5, 3))
    wanted = reference.mode(x, axis=axis, keepdims=keepdims)
    got = stats.mode(x, axis=axis, keepdims=keepdims)
    np.testing.assert_array_equal(got.mode, wanted.mode)
    np.testing.assert_array_equal(got.count, wanted.count)
    np.testing.assert_array_equal(weft.jit(stats.mode)(x).mode, reference.mode(x).mode)


def test_mode_edges():
    assert np.isnan(stats.mode(jnp.zeros((0, 3))).mode).all()
    found = stats.mode(np.array([1.0, NAN, NAN]))
    assert np.isnan(found.mode) and found.count == 2
    for policy, error in (("omit", NotImplementedError), ("other", ValueError)):
        with pytest.raises(error):
            stats.mode(np.ones(3), nan_policy=policy)


@pytest.mark.parametrize("method", ["average", "min", "max", "dense", "ordinal"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_rankdata(method, axis):
    x = RNG.integers(0, 5, (4, 7)).astype(float)
    wanted = reference.rankdata(x, method, axis=axis)
    np.testing.assert_array_equal(stats.rankdata(x, method, axis=axis), wanted)
    x[0, 0] = NAN
    wanted = reference.rankdata(x, method, axis=axis)
    np.testing.assert_array_equal(stats.rankdata(x, method, axis=axis), wanted)


def test_sem():
    x = RNG.standard_normal((5, 4))
    for kwargs in ({}, {"axis": 1, "ddof": 0}, {"axis": None}):
        np.testing.assert_allclose(stats.sem(x, **kwargs), reference.sem(x, **kwargs), rtol=1e-12)
    assert stats.sem(x, axis=1, keepdims=True).shape == (5, 1)
    x[1, 2] = NAN
    wanted = np.asarray(reference.sem(x, nan_policy="omit"))
    np.testing.assert_allclose(stats.sem(x, nan_policy="omit"), wanted, rtol=1e-12)
    with pytest.raises(ValueError, match="nan_policy"):
        stats.sem(x, nan_policy="raise")


@pytest.mark.parametrize("bandwidth", [None, "scott", "silverman", 0.4])
@pytest.mark.parametrize("weighted", [False, True])
def test_kernel_density(bandwidth, weighted):
    data, points = RNG.standard_normal((2, 30)), RNG.standard_normal((2, 7))
    weights = spread(0.1, 1, 30) if weighted else None
    got = stats.gaussian_kde(data, bandwidth, weights)
    wanted = reference.gaussian_kde(data, bandwidth, weights)
    np.testing.assert_allclose(got.covariance, wanted.covariance, rtol=1e-10)
    np.testing.assert_allclose(got(points), wanted(points), rtol=1e-9)
    np.testing.assert_allclose(got.logpdf(points), wanted.logpdf(points), rtol=1e-9)
    mean, cov = np.array([0.1, -0.2]), np.diag([1.0, 2.0])
    np.testing.assert_allclose(
        got.integrate_gaussian(mean, cov), wanted.integrate_gaussian(mean, cov), rtol=1e-9
    )
    np.testing.assert_allclose(got.integrate_kde(got), wanted.integrate_kde(wanted), rtol=1e-9)
    through = weft.jit(lambda kde, x: kde.evaluate(x))(got, points)
    np.testing.assert_allclose(through, wanted(points), rtol=1e-9)


def test_kernel_density_in_one_dimension():
    data = RNG.standard_normal(20)
    got, wanted = stats.gaussian_kde(data), reference.gaussian_kde(data)
    np.testing.assert_allclose(
        got.integrate_box_1d(-1, 0.5), wanted.integrate_box_1d(-1, 0.5), rtol=1e-10
    )
    drawn = got.resample(weft.random.key(0), (2000,))
    assert drawn.shape == (1, 2000)
    np.testing.assert_allclose(drawn.mean(), data.mean(), atol=0.1)
    assert (got.d, got.n) == (1, 20)
    for call in (
        lambda: stats.gaussian_kde(np.ones(1)),
        lambda: stats.gaussian_kde(data, "other"),
        lambda: stats.gaussian_kde(data, weights=np.ones(3)),
        lambda: got(np.ones((3, 3))),
        lambda: got.integrate_kde(stats.gaussian_kde(RNG.standard_normal((2, 9)))),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            call()
    with pytest.raises(NotImplementedError):
        got.set_bandwidth("scott")


def test_resample_draws_what_jax_draws():
    with weft.enable_x64(False):
        data = np.random.default_rng(0).standard_normal((2, 8)).astype("float32")
        kde = stats.gaussian_kde(data, weights=jnp.arange(1.0, 9))
        wanted = [[-0.54441375, 1.0467906, 0.9343661], [-2.130393, -0.89038664, -2.0111454]]
        np.testing.assert_allclose(kde.resample(weft.random.key(0), (3,)), wanted, rtol=1e-5)
