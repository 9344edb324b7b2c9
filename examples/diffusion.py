"""A denoising diffusion model (Ho et al. 2020) that draws the digit it is asked for.

Data: the 1,797 digits inside scikit-learn, 8 × 8 pixels, 360 of them held out. The figure is the
classification accuracy score (Ravuri & Vinyals 2019): how many held-out digits a classifier names
right that has learned from drawn digits alone; the classifier is the nearest neighbour. Target:
nine tenths of the score of real digits. Beside it: draws from a Gaussian for each class.
"""

import numpy as np
from data import digits
from outcome import finish, options

import weft
from weft import lax, optim, train
from weft import linen as nn
from weft import numpy as jnp

TIMES = 50
# Shares of the picture's variance that are left after each step of noise (Nichol & Dhariwal 2021).
_CURVE = np.cos((np.arange(TIMES + 1) / TIMES + 0.008) / 1.008 * np.pi / 2) ** 2
KEPT = np.clip(_CURVE[1:] / _CURVE[0], 1e-4, 1).astype(np.float32)


class Block(nn.Module):
    """A residual block, moved by what is known about time and class."""

    width: int

    @nn.compact
    def __call__(self, x, known):
        y = nn.Conv(self.width, (3, 3))(nn.silu(nn.GroupNorm(8)(x)))
        y = y + nn.Dense(self.width)(known)[:, None, None]
        y = nn.Conv(self.width, (3, 3), kernel_init=nn.initializers.zeros)(
            nn.silu(nn.GroupNorm(8)(y))
        )
        return y + (x if x.shape == y.shape else nn.Dense(self.width)(x))


class UNet(nn.Module):
    """The noise in pictures of 8 × 8: down to 4 × 4 and up again, with a bridge."""

    width: int = 32

    @nn.compact
    def __call__(self, x, time, label):
        waves = np.exp(np.linspace(0, np.log(TIMES), 16)) * 2 * np.pi / TIMES
        angles = time[:, None] * waves.astype(np.float32)
        known = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1)
        known = nn.silu(nn.Dense(64)(known) + nn.Embed(10, 64)(label))
        # The class as channels of the picture, too: so it is not overlooked.
        asked = jnp.broadcast_to(nn.one_hot(label, 10)[:, None, None], (*x.shape[:3], 10))
        x = nn.Conv(self.width, (3, 3))(jnp.concatenate([x, asked], -1))
        bridge = x = Block(self.width)(x, known)
        x = nn.Conv(2 * self.width, (3, 3), strides=(2, 2))(x)
        x = Block(2 * self.width)(x, known)
        x = Block(2 * self.width)(x, known)
        x = x.repeat(2, 1).repeat(2, 2)
        x = Block(self.width)(jnp.concatenate([x, bridge], -1), known)
        return nn.Conv(1, (3, 3))(nn.silu(nn.GroupNorm(8)(x)))


network = UNet()


def loss(params, batch, key):
    """The squared error of the noise that the network finds in noisy pictures."""
    images, labels = batch
    noise_key, time_key = weft.random.split(key)
    time = weft.random.randint(time_key, (len(images),), 0, TIMES)
    kept = jnp.asarray(KEPT)[time][:, None, None, None]
    noise = weft.random.normal(noise_key, images.shape)
    noisy = jnp.sqrt(kept) * images + jnp.sqrt(1 - kept) * noise
    found = network.apply({"params": params}, noisy, time.astype(jnp.float32), labels)
    return ((found - noise) ** 2).mean()


class State(train.TrainState):
    """With an average of the parameters, which is what draws."""

    ema: train.EMA


def create_state(seed, steps):
    x = jnp.ones((1, 8, 8, 1))
    params = network.init(weft.random.key(seed), x, jnp.ones(1), jnp.ones(1, int))["params"]
    tx = optim.adam(optim.cosine_decay_schedule(3e-3, steps))
    ema = train.EMA.create(params, decay=0.98)
    return State.create(apply_fn=network.apply, params=params, tx=tx, ema=ema)


@weft.jit
def draw(params, key, labels):
    """Pictures of the classes, from noise, by Ho et al.'s algorithm 2."""
    start_key, key = weft.random.split(key)
    before, after = jnp.append(1.0, KEPT[:-1]), jnp.asarray(KEPT)

    def denoise(x, t):
        kept, step = after[t], after[t] / before[t]
        noise = network.apply({"params": params}, x, jnp.full(len(x), t, jnp.float32), labels)
        clean = jnp.clip((x - jnp.sqrt(1 - kept) * noise) / jnp.sqrt(kept), -1, 1)
        mean = jnp.sqrt(before[t]) * (1 - step) * clean + jnp.sqrt(step) * (1 - before[t]) * x
        spread = jnp.sqrt((1 - before[t]) / (1 - kept) * (1 - step))
        fresh = weft.random.normal(weft.random.fold_in(key, t), x.shape)
        return mean / (1 - kept) + spread * fresh, None

    x = weft.random.normal(start_key, (len(labels), 8, 8, 1))
    return lax.scan(denoise, x, jnp.arange(TIMES), reverse=True)[0]


def nearest_neighbour(x, labels, test):
    """The share of test digits that have the label of their nearest neighbour."""
    x, y = np.asarray(x).reshape(-1, 64), test[0].reshape(-1, 64)
    return (labels[((x**2).sum(1) - 2 * y @ x.T).argmin(1)] == test[1]).mean()


def gaussians(rng, images, labels):
    """Digits from a Gaussian for each class, with the covariance of its digits."""
    drawn = np.empty((len(labels), 64))
    for label in range(10):
        here, rows = images.reshape(-1, 64)[labels == label], labels == label
        drawn[rows] = rng.multivariate_normal(here.mean(0), np.cov(here.T), rows.sum())
    return drawn.clip(-1, 1)


def grid(images, columns=10):
    """Pictures in rows, on a grey ground, four times as large."""
    images = np.asarray(images).reshape(-1, 8, 8) / 2 + 0.5
    framed = np.pad(images, ((0, 0), (1, 1), (1, 1)), constant_values=0.5)
    rows = framed.reshape(-1, columns, 10, 10).transpose(0, 2, 1, 3).reshape(-1, columns * 10)
    return rows.repeat(4, 0).repeat(4, 1)


def main():
    chosen = options(__doc__, steps=600, batch=64)
    steps, size = (40, 32) if chosen.short else (chosen.steps, chosen.batch)
    data, test = (((2 * x - 1).reshape(-1, 8, 8, 1), labels) for x, labels in digits())
    state, step = create_state(chosen.seed, steps), train.make_step(loss)
    rng, key = np.random.default_rng(chosen.seed), weft.random.key(chosen.seed + 1)
    with train.writers.create_default_writer(chosen.out, total_steps=steps) as writer:
        for number in range(1, steps + 1):
            rows = rng.integers(len(data[0]), size=size)
            state, outputs = step(
                state, (data[0][rows], data[1][rows]), weft.random.fold_in(key, number)
            )
            if number % 20 == 0:
                writer.write_scalars(number, {"loss": outputs["loss"]})
        labels = np.arange(50 if chosen.short else 500, dtype=np.int32) % 10
        drawn = np.asarray(draw(state.ema.average, key, labels))
        writer.write_images(steps, {"drawn": grid(drawn[:50])[None, ..., None]})
    (chosen.out / "drawn.png").write_bytes(train.writers.encode_png(grid(drawn[:50])))
    real = nearest_neighbour(*data, test)
    finish(
        chosen,
        "share of the noise that is found" if chosen.short else "classification accuracy score",
        1 - outputs["loss"] if chosen.short else nearest_neighbour(drawn, labels, test),
        0.9 * real,
        "nine tenths of the score of real digits",
        short=0.5,
        beside={
            "score of real digits": real,
            "score of Gaussians": nearest_neighbour(gaussians(rng, *data), data[1], test),
        },
        curve="loss",
    )


if __name__ == "__main__":
    main()
