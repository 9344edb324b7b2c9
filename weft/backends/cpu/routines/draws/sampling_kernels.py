"""Draws by rejection, the vector part: one attempt for each of a block of elements.

The kernels read and write short arrays that a stub of `sampling_stubs` fills and sorts out between
attempts, so that elements that were accepted are not drawn for again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.backends.cpu.code.loops import render
from weft.backends.llvm.code import Module
from weft.base.functional import lru
from weft.kernel import math as real
from weft.kernel.build import Builder
from weft.kernel.counts import stirling_tail
from weft.kernel.kernel import Affine, Buffer, Kernel, Store
from weft.kernel.math_parts import where
from weft.kernel.math_random import threefry2x32
from weft.kernel.nodes import F32, I32, U8, U32, U64, Value
from weft.kernel.spec import verify

# Elements of a block: in a long one those that are drawn for again fill their vectors.
ROOM = 1024
EACH = Affine(0, (("i", 1),))
Key = Sequence[Value]


def block_kernel(
    name: str,
    shared: Sequence[Any],
    ins: Sequence[Any],
    build: Callable[..., Sequence[Value]],
) -> Module:
    """The text of a kernel over a block: values that all elements share, those of each, results.

    It is ``void name(ptr buffers, i64 start, i64 stop)``; the buffers come in that order.
    """
    k = Builder()
    kinds = [*shared, *ins]
    places = [Affine()] * len(shared) + [EACH] * len(ins)
    loads = [k.load(i, kind, at) for i, (kind, at) in enumerate(zip(kinds, places, strict=True))]
    values = build(k, *loads)
    buffers = [Buffer(np.dtype(kind), ROOM, "in") for kind in kinds]
    buffers += [Buffer(v.dtype, ROOM, "out") for v in values]
    body = [Store(len(kinds) + i, EACH, v) for i, v in enumerate(values)]
    kernel = Kernel(name, buffers, ("i", ROOM), body)
    verify(kernel)
    return render(kernel)


def child(k: Builder, key: Key, number: int) -> Key:
    """One of the keys that a key is split into."""
    first, second = key
    return threefry2x32(k, first, second, k.const(0, U32), k.const(number, U32))


def uniform(k: Builder, key: Key, counter: Value, dtype: np.dtype) -> Value:
    """A number from 0 to 1."""
    first, second = key
    high, low = threefry2x32(k, first, second, k.const(0, U32), counter)
    if dtype == F32:
        unsigned: np.dtype = U32
        raw = k.xor(high, low)
    else:
        unsigned = U64
        raw = k.or_(k.shl(k.cast(high, U64), k.const(32, U64)), k.cast(low, U64))
    info = np.finfo(dtype)
    shifted = k.lshr(raw, k.const(info.bits - info.nmant, unsigned))
    one = k.const(1.0, dtype)
    return k.sub(k.bitcast(k.or_(shifted, k.bitcast(one, unsigned)), dtype), one)


def normal(k: Builder, key: Key, dtype: np.dtype) -> Value:
    """A number of the normal distribution."""
    low = np.nextafter(dtype.type(-1), dtype.type(0))
    x = uniform(k, key, k.const(0, U32), dtype)
    x = k.add(k.mul(x, k.like(x, dtype.type(1) - low)), k.like(x, low))
    x = k.max(x, k.like(x, low))
    return k.mul(k.like(x, np.sqrt(2)), real.erf_inv(k, x))


# --- the gamma distribution -----------------------------------------------------------------------


@lru(8)
def gamma_kernels(dtype: np.dtype, logs: bool, shared: bool) -> tuple[Module, Module, Module]:
    """The beginning, an attempt and the end of drawing samples, or their logarithms.

    The key and the number of the first draw are ``shared``, or each element has its own.
    """

    def begin(k: Builder, k0: Value, k1: Value, counter: Value, alpha: Value) -> list[Value]:
        if shared:
            counter = k.add(counter, k.position(EACH, U32))
        key = threefry2x32(k, k0, k1, k.const(0, U32), counter)
        one = k.like(alpha, 1.0)
        large = k.ge(alpha, one)
        d = k.sub(k.select(large, alpha, k.add(alpha, one)), k.like(alpha, 1 / 3))
        # a sample for alpha + 1 becomes one for alpha by a factor u**(1 / alpha)
        u = uniform(k, child(k, key, 1), k.const(0, U32), dtype)
        inverse = k.div(one, alpha)
        if logs:
            factor, none = real.log1p(k, k.neg(u)), k.like(alpha, 0.0)
            factor = where(k, k.eq(factor, none), 0.0, k.mul(factor, inverse))
        else:
            factor, none = real.pow(k, k.sub(one, u), inverse), one
        return [*key, d, k.rarely(k.not_(large), factor, none)]

    def attempt(
        k: Builder, k0: Value, k1: Value, d: Value, i0: Value, i1: Value, state: Value
    ) -> list[Value]:
        # the next key, or, where the root was not positive, the same one and another normal number
        again = k.eq(state, k.const(2, U8))
        key = [k.select(again, a, b) for a, b in zip((k0, k1), child(k, (k0, k1), 0), strict=True)]
        words = zip(child(k, (i0, i1), 0), child(k, key, 1), strict=True)
        inner = [k.rarely(again, a, b) for a, b in words]
        one = k.like(d, 1.0)
        c = k.div(k.like(d, 1 / 3), k.sqrt(d))
        x = normal(k, child(k, inner, 1), dtype)
        root = k.add(k.mul(x, c), one)
        square, cube = k.mul(x, x), k.mul(k.mul(root, root), root)
        u = uniform(k, child(k, key, 2), k.const(0, U32), dtype)
        inside = k.lt(u, k.sub(one, k.mul(k.like(d, 0.0331), k.mul(square, square))))
        log = real.log(k, cube)
        slope = k.mul(d, k.add(k.sub(one, cube), log))
        below = k.lt(real.log(k, u), k.add(k.mul(square, k.like(d, 0.5)), slope))
        accepted = k.or_(k.or_(inside, below), k.isnan(slope))
        state = k.select(accepted, k.const(0, I32), k.const(1, I32))
        state = k.cast(k.select(k.le(root, k.like(d, 0.0)), k.const(2, I32), state), U8)
        return [log if logs else cube, state, *key, *inner]

    def end(k: Builder, one: Value, d: Value, found: Value, factor: Value) -> list[Value]:
        if logs:
            # most often all are of the same distribution
            log = k.rarely(k.ne(d, one), real.log(k, d), real.log(k, one))
            return [k.add(k.add(log, found), factor)]
        return [k.mul(k.mul(d, found), factor)]

    words = (U32, U32, U32)
    each = (dtype,) if shared else (*words, dtype)
    return (
        block_kernel("begin", words if shared else (), each, begin),
        block_kernel("attempt", (), (U32, U32, dtype, U32, U32, U8), attempt),
        block_kernel("end", (dtype,), (dtype, dtype, dtype), end),
    )


# --- counts ---------------------------------------------------------------------------------------


def _left(k: Builder, condition: Value) -> Value:
    """1 for elements that are drawn for again."""
    return k.select(condition, k.const(1, I32), k.const(0, I32))


@lru(8)
def poisson_kernels(dtype: np.dtype) -> tuple[Module, Module]:
    """A factor of Knuth's product, and an attempt of Hoermann's rejection; both take the mean."""

    def wait(
        k: Builder, k0: Value, k1: Value, at: Value, lam: Value, _: Value, n: Value, log: Value
    ) -> list[Value]:
        log = k.add(log, real.log(k, uniform(k, (k0, k1), at, dtype)))
        return [k.add(n, k.like(n, 1.0)), log, _left(k, k.gt(log, k.neg(lam)))]

    def reject(k: Builder, *given: Value) -> list[Value]:
        u0, u1, v0, v1, at, lam, _ = given

        def of(x: float) -> Value:
            return k.like(lam, x)

        b = k.add(of(0.931), k.mul(of(2.53), k.sqrt(lam)))
        a = k.add(of(-0.059), k.mul(of(0.02483), b))
        inverse = k.add(of(1.1239), k.div(of(1.1328), k.sub(b, of(3.4))))
        bound = k.sub(of(0.9277), k.div(of(3.6224), k.sub(b, of(2.0))))
        u = k.sub(uniform(k, (u0, u1), at, dtype), of(0.5))
        v = uniform(k, (v0, v1), at, dtype)
        inner = k.sub(of(0.5), k.abs(u))
        slope = k.add(k.div(k.mul(of(2.0), a), inner), b)
        n = k.floor(k.add(k.add(k.mul(slope, u), lam), of(0.43)))
        s = k.div(k.mul(v, inverse), k.add(k.div(a, k.mul(inner, inner)), b))
        t = k.add(k.neg(lam), k.mul(n, real.log(k, lam)))
        t = k.sub(t, real.lgamma(k, k.add(n, of(1.0))))
        inside = k.and_(k.ge(inner, of(0.07)), k.le(v, bound))
        outside = k.and_(k.lt(inner, of(0.013)), k.gt(v, inner))
        outside = k.or_(k.lt(n, of(0.0)), outside)
        below = k.and_(k.not_(outside), k.le(real.log(k, s), t))
        return [n, _left(k, k.not_(k.or_(inside, below)))]

    return _count_kernels(dtype, wait, reject)


@lru(8)
def binomial_kernels(dtype: np.dtype) -> tuple[Module, Module]:
    """A waiting time, and an attempt of Hoermann's rejection; both take probability and trials."""
    tail = stirling_tail(dtype)

    def wait(
        k: Builder, k0: Value, k1: Value, at: Value, p: Value, trials: Value, n: Value, spent: Value
    ) -> list[Value]:
        log = real.log(k, uniform(k, (k0, k1), at, dtype))
        spent = k.add(spent, k.ceil(k.div(log, real.log1p(k, k.neg(p)))))
        return [k.add(n, k.like(n, 1.0)), spent, _left(k, k.le(spent, trials))]

    def end_of_series(k: Builder, x: Value) -> Value:
        out = k.select(k.isnan(x), x, k.like(x, tail[-1]))
        for i in reversed(range(len(tail) - 1)):
            out = where(k, k.le(x, k.like(x, float(i))), tail[i], out)
        return out

    def reject(k: Builder, *given: Value) -> list[Value]:
        u0, u1, v0, v1, at, p, trials = given

        def of(x: float) -> Value:
            return k.like(p, x)

        one, half = of(1.0), of(0.5)
        deviation = k.sqrt(k.mul(k.mul(trials, p), k.sub(one, p)))
        b = k.add(of(1.15), k.mul(of(2.53), deviation))
        a = k.add(k.add(of(-0.0873), k.mul(of(0.0248), b)), k.mul(of(0.01), p))
        bound = k.sub(of(0.92), k.div(of(4.2), b))
        r = k.div(p, k.sub(one, p))
        alpha = k.mul(k.add(of(2.83), k.div(of(5.1), b)), deviation)
        m = k.floor(k.mul(k.add(trials, one), p))
        u = k.sub(uniform(k, (u0, u1), at, dtype), half)
        v = uniform(k, (v0, v1), at, dtype)
        inner = k.sub(half, k.abs(u))
        slope = k.add(k.div(k.mul(of(2.0), a), inner), b)
        n = k.floor(k.add(k.mul(slope, u), k.add(k.mul(trials, p), half)))
        s = k.div(k.mul(v, alpha), k.add(k.div(a, k.mul(inner, inner)), b))
        rest, other = k.add(k.sub(trials, m), one), k.add(k.sub(trials, n), one)
        t = k.mul(k.add(m, half), real.log(k, k.div(k.add(m, one), k.mul(r, rest))))
        t = k.add(t, k.mul(k.add(trials, one), real.log(k, k.div(rest, other))))
        odds = real.log(k, k.div(k.mul(r, other), k.add(n, one)))
        t = k.add(t, k.mul(k.add(n, half), odds))
        t = k.add(k.add(t, end_of_series(k, m)), end_of_series(k, k.sub(trials, m)))
        t = k.sub(k.sub(t, end_of_series(k, n)), end_of_series(k, k.sub(trials, n)))
        inside = k.and_(k.ge(inner, of(0.07)), k.le(v, bound))
        outside = k.or_(k.lt(n, of(0.0)), k.gt(n, trials))
        below = k.and_(k.not_(outside), k.le(real.log(k, s), t))
        return [n, _left(k, k.not_(k.or_(inside, below)))]

    return _count_kernels(dtype, wait, reject)


def _count_kernels(dtype: np.dtype, wait: Any, reject: Any) -> tuple[Module, Module]:
    return (
        block_kernel("wait", (U32, U32), (U32, dtype, dtype, dtype, dtype), wait),
        block_kernel("reject", (U32, U32, U32, U32), (U32, dtype, dtype), reject),
    )
