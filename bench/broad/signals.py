"""More solvers, samplers, stencils, signals, sorts and indexing."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.broad.drawing import Draw, program

# --- solvers --------------------------------------------------------------------------------------


@program("jacobi iteration", grad=False, narrow=False)
def jacobi(m: Any, d: Draw) -> Any:
    size = d.pick(64, 300, 1000)

    def fun(a: Any, b: Any) -> Any:
        diagonal = m.numpy.diagonal(a)
        step = lambda _, x: x + (b - a @ x) / diagonal
        return m.lax.fori_loop(0, 20, step, m.numpy.zeros_like(b))

    return fun, (d.normal(size, size) + 3 * size * np.eye(size, dtype=np.float32), d.normal(size))


@program("newton's roots", grad=False, narrow=False)
def roots(m: Any, d: Draw) -> Any:
    fun = lambda y: m.lax.fori_loop(
        0, 12, lambda _, x: x - (x**3 + x - y) / (3 * x * x + 1), m.numpy.zeros_like(y)
    )
    return fun, (d.normal(*d.rows(1 << 23)),)


@program("least squares", narrow=False)
def least_squares(m: Any, d: Draw) -> Any:
    rows, width = d.pick(100, 1000, 5000), d.pick(3, 16, 64)

    def fun(a: Any, b: Any) -> Any:
        gram = a.T @ a + 0.1 * m.numpy.eye(width)
        return m.numpy.linalg.solve(gram, a.T @ b)

    return fun, (d.normal(rows, width), d.normal(rows))


@program("kalman filter", narrow=False)
def kalman(m: Any, d: Draw) -> Any:
    steps, size = d.pick(20, 100), d.pick(2, 4, 8)

    def fun(f: Any, ys: Any) -> Any:
        def step(state: Any, y: Any) -> Any:
            x, p = state
            x, p = f @ x, f @ p @ f.T + 0.1 * m.numpy.eye(size)
            gain = p[:, 0] / (p[0, 0] + 0.5)
            x = x + gain * (y - x[0])
            return (x, p - m.numpy.outer(gain, p[0])), x

        start = m.numpy.zeros(size), m.numpy.eye(size)
        return m.lax.scan(step, start, ys)[1]

    return fun, (0.9 * np.eye(size, dtype=np.float32), d.normal(steps))


@program("hidden states", narrow=False)
def hidden(m: Any, d: Draw) -> Any:
    steps, batch, states = d.pick(30, 100), d.pick(1, 32), d.pick(4, 16, 50)

    def fun(moves: Any, seen: Any) -> Any:
        moves = m.nn.log_softmax(moves, -1)

        def step(a: Any, x: Any) -> Any:
            return m.nn.logsumexp(a[:, :, None] + moves, 1) + x, None

        last, _ = m.lax.scan(step, m.numpy.zeros((batch, states)), seen)
        return m.nn.logsumexp(last, -1)

    return fun, (d.normal(states, states), d.normal(steps, batch, states))


@program("horner's rule")
def horner(m: Any, d: Draw) -> Any:
    def fun(x: Any) -> Any:
        y = x * 0
        for k in range(12):
            y = y * x * 0.5 + (k - 6) / 7
        return y

    return fun, (d.normal(*d.rows()),)


@program("escape times", grad=False, narrow=False)
def escape(m: Any, d: Draw) -> Any:
    side = d.pick(100, 500, 1000)

    def fun(a: Any, b: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            x, y, n = state
            x, y = x * x - y * y + a, 2 * x * y + b
            inside = x * x + y * y < 4
            return m.numpy.clip(x, -4, 4), m.numpy.clip(y, -4, 4), n + inside

        zero = m.numpy.zeros((side, side))
        return m.lax.fori_loop(0, 30, step, (zero, zero, m.numpy.zeros((side, side), int)))[2]

    return fun, (d.normal(side, side), d.normal(side, side))


# --- samplers -------------------------------------------------------------------------------------


@program("truncated normal draws", grad=False, narrow=False)
def truncated(m: Any, d: Draw) -> Any:
    shape = d.rows(1 << 22)
    return (lambda s: m.random.truncated_normal(m.random.key(s), -2, 2, shape)), (np.int32(1),)


@program("gumbel softmax", narrow=False)
def gumbel(m: Any, d: Draw) -> Any:
    shape = d.rows(1 << 23)
    fun = lambda s, x: m.nn.softmax(x + m.random.gumbel(m.random.key(s), shape), -1)
    return fun, (np.int32(4), d.normal(*shape))


@program("metropolis", grad=False, narrow=False)
def metropolis(m: Any, d: Draw) -> Any:
    chains, width = d.pick(10, 1000, 20_000), d.pick(2, 10)

    def fun(s: Any, x: Any) -> Any:
        def step(x: Any, key: Any) -> Any:
            a, b = m.random.split(key)
            new = x + 0.3 * m.random.normal(a, x.shape)
            gain = 0.5 * ((x * x).sum(-1) - (new * new).sum(-1))
            keep = m.numpy.log(m.random.uniform(b, (chains,))) < gain
            return m.numpy.where(keep[:, None], new, x), keep.mean()

        return m.lax.scan(step, x, m.random.split(m.random.key(s), 10))

    return fun, (np.int32(5), d.normal(chains, width))


@program("resampled particles", grad=False, narrow=False)
def resampled(m: Any, d: Draw) -> Any:
    count, width = d.pick(1000, 30_000, 500_000), d.pick(1, 4)

    def fun(s: Any, x: Any, logs: Any) -> Any:
        total = m.numpy.cumsum(m.nn.softmax(logs))
        at = (m.numpy.arange(count) + m.random.uniform(m.random.key(s))) / count
        return x[m.numpy.clip(m.numpy.searchsorted(total, at), 0, count - 1)]

    return fun, (np.int32(6), d.normal(count, width), d.normal(count))


@program("correlated draws", grad=False, narrow=False)
def correlated(m: Any, d: Draw) -> Any:
    count, size = d.pick(100, 10_000, 100_000), d.pick(3, 32, 100)
    fun = lambda s, c: m.random.normal(m.random.key(s), (count, size)) @ c.T
    return fun, (np.int32(7), np.tril(d.normal(size, size)))


# --- stencils -------------------------------------------------------------------------------------


@program("game of life", grad=False, narrow=False)
def life(m: Any, d: Draw) -> Any:
    side = d.pick(64, 300, 1024)

    def fun(x: Any) -> Any:
        def step(_: Any, x: Any) -> Any:
            around = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b]
            near = sum(m.numpy.roll(x, at, (0, 1)) for at in around)
            return ((near == 3) | ((x == 1) & (near == 2))).astype(x.dtype)

        return m.lax.fori_loop(0, 10, step, x)

    return fun, (d.whole(2, side, side),)


@program("burgers, slices", narrow=False)
def burgers(m: Any, d: Draw) -> Any:
    batch, size = d.pick(1, 16, 256), d.pick(128, 1000, 4096)

    def fun(u: Any) -> Any:
        def step(u: Any, _: Any) -> Any:
            flux = 0.5 * u * u
            inner = u[:, 1:-1] - 0.05 * (flux[:, 2:] - flux[:, :-2])
            inner = inner + 0.1 * (u[:, 2:] - 2 * u[:, 1:-1] + u[:, :-2])
            return m.numpy.concatenate([u[:, :1], inner, u[:, -1:]], 1), None

        return m.lax.scan(step, u, None, length=15)[0]

    return fun, (d.normal(batch, size),)


@program("upwind advection", narrow=False)
def advection(m: Any, d: Draw) -> Any:
    shape = d.pick((64, 64), (300, 509), (1024, 1024))

    def fun(c: Any, v: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            left, right = m.numpy.roll(c, 1, 1), m.numpy.roll(c, -1, 1)
            slope = m.numpy.where(v > 0, c - left, right - c)
            return c - 0.1 * v * slope, None

        return m.lax.scan(step, c, None, length=10)[0]

    return fun, (d.normal(*shape), d.normal(*shape))


@program("lattice gas", grad=False, narrow=False)
def lattice(m: Any, d: Draw) -> Any:
    side = d.pick(64, 200, 512)
    moves = np.array([(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)])
    weights = np.array([1 / 36, 1 / 9, 1 / 36, 1 / 9, 4 / 9, 1 / 9, 1 / 36, 1 / 9, 1 / 36])

    def fun(f: Any) -> Any:
        def step(f: Any, _: Any) -> Any:
            rho = f.sum(0)
            flow = m.numpy.einsum("kxy,kd->dxy", f, moves.astype(np.float32)) / rho
            along = m.numpy.einsum("dxy,kd->kxy", flow, moves.astype(np.float32))
            rest = 1 + 3 * along + 4.5 * along**2 - 1.5 * (flow**2).sum(0)
            f = f - 0.6 * (f - rho * weights.astype(np.float32)[:, None, None] * rest)
            parts = [m.numpy.roll(f[k], tuple(map(int, moves[k])), (0, 1)) for k in range(9)]
            return m.numpy.stack(parts), None

        return m.lax.scan(step, f, None, length=5)[0]

    return fun, (0.1 * np.abs(d.normal(9, side, side)) + 1,)


@program("edges of images")
def edges(m: Any, d: Draw) -> Any:
    batch, side = d.near(1, 64), d.side()

    def fun(x: Any) -> Any:
        y = m.numpy.pad(x, ((0, 0), (1, 1), (1, 1)), mode="reflect")
        across = y[:, 1:-1, 2:] - y[:, 1:-1, :-2]
        down = y[:, 2:, 1:-1] - y[:, :-2, 1:-1]
        return m.numpy.sqrt(across * across + down * down + 1e-6)

    return fun, (d.normal(batch, side, side),)


# --- signals --------------------------------------------------------------------------------------


@program("frames of a signal", narrow=False)
def frames(m: Any, d: Draw) -> Any:
    batch, length, size = d.pick(1, 8, 64), d.pick(4000, 16_000), d.pick(256, 400)
    starts = np.arange(0, length - size + 1, size // 2)
    at = (starts[:, None] + np.arange(size)).astype(np.int32)
    fun = lambda x, w: m.numpy.abs(m.numpy.fft.rfft(x[:, at] * w)) ** 2
    return fun, (d.normal(batch, length), np.hanning(size).astype(np.float32))


@program("convolution by spectra", narrow=False)
def by_spectra(m: Any, d: Draw) -> Any:
    rows, width = d.pick(1, 16, 256), d.pick(1000, 4096, 10_000)

    def fun(x: Any, k: Any) -> Any:
        size = 2 * width
        spectrum = m.numpy.fft.rfft(x, size) * m.numpy.fft.rfft(k, size)
        return m.numpy.fft.irfft(spectrum, size)[:, :width]

    return fun, (d.normal(rows, width), d.normal(width))


@program("wavelet levels")
def wavelet(m: Any, d: Draw) -> Any:
    rows, width = d.near(1, 4096), d.pick(64, 512, 4096)

    def fun(x: Any) -> Any:
        parts = []
        for _ in range(4):
            even, odd = x[:, ::2], x[:, 1::2]
            parts.append((even - odd) * 0.7)
            x = (even + odd) * 0.7
        return m.numpy.concatenate([x, *parts], 1)

    return fun, (d.normal(rows, width),)


@program("cumulative extremes", narrow=False)
def extremes(m: Any, d: Draw) -> Any:
    rows, width = d.rows(1 << 22)
    fun = lambda x: m.lax.cummax(x, axis=1) - m.lax.cummin(x, axis=1)
    return fun, (d.normal(rows, width),)


@program("discounted sums", narrow=False)
def discounted(m: Any, d: Draw) -> Any:
    batch, steps = d.pick(1, 64, 1000), d.pick(16, 128, 500)

    def fun(r: Any, v: Any) -> Any:
        def step(g: Any, x: Any) -> Any:
            g = x[0] + 0.99 * (0.05 * x[1] + 0.95 * g)
            return g, g

        return m.lax.scan(step, m.numpy.zeros(batch), (r, v), reverse=True)[1]

    return fun, (d.normal(steps, batch), d.normal(steps, batch))


# --- sorts and indexing ---------------------------------------------------------------------------


@program("ranks of rows", grad=False, narrow=False)
def ranks(m: Any, d: Draw) -> Any:
    fun = lambda x: m.numpy.argsort(m.numpy.argsort(x, -1), -1)
    return fun, (d.normal(*d.rows(1 << 20)),)


@program("sort by two keys", grad=False, narrow=False)
def two_keys(m: Any, d: Draw) -> Any:
    count = d.near(100, 1 << 20)
    fun = lambda a, b, x: m.lax.sort((a, b, x), num_keys=2)
    return fun, (d.whole(50, count), d.whole(1000, count), d.normal(count))


@program("quantiles", grad=False, narrow=False)
def quantiles(m: Any, d: Draw) -> Any:
    at = np.array([0.1, 0.5, 0.9], np.float32)
    return (lambda x: m.numpy.quantile(x, at, axis=-1)), (d.normal(*d.rows(1 << 20)),)


@program("largest of few", narrow=False)
def largest_of_few(m: Any, d: Draw) -> Any:
    rows, width = d.pick(1000, 30_000, 300_000), d.pick(8, 16, 64)
    return (lambda x: m.nn.softmax(m.lax.top_k(x, 2)[0], -1)), (d.normal(rows, width),)


@program("sampled images", narrow=False)
def sampled(m: Any, d: Draw) -> Any:
    side, count = d.pick(32, 200, 512), d.near(1000, 1 << 19)

    def fun(x: Any, p: Any) -> Any:
        p = m.nn.sigmoid(p) * (side - 2)
        low = m.numpy.floor(p).astype(int)
        (a, b), (i, j) = (p - low).T, low.T
        top = x[i, j] * (1 - b) + x[i, j + 1] * b
        under = x[i + 1, j] * (1 - b) + x[i + 1, j + 1] * b
        return top * (1 - a) + under * a

    return fun, (d.normal(side, side), d.normal(count, 2))


@program("rows that are set", narrow=False)
def rows_set(m: Any, d: Draw) -> Any:
    rows, width = d.rows(1 << 22)
    count = min(rows, 4096)
    at = d.rng.permutation(rows)[:count].astype(np.int32)
    return (lambda x, at, u: x.at[at].set(u) * 2), (
        d.normal(rows, width),
        at,
        d.normal(count, width),
    )


@program("largest by group", narrow=False)
def largest_by_group(m: Any, d: Draw) -> Any:
    count, groups, width = d.near(1000, 1 << 18), d.pick(10, 1000), d.pick(1, 8)
    fun = lambda x, at: m.ops.segment_max(x, at, groups, indices_are_sorted=False)
    at = np.concatenate([np.arange(groups), d.whole(groups, max(1, count - groups))])
    return fun, (d.normal(len(at), width), at.astype(np.int32))


@program("normalised graph layer", narrow=False)
def graph_layer(m: Any, d: Draw) -> Any:
    nodes, width = d.pick(100, 3000, 30_000), d.pick(16, 64)
    edges = 6 * nodes

    def fun(x: Any, w: Any, a: Any, b: Any) -> Any:
        degree = m.numpy.zeros(nodes).at[b].add(1.0) + 1
        scale = m.lax.rsqrt(degree)
        sums = m.ops.segment_sum((x * scale[:, None])[a], b, nodes)
        return m.nn.relu((sums * scale[:, None]) @ w)

    ends = d.whole(nodes, edges), d.whole(nodes, edges)
    return fun, (d.normal(nodes, width), d.normal(width, width, scale=0.1), *ends)


@program("triangular masks")
def triangular(m: Any, d: Draw) -> Any:
    batch, side = d.near(1, 64), d.pick(31, 128, 500)
    return (lambda x: m.numpy.tril(x) @ m.numpy.triu(x)), (d.normal(batch, side, side, scale=0.1),)


@program("kronecker products")
def kronecker(m: Any, d: Draw) -> Any:
    a, b = d.pick(4, 31, 64), d.pick(8, 16, 30)
    return (lambda x, y: m.numpy.kron(x, y) * 2), (d.normal(a, a), d.normal(b, b))


@program("product of three")
def three(m: Any, d: Draw) -> Any:
    batch, a, b = d.near(1, 64), d.pick(16, 64), d.pick(8, 50)
    fun = lambda x, w, y: m.numpy.einsum("bai,ij,baj->ba", x, w, y)
    return fun, (d.normal(batch, a, b), d.normal(b, b, scale=0.1), d.normal(batch, a, b))
