"""Counts of Poisson and binomial distributions, as floats.

All elements of a key draw from one chain of keys. For small means,
Knuth's product of uniform numbers and the waiting times between successes; for others, Hoermann's
transformed rejection with squeeze: "The transformed rejection method for generating Poisson random
variables" (1993, PTRS) and "The generation of binomial random variates" (1993, BTRS).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.core.ad import Zero
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, at_front
from weft.core.factors import Factors, leading
from weft.core.primitive import Primitive
from weft.kernel.counts import MOST, stirling_tail
from weft.prims.families import FLOAT, kind_of
from weft.prims.random import PRNGImpl, impl_of, is_key, words_of
from weft.prims.special_reference import lgamma


class _Chain:
    """The keys that all elements of a vector draw with, turn by turn."""

    def __init__(self, impl: PRNGImpl, words: np.ndarray, size: int) -> None:
        self.impl, self.words, self.size = impl, words, size

    def uniform(self, words: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Numbers from 0 to 1 of a key."""
        info = dtypes.finfo(dtype)
        width, unsigned = 8 if info.nmant < 8 else info.bits, np.dtype(f"uint{info.bits}")
        raw = self.impl.random_bits(words, width, (self.size,)).astype(unsigned)
        one = np.array(1.0, dtype)
        filled = (raw >> unsigned.type(width - info.nmant)) | one.view(unsigned)
        return filled.view(dtype) - one

    def wait(self, next_: int, active: np.ndarray, step: Callable[..., Any]) -> None:
        """Draws for active elements; ``step`` says who is left.

        A turn splits the key in two: one of these is for the next turn, the other to draw with.
        """
        words, turns = self.words, 0
        while active.any() and turns < MOST:
            new = self.impl.split(words, (2,))
            words = new[next_]
            active = step(active, new[1 - next_])
            turns += 1

    def reject(self, attempt: Callable[..., Any], dtype: np.dtype) -> np.ndarray:
        """Attempts until all elements have a number: the last that was accepted, as in JAX."""
        found, done = np.full(self.size, -1, dtype), np.zeros(self.size, bool)
        words, turns = self.words, 0
        while not done.all() and turns < MOST:
            words, *keys = self.impl.split(words, (3,))
            number, accepted = attempt(*(self.uniform(key, dtype) for key in keys))
            found = np.where(accepted, number, found)
            done |= accepted
            turns += 1
        return found


def _poisson_small(chain: _Chain, lam: np.ndarray) -> np.ndarray:
    """How many uniform numbers may be multiplied until exp(-lam) is passed."""
    count, product = np.zeros_like(lam), np.zeros_like(lam)

    def step(active: np.ndarray, key: np.ndarray) -> np.ndarray:
        count[active] += 1
        product[active] += np.log(chain.uniform(key, lam.dtype)[active])
        return product > -lam

    chain.wait(0, product > -lam, step)
    return count - 1


def _poisson_large(chain: _Chain, lam: np.ndarray) -> np.ndarray:
    f = lam.dtype.type
    b = f(0.931) + f(2.53) * np.sqrt(lam)
    a = f(-0.059) + f(0.02483) * b
    inverse = f(1.1239) + f(1.1328) / (b - f(3.4))
    bound = f(0.9277) - f(3.6224) / (b - f(2))

    def attempt(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        u = u - f(0.5)
        inner = f(0.5) - abs(u)
        k = np.floor((f(2) * a / inner + b) * u + lam + f(0.43))
        s = np.log(v * inverse / (a / (inner * inner) + b))
        t = -lam + k * np.log(lam) - lgamma(k + f(1))
        inside = (inner >= f(0.07)) & (v <= bound)
        outside = (k < 0) | ((inner < f(0.013)) & (v > inner))
        return k, inside | (~outside & (s <= t))

    return chain.reject(attempt, lam.dtype)


def poisson_counts(chain: _Chain, lam: np.ndarray) -> np.ndarray:
    """A count for each of a vector of means."""
    small, f = np.isnan(lam) | (lam < 10), lam.dtype.type
    found = _poisson_small(chain, np.where(small, lam, f(0)))
    if not small.all():
        found = np.where(small, found, _poisson_large(chain, np.where(small, f(1e5), lam)))
    return np.where(lam == 0, f(0), found)


def _binomial_few(chain: _Chain, trials: np.ndarray, p: np.ndarray) -> np.ndarray:
    """How many geometric waiting times fit into the trials."""
    count, spent = np.zeros_like(p), np.zeros_like(p)
    log_failure = np.log1p(-p)

    def step(active: np.ndarray, key: np.ndarray) -> np.ndarray:
        count[active] += 1
        times = np.ceil(np.log(chain.uniform(key, p.dtype)) / log_failure)
        spent[active] += times[active]
        return spent <= trials

    chain.wait(1, spent <= trials, step)
    return count - 1


def _stirling_tail(k: np.ndarray) -> np.ndarray:
    """log(k!) less Stirling's approximation of it; beyond 9 that of 9, as JAX has it."""
    table = np.array(stirling_tail(k.dtype), k.dtype)
    known = table[np.where(k <= 9, np.maximum(k, 0), 10).astype(int)]
    return np.where(np.isnan(k), k, known)


def _binomial_many(chain: _Chain, n: np.ndarray, p: np.ndarray) -> np.ndarray:
    f = p.dtype.type
    one, half = f(1), f(0.5)
    deviation = np.sqrt(n * p * (one - p))
    b = f(1.15) + f(2.53) * deviation
    a = f(-0.0873) + f(0.0248) * b + f(0.01) * p
    bound = f(0.92) - f(4.2) / b
    r = p / (one - p)
    alpha = (f(2.83) + f(5.1) / b) * deviation
    m = np.floor((n + one) * p)

    def attempt(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        u = u - half
        inner = half - abs(u)
        k = np.floor((f(2) * a / inner + b) * u + (n * p + half))
        s = np.log(v * alpha / (a / (inner * inner) + b))
        t = (
            (m + half) * np.log((m + one) / (r * (n - m + one)))
            + (n + one) * np.log((n - m + one) / (n - k + one))
            + (k + half) * np.log(r * (n - k + one) / (k + one))
            + _stirling_tail(m)
            + _stirling_tail(n - m)
            - _stirling_tail(k)
            - _stirling_tail(n - k)
        )
        inside = (inner >= f(0.07)) & (v <= bound)
        outside = (k < 0) | (k > n)
        return k, inside | (~outside & (s <= t))

    return chain.reject(attempt, p.dtype)


def binomial_counts(chain: _Chain, n: np.ndarray, p: np.ndarray, few: np.ndarray) -> np.ndarray:
    """A count for each of a vector of trials and probabilities; by waiting times where few."""
    f = p.dtype.type
    found = _binomial_few(chain, np.where(few, n, f(0)), p)
    if few.all():
        return found
    many = _binomial_many(chain, np.where(few, f(1e4), n), np.where(few, f(0.5), p))
    return np.where(few, found, many)


# --- primitives -----------------------------------------------------------------------------------


class _Counts(Primitive):
    """Counts for keys, which are those of the leading dimensions of the operands."""

    costly = True
    holes = {"transpose": "not linear"}

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        keys = len(avals[0].shape)
        rest = len(outs[0].shape) - keys
        return leading(avals, outs, [0, *[rest] * (len(avals) - 1)], [rest])

    def shard(self, specs: Any, avals: Any, outs: Any, params: dict[str, Any]) -> Any:
        return [specs[1]]

    def shape(self, key: Any, *operands: Any) -> ShapedArray:
        first = operands[0]
        if not is_key(key.dtype) or kind_of(first.dtype) != FLOAT:
            raise TypeError(
                f"{self.name} takes random keys and floating operands, got {key.str_short()} and"
                f" {first.str_short()}"
            )
        if first.shape[: len(key.shape)] != key.shape:
            raise ValueError(
                f"{self.name} needs keys for the leading dimensions of {first.str_short()}, got"
                f" {key.str_short()}"
            )
        if any(x.shape != first.shape for x in operands):
            given = ", ".join(x.str_short() for x in operands)
            raise ValueError(f"{self.name} takes operands of one shape, got {given}")
        wanted = [first.dtype, first.dtype, np.dtype(np.bool_)][: len(operands)]
        if [x.dtype for x in operands] != wanted:
            given = ", ".join(x.str_short() for x in operands)
            raise TypeError(f"{self.name} takes operands of one floating dtype, got {given}")
        return first.strip_weak_type()

    def jvp(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        out = self.bind(*primals)
        return out, Zero.from_primal(out)

    def batch(self, axis: AxisData, args: Any, dims: Any) -> tuple[Any, int]:
        moved = [at_front(x, d, axis.size) for x, d in zip(args, dims, strict=True)]
        return self.bind(*moved), 0


def _by_key(draw: Callable[..., np.ndarray], key: np.ndarray, *operands: np.ndarray) -> np.ndarray:
    """Counts of each key, for the operands that are its."""
    with np.errstate(all="ignore"):
        impl, size = impl_of(key), prod(operands[0].shape[key.ndim :])
        words = words_of(key).reshape(-1, *impl.key_shape)
        rows = [x.reshape(len(words), size) for x in operands]
        found = [draw(_Chain(impl, w, size), *row) for w, *row in zip(words, *rows, strict=True)]
        return np.array(found, operands[0].dtype).reshape(operands[0].shape)


class RandomPoisson(_Counts):
    """Counts of Poisson distributions of given means; -1 for a mean that is none."""

    name = "random_poisson"
    neutral = "draws.random_poisson"

    @staticmethod
    def ref(key: np.ndarray, lam: np.ndarray) -> np.ndarray:
        return _by_key(poisson_counts, key, lam)


class RandomBinomial(_Counts):
    """Counts of binomial distributions: trials, probabilities up to 1/2, whether few succeed."""

    name = "random_binomial"
    neutral = "draws.random_binomial"

    @staticmethod
    def ref(key: np.ndarray, n: np.ndarray, p: np.ndarray, few: np.ndarray) -> np.ndarray:
        return _by_key(binomial_counts, key, n, p, few)


random_poisson_p, random_binomial_p = RandomPoisson(), RandomBinomial()
