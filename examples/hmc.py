"""Hamiltonian Monte Carlo (Neal 2011) for the eight schools (Rubin 1981).

Eight schools tried the same coaching, each with an effect and its standard error. Model of Gelman
et al., *Bayesian Data Analysis*: effects are normal around a mean μ with spread τ, in the form
that is not centred. Four hundred chains run at once by ``vmap``; step sizes are found by dual
averaging (Hoffman & Gelman 2014). The effects can be integrated out by hand, and the two numbers
that are left by quadrature, so the posterior means and deviations are known. Target: all four
within a tenth of a posterior deviation.
"""

import numpy as np
from outcome import finish, options

import weft
from weft import lax, train
from weft import numpy as jnp

EFFECT = np.float32([28, 8, -3, 7, -1, 1, 18, 12])
ERROR = np.float32([15, 10, 16, 11, 9, 11, 10, 18])
WANTED_ACCEPTANCE, STEPS = 0.8, 12


def log_density(z):
    """The log posterior of μ, log τ and the eight deviations, up to a constant."""
    mu, log_tau, raw = z[0], z[1], z[2:]
    tau = jnp.exp(log_tau)
    effects = mu + tau * raw
    prior = -0.5 * (mu / 5) ** 2 - jnp.log1p((tau / 5) ** 2) + log_tau - 0.5 * (raw**2).sum()
    return prior - 0.5 * (((EFFECT - effects) / ERROR) ** 2).sum()


def leapfrog(z, momentum, size):
    """Twelve steps of a motion that keeps energy nearly the same."""
    slope = weft.grad(log_density)
    momentum = momentum + 0.5 * size * slope(z)

    def move(_, state):
        z, momentum = state
        z = z + size * momentum
        return z, momentum + size * slope(z)

    z, momentum = lax.fori_loop(0, STEPS - 1, move, (z, momentum))
    z = z + size * momentum
    return z, momentum + 0.5 * size * slope(z)


def transition(key, z, size):
    """The next state of a chain, and how likely it was to be accepted."""
    momentum_key, accept_key, size_key = weft.random.split(key, 3)
    momentum = weft.random.normal(momentum_key, z.shape)
    size = size * weft.random.uniform(size_key, minval=0.8, maxval=1.2)
    new, after = leapfrog(z, momentum, size)
    energy = lambda z, momentum: log_density(z) - 0.5 * (momentum**2).sum()
    gain = energy(new, after) - energy(z, momentum)
    chance = jnp.where(jnp.isfinite(gain), jnp.minimum(1.0, jnp.exp(gain)), 0.0)
    return jnp.where(weft.random.uniform(accept_key) < chance, new, z), chance


def warm_up(key, z, count):
    """Chains after ``count`` steps, and the step size at which 80 % of moves are accepted."""
    target, shrink, delay, decay = jnp.log(1.0), 0.05, 10.0, 0.75

    def step(state, inputs):
        z, log_size, average, error = state
        key, number = inputs
        z, chance = weft.vmap(transition, (0, 0, None))(
            weft.random.split(key, len(z)), z, jnp.exp(log_size)
        )
        weight = 1 / (number + delay)
        error = (1 - weight) * error + weight * (WANTED_ACCEPTANCE - chance.mean())
        log_size = target - jnp.sqrt(number) / shrink * error
        share = number**-decay
        return (z, log_size, share * log_size + (1 - share) * average, error), None

    start = z, jnp.log(0.1), jnp.log(0.1), 0.0
    inputs = weft.random.split(key, count), jnp.arange(1.0, count + 1)
    (z, _, average, _), _ = lax.scan(step, start, inputs)
    return z, jnp.exp(average)


def sample(key, z, size, count):
    """States of all chains, of shape (count, chains, 10), and the mean acceptance."""

    def step(z, key):
        z, chance = weft.vmap(transition, (0, 0, None))(weft.random.split(key, len(z)), z, size)
        return z, (z, chance.mean())

    return lax.scan(step, z, weft.random.split(key, count))


def exact_moments(points=2000):
    """Means and deviations of μ and τ, by quadrature over both."""
    mu = np.linspace(-25, 35, points)[:, None]
    log_tau = np.linspace(-12, 6, points)
    tau = np.exp(log_tau)
    logs = -0.5 * (mu / 5) ** 2 - np.log1p((tau / 5) ** 2) + log_tau
    for effect, error in zip(EFFECT, ERROR):
        variance = error**2 + tau**2
        logs = logs - 0.5 * ((effect - mu) ** 2 / variance + np.log(variance))
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    found = []
    for x in (mu, tau[None]):
        mean = (weights * x).sum()
        found += [mean, np.sqrt((weights * (x - mean) ** 2).sum())]
    return np.array(found)


def main():
    chosen = options(__doc__, chains=400, samples=1000)
    chains, samples = (100, 100) if chosen.short else (chosen.chains, chosen.samples)
    key, start_key, warm_key = weft.random.split(weft.random.key(chosen.seed), 3)
    z = 0.5 * weft.random.normal(start_key, (chains, 10))
    z, size = weft.jit(warm_up, static_argnums=2)(warm_key, z, 100 if chosen.short else 300)
    run = weft.jit(sample, static_argnums=3)
    exact, pieces, seen = exact_moments(), 10, []
    with train.writers.create_default_writer(chosen.out, total_steps=samples) as writer:
        for piece in range(pieces):
            z, (states, chance) = run(weft.random.fold_in(key, piece), z, size, samples // pieces)
            seen.append(np.asarray(states)[:, :, :2].reshape(-1, 2))
            mu, tau = np.concatenate(seen).T * 1.0
            tau = np.exp(tau)
            found = np.array([mu.mean(), mu.std(), tau.mean(), tau.std()])
            apart = np.abs(found - exact) / exact[[1, 1, 3, 3]]
            scalars = {"error": apart.max(), "acceptance": chance.mean(), "size": size}
            writer.write_scalars((piece + 1) * samples // pieces, scalars)
    names = ("mean of μ", "deviation of μ", "mean of τ", "deviation of τ")
    for name, one, other in zip(names, found, exact):
        print(f"{name}: {one:.3f}, by quadrature {other:.3f}")
    finish(
        chosen,
        "largest error of four moments, in posterior deviations",
        apart.max(),
        0.1,
        "moments by quadrature",
        short=0.3,
        least=False,
        beside={"acceptance": chance.mean()},
        curve="error",
    )


if __name__ == "__main__":
    main()
