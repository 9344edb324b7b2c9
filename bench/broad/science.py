"""Solvers, samplers, stencils, bodies and graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.broad.drawing import Draw, program

# --- solvers --------------------------------------------------------------------------------------


@program("conjugate gradients", grad=False, narrow=False)
def conjugate(m: Any, d: Draw) -> Any:
    size = d.pick(64, 257, 1024, 2048)
    a = d.normal(size, size, scale=size**-0.5)

    def fun(a: Any, b: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            x, r, p, rr = state
            ap = a @ p
            alpha = rr / (p @ ap)
            x, r = x + alpha * p, r - alpha * ap
            new = r @ r
            return x, r, r + new / rr * p, new

        zero = m.numpy.zeros_like(b)
        return m.lax.fori_loop(0, 20, step, (zero, b, b, b @ b))[0]

    return fun, (a @ a.T + np.eye(size, dtype=np.float32), d.normal(size))


@program("power iteration", grad=False, narrow=False)
def power(m: Any, d: Draw) -> Any:
    size = d.pick(64, 257, 1024, 3000)

    def fun(a: Any, x: Any) -> Any:
        def step(_: Any, x: Any) -> Any:
            y = a @ x
            return y / m.numpy.sqrt(y @ y)

        return m.lax.fori_loop(0, 20, step, x)

    return fun, (d.normal(size, size, scale=size**-0.5), d.normal(size))


@program("sinkhorn", narrow=False)
def sinkhorn(m: Any, d: Draw) -> Any:
    rows, width = d.pick(32, 100, 512, 1000), d.pick(32, 100, 512, 1000)

    def fun(cost: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            f, g = state
            f = -m.nn.logsumexp(-cost + g[None], 1)
            g = -m.nn.logsumexp(-cost + f[:, None], 0)
            return (f, g), None

        zeros = m.numpy.zeros(rows), m.numpy.zeros(width)
        (f, g), _ = m.lax.scan(step, zeros, None, length=10)
        return f, g

    return fun, (d.normal(rows, width) ** 2,)


@program("runge kutta", narrow=False)
def runge(m: Any, d: Draw) -> Any:
    count = d.near(10, 1 << 20)

    def slope(y: Any) -> Any:
        a, b, c = y
        return m.numpy.stack([10 * (b - a), a * (28 - c) - b, a * b - 8 / 3 * c])

    def fun(y: Any) -> Any:
        def step(y: Any, _: Any) -> Any:
            k1 = slope(y)
            k2 = slope(y + 0.005 * k1)
            k3 = slope(y + 0.005 * k2)
            k4 = slope(y + 0.01 * k3)
            return y + 0.01 / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

        return m.lax.scan(step, y, None, length=20)[0]

    return fun, (d.normal(3, count),)


@program("small solves", narrow=False)
def solves(m: Any, d: Draw) -> Any:
    count, size = d.pick(64, 1000, 4096), d.pick(3, 8, 16, 32)
    a = d.normal(count, size, size) + 3 * size * np.eye(size, dtype=np.float32)
    return (lambda a, b: m.numpy.linalg.solve(a, b)), (a, d.normal(count, size, 2))


@program("cholesky", narrow=False)
def cholesky(m: Any, d: Draw) -> Any:
    size = d.pick(100, 512, 1024)
    a = d.normal(size, size)
    a = a @ a.T + size * np.eye(size, dtype=np.float32)
    return (lambda a: m.numpy.linalg.cholesky(a)), (a,)


@program("gaussian process", narrow=False)
def process(m: Any, d: Draw) -> Any:
    count, width = d.pick(100, 300, 600), d.pick(1, 2, 8)

    def fun(x: Any, y: Any, log_scale: Any) -> Any:
        gaps = ((x[:, None] - x[None]) ** 2).sum(-1)
        kernel = m.numpy.exp(-gaps * m.numpy.exp(log_scale)) + 0.1 * m.numpy.eye(count)
        factor = m.numpy.linalg.cholesky(kernel)
        z = m.scipy.linalg.solve_triangular(factor, y, lower=True)
        return 0.5 * z @ z + m.numpy.log(m.numpy.diagonal(factor)).sum()

    return fun, (d.normal(count, width), d.normal(count), np.float32(0.3))


# --- samplers -------------------------------------------------------------------------------------


def _key(m: Any, seed: Any) -> Any:
    return m.random.key(seed)


@program("normal draws", grad=False, narrow=False)
def normals(m: Any, d: Draw) -> Any:
    shape = d.rows()
    return (lambda s: m.random.normal(_key(m, s), shape)), (np.int32(3),)


@program("categorical", grad=False, narrow=False)
def categorical(m: Any, d: Draw) -> Any:
    rows, width = d.rows(1 << 22)
    return (lambda s, x: m.random.categorical(_key(m, s), x)), (np.int32(3), d.normal(rows, width))


@program("dropout")
def dropout(m: Any, d: Draw) -> Any:
    shape = d.rows()

    def fun(x: Any, s: Any) -> Any:
        keep = m.random.bernoulli(_key(m, s), 0.9, shape)
        return m.numpy.where(keep, x / 0.9, 0).astype(x.dtype)

    return fun, (d.normal(*shape), np.int32(3))


@program("nucleus sampling", grad=False, narrow=False)
def nucleus(m: Any, d: Draw) -> Any:
    rows, width = d.pick(1, 8, 64), d.pick(1000, 32000)

    def fun(s: Any, x: Any) -> Any:
        order = m.numpy.argsort(-x, -1)
        p = m.nn.softmax(m.numpy.take_along_axis(x, order, -1), -1)
        kept = m.numpy.cumsum(p, -1) - p < 0.9
        chosen = m.random.categorical(_key(m, s), m.numpy.where(kept, m.numpy.log(p), -1e9))
        return m.numpy.take_along_axis(order, chosen[:, None], -1)

    return fun, (np.int32(3), d.normal(rows, width))


@program("gamma draws", grad=False, narrow=False)
def gammas(m: Any, d: Draw) -> Any:
    rows = d.pick(100, 10_000, 100_000)
    return (lambda s, a: m.random.gamma(_key(m, s), a)), (np.int32(3), d.normal(rows) ** 2 + 0.1)


@program("hamiltonian monte carlo", grad=False, narrow=False)
def hamiltonian(m: Any, d: Draw) -> Any:
    chains, width = d.pick(1, 64, 1000), d.pick(3, 10, 50)
    energy = lambda q: 0.5 * (q**2).sum() + 0.1 * (q[1:] * q[:-1]).sum()

    def fun(s: Any, q: Any) -> Any:
        slope = m.vmap(m.grad(energy))
        p = m.random.normal(_key(m, s), q.shape)

        def step(_: Any, state: Any) -> Any:
            q, p = state
            p = p - 0.05 * slope(q)
            q = q + 0.1 * p
            return q, p - 0.05 * slope(q)

        return m.lax.fori_loop(0, 10, step, (q, p))

    return fun, (np.int32(3), d.normal(chains, width))


@program("permutation", grad=False, narrow=False)
def permutation(m: Any, d: Draw) -> Any:
    count = d.pick(1000, 65_537, 1 << 20)
    return (lambda s, x: m.random.permutation(_key(m, s), x)), (np.int32(3), d.normal(count))


# --- stencils -------------------------------------------------------------------------------------


@program("heat, two dimensions, rolls", narrow=False)
def heat(m: Any, d: Draw) -> Any:
    rows, width = d.pick((64, 64), (509, 512), (1024, 1024), (2048, 2048))

    def fun(x: Any) -> Any:
        def step(x: Any, _: Any) -> Any:
            near = sum(m.numpy.roll(x, s, a) for a in (0, 1) for s in (1, -1))
            return x + 0.1 * (near - 4 * x), None

        return m.lax.scan(step, x, None, length=20)[0]

    return fun, (d.normal(rows, width),)


@program("heat, three dimensions, rolls", narrow=False)
def heat3(m: Any, d: Draw) -> Any:
    side = d.pick(32, 64, 100, 128)

    def fun(x: Any) -> Any:
        def step(_: Any, x: Any) -> Any:
            near = sum(m.numpy.roll(x, s, a) for a in range(3) for s in (1, -1))
            return x + 0.1 * (near - 6 * x)

        return m.lax.fori_loop(0, 20, step, x)

    return fun, (d.normal(side, side, side),)


@program("wave, padded", narrow=False)
def wave(m: Any, d: Draw) -> Any:
    rows, width = d.pick((64, 100), (512, 512), (1000, 2000))

    def fun(x: Any, v: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            x, v = state
            y = m.numpy.pad(x, 1, mode="edge")
            near = y[2:, 1:-1] + y[:-2, 1:-1] + y[1:-1, 2:] + y[1:-1, :-2] - 4 * x
            v = v + 0.1 * near
            return (x + 0.1 * v, v), None

        return m.lax.scan(step, (x, v), None, length=10)[0]

    return fun, (d.normal(rows, width), d.normal(rows, width))


@program("reaction and diffusion", grad=False, narrow=False)
def reaction(m: Any, d: Draw) -> Any:
    side = d.pick(128, 256, 500, 1024)

    def spread(x: Any) -> Any:
        return sum(m.numpy.roll(x, s, a) for a in (0, 1) for s in (1, -1)) - 4 * x

    def fun(u: Any, v: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            u, v = state
            uvv = u * v * v
            u = u + 0.16 * spread(u) - uvv + 0.035 * (1 - u)
            return u, v + 0.08 * spread(v) + uvv - 0.1 * v

        return m.lax.fori_loop(0, 20, step, (u, v))

    return fun, (d.normal(side, side) ** 2, d.normal(side, side) ** 2)


@program("roll and difference")
def differences(m: Any, d: Draw) -> Any:
    shape = d.rows()
    fun = lambda x: m.numpy.roll(x, 1, 0) - 2 * x + m.numpy.roll(x, -1, 0) + m.numpy.roll(x, 1, 1)
    return fun, (d.normal(*shape),)


# --- bodies ---------------------------------------------------------------------------------------


@program("pairwise distances", narrow=False)
def pairwise(m: Any, d: Draw) -> Any:
    count, width = d.pick(100, 500, 1000, 2048), d.pick(2, 3, 8, 33)
    fun = lambda p: ((p[:, None] - p[None]) ** 2).sum(-1)
    return fun, (d.normal(count, width),)


@program("gravity", narrow=False)
def gravity(m: Any, d: Draw) -> Any:
    count = d.pick(64, 500, 1000, 2048)

    def fun(p: Any, mass: Any) -> Any:
        gap = p[None] - p[:, None]
        r2 = (gap * gap).sum(-1) + 1e-2
        return (gap * (mass[None] * r2**-1.5)[..., None]).sum(1)

    return fun, (d.normal(count, 3), d.normal(count) ** 2)


@program("pair potential", narrow=False)
def potential(m: Any, d: Draw) -> Any:
    count = d.pick(64, 256, 1000)

    def fun(p: Any) -> Any:
        gap = p[:, None] - p[None]
        gap = gap - 10 * m.numpy.round(gap / 10)
        r2 = (gap**2).sum(-1) + m.numpy.eye(count)
        s = 1 / r2**3
        return (m.numpy.where(r2 < 6, s * s - s, 0) * (1 - m.numpy.eye(count))).sum()

    return fun, (3 * d.normal(count, 3),)


@program("nearest neighbours", grad=False, narrow=False)
def neighbours(m: Any, d: Draw) -> Any:
    count, width = d.pick(100, 1000, 3000), d.pick(3, 16, 64)

    def fun(x: Any, y: Any) -> Any:
        gaps = (x * x).sum(-1)[:, None] - 2 * x @ y.T + (y * y).sum(-1)[None]
        return m.lax.top_k(-gaps, 8)

    return fun, (d.normal(count, width), d.normal(count, width))


@program("k means", grad=False, narrow=False)
def means(m: Any, d: Draw) -> Any:
    count, width, groups = d.pick(1000, 10_000, 100_000), d.pick(2, 16, 64), d.pick(5, 32)

    def fun(x: Any, c: Any) -> Any:
        near = m.numpy.argmin(((x[:, None] - c[None]) ** 2).sum(-1), -1)
        sums = m.ops.segment_sum(x, near, groups)
        return sums / m.ops.segment_sum(m.numpy.ones(count), near, groups)[:, None]

    return fun, (d.normal(count, width), d.normal(groups, width))


# --- graphs ---------------------------------------------------------------------------------------


@program("message passing", narrow=False)
def messages(m: Any, d: Draw) -> Any:
    nodes, width = d.pick(100, 1000, 20_000), d.pick(8, 64, 128)
    edges = 8 * nodes

    def fun(x: Any, w: Any, a: Any, b: Any) -> Any:
        given = m.nn.relu((x[a] - x[b]) @ w)
        return x + m.ops.segment_sum(given, b, nodes)

    return fun, (
        d.normal(nodes, width),
        d.normal(width, width, scale=0.1),
        d.whole(nodes, edges),
        d.whole(nodes, edges),
    )


@program("graph attention", narrow=False)
def graph_attention(m: Any, d: Draw) -> Any:
    nodes, width = d.pick(100, 1000, 20_000), d.pick(8, 32, 64)
    edges = 8 * nodes

    def fun(x: Any, w: Any, a: Any, b: Any) -> Any:
        score = m.nn.leaky_relu((x[a] * x[b]) @ w)
        top = m.ops.segment_max(score, b, nodes)
        e = m.numpy.exp(score - top[b])
        weight = e / m.ops.segment_sum(e, b, nodes)[b]
        return m.ops.segment_sum(weight[:, None] * x[a], b, nodes)

    at = d.whole(nodes, edges), np.sort(d.whole(nodes, edges))
    return fun, (d.normal(nodes, width), d.normal(width), *at)


@program("page rank", grad=False, narrow=False)
def page_rank(m: Any, d: Draw) -> Any:
    nodes = d.pick(1000, 50_000)
    edges = 10 * nodes

    def fun(a: Any, b: Any) -> Any:
        degree = m.numpy.zeros(nodes).at[a].add(1.0)

        def step(_: Any, rank: Any) -> Any:
            given = (rank / m.numpy.maximum(degree, 1))[a]
            return 0.15 / nodes + 0.85 * m.numpy.zeros(nodes).at[b].add(given)

        return m.lax.fori_loop(0, 10, step, m.numpy.full(nodes, 1 / nodes))

    return fun, (d.whole(nodes, edges), d.whole(nodes, edges))
