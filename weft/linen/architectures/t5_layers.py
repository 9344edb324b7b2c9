"""The parts of T5: relative positions, attention with a cache, the feed-forward part."""

import numpy as np

from weft import lax
from weft import linen as nn
from weft import numpy as jnp
from weft.linen.architectures.t5_config import T5Config


def norm(config: T5Config, name: str) -> nn.Module:
    """Division by the root mean square."""
    return nn.RMSNorm(config.epsilon, config.dtype, name=name)


def drop(config: T5Config, x, deterministic: bool):
    """Dropout with one mask for all positions."""
    return nn.Dropout(config.dropout_rate, broadcast_dims=(-2,))(x, deterministic)


def position_bucket(distance, *, bidirectional: bool, buckets: int = 32, max_distance: int = 128):
    """The bucket of a distance from a query to a key: exact if short, logarithmic up to a limit.

    Args:
        distance: positions of keys less those of queries, integers.
        bidirectional: use half of the buckets for keys after the query.
        buckets: how many buckets there are.
        max_distance: the distance from which on all are in the last bucket.

    Returns:
        Integers below ``buckets``, in the shape of ``distance``.

    Example:
        >>> position_bucket(jnp.array([0, -1, -20, -500, 3]), bidirectional=True)
        Array([ 0,  1, 10, 15, 19], dtype=int32)
    """
    half = buckets // 2 if bidirectional else buckets
    exact = half // 2
    steps = half - exact
    # Bucket exact + j begins at exact * (max_distance / exact) ** (j / steps), here in integers.
    starts, n = list(range(1, exact + 1)), exact
    for j in range(1, steps):
        while n**steps < max_distance**j * exact ** (steps - j):
            n += 1
        starts.append(n)
    size = jnp.abs(distance) if bidirectional else jnp.maximum(-distance, 0)
    bucket = jnp.sum(size[..., None] >= np.array(starts), axis=-1)
    return jnp.where(distance > 0, bucket + half, bucket) if bidirectional else bucket


class PositionBias(nn.Module):
    """A learned number for each head and bucket of distances, added to the attention's logits."""

    config: T5Config
    bidirectional: bool

    @nn.compact
    def __call__(self, queries, keys):
        """The bias (1, heads, queries, keys) between positions ``queries`` and ``keys``."""
        c = self.config
        init = nn.initializers.variance_scaling(1.0, "fan_avg", "uniform")
        table = self.param("rel_embedding", init, (c.num_heads, c.position_buckets))
        bucket = position_bucket(
            keys[None, :] - queries[:, None],
            bidirectional=self.bidirectional,
            buckets=c.position_buckets,
            max_distance=c.max_distance,
        )
        return table.astype(c.dtype)[None, :, bucket]


class Attention(nn.Module):
    """Attention without a scale of the logits, which is part of the queries' initialisation.

    With ``cache``, a position and a length, keys and values are kept in the collection 'cache':
    those of the inputs for so many positions, those of ``memory`` as the first call has them.
    """

    config: T5Config

    @nn.compact
    def __call__(self, x, memory=None, bias=None, mask=None, cache=None, deterministic=True):
        """Attend from ``x`` to ``memory``, or to ``x`` itself."""
        c = self.config
        width = c.num_heads * c.head_dim
        init = nn.initializers.variance_scaling(1.0, "fan_in", "normal")
        narrow = lambda *args: init(*args) / np.sqrt(c.head_dim).astype(np.float32)

        def heads(name, source, kernel_init=init):
            dense = nn.Dense(width, False, c.dtype, kernel_init=kernel_init, name=name)
            return dense(source).reshape(*source.shape[:-1], c.num_heads, c.head_dim)

        query = heads("query", x, narrow)
        key, value = self._keys_and_values(heads, x, memory, cache)
        logits = jnp.einsum("bqhd,bkhd->bhqk", query, key)
        logits = logits if bias is None else logits + bias
        logits = logits if mask is None else jnp.where(mask, logits, jnp.finfo(c.dtype).min)
        weights = nn.softmax(logits.astype(jnp.float32)).astype(c.dtype)
        weights = nn.Dropout(c.dropout_rate, broadcast_dims=(2,))(weights, deterministic)
        out = jnp.einsum("bhqk,bkhd->bqhd", weights, value).reshape(*x.shape[:-1], width)
        return nn.Dense(c.features, False, c.dtype, kernel_init=init, name="out")(out)

    def _keys_and_values(self, heads, x, memory, cache):
        started = self.has_variable("cache", "cached_key")
        result = []
        for name in ("key", "value"):
            if cache and started and memory is not None:
                result.append(self.get_variable("cache", f"cached_{name}"))
                continue
            new = heads(name, x if memory is None else memory)
            if cache and memory is not None:
                self.variable("cache", f"cached_{name}", lambda new=new: new)
            elif cache:
                position, length = cache
                shape = new.shape[0], length, *new.shape[2:]
                kept = self.variable("cache", f"cached_{name}", jnp.zeros, shape, new.dtype)
                new = lax.dynamic_update_slice_in_dim(kept.value, new, position, axis=1)
                if started:
                    kept.value = new
            result.append(new)
        return result


class MLP(nn.Module):
    """The feed-forward part: ``wi`` and ``wo``, or ``wi_0``, ``wi_1`` and ``wo`` with a gate."""

    config: T5Config

    @nn.compact
    def __call__(self, x, deterministic=True):
        """Transform every position."""
        c = self.config
        init = nn.initializers.variance_scaling(1.0, "fan_in", "truncated_normal")
        dense = lambda size, name: nn.Dense(size, False, c.dtype, kernel_init=init, name=name)
        h = getattr(nn, c.activation)(dense(c.hidden, "wi_0" if c.gated else "wi")(x))
        h = h * dense(c.hidden, "wi_1")(x) if c.gated else h
        h = nn.Dropout(c.dropout_rate, broadcast_dims=(-2,))(h, deterministic)
        return dense(c.features, "wo")(h)


class EncoderLayer(nn.Module):
    """Self-attention and the feed-forward part, each normalised before and added to its input."""

    config: T5Config

    @nn.compact
    def __call__(self, x, bias, mask, deterministic: bool = True):
        """One layer over (batch, length, features)."""
        c = self.config
        h = norm(c, "pre_attention_layer_norm")(x)
        h = Attention(c, name="attention")(h, bias=bias, mask=mask, deterministic=deterministic)
        x = x + drop(c, h, deterministic)
        h = MLP(c, name="mlp")(norm(c, "pre_mlp_layer_norm")(x), deterministic)
        return x + drop(c, h, deterministic)


class DecoderLayer(nn.Module):
    """Self-attention, attention to the encoder's output, and the feed-forward part."""

    config: T5Config

    @nn.compact
    def __call__(self, x, encoded, bias, mask, encoder_mask, cache=None, deterministic=True):
        """One layer over (batch, length, features)."""
        c = self.config
        options = {"cache": cache, "deterministic": deterministic}
        h = norm(c, "pre_self_attention_layer_norm")(x)
        h = Attention(c, name="self_attention")(h, bias=bias, mask=mask, **options)
        x = x + drop(c, h, deterministic)
        h = norm(c, "pre_cross_attention_layer_norm")(x)
        attention = Attention(c, name="encoder_decoder_attention")
        x = x + drop(c, attention(h, encoded, mask=encoder_mask, **options), deterministic)
        h = MLP(c, name="mlp")(norm(c, "pre_mlp_layer_norm")(x), deterministic)
        return x + drop(c, h, deterministic)
