"""Reductions, transforms, sorts and indexing."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.broad.drawing import Draw, program

# --- reductions -----------------------------------------------------------------------------------


@program("sum of rows")
def sum_rows(m: Any, d: Draw) -> Any:
    return (lambda x: (x * x).sum(-1)), (d.normal(*d.rows()),)


@program("sum of columns")
def sum_columns(m: Any, d: Draw) -> Any:
    return (lambda x: m.numpy.abs(x).sum(0)), (d.normal(*d.rows()),)


@program("middle axis")
def middle(m: Any, d: Draw) -> Any:
    rows, width = d.rows()
    axis = d.pick(2, 3, 8, 31)
    return (lambda x: x.mean(1)), (d.normal(max(1, rows // axis), axis, width),)


@program("arg max", grad=False)
def arg_max(m: Any, d: Draw) -> Any:
    return (lambda x: m.numpy.argmax(x, -1)), (d.normal(*d.rows()),)


@program("logsumexp")
def logsumexp(m: Any, d: Draw) -> Any:
    axis = d.pick(0, 1)
    return (lambda x: m.nn.logsumexp(x, axis)), (d.normal(*d.rows()),)


@program("normalised rows")
def normalised(m: Any, d: Draw) -> Any:
    fun = lambda x: x / m.numpy.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)
    return fun, (d.normal(*d.rows()),)


@program("covariance", narrow=False)
def covariance(m: Any, d: Draw) -> Any:
    rows, width = d.near(100, 20_000), d.pick(3, 16, 100, 512)

    def fun(x: Any) -> Any:
        x = x - x.mean(0)
        return x.T @ x / rows

    return fun, (d.normal(rows, width),)


@program("moving average")
def moving(m: Any, d: Draw) -> Any:
    rows, width = d.rows(1 << 23)
    size = min(width, d.pick(3, 7, 16))
    fun = lambda x: m.lax.reduce_window(
        x, x.dtype.type(0), m.lax.add, (1, size), (1, 1), "VALID"
    ) / size  # fmt: skip
    return fun, (d.normal(rows, width),)


@program("cumulative sum", narrow=False)
def cumulative(m: Any, d: Draw) -> Any:
    axis = d.pick(0, 1)
    return (lambda x: m.numpy.cumsum(x, axis)), (d.normal(*d.rows()),)


@program("linear recurrence", narrow=False)
def linear(m: Any, d: Draw) -> Any:
    steps, width = d.pick(100, 1000, 4096), d.pick(1, 16, 256)

    def fun(a: Any, b: Any) -> Any:
        join = lambda x, y: (x[0] * y[0], y[0] * x[1] + y[1])
        return m.lax.associative_scan(join, (m.nn.sigmoid(a), b))[1]

    return fun, (d.normal(steps, width), d.normal(steps, width))


@program("special functions", narrow=False)
def special(m: Any, d: Draw) -> Any:
    fun = lambda x: m.numpy.tanh(x) * m.numpy.exp(-x * x) + m.numpy.sin(x) / (1 + x * x)
    return fun, (d.normal(*d.rows()),)


@program("erf and gamma", narrow=False)
def erf(m: Any, d: Draw) -> Any:
    fun = lambda x: m.lax.erf(x) + m.lax.lgamma(x * x + 1) + m.numpy.log1p(x * x)
    return fun, (d.normal(*d.rows(1 << 22)),)


# --- transforms -----------------------------------------------------------------------------------


@program("spectral filter", narrow=False)
def spectral(m: Any, d: Draw) -> Any:
    rows, width = d.pick(1, 64, 1000), d.pick(64, 1000, 4096)

    def fun(x: Any, w: Any) -> Any:
        return m.numpy.fft.irfft(m.numpy.fft.rfft(x) * w, width)

    return fun, (d.normal(rows, width), d.normal(width // 2 + 1))


@program("spectral layer", narrow=False)
def spectral_layer(m: Any, d: Draw) -> Any:
    batch, side, width = d.pick(1, 8), d.pick(32, 64, 100), d.pick(4, 32)

    def fun(x: Any, w: Any) -> Any:
        y = m.numpy.fft.rfft2(x, axes=(2, 3))[:, :, :8, :8]
        y = m.numpy.einsum("bixy,ioxy->boxy", y, w * (1 + 1j))
        return m.numpy.fft.irfft2(y, s=(side, side), axes=(2, 3))

    return fun, (d.normal(batch, width, side, side), d.normal(width, width, 8, 8))


@program("five axes")
def five(m: Any, d: Draw) -> Any:
    b, n, k, h = d.pick(2, 8), d.pick(16, 64), d.pick(16, 50), d.pick(4, 8)
    fun = lambda x, y: m.numpy.einsum("bnhkd,bmhkd->hbnmk", x, y)
    return fun, (d.normal(b, n, h, k, 8), d.normal(b, n, h, k, 8))


@program("batched products")
def batched(m: Any, d: Draw) -> Any:
    count, size = d.pick(16, 200, 1000), d.pick(8, 31, 64, 128)
    order = d.pick("bij,bjk->bik", "bij,bkj->ikb", "ibj,bjk->ibk")
    return (lambda x, y: m.numpy.einsum(order, x, y)), (
        d.normal(*((size, count) if order[0] == "i" else (count, size)), size),
        d.normal(count, size, size),
    )


@program("matrix product", narrow=True)
def product(m: Any, d: Draw) -> Any:
    a, b, c = (d.pick(100, 256, 509, 1024, 2048) for _ in range(3))
    return (lambda x, y: x @ y), (d.normal(a, b), d.normal(b, c))


@program("hessian times vector", grad=False, narrow=False)
def hessian(m: Any, d: Draw) -> Any:
    rows, width = d.pick(64, 512), d.pick(32, 128, 512)

    def loss(w: Any, x: Any) -> Any:
        return (m.numpy.tanh(x @ w) ** 2).mean()

    def fun(w: Any, v: Any, x: Any) -> Any:
        return m.jvp(lambda w: m.grad(loss)(w, x), (w,), (v,))[1]

    return fun, (d.normal(width, width), d.normal(width, width), d.normal(rows, width))


@program("jacobian", grad=False, narrow=False)
def jacobian(m: Any, d: Draw) -> Any:
    width, hidden = d.pick(4, 16, 50), d.pick(32, 128)
    fun = lambda x, w, u: m.vmap(m.jacfwd(lambda x: m.numpy.tanh(x @ w) @ u))(x)
    return fun, (d.normal(64, width), d.normal(width, hidden), d.normal(hidden, width))


# --- sorts ----------------------------------------------------------------------------------------


@program("sort", narrow=False)
def sort(m: Any, d: Draw) -> Any:
    return (lambda x: m.numpy.sort(x, -1)), (d.normal(*d.rows(1 << 22)),)


@program("argsort", grad=False, narrow=False)
def argsort(m: Any, d: Draw) -> Any:
    return (lambda x: m.numpy.argsort(x, -1)), (d.normal(*d.rows(1 << 21)),)


@program("largest", narrow=False)
def largest(m: Any, d: Draw) -> Any:
    rows, width = d.rows(1 << 22)
    return (lambda x: m.lax.top_k(x, min(5, width))[0]), (d.normal(rows, width),)


@program("median", grad=False, narrow=False)
def median(m: Any, d: Draw) -> Any:
    return (lambda x: m.numpy.median(x, -1)), (d.normal(*d.rows(1 << 21)),)


@program("search", grad=False, narrow=False)
def search(m: Any, d: Draw) -> Any:
    count, wanted = d.near(100, 1 << 20), d.near(100, 1 << 20)
    return m.numpy.searchsorted, (np.sort(d.normal(count)), d.normal(wanted))


@program("histogram", grad=False, narrow=False)
def histogram(m: Any, d: Draw) -> Any:
    count, bins = d.near(1000, 1 << 22), d.pick(10, 256, 1000)
    return (lambda x: m.numpy.zeros(bins).at[x].add(1.0)), (d.whole(bins, count),)


# --- indexing -------------------------------------------------------------------------------------


@program("rows by index")
def taken(m: Any, d: Draw) -> Any:
    rows, width = d.rows()
    return (lambda x, at: x[at]), (d.normal(rows, width), d.whole(rows, min(2 * rows, 1 << 20)))


@program("one of each row")
def one_of_each(m: Any, d: Draw) -> Any:
    rows, width = d.rows()
    fun = lambda x, at: m.numpy.take_along_axis(x, at[:, None], 1)
    return fun, (d.normal(rows, width), d.whole(width, rows))


@program("scattered updates", narrow=False)
def scattered(m: Any, d: Draw) -> Any:
    rows, width = d.rows(1 << 22)
    count = min(rows, 1 << 16)
    fun = lambda x, at, u: x.at[at].add(u)
    return fun, (d.normal(rows, width), d.whole(rows, count), d.normal(count, width))


@program("concatenated")
def concatenated(m: Any, d: Draw) -> Any:
    rows, width = d.rows(1 << 23)
    axis = d.pick(0, 1)
    fun = lambda x, y: m.numpy.tanh(m.numpy.concatenate([x, y * 2, x + y], axis))
    return fun, (d.normal(rows, width), d.normal(rows, width))


@program("many parts", narrow=False)
def many_parts(m: Any, d: Draw) -> Any:
    count, size = d.pick(12, 100, 500), d.pick(1, 17, 1000)
    fun = lambda *xs: m.numpy.stack(xs) * 2
    return fun, tuple(d.normal(size) for _ in range(count))


@program("patches")
def patches(m: Any, d: Draw) -> Any:
    batch, side, size = d.near(1, 64), d.pick(32, 64, 224), d.pick(4, 8, 16)
    n = side // size

    def fun(x: Any) -> Any:
        y = x[:, : n * size, : n * size].reshape(batch, n, size, n, size, 3)
        return m.numpy.transpose(y, (0, 1, 3, 2, 4, 5)).reshape(batch, n * n, -1)

    return fun, (d.normal(batch, side, side, 3),)


@program("transposed sum")
def transposed_sum(m: Any, d: Draw) -> Any:
    rows, width = d.rows()
    return (lambda x, y: x.T + y), (d.normal(rows, width), d.normal(width, rows))


@program("padded and flipped")
def padded(m: Any, d: Draw) -> Any:
    rows, width = d.rows(1 << 23)
    fun = lambda x: m.numpy.pad(m.numpy.flip(x, 1), ((1, 2), (3, 0))) * 3
    return fun, (d.normal(rows, width),)


@program("outer sums")
def outer(m: Any, d: Draw) -> Any:
    a, b = d.near(100, 8000), d.near(100, 4000)
    fun = lambda x, y: m.nn.relu(x[:, None] + y[None]).sum(1)
    return fun, (d.normal(a), d.normal(b))


@program("interpolated", narrow=False)
def interpolated(m: Any, d: Draw) -> Any:
    batch, side, width = d.pick(1, 8), d.pick(32, 64, 100), d.pick(3, 16)
    fun = lambda x: m.image.resize(x, (batch, 2 * side, 2 * side, width), "bilinear")
    return fun, (d.normal(batch, side, side, width),)
