"""What transformers are made of today: FFN, rotary embeddings, grouped queries, experts, blocks."""

from collections.abc import Callable
from functools import partial
from typing import Any

import weft
from weft import lax
from weft import numpy as jnp
from weft.linen import initializers
from weft.linen.attention import (
    combine_masks,
    dot_product_attention,
    make_causal_mask,
    remember,
)
from weft.linen.dtypes import promote_dtype
from weft.linen.linear import Dense, DenseGeneral, default_kernel_init
from weft.linen.module import Module, compact
from weft.linen.normalization import LayerNorm
from weft.linen.stochastic import Dropout


class FFN(Module):
    """The feed-forward part of a transformer: up, an activation, down.

    Reference: Shazeer, GLU Variants Improve Transformer, 2020.

    Args:
        hidden: the number of features in the middle of the feed-forward layer.
        features: the number of output features. By default that of the inputs.
        activation: the function between its two linear layers.
        gated: let the activation of one half multiply the other half (GLU, SwiGLU, GeGLU).
        use_bias: whether to add a bias.
        dropout_rate: the probability of dropout.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        kernel_init: the initialiser of the kernel: a function of key, shape and dtype.
        bias_init: the initialiser of the bias.

    Example:
        >>> layer = FFN(hidden=16, gated=True, activation=weft.nn.silu)
        >>> layer.init_with_output(weft.random.key(0), jnp.ones((1, 4)))[0].shape
        (1, 4)
    """

    hidden: int
    features: int | None = None
    activation: Callable = weft.nn.gelu
    gated: bool = False
    use_bias: bool = True
    dropout_rate: float = 0.0
    dtype: Any = None
    param_dtype: Any = jnp.float32
    kernel_init: Callable = default_kernel_init
    bias_init: Callable = initializers.zeros

    @compact
    def __call__(self, x: Any, deterministic: bool = True) -> weft.Array:
        """Up, activate, and down to ``features`` (by default as many as came in)."""
        dense = partial(
            Dense,
            use_bias=self.use_bias,
            dtype=self.dtype,
            param_dtype=self.param_dtype,
            kernel_init=self.kernel_init,
            bias_init=self.bias_init,
        )
        h = self.activation(dense(self.hidden, name="up")(x))
        if self.gated:
            h = h * dense(self.hidden, name="gate")(x)
        h = Dropout(self.dropout_rate)(h, deterministic=deterministic)
        return dense(self.features or x.shape[-1], name="down")(h)


def apply_rotary_embedding(
    x: Any, positions: Any = None, base: float = 10000.0, interleaved: bool = False
) -> weft.Array:
    """Return features rotated by angles that grow with the position.

    Computed in float32 at least. Reference: Su et al., RoFormer, 2021.

    Args:
        x: an array of shape (batch..., length, heads, depth).
        positions: the position of each element, which broadcasts to (batch..., length). By default
            0, 1, and so on.
        base: the largest period of the angles, over 2π.
        interleaved: rotate pairs of neighbours, not the pairs (i, i + depth / 2).

    Returns:
        An array of the shape of ``x``.

    Example:
        >>> x = jnp.ones((1, 3, 2, 4))
        >>> bool(jnp.allclose(apply_rotary_embedding(x)[0, 0], x[0, 0]))
        True
    """
    depth = x.shape[-1]
    if depth % 2:
        raise ValueError(f"rotary embeddings need an even depth, not {depth}")
    dtype = jnp.promote_types(x.dtype, jnp.float32)
    positions = jnp.arange(x.shape[-3]) if positions is None else positions
    frequencies = base ** (-jnp.arange(0, depth, 2, dtype=dtype) / depth)
    angles = positions[..., :, None, None].astype(dtype) * frequencies
    sin, cos = jnp.sin(angles), jnp.cos(angles)
    wide = x.astype(dtype)
    if interleaved:
        a, b = wide[..., ::2], wide[..., 1::2]
        turned = jnp.stack([a * cos - b * sin, a * sin + b * cos], axis=-1)
        return jnp.reshape(turned, x.shape).astype(x.dtype)
    a, b = jnp.split(wide, 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1).astype(x.dtype)


class RotaryEmbedding(Module):
    """A layer without variables that calls ``apply_rotary_embedding``.

    Args:
        base: the largest period of the angles, over 2π.
        interleaved: rotate pairs of neighbours, not the pairs (i, i + depth / 2).

    Example:
        >>> import weft
        >>> RotaryEmbedding().apply({}, jnp.ones((1, 3, 2, 4))).shape
        (1, 3, 2, 4)
    """

    base: float = 10000.0
    interleaved: bool = False

    def __call__(self, x: Any, positions: Any = None) -> weft.Array:
        """Rotate queries or keys."""
        return apply_rotary_embedding(x, positions, self.base, self.interleaved)


class GroupedQueryAttention(Module):
    """Attention in which several query heads share a head of keys and values.

    Reference: Ainslie et al., GQA, 2023.

    Args:
        num_heads: the number of query heads.
        num_kv_heads: the number of key and value heads, which divides ``num_heads``; 1 is
            multi-query attention.
        head_dim: the number of features of a head. By default the input features over
            ``num_heads``.
        out_features: the number of output features. By default that of the inputs.
        rotary: encode positions by rotation.
        rotary_base: the ``base`` of the rotation.
        causal: let each position see only itself and those before it.
        decode: keep keys and values of earlier calls in the collection 'cache'. ``init`` with
            inputs of full length makes it; later calls pass one position or several.
        use_bias: whether to add a bias.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        kernel_init: the initialiser of the kernel: a function of key, shape and dtype.
        bias_init: the initialiser of the bias.

    Example:
        >>> layer = GroupedQueryAttention(num_heads=4, num_kv_heads=2, causal=True)
        >>> layer.init_with_output(weft.random.key(0), jnp.ones((1, 5, 8)))[0].shape
        (1, 5, 8)
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int | None = None
    out_features: int | None = None
    rotary: bool = False
    rotary_base: float = 10000.0
    causal: bool = False
    decode: bool = False
    use_bias: bool = False
    dtype: Any = None
    param_dtype: Any = jnp.float32
    kernel_init: Callable = default_kernel_init
    bias_init: Callable = initializers.zeros

    @compact
    def __call__(self, x: Any, mask: Any = None, positions: Any = None) -> weft.Array:
        """Attend over the inputs."""
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"{self.num_heads} query heads do not share {self.num_kv_heads} heads of keys"
            )
        depth = self.head_dim or x.shape[-1] // self.num_heads
        dense = partial(
            DenseGeneral,
            use_bias=self.use_bias,
            dtype=self.dtype,
            param_dtype=self.param_dtype,
            kernel_init=self.kernel_init,
            bias_init=self.bias_init,
        )
        query = dense((self.num_heads, depth), name="query")(x)
        key = dense((self.num_kv_heads, depth), name="key")(x)
        value = dense((self.num_kv_heads, depth), name="value")(x)
        index = None
        if self.decode and self.has_variable("cache", "cache_index"):
            index = self.get_variable("cache", "cache_index")
            positions = index + jnp.arange(x.shape[-2]) if positions is None else positions
        if self.rotary:
            turn = partial(apply_rotary_embedding, positions=positions, base=self.rotary_base)
            query, key = turn(query), turn(key)
        if self.decode:
            key, value, mask = remember(self, "keys", key, key, value, mask, several=True)
        elif self.causal:
            mask = combine_masks(mask, make_causal_mask(x[..., 0]))
        groups = self.num_heads // self.num_kv_heads
        key, value = (jnp.repeat(a, groups, axis=-2) for a in (key, value))
        out = dot_product_attention(query, key, value, mask=mask, dtype=self.dtype)
        return dense(self.out_features or x.shape[-1], axis=(-2, -1), name="out")(out)


class MoE(Module):
    """A mixture of experts: every token goes to its ``top_k`` experts of ``num_experts``.

    The loss that balances the experts is sown in the collection 'losses' as 'load_balance',
    together with 'router_z', the squared log-sum-exp. References: Shazeer et al., 2017; Fedus et
    al., Switch Transformers, 2021.

    Args:
        num_experts: the number of experts, each a feed-forward layer.
        hidden: the number of features in the middle of an expert.
        top_k: how many experts a token goes to.
        capacity_factor: an expert has room for ``capacity_factor * top_k * tokens / num_experts``
            tokens, and passes over the rest. None makes room for all.
        activation: the function between its two linear layers.
        gated: let the activation of one half multiply the other half (GLU, SwiGLU, GeGLU).
        normalize_gates: scale the weights of a token's experts to sum to 1.
        jitter: the size of random noise on the router's inputs in training.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.
        kernel_init: the initialiser of the kernel: a function of key, shape and dtype.

    Example:
        >>> layer = MoE(num_experts=4, hidden=8, top_k=2)
        >>> variables = layer.init(weft.random.key(0), jnp.ones((2, 3, 6)))
        >>> y, aux = layer.apply(variables, jnp.ones((2, 3, 6)), mutable=["losses"])
        >>> y.shape, sorted(aux["losses"])
        ((2, 3, 6), ['load_balance', 'router_z'])
    """

    num_experts: int
    hidden: int
    top_k: int = 2
    capacity_factor: float | None = None
    activation: Callable = weft.nn.gelu
    gated: bool = False
    normalize_gates: bool = True
    jitter: float = 0.0
    dtype: Any = None
    param_dtype: Any = jnp.float32
    kernel_init: Callable = default_kernel_init

    @compact
    def __call__(self, x: Any, deterministic: bool = True) -> weft.Array:
        """Route tokens (all axes but the last) and add up what their experts compute."""
        if not 1 <= self.top_k <= self.num_experts:
            raise ValueError(f"top_k={self.top_k} must be between 1 and {self.num_experts} experts")
        shape, width = x.shape, x.shape[-1]
        tokens = jnp.reshape(x, (-1, width))
        gates, chosen = self._route(tokens, deterministic)
        count, room = tokens.shape[0], tokens.shape[0]
        if self.capacity_factor is not None:
            share = self.capacity_factor * self.top_k * count / self.num_experts
            room = min(count, max(1, round(share)))
        # The place of a token in its expert's buffer is how many chose the expert before it.
        hits = weft.nn.one_hot(chosen.T.reshape(-1), self.num_experts, dtype=jnp.int32)
        place = jnp.sum(jnp.cumsum(hits, axis=0) * hits, axis=-1) - 1
        place = place.reshape(self.top_k, count).T
        fits = place < room
        slot = jnp.where(fits, chosen * room + place, self.num_experts * room)
        source = jnp.broadcast_to(jnp.arange(count)[:, None], chosen.shape)
        buffers = jnp.zeros((self.num_experts * room + 1, width), tokens.dtype)
        buffers = buffers.at[slot].set(tokens[source])
        inside = buffers[:-1].reshape(self.num_experts, room, width)
        done = self._experts(inside).reshape(self.num_experts * room, width)
        done = jnp.concatenate([done, jnp.zeros((1, width), done.dtype)])
        weight = jnp.where(fits, gates, 0).astype(done.dtype)
        return jnp.sum(done[slot] * weight[..., None], axis=1).reshape(shape)

    def _route(self, tokens, deterministic):
        """The weights and numbers of each token's experts."""
        wide = tokens.astype(jnp.promote_types(tokens.dtype, jnp.float32))
        if self.jitter > 0 and not deterministic:
            low, high = 1 - self.jitter, 1 + self.jitter
            key = self.make_rng("jitter")
            wide = wide * weft.random.uniform(key, wide.shape, wide.dtype, low, high)
        router = Dense(
            self.num_experts, use_bias=False, param_dtype=self.param_dtype, name="router"
        )
        logits = router(wide)
        probabilities = weft.nn.softmax(logits)
        gates, chosen = lax.top_k(probabilities, self.top_k)
        if self.normalize_gates and self.top_k > 1:
            gates = gates / jnp.sum(gates, axis=-1, keepdims=True)
        first = weft.nn.one_hot(chosen, self.num_experts, dtype=probabilities.dtype)
        load = jnp.mean(jnp.sum(first, axis=1), axis=0) / self.top_k
        balance = self.num_experts * jnp.sum(load * jnp.mean(probabilities, axis=0))
        if not self.is_initializing():
            self.sow("losses", "load_balance", balance)
            self.sow("losses", "router_z", jnp.mean(weft.nn.logsumexp(logits, axis=-1) ** 2))
        return gates, chosen

    def _experts(self, x):
        """Every expert on its own tokens, (experts, tokens, features)."""
        experts, width = self.num_experts, x.shape[-1]

        def many(key, shape, dtype=jnp.float32):
            one = lambda k: self.kernel_init(k, shape[1:], dtype)
            return weft.vmap(one)(weft.random.split(key, shape[0]))

        up = self.param("up", many, (experts, width, self.hidden), self.param_dtype)
        down = self.param("down", many, (experts, self.hidden, width), self.param_dtype)
        gate = None
        if self.gated:
            gate = self.param("gate", many, (experts, width, self.hidden), self.param_dtype)
        x, up, down, gate = promote_dtype(x, up, down, gate, dtype=self.dtype)
        h = self.activation(jnp.einsum("etd,edh->eth", x, up))
        if gate is not None:
            h = h * jnp.einsum("etd,edh->eth", x, gate)
        return jnp.einsum("eth,ehd->etd", h, down)


class TransformerBlock(Module):
    """Attention and a feed-forward layer, each with a norm before it and added to its input.

    Args:
        num_heads: the number of query heads.
        hidden: the number of features in the middle of the feed-forward layer.
        num_kv_heads: the number of key and value heads. By default ``num_heads``.
        causal: let each position see only itself and those before it.
        rotary: encode positions by rotation.
        gated: let the activation of one half multiply the other half (GLU, SwiGLU, GeGLU).
        activation: the function between its two linear layers.
        norm: the class of the normalisation.
        dropout_rate: the probability of dropout.
        decode: keep keys and values of earlier calls in the collection 'cache'. ``init`` with
            inputs of full length makes it; later calls pass one position or several.
        dtype: the dtype of the computation. By default what inputs and parameters promote to.
        param_dtype: the dtype of the parameters.

    Example:
        >>> block = TransformerBlock(num_heads=2, hidden=16)
        >>> block.init_with_output(weft.random.key(0), jnp.ones((1, 5, 8)))[0].shape
        (1, 5, 8)
    """

    num_heads: int
    hidden: int
    num_kv_heads: int | None = None
    causal: bool = True
    rotary: bool = True
    gated: bool = False
    activation: Callable = weft.nn.gelu
    norm: Callable = LayerNorm
    dropout_rate: float = 0.0
    decode: bool = False
    dtype: Any = None
    param_dtype: Any = jnp.float32

    @compact
    def __call__(self, x: Any, mask: Any = None, deterministic: bool = True) -> weft.Array:
        """Attend, then transform every position."""
        types = {"dtype": self.dtype, "param_dtype": self.param_dtype}
        drop = Dropout(self.dropout_rate, deterministic=deterministic)
        attention = GroupedQueryAttention(
            self.num_heads,
            self.num_kv_heads or self.num_heads,
            rotary=self.rotary,
            causal=self.causal,
            decode=self.decode,
            name="attention",
            **types,
        )
        x = x + drop(attention(self.norm(name="norm_1", **types)(x), mask))
        ffn = FFN(
            self.hidden,
            activation=self.activation,
            gated=self.gated,
            dropout_rate=self.dropout_rate,
            name="ffn",
            **types,
        )
        return x + drop(ffn(self.norm(name="norm_2", **types)(x), deterministic))
