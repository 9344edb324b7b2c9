"""Programs of kinds that no target was set for: whatever users write must not lose either."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.rows import Program, Row, same
from bench.suites import models
from bench.suites.arrays import normal


def _row(name: str, about: str, function: Any, arguments: Any, **more: Any) -> Row:
    """A function of the top module and arrays, compiled by the libraries with JAX's interface."""
    plain = more.pop("numpy", None)
    setups = same(lambda jax: Program(lambda *a: function(jax, *a), arguments()))
    if plain is not None:
        setups["numpy"] = lambda np: Program(plain, arguments())
    settings: dict[str, Any] = {"clock": "wall", "tolerance": 2e-3, "ratio": 1.0} | more
    return Row(name, about, setups, **settings)


def _random() -> np.random.Generator:
    return np.random.default_rng(0)


# Finance.


def _call_price(jax: Any, spot: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
    """The formula of Black and Scholes (1973)."""
    jnp = jax.numpy
    normal_cdf = lambda x: 0.5 * (1 + jax.lax.erf(x / np.sqrt(2).astype(np.float32)))
    spread = volatility * jnp.sqrt(years)
    d1 = (jnp.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / spread
    return spot * normal_cdf(d1) - strike * jnp.exp(-rate * years) * normal_cdf(d1 - spread)


def _greeks(jax: Any, *args: Any) -> Any:
    return jax.grad(lambda *a: jax.numpy.sum(_call_price(jax, *a)), argnums=(0, 2, 3, 4))(*args)


def _options(count: int = 1_000_000) -> tuple[Any, ...]:
    random = _random()
    limits = ((50, 150), (50, 150), (0.1, 2), (0.01, 0.05), (0.1, 0.5))
    return tuple(random.uniform(a, b, count).astype(np.float32) for a, b in limits)


def _asian_option(jax: Any, key: Any) -> Any:
    """The mean of 64 steps of 20,000 random walks."""
    jnp = jax.numpy

    def step(prices: Any, key: Any) -> Any:
        noise = jax.random.normal(key, prices.shape)
        prices = prices * jnp.exp(-0.5 * 0.04 / 64 + 0.2 * noise / 8)
        return prices, prices

    keys = jax.random.split(key, 64)
    _, path = jax.lax.scan(step, jnp.full((20_000,), 100.0), keys)
    return jnp.mean(jnp.maximum(jnp.mean(path, 0) - 100, 0))


def _circle(jax: Any, key: Any) -> Any:
    points = jax.random.uniform(key, (1_000_000, 2))
    return 4 * jax.numpy.mean(jax.numpy.sum(points**2, 1) < 1)


# Physics.


def _bodies(jax: Any, where: Any, speed: Any, mass: Any) -> Any:
    jnp = jax.numpy

    def force(where: Any) -> Any:
        apart = where[None, :, :] - where[:, None, :]
        inverse = (jnp.sum(apart**2, -1) + 0.01) ** -1.5
        return jnp.sum(apart * (inverse * mass)[:, :, None], 1)

    def step(_: Any, state: Any) -> Any:
        where, speed = state
        speed = speed + 0.001 * force(where)
        return where + 0.001 * speed, speed

    return jax.lax.fori_loop(0, 10, step, (where, speed))


def _heat(jax: Any, field: Any) -> Any:
    def step(_: Any, x: Any) -> Any:
        middle = x[1:-1, 1:-1]
        around = x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]
        return x.at[1:-1, 1:-1].set(middle + 0.1 * (around - 4 * middle))

    return jax.lax.fori_loop(0, 50, step, field)


def _wave(jax: Any, field: Any) -> Any:
    jnp = jax.numpy

    def step(state: Any, _: Any) -> Any:
        now, before = state
        around = sum(jnp.roll(now, shift, axis) for shift in (1, -1) for axis in (0, 1))
        return (2 * now - before + 0.2 * (around - 4 * now), now), None

    return jax.lax.scan(step, (field, field), None, length=50)[0][0]


def _mandelbrot(jax: Any, c: Any) -> Any:
    jnp = jax.numpy

    def step(state: Any) -> Any:
        count, z, steps = state
        z = z * z + c
        return count + 1, z, steps + (jnp.abs(z) < 2)

    start = (0, jnp.zeros_like(c), jnp.zeros(c.shape, jnp.int32))
    return jax.lax.while_loop(lambda s: s[0] < 50, step, start)[2]


def _first(results: list[np.ndarray]) -> list[np.ndarray]:
    """For what is chaotic: what comes before small differences have grown."""
    return [x[:100] for x in results]


def _early(results: list[np.ndarray]) -> list[np.ndarray]:
    return [x[:, :100] for x in results]


def _ones() -> tuple[Any, ...]:
    return (np.ones(3, np.float32),)


def _mean(results: list[np.ndarray]) -> list[np.ndarray]:
    """For what is chaotic: single points may differ, the whole may not."""
    return [np.asarray(np.mean(x)) for x in results]


def _plane() -> tuple[Any, ...]:
    x, y = np.meshgrid(np.linspace(-2, 0.5, 512), np.linspace(-1.2, 1.2, 512))
    return ((x + 1j * y).astype(np.complex64),)


# Learning.


def _lstm_gradient(jax: Any, params: Any, xs: Any) -> Any:
    jnp = jax.numpy

    def step(p: Any, state: Any, x: Any) -> Any:
        h, c = state
        gates = x @ p["x"] + h @ p["h"] + p["b"]
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    def loss(p: Any) -> Any:
        start = (jnp.zeros((32, 128)), jnp.zeros((32, 128)))
        _, hs = jax.lax.scan(lambda s, x: step(p, s, x), start, xs)
        return jnp.mean(hs**2)

    return jax.value_and_grad(loss)(params)


def _lstm_arguments() -> tuple[Any, ...]:
    make = models.weights()
    params = {"x": make(64, 512), "h": make(128, 512), "b": np.zeros(512, np.float32)}
    return params, normal()((100, 32, 64))[0]


def _block_gradient(jax: Any, p: Any, x: Any) -> Any:
    loss = lambda p, x: jax.numpy.mean(models.residual_block(jax, x, p, 1) ** 2)
    return jax.grad(loss, argnums=(0, 1))(p, x)


def _per_example(jax: Any, params: Any, x: Any, labels: Any) -> Any:
    jnp, loss = jax.numpy, models.mlp_loss(jax)
    grads = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(params, x[:, None], labels[:, None])
    return jax.tree.map(lambda g: jnp.sum(g**2, tuple(range(1, g.ndim))), grads)


def _embedding(jax: Any, table: Any, words: Any, towards: Any) -> Any:
    jnp = jax.numpy
    return jax.grad(lambda t: jnp.mean((jnp.mean(t[words], 1) - towards) ** 2))(table)


def _embedding_arguments() -> tuple[Any, ...]:
    words = _random().integers(0, 50_000, (256, 32)).astype(np.int32)
    return normal()((50_000, 64))[0], words, normal()((256, 64))[0]


def _k_means(jax: Any, points: Any, centres: Any) -> Any:
    jnp = jax.numpy

    def step(_: Any, centres: Any) -> Any:
        far = jnp.sum(points**2, 1)[:, None] - 2 * points @ centres.T + jnp.sum(centres**2, 1)
        nearest = jnp.argmin(far, 1)
        total = jax.ops.segment_sum(points, nearest, 32)
        count = jax.ops.segment_sum(jnp.ones_like(nearest, points.dtype), nearest, 32)
        return total / jnp.maximum(count, 1)[:, None]

    return jax.lax.fori_loop(0, 10, step, centres)


def _k_means_arguments() -> tuple[Any, ...]:
    kinds = 10 * normal()((32, 16))[0]
    points = kinds[_random().integers(0, 32, 20_000)] + normal()((20_000, 16))[0]
    return points.astype(np.float32), points[:32].astype(np.float32)


def _regression(jax: Any, x: Any, y: Any, w: Any) -> Any:
    """Newton's method for a logistic regression."""
    jnp = jax.numpy

    def step(_: Any, w: Any) -> Any:
        chance = jax.nn.sigmoid(x @ w)
        gradient = x.T @ (chance - y) + w
        curvature = (x.T * (chance * (1 - chance))) @ x + jnp.eye(w.shape[0])
        return w - jnp.linalg.solve(curvature, gradient)

    return jax.lax.fori_loop(0, 5, step, w)


def _regression_arguments() -> tuple[Any, ...]:
    x = normal()((10_000, 32))[0]
    return x, (x[:, 0] > 0).astype(np.float32), np.zeros(32, np.float32)


# Signals and statistics.


def _fft_convolution(jax: Any, x: Any, y: Any) -> Any:
    fft, size = jax.numpy.fft, x.shape[-1] + y.shape[-1] - 1
    return fft.irfft(fft.rfft(x, size) * fft.rfft(y, size), size)


def _numpy_fft_convolution(x: Any, y: Any) -> Any:
    size = x.shape[-1] + y.shape[-1] - 1
    return np.fft.irfft(np.fft.rfft(x, size) * np.fft.rfft(y, size), size)


def _medians(jax: Any, x: Any) -> Any:
    return jax.numpy.median(x, axis=1), jax.numpy.quantile(x, 0.9, axis=1)


def _histogram(jax: Any, x: Any) -> Any:
    return jax.numpy.histogram(x, bins=100, range=(-4.0, 4.0))[0]


def _kalman(jax: Any, seen: Any) -> Any:
    jnp = jax.numpy
    move = jnp.array([[1.0, 0.1], [0.0, 1.0]])
    look = jnp.array([[1.0, 0.0]])

    def step(state: Any, y: Any) -> Any:
        mean, spread = move @ state[0], move @ state[1] @ move.T + 0.01 * jnp.eye(2)
        gain = spread @ look.T / (look @ spread @ look.T + 0.1)
        mean = mean + gain @ (y - look @ mean)
        return (mean, (jnp.eye(2) - gain @ look) @ spread), mean

    return jax.lax.scan(step, (jnp.zeros(2), jnp.eye(2)), seen)[1]


def _kalman_solve(jax: Any, move: Any, look: Any, seen: Any) -> Any:
    jnp = jax.numpy

    def step(state: Any, y: Any) -> Any:
        mean, spread = move @ state[0], move @ state[1] @ move.T + 0.01 * jnp.eye(4)
        gain = jnp.linalg.solve(look @ spread @ look.T + jnp.eye(2), look @ spread).T
        mean = mean + gain @ (y - look @ mean)
        return (mean, spread - gain @ look @ spread), mean

    return jax.lax.scan(step, (jnp.zeros(4), jnp.eye(4)), seen)[1]


def _motion() -> tuple[Any, ...]:
    turn = np.linalg.qr(normal()((4, 4))[0])[0].astype(np.float32)
    return 0.99 * turn, *normal()((2, 4)), *normal()((1000, 2))


def _lorenz(jax: Any, state: Any) -> Any:
    def slope(s: Any) -> Any:
        x, y, z = s
        return jax.numpy.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    def step(s: Any, _: Any) -> Any:
        h = 0.01
        a = slope(s)
        b = slope(s + h / 2 * a)
        c = slope(s + h / 2 * b)
        d = slope(s + h * c)
        s = s + h / 6 * (a + 2 * b + 2 * c + d)
        return s, s

    return jax.lax.scan(step, state, None, length=1000)[1]


def _lorenz_many(jax: Any, states: Any) -> Any:
    return jax.vmap(lambda state: _lorenz(jax, state))(states)


def _chain(jax: Any, steps: Any, shows: Any, seen: Any) -> Any:
    """The likelihood of what a chain of hidden states shows."""
    jnp = jax.numpy

    def step(state: Any, o: Any) -> Any:
        weights = state[0] @ steps * shows[o]
        total = jnp.sum(weights)
        return (weights / total, state[1] + jnp.log(total)), None

    start = (jnp.full(10, 0.1), jnp.float32(0))
    return jax.lax.scan(step, start, seen)[0][1]


def _hidden() -> tuple[Any, ...]:
    steps, shows = _random().random((10, 10)), _random().random((20, 10))
    seen = _random().integers(0, 20, 1000).astype(np.int32)
    return (*((x / x.sum(1, keepdims=True)).astype(np.float32) for x in (steps, shows)), seen)


def _roots(jax: Any, a: Any) -> Any:
    """Newton's iteration, for each element until it has its root."""

    def one(a: Any) -> Any:
        far = lambda x: jax.numpy.abs(x * x - a) > 1e-4 * a
        return jax.lax.while_loop(far, lambda x: 0.5 * (x + a / x), a)

    return jax.vmap(one)(a)


def _population(jax: Any, x: Any) -> Any:
    return jax.lax.fori_loop(0, 200, lambda i, x: 3.2 * x * (1 - x), x)


def _parts() -> tuple[Any, ...]:
    return (_random().random(500_000).astype(np.float32) * 0.9 + 0.05,)


# Small matrices, many of them.


def _matrices(count: int, size: int) -> np.ndarray:
    a = normal()((count, size, size))[0]
    return a @ a.transpose(0, 2, 1) + size * np.eye(size, dtype=np.float32)


def _solve(jax: Any, a: Any, b: Any) -> Any:
    return jax.numpy.linalg.solve(a, b)


def _whiten(jax: Any, a: Any, b: Any) -> Any:
    low = jax.numpy.linalg.cholesky(a)
    return jax.lax.linalg.triangular_solve(low, b, left_side=True, lower=True)


def _inverse(jax: Any, a: Any) -> Any:
    return jax.numpy.linalg.inv(a)


def _spectrum(jax: Any, a: Any) -> Any:
    return jax.numpy.linalg.eigvalsh(a)


def _rotations() -> tuple[Any, ...]:
    return _matrices(10_000, 3), normal()((10_000, 20, 3))[0]


def _rotate(jax: Any, turns: Any, points: Any) -> Any:
    return jax.numpy.einsum("nij,nkj->nki", turns, points)


def _key() -> tuple[Any, ...]:
    return (np.array([0, 42], np.uint32),)


def _systems() -> tuple[Any, ...]:
    return _matrices(2000, 8), normal()((2000, 8, 1))[0]


def _many() -> tuple[Any, ...]:
    return (_matrices(2000, 8),)


def _bodies_arguments() -> tuple[Any, ...]:
    return *normal(2)((512, 3)), *normal(1, True)((512,))


def _block_arguments() -> tuple[Any, ...]:
    return models.block_parameters(models.weights(), 64, 64, False), *normal()((8, 32, 32, 64))


def _signals() -> tuple[Any, ...]:
    return *normal()((100_000,)), *normal()((10_000,))


def _sized(*shape: int) -> Any:
    return lambda: normal()(shape)


ROWS = [
    _row("option prices", "Black–Scholes, 1M", _call_price, _options),
    _row("option greeks", "its gradient, 1M", _greeks, _options),
    _row("Asian option", "20,000 random walks of 64 steps", _asian_option, _key),
    _row("Monte Carlo circle", "1M points", _circle, _key),
    _row("n-body", "512 bodies, 10 steps", _bodies, _bodies_arguments),
    _row("heat in a loop", "5-point stencil, 512², 50 steps", _heat, _sized(512, 512)),
    _row("wave in a scan", "rolled stencil, 512², 50 steps", _wave, _sized(512, 512)),
    _row("Mandelbrot", "512² complex, 50 steps", _mandelbrot, _plane, look=_mean),
    _row("LSTM gradient", "100 steps, batch 32, 128 wide", _lstm_gradient, _lstm_arguments),
    _row("residual block gradient", "8×32×32×64, batch norm", _block_gradient, _block_arguments),
    _row("per-example gradients", "MLP, batch 32", _per_example, lambda: models.mlp_arguments(32)),
    _row("embedding gradient", "256×32 of 50,000×64", _embedding, _embedding_arguments),
    _row("k-means", "20,000×16, 32 centres, 10 steps", _k_means, _k_means_arguments),
    _row("Newton regression", "10,000×32, 5 steps", _regression, _regression_arguments),
    _row(
        "FFT convolution",
        "100,000 * 10,000",
        _fft_convolution,
        _signals,
        numpy=_numpy_fft_convolution,
    ),
    _row(
        "medians",
        "median and quantile of rows, 1000×1001",
        _medians,
        _sized(1000, 1001),
        numpy=lambda x: (np.median(x, 1), np.quantile(x, 0.9, 1)),
    ),
    _row("histogram", "1M into 100", _histogram, _sized(1_000_000), tolerance=1e-2),
    _row("Kalman filter", "1,000 steps of 2×2", _kalman, _sized(1000, 1)),
    _row("Kalman filter of 4 states", "1,000 steps, solving 2×2", _kalman_solve, _motion),
    _row("Lorenz equations", "1,000 Runge–Kutta steps", _lorenz, _ones, look=_first),
    _row("Lorenz, 500 at once", "vmap of it", _lorenz_many, _sized(500, 3), look=_early),
    _row("hidden Markov chain", "10 states, 1,000 steps", _chain, _hidden),
    _row("Newton roots", "500,000, a loop for each", _roots, _parts),
    _row("logistic map", "500,000, 200 steps", _population, _parts),
    _row("batched solve", "2000 of 8×8", _solve, _systems, numpy=np.linalg.solve),
    _row("batched whitening", "Cholesky and solve, 2000 of 8×8", _whiten, _systems),
    _row("batched inverse", "2000 of 8×8", _inverse, _many, numpy=np.linalg.inv),
    _row("batched eigenvalues", "2000 of 8×8", _spectrum, _many, numpy=np.linalg.eigvalsh),
    _row("batched rotations", "10,000 of 3×3 on 20 points", _rotate, _rotations),
]
