"""flax.nnx."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class MLP(nnx.Module):
    def __init__(self, rngs):
        # No bias before a norm: its derivative is rounding alone, which adam makes large.
        self.first = nnx.Linear(4, 16, use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.drop = nnx.Dropout(0.2, rngs=rngs)
        self.last = nnx.Linear(16, 1, rngs=rngs)

    def __call__(self, x):
        return self.last(self.drop(nnx.relu(self.norm(self.first(x)))))


def data():
    return jax.random.normal(jax.random.key(1), (8, 4))


def linear_layer():
    layer = nnx.Linear(4, 3, rngs=nnx.Rngs(0))
    return lambda: layer(data())


def split_merge():
    graphdef, state = nnx.split(MLP(nnx.Rngs(0)))

    @jax.jit
    def apply(state, x):
        model = nnx.merge(graphdef, state)
        model.eval()
        return model(x)

    return lambda: apply(state, data())


def training():
    x = data()

    @nnx.jit
    def step(model, optimizer):
        def loss(model):
            return jnp.mean((model(x) - 1.0) ** 2)

        value, grads = nnx.value_and_grad(loss)(model)
        optimizer.update(model, grads)
        return value

    def run():
        model = MLP(nnx.Rngs(0))
        optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
        return [step(model, optimizer) for _ in range(4)], nnx.state(model, nnx.Param)

    return run


def attention_and_lstm():
    attention = nnx.MultiHeadAttention(2, 8, decode=False, rngs=nnx.Rngs(0))
    cell = nnx.RNN(nnx.LSTMCell(8, 4, rngs=nnx.Rngs(1)))
    x = jax.random.normal(jax.random.key(1), (2, 5, 8))
    return lambda: (attention(x), cell(x))


def vmap_and_scan():
    @nnx.vmap(in_axes=0)
    def make(key):
        return nnx.Linear(4, 4, rngs=nnx.Rngs(params=key))

    layers = make(jax.random.split(jax.random.key(0), 3))

    @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
    def forward(x, layer):
        return nnx.tanh(layer(x))

    return lambda: forward(data(), layers)


def conv_and_pool():
    conv = nnx.Conv(2, 4, (3, 3), rngs=nnx.Rngs(0))
    x = jax.random.normal(jax.random.key(1), (2, 8, 8, 2))
    return lambda: nnx.avg_pool(conv(x), (2, 2), (2, 2))
