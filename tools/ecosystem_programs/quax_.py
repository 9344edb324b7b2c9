"""quax: arrays of one's own kinds in ordinary functions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import quax
import quax.examples.lora as lora
import quax.examples.unitful as unitful


def units():
    x = unitful.Unitful(jnp.arange(3.0), {unitful.meters: 1})
    area = quax.quaxify(lambda x, y: x * y + x * x)
    return lambda: area(x, x).array


def low_rank_linear():
    linear = eqx.nn.Linear(6, 4, key=jax.random.key(0))
    changed = lora.loraify(linear, rank=2, key=jax.random.key(1))
    x = jax.random.normal(jax.random.key(2), (6,))
    forward = eqx.filter_jit(lambda m, x: quax.quaxify(m)(x))
    return lambda: forward(changed, x)


def low_rank_gradient():
    mlp = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))
    changed = lora.loraify(mlp, rank=1, key=jax.random.key(1))
    x = jax.random.normal(jax.random.key(2), (3,))

    @eqx.filter_jit
    @eqx.filter_grad
    def gradient(m):
        return jnp.sum(quax.quaxify(m)(x) ** 2)

    return lambda: eqx.filter(gradient(changed), eqx.is_array)
