"""optax."""

import jax
import jax.numpy as jnp
import optax

PARAMS = {"w": jnp.linspace(-1.0, 1.0, 6).reshape(2, 3), "b": jnp.ones(3)}


def loss(p):
    return jnp.sum(jnp.sin(p["w"]) ** 2) + jnp.sum((p["b"] - 0.3) ** 4)


def minimised(tx, steps=8):
    @jax.jit
    def step(p, s):
        grads = jax.grad(loss)(p)
        updates, s = tx.update(grads, s, p)
        return optax.apply_updates(p, updates), s

    def run():
        p, s = PARAMS, tx.init(PARAMS)
        for _ in range(steps):
            p, s = step(p, s)
        return p

    return run


def adam():
    return minimised(optax.adam(1e-1))


def adamw_with_schedule():
    schedule = optax.warmup_cosine_decay_schedule(0.0, 0.1, 3, 20)
    return minimised(optax.adamw(schedule, weight_decay=1e-2))


def sgd_clipped():
    return minimised(optax.chain(optax.clip_by_global_norm(0.5), optax.sgd(0.1, momentum=0.9)))


def lion_and_lamb():
    first, second = minimised(optax.lion(1e-2)), minimised(optax.lamb(1e-2))
    return lambda: (first(), second())


def rmsprop_adagrad_adafactor():
    runs = [minimised(t) for t in (optax.rmsprop(1e-2), optax.adagrad(0.1), optax.adafactor(0.1))]
    return lambda: [run() for run in runs]


def multi_transform():
    tx = optax.multi_transform(
        {"slow": optax.sgd(0.01), "fast": optax.adam(0.1)}, {"w": "slow", "b": "fast"}
    )
    return minimised(tx)


def masked_accumulated():
    tx = optax.MultiSteps(optax.masked(optax.adam(0.1), {"w": True, "b": False}), 2)
    return minimised(tx)


def lbfgs():
    tx = optax.lbfgs()
    value_and_grad = optax.value_and_grad_from_state(loss)

    @jax.jit
    def step(p, s):
        value, grads = value_and_grad(p, state=s)
        updates, s = tx.update(grads, s, p, value=value, grad=grads, value_fn=loss)
        return optax.apply_updates(p, updates), s

    def run():
        p, s = PARAMS, tx.init(PARAMS)
        for _ in range(4):
            p, s = step(p, s)
        return p

    return run


def losses():
    logits = jnp.linspace(-2.0, 2.0, 12).reshape(4, 3)
    labels = jnp.array([0, 2, 1, 1])
    return jax.jit(
        lambda: (
            optax.softmax_cross_entropy_with_integer_labels(logits, labels),
            optax.sigmoid_binary_cross_entropy(logits, logits > 0),
            optax.huber_loss(logits, 0.5),
            optax.ctc_loss(
                logits[None], jnp.zeros((1, 4)), labels[None, :2] + 1, jnp.zeros((1, 2))
            ),
        )
    )
