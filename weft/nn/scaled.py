"""Products of block-scaled low-precision matrices: mxfp8 and nvfp4.

A block of values along the contracted dimension shares one scale of 8 bits; here such products are
computed by scaling the values back.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes, lax
from weft.control.custom_vjp import custom_vjp
from weft.core.array import Array


@dataclass(slots=True, eq=False)
class BlockScaleConfig:
    """How one operand is quantised."""

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Any
    infer_only: bool


def get_scaled_dot_general_config(mode: str, global_scale: Any = None) -> BlockScaleConfig:
    """Return the configuration of a block-scaled format, for ``scaled_dot_general``.

    Args:
        mode: ``'nvfp4'`` (blocks of 16 four-bit floats) or ``'mxfp8'`` (blocks of 32 eight-bit
            floats).
        global_scale: for ``'nvfp4'``, the factor of a whole array; 1 by default.

    Returns:
        A configuration with the fields ``mode``, ``block_size``, ``data_type``, ``scale_type``,
        ``global_scale`` and ``infer_only``.

    Example:
        >>> from weft import nn
        >>> nn.get_scaled_dot_general_config("mxfp8").block_size
        32
    """
    if mode == "nvfp4":
        whole = jnp.ones((1,), np.float32) if global_scale is None else global_scale
        return BlockScaleConfig(
            mode, 16, dtypes.float4_e2m1fn, dtypes.float8_e4m3fn, whole, infer_only=False
        )
    if mode == "mxfp8":
        return BlockScaleConfig(
            mode, 32, dtypes.float8_e4m3fn, dtypes.float8_e8m0fnu, None, infer_only=False
        )
    raise ValueError(f"scaled_dot_general has no mode {mode!r}: pass 'nvfp4' or 'mxfp8'")


def _unscaled(x: Any, scales: Any) -> Array:
    """Values times the scale of their block, in float32."""
    wide = jnp.repeat(scales.astype(np.float32), x.shape[-1] // scales.shape[-1], axis=-1)
    return x.astype(np.float32) * wide


def scaled_matmul(
    lhs: Any, rhs: Any, lhs_scales: Any, rhs_scales: Any, preferred_element_type: Any = np.float32
) -> Array:
    """Return the matrix products of block-scaled operands.

    Each scale multiplies a block of neighbouring elements along K.

    Args:
        lhs: the left operand, of shape (B, M, K).
        rhs: the right operand, of shape (B, N, K).
        lhs_scales: the scales of the left operand, of shape (B, M, K / block).
        rhs_scales: the scales of the right operand, of shape (B, N, K / block).
        preferred_element_type: the dtype of the result.

    Returns:
        An array of shape (B, M, N).

    Example:
        >>> import weft.numpy as jnp
        >>> from weft import nn
        >>> half = jnp.full((1, 1, 1), 0.5)
        >>> float(nn.scaled_matmul(jnp.ones((1, 1, 4)), jnp.ones((1, 1, 4)), half, half)[0, 0, 0])
        1.0
    """
    operands = [jnp.asarray(x) for x in (lhs, rhs, lhs_scales, rhs_scales)]
    shapes = [x.shape for x in operands]
    fits = all(len(s) == 3 for s in shapes)
    if fits:
        a, b, sa, sb = shapes
        fits = (a[0], a[2]) == (b[0], b[2]) and (sa[0], sa[2]) == (sb[0], sb[2])
        fits = fits and a[:2] == sa[:2] and b[:2] == sb[:2] and a[2] % sa[2] == 0
    if not fits:
        raise ValueError(
            "scaled_matmul needs lhs (B, M, K), rhs (B, N, K), scales (B, M, K/block) and"
            f" (B, N, K/block), got {', '.join(map(str, shapes))}"
        )
    left, right = _unscaled(operands[0], operands[2]), _unscaled(operands[1], operands[3])
    dtype = dtypes.canonicalize_dtype(preferred_element_type)
    return jnp.einsum("BMK,BNK->BMN", left, right).astype(dtype)


def _round_up_to_power(x: Any) -> Any:
    """The smallest power of two that is at least x, held to what float8_e8m0fnu can be."""
    bits = lax.bitcast_convert_type(x.astype(np.float32), np.uint32)
    exponent, mantissa = bits >> 23, bits & 0x7FFFFF
    tiny = (exponent == 0) & (mantissa <= 0x400000)
    raised = jnp.where((mantissa > 0) & (exponent != 0xFE) & ~tiny, exponent + 1, exponent)
    scale = lax.bitcast_convert_type(raised << 23, np.float32)
    return jnp.where(raised == 0, np.float32(2.0**-127), scale)


def _quantised(x: Any, config: BlockScaleConfig) -> Array:
    """x rounded to what blocks of ``config`` can hold along the last axis, in float32."""
    size = x.shape[-1]
    if size < config.block_size or size % config.block_size:
        raise AssertionError(
            f"scaled_dot_general in mode {config.mode!r} needs a contracted size that is a"
            f" multiple of {config.block_size}, got {size}: pad it"
        )
    sizes = (*x.shape[:-1], size // config.block_size, config.block_size)
    blocks = jnp.reshape(x.astype(np.float32), sizes)
    largest = np.float32(dtypes.finfo(config.data_type).max)
    if config.mode == "nvfp4":
        blocks = blocks / config.global_scale
    scale = jnp.max(jnp.abs(blocks), axis=-1, keepdims=True) / largest
    if config.mode == "mxfp8":
        scale = _round_up_to_power(scale)
    else:
        top = np.float32(dtypes.finfo(config.scale_type).max)
        scale = jnp.clip(scale, 0, top).astype(config.scale_type).astype(np.float32)
    # A block of zeros has scale 0: it stays zeros.
    inside = jnp.clip(blocks / jnp.where(scale == 0, 1, scale), -largest, largest)
    rounded = inside.astype(config.data_type).astype(np.float32) * scale
    if config.mode == "nvfp4":
        rounded = rounded * config.global_scale
    return jnp.reshape(rounded, x.shape)


def _matrices(x: Any, contract: Any, batch: Any) -> tuple[Any, list[int]]:
    """x as (batch, kept, contracted), and its kept axes."""
    kept = [i for i in range(x.ndim) if i not in contract and i not in batch]
    moved = jnp.transpose(x, [*batch, *kept, *contract])
    sizes = [math.prod(x.shape[i] for i in axes) for axes in (batch, kept, contract)]
    return jnp.reshape(moved, sizes), kept


def _product(lhs: Any, rhs: Any, numbers: Any, dtype: Any, left: Any, right: Any) -> Array:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = numbers
    a, lhs_kept = _matrices(lhs, lhs_contract, lhs_batch)
    b, rhs_kept = _matrices(rhs, rhs_contract, rhs_batch)
    out = jnp.einsum("BMK,BNK->BMN", _quantised(a, left), _quantised(b, right)).astype(dtype)
    shape = [lhs.shape[i] for i in (*lhs_batch, *lhs_kept)] + [rhs.shape[i] for i in rhs_kept]
    return jnp.reshape(out, shape)


@functools.partial(custom_vjp, nondiff_argnums=(2, 3, 4))
def _scaled_dot(lhs: Any, rhs: Any, numbers: Any, dtype: Any, configs: Any) -> Array:
    return _product(lhs, rhs, numbers, dtype, configs[0], configs[1])


def _scaled_dot_forward(lhs: Any, rhs: Any, numbers: Any, dtype: Any, configs: Any) -> Any:
    return _scaled_dot(lhs, rhs, numbers, dtype, configs), (lhs, rhs)


def _slope(ct: Any, other: Any, own: Any, numbers: Any, configs: Any, own_first: bool) -> Array:
    """The cotangent of ``own``, an operand of the product with ``other``."""
    grad_config, config = configs
    (contract, other_contract), (batch, other_batch) = numbers
    kept = [i for i in range(own.ndim) if i not in contract and i not in batch]
    other_kept = [i for i in range(other.ndim) if i not in other_contract and i not in other_batch]
    start = len(batch) + (len(kept) if own_first else 0)
    ct_axes = tuple(range(start, start + len(other_kept)))
    new_numbers = (ct_axes, tuple(other_kept)), (tuple(range(len(batch))), other_batch)
    if grad_config.mode == "nvfp4":
        out = lax.dot_general(ct, other, new_numbers, preferred_element_type=own.dtype)
    else:
        out = _product(ct, other, new_numbers, own.dtype, grad_config, config)
    # The product's axes: batch, own kept, then other's contracted in ascending order.
    ordered = [c for _, c in sorted(zip(other_contract, contract, strict=True))]
    return jnp.transpose(out, np.argsort([*batch, *kept, *ordered]))


def _scaled_dot_backward(numbers: Any, dtype: Any, configs: Any, saved: Any, ct: Any) -> Any:
    lhs, rhs = saved
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = numbers
    swapped = (rhs_contract, lhs_contract), (rhs_batch, lhs_batch)
    grad_lhs = _slope(ct, rhs, lhs, numbers, (configs[2], configs[1]), own_first=True)
    grad_rhs = _slope(ct, lhs, rhs, swapped, (configs[2], configs[0]), own_first=False)
    if configs[2].mode == "nvfp4":
        # Straight through the rounding, but not through the clipping.
        limit = float(dtypes.finfo(configs[0].data_type).max) * float(
            dtypes.finfo(configs[0].scale_type).max
        )
        grad_lhs = jnp.where(jnp.abs(lhs) <= configs[0].global_scale * limit, grad_lhs, 0)
        grad_rhs = jnp.where(jnp.abs(rhs) <= configs[1].global_scale * limit, grad_rhs, 0)
    return grad_lhs, grad_rhs


_scaled_dot.defvjp(_scaled_dot_forward, _scaled_dot_backward)


def scaled_dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    preferred_element_type: Any = np.float32,
    configs: Any = None,
    implementation: str | None = None,
) -> Array:
    """Return ``lax.dot_general`` of operands quantised in blocks.

    Args:
        lhs: the left operand.
        rhs: the right operand.
        dimension_numbers: the contracted and batch dimensions, as ``lax.dot_general`` takes them.
        preferred_element_type: the dtype of the result.
        configs: three configurations, for ``lhs``, ``rhs`` and the gradients. Without them nothing
            is quantised.
        implementation: accepted for JAX, no effect.

    Returns:
        The product, of the shape that ``lax.dot_general`` gives.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft import nn
        >>> x = jnp.ones((2, 32))
        >>> configs = [nn.get_scaled_dot_general_config("mxfp8")] * 3
        >>> float(nn.scaled_dot_general(x, x, (((1,), (1,)), ((), ())), configs=configs)[0, 0])
        32.0
    """
    dtype = dtypes.canonicalize_dtype(preferred_element_type)
    if configs is None:
        return lax.dot_general(lhs, rhs, dimension_numbers, preferred_element_type=dtype)
    if dtype.name not in ("float32", "bfloat16", "float16"):
        raise TypeError(
            f"scaled_dot_general returns float32, bfloat16 or float16, got {dtype.name}"
        )
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    numbers = (
        (tuple(lhs_contract), tuple(rhs_contract)),
        (tuple(lhs_batch), tuple(rhs_batch)),
    )
    return _scaled_dot(jnp.asarray(lhs), jnp.asarray(rhs), numbers, dtype, tuple(configs))
