"""Distributions: JAX's numbers for the same key, the right distribution, and derivatives."""

import numpy as np
import pytest
import scipy.special as sc
import scipy.stats as st

import weft
import weft.numpy as jnp
from weft import random
from weft.prims.random import keys_of, threefry_impl
from weft.prims.random_draws import random_binomial_p, random_gamma_p, random_poisson_p
from weft.prims.special import erf_inv_p

LOGITS = np.array([[0.1, 1.0, -2.0], [2.0, 0.0, 0.5]], np.float32)
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
COVARIANCE = np.array([[2, 0.5], [0.5, 1]], np.float32)
VECTOR = np.array([1, 2, 0.5], np.float32)
ORIGIN = np.zeros(2, np.float32)


# What JAX 0.10.2 draws from key(0): the first numbers, and how many units of the last place the
# mathematical functions on the way may differ by.
REALS = [
    (lambda k: random.uniform(k, (6,)), [0.947667003, 0.978579879, 0.332291484, 0.468668461], 0),
    (lambda k: random.normal(k, (6,)), [1.62264216, 2.02526474, -0.433594435, -0.0786173493], 0),
    (lambda k: random.gumbel(k, (6,)), [2.92337251, 3.83261776, -0.0968932435, 0.277257085], 4),
    (lambda k: random.gumbel(k, (6,), mode="high"), [-1.08184862, -1.34636378, 0.906578839], 8),
    (lambda k: random.gumbel(k, (6,), mode="highest"), [-1.08184922, -1.34636426, 0.906579196], 8),
    (lambda k: random.exponential(k, (6,)), [2.95012808, 3.84342456, 0.403903544], 2),
    (lambda k: random.laplace(k, (6,)), [-2.25698161, -3.15027881, 0.408595443], 2),
    (lambda k: random.logistic(k, (6,)), [2.89637589, 3.82177162, -0.6978392], 4),
    (lambda k: random.cauchy(k, (6,)), [6.02749443, 14.8378954, -0.58172226], 4),
    (lambda k: random.truncated_normal(k, -2.0, 1.5, (6,)), [1.2031796, 1.36383975], 16),
    (lambda k: random.gamma(k, 2.5, (6,)), [2.07884192, 2.27277827, 1.54404235, 4.70205402], 8),
    (lambda k: random.gamma(k, 0.3, (6,)), [0.629269719, 0.755759358, 0.00597323105], 8),
    (lambda k: random.loggamma(k, 0.7, (6,)), [0.102838814, 0.236410975, -2.07679892], 16),
    (lambda k: random.beta(k, 2.0, 3.0, (6,)), [0.236273617, 0.490459651, 0.683794856], 16),
    (lambda k: random.t(k, 4.0, (6,)), [0.716001272, -2.41744089, -1.41440296], 8),
    (lambda k: random.chisquare(k, 3.0, (6,)), [2.20508409, 2.48996687, 1.45571351], 16),
    (lambda k: random.f(k, 3.0, 4.0, (6,)), [2.70391273, 0.226009727, 0.15839839], 16),
    (lambda k: random.pareto(k, 2.0, (6,)), [4.37131596, 6.8326478, 1.22378898], 4),
    (lambda k: random.rayleigh(k, 2.0, (6,)), [0.655756652, 0.416200548, 2.96882844], 4),
    (lambda k: random.weibull_min(k, 2.0, 1.5, (6,)), [4.11393356, 4.9072957, 1.09281945], 4),
    (lambda k: random.maxwell(k, (6,)), [2.6310966, 0.991032839, 0.964930594], 4),
    (lambda k: random.wald(k, 1.5, (6,)), [0.468820274, 0.519817948, 0.617859542], 64),
    (lambda k: random.lognormal(k, np.float32(0.5), (6,)), [2.25087953, 2.7528379], 4),
    (lambda k: random.triangular(k, 0.0, 1.0, 2.0, (6,)), [1.67647874, 1.7930212], 4),
    (lambda k: random.generalized_normal(k, 2.0, (6,)), [0.954276323, 0.090150252, -1.152542], 8),
    (lambda k: random.double_sided_maxwell(k, 0.0, 1.0, (6,)), [1.54572093, 1.57412755], 8),
    (lambda k: random.dirichlet(k, VECTOR, (2,)), [0.254993111, 0.725598872, 0.0194080286], 16),
    (lambda k: random.multivariate_normal(k, ORIGIN, COVARIANCE, (3,)), [2.29476261], 8),
    (lambda k: random.ball(k, 3, shape=(2,)), [0.917159736, 0.392742157, 0.0116535015], 16),
    (lambda k: random.orthogonal(k, 3), [0.955410123, 0.294135749, 0.0259955786], 64),
    (lambda k: random.binomial(k, 10, 0.4, (6,)), [3, 2, 3, 3], 0),
    (lambda k: random.binomial(k, 1000, 0.7, (6,)), [721, 707, 719, 685], 0),
    (lambda k: random.multinomial(k, 10, np.float32([0.2, 0.3, 0.5])), [1, 1, 8], 0),
]


@pytest.mark.parametrize(("draw", "expected", "ulp"), REALS)
def test_real_numbers_are_jaxs(draw, expected, ulp):
    got = np.asarray(draw(random.key(0))).ravel()[: len(expected)]
    assert got.dtype == np.float32
    expected = np.array(expected, np.float32)
    assert (np.abs(got - expected) <= ulp * np.spacing(np.abs(expected))).all(), (got, expected)
    jitted = np.asarray(weft.jit(draw)(random.key(0))).ravel()[: len(expected)]
    np.testing.assert_array_equal(got, jitted)


COUNTS = {
    "permutation": (lambda k: random.permutation(k, 12), [0, 1, 8, 5, 6, 4, 3, 10, 2, 7, 11, 9]),
    "categorical": (lambda k: random.categorical(k, LOGITS), [1, 0]),
    "categorical_shape": (
        lambda k: random.categorical(k, LOGITS, shape=(3, 2)),
        [[1, 0], [1, 1], [1, 0]],
    ),
    "categorical_without": (
        lambda k: random.categorical(k, LOGITS[0], shape=(2,), replace=False),
        [1, 0],
    ),
    "choice": (lambda k: random.choice(k, 10, (4,)), [9, 0, 2, 3]),
    "choice_without": (lambda k: random.choice(k, 10, (4,), replace=False), [0, 1, 8, 5]),
    "choice_p": (lambda k: random.choice(k, 4, (5,), p=WEIGHTS), [0, 0, 3, 2, 2]),
    "choice_p_without": (
        lambda k: random.choice(k, 4, (3,), replace=False, p=WEIGHTS),
        [1, 0, 3],
    ),
    "geometric": (lambda k: random.geometric(k, 0.3, (6,)), [1, 1, 4, 3, 2, 6]),
    "poisson": (lambda k: random.poisson(k, 3.0, (6,)), [0, 0, 4, 4, 1, 2]),
    "poisson_large": (lambda k: random.poisson(k, 50.0, (6,)), [39, 47, 41, 57, 43, 53]),
    "rademacher": (lambda k: random.rademacher(k, (6,)), [-1, -1, 1, 1, -1, 1]),
    "bernoulli": (lambda k: random.bernoulli(k, 0.3, (6,)), [0, 0, 0, 0, 0, 1]),
    "bernoulli_high": (lambda k: random.bernoulli(k, 0.3, (6,), "high"), [0, 0, 0, 0, 0, 1]),
    "randint": (lambda k: random.randint(k, (6,), 3, 90), [4, 57, 38, 34, 71, 6]),
    "randint_clipped": (
        lambda k: random.randint(k, (6,), -5, 256, "uint8"),
        [101, 80, 200, 61, 3, 211],
    ),
    "randint_all": (
        lambda k: random.randint(k, (3,), -(2**31), 2**31 - 1),
        [-2116156571, -2057756336, 349724616],
    ),
}


@pytest.mark.parametrize("name", COUNTS)
def test_integers_are_jaxs(name):
    draw, expected = COUNTS[name]
    got = np.asarray(draw(random.key(0)))
    if name == "randint_all":
        got = np.asarray(random.randint(random.key(0), (6,), -(2**31), 2**31 - 1))[:3]
    assert got.tolist() == expected


def test_narrow_and_wide_floats_are_jaxs():
    key = random.key(0)
    assert random.uniform(key, (6,), jnp.bfloat16).tolist()[:3] == [0.6484375, 0.5703125, 0.15625]
    assert random.normal(key, (6,), jnp.bfloat16).tolist()[:3] == [0.38671875, 0.1826171875, -1.0]
    assert random.uniform(key, (6,), "float16").tolist()[:2] == [0.310546875, 0.212890625]
    with weft.enable_x64(True):
        x = random.uniform(key, (6,), "float64").tolist()
        assert x[:2] == [0.41845711171638644, 0.21629545460551136]
        y = np.asarray(random.normal(key, (6,), "float64"))[:2]
    np.testing.assert_array_max_ulp(y, np.array([-0.2058421394796434, -0.7847657764467411]), 2)


def test_erf_inv_is_xlas():
    """Giles' polynomials: near to the function, not equal to it."""
    x = np.linspace(-0.999, 0.999, 501)
    np.testing.assert_allclose(erf_inv_p.ref(x), sc.erfinv(x), rtol=1e-13)
    narrow = x.astype(np.float32)
    np.testing.assert_allclose(erf_inv_p.ref(narrow), sc.erfinv(narrow.astype(float)), rtol=4e-6)
    given = np.array([0.999827445, 0.192092955, 0.29434377, 0.764297545], np.float32)
    xla = np.array([2.65597534, 0.171916723, 0.267071635, 0.838485181], np.float32)
    np.testing.assert_array_equal(erf_inv_p.ref(given), xla)


# --- goodness of fit ------------------------------------------------------------------------------

N = 4000
FITS = {
    "uniform": (lambda k: random.uniform(k, (N,), minval=-1.0, maxval=3.0), st.uniform(-1, 4)),
    "normal": (lambda k: random.normal(k, (N,)), st.norm()),
    "truncated_normal": (
        lambda k: random.truncated_normal(k, -1.0, 2.0, (N,)),
        st.truncnorm(-1, 2),
    ),
    "gumbel": (lambda k: random.gumbel(k, (N,)), st.gumbel_r()),
    "gumbel_high": (lambda k: random.gumbel(k, (N,), mode="high"), st.gumbel_r()),
    "gumbel_highest": (lambda k: random.gumbel(k, (N,), mode="highest"), st.gumbel_r()),
    "exponential": (lambda k: random.exponential(k, (N,)), st.expon()),
    "laplace": (lambda k: random.laplace(k, (N,)), st.laplace()),
    "logistic": (lambda k: random.logistic(k, (N,)), st.logistic()),
    "cauchy": (lambda k: random.cauchy(k, (N,)), st.cauchy()),
    "gamma": (lambda k: random.gamma(k, 2.5, (N,)), st.gamma(2.5)),
    "gamma_small": (lambda k: random.gamma(k, 0.2, (N,)), st.gamma(0.2)),
    "loggamma": (lambda k: random.loggamma(k, 0.7, (N,)), st.loggamma(0.7)),
    "beta": (lambda k: random.beta(k, 2.0, 0.5, (N,)), st.beta(2, 0.5)),
    "t": (lambda k: random.t(k, 3.0, (N,)), st.t(3)),
    "chisquare": (lambda k: random.chisquare(k, 3.0, (N,)), st.chi2(3)),
    "f": (lambda k: random.f(k, 3.0, 5.0, (N,)), st.f(3, 5)),
    "pareto": (lambda k: random.pareto(k, 2.0, (N,)), st.pareto(2)),
    "rayleigh": (lambda k: random.rayleigh(k, 2.0, (N,)), st.rayleigh(scale=2)),
    "weibull_min": (
        lambda k: random.weibull_min(k, 2.0, 1.5, (N,)),
        st.weibull_min(1.5, scale=2),
    ),
    "maxwell": (lambda k: random.maxwell(k, (N,)), st.maxwell()),
    "wald": (lambda k: random.wald(k, 1.5, (N,)), st.invgauss(1.5)),
    "lognormal": (lambda k: random.lognormal(k, np.float32(0.5), (N,)), st.lognorm(0.5)),
    "triangular": (
        lambda k: random.triangular(k, 1.0, 2.0, 5.0, (N,)),
        st.triang(0.25, 1, 4),
    ),
    "generalized_normal": (
        lambda k: random.generalized_normal(k, 1.5, (N,)),
        st.gennorm(1.5),
    ),
}


@pytest.mark.parametrize("name", FITS)
def test_continuous_distributions_fit(name):
    draw, distribution = FITS[name]
    sample = np.asarray(draw(random.key(42)))
    assert st.kstest(sample, distribution.cdf).pvalue > 0.01


DISCRETE = {
    "poisson": (lambda k: random.poisson(k, 4.0, (N,)), st.poisson(4)),
    "poisson_large": (lambda k: random.poisson(k, 30.0, (N,)), st.poisson(30)),
    "binomial": (lambda k: random.binomial(k, 12, 0.3, (N,)), st.binom(12, 0.3)),
    "binomial_large": (lambda k: random.binomial(k, 100, 0.6, (N,)), st.binom(100, 0.6)),
    "geometric": (lambda k: random.geometric(k, 0.3, (N,)), st.geom(0.3)),
    "bernoulli": (lambda k: random.bernoulli(k, 0.3, (N,)), st.bernoulli(0.3)),
    "randint": (lambda k: random.randint(k, (N,), -3, 9), st.randint(-3, 9)),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions_fit(name):
    draw, distribution = DISCRETE[name]
    sample = np.asarray(draw(random.key(42))).astype(int)
    values, counts = np.unique(sample, return_counts=True)
    expected = distribution.pmf(values) * N
    common = expected > 5
    observed = np.append(counts[common], N - counts[common].sum())
    wanted = np.append(expected[common], N - expected[common].sum())
    assert st.chisquare(observed, wanted * observed.sum() / wanted.sum(), ddof=0).pvalue > 0.01


def test_vectors_fit():
    key = random.key(42)
    x = np.asarray(random.multivariate_normal(key, VECTOR[:2], COVARIANCE, (N,)))
    np.testing.assert_allclose(x.mean(0), VECTOR[:2], atol=0.1)
    np.testing.assert_allclose(np.cov(x.T), COVARIANCE, atol=0.15)
    for method in ("eigh", "svd"):
        y = random.multivariate_normal(key, VECTOR[:2], COVARIANCE, (N,), method=method)
        np.testing.assert_allclose(np.cov(np.asarray(y).T), COVARIANCE, atol=0.15)
    simplex = np.asarray(random.dirichlet(key, VECTOR, (N,)))
    np.testing.assert_allclose(simplex.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(simplex.mean(0), VECTOR / VECTOR.sum(), atol=0.02)
    points = np.asarray(random.ball(key, 3, shape=(N,)))
    assert st.kstest((points**2).sum(1) ** 1.5, "uniform").pvalue > 0.01
    q = np.asarray(random.orthogonal(key, 3, (50,)))
    np.testing.assert_allclose(q @ np.swapaxes(q, 1, 2), np.tile(np.eye(3), (50, 1, 1)), atol=1e-5)
    assert random.orthogonal(key, 2, m=4).shape == (2, 4)
    u = np.asarray(random.orthogonal(key, 3, dtype="complex64"))
    np.testing.assert_allclose(u @ u.conj().T, np.eye(3), atol=1e-5)
    counts = np.asarray(random.multinomial(key, 100, WEIGHTS, shape=(200, 4)))
    assert (counts.sum(1) == 100).all()
    np.testing.assert_allclose(counts.mean(0), 100 * WEIGHTS, atol=1)
    z = np.asarray(random.normal(key, (N,), "complex64"))
    assert abs(np.mean(np.abs(z) ** 2) - 1) < 0.05


def test_permutations():
    x = jnp.arange(12).reshape(4, 3)
    rows = np.asarray(random.permutation(random.key(1), x))
    assert sorted(rows.tolist()) == x.tolist()
    free = np.asarray(random.permutation(random.key(1), x, axis=1, independent=True))
    assert np.sort(free, 1).tolist() == x.tolist()
    many = weft.vmap(lambda k: random.permutation(k, 3))(random.split(random.key(0), 3000))
    orders, counts = np.unique(np.asarray(many), axis=0, return_counts=True)
    assert len(orders) == 6 and st.chisquare(counts).pvalue > 0.01


def test_edges_of_counts():
    lam = np.array([0, np.nan, 1e6], np.float32)
    assert random.poisson(random.key(0), lam).tolist()[0] == 0
    n = np.array([-1, np.nan, 5, 5, np.inf], np.float32)
    p = np.array([0.5, 0.5, -1, np.nan, 0.5], np.float32)
    drawn = np.asarray(random.binomial(random.key(0), n, p))
    assert np.isnan(drawn[:4]).all() and drawn[4] == np.inf
    assert random.randint(random.key(0), (3,), 7, 3).tolist() == [7, 7, 7]
    assert random.choice(random.key(0), 5, (0,)).shape == (0,)


# --- derivatives and shapes -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("draw", "at"),
    [
        (lambda k, a: random.gamma(k, a), 2.5),
        (lambda k, a: random.loggamma(k, a), 0.3),
        (lambda k, a: random.beta(k, a, 2.0), 1.5),
        (lambda k, a: random.t(k, a), 3.0),
        (lambda k, a: random.chisquare(k, a), 3.0),
    ],
)
def test_derivatives_hold_the_quantile_fixed(draw, at):
    """d E[x] / da by the pathwise derivative agrees with that of a sum over many samples."""
    keys = random.split(random.key(3), 2000)
    pathwise = np.asarray(weft.vmap(weft.grad(lambda a, k: draw(k, a)), (None, 0))(at, keys))
    assert np.isfinite(pathwise).all()
    mean = {2.5: 1.0, 0.3: sc.polygamma(1, 0.3), 1.5: 2 / 3.5**2}.get(at)
    if mean is not None:
        error = pathwise.std() / np.sqrt(len(pathwise))
        assert abs(pathwise.mean() - mean) < 4 * error


@pytest.mark.parametrize(
    ("draw", "at"),
    [
        (lambda a: random.uniform(random.key(0), minval=a, maxval=2.0), -1.0),
        (lambda a: random.truncated_normal(random.key(0), a, 2.0), -1.0),
        (lambda a: random.pareto(random.key(0), a), 2.0),
        (lambda a: random.weibull_min(random.key(0), 2.0, a), 1.5),
        (lambda a: random.lognormal(random.key(0), a), 1.0),
        (lambda a: random.wald(random.key(0), a), 1.0),
        (lambda a: random.rayleigh(random.key(0), a), 1.0),
        (lambda a: random.triangular(random.key(0), 0.0, a, 2.0), 1.0),
    ],
)
def test_derivatives_by_differences(draw, at):
    step = 2.0**-7
    expected = (draw(at + step) - draw(at - step)) / (2 * step)
    np.testing.assert_allclose(weft.grad(draw)(at), expected, rtol=2e-3)


def test_vmap_draws_as_a_loop_would():
    keys = random.split(random.key(0), 3)
    alphas = np.array([0.5, 2, 7], np.float32)
    together = weft.vmap(lambda k, a: random.gamma(k, a, (2,)))(keys, alphas)
    apart = [random.gamma(k, a, (2,)) for k, a in zip(keys, alphas, strict=True)]
    np.testing.assert_array_equal(together, np.stack(apart))
    many = weft.vmap(lambda k, lam: random.poisson(k, lam))(keys, np.array([1.0, 5, 50]))
    one = [random.poisson(k, lam).item() for k, lam in zip(keys, (1.0, 5.0, 50.0), strict=True)]
    assert many.tolist() == one


def test_programs_are_jaxs():
    text = str(weft.make_jaxpr(lambda k: random.uniform(k, (3,)))(random.key(0)))
    assert "jit[name=_uniform" in text
    assert "random_bits[bit_width=32 shape=(3,)]" in text
    gamma = str(weft.make_jaxpr(lambda k: random.gamma(k, 2.0, (3,)))(random.key(0)))
    assert "random_gamma[log_space=False]" in gamma


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda k: random.uniform(k, (3,), "int32"), ValueError, "a float dtype, not int32"),
        (lambda k: random.normal(k, (3,), "int32"), ValueError, "float or complex dtype"),
        (lambda k: random.randint(k, (3,), 0, 1, "float32"), TypeError, "an integer dtype"),
        (lambda k: random.bits(k, (3,), "int32"), ValueError, "unsigned integer dtype"),
        (lambda k: random.geometric(k, 0.5, dtype="float32"), ValueError, "integer dtype"),
        (lambda k: random.uniform(k, (-1,)), TypeError, "cannot be negative"),
        (lambda k: random.uniform(k, (1.5,)), TypeError, "sequences of integers"),
        (lambda k: random.gamma(k, np.ones(3), (2,)), ValueError, r"\(2,\).*\(3,\)"),
        (lambda k: random.pareto(k, np.ones(3), (1,)), ValueError, r"shape=\(3,\) would fit"),
        (lambda k: random.beta(k, 1j, 1.0), ValueError, "cannot safely cast"),
        (lambda k: random.bernoulli(k, 1), TypeError, "floating dtype, got int32"),
        (lambda k: random.bernoulli(k, 0.5, mode="x"), ValueError, "mode='low' or mode='high'"),
        (lambda k: random.gumbel(k, mode="x"), ValueError, "got 'x'"),
        (lambda k: random.choice(k, 3, (5,), replace=False), ValueError, "5 of 3 elements"),
        (lambda k: random.choice(k, 3, 5), TypeError, "a sequence as its shape, got 5"),
        (lambda k: random.choice(k, 0, (2,)), ValueError, "from 0 elements"),
        (lambda k: random.choice(k, 3, (2,), p=np.ones(2)), ValueError, r"\(3,\), got \(2,\)"),
        (lambda k: random.permutation(k, 2.5), TypeError, "an integer or an array"),
        (lambda k: random.permutation(k, np.zeros(3), axis=2), ValueError, "axis 2"),
        (lambda k: random.categorical(k, VECTOR, shape=(5,), replace=False), ValueError, "5 of 3"),
        (lambda k: random.dirichlet(k, 1.0), ValueError, "got a scalar"),
        (lambda k: random.multivariate_normal(k, np.zeros(2), np.eye(3)), ValueError, r"\(3, 3\)"),
        (
            lambda k: random.multivariate_normal(k, np.zeros(2), np.eye(2), method="x"),
            ValueError,
            "got 'x'",
        ),
        (lambda k: random.orthogonal(k, 2.5), TypeError, "integer"),
        (
            lambda k: weft.jit(lambda n: random.permutation(k, n))(3),
            weft.errors.ConcretizationTypeError,
            "weft.random.permutation",
        ),
        (
            lambda k: weft.jit(lambda n: random.uniform(k, (n,)))(3),
            TypeError,
            "static",
        ),
    ],
)
def test_mistakes(call, error, text):
    with pytest.raises(error, match=text):
        call(random.key(0))


def test_counts_are_the_last_that_were_accepted_as_in_jax():
    # recorded from JAX 0.10.2: an element's count depends on how long others take
    key = random.key(3)
    means = np.array([11.0, 0.5, 60.0, 9.0, 0.0, np.nan, -1.0, 2000.0] * 40, np.float32)
    drawn = np.asarray(random.poisson(key, means))
    assert drawn[:8].tolist() == [14, 0, 65, 11, 0, -1, -1, 1996] and drawn.sum() == 83441
    trials = np.array([5.0, 90.0, 300.0, 40.0, np.inf, -1.0] * 50, np.float32)
    chances = np.array([0.3, 0.4, 0.8, 0.02, 0.3, 0.3] * 50, np.float32)
    drawn = np.asarray(random.binomial(key, trials, chances))
    assert drawn[:4].tolist() == [0, 41, 228, 0]
    assert np.isinf(drawn[4]) and np.isnan(drawn[5])
    assert drawn[np.isfinite(drawn)].sum() == 13935


@pytest.mark.parametrize("keys", [1, 3, 30])
def test_native_counts_are_those_of_the_reference(keys):
    words = np.asarray(random.key_data(random.split(random.key(5), keys)))
    held = keys_of(words, threefry_impl)
    n = 9000 // keys + 1
    mean = np.linspace(0.1, 40, keys * n).astype(np.float32).reshape(keys, n)
    small = mean / 5
    given = [(mean,), (small,), (2 * mean + 30, mean / 80, mean < 8)]
    primitives = [random_poisson_p, random_poisson_p, random_binomial_p]
    for primitive, operands in zip(primitives, given, strict=True):
        drawn = weft.jit(primitive.bind)(random.wrap_key_data(words), *operands)
        assert np.mean(np.asarray(drawn) != primitive.ref(held, *operands)) < 2e-4


@pytest.mark.parametrize("keys", [1, 3, 300])
def test_native_gamma_samples_are_those_of_the_reference(keys):
    words = np.asarray(random.key_data(random.split(random.key(5), keys)))
    alpha = np.linspace(0.05, 4, 3000).astype(np.float32).reshape(keys, -1)
    alpha[0, :5] = [0, np.nan, -1, np.inf, 1e-30]
    for logs in (False, True):
        draw = weft.jit(lambda k, a, logs=logs: random_gamma_p.bind(k, a, log_space=logs))
        drawn = np.asarray(draw(random.wrap_key_data(words), alpha))
        with np.errstate(all="ignore"):
            wanted = random_gamma_p.ref(keys_of(words, threefry_impl), alpha, log_space=logs)
        np.testing.assert_allclose(drawn, wanted, 2e-6, 2e-6)
