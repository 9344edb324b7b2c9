"""dm-haiku."""

import haiku as hk
import jax
import jax.numpy as jnp
import optax

KEY = jax.random.PRNGKey(0)


def mlp_training():
    net = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([16, 1])(x)))
    x = jax.random.normal(KEY, (8, 4))
    start = net.init(KEY, x)
    tx = optax.adam(1e-2)

    @jax.jit
    def step(p, s):
        grads = jax.grad(lambda p: jnp.mean((net.apply(p, x) - 1) ** 2))(p)
        updates, s = tx.update(grads, s)
        return optax.apply_updates(p, updates), s

    def run():
        p, s = start, tx.init(start)
        for _ in range(4):
            p, s = step(p, s)
        return p

    return run


def batchnorm_state():
    def f(x, train):
        x = hk.BatchNorm(True, True, 0.9)(hk.Conv2D(4, 3)(x), train)
        return hk.Linear(2)(hk.Flatten()(jax.nn.relu(x)))

    net = hk.transform_with_state(f)
    x = jax.random.normal(KEY, (2, 6, 6, 3))
    params, state = net.init(KEY, x, True)
    apply = jax.jit(lambda params, state: net.apply(params, state, None, x, True))
    return lambda: apply(params, state)


def lstm_unroll():
    def f(x):
        core = hk.LSTM(6)
        return hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))

    net = hk.without_apply_rng(hk.transform(f))
    x = jax.random.normal(KEY, (5, 2, 3))
    params = net.init(KEY, x)
    apply = jax.jit(net.apply)
    return lambda: apply(params, x)


def attention_dropout():
    def f(x):
        x = hk.MultiHeadAttention(2, 4, w_init_scale=1.0)(x, x, x)
        return hk.dropout(hk.next_rng_key(), 0.2, hk.LayerNorm(-1, True, True)(x))

    net = hk.transform(f)
    x = jax.random.normal(KEY, (2, 5, 8))
    params = net.init(KEY, x)
    apply = jax.jit(net.apply)
    return lambda: apply(params, KEY, x)


def resnet_forward():
    # a logits layer of zeros, as the network has it by default, would hide all the others
    logits = {"w_init": hk.initializers.RandomNormal(0.1)}
    net = hk.transform_with_state(lambda x: hk.nets.ResNet18(4, logits_config=logits)(x, True))
    x = jax.random.normal(KEY, (4, 16, 16, 3))
    params, state = jax.jit(net.init)(KEY, x)
    apply = jax.jit(lambda params, state, x: net.apply(params, state, None, x)[0])
    return lambda: apply(params, state, x)


def scan_and_cond():
    def f(x):
        layer = hk.Linear(x.shape[-1])
        x, _ = hk.scan(lambda c, _: (jnp.tanh(layer(c)), None), x, None, length=3)
        return hk.cond(x.sum() > 0, lambda y: y, lambda y: -y, x)

    net = hk.without_apply_rng(hk.transform(f))
    x = jnp.linspace(-1.0, 1.0, 8).reshape(2, 4)
    params = net.init(KEY, x)
    return lambda: net.apply(params, x)


def summarise_parameters():
    net = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([5, 2])(x)))
    params = net.init(KEY, jnp.ones((1, 3)))

    def run():
        shapes = hk.experimental.eval_summary(net)(jnp.ones((1, 3)))
        return jnp.array(len(shapes)), jnp.array(hk.data_structures.tree_size(params))

    return run
