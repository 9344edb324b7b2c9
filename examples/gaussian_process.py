"""Gaussian process regression with the exact marginal likelihood (Rasmussen & Williams 2006).

Data: scikit-learn's diabetes study, 442 patients, 10 measurements, and how the disease went on;
every fourth patient is held out. A length for each measurement, and the sizes of signal and noise,
maximise the log marginal likelihood by L-BFGS. The figure is the mean negative log predictive
density of held-out patients. Target: less than that of Bayesian linear regression, which is known
in closed form. Before that the marginal likelihood itself is compared with NumPy's.
"""

import gzip
import importlib.util
from pathlib import Path

import numpy as np
from outcome import finish, options

import weft
from weft import numpy as jnp
from weft import optim, train
from weft.scipy.linalg import cho_solve

DATA = Path("datasets", "data")


def diabetes():
    """Standardised measurements and outcomes: of patients to learn from, and of those held out."""
    package = importlib.util.find_spec("sklearn")
    if package is None:
        raise SystemExit("the data comes with scikit-learn: pip install --no-deps scikit-learn")
    folder = Path(package.submodule_search_locations[0]) / DATA
    read = lambda name: np.loadtxt(gzip.open(folder / name, "rt"), dtype=np.float64)
    x, y = read("diabetes_data_raw.csv.gz"), read("diabetes_target.csv.gz")
    held_out = np.random.default_rng(0).permutation(len(x)) % 4 == 0
    x, y = (x - x[~held_out].mean(0)) / x[~held_out].std(0), y - y[~held_out].mean()
    y = y / y[~held_out].std()
    split = lambda mask: (x[mask].astype(np.float32), y[mask].astype(np.float32))
    return split(~held_out), split(held_out)


def kernel(params, a, b):
    """Squared exponentials with a length for each measurement, and a linear part."""
    size, linear = jnp.exp(2 * params["size"]), jnp.exp(2 * params["linear"])
    scaled = (a[:, None] - b[None]) / jnp.exp(params["length"])
    return size * jnp.exp(-0.5 * (scaled**2).sum(-1)) + linear * a @ b.T


def factor(params, x):
    """The Cholesky factor of the covariance of what was seen."""
    noise = jnp.exp(2 * params["noise"]) + 1e-5
    return jnp.linalg.cholesky(kernel(params, x, x) + noise * jnp.eye(len(x)))


def log_marginal_likelihood(params, x, y):
    low = factor(params, x)
    fit = y @ cho_solve((low, True), y)
    return -0.5 * (fit + len(x) * np.log(2 * np.pi)) - jnp.log(jnp.diag(low)).sum()


def log_prior(params):
    """Lengths are between a tenth and a hundred or so; without it few data fix them badly."""
    return -0.5 * (((params["length"] - 1.5) / 1.0) ** 2).sum()


def loss(params, x, y):
    return -(log_marginal_likelihood(params, x, y) + log_prior(params)) / len(x)


def predict(params, x, y, new):
    """Means and variances of new outcomes."""
    low, across = factor(params, x), kernel(params, x, new)
    own = weft.vmap(lambda a: kernel(params, a[None], a[None])[0, 0])(new)
    solved = weft.scipy.linalg.solve_triangular(low, across, lower=True)
    variance = own - (solved**2).sum(0) + jnp.exp(2 * params["noise"])
    return across.T @ cho_solve((low, True), y), variance


def negative_log_density(mean, variance, y):
    return float(np.mean(0.5 * (np.log(2 * np.pi * variance) + (y - mean) ** 2 / variance)))


def bayesian_regression(data, test):
    """Linear regression, its two variances by maximising its marginal likelihood (MacKay 1992)."""
    (x, y), (new, truth) = data, test
    values, vectors = np.linalg.eigh(x.T.astype(np.float64) @ x)
    weights, noise = 1.0, 0.5
    for _ in range(100):
        mean = vectors @ ((vectors.T @ (x.T @ y)) / (values + noise / weights))
        known = (values / (values + noise / weights)).sum()
        weights, noise = (mean @ mean) / known, ((y - x @ mean) ** 2).sum() / (len(x) - known)
    spread = ((new @ vectors) ** 2 / (values / noise + 1 / weights)).sum(1)
    return negative_log_density(new @ mean, spread + noise, truth)


def likelihood_error(params, x, y):
    """How far the marginal likelihood is from NumPy's in double precision, relatively."""
    noise = np.exp(2 * float(params["noise"])) + 1e-5
    covariance = np.asarray(kernel(params, x, x), np.float64) + noise * np.eye(len(x))
    fit = y.astype(np.float64) @ np.linalg.solve(covariance, y)
    want = -0.5 * (fit + np.linalg.slogdet(2 * np.pi * covariance)[1])
    return abs(float(log_marginal_likelihood(params, x, y)) - want) / abs(want)


def main():
    chosen = options(__doc__, steps=60)
    steps = 15 if chosen.short else chosen.steps
    data, test = diabetes()
    if chosen.short:
        data = data[0][:120], data[1][:120]
    params = {"length": np.full(10, 1.5, np.float32)}
    params |= {"size": np.float32(-0.3), "linear": np.float32(-1.5), "noise": np.float32(-0.3)}
    params = weft.tree.map(jnp.asarray, params)
    assert likelihood_error(params, *data) < 1e-4
    tx = optim.lbfgs()
    state = tx.init(params)
    goal = lambda params: loss(params, *data)

    @weft.jit
    def step(params, state):
        value, grads = optim.value_and_grad_from_state(goal)(params, state=state)
        updates, state = tx.update(grads, state, params, value=value, grad=grads, value_fn=goal)
        return optim.apply_updates(params, updates), state, value

    with train.writers.create_default_writer(chosen.out, total_steps=steps) as writer:
        for number in range(1, steps + 1):
            params, state, value = step(params, state)
            writer.write_scalars(number, {"loss": value})
    assert likelihood_error(params, *data) < 1e-3
    mean, variance = (np.asarray(x) for x in weft.jit(predict)(params, *data, test[0]))
    linear = bayesian_regression(data, test)
    finish(
        chosen,
        "negative log density of held-out patients",
        negative_log_density(mean, variance, test[1]),
        linear,
        "Bayesian linear regression",
        short=1.3,
        least=False,
        beside={
            "root mean squared error": np.sqrt(((mean - test[1]) ** 2).mean()),
            "log marginal likelihood": log_marginal_likelihood(params, *data),
        },
        curve="loss",
    )


if __name__ == "__main__":
    main()
