"""Samples of gamma, Poisson and binomial distributions, by rejection; counts are floats.

Gamma: Marsaglia and Tsang (2000), a chain of keys for each element. Counts of a key draw from one
chain: for small means, Knuth's product of uniform numbers and the waiting times between successes;
for others, Hoermann's transformed rejection with squeeze: "The transformed rejection method for
generating Poisson random variables" (1993, PTRS) and "The generation of binomial random variates"
(1993, BTRS). The methods are in `lowerings/draws.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.base import knobs
from weft.base.lazy import Late
from weft.core.ad import Zero
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, at_front
from weft.core.interpret import run_decomposed
from weft.core.primitive import Primitive
from weft.division.factors import Factors, leading
from weft.prims.arithmetic import div, mul
from weft.prims.families import FLOAT, broadcast_to, const, kind_of
from weft.prims.random import impl_of, is_key, is_partitionable, key_type
from weft.prims.selection import eq, select_n
from weft.prims.special import random_gamma_grad_p
from weft.prims.transcendental import exp_p

lowerings = Late("weft.prims.lowerings.draws")


class Draws(Primitive):
    """Samples for keys, which are those of the leading dimensions of the operands."""

    costly = True
    holes = {"transpose": "not linear"}

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        keys = len(avals[0].shape)
        rest = len(outs[0].shape) - keys
        return leading(avals, outs, [0, *[rest] * (len(avals) - 1)], [rest])

    def checked(self, key: Any, *operands: Any) -> ShapedArray:
        """The type of samples for keys and operands, which have to fit."""
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

    def decompose(self, *args: Any, partitionable: bool = True, **params: Any) -> Any:
        with knobs.threefry_partitionable(partitionable):
            return getattr(lowerings, self.name)(*args, **params)

    def expands(self, avals: Any, params: dict[str, Any]) -> bool:
        return avals[0].dtype.name != "key<fry>" or not is_partitionable(params)

    def ref(self, key: np.ndarray, *operands: np.ndarray, **params: Any) -> np.ndarray:
        avals = [ShapedArray(key.shape, key_type(impl_of(key)))]
        avals += [ShapedArray(x.shape, x.dtype) for x in operands]
        return run_decomposed(self, avals, [key, *operands], params)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        out = self.bind(*primals, **params)
        return out, Zero.from_primal(out)

    def batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
        moved = [at_front(x, d, axis.size) for x, d in zip(args, dims, strict=True)]
        return self.bind(*moved, **params), 0


class RandomGamma(Draws):
    """Samples of gamma distributions, or their logarithms."""

    name = "random_gamma"
    neutral = "draws.random_gamma"

    def shape(
        self, key: Any, a: Any, *, log_space: bool, partitionable: bool = True
    ) -> ShapedArray:
        return self.checked(key, a)

    def jvp(
        self, primals: Any, tangents: Any, *, log_space: bool, **params: Any
    ) -> tuple[Any, Any]:
        key, a = primals
        out = self.bind(key, a, log_space=log_space, **params)
        if type(tangents[1]) is Zero:
            return out, Zero.from_primal(out)
        return out, mul(tangents[1], _derivative(out, a, log_space))


def _derivative(out: Any, a: Any, log_space: bool) -> Any:
    """The derivative of samples by ``a``, their quantiles held fixed."""
    if not log_space:
        return random_gamma_grad_p.bind(a, out)
    sample = exp_p.bind(out, accuracy=None)
    tiny = const(sample, float(dtypes.finfo(a.dtype).tiny))
    none = eq(sample, const(sample, 0))
    sample = select_n(none, sample, broadcast_to(tiny, np.shape(sample)))
    return div(random_gamma_grad_p.bind(a, sample), sample)


class RandomPoisson(Draws):
    """Counts of Poisson distributions of given means; -1 for a mean that is none."""

    name = "random_poisson"
    neutral = "draws.random_poisson"

    def shape(self, key: Any, lam: Any, *, partitionable: bool = True) -> ShapedArray:
        return self.checked(key, lam)


class RandomBinomial(Draws):
    """Counts of binomial distributions: trials, probabilities up to 1/2, whether few succeed."""

    name = "random_binomial"
    neutral = "draws.random_binomial"

    def shape(
        self, key: Any, n: Any, p: Any, few: Any, *, partitionable: bool = True
    ) -> ShapedArray:
        return self.checked(key, n, p, few)


random_gamma_p, random_poisson_p, random_binomial_p = (
    RandomGamma(),
    RandomPoisson(),
    RandomBinomial(),
)
