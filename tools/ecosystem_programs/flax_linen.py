"""flax.linen."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import serialization, traverse_util
from flax.training import train_state

KEY = jax.random.key(0)


def trained(model, x, y, steps=5, rngs=None, **kwargs):
    params = model.init({"params": KEY, **(rngs or {})}, x, **kwargs)
    tx = optax.adam(1e-2)

    def loss(p):
        return jnp.mean((model.apply(p, x, rngs=rngs, **kwargs) - y) ** 2)

    @jax.jit
    def step(p, s):
        value, grads = jax.value_and_grad(loss)(p)
        updates, s = tx.update(grads, s, p)
        return optax.apply_updates(p, updates), s, value

    def run():
        p, s, values = params, tx.init(params), []
        for _ in range(steps):
            p, s, value = step(p, s)
            values.append(value)
        return values, p

    return run


class MLP(nn.Module):
    width: int = 32

    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(nn.relu(nn.Dense(self.width)(x)))


def mlp_training():
    x = jax.random.normal(KEY, (16, 8))
    return trained(MLP(), x, x[:, :1])


def train_state_loop():
    x = jax.random.normal(KEY, (16, 8))
    model = MLP()
    params = model.init(KEY, x)["params"]
    start = train_state.TrainState.create(
        apply_fn=model.apply, params=params, tx=optax.sgd(0.1, momentum=0.9)
    )

    @jax.jit
    def step(state):
        loss = lambda p: jnp.mean((state.apply_fn({"params": p}, x) - 1) ** 2)
        return state.apply_gradients(grads=jax.grad(loss)(state.params))

    def run():
        state = start
        for _ in range(4):
            state = step(state)
        return state.params, state.step

    return run


def cnn_training():
    class CNN(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(8, (3, 3))(x))
            x = nn.avg_pool(x, (2, 2), (2, 2))
            x = nn.relu(nn.Conv(8, (3, 3))(x))
            return nn.Dense(4)(nn.max_pool(x, (2, 2), (2, 2)).reshape(x.shape[0], -1))

    x = jax.random.normal(KEY, (4, 12, 12, 2))
    return trained(CNN(), x, jnp.ones((4, 4)), steps=3)


def batchnorm_dropout():
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, train):
            x = nn.BatchNorm(use_running_average=not train)(nn.Dense(16)(x))
            return nn.Dense(2)(nn.Dropout(0.3, deterministic=not train)(nn.relu(x)))

    x = jax.random.normal(KEY, (8, 4))
    model = Net()
    variables = model.init({"params": KEY, "dropout": KEY}, x, False)
    return lambda: model.apply(variables, x, True, mutable=["batch_stats"], rngs={"dropout": KEY})


def layernorm_groupnorm_embed():
    class Net(nn.Module):
        @nn.compact
        def __call__(self, tokens):
            x = nn.LayerNorm()(nn.Embed(20, 16)(tokens))
            return nn.GroupNorm(num_groups=4)(x), nn.RMSNorm()(x)

    tokens = jnp.arange(12).reshape(3, 4)
    model = Net()
    variables = model.init(KEY, tokens)
    return lambda: model.apply(variables, tokens)


def attention():
    x = jax.random.normal(KEY, (2, 6, 16))
    model = nn.MultiHeadDotProductAttention(num_heads=4, qkv_features=16)
    variables = model.init(KEY, x)
    mask = nn.make_causal_mask(jnp.ones((2, 6)))
    apply = jax.jit(lambda variables: model.apply(variables, x, mask=mask))
    return lambda: apply(variables)


def transformer_training():
    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            # No biases: the derivative by that of keys is rounding alone, which adam makes large.
            x = x + nn.SelfAttention(num_heads=2, use_bias=False)(nn.LayerNorm()(x))
            return x + nn.Dense(x.shape[-1])(nn.gelu(nn.Dense(32)(nn.LayerNorm()(x))))

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            for _ in range(2):
                x = Block()(x)
            return nn.Dense(1)(x)

    x = jax.random.normal(KEY, (2, 5, 16))
    return trained(Model(), x, jnp.ones((2, 5, 1)), steps=3)


def lstm_rnn():
    x = jax.random.normal(KEY, (3, 7, 4))
    model = nn.RNN(nn.OptimizedLSTMCell(8))
    variables = model.init(KEY, x)
    f = jax.jit(jax.value_and_grad(lambda v: model.apply(v, x).sum()))
    return lambda: f(variables)


def gru_scan():
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            cell = nn.scan(
                nn.GRUCell,
                variable_broadcast="params",
                split_rngs={"params": False},
                in_axes=1,
                out_axes=1,
            )(features=6)
            carry = jnp.zeros((x.shape[0], 6))
            return cell(carry, x)

    x = jax.random.normal(KEY, (2, 5, 3))
    model = Model()
    variables = model.init(KEY, x)
    return lambda: model.apply(variables, x)


def vmap_ensemble():
    Ensemble = nn.vmap(
        MLP,
        in_axes=None,
        out_axes=0,
        variable_axes={"params": 0},
        split_rngs={"params": True},
        axis_size=3,
    )
    x = jax.random.normal(KEY, (5, 4))
    model = Ensemble()
    variables = model.init(KEY, x)
    apply = jax.jit(model.apply)
    return lambda: apply(variables, x)


def remat_scan_layers():
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            Layer = nn.remat(MLP)
            for _ in range(2):
                x = x + Layer(width=8)(x)
            return x

    x = jax.random.normal(KEY, (4, 3))
    return trained(Model(), x, jnp.zeros((4, 3)), steps=2)


def sow_and_intermediates():
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.Dense(4)(x)
            self.sow("intermediates", "hidden", h)
            return nn.Dense(2)(h)

    x = jnp.ones((2, 3))
    variables = Net().init(KEY, x)
    return lambda: Net().apply(variables, x, mutable=["intermediates"])


def serialization_round_trip():
    params = MLP().init(KEY, jnp.ones((1, 4)))

    def run():
        blob = serialization.to_bytes(params)
        flat = traverse_util.flatten_dict(params["params"], sep="/")
        return serialization.from_bytes(params, blob), flat

    return run


def weight_norm_and_spectral():
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.WeightNorm(nn.Dense(4))(x)

    x = jax.random.normal(KEY, (3, 5))
    variables = Net().init(KEY, x)
    return lambda: Net().apply(variables, x)
