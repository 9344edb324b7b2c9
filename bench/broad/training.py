"""More layers, losses and optimisers: recurrent, gated, pooled and factored ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.broad.drawing import Draw, program
from bench.broad.layers import _leaves

# --- layers ---------------------------------------------------------------------------------------


@program("squeeze and excite")
def squeeze(m: Any, d: Draw) -> Any:
    batch, side, width = d.near(1, 64), d.side(), d.pick(16, 64, 96, 256)

    def fun(x: Any, a: Any, b: Any) -> Any:
        gate = m.nn.sigmoid(m.nn.relu(x.mean((1, 2)) @ a) @ b)
        return x * gate[:, None, None]

    few = max(4, width // 8)
    return fun, (
        d.normal(batch, side, side, width),
        d.normal(width, few, scale=0.1),
        d.normal(few, width, scale=0.1),
    )


@program("instance norm")
def instance_norm(m: Any, d: Draw) -> Any:
    batch, side, width = d.near(1, 32), d.side(), d.pick(3, 16, 64)

    def fun(x: Any) -> Any:
        mean = x.mean((2, 3), keepdims=True)
        return (x - mean) * m.lax.rsqrt(x.var((2, 3), keepdims=True) + 1e-5)

    return fun, (d.normal(batch, width, side, side),)


@program("standardised weights")
def standardised(m: Any, d: Draw) -> Any:
    rows, width, out = d.near(64, 4096), d.width(), d.width()

    def fun(x: Any, w: Any) -> Any:
        w = (w - w.mean(0)) * m.lax.rsqrt(w.var(0) + 1e-5)
        return m.nn.relu(x @ w)

    return fun, (d.normal(rows, width), d.normal(width, out))


@program("linear attention")
def linear_attention(m: Any, d: Draw) -> Any:
    b, h, t, e = d.near(1, 8), d.pick(4, 8), d.pick(128, 500, 1024), d.pick(16, 32, 64)

    def fun(q: Any, k: Any, v: Any) -> Any:
        q, k = m.nn.softmax(q, -1), m.nn.softmax(k, -2)
        return m.numpy.einsum("bhtd,bhde->bhte", q, m.numpy.einsum("bhsd,bhse->bhde", k, v))

    return fun, tuple(d.normal(b, h, t, e) for _ in range(3))


@program("relative positions")
def relative(m: Any, d: Draw) -> Any:
    h, t = d.pick(4, 8, 12), d.pick(49, 64, 197)
    at = (np.arange(t)[:, None] - np.arange(t)[None] + t - 1).astype(np.int32)
    fun = lambda s, table: m.nn.softmax(s + m.numpy.moveaxis(table[at], 2, 0), -1)
    return fun, (d.normal(d.near(1, 64), h, t, t), d.normal(2 * t - 1, h))


@program("bilinear layer")
def bilinear(m: Any, d: Draw) -> Any:
    rows, a, b, out = d.near(16, 2000), d.pick(8, 32), d.pick(8, 31), d.pick(4, 64)
    fun = lambda x, w, y: m.numpy.einsum("bi,oij,bj->bo", x, w, y)
    return fun, (d.normal(rows, a), d.normal(out, a, b, scale=0.1), d.normal(rows, b))


@program("low rank adapter")
def adapter(m: Any, d: Draw) -> Any:
    rows, width, rank = d.near(64, 8192), d.width(), d.pick(4, 8, 16)
    fun = lambda x, w, a, b: x @ w + (x @ a) @ b * 0.5
    return fun, (
        d.normal(rows, width),
        d.normal(width, width, scale=0.05),
        d.normal(width, rank, scale=0.05),
        d.normal(rank, width, scale=0.05),
    )


@program("long short-term memory", narrow=False)
def lstm(m: Any, d: Draw) -> Any:
    steps, batch, width = d.pick(16, 50), d.pick(1, 32), d.pick(32, 100, 128)

    def fun(xs: Any, w: Any, u: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            h, c = state
            i, f, g, o = m.numpy.split(x @ w + h @ u, 4, -1)
            c = m.nn.sigmoid(f + 1) * c + m.nn.sigmoid(i) * m.numpy.tanh(g)
            h = m.nn.sigmoid(o) * m.numpy.tanh(c)
            return (h, c), h

        zero = m.numpy.zeros((batch, width), xs.dtype)
        return m.lax.scan(step, (zero, zero), xs)[1]

    scale = width**-0.5
    return fun, (
        d.normal(steps, batch, width),
        d.normal(width, 4 * width, scale=scale),
        d.normal(width, 4 * width, scale=scale),
    )


@program("convolution along a line")
def line_convolution(m: Any, d: Draw) -> Any:
    batch, length, width = d.near(1, 16), d.pick(100, 1000, 4096), d.pick(8, 32, 64)
    numbers = ("NWC", "WIO", "NWC")
    dilation = d.pick((1,), (4,))
    fun = lambda x, w: m.lax.conv_general_dilated(
        x, w, (1,), "SAME", rhs_dilation=dilation, dimension_numbers=numbers
    )
    return fun, (d.normal(batch, length, width), d.normal(5, width, width, scale=0.1))


@program("causal depthwise convolution")
def causal_depthwise(m: Any, d: Draw) -> Any:
    batch, length, width = d.near(1, 16), d.pick(128, 1000, 2048), d.pick(64, 100, 512)
    fun = lambda x, w: m.lax.conv_general_dilated(
        x, w, (1,), [(3, 0)], dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=width
    )
    return fun, (d.normal(batch, length, width), d.normal(4, 1, width))


@program("strided depthwise convolution")
def strided_depthwise(m: Any, d: Draw) -> Any:
    batch, side, width = d.near(1, 32), d.side(), d.pick(32, 96, 144)
    fun = lambda x, w: m.lax.conv_general_dilated(
        x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=width
    )
    return fun, (d.normal(batch, side, side, width), d.normal(3, 3, 1, width))


@program("convolution of a volume")
def volume(m: Any, d: Draw) -> Any:
    batch, side, width = d.near(1, 4), d.pick(8, 16, 24), d.pick(4, 16, 32)
    fun = lambda x, w: m.lax.conv_general_dilated(
        x, w, (1, 1, 1), "SAME", dimension_numbers=("NDHWC", "DHWIO", "NDHWC")
    )
    weights = d.normal(3, 3, 3, width, width, scale=0.1)
    return fun, (d.normal(batch, side, side, side, width), weights)


@program("channels first convolution")
def channels_first(m: Any, d: Draw) -> Any:
    batch, side, width, out = d.near(1, 32), d.side(), d.pick(3, 16, 64), d.pick(16, 32, 100)
    fun = lambda x, w: m.nn.relu(m.lax.conv(x, w, (1, 1), "SAME"))
    return fun, (d.normal(batch, width, side, side), d.normal(out, width, 3, 3, scale=0.1))


@program("pixel shuffle")
def shuffle(m: Any, d: Draw) -> Any:
    batch, side, width = d.near(1, 32), d.side(), d.pick(3, 16, 32)

    def fun(x: Any) -> Any:
        y = x.reshape(batch, side, side, 2, 2, width)
        return m.numpy.transpose(y, (0, 1, 3, 2, 4, 5)).reshape(batch, 2 * side, 2 * side, width)

    return fun, (d.normal(batch, side, side, 4 * width),)


@program("average pooling")
def average(m: Any, d: Draw) -> Any:
    batch, side, width = d.near(1, 64), d.side(), d.pick(3, 16, 64)
    fun = lambda x: m.lax.reduce_window(
        x, x.dtype.type(0), m.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
    ) / 4  # fmt: skip
    return fun, (d.normal(batch, side, side, width),)


@program("residual and norm")
def residual(m: Any, d: Draw) -> Any:
    rows, width = d.rows()

    def fun(x: Any, y: Any, scale: Any) -> Any:
        x = x + m.nn.gelu(y)
        mean = x.mean(-1, keepdims=True)
        return x, (x - mean) * m.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * scale

    return fun, (d.normal(rows, width), d.normal(rows, width), d.normal(width))


# --- losses ---------------------------------------------------------------------------------------


@program("focal loss")
def focal(m: Any, d: Draw) -> Any:
    shape = d.rows()

    def fun(x: Any, y: Any) -> Any:
        p = m.nn.sigmoid(x)
        near = m.numpy.where(y > 0, p, 1 - p)
        return (-((1 - near) ** 2) * m.numpy.log(near + 1e-6)).mean()

    return fun, (d.normal(*shape), d.normal(*shape))


@program("triplet loss")
def triplet(m: Any, d: Draw) -> Any:
    rows, width = d.rows(1 << 23)
    gap = lambda a, b: ((a - b) ** 2).sum(-1)
    fun = lambda a, b, c: m.nn.relu(gap(a, b) - gap(a, c) + 1).mean()
    return fun, tuple(d.normal(rows, width) for _ in range(3))


@program("divergence of distributions")
def divergence(m: Any, d: Draw) -> Any:
    shape = d.rows()

    def fun(x: Any, y: Any) -> Any:
        p, q = m.nn.log_softmax(x, -1), m.nn.log_softmax(y, -1)
        return (m.numpy.exp(p) * (p - q)).sum(-1).mean()

    return fun, (d.normal(*shape), d.normal(*shape))


@program("hinge loss")
def hinge(m: Any, d: Draw) -> Any:
    rows, width = d.rows()

    def fun(x: Any, at: Any) -> Any:
        own = m.numpy.take_along_axis(x, at[:, None], -1)
        return m.nn.relu(x - own + 1).sum(-1).mean()

    return fun, (d.normal(rows, width), d.whole(width, rows))


@program("overlap loss")
def overlap(m: Any, d: Draw) -> Any:
    batch, side, width = d.near(1, 32), d.side(), d.pick(2, 5, 21)

    def fun(x: Any, y: Any) -> Any:
        p = m.nn.softmax(x, -1)
        both, sums = (p * y).sum((1, 2)), (p + y).sum((1, 2))
        return (1 - 2 * both / (sums + 1)).mean()

    shape = (batch, side, side, width)
    return fun, (d.normal(*shape), d.normal(*shape) ** 2)


@program("variational bound")
def variational(m: Any, d: Draw) -> Any:
    rows, width, few = d.near(64, 8192), d.width(), d.pick(2, 16, 32)

    def fun(x: Any, a: Any, b: Any, s: Any) -> Any:
        mean, log_var = m.numpy.split(x @ a, 2, -1)
        noise = m.random.normal(m.random.key(s), mean.shape).astype(x.dtype)
        back = (mean + noise * m.numpy.exp(0.5 * log_var)) @ b
        own = (mean**2 + m.numpy.exp(log_var) - log_var - 1).sum(-1)
        return (((x - back) ** 2).sum(-1) + 0.5 * own).mean()

    return fun, (
        d.normal(rows, width),
        d.normal(width, 2 * few, scale=0.05),
        d.normal(few, width, scale=0.05),
        np.int32(2),
    )


# --- optimisers -----------------------------------------------------------------------------------


@program("lion", grad=False, narrow=False)
def lion(m: Any, d: Draw) -> Any:
    shapes = _leaves(d)

    def one(w: Any, g: Any, v: Any) -> Any:
        return w - 1e-4 * (m.numpy.sign(0.9 * v + 0.1 * g) + 0.01 * w), 0.99 * v + 0.01 * g

    fun = lambda ws, gs, vs: [one(w, g, v) for w, g, v in zip(ws, gs, vs, strict=True)]
    return fun, tuple([d.normal(*s) for s in shapes] for _ in range(3))


@program("layerwise rates", grad=False, narrow=False)
def layerwise(m: Any, d: Draw) -> Any:
    shapes = _leaves(d)

    def one(w: Any, g: Any) -> Any:
        rate = m.numpy.sqrt((w * w).sum()) / (m.numpy.sqrt((g * g).sum()) + 1e-6)
        return w - 1e-3 * rate * g

    fun = lambda ws, gs: [one(w, g) for w, g in zip(ws, gs, strict=True)]
    return fun, tuple([d.normal(*s) for s in shapes] for _ in range(2))


@program("average of leaves", grad=False, narrow=False)
def averaged(m: Any, d: Draw) -> Any:
    count, width = d.pick(30, 300, 1000), d.pick(8, 64, 300)
    fun = lambda old, new: [0.99 * a + 0.01 * b for a, b in zip(old, new, strict=True)]
    return fun, tuple([d.normal(width) for _ in range(count)] for _ in range(2))


@program("orthogonal momentum", grad=False, narrow=False)
def orthogonal(m: Any, d: Draw) -> Any:
    rows, width = d.pick(64, 256, 1000), d.pick(64, 512)

    def fun(g: Any) -> Any:
        x = g / (m.numpy.sqrt((g * g).sum()) + 1e-6)
        for _ in range(5):
            a = x @ x.T
            x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
        return x

    return fun, (d.normal(rows, width),)


@program("whole step of a network", grad=False)
def whole_step(m: Any, d: Draw) -> Any:
    rows, width, depth = d.near(32, 2048), d.pick(32, 128, 512), d.pick(2, 6)

    def loss(ws: Any, x: Any, y: Any) -> Any:
        for w in ws:
            x = m.numpy.tanh(x @ w)
        return ((x - y) ** 2).mean()

    def fun(ws: Any, x: Any, y: Any) -> Any:
        value, gs = m.value_and_grad(loss)(ws, x, y)
        return value, [w - 0.1 * g for w, g in zip(ws, gs, strict=True)]

    weights = [d.normal(width, width, scale=width**-0.5) for _ in range(depth)]
    return fun, (weights, d.normal(rows, width), d.normal(rows, width))
