"""tinygp: Gaussian processes, in double precision."""

import jax
import jax.numpy as jnp
from tinygp import GaussianProcess, kernels

jax.config.update("jax_enable_x64", True)


def _data():
    x = jnp.linspace(0.0, 5.0, 25)
    return x, jnp.sin(x) + 0.1 * jax.random.normal(jax.random.key(0), x.shape)


def likelihood_gradient():
    x, y = _data()

    @jax.jit
    @jax.value_and_grad
    def loss(theta):
        kernel = jnp.exp(theta[0]) * kernels.Matern32(jnp.exp(theta[1]))
        return -GaussianProcess(kernel, x, diag=0.05).log_probability(y)

    return lambda: loss(jnp.array([0.1, -0.2]))


def conditioned():
    x, y = _data()
    gp = GaussianProcess(kernels.ExpSquared(1.2), x, diag=0.05, mean=lambda x: 0.1 * x)

    def run():
        found = gp.condition(y, jnp.linspace(-1.0, 6.0, 10))
        return found.log_probability, found.gp.loc, found.gp.variance

    return run


def quasiseparable():
    x, y = _data()
    kernel = kernels.quasisep.SHO(omega=1.5, quality=2.0) + kernels.quasisep.Exp(2.0)
    solve = jax.jit(lambda y: GaussianProcess(kernel, x, diag=0.05).log_probability(y))
    return lambda: solve(y)
