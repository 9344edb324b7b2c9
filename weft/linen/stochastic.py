"""Layers that draw random numbers: Dropout, and the dropping of whole residual branches."""

from collections.abc import Sequence
from typing import Any

import weft
from weft import lax, random
from weft import numpy as jnp
from weft.linen.module import Module, compact, merge_param


class Dropout(Module):
    """A layer that sets elements to zero with probability ``rate``, and scales the others up.

    The key comes from the stream 'dropout': ``apply(..., rngs={"dropout": key})``.

    Args:
        rate: the probability, from 0 to 1.
        broadcast_dims: axes along which all elements share their fate.
        deterministic: switch the layer off, as at test time. It can be given to the call instead.
        rng_collection: the name of the random stream.

    Example:
        >>> import weft
        >>> layer = Dropout(rate=0.5, deterministic=False)
        >>> layer.apply({}, jnp.ones(4), rngs={"dropout": weft.random.key(0)}).shape
        (4,)
    """

    rate: float
    broadcast_dims: Sequence[int] = ()
    deterministic: bool | None = None
    rng_collection: str = "dropout"

    @compact
    def __call__(
        self, inputs: Any, deterministic: bool | None = None, rng: Any = None
    ) -> weft.Array:
        """Drop elements, or with ``deterministic`` return the inputs."""
        deterministic = merge_param("deterministic", self.deterministic, deterministic)
        if self.rate == 0.0 or deterministic:
            return inputs
        if self.rate == 1.0:
            return jnp.zeros_like(inputs)
        keep = 1.0 - self.rate
        key = self.make_rng(self.rng_collection) if rng is None else rng
        shape = list(inputs.shape)
        for axis in self.broadcast_dims:
            shape[axis] = 1
        mask = jnp.broadcast_to(random.bernoulli(key, p=keep, shape=tuple(shape)), inputs.shape)
        return lax.select(mask, inputs / keep, jnp.zeros_like(inputs))


class StochasticDepth(Module):
    """A layer that drops whole examples with probability ``rate``, and scales the others up.

    Reference: Huang et al., Deep Networks with Stochastic Depth, 2016.

    Args:
        rate: the probability, from 0 to 1.
        deterministic: switch the layer off, as at test time. It can be given to the call instead.
        rng_collection: the name of the random stream.

    Example:
        >>> import weft
        >>> layer = StochasticDepth(rate=0.5, deterministic=False)
        >>> y = layer.apply({}, jnp.ones((4, 3)), rngs={"dropout": weft.random.key(0)})
        >>> bool((y == y[:, :1]).all())
        True
    """

    rate: float
    deterministic: bool | None = None
    rng_collection: str = "dropout"

    @compact
    def __call__(self, inputs: Any, deterministic: bool | None = None) -> weft.Array:
        """Drop examples (along the first axis), or with ``deterministic`` return the inputs."""
        inner = tuple(range(1, inputs.ndim))
        deterministic = merge_param("deterministic", self.deterministic, deterministic)
        if self.rate == 0.0 or deterministic:
            return inputs
        key = self.make_rng(self.rng_collection)
        return Dropout(self.rate, broadcast_dims=inner)(inputs, deterministic=False, rng=key)
