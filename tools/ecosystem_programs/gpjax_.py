"""gpjax: Gaussian processes, in double precision."""

import gpjax as gpx
import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)


def _data():
    x = jnp.linspace(0.0, 3.0, 20)[:, None]
    return gpx.Dataset(x, jnp.sin(2 * x) + 0.1 * jax.random.normal(jax.random.key(0), x.shape))


def _posterior(kernel):
    data = _data()
    prior = gpx.gps.Prior(mean_function=gpx.mean_functions.Zero(), kernel=kernel)
    return prior * gpx.likelihoods.Gaussian(), data


def marginal_likelihood():
    posterior, data = _posterior(gpx.kernels.RBF())
    return lambda: gpx.objectives.conjugate_mll(posterior, data)


def prediction():
    posterior, data = _posterior(gpx.kernels.Matern32(lengthscale=0.7))
    x = jnp.linspace(-0.5, 3.5, 15)[:, None]

    def run():
        found = posterior.predict(x, train_data=data)
        return found.mean, found.variance

    return run


def gram_of_a_sum():
    kernel = gpx.kernels.RBF(lengthscale=0.5) + gpx.kernels.Linear()
    return lambda: kernel.gram(_data().X).as_matrix()
