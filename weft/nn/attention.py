"""Scaled dot-product attention, with grouped heads, masks, windows and sequence lengths."""

from __future__ import annotations

import math
from typing import Any, Literal, overload

import numpy as np

import weft.numpy as jnp
from weft import dtypes, lax
from weft.core.array import Array
from weft.numpy.exponentials import logsumexp, softmax
from weft.numpy.promotion import mixes_inside


@overload
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: Literal[False] = False,
) -> Array: ...
@overload
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: Literal[True],
) -> tuple[Array, Array]: ...
@overload
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any: ...
@mixes_inside
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Array | tuple[Array, Array]:
    """Return softmax(query keyᵀ scale + bias) value, for each head.

    The letters: B batch, T queries, S keys, N query heads, K key heads (K divides N), H features of
    a head. B may be left out of all shapes.

    Args:
        query: the queries, of shape (B, T, N, H).
        key: the keys, of shape (B, S, K, H).
        value: the values, of shape (B, S, K, H).
        bias: added to the logits; broadcasts to (B, N, T, S).
        mask: booleans that broadcast to (B, N, T, S). Only pairs where it is True take part.
        scale: the factor of the logits; 1/√H by default.
        is_causal: let each query see only the keys up to its own position.
        query_seq_lengths: for each batch element, how many queries count, of shape (B,). The rest
            give zeros.
        key_value_seq_lengths: for each batch element, how many keys count, of shape (B,).
        local_window_size: (left, right): how many neighbours a query sees on each side. An integer
            stands for both.
        implementation: ``'xla'``, ``'cudnn'`` or None. weft picks the fastest kernel for each of
            them.
        return_residual: also return the logsumexp of the logits.

    Returns:
        The attention, of the shape of ``query``; with ``return_residual`` a pair of it and an array
        of shape (B, T, N).

    Example:
        >>> import weft.numpy as jnp
        >>> from weft import nn
        >>> x = jnp.ones((2, 1, 4))
        >>> nn.dot_product_attention(x, x, x, is_causal=True).shape
        (2, 1, 4)
    """
    if implementation not in (None, "xla", "cudnn"):
        raise ValueError(
            f"dot_product_attention got implementation={implementation!r}: pass None, 'xla' or"
            " 'cudnn'"
        )
    query = jnp.asarray(query)
    shape = query.shape
    query, key, value = _rank4(query), _rank4(key), _rank4(value)
    bias = None if bias is None else _rank4(bias)
    mask = None if mask is None else _rank4(mask)
    lengths = [
        None if n is None else jnp.asarray(n) for n in (query_seq_lengths, key_value_seq_lengths)
    ]
    _check_operands(query, key, value, bias, mask, lengths)
    scale = 1.0 / math.sqrt(key.shape[-1] or 1) if scale is None else scale
    logits = _logits(query, key, bias, scale)
    visible = _visible(logits.shape, mask, is_causal, lengths, local_window_size)
    if visible is not None:
        lowest = float(min(dtypes.finfo(logits.dtype).max, dtypes.finfo(np.float32).max))
        logits = jnp.where(visible, logits, jnp.asarray(-0.7 * lowest, logits.dtype))
    logits = logits.astype(np.float32)
    weights = softmax(logits, axis=-1).astype(key.dtype)
    batch, length, heads, width = query.shape
    grouped = _by_group(weights, key.shape[2])
    out = jnp.einsum("BKGTS,BSKH->BTKGH", grouped, value).reshape(batch, length, heads, width)
    if lengths[0] is not None:
        inside = jnp.arange(length)[None, :] < lengths[0][:, None]
        out = out * inside[:, :, None, None].astype(out.dtype)
    if not return_residual:
        return out.reshape(shape)
    residual = jnp.transpose(logsumexp(logits, axis=-1).astype(key.dtype), (0, 2, 1))
    return out.reshape(shape), lax.stop_gradient(residual).reshape(shape[:-1])


def _rank4(x: Any) -> Array:
    x = jnp.asarray(x)
    return jnp.reshape(x, (1,) * (4 - x.ndim) + x.shape) if x.ndim < 4 else x


def _by_group(x: Any, groups: int) -> Any:
    """(B, N, T, S) as (B, K, G, T, S)."""
    batch, heads, length, source = x.shape
    return jnp.reshape(x, (batch, groups, heads // groups, length, source))


def _logits(query: Any, key: Any, bias: Any, scale: float) -> Any:
    batch, length, heads, width = query.shape
    groups, source = key.shape[2], key.shape[1]
    wide = jnp.promote_types(query.dtype, np.float32)
    grouped = jnp.reshape(query, (batch, length, groups, heads // groups, width))
    logits = jnp.einsum("BTKGH,BSKH->BKGTS", grouped, key, preferred_element_type=wide)
    logits = logits.reshape(batch, heads, length, source) * jnp.asarray(scale, wide)
    return logits if bias is None else (logits + bias).astype(wide)


def _visible(
    shape: tuple[int, ...],
    mask: Any,
    is_causal: bool,
    lengths: list[Any],
    window: int | tuple[int, int] | None,
) -> Any:
    """Which keys each query sees, broadcastable to ``shape``; None if all do."""
    rows, columns = jnp.arange(shape[2])[:, None], jnp.arange(shape[3])[None, :]
    parts = [] if mask is None else [mask]
    if is_causal:
        parts.append(rows >= columns)
    if window is not None:
        left, right = (window, window) if isinstance(window, int) else window
        parts.append((rows <= columns + left) & (rows >= columns - right))
    for positions, length in zip((rows, columns), lengths, strict=True):
        if length is not None:
            parts.append(positions < length[:, None, None, None])
    if not parts:
        return None
    visible = parts[0]
    for part in parts[1:]:
        visible = visible & part
    return jnp.broadcast_to(visible, shape)


def _check_operands(
    query: Any, key: Any, value: Any, bias: Any, mask: Any, lengths: list[Any]
) -> None:
    batch, source, groups, width = _shape_of("key", key, (None,) * 4)
    _shape_of("value", value, (batch, source, groups, width), key.dtype)
    _shape_of("query", query, (batch, None, None, width), key.dtype)
    if mask is not None:
        _shape_of("mask", mask, (None,) * 4, np.dtype(bool))
    if bias is not None:
        _shape_of("bias", bias, (None,) * 4)
    for name, length in zip(("query", "key_value"), lengths, strict=True):
        if length is not None:
            _shape_of(f"{name}_seq_lengths", length, (batch,), np.dtype(np.int32))
    if query.shape[2] % groups:
        raise ValueError(
            f"dot_product_attention needs a number of query heads that is a multiple of the"
            f" {groups} key heads, got {query.shape[2]}"
        )


def _shape_of(name: str, x: Any, shape: tuple[Any, ...], dtype: Any = None) -> tuple[int, ...]:
    fits = len(x.shape) == len(shape) and all(
        wanted is None or n == wanted for n, wanted in zip(x.shape, shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise ValueError(f"dot_product_attention needs {name} of shape ({wanted}), got {x.shape}")
    if dtype is not None and x.dtype != dtype:
        raise ValueError(
            f"dot_product_attention needs {name} of dtype {dtype}, got {x.dtype}: convert with"
            " astype"
        )
    return x.shape
