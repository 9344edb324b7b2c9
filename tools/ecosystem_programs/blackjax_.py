"""blackjax."""

import blackjax
import jax
import jax.numpy as jnp

KEY = jax.random.key(0)


def logdensity(x):
    return -0.5 * jnp.sum((x - jnp.arange(2.0)) ** 2 / jnp.array([1.0, 2.0]))


def chained(algorithm, count=40):
    state = algorithm.init(jnp.zeros(2))

    @jax.jit
    def run():
        step = lambda s, k: (lambda new: (new, new.position))(algorithm.step(k, s)[0])
        return jax.lax.scan(step, state, jax.random.split(KEY, count))[1][:5]

    return run


def nuts():
    return chained(blackjax.nuts(logdensity, 0.3, jnp.ones(2)))


def hmc():
    return chained(blackjax.hmc(logdensity, 0.3, jnp.ones(2), 4))


def mala():
    return chained(blackjax.mala(logdensity, 0.2))


def random_walk():
    return chained(
        blackjax.additive_step_random_walk(logdensity, blackjax.mcmc.random_walk.normal(0.3))
    )


def elliptical_slice():
    return chained(
        blackjax.elliptical_slice(lambda x: -0.5 * jnp.sum(x**2), mean=jnp.zeros(2), cov=jnp.eye(2))
    )


def window_adaptation():
    adapt = blackjax.window_adaptation(blackjax.nuts, logdensity)

    @jax.jit
    def run():
        (_, parameters), _ = adapt.run(KEY, jnp.zeros(2), 50)
        return jnp.isfinite(parameters["step_size"]) & (parameters["step_size"] > 0)

    return run


def smc_resampling():
    weights = jnp.array([0.1, 0.4, 0.3, 0.2])
    resample = blackjax.smc.resampling
    return jax.jit(
        lambda: (resample.systematic(KEY, weights, 8), resample.stratified(KEY, weights, 8))
    )
