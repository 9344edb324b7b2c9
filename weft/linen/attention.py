"""Attention: the functions, masks, and the multi-head layer with a cache for decoding."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import weft
from weft import lax, random
from weft import numpy as jnp
from weft.extend.source_info_util import warn
from weft.linen import initializers
from weft.linen.dtypes import promote_dtype
from weft.linen.linear import DenseGeneral, default_kernel_init
from weft.linen.module import Module, compact, merge_param
from weft.linen.normalization import LayerNorm


def _check_operands(query, key, value=None) -> None:
    """Fail where queries, keys and values (batch..., length, heads, depth) do not fit together."""
    named = {"query": query, "key": key}
    if value is not None:
        named["value"] = value
    shapes = ", ".join(f"{name} {x.shape}" for name, x in named.items())
    others = list(named.values())[1:]
    if any(x.ndim != query.ndim for x in others) or query.ndim < 3:
        raise ValueError(f"attention needs operands of the same rank, at least 3: {shapes}")
    if any(x.shape[:-3] != query.shape[:-3] for x in others):
        raise ValueError(f"attention needs operands with the same batch axes: {shapes}")
    if any(x.shape[-2] != query.shape[-2] for x in others):
        raise ValueError(f"attention needs operands with the same number of heads: {shapes}")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"queries and keys need the same depth: {shapes}")
    if value is not None and key.shape[-3] != value.shape[-3]:
        raise ValueError(f"keys and values need the same length: {shapes}")


def _einsum(precision, dot_general):
    options = {} if dot_general is None else {"_dot_general": dot_general}
    return functools.partial(jnp.einsum, precision=precision, **options)


def dot_product_attention_weights(
    query: Any,
    key: Any,
    bias: Any = None,
    mask: Any = None,
    broadcast_dropout: bool = True,
    dropout_rng: Any = None,
    dropout_rate: float = 0.0,
    deterministic: bool = False,
    dtype: Any = None,
    precision: Any = None,
    module: Any = None,
    force_fp32_for_softmax: bool = False,
    einsum_dot_general: Callable[..., Any] | None = None,
    einsum: Callable[..., Any] | None = None,
) -> weft.Array:
    """Return ``softmax(query @ key / sqrt(depth) + bias)`` where the mask is True, with dropout.

    Args:
        query: the queries, of shape (batch..., length, heads, depth).
        key: the keys, of shape (batch..., length, heads, depth).
        bias: added to the logits; broadcasts to (batch..., heads, queries, keys).
        mask: booleans that broadcast to (batch..., heads, queries, keys). Only pairs where it is
            True take part.
        broadcast_dropout: use the same dropout for all batch elements and heads.
        dropout_rng: the key of the dropout.
        dropout_rate: the probability of dropout of a weight.
        deterministic: switch dropout off.
        dtype: the dtype of the computation. By default what the inputs promote to.
        precision: the precision of the products on accelerators, as in ``lax.dot``.
        module: the module that sows the weights as 'attention_weights' in the collection
            'intermediates'.
        force_fp32_for_softmax: compute the softmax in float32.
        einsum_dot_general: a function to use instead of ``lax.dot_general``.
        einsum: a function to use instead of ``jnp.einsum``.

    Returns:
        The weights, of shape (batch..., heads, queries, keys).

    Example:
        >>> x = jnp.ones((1, 5, 2, 4))
        >>> dot_product_attention_weights(x, x).shape
        (1, 2, 5, 5)
    """
    if einsum and (precision or einsum_dot_general):
        raise ValueError("pass einsum, or precision and einsum_dot_general, but not both")
    einsum = einsum or _einsum(precision, einsum_dot_general)
    query, key = promote_dtype(query, key, dtype=dtype)
    dtype = query.dtype
    _check_operands(query, key)
    query = query / jnp.sqrt(query.shape[-1]).astype(dtype)
    weights = einsum("...qhd,...khd->...hqk", query, key)
    if bias is not None:
        weights = weights + bias
    if mask is not None:
        weights = jnp.where(mask, weights, jnp.finfo(dtype).min)
    if force_fp32_for_softmax and dtype != jnp.float32:
        weights = weft.nn.softmax(weights.astype(jnp.float32))
    else:
        weights = weft.nn.softmax(weights).astype(dtype)
    if module is not None:
        module.sow("intermediates", "attention_weights", weights)
    if deterministic or dropout_rate <= 0.0:
        return weights
    keep = 1.0 - dropout_rate
    shape = weights.shape
    if broadcast_dropout:  # the same elements are dropped in all heads and examples
        shape = (1,) * (key.ndim - 2) + shape[-2:]
    kept = random.bernoulli(dropout_rng, keep, shape)
    return weights * (kept.astype(dtype) / jnp.asarray(keep, dtype))


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    broadcast_dropout: bool = True,
    dropout_rng: Any = None,
    dropout_rate: float = 0.0,
    deterministic: bool = False,
    dtype: Any = None,
    precision: Any = None,
    module: Any = None,
    force_fp32_for_softmax: bool = False,
    einsum_dot_general: Callable[..., Any] | None = None,
    qk_attn_weights_einsum: Callable[..., Any] | None = None,
    attn_weights_value_einsum: Callable[..., Any] | None = None,
) -> weft.Array:
    """Return the attention of queries over keys and values.

    Args:
        query: the queries, of shape (batch..., length, heads, depth).
        key: the keys, of shape (batch..., length, heads, depth).
        value: the values, of shape (batch..., length, heads, depth).
        bias: added to the logits; broadcasts to (batch..., heads, queries, keys).
        mask: booleans that broadcast to (batch..., heads, queries, keys). Only pairs where it is
            True take part.
        broadcast_dropout: use the same dropout for all batch elements and heads.
        dropout_rng: the key of the dropout.
        dropout_rate: the probability of dropout of a weight.
        deterministic: switch dropout off.
        dtype: the dtype of the computation. By default what the inputs promote to.
        precision: the precision of the products on accelerators, as in ``lax.dot``.
        module: the module that sows the weights as 'attention_weights' in the collection
            'intermediates'.
        force_fp32_for_softmax: compute the softmax in float32.
        einsum_dot_general: a function to use instead of ``lax.dot_general``.
        qk_attn_weights_einsum: a function to use instead of ``jnp.einsum`` for the logits.
        attn_weights_value_einsum: a function to use instead of ``jnp.einsum`` for the result.

    Returns:
        An array of the shape of ``query``, with the depth of ``value``.

    Example:
        >>> x = jnp.ones((1, 5, 2, 4))
        >>> dot_product_attention(x, x, x).shape
        (1, 5, 2, 4)
    """
    custom = (qk_attn_weights_einsum, attn_weights_value_einsum)
    if (custom[0] is None) != (custom[1] is None):
        raise ValueError("pass both of qk_attn_weights_einsum and attn_weights_value_einsum")
    if custom[0] is not None and (precision or einsum_dot_general):
        raise ValueError("pass the two einsum functions, or precision and einsum_dot_general")
    query, key, value = promote_dtype(query, key, value, dtype=dtype)
    _check_operands(query, key, value)
    weights = dot_product_attention_weights(
        query,
        key,
        bias,
        mask,
        broadcast_dropout,
        dropout_rng,
        dropout_rate,
        deterministic,
        query.dtype,
        precision,
        module,
        force_fp32_for_softmax,
        einsum_dot_general,
        custom[0],
    )
    combine = custom[1] or _einsum(precision, einsum_dot_general)
    return combine("...hqk,...khd->...qhd", weights, value)


@functools.lru_cache(maxsize=64)
def _accepted(function) -> frozenset:
    """The names of the arguments of an attention function."""
    return frozenset(inspect.signature(function).parameters)


class MultiHeadDotProductAttention(Module):
    """Attention with several heads, and linear layers before and after.

    Called with queries alone, or with queries, keys and values.

    Args:
        num_heads: the number of heads.
        dtype: the dtype of the computation. By default what the inputs promote to.
        param_dtype: the dtype of the parameters.
        qkv_features: the number of features of all heads together. By default that of the inputs.
        out_features: the number of output features. By default that of the inputs.
        broadcast_dropout: use the same dropout for all batch elements and heads.
        dropout_rate: the probability of dropout of a weight.
        deterministic: switch dropout off. It can be given to the call instead.
        precision: the precision of the products on accelerators, as in ``lax.dot``.
        kernel_init: the initialiser of the kernels.
        out_kernel_init: the initialiser of the last kernel. By default ``kernel_init``.
        bias_init: the initialiser of the biases.
        out_bias_init: the initialiser of the last bias. By default ``bias_init``.
        use_bias: whether the linear layers have biases.
        attention_fn: the function that computes attention from queries, keys and values.
        decode: keep keys and values of earlier calls in the collection 'cache'. ``init`` with
            inputs of full length makes it; later calls pass one position each.
        normalize_qk: apply layer normalisation to queries and keys.
        force_fp32_for_softmax: compute the softmax in float32.
        qkv_dot_general: a function to use instead of ``lax.dot_general`` in the first layers.
        out_dot_general: a function to use instead of ``lax.dot_general`` in the last layer.
        qkv_dot_general_cls: a class whose instances are used instead of ``lax.dot_general`` in the
            first layers.
        out_dot_general_cls: a class whose instances are used instead of ``lax.dot_general`` in the
            last layer.
        qk_attn_weights_einsum_cls: a class whose instances are used instead of ``jnp.einsum`` for
            the logits.
        attn_weights_value_einsum_cls: a class whose instances are used instead of ``jnp.einsum``
            for the result.

    Example:
        >>> layer = MultiHeadDotProductAttention(num_heads=2)
        >>> x = jnp.ones((1, 5, 8))
        >>> layer.init_with_output(weft.random.key(0), x, mask=make_causal_mask(x[..., 0]))[0].shape
        (1, 5, 8)
    """

    num_heads: int
    dtype: Any = None
    param_dtype: Any = jnp.float32
    qkv_features: int | None = None
    out_features: int | None = None
    broadcast_dropout: bool = True
    dropout_rate: float = 0.0
    deterministic: bool | None = None
    precision: Any = None
    kernel_init: Callable = default_kernel_init
    out_kernel_init: Callable | None = None
    bias_init: Callable = initializers.zeros
    out_bias_init: Callable | None = None
    use_bias: bool = True
    attention_fn: Callable = dot_product_attention
    decode: bool = False
    normalize_qk: bool = False
    force_fp32_for_softmax: bool = False
    qkv_dot_general: Callable | None = None
    out_dot_general: Callable | None = None
    qkv_dot_general_cls: Any = None
    out_dot_general_cls: Any = None
    qk_attn_weights_einsum_cls: Callable | None = None
    attn_weights_value_einsum_cls: Callable | None = None

    @compact
    def __call__(
        self,
        inputs_q: Any,
        inputs_k: Any = None,
        inputs_v: Any = None,
        *,
        inputs_kv: Any = None,
        mask: Any = None,
        deterministic: bool | None = None,
        dropout_rng: Any = None,
        sow_weights: bool = False,
    ) -> weft.Array:
        """Attend from ``inputs_q`` over ``inputs_k`` (by default the same) and ``inputs_v``."""
        inputs_k, inputs_v = _keys_and_values(inputs_q, inputs_k, inputs_v, inputs_kv)
        width = self.qkv_features or inputs_q.shape[-1]
        if width % self.num_heads:
            raise ValueError(f"{width} features do not split into {self.num_heads} heads")
        project = self._projection((self.num_heads, width // self.num_heads))
        query = project(name="query")(inputs_q)
        key = project(name="key")(inputs_k)
        value = project(name="value")(inputs_v)
        if self.normalize_qk:
            norm = {"use_bias": False, "dtype": self.dtype, "param_dtype": self.param_dtype}
            query = LayerNorm(name="query_ln", **norm)(query)
            key = LayerNorm(name="key_ln", **norm)(key)
        if self.decode:
            key, value, mask = remember(self, "queries", query, key, value, mask)
        quiet = True
        if self.dropout_rate > 0.0:
            quiet = merge_param("deterministic", self.deterministic, deterministic)
            if not quiet and dropout_rng is None:
                dropout_rng = self.make_rng("dropout")
        x = self._attend(query, key, value, mask, quiet, dropout_rng, sow_weights)
        return self._output(self.out_features or inputs_q.shape[-1])(x)

    def _projection(self, features):
        return functools.partial(
            DenseGeneral,
            axis=-1,
            features=features,
            dtype=self.dtype,
            param_dtype=self.param_dtype,
            kernel_init=self.kernel_init,
            bias_init=self.bias_init,
            use_bias=self.use_bias,
            precision=self.precision,
            dot_general=self.qkv_dot_general,
            dot_general_cls=self.qkv_dot_general_cls,
        )

    def _output(self, features):
        return DenseGeneral(
            features,
            axis=(-2, -1),
            kernel_init=self.out_kernel_init or self.kernel_init,
            bias_init=self.out_bias_init or self.bias_init,
            use_bias=self.use_bias,
            dtype=self.dtype,
            param_dtype=self.param_dtype,
            precision=self.precision,
            dot_general=self.out_dot_general,
            dot_general_cls=self.out_dot_general_cls,
            name="out",
        )

    def _attend(self, query, key, value, mask, quiet, dropout_rng, sow_weights):
        """Call the attention function with what it knows of."""
        make = lambda cls: cls() if cls else None
        options = {
            "mask": mask,
            "dropout_rng": dropout_rng,
            "dropout_rate": self.dropout_rate,
            "broadcast_dropout": self.broadcast_dropout,
            "deterministic": quiet,
            "dtype": self.dtype,
            "precision": self.precision,
            "force_fp32_for_softmax": self.force_fp32_for_softmax,
            "qk_attn_weights_einsum": make(self.qk_attn_weights_einsum_cls),
            "attn_weights_value_einsum": make(self.attn_weights_value_einsum_cls),
        }
        known = _accepted(self.attention_fn)
        options = {name: option for name, option in options.items() if name in known}
        if sow_weights:
            options["module"] = self
        return self.attention_fn(query, key, value, **options)


def remember(module, what: str, x, key, value, mask, several: bool = False):
    """Write keys and values to a module's cache, and return all up to the last one written.

    ``x`` has their position, and is called ``what``. With ``several`` a call may bring more than
    one position; each then sees those up to its own.
    """
    started = module.has_variable("cache", "cached_key")
    keys = module.variable("cache", "cached_key", jnp.zeros, key.shape, key.dtype)
    values = module.variable("cache", "cached_value", jnp.zeros, value.shape, value.dtype)
    index = module.variable("cache", "cache_index", lambda: jnp.array(0, jnp.int32))
    if not started:
        return key, value, mask
    *batch, length, heads, depth = keys.value.shape
    count = x.shape[-3] if several and x.ndim == keys.value.ndim else 1
    if count > length:
        raise ValueError(
            f"{count} positions do not fit into the cache, which holds {length}; its size is that "
            "of the inputs to init"
        )
    if x.shape != (*batch, count, heads, depth):
        raise ValueError(
            f"decoding takes one position at a time, {what} of {(*batch, 1, heads, depth)}, "
            f"not {x.shape}: the size of the cache is that of the inputs to init"
        )
    now = index.value
    if count > 1 and not isinstance(now, weft.core.Tracer) and int(now) + count > length:
        raise ValueError(
            f"the cache has {int(now)} of {length} positions: there is no room for {count} more"
        )
    start = (0,) * len(batch) + (now, 0, 0)
    start = tuple(jnp.asarray(i, now.dtype) for i in start)
    keys.value = key = lax.dynamic_update_slice(keys.value, key, start)
    values.value = value = lax.dynamic_update_slice(values.value, value, start)
    index.value = now + count
    seen = jnp.arange(length) <= now + jnp.arange(count)[:, None]
    past = jnp.broadcast_to(seen, (*batch, 1, count, length))
    return key, value, combine_masks(mask, past)


def _keys_and_values(inputs_q, inputs_k, inputs_v, inputs_kv):
    if inputs_kv is not None:
        if inputs_k is not None or inputs_v is not None:
            raise ValueError("pass inputs_k and inputs_v, or inputs_kv, but not both")
        warn("inputs_kv is deprecated: pass inputs_k", DeprecationWarning)
        return inputs_kv, inputs_kv
    if inputs_k is None:
        if inputs_v is not None:
            raise ValueError("inputs_v without inputs_k: pass the keys as inputs_k")
        inputs_k = inputs_q
    if inputs_v is None:
        return inputs_k, inputs_k
    if inputs_v.shape[-1] == inputs_v.shape[-2]:
        warn(
            f"inputs_v is square, {inputs_v.shape}: is it a mask? Pass masks as mask=",
            DeprecationWarning,
        )
    return inputs_k, inputs_v


class MultiHeadAttention(MultiHeadDotProductAttention):
    """The same layer as ``MultiHeadDotProductAttention``.

    >>> layer = MultiHeadAttention(num_heads=2)
    >>> layer.init_with_output(weft.random.key(0), jnp.ones((1, 5, 8)))[0].shape
    (1, 5, 8)
    """


class SelfAttention(MultiHeadDotProductAttention):
    """Attention over the inputs themselves; deprecated, as the other layers do that by default.

    >>> import warnings
    >>> layer = SelfAttention(num_heads=2)
    >>> with warnings.catch_warnings(action="ignore"):
    ...     layer.init_with_output(weft.random.key(0), jnp.ones((1, 5, 8)))[0].shape
    (1, 5, 8)
    """

    @compact
    def __call__(
        self,
        inputs_q: Any,
        mask: Any = None,
        deterministic: bool | None = None,
        dropout_rng: Any = None,
        sow_weights: bool = False,
    ) -> weft.Array:
        """Attend over the inputs."""
        warn(
            "SelfAttention is deprecated: use MultiHeadDotProductAttention with one input",
            DeprecationWarning,
        )
        options = {"deterministic": deterministic, "dropout_rng": dropout_rng}
        return super().__call__(inputs_q, mask=mask, sow_weights=sow_weights, **options)


def make_attention_mask(
    query_input: Any,
    key_input: Any,
    pairwise_fn: Callable[..., Any] = jnp.multiply,
    extra_batch_dims: int = 0,
    dtype: Any = jnp.float32,
) -> weft.Array:
    """Return the mask that a function of pairs of positions makes.

    Args:
        query_input: a value for each query, of shape (batch..., queries).
        key_input: a value for each key, of shape (batch..., keys).
        pairwise_fn: a function of both values, which broadcast against each other. By default their
            product.
        extra_batch_dims: how many axes to add in front.
        dtype: the dtype of the mask.

    Returns:
        A mask of shape (batch..., 1, queries, keys).

    Example:
        >>> make_attention_mask(jnp.array([1, 1, 0]), jnp.array([1, 0]))[0]
        Array([[1., 0.],
               [1., 0.],
               [0., 0.]], dtype=float32)
    """
    pairs = pairwise_fn(jnp.expand_dims(query_input, -1), jnp.expand_dims(key_input, -2))
    mask = jnp.expand_dims(jnp.expand_dims(pairs, -3), tuple(range(extra_batch_dims)))
    return mask.astype(dtype)


def make_causal_mask(x: Any, extra_batch_dims: int = 0, dtype: Any = jnp.float32) -> weft.Array:
    """Return the mask by which each position sees only itself and those before it.

    Args:
        x: an array of shape (batch..., length), of which only the shape counts.
        extra_batch_dims: how many axes to add in front.
        dtype: the dtype of the mask.

    Returns:
        A mask of shape (batch..., 1, length, length).

    Example:
        >>> make_causal_mask(jnp.zeros(3))[0]
        Array([[1., 0., 0.],
               [1., 1., 0.],
               [1., 1., 1.]], dtype=float32)
    """
    positions = jnp.broadcast_to(jnp.arange(x.shape[-1], dtype=jnp.int32), x.shape)
    return make_attention_mask(positions, positions, jnp.greater_equal, extra_batch_dims, dtype)


def combine_masks(*masks: Any, dtype: Any = jnp.float32) -> weft.Array | None:
    """Return the mask of the pairs that all masks let through.

    Args:
        *masks: masks that broadcast against each other; None is left out.
        dtype: the dtype of the mask.

    Returns:
        A mask, or None if there are none.

    Example:
        >>> combine_masks(jnp.array([1, 1]), None, jnp.array([1, 0]))
        Array([1., 0.], dtype=float32)
    """
    given = [mask for mask in masks if mask is not None]
    if not given:
        return None
    if any(mask.ndim != given[0].ndim for mask in given):
        raise ValueError(f"masks need the same rank, not {[mask.ndim for mask in given]}")
    return functools.reduce(jnp.logical_and, given).astype(dtype)
