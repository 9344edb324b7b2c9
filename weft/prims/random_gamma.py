"""Samples of gamma distributions, by the rejection method of Marsaglia and Tsang (2000)."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.core.ad import Zero
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, at_front
from weft.core.factors import Factors, leading
from weft.core.primitive import Primitive
from weft.prims.arithmetic import div, mul
from weft.prims.erf_inv_reference import erf_inv
from weft.prims.families import FLOAT, broadcast_to, const, kind_of
from weft.prims.random import PRNGImpl, impl_of, is_key, threefry_impl, words_of
from weft.prims.selection import eq, select_n
from weft.prims.special import random_gamma_grad_p
from weft.prims.transcendental import exp_p


class Draws:
    """One number of a dtype for each key of a vector, as ``weft.random`` would draw it."""

    def __init__(self, impl: PRNGImpl, dtype: np.dtype) -> None:
        info = dtypes.finfo(dtype)
        self.impl, self.dtype = impl, dtype
        self.bits = 8 if info.nmant < 8 else info.bits
        self.unsigned = np.dtype(f"uint{info.bits}")
        self.shift = self.unsigned.type(self.bits - info.nmant)
        self.one = np.array(1.0, dtype)

    def uniform(self, words: np.ndarray) -> np.ndarray:
        raw = self.impl.random_bits(words, self.bits, ()).astype(self.unsigned)
        return ((raw >> self.shift) | self.one.view(self.unsigned)).view(self.dtype) - self.one

    def normal(self, words: np.ndarray) -> np.ndarray:
        low = np.nextafter(-self.one, 0 * self.one)
        u = self.uniform(words) * (self.one - low) + low
        return np.array(np.sqrt(2), self.dtype) * erf_inv(np.maximum(low, u))


def gamma_samples(
    words: np.ndarray, alpha: np.ndarray, impl: PRNGImpl, log_space: bool
) -> np.ndarray:
    """A sample, or its logarithm, of Gamma(alpha, 1) for each of a vector of keys."""
    draw = Draws(impl, alpha.dtype)
    third = np.array(1 / 3, alpha.dtype)
    large = alpha >= draw.one
    boosted = np.where(large, alpha, alpha + draw.one)
    d = boosted - third
    c = third / np.sqrt(d)
    keys = impl.split(words, (2,))
    v = _accepted_cubes(draw, keys[:, 0], c, d)
    # A sample for alpha + 1 becomes one for alpha by a factor u ** (1 / alpha).
    u = draw.uniform(keys[:, 1])
    zero = 0 * draw.one
    if log_space:
        log_u = np.log1p(-u)
        log_boost = np.where(large | (log_u == zero), zero, log_u * (draw.one / alpha))
        return (np.log(d) + np.log(v)) + log_boost
    boost = np.where(large, draw.one, np.power(draw.one - u, draw.one / alpha))
    return (d * v) * boost


def _accepted_cubes(draw: Draws, keys: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    """The first accepted ``(1 + c x) ** 3`` of each key."""
    squeeze, half = np.array(0.0331, draw.dtype), np.array(0.5, draw.dtype)
    v = np.ones_like(d)
    keys = keys.copy()
    active = np.flatnonzero(~np.isnan(d))
    while active.size:
        new = draw.impl.split(keys[active], (3,))
        keys[active] = new[:, 0]
        x, root = _positive_roots(draw, new[:, 1], c[active])
        square, cube = x * x, root * root * root
        u = draw.uniform(new[:, 2])
        v[active] = cube
        slope = d[active] * ((draw.one - cube) + np.log(cube))
        rejected = (u >= draw.one - squeeze * (square * square)) & (
            np.log(u) >= square * half + slope
        )
        active = active[rejected]
    return v


def _positive_roots(draw: Draws, keys: np.ndarray, c: np.ndarray) -> tuple[Any, Any]:
    """The first normal number ``x`` of each key with ``1 + c x > 0``, and that root."""
    x, root = np.zeros_like(c), -np.ones_like(c)
    keys = keys.copy()
    active = np.arange(c.size)
    while active.size:
        new = draw.impl.split(keys[active], (2,))
        keys[active] = new[:, 0]
        x[active] = draw.normal(new[:, 1])
        root[active] = draw.one + x[active] * c[active]
        active = active[root[active] <= 0]
    return x, root


class RandomGamma(Primitive):
    """Samples of gamma distributions, or their logarithms."""

    name = "random_gamma"
    neutral = "draws.random_gamma"
    costly = True
    holes = {"transpose": "not linear"}

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        keys = len(avals[0].shape)
        rest = len(outs[0].shape) - keys
        return leading(avals, outs, [0, *[rest] * (len(avals) - 1)], [rest])

    def shard(self, specs: Any, avals: Any, outs: Any, params: dict[str, Any]) -> Any:
        return [specs[1]]

    def shape(self, key: Any, a: Any, *, log_space: bool) -> ShapedArray:
        if not is_key(key.dtype) or kind_of(a.dtype) != FLOAT:
            raise TypeError(
                "random_gamma takes random keys and a floating operand, got"
                f" {key.str_short()} and {a.str_short()}"
            )
        if a.shape[: len(key.shape)] != key.shape:
            raise ValueError(
                f"random_gamma needs keys for the leading dimensions of {a.str_short()}, got"
                f" {key.str_short()}"
            )
        return a

    @staticmethod
    def ref(key: np.ndarray, a: np.ndarray, *, log_space: bool) -> np.ndarray:
        impl = impl_of(key)
        words = words_of(key)
        each = prod(a.shape[key.ndim :])
        flat = words.reshape(-1, *impl.key_shape)
        keys = impl.split(flat, (each,)).reshape(-1, *impl.key_shape)
        alphas = a.reshape(-1)
        if impl is threefry_impl:
            samples = gamma_samples(keys, alphas, impl, log_space)
        else:
            # Other generators may draw for a batch of keys from the first alone.
            samples = np.array(
                [
                    gamma_samples(keys[i : i + 1], alphas[i : i + 1], impl, log_space)[0]
                    for i in range(alphas.size)
                ],
                a.dtype,
            )
        return samples.reshape(a.shape)

    def jvp(self, primals: Any, tangents: Any, *, log_space: bool) -> tuple[Any, Any]:
        key, a = primals
        out = self.bind(key, a, log_space=log_space)
        if type(tangents[1]) is Zero:
            return out, Zero.from_primal(out)
        return out, mul(tangents[1], _derivative(out, a, log_space))

    def batch(self, axis: AxisData, args: Any, dims: Any, *, log_space: bool) -> tuple[Any, int]:
        key, a = (at_front(x, d, axis.size) for x, d in zip(args, dims, strict=True))
        return self.bind(key, a, log_space=log_space), 0


def _derivative(out: Any, a: Any, log_space: bool) -> Any:
    """The derivative of samples by ``a``, their quantiles held fixed."""
    if not log_space:
        return random_gamma_grad_p.bind(a, out)
    sample = exp_p.bind(out, accuracy=None)
    tiny = const(sample, float(dtypes.finfo(a.dtype).tiny))
    none = eq(sample, const(sample, 0))
    sample = select_n(none, sample, broadcast_to(tiny, np.shape(sample)))
    return div(random_gamma_grad_p.bind(a, sample), sample)


random_gamma_p = RandomGamma()
