"""equinox."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

KEY = jax.random.key(0)


def mlp_training():
    model = eqx.nn.MLP(3, 1, 16, 2, key=KEY)
    x = jax.random.normal(KEY, (8, 3))
    tx = optax.adam(1e-2)

    @eqx.filter_jit
    def step(model, state):
        @eqx.filter_grad
        def grads(model):
            return jnp.mean((jax.vmap(model)(x) - 1) ** 2)

        updates, state = tx.update(grads(model), state)
        return eqx.apply_updates(model, updates), state

    def run():
        m, s = model, tx.init(eqx.filter(model, eqx.is_array))
        for _ in range(4):
            m, s = step(m, s)
        return eqx.filter(m, eqx.is_array)

    return run


def conv_pool_norm():
    k1, k2 = jax.random.split(KEY)
    layers = eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(3, 4, 3, key=k1),
            eqx.nn.GroupNorm(2, 4),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.MaxPool2d(2, 2),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(36, 2, key=k2),
        ]
    )
    x = jax.random.normal(KEY, (3, 8, 8))
    return lambda: layers(x)


def batchnorm_state():
    class Net(eqx.Module):
        norm: eqx.nn.BatchNorm
        linear: eqx.nn.Linear

        def __init__(self):
            self.norm = eqx.nn.BatchNorm(4, "batch", mode="batch")
            self.linear = eqx.nn.Linear(4, 2, key=KEY)

        def __call__(self, x, state):
            x, state = self.norm(x, state)
            return self.linear(x), state

    model, state = eqx.nn.make_with_state(Net)()
    x = jax.random.normal(KEY, (6, 4))
    run = jax.vmap(model, axis_name="batch", in_axes=(0, None), out_axes=(0, None))
    return lambda: run(x, state)[0]


def attention():
    layer = eqx.nn.MultiheadAttention(2, 8, key=KEY)
    x = jax.random.normal(KEY, (5, 8))
    return eqx.filter_jit(lambda: layer(x, x, x))


def gru_scan():
    cell = eqx.nn.GRUCell(3, 5, key=KEY)
    x = jax.random.normal(KEY, (7, 3))

    @eqx.filter_jit
    def run(cell=cell):
        return jax.lax.scan(lambda h, y: (cell(y, h), None), jnp.zeros(5), x)[0]

    return run


def custom_vjp_and_checkpoint():
    @eqx.filter_custom_vjp
    def f(x):
        return jnp.sin(x["a"]) * x["n"]

    @f.def_fwd
    def fwd(perturbed, x):
        return f(x), jnp.cos(x["a"])

    @f.def_bwd
    def bwd(residuals, ct, perturbed, x):
        return {"a": ct * residuals * x["n"] * 2, "n": None}

    g = lambda a: f({"a": a, "n": 3}).sum()
    checkpointed = eqx.filter_checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum())
    x = jnp.linspace(0.0, 1.0, 4)
    return lambda: (jax.grad(g)(x), jax.grad(checkpointed)(x))


def error_if_and_closure():
    @eqx.filter_jit
    def f(x):
        x = eqx.error_if(x, jnp.any(x < 0), "negative")
        return jnp.sqrt(x)

    converted = eqx.filter_closure_convert(lambda y: jnp.cos(y) * 2, jnp.array(1.0))
    return lambda: (f(jnp.arange(3.0)), converted(jnp.array(0.5)))


def while_loop_checkpointed():
    def f(x):
        step = lambda carry: (carry[0] + 1, jnp.sin(carry[1]) + 0.1)
        _, out = eqx.internal.while_loop(
            lambda carry: carry[0] < 5, step, (0, x), max_steps=8, kind="checkpointed"
        )
        return out

    return lambda: (f(0.5), jax.jit(jax.grad(f))(0.5))


def tree_surgery():
    model = eqx.nn.MLP(2, 2, 4, 1, key=KEY)

    def run():
        changed = eqx.tree_at(lambda m: m.layers[0].weight, model, jnp.zeros((4, 2)))
        arrays, static = eqx.partition(changed, eqx.is_array)
        out = eqx.combine(arrays, static)(jnp.ones(2))
        return out, eqx.filter_eval_shape(model, jnp.ones(2)).shape[0] + jnp.zeros(())

    return run


def jvp_vmap_filtered():
    linear = eqx.nn.Linear(3, 3, key=KEY)
    x = jnp.arange(6.0).reshape(2, 3)

    def run():
        mapped = eqx.filter_vmap(linear)(x)
        _, tangent = eqx.filter_jvp(lambda y: linear(y) ** 2, (x[0],), (x[1],))
        return mapped, tangent

    return run
