"""A variational autoencoder (Kingma & Welling 2014) of digits, with pictures of what it draws.

Data: the 1,797 digits inside scikit-learn, 8 × 8 pixels, each black or white; 360 are held out.
The network maximises the evidence lower bound (ELBO). The figure is the bound of the
log-likelihood of a held-out digit in nats, made tight by 100 draws (Burda et al. 2016), so it can
be compared with models whose likelihood is known. Target: more than the log-likelihood of the
classical one, a mixture of Bernoulli distributions fitted by EM.
"""

import numpy as np
from data import digits
from outcome import finish, options

import weft
from weft import linen as nn
from weft import numpy as jnp
from weft import optim, train


class VAE(nn.Module):
    latent: int = 16
    width: int = 256

    def setup(self):
        dense = lambda width: nn.Dense(width)
        self.encoder = nn.Sequential([dense(self.width), nn.gelu, dense(2 * self.latent)])
        self.decoder = nn.Sequential(
            [dense(self.width), nn.gelu, dense(self.width), nn.gelu, dense(64)]
        )

    def __call__(self, key, x):
        """The log-likelihood of pixels given a draw z, and log q(z|x) / p(z), a number a digit."""
        mean, log_variance = jnp.split(self.encoder(2 * x - 1), 2, -1)
        noise = weft.random.normal(key, mean.shape)
        z = mean + jnp.exp(log_variance / 2) * noise
        surprise = 0.5 * (z**2 - noise**2 - log_variance).sum(-1)
        return -optim.sigmoid_binary_cross_entropy(self.decoder(z), x).sum(-1), surprise

    def draw(self, key, count):
        """Probabilities of pixels, from the prior."""
        return nn.sigmoid(self.decoder(weft.random.normal(key, (count, self.latent))))


network = VAE()


def elbo(params, x, key):
    """The evidence lower bound of each digit, from one draw."""
    fit, surprise = network.apply({"params": params}, key, x)
    return fit - surprise


def loss(params, x, key):
    return -elbo(params, x, key).mean()


class State(train.TrainState):
    """With an average of the parameters, which is what is tested."""

    ema: train.EMA


def create_state(seed, steps):
    key = weft.random.key(seed)
    params = network.init(key, key, jnp.ones((1, 64)))["params"]
    tx = optim.adamw(optim.cosine_decay_schedule(2e-3, steps), weight_decay=0.1)
    ema = train.EMA.create(params, decay=0.99)
    return State.create(apply_fn=network.apply, params=params, tx=tx, ema=ema)


@weft.jit
def bounds(params, x, key):
    """The ELBO, and the tighter bound from 100 draws together (Burda et al. 2016)."""
    found = weft.vmap(elbo, (None, None, 0))(params, x, weft.random.split(key, 100))
    return found.mean(), (weft.nn.logsumexp(found, axis=0) - np.log(100)).mean()


def mixture_log_likelihood(rng, x, held_out, kinds=30, rounds=50):
    """The mean log-likelihood of held-out digits by a mixture of Bernoulli distributions."""
    joint = lambda x: np.log(shares) + x @ np.log(means).T + (1 - x) @ np.log(1 - means).T
    shares = np.full(kinds, 1 / kinds)
    means = 0.25 + 0.5 * x[rng.choice(len(x), kinds, replace=False)]
    for _ in range(rounds):
        likely = joint(x)
        weights = np.exp(likely - likely.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        total = weights.sum(0)
        shares, means = (
            (total + 1) / (total + 1).sum(),
            (weights.T @ x + 0.5) / (total + 1)[:, None],
        )
    return np.logaddexp.reduce(joint(held_out), axis=1).mean()


def grid(images, columns=10):
    """Pictures in rows, on a grey ground, four times as large."""
    images = np.asarray(images).reshape(-1, 8, 8)
    framed = np.pad(images, ((0, 0), (1, 1), (1, 1)), constant_values=0.5)
    rows = framed.reshape(-1, columns, 10, 10).transpose(0, 2, 1, 3).reshape(-1, columns * 10)
    return rows.repeat(4, 0).repeat(4, 1)


def main():
    chosen = options(__doc__, steps=2000, batch=128)
    steps = 400 if chosen.short else chosen.steps
    (x, _), (held_out, _) = digits()
    x, held_out = np.float32(x > 0.5), np.float32(held_out > 0.5)
    rng, key = np.random.default_rng(chosen.seed), weft.random.key(chosen.seed + 1)
    known = max(
        mixture_log_likelihood(rng, x, held_out, kinds)
        for kinds in ((20,) if chosen.short else (10, 20, 40))
    )
    state, step = create_state(chosen.seed, steps), train.make_step(loss)
    with train.writers.create_default_writer(chosen.out, total_steps=steps) as writer:
        for number in range(1, steps + 1):
            rows = rng.integers(len(x), size=chosen.batch)
            state, outputs = step(state, x[rows], weft.random.fold_in(key, number))
            if number % 200 == 0:
                bound, tight = bounds(state.ema.average, held_out, key)
                scalars = {"train_elbo": -outputs["loss"], "test_elbo": bound, "test_bound": tight}
                writer.write_scalars(number, scalars)
        drawn = network.apply({"params": state.ema.average}, key, 50, method="draw")
        pictures = {
            "real": grid(held_out[:50])[None, ..., None],
            "drawn": grid(drawn)[None, ..., None],
        }
        writer.write_images(steps, pictures)
    for name, image in pictures.items():
        (chosen.out / f"{name}.png").write_bytes(train.writers.encode_png(image[0]))
    finish(
        chosen,
        "bound of the log-likelihood of held-out digits, in nats",
        tight,
        known,
        "log-likelihood of the best mixture of 10 to 40 Bernoulli distributions",
        short=-24,
        beside={"ELBO from single draws": bound},
        curve="test_bound",
    )


if __name__ == "__main__":
    main()
