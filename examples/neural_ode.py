"""A neural ordinary differential equation (Chen et al. 2018) that learns a motion from paths.

Data: the spiral of Chen et al.'s demonstration, dx/dt = A x³, seen with noise from four starts, at
200 moments each. The network is the right-hand side; gradients go through ``odeint`` by the
adjoint method. The figure is the error of a path from another start, which was never seen.
Baseline: the linear equation that fits the paths best by least squares. Target: a fifth of its
error.
"""

import numpy as np
from outcome import finish, options

import weft
from weft import linen as nn
from weft import numpy as jnp
from weft import optim, train
from weft.experimental.ode import odeint

TRUE = np.array([[-0.1, 2.0], [-2.0, -0.1]], np.float32)
STARTS = np.float32([[2.0, 0.0], [0.0, 1.6], [-1.2, -1.2], [1.0, -0.8]])
OTHER_START = np.float32([1.4, -1.0])


def path(start, times):
    """The true motion from one start, or from several."""
    return odeint(lambda x, t: (x**3) @ TRUE, jnp.asarray(start), jnp.asarray(times), rtol=1e-6)


class Field(nn.Module):
    """The velocity at a place."""

    @nn.compact
    def __call__(self, x):
        h = nn.tanh(nn.Dense(64)(x**3))
        return nn.Dense(2, kernel_init=nn.initializers.normal(0.1))(h)


network = Field()


def solve(params, starts, times):
    """Paths from several starts, a row for each moment."""
    field = lambda x, t: network.apply({"params": params}, x)
    return odeint(field, starts, times, rtol=1e-4, atol=1e-5)


def loss(params, batch):
    """The mean distance of short pieces of the path from what was seen."""
    starts, times, seen = batch
    return jnp.abs(solve(params, starts, times) - seen).mean()


def create_state(seed, steps):
    params = network.init(weft.random.key(seed), jnp.ones((1, 2)))["params"]
    tx = optim.adam(optim.cosine_decay_schedule(1e-2, steps))
    return train.TrainState.create(apply_fn=network.apply, params=params, tx=tx)


def linear_path(seen, times, start):
    """The path of the linear equation whose steps fit the seen paths best."""
    before, after = (part.reshape(-1, 2) for part in (seen[:-1], seen[1:]))
    step, *_ = np.linalg.lstsq(before, after, rcond=None)
    found = [start]
    for _ in times[1:]:
        found.append(found[-1] @ step)
    return np.array(found)


def main():
    chosen = options(__doc__, steps=1000, batch=32)
    steps = 200 if chosen.short else chosen.steps
    length = 10
    rng = np.random.default_rng(chosen.seed)
    times = np.linspace(0, 10, 200, dtype=np.float32)
    true, other = np.asarray(path(STARTS, times)), np.asarray(path(OTHER_START, times))
    seen = true + 0.01 * rng.standard_normal(true.shape).astype(np.float32)
    state, step = create_state(chosen.seed, steps), train.make_step(loss)
    fast_solve = weft.jit(solve)
    with train.writers.create_default_writer(chosen.out, total_steps=steps) as writer:
        for number in range(1, steps + 1):
            first = rng.integers(len(times) - length, size=chosen.batch)
            which = rng.integers(len(STARTS), size=chosen.batch)
            pieces = seen[first + np.arange(length)[:, None], which]
            state, outputs = step(state, (pieces[0], times[:length], pieces))
            if number % 20 == 0:
                found = np.asarray(fast_solve(state.params, OTHER_START[None], times))[:, 0]
                apart = np.abs(found - other).mean()
                writer.write_scalars(number, {"loss": outputs["loss"], "other_path": apart})
    linear = np.abs(linear_path(seen, times, OTHER_START) - other).mean()
    finish(
        chosen,
        "mean error of a path from another start",
        apart,
        linear / 5,
        "a fifth of the error of the best linear equation",
        short=linear,
        least=False,
        beside={"error of the best linear equation": linear},
        curve="other_path",
    )


if __name__ == "__main__":
    main()
