"""numpyro."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import HMC, MCMC, NUTS, SVI, Predictive, Trace_ELBO, log_likelihood
from numpyro.infer.autoguide import AutoNormal

X64 = np.linspace(-1.0, 1.0, 20)
Y64 = 0.5 + 1.5 * X64 + 0.1 * np.sin(7 * X64)
X, Y = jnp.array(X64), jnp.array(Y64)
KEY = jax.random.PRNGKey(0)


def model(x, y=None):
    a = numpyro.sample("a", dist.Normal(0.0, 2.0))
    b = numpyro.sample("b", dist.Normal(0.0, 2.0))
    scale = numpyro.sample("scale", dist.Exponential(2.0))
    with numpyro.plate("data", len(x)):
        numpyro.sample("y", dist.Normal(a + b * x, scale), obs=y)


def sampled(kernel, count=50):
    """The draws of a chain, in float64: in float32 rounding leads two chains apart."""

    def run():
        with jax.enable_x64(True):
            mcmc = MCMC(kernel(model), num_warmup=count, num_samples=count, progress_bar=False)
            mcmc.run(KEY, jnp.array(X64), jnp.array(Y64))
            return mcmc.get_samples()

    return run


def nuts():
    return sampled(NUTS)


def hmc():
    return sampled(lambda m: HMC(m, num_steps=5))


def svi():
    guide = AutoNormal(model)
    svi = SVI(model, guide, numpyro.optim.Adam(0.05), Trace_ELBO())
    return lambda: svi.run(KEY, 50, X, Y, progress_bar=False).params


def predictive():
    prior = Predictive(model, num_samples=4)
    return lambda: prior(KEY, X)


def log_densities():
    samples = {"a": jnp.ones(3), "b": jnp.ones(3), "scale": jnp.full(3, 0.5)}
    return lambda: log_likelihood(model, samples, X, Y)


def distributions():
    @jax.jit
    def run():
        k = jax.random.split(KEY, 6)
        ones = jnp.ones(3)
        made = [
            dist.Gamma(2.0, 3.0),
            dist.Beta(2.0, 5.0),
            dist.Dirichlet(ones),
            dist.StudentT(4.0),
            dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)),
            dist.Poisson(3.0),
        ]
        draws = [d.sample(key, (4,)) for d, key in zip(made, k, strict=True)]
        return draws, [d.log_prob(x) for d, x in zip(made, draws, strict=True)]

    return run


def transforms():
    @jax.jit
    def run():
        x = jnp.linspace(-2.0, 2.0, 3)
        made = [
            dist.transforms.ExpTransform(),
            dist.transforms.StickBreakingTransform(),
            dist.transforms.CorrCholeskyTransform(),
        ]
        return [(t(x), t.log_abs_det_jacobian(x, t(x))) for t in made]

    return run
