"""A graph convolutional network on Zachary's karate club (Kipf & Welling 2017).

The club of 34 members fell apart into two. Given who met whom, and the sides of its two leaders
alone, on which side is everybody else? Target: 33 of 34, as many as Zachary's own method of
minimum cuts finds (Zachary 1977). Twenty networks from different keys are trained at once by
``vmap``; the figure is their median. Beside it: label propagation (Zhu & Ghahramani 2002).
"""

import numpy as np
from outcome import finish, options

import weft
from weft import linen as nn
from weft import numpy as jnp
from weft import optim, train

# The members whom each member met, from Zachary 1977; of each pair the smaller number comes first.
MET = {
    0: "1 2 3 4 5 6 7 8 10 11 12 13 17 19 21 31",
    1: "2 3 7 13 17 19 21 30",
    2: "3 7 8 9 13 27 28 32",
    3: "7 12 13",
    4: "6 10",
    5: "6 10 16",
    6: "16",
    8: "30 32 33",
    9: "33",
    13: "33",
    14: "32 33",
    15: "32 33",
    18: "32 33",
    19: "33",
    20: "32 33",
    22: "32 33",
    23: "25 27 29 32 33",
    24: "25 27 31",
    25: "31",
    26: "29 33",
    27: "33",
    28: "31 33",
    29: "32 33",
    30: "32 33",
    31: "32 33",
    32: "33",
}
INSTRUCTOR_SIDE = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 16, 17, 19, 21)
LEADERS = (0, 33)
MEMBERS = 34


def club():
    """The adjacency matrix, and the side that each member took."""
    met = np.zeros((MEMBERS, MEMBERS), np.float32)
    for one, others in MET.items():
        for other in map(int, others.split()):
            met[one, other] = met[other, one] = 1
    sides = np.ones(MEMBERS, np.int32)
    sides[list(INSTRUCTOR_SIDE)] = 0
    return met, sides


def normalised(met):
    """D^-1/2 (A + I) D^-1/2."""
    met = met + np.eye(len(met), dtype=np.float32)
    degree = met.sum(1)
    return met / np.sqrt(np.outer(degree, degree))


class GCN(nn.Module):
    """Each layer mixes the features of neighbours; members begin with nothing but who they are."""

    width: int = 16

    @nn.compact
    def __call__(self, mix):
        x = nn.tanh(mix @ nn.Dense(self.width, use_bias=False)(jnp.eye(MEMBERS)))
        x = nn.tanh(mix @ nn.Dense(self.width, use_bias=False)(x))
        return mix @ nn.Dense(2)(x)


network = GCN()


def create_state(key, mix):
    params = network.init(key, mix)["params"]
    tx = optim.adamw(1e-2, weight_decay=5e-4)
    return train.TrainState.create(apply_fn=network.apply, params=params, tx=tx)


def step(state, mix, sides):
    """One step on the two members whose sides are known."""

    def loss(params):
        logits = network.apply({"params": params}, mix)[jnp.array(LEADERS)]
        labels = sides[jnp.array(LEADERS)]
        return optim.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    value, grads = weft.value_and_grad(loss)(state.params)
    return state.apply_gradients(grads=grads), value


def right(state, mix, sides):
    return (network.apply({"params": state.params}, mix).argmax(-1) == sides).sum()


def label_propagation(met, sides):
    """Members take the average of their neighbours' sides; the leaders stay."""
    walk, scores = met / met.sum(1, keepdims=True), np.full(MEMBERS, 0.5)
    for _ in range(1000):
        scores = walk @ scores
        scores[list(LEADERS)] = sides[list(LEADERS)]
    return ((scores > 0.5) == sides).sum()


def main():
    chosen = options(__doc__, steps=300, networks=20)
    steps = 60 if chosen.short else chosen.steps
    met, sides = club()
    assert met.sum() == 2 * 78
    mix = normalised(met)
    keys = weft.random.split(weft.random.key(chosen.seed), chosen.networks)
    states = weft.vmap(create_state, (0, None))(keys, mix)
    all_step = weft.jit(weft.vmap(step, (0, None, None)))
    all_right = weft.jit(weft.vmap(right, (0, None, None)))
    with train.writers.create_default_writer(chosen.out, total_steps=steps) as writer:
        for number in range(1, steps + 1):
            states, values = all_step(states, mix, sides)
            if number % 10 == 0:
                found = np.median(all_right(states, mix, sides))
                writer.write_scalars(number, {"loss": values.mean(), "right": found})
    finish(
        chosen,
        f"members of 34 on their side, median of {chosen.networks} networks",
        np.median(all_right(states, mix, sides)),
        33,
        "Zachary 1977, by minimum cuts",
        short=30,
        beside={"members right by label propagation": label_propagation(met, sides)},
        curve="right",
    )


if __name__ == "__main__":
    main()
