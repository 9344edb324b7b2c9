"""Every distribution of ``random`` by its moments, and against the ``scipy.stats`` of weft.

Keys are fixed, so that nothing here is left to chance; ``test_distributions`` has the tests of
fit against SciPy.
"""

import numpy as np
import pytest
import scipy.stats as st

import weft
import weft.numpy as jnp
from weft import random
from weft.scipy import stats

N = 6000

# name: the draw, and SciPy's distribution, whose moments are the true ones.
MOMENTS = {
    "uniform": (lambda k: random.uniform(k, (N,), minval=-1.0, maxval=3.0), st.uniform(-1, 4)),
    "normal": (lambda k: random.normal(k, (N,)), st.norm()),
    "normal_f16": (lambda k: random.normal(k, (N,), jnp.float16), st.norm()),
    "normal_bf16": (lambda k: random.normal(k, (N,), jnp.bfloat16), st.norm()),
    "truncated_normal": (lambda k: random.truncated_normal(k, -1, 2, (N,)), st.truncnorm(-1, 2)),
    "gumbel": (lambda k: random.gumbel(k, (N,)), st.gumbel_r()),
    "exponential": (lambda k: random.exponential(k, (N,)), st.expon()),
    "laplace": (lambda k: random.laplace(k, (N,)), st.laplace()),
    "logistic": (lambda k: random.logistic(k, (N,)), st.logistic()),
    "gamma": (lambda k: random.gamma(k, 2.5, (N,)), st.gamma(2.5)),
    "gamma_small": (lambda k: random.gamma(k, 0.3, (N,)), st.gamma(0.3)),
    "loggamma": (lambda k: random.loggamma(k, 1.5, (N,)), st.loggamma(1.5)),
    "beta": (lambda k: random.beta(k, 2.0, 3.0, (N,)), st.beta(2, 3)),
    "t": (lambda k: random.t(k, 9.0, (N,)), st.t(9)),
    "chisquare": (lambda k: random.chisquare(k, 3.0, (N,)), st.chi2(3)),
    "f": (lambda k: random.f(k, 5.0, 12.0, (N,)), st.f(5, 12)),
    "pareto": (lambda k: random.pareto(k, 6.0, (N,)), st.pareto(6)),
    "rayleigh": (lambda k: random.rayleigh(k, 2.0, (N,)), st.rayleigh(scale=2)),
    "weibull_min": (lambda k: random.weibull_min(k, 2.0, 1.5, (N,)), st.weibull_min(1.5, scale=2)),
    "maxwell": (lambda k: random.maxwell(k, (N,)), st.maxwell()),
    "wald": (lambda k: random.wald(k, 1.5, (N,)), st.invgauss(1.5)),
    "lognormal": (lambda k: random.lognormal(k, np.float32(0.5), (N,)), st.lognorm(0.5)),
    "triangular": (lambda k: random.triangular(k, 1.0, 2.0, 5.0, (N,)), st.triang(0.25, 1, 4)),
    "generalized_normal": (lambda k: random.generalized_normal(k, 1.5, (N,)), st.gennorm(1.5)),
    "poisson": (lambda k: random.poisson(k, 4.0, (N,)), st.poisson(4)),
    "poisson_large": (lambda k: random.poisson(k, 60.0, (N,)), st.poisson(60)),
    "binomial": (lambda k: random.binomial(k, 12, 0.3, (N,)), st.binom(12, 0.3)),
    "geometric": (lambda k: random.geometric(k, 0.3, (N,)), st.geom(0.3)),
    "bernoulli": (lambda k: random.bernoulli(k, 0.3, (N,)), st.bernoulli(0.3)),
    "randint": (lambda k: random.randint(k, (N,), -3, 9), st.randint(-3, 9)),
    "bits": (lambda k: random.bits(k, (N,), jnp.uint8), st.randint(0, 256)),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_moments(name: str) -> None:
    """Mean, variance and skewness lie within five standard errors of the true ones."""
    draw, true = MOMENTS[name]
    x = np.asarray(draw(random.key(7))).astype(float)
    mean, variance, skew = (float(m) for m in true.stats("mvs"))
    centred = (x - mean) / np.sqrt(variance)
    assert abs(centred.mean()) < 5 / np.sqrt(N)
    for power, expected in ((2, 1.0), (3, skew)):
        values = centred**power
        assert abs(values.mean() - expected) < 5 * values.std() / np.sqrt(N) + 1e-3, (name, power)


def test_signs_and_two_sided_draws() -> None:
    signs = np.asarray(random.rademacher(random.key(1), (N,), jnp.float32))
    assert set(np.unique(signs)) == {-1, 1} and abs(signs.mean()) < 5 / np.sqrt(N)
    x = np.asarray(random.double_sided_maxwell(random.key(2), 1.0, 2.0, (N,)))
    assert st.kstest(np.abs(x - 1) / 2, st.maxwell.cdf).pvalue > 0.01
    assert abs((x > 1).mean() - 0.5) < 5 * 0.5 / np.sqrt(N)


def test_choices_have_their_probabilities() -> None:
    p = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    drawn = (
        random.categorical(random.key(3), jnp.log(p), shape=(N,)),
        random.choice(random.key(4), 4, (N,), p=p),
    )
    for x in drawn:
        counts = np.bincount(np.asarray(x), minlength=4)
        assert st.chisquare(counts, N * p.astype(float) / p.astype(float).sum()).pvalue > 0.01
    one = np.asarray(random.multinomial(random.key(5), N, p))
    assert one.sum() == N and st.chisquare(one, N * p / p.sum()).pvalue > 0.01
    plain = np.bincount(np.asarray(random.choice(random.key(6), 5, (N,))), minlength=5)
    assert st.chisquare(plain).pvalue > 0.01


def test_draws_without_replacement_favour_heavy_items() -> None:
    p = np.array([0.05, 0.15, 0.8], np.float32)
    keys = random.split(random.key(8), 1500)
    first = weft.vmap(lambda k: random.choice(k, 3, (2,), replace=False, p=p))(keys)
    picks = np.asarray(first)
    assert (picks[:, 0] != picks[:, 1]).all()
    # the probability that item 2 is among the two: 1 - P(0 then 1) - P(1 then 0)
    out = 0.05 * 0.15 / 0.95 + 0.15 * 0.05 / 0.85
    assert abs((picks == 2).any(1).mean() - (1 - out)) < 5 * np.sqrt(out / 1500)


# name: the draw of ``random``, the ``cdf`` of weft's own ``scipy.stats``.
OWN = {
    "norm": (lambda k: random.normal(k, (N,)), lambda x: stats.norm.cdf(x)),
    "uniform": (lambda k: random.uniform(k, (N,)), lambda x: stats.uniform.cdf(x)),
    "expon": (lambda k: random.exponential(k, (N,)), lambda x: stats.expon.cdf(x)),
    "gamma": (lambda k: random.gamma(k, 1.7, (N,)), lambda x: stats.gamma.cdf(x, 1.7)),
    "beta": (lambda k: random.beta(k, 0.7, 2.0, (N,)), lambda x: stats.beta.cdf(x, 0.7, 2.0)),
    "chi2": (lambda k: random.chisquare(k, 4.0, (N,)), lambda x: stats.chi2.cdf(x, 4.0)),
    "cauchy": (lambda k: random.cauchy(k, (N,)), lambda x: stats.cauchy.cdf(x)),
    "laplace": (lambda k: random.laplace(k, (N,)), lambda x: stats.laplace.cdf(x)),
    "logistic": (lambda k: random.logistic(k, (N,)), lambda x: stats.logistic.cdf(x)),
    "gumbel_r": (lambda k: random.gumbel(k, (N,)), lambda x: stats.gumbel_r.cdf(x)),
    "gumbel_l": (lambda k: -random.gumbel(k, (N,)), lambda x: stats.gumbel_l.cdf(x)),
    "pareto": (lambda k: random.pareto(k, 3.0, (N,)), lambda x: stats.pareto.cdf(x, 3.0)),
    "gennorm": (
        lambda k: random.generalized_normal(k, 1.5, (N,)),
        lambda x: stats.gennorm.cdf(x, 1.5),
    ),
    "truncnorm": (
        lambda k: random.truncated_normal(k, -1.0, 2.0, (N,)),
        lambda x: stats.truncnorm.cdf(x, -1.0, 2.0),
    ),
}


@pytest.mark.parametrize("name", OWN)
def test_draws_fit_our_own_distributions(name: str) -> None:
    draw, cdf = OWN[name]
    sample = draw(random.key(11))
    assert st.kstest(np.asarray(cdf(sample)), "uniform").pvalue > 0.01
