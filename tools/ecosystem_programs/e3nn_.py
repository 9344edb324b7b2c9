"""e3nn-jax: functions that turn with their inputs."""

import e3nn_jax as e3nn
import jax
import jax.numpy as jnp


def _vectors():
    return jax.random.normal(jax.random.key(0), (6, 3))


def spherical_harmonics():
    x = e3nn.IrrepsArray("1o", _vectors())
    harmonics = jax.jit(lambda x: e3nn.spherical_harmonics("0e + 1o + 2e + 3o", x, True).array)
    return lambda: harmonics(x)


def tensor_product():
    x = e3nn.normal("4x0e + 2x1o", jax.random.key(1), (5,))
    y = e3nn.spherical_harmonics("0e + 1o", _vectors()[:5], True)
    product = jax.jit(lambda x, y: e3nn.tensor_product(x, y).array)
    return lambda: product(x, y)


def linear_gradient():
    x = e3nn.normal("3x0e + 2x1e", jax.random.key(2), (4,))
    linear = e3nn.FunctionalLinear(x.irreps, "2x0e + 1e")
    keys = jax.random.split(jax.random.key(3), len(linear.instructions))
    weights = [jax.random.normal(key, i.path_shape) for key, i in zip(keys, linear.instructions)]

    @jax.jit
    @jax.grad
    def gradient(weights):
        out = jax.vmap(lambda x: linear(weights, x))(x)
        return jnp.sum(e3nn.norm(out).array ** 2)

    return lambda: gradient(weights)
