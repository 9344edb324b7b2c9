"""Functions of arrays of one size ``n``, for tests of code that serves many sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft
import weft.numpy as jnp
import weft.scipy.special
from weft import lax

_draw = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return jnp.asarray(_draw.normal(size=shape).astype(np.float32))


def integers(most: int, *shape: int) -> Any:
    return jnp.asarray(_draw.integers(0, most, size=shape).astype(np.int32))


FUNCTIONS: dict[str, Any] = {
    "add": (lambda x, y: x * y + 1, lambda n: (floats(n, 5), floats(n, 5))),
    "bcast": (lambda x, y: jnp.exp(x)[:, None] * y, lambda n: (floats(n), floats(n, 7))),
    "softmax": (lambda x: weft.nn.softmax(x, -1), lambda n: (floats(6, n),)),
    "softmax0": (lambda x: weft.nn.softmax(x, 0), lambda n: (floats(n, 9),)),
    "lnorm": (
        lambda x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5),
        lambda n: (floats(n, 32),),
    ),
    "mean all": (lambda x: x.mean(), lambda n: (floats(n, 33),)),
    "transp": (lambda x: x.T + 1, lambda n: (floats(n, 40),)),
    "reshape": (lambda x: x.reshape(-1) * 2, lambda n: (floats(n, 6),)),
    "concat": (lambda x, y: jnp.concatenate([x, y], 0) * 2, lambda n: (floats(n, 3), floats(n, 3))),
    "concat2": (
        lambda x, y: jnp.concatenate([x, y], 1).sum(0),
        lambda n: (floats(n, 3), floats(n, 4)),
    ),
    "pad": (lambda x: jnp.pad(x, ((1, 2), (0, 3))) + 1, lambda n: (floats(n, 4),)),
    "slice": (lambda x: x[1:-1, :2] * 3, lambda n: (floats(n, 4),)),
    "stride": (lambda x: x[::2] * 3, lambda n: (floats(2 * n, 4),)),
    "rev": (lambda x: x[::-1] + x, lambda n: (floats(n, 4),)),
    "gather": (lambda x, i: x[i], lambda n: (floats(n, 4), integers(n, 5))),
    "gather2": (lambda x, i: x[i] * 2, lambda n: (floats(11, 4), integers(11, n))),
    "take_along": (
        lambda x, i: jnp.take_along_axis(x, i, 1),
        lambda n: (floats(n, 8), integers(8, n, 3)),
    ),
    "scatter add": (lambda x, i: jnp.zeros(7).at[i].add(x), lambda n: (floats(n), integers(7, n))),
    "scatter set": (
        lambda x, i, u: x.at[i].set(u),
        lambda n: (floats(n, 3), integers(4, 4), floats(4, 3)),
    ),
    "dus": (
        lambda x, u: lax.dynamic_update_slice(x, u, (1, 0)),
        lambda n: (floats(n, 3), floats(2, 3)),
    ),
    "ds": (
        lambda x, i: lax.dynamic_slice(x, (i, 0), (2, 3)),
        lambda n: (floats(n, 3), jnp.int32(1)),
    ),
    "cumsum": (lambda x: jnp.cumsum(x, 0), lambda n: (floats(n, 3),)),
    "cumsum1": (lambda x: jnp.cumsum(x, 1) * 2, lambda n: (floats(3, n),)),
    "sort": (lambda x: jnp.sort(x), lambda n: (floats(4, n),)),
    "argsort": (lambda x: jnp.argsort(x, 0), lambda n: (floats(n, 4),)),
    "topk": (lambda x: lax.top_k(x, 2), lambda n: (floats(n, 9),)),
    "argmax": (lambda x: jnp.argmax(x, -1), lambda n: (floats(3, n),)),
    "iota": (lambda x: jnp.arange(x.shape[0]) * x, lambda n: (floats(n),)),
    "onehot": (lambda i: weft.nn.one_hot(i, 9), lambda n: (integers(9, n),)),
    "mm": (lambda x, w: x @ w, lambda n: (floats(n, 16), floats(16, 24))),
    "mm k": (lambda x, w: x @ w, lambda n: (floats(8, n), floats(n, 24))),
    "mm nn": (lambda x, w: x @ w, lambda n: (floats(n, n + 1), floats(n + 1, 24))),
    "bmm": (
        lambda x, w: jnp.einsum("bij,bjk->bik", x, w),
        lambda n: (floats(n, 6, 7), floats(n, 7, 9)),
    ),
    "attn": (
        lambda q, k, v: (
            weft.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / 4.0) @ jnp.swapaxes(v, 1, 2)
        ),
        lambda n: (floats(2, n, 4, 16), floats(2, n, 4, 16), floats(2, n, 4, 16)),
    ),
    "mm epi": (
        lambda x, w, b: weft.nn.relu(x @ w + b),
        lambda n: (floats(n, 64), floats(64, 64), floats(64)),
    ),
    "mv": (lambda x, w: x @ w, lambda n: (floats(n, 64), floats(64))),
    "vm": (lambda x, w: x @ w, lambda n: (floats(n), floats(n, 64))),
    "conv": (
        lambda x, k: lax.conv_general_dilated(
            x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        lambda n: (floats(n, 8, 8, 3), floats(3, 3, 3, 4)),
    ),
    "conv hw": (
        lambda x, k: lax.conv_general_dilated(
            x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        lambda n: (floats(2, n, 8, 3), floats(3, 3, 3, 4)),
    ),
    "maxpool": (
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        lambda n: (floats(n, 8, 8, 3),),
    ),
    "scan": (
        lambda h, xs: lax.scan(lambda h, x: (jnp.tanh(h * 0.5 + x), h), h, xs),
        lambda n: (floats(5), floats(n, 5)),
    ),
    "scan b": (
        lambda h, xs, w: lax.scan(lambda h, x: (jnp.tanh(h @ w + x), h.sum()), h, xs),
        lambda n: (floats(n, 16), floats(7, n, 16), floats(16, 16)),
    ),
    "grad scan": (
        weft.grad(
            lambda w, h, xs: lax.scan(lambda h, x: (jnp.tanh(h @ w + x), h.sum()), h, xs)[1].sum()
        ),
        lambda n: (0.2 * floats(16, 16), floats(3, 16), floats(n, 3, 16)),
    ),
    "fori": (lambda x: lax.fori_loop(0, 5, lambda i, c: c * 0.9 + i, x), lambda n: (floats(n),)),
    "while": (
        lambda x: lax.while_loop(lambda c: c.sum() < 100, lambda c: c + 1, x),
        lambda n: (jnp.abs(floats(n)),),
    ),
    "cond": (
        lambda p, x: lax.cond(p, lambda x: x * 2, lambda x: x.sum() + x, x),
        lambda n: (jnp.bool_(True), floats(n, 3)),
    ),
    "rng": (
        lambda k, x: x + weft.random.normal(k, x.shape),
        lambda n: (weft.random.key(0), floats(n, 3)),
    ),
    "bern": (
        lambda k, x: jnp.where(weft.random.bernoulli(k, 0.5, x.shape), x, 0),
        lambda n: (weft.random.key(0), floats(n, 3)),
    ),
    "fft": (lambda x: jnp.abs(jnp.fft.fft(x)), lambda n: (floats(3, n),)),
    "fftb": (lambda x: jnp.abs(jnp.fft.fft(x)), lambda n: (floats(n, 16),)),
    "chol": (
        lambda x: jnp.linalg.cholesky(x @ x.T + 10 * jnp.eye(x.shape[0])),
        lambda n: (floats(n, n),),
    ),
    "solveb": (
        lambda a, b: jnp.linalg.solve(a, b),
        lambda n: (floats(n, 4, 4) + 5 * jnp.eye(4), floats(n, 4, 2)),
    ),
    "clip": (lambda x: jnp.clip(x, -1, 1), lambda n: (floats(n, 3),)),
    "lse": (lambda x: weft.nn.logsumexp(x, -1), lambda n: (floats(n, 30),)),
    "var0": (lambda x: x.var(0), lambda n: (floats(n, 30),)),
    "std all": (lambda x: x.std(), lambda n: (floats(n, 3000),)),
    "bool any": (lambda x: (x > 0).any(0), lambda n: (floats(n, 3),)),
    "int sum": (lambda i: i.sum(0), lambda n: (integers(9, n, 4),)),
    "tril": (lambda x: jnp.tril(x), lambda n: (floats(n, n),)),
    "causal": (
        lambda x: jnp.where(
            jnp.arange(x.shape[0])[:, None] >= jnp.arange(x.shape[0])[None], x, -1e9
        ),
        lambda n: (floats(n, n),),
    ),
    "repeat": (lambda x: jnp.repeat(x, 3, axis=0), lambda n: (floats(n, 3),)),
    "tile": (lambda x: jnp.tile(x, (2, 3)), lambda n: (floats(n, 3),)),
    "roll": (lambda x: jnp.roll(x, 2, 0), lambda n: (floats(n, 3),)),
    "outer": (lambda x, y: jnp.outer(x, y), lambda n: (floats(n), floats(n))),
    "split": (lambda x: jnp.split(x, 2, 0), lambda n: (floats(2 * n, 3),)),
    "stack": (lambda x, y: jnp.stack([x, y], 1), lambda n: (floats(n, 3), floats(n, 3))),
    "bf16": (
        lambda x, w: (x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16)).astype(jnp.float32),
        lambda n: (floats(n, 32), floats(32, 16)),
    ),
    "complex": (lambda x: jnp.exp(1j * x) * x, lambda n: (floats(n, 3),)),
    "cplx mm": (lambda x: (x * 1j) @ (x.T + 1j), lambda n: (floats(n, 8),)),
    "searchs": (lambda a, v: jnp.searchsorted(jnp.sort(a), v), lambda n: (floats(n), floats(8))),
    "embed": (lambda e, i: (e[i] * 2).sum(1), lambda n: (floats(20, 8), integers(20, 4, n))),
    "grad embed": (
        weft.grad(lambda e, i: (e[i] ** 2).sum()),
        lambda n: (floats(20, 8), integers(20, 4, n)),
    ),
    "vmap": (weft.vmap(lambda x: jnp.dot(x, x)), lambda n: (floats(n, 9),)),
    "hess": (weft.hessian(lambda x: (x**3).sum()), lambda n: (floats(n),)),
    "jac": (weft.jacrev(lambda x: jnp.sin(x) * x.sum()), lambda n: (floats(n),)),
    "lgamma": (lambda x: weft.scipy.special.gammaln(jnp.abs(x) + 1), lambda n: (floats(n, 3),)),
    "erfinv": (lambda x: lax.erf_inv(jnp.tanh(x)), lambda n: (floats(n, 3),)),
    "unique seg": (
        lambda x, i: weft.ops.segment_sum(x, i, 5),
        lambda n: (floats(n, 3), integers(5, n)),
    ),
    "cumlse": (lambda x: lax.cumlogsumexp(x, axis=0), lambda n: (floats(n, 3),)),
    "assoc": (lambda x: lax.associative_scan(jnp.add, x), lambda n: (floats(n, 3),)),
    "mapl": (lambda x: lax.map(lambda r: jnp.sin(r).sum(), x), lambda n: (floats(n, 3),)),
    "perm": (
        lambda k, x: weft.random.permutation(k, x),
        lambda n: (weft.random.key(1), floats(n, 2)),
    ),
    "cat": (
        lambda k, x: weft.random.categorical(k, x),
        lambda n: (weft.random.key(1), floats(n, 6)),
    ),
    "gamma": (
        lambda k, x: weft.random.gamma(k, jnp.abs(x) + 0.5),
        lambda n: (weft.random.key(1), floats(n)),
    ),
    "median": (lambda x: jnp.median(x, 0), lambda n: (floats(n, 6),)),
    "quant": (lambda x: jnp.quantile(x, 0.3, axis=-1), lambda n: (floats(6, n),)),
    "interp": (
        lambda x, a, b: jnp.interp(x, jnp.sort(a), b),
        lambda n: (floats(5), floats(n), floats(n)),
    ),
    "polyv": (lambda p, x: jnp.polyval(p, x), lambda n: (floats(4), floats(n))),
    "convolve": (lambda x, k: jnp.convolve(x, k), lambda n: (floats(n), floats(3))),
    "eigh": (lambda x: jnp.linalg.eigh(x @ x.T)[0], lambda n: (floats(n, n),)),
    "qr": (lambda x: jnp.abs(jnp.linalg.qr(x)[1]), lambda n: (floats(n, 4),)),
    "trisolve": (
        lambda x, b: lax.linalg.triangular_solve(
            jnp.tril(x) + 5 * jnp.eye(4), b, left_side=True, lower=True
        ),
        lambda n: (floats(4, 4), floats(4, n)),
    ),
}
