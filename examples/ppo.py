"""Proximal policy optimisation (Schulman et al. 2017) learns to balance a pole on a cart.

The environment is CartPole-v1 of OpenAI Gym, after Barto, Sutton & Anderson (1983), written here
with ``weft.numpy``: 32 carts are simulated at once, and playing and learning are one compiled
program. Target: a mean return of 475 over 100 episodes of at most 500 steps, Gym's mark of
"solved". Beside it: a policy that pushes at random, and one that pushes to where the pole leans.
"""

from typing import NamedTuple

import numpy as np
from outcome import finish, options

import weft
from weft import lax, optim, train
from weft import linen as nn
from weft import numpy as jnp

CARTS, STEPS, EPOCHS, PARTS = 32, 128, 4, 4
DISCOUNT, TRACE, CLIP, ENTROPY = 0.99, 0.95, 0.2, 0.01
LONGEST = 500


def push(state, action):
    """The cart after a fiftieth of a second: place, speed, angle and its speed."""
    gravity, cart, pole, half, force, tau = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
    x, dx, angle, turn = state
    force = jnp.where(action == 1, force, -force)
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    pushed = (force + pole * half * turn**2 * sin) / (cart + pole)
    inertia = half * (4 / 3 - pole * cos**2 / (cart + pole))
    turned = (gravity * sin - cos * pushed) / inertia
    moved = pushed - pole * half * turned * cos / (cart + pole)
    return jnp.stack([x + tau * dx, dx + tau * moved, angle + tau * turn, turn + tau * turned])


def fallen(state):
    return (jnp.abs(state[0]) > 2.4) | (jnp.abs(state[2]) > 12 * np.pi / 180)


def fresh(key):
    return weft.random.uniform(key, (4,), minval=-0.05, maxval=0.05)


class Policy(nn.Module):
    """Logits of both actions, and what the state is worth."""

    @nn.compact
    def __call__(self, x):
        layer = lambda width, scale: nn.Dense(width, kernel_init=nn.initializers.orthogonal(scale))
        h = nn.tanh(layer(64, 1.4)(nn.tanh(layer(64, 1.4)(x))))
        v = nn.tanh(layer(64, 1.4)(nn.tanh(layer(64, 1.4)(x))))
        return layer(2, 0.01)(h), layer(1, 1.0)(v)[..., 0]


network = Policy()


class Moment(NamedTuple):
    state: jnp.ndarray
    action: jnp.ndarray
    log_share: jnp.ndarray
    value: jnp.ndarray
    reward: jnp.ndarray
    done: jnp.ndarray


def play(params, carts, ages, key):
    """128 moments of every cart; a cart whose pole has fallen starts again."""

    def moment(carry, key):
        carts, ages = carry
        act_key, fresh_key = weft.random.split(key)
        logits, value = network.apply({"params": params}, carts)
        action = weft.random.categorical(act_key, logits)
        log_share = jnp.take_along_axis(nn.log_softmax(logits), action[:, None], 1)[:, 0]
        moved, ages = weft.vmap(push)(carts, action), ages + 1
        done = weft.vmap(fallen)(moved) | (ages >= LONGEST)
        again = weft.vmap(fresh)(weft.random.split(fresh_key, CARTS))
        next_carts = jnp.where(done[:, None], again, moved)
        record = Moment(carts, action, log_share, value, jnp.ones(CARTS), done)
        return (next_carts, jnp.where(done, 0, ages)), record

    return lax.scan(moment, (carts, ages), weft.random.split(key, STEPS))


def advantages(moments, last_value):
    """Generalised advantage estimation (Schulman et al. 2016), from the last moment back."""

    def back(carry, moment):
        advantage, next_value = carry
        alive = 1.0 - moment.done
        surprise = moment.reward + DISCOUNT * next_value * alive - moment.value
        advantage = surprise + DISCOUNT * TRACE * alive * advantage
        return (advantage, moment.value), advantage

    return lax.scan(back, (jnp.zeros(CARTS), last_value), moments, reverse=True)[1]


def loss(params, batch):
    moments, advantage, target = batch
    logits, value = network.apply({"params": params}, moments.state)
    logs = nn.log_softmax(logits)
    log_share = jnp.take_along_axis(logs, moments.action[:, None], 1)[:, 0]
    ratio = jnp.exp(log_share - moments.log_share)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    clipped = jnp.clip(ratio, 1 - CLIP, 1 + CLIP)
    gain = jnp.minimum(ratio * advantage, clipped * advantage).mean()
    entropy = -(jnp.exp(logs) * logs).sum(-1).mean()
    return 0.5 * ((value - target) ** 2).mean() - gain - ENTROPY * entropy


def round_of_learning(carry, key):
    """Play, then learn from what was played."""
    state, carts, ages = carry
    play_key, order_key = weft.random.split(key)
    (carts, ages), moments = play(state.params, carts, ages, play_key)
    _, last_value = network.apply({"params": state.params}, carts)
    advantage = advantages(moments, last_value)
    data = moments, advantage, advantage + moments.value
    flat = weft.tree.map(lambda x: x.reshape(CARTS * STEPS, *x.shape[2:]), data)

    def learn(state, rows):
        grads = weft.grad(loss)(state.params, weft.tree.map(lambda x: x[rows], flat))
        return state.apply_gradients(grads=grads), None

    shuffled = lambda key: weft.random.permutation(key, CARTS * STEPS).reshape(PARTS, -1)
    orders = weft.vmap(shuffled)(weft.random.split(order_key, EPOCHS))
    state, _ = lax.scan(learn, state, orders.reshape(EPOCHS * PARTS, -1))
    return (state, carts, ages), CARTS * STEPS / jnp.maximum(moments.done.sum(), 1)


def create_state(seed, rounds):
    params = network.init(weft.random.key(seed), jnp.ones(4))["params"]
    rate = optim.linear_schedule(2.5e-3, 0.0, rounds * EPOCHS * PARTS)
    tx = optim.chain(optim.clip_by_global_norm(0.5), optim.adam(rate, eps=1e-5))
    return train.TrainState.create(apply_fn=network.apply, params=params, tx=tx)


def mean_return(act, key, episodes=100):
    """The mean number of steps that the pole stays up; ``act`` maps a key and a state to 0 or 1."""

    def episode(key):
        def moment(carry, key):
            cart, alive = carry
            cart = push(cart, act(key, cart))
            return (cart, alive & ~fallen(cart)), alive

        carry = fresh(key), jnp.array(True)
        return lax.scan(moment, carry, weft.random.split(key, LONGEST))[1].sum()

    return weft.jit(weft.vmap(episode))(weft.random.split(key, episodes)).mean()


def main():
    chosen = options(__doc__, rounds=100)
    rounds = 10 if chosen.short else chosen.rounds
    key, test_key = weft.random.split(weft.random.key(chosen.seed + 1))
    carts = weft.vmap(fresh)(weft.random.split(key, CARTS))
    carry = create_state(chosen.seed, rounds), carts, jnp.zeros(CARTS, jnp.int32)
    fast_round = weft.jit(round_of_learning, donate_argnums=0)
    with train.writers.create_default_writer(chosen.out, total_steps=rounds) as writer:
        for number in range(1, rounds + 1):
            carry, length = fast_round(carry, weft.random.fold_in(key, number))
            writer.write_scalars(number, {"steps_a_fall": length})
    params = carry[0].params
    policy = lambda key, cart: network.apply({"params": params}, cart)[0].argmax()
    leaning = lambda key, cart: (cart[2] > 0).astype(jnp.int32)
    finish(
        chosen,
        "mean return of 100 episodes",
        mean_return(policy, test_key),
        475,
        "Gym's mark of solved",
        short=60,
        beside={
            "return of random pushes": mean_return(
                lambda key, _: weft.random.randint(key, (), 0, 2), test_key
            ),
            "return of pushes to where the pole leans": mean_return(leaning, test_key),
        },
        curve="steps_a_fall",
    )


if __name__ == "__main__":
    main()
