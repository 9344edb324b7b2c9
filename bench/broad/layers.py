"""Layers, losses and optimisers."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.broad.drawing import Draw, program

# --- layers ---------------------------------------------------------------------------------------


@program("dense gelu")
def dense(m: Any, d: Draw) -> Any:
    rows, width, out = d.near(64, 16384), d.width(), d.width()
    fun = lambda x, w, b: m.nn.gelu(x @ w + b)
    return fun, (d.normal(rows, width), d.normal(width, out, scale=0.05), d.normal(out))


@program("gated mlp")
def gated(m: Any, d: Draw) -> Any:
    rows, width = d.near(128, 8192), d.width()
    hidden = 4 * width
    fun = lambda x, a, b, c: (m.nn.silu(x @ a) * (x @ b)) @ c
    scale = 0.05
    return fun, (
        d.normal(rows, width),
        d.normal(width, hidden, scale=scale),
        d.normal(width, hidden, scale=scale),
        d.normal(hidden, width, scale=scale),
    )


@program("layer norm")
def layer_norm(m: Any, d: Draw) -> Any:
    rows, width = d.rows()

    def fun(x: Any, scale: Any, bias: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        var = x.var(-1, keepdims=True)
        return (x - mean) * m.lax.rsqrt(var + 1e-5) * scale + bias

    return fun, (d.normal(rows, width), d.normal(width), d.normal(width))


@program("rms norm")
def rms_norm(m: Any, d: Draw) -> Any:
    rows, width = d.rows()
    fun = lambda x, s: x * m.lax.rsqrt(m.numpy.mean(x * x, -1, keepdims=True) + 1e-6) * s
    return fun, (d.normal(rows, width), d.normal(width))


@program("group norm")
def group_norm(m: Any, d: Draw) -> Any:
    batch, side, groups, each = d.near(1, 32), d.side(), d.pick(4, 8, 32), d.pick(3, 4, 16)

    def fun(x: Any, scale: Any) -> Any:
        y = x.reshape(batch, side, side, groups, each)
        y = (y - y.mean((1, 2, 4), keepdims=True)) * m.lax.rsqrt(
            y.var((1, 2, 4), keepdims=True) + 1e-5
        )
        return y.reshape(x.shape) * scale

    return fun, (d.normal(batch, side, side, groups * each), d.normal(groups * each))


@program("batch norm")
def batch_norm(m: Any, d: Draw) -> Any:
    batch, side, width = d.near(4, 64), d.side(), d.pick(3, 16, 64, 100, 256)

    def fun(x: Any, scale: Any, bias: Any) -> Any:
        mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return m.nn.relu((x - mean) * m.lax.rsqrt(var + 1e-5) * scale + bias)

    return fun, (d.normal(batch, side, side, width), d.normal(width), d.normal(width))


@program("softmax")
def softmax(m: Any, d: Draw) -> Any:
    return (lambda x: m.nn.softmax(x, -1)), (d.normal(*d.rows()),)


def _scores(d: Draw) -> tuple[int, int, int, int]:
    return d.near(1, 16), d.pick(4, 8, 12), d.pick(64, 128, 197, 512, 1024), d.pick(32, 64, 80)


def _attend(m: Any, scores_of: Any) -> Any:
    def fun(q: Any, k: Any, v: Any, *more: Any) -> Any:
        scores = m.numpy.einsum("bhtd,bhsd->bhts", q, k) * np.float32(q.shape[-1] ** -0.5)
        weights = m.nn.softmax(scores_of(scores.astype("float32"), *more), -1)
        return m.numpy.einsum("bhts,bhsd->bhtd", weights.astype(q.dtype), v)

    return fun


@program("attention, padding mask")
def padded_attention(m: Any, d: Draw) -> Any:
    b, h, t, e = _scores(d)
    fun = _attend(
        m, lambda s, n: m.numpy.where(m.numpy.arange(t) < n[:, None, None, None], s, -1e9)
    )
    return fun, (*(d.normal(b, h, t, e) for _ in range(3)), 1 + d.whole(t, b))


@program("attention, window")
def window_attention(m: Any, d: Draw) -> Any:
    b, h, t, e = _scores(d)

    def masked(scores: Any) -> Any:
        i, j = m.numpy.arange(t)[:, None], m.numpy.arange(t)[None]
        return m.numpy.where((j <= i) & (j > i - 64), scores, -1e9)

    return _attend(m, masked), tuple(d.normal(b, h, t, e) for _ in range(3))


@program("attention, segments")
def segment_attention(m: Any, d: Draw) -> Any:
    b, h, t, e = _scores(d)
    same = lambda s, seg: m.numpy.where((seg[:, :, None] == seg[:, None, :])[:, None], s, -1e9)
    return _attend(m, same), (*(d.normal(b, h, t, e) for _ in range(3)), d.whole(4, b, t))


@program("attention, linear bias")
def biased_attention(m: Any, d: Draw) -> Any:
    b, h, t, e = _scores(d)

    def biased(scores: Any, slopes: Any) -> Any:
        i, j = m.numpy.arange(t)[:, None], m.numpy.arange(t)[None]
        return m.numpy.where(j <= i, scores + slopes[:, None, None] * (j - i), -1e9)

    slopes = (2.0 ** -np.arange(1, h + 1)).astype(np.float32)
    return _attend(m, biased), (*(d.normal(b, h, t, e) for _ in range(3)), slopes)


@program("masked softmax")
def masked_softmax(m: Any, d: Draw) -> Any:
    b, h, t, _ = _scores(d)
    fun = lambda s, keep: m.nn.softmax(m.numpy.where(keep[:, None, None], s, -1e30), -1)
    return fun, (d.normal(b, h, t, t), d.rng.random((b, t)) < 0.8)


@program("rotary embedding")
def rotary(m: Any, d: Draw) -> Any:
    b, h, t, e = _scores(d)
    half = e // 2

    def fun(x: Any, angles: Any) -> Any:
        sin, cos = m.numpy.sin(angles), m.numpy.cos(angles)
        a, b = x[..., :half], x[..., half:]
        return m.numpy.concatenate([a * cos - b * sin, a * sin + b * cos], -1).astype(x.dtype)

    return fun, (d.normal(b, t, h, 2 * half), d.normal(t, 1, half, dtype=np.float32))


@program("embedding")
def embedding(m: Any, d: Draw) -> Any:
    words, width, rows = d.near(100, 50000), d.width(), d.near(64, 32768)
    return (lambda table, at: table[at] * 2), (d.normal(words, width), d.whole(words, rows))


@program("mixture of experts, one-hot")
def experts(m: Any, d: Draw) -> Any:
    tokens, count, width = d.pick(256, 1000, 2048), d.pick(4, 8), d.pick(64, 128, 256)
    room = 2 * tokens // count

    def fun(x: Any, router: Any, w: Any) -> Any:
        gates = m.nn.softmax((x @ router).astype("float32"), -1)
        best, which = m.lax.top_k(gates, 2)
        hot = m.nn.one_hot(which, count)
        place = m.numpy.cumsum(hot.reshape(-1, count), 0).reshape(hot.shape) * hot
        slots = m.nn.one_hot(place.sum(-1) - 1, room)
        combine = m.numpy.einsum("tk,tke,tkc->tec", best, hot, slots).astype(x.dtype)
        inside = m.numpy.einsum("tec,td->ecd", (combine > 0).astype(x.dtype), x)
        out = m.nn.gelu(m.numpy.einsum("ecd,edf->ecf", inside, w))
        return m.numpy.einsum("tec,ecf->tf", combine, out)

    return fun, (
        d.normal(tokens, width),
        d.normal(width, count),
        d.normal(count, width, width, scale=0.1),
    )


def _conv(m: Any, **more: Any) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    return lambda x, w: m.lax.conv_general_dilated(
        x, w, more.get("strides", (1, 1)), "SAME", dimension_numbers=numbers,
        **{k: v for k, v in more.items() if k != "strides"},
    )  # fmt: skip


@program("convolution")
def convolution(m: Any, d: Draw) -> Any:
    batch, side, width, out = d.near(1, 64), d.side(), d.pick(3, 16, 64, 128), d.pick(16, 64, 100)
    size = d.pick(1, 3, 5)
    strides = d.pick((1, 1), (2, 2))
    weights = d.normal(size, size, width, out, scale=0.1)
    return _conv(m, strides=strides), (d.normal(batch, side, side, width), weights)


@program("depthwise convolution")
def depthwise(m: Any, d: Draw) -> Any:
    batch, side, width, size = d.near(1, 64), d.side(), d.pick(32, 64, 96, 256), d.pick(3, 5, 7)
    fun = _conv(m, feature_group_count=width)
    return fun, (d.normal(batch, side, side, width), d.normal(size, size, 1, width, scale=0.1))


@program("grouped convolution")
def grouped(m: Any, d: Draw) -> Any:
    batch, side, groups, each = d.near(1, 32), d.side(), d.pick(2, 4, 8), d.pick(8, 16, 32)
    fun = _conv(m, feature_group_count=groups)
    weights = d.normal(3, 3, each, groups * each, scale=0.1)
    return fun, (d.normal(batch, side, side, groups * each), weights)


@program("dilated convolution")
def dilated(m: Any, d: Draw) -> Any:
    batch, side, width = d.near(1, 32), d.side(), d.pick(16, 64)
    fun = _conv(m, rhs_dilation=(2, 2))
    return fun, (d.normal(batch, side, side, width), d.normal(3, 3, width, width, scale=0.1))


@program("transposed convolution")
def transposed(m: Any, d: Draw) -> Any:
    batch, side, width = d.near(1, 32), d.pick(14, 28, 32), d.pick(16, 64)
    fun = lambda x, w: m.lax.conv_transpose(
        x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return fun, (d.normal(batch, side, side, width), d.normal(3, 3, width, width, scale=0.1))


@program("pooling")
def pooling(m: Any, d: Draw) -> Any:
    batch, side, width = d.near(1, 64), d.side(), d.pick(3, 16, 64, 100)
    largest = lambda x: m.lax.reduce_window(
        x, x.dtype.type(-np.inf), m.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"
    )
    return largest, (d.normal(batch, side, side, width),)


@program("gated recurrence", narrow=False)
def recurrence(m: Any, d: Draw) -> Any:
    steps, batch, width = d.pick(16, 64), d.pick(1, 16, 64), d.pick(32, 64, 128)

    def fun(xs: Any, w: Any, u: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            z, r, n = m.numpy.split(x @ w + h @ u, 3, -1)
            z, n = m.nn.sigmoid(z), m.numpy.tanh(n * m.nn.sigmoid(r))
            h = (1 - z) * n + z * h
            return h, h

        return m.lax.scan(step, m.numpy.zeros((batch, width), xs.dtype), xs)[1]

    scale = width**-0.5
    return fun, (
        d.normal(steps, batch, width),
        d.normal(width, 3 * width, scale=scale),
        d.normal(width, 3 * width, scale=scale),
    )


# --- losses ---------------------------------------------------------------------------------------


@program("cross entropy")
def cross_entropy(m: Any, d: Draw) -> Any:
    rows, width = d.rows()

    def fun(x: Any, at: Any) -> Any:
        logs = m.nn.log_softmax(x.astype("float32"), -1)
        return -m.numpy.take_along_axis(logs, at[:, None], -1).mean()

    return fun, (d.normal(rows, width), d.whole(width, rows))


@program("smoothed cross entropy")
def smoothed(m: Any, d: Draw) -> Any:
    rows, width = d.rows()

    def fun(x: Any, at: Any) -> Any:
        want = 0.9 * m.nn.one_hot(at, width) + 0.1 / width
        return -(want * m.nn.log_softmax(x.astype("float32"), -1)).sum(-1).mean()

    return fun, (d.normal(rows, width), d.whole(width, rows))


@program("binary cross entropy")
def binary(m: Any, d: Draw) -> Any:
    shape = d.rows()
    fun = lambda x, y: (m.nn.softplus(x) - x * y).mean()
    return fun, (d.normal(*shape), d.normal(*shape))


@program("contrastive loss")
def contrastive(m: Any, d: Draw) -> Any:
    rows, width = d.pick(64, 256, 1000, 2048), d.width()

    def unit(x: Any) -> Any:
        return x * m.lax.rsqrt((x * x).sum(-1, keepdims=True) + 1e-6)

    def fun(x: Any, y: Any) -> Any:
        scores = (unit(x) @ unit(y).T).astype("float32") * 10
        own = m.numpy.diagonal(scores)
        norm = m.nn.logsumexp(scores, 0) + m.nn.logsumexp(scores, 1)
        return (norm - 2 * own).mean()

    return fun, (d.normal(rows, width), d.normal(rows, width))


@program("huber loss")
def huber(m: Any, d: Draw) -> Any:
    shape = d.rows()

    def fun(x: Any, y: Any) -> Any:
        gap = m.numpy.abs(x - y)
        return m.numpy.where(gap < 1, 0.5 * gap * gap, gap - 0.5).mean(-1)

    return fun, (d.normal(*shape), d.normal(*shape))


# --- optimisers -----------------------------------------------------------------------------------


def _leaves(d: Draw) -> list[tuple[int, ...]]:
    count = d.pick(4, 20, 100, 300)
    width = d.pick(8, 32, 100, 256) if count > 20 else d.pick(64, 512, 1024)
    return [d.pick((width,), (width, width), (width, 4 * width)) for _ in range(count)]


@program("adam", grad=False, narrow=False)
def adam(m: Any, d: Draw) -> Any:
    shapes = _leaves(d)

    def fun(p: Any, g: Any, mu: Any, nu: Any) -> Any:
        mu = m.tree.map(lambda a, b: 0.9 * a + 0.1 * b, mu, g)
        nu = m.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, nu, g)
        step = lambda p, a, b: p - 1e-3 * a / (m.numpy.sqrt(b) + 1e-8)
        return m.tree.map(step, p, mu, nu), mu, nu

    parts = [[d.normal(*s) for s in shapes] for _ in range(3)]
    return fun, (*parts, [d.normal(*s) ** 2 for s in shapes])


@program("momentum with clipping", grad=False, narrow=False)
def momentum(m: Any, d: Draw) -> Any:
    shapes = _leaves(d)

    def fun(p: Any, g: Any, v: Any) -> Any:
        norm = m.numpy.sqrt(sum((x * x).sum() for x in g))
        scale = m.numpy.minimum(1, 1 / norm)
        v = m.tree.map(lambda a, b: 0.9 * a + scale * b, v, g)
        return m.tree.map(lambda a, b: a - 0.1 * b, p, v), v

    return fun, tuple([d.normal(*s) for s in shapes] for _ in range(3))


@program("factored second moments", grad=False, narrow=False)
def factored(m: Any, d: Draw) -> Any:
    rows, width = d.rows()

    def fun(p: Any, g: Any, r: Any, c: Any) -> Any:
        r = 0.9 * r + 0.1 * (g * g).mean(1)
        c = 0.9 * c + 0.1 * (g * g).mean(0)
        scale = m.lax.rsqrt(r[:, None] * c[None] / r.mean() + 1e-30)
        return p - 1e-2 * g * scale, r, c

    ones = np.ones(rows, np.float32), np.ones(width, np.float32)
    return fun, (d.normal(rows, width), d.normal(rows, width), *ones)
