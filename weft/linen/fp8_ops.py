"""Products in 8-bit floats, with scales that follow the largest magnitudes of past steps.

Scales and histories are variables of a collection of their own, whose "gradients" are their next
values: a training step writes those over them (`TrainState.apply_gradients` does).
"""

import functools
from typing import Any

import weft
from weft import lax
from weft import numpy as jnp
from weft.extend.source_info_util import warn
from weft.linen.module import Module

OVERWRITE_WITH_GRADIENT = "_overwrite_with_gradient"
_FORMATS = (jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.float8_e4m3fnuz, jnp.float8_e5m2fnuz)


def get_fp8_max(fp8_dtype, out_dtype):
    """The largest number of an 8-bit format, in another dtype.

    >>> float(get_fp8_max(jnp.float8_e4m3fn, jnp.float32))
    448.0
    """
    if fp8_dtype not in _FORMATS:
        names = ", ".join(jnp.dtype(known).name for known in _FORMATS)
        raise TypeError(
            f"{jnp.dtype(fp8_dtype)} isn't an 8-bit format with a scale: pass one of {names}"
        )
    return jnp.asarray(float(jnp.finfo(fp8_dtype).max), out_dtype)


def quantize(x, q_dtype, scale, compute_dtype):
    """An array over its scale, in 8 bits; what is too large becomes the largest number."""
    largest = get_fp8_max(q_dtype, compute_dtype)
    scaled = x / jnp.broadcast_to(scale.astype(compute_dtype), x.shape)
    return jnp.clip(scaled, -largest, largest).astype(q_dtype)


def dequantize(x, dq_dtype, scale):
    """An array of 8 bits times its scale."""
    return x.astype(dq_dtype) * jnp.broadcast_to(scale.astype(dq_dtype), x.shape)


def qdq(x, q_dtype, scale, compute_dtype):
    """An array rounded to what 8 bits and a scale can hold."""
    return dequantize(quantize(x, q_dtype, scale, compute_dtype), x.dtype, scale)


def compute_scale(amax, scale, fp8_max, margin=0):
    """The scale that maps a magnitude to the largest number; as before if that tells nothing."""
    tells = (amax > 0.0) & jnp.isfinite(amax)
    # By way of the inverse, as flax rounds it.
    return 1.0 / jnp.where(tells, fp8_max / amax / 2**margin, 1.0 / scale)


def compute_amax_history(x, amax_history):
    """The history of largest magnitudes with that of an array at its head."""
    newest = jnp.max(jnp.abs(x)).astype(amax_history.dtype)
    return jnp.roll(amax_history, shift=-1, axis=0).at[0].set(newest)


def update_fp8_meta(x, q_dtype, scale, amax_history):
    """The scale for this step, from the history, and the history with this step in it."""
    largest = get_fp8_max(q_dtype, jnp.float32)
    new_scale = compute_scale(jnp.max(amax_history, axis=0), scale, largest)
    return new_scale, compute_amax_history(x, amax_history)


def quantize_dequantize_update(x, q_dtype, scale, amax_history, compute_dtype):
    """An array as 8 bits hold it, with the next scale and history."""
    new_scale, new_history = update_fp8_meta(x, q_dtype, scale, amax_history)
    return qdq(x, q_dtype, new_scale, compute_dtype), new_scale, new_history


# --- operands and results as 8 bits hold them -----------------------------------------------------


@functools.partial(weft.custom_vjp, nondiff_argnums=(0, 1))
def in_qdq(compute_dtype, q_dtype, inp, scale, amax_history):
    """An operand as 8 bits hold it; its gradient passes through."""
    return quantize_dequantize_update(inp, q_dtype, scale, amax_history, compute_dtype)[0]


def _in_forward(compute_dtype, q_dtype, inp, scale, amax_history):
    rounded, *metas = quantize_dequantize_update(inp, q_dtype, scale, amax_history, compute_dtype)
    return rounded, tuple(metas)


def _in_backward(compute_dtype, q_dtype, metas, g):
    return (g, *metas)


in_qdq.defvjp(_in_forward, _in_backward)


@functools.partial(weft.custom_vjp, nondiff_argnums=(0, 1))
def out_qdq(compute_dtype, q_dtype, out, scale, amax_history):
    """A result as it is; its gradient is rounded to what 8 bits hold."""
    return out


def _out_forward(compute_dtype, q_dtype, out, scale, amax_history):
    return out, (scale, amax_history)


def _out_backward(compute_dtype, q_dtype, metas, g):
    return quantize_dequantize_update(g, q_dtype, *metas, compute_dtype)


out_qdq.defvjp(_out_forward, _out_backward)


@functools.partial(weft.custom_jvp, nondiff_argnums=(2, 3, 4))
def dot_general_with_precision(
    lhs, rhs, dimension_numbers, precision=None, preferred_element_type=None
):
    """A product whose gradients are computed with the highest precision."""
    if precision is not None or preferred_element_type is not None:
        warn(
            "dot_general_with_precision chooses precision and preferred_element_type itself: "
            "leave them out"
        )
    return lax.dot_general(lhs, rhs, dimension_numbers, precision=lax.Precision.DEFAULT)


@dot_general_with_precision.defjvp
def _precise_jvp(dimension_numbers, precision, preferred_element_type, primals, tangents):
    (lhs, rhs), (dlhs, drhs) = primals, tangents
    best = functools.partial(
        lax.dot_general, dimension_numbers=dimension_numbers, precision=lax.Precision.HIGHEST
    )
    out = lax.dot_general(lhs, rhs, dimension_numbers, precision=lax.Precision.DEFAULT)
    return out, best(dlhs, rhs) + best(lhs, drhs)


# --- products of 8 bits ---------------------------------------------------------------------------


@functools.partial(weft.custom_vjp, nondiff_argnums=(0, 1, 2))
def _scaled_dot(dimension_numbers, dtype, compute_dtype, operands, scales, histories):
    """A product of two operands in 8 bits; scales and histories are those of both and of the
    result's gradient."""
    return _scaled_dot_forward(
        dimension_numbers, dtype, compute_dtype, operands, scales, histories
    )[0]


def _scaled_dot_forward(dimension_numbers, dtype, compute_dtype, operands, scales, histories):
    metas = [
        update_fp8_meta(x, jnp.float8_e4m3fn, *meta)
        for x, *meta in zip(operands, scales[:2], histories[:2], strict=True)
    ]
    (lhs_scale, _), (rhs_scale, _) = metas
    lhs, rhs = (
        quantize(x, jnp.float8_e4m3fn, scale, compute_dtype)
        for x, (scale, _) in zip(operands, metas, strict=True)
    )
    out = lax.dot_general(lhs, rhs, dimension_numbers, preferred_element_type=dtype)
    kept = lhs, rhs, metas, scales[2], histories[2]
    return dequantize(out, dtype or out.dtype, lhs_scale * rhs_scale), kept


def _scaled_dot_backward(dimension_numbers, dtype, compute_dtype, kept, g):
    lhs, rhs, metas, scale, history = kept
    (lhs_scale, lhs_history), (rhs_scale, rhs_history) = metas
    g_scale, g_history = update_fp8_meta(g, jnp.float8_e5m2, scale, history)
    small = quantize(g, jnp.float8_e5m2, g_scale, g.dtype).astype(g.dtype)

    def product(a, b):
        return lax.dot_general(a, b, dimension_numbers, precision=lax.Precision.HIGHEST)

    _, back = weft.vjp(product, lhs.astype(g.dtype), rhs.astype(g.dtype))
    dlhs, drhs = back(small)
    operands = (
        dequantize(dlhs, g.dtype, rhs_scale * g_scale),
        dequantize(drhs, g.dtype, lhs_scale * g_scale),
    )
    return operands, (lhs_scale, rhs_scale, g_scale), (lhs_history, rhs_history, g_history)


_scaled_dot.defvjp(_scaled_dot_forward, _scaled_dot_backward)


def fp8_scaled_dot_general(
    lhs,
    rhs,
    dimension_numbers,
    precision=None,
    preferred_element_type=None,
    *,
    lhs_scale=None,
    rhs_scale=None,
    grad_scale=None,
    lhs_amax_history=None,
    rhs_amax_history=None,
    grad_amax_history=None,
    quantize_compute_type=jnp.float32,
):
    """`lax.dot_general` of operands that are quantised to 8 bits first, as gradients are."""
    if precision is not None:
        warn("fp8_scaled_dot_general chooses the precision itself: leave precision out")
    return _scaled_dot(
        _hashable(dimension_numbers),
        preferred_element_type,
        quantize_compute_type,
        (lhs, rhs),
        (lhs_scale, rhs_scale, grad_scale),
        (lhs_amax_history, rhs_amax_history, grad_amax_history),
    )


@functools.partial(weft.custom_vjp, nondiff_argnums=(0, 1))
def in_q(compute_dtype, q_dtype, inp, scale, amax_history):
    """An operand in 8 bits and its new scale. The array itself has no gradient.

    The "gradients" of the scale and the history are their next values.
    """
    return _in_q_forward(compute_dtype, q_dtype, inp, scale, amax_history)[0]


def _in_q_forward(compute_dtype, q_dtype, inp, scale, amax_history):
    new_scale, new_history = update_fp8_meta(inp, q_dtype, scale, amax_history)
    return (quantize(inp, q_dtype, new_scale, compute_dtype), new_scale), (new_scale, new_history)


def _in_q_backward(compute_dtype, q_dtype, metas, g):
    return (None, *metas)


in_q.defvjp(_in_q_forward, _in_q_backward)


@functools.partial(weft.custom_vjp, nondiff_argnums=(0,))
def out_dq(dq_type, lhs_scale, rhs_scale, out):
    """A product of operands in 8 bits, times their scales; its gradient passes unchanged."""
    return dequantize(out, dq_type, lhs_scale * rhs_scale)


out_dq.defvjp(
    lambda dq_type, lhs_scale, rhs_scale, out: (out_dq(dq_type, lhs_scale, rhs_scale, out), None),
    lambda dq_type, _, g: (None, None, g),
)


@functools.partial(weft.custom_vjp, nondiff_argnums=(8, 9))
def quantized_dot(
    lhs,
    q_lhs,
    lhs_scale,
    rhs,
    q_rhs,
    rhs_scale,
    out_grad_scale,
    out_grad_amax_history,
    dimension_numbers,
    preferred_element_type=None,
):
    """A product of operands in 8 bits, whose gradients go to the operands before quantisation.

    The "gradients" of ``out_grad_scale`` and its history are their next values.
    """
    return lax.dot_general(
        q_lhs, q_rhs, dimension_numbers, preferred_element_type=preferred_element_type
    )


def _quantized_dot_forward(*args):
    kept = *args[:3], *args[4:8], args[3]
    return quantized_dot(*args), kept


def _quantized_dot_backward(dimension_numbers, preferred_element_type, kept, g):
    lhs, q_lhs, lhs_scale, q_rhs, rhs_scale, scale, history, rhs = kept
    dtype = preferred_element_type or g.dtype
    g_scale, g_history = update_fp8_meta(g, jnp.float8_e5m2, scale, history)
    small = quantize(g, jnp.float8_e5m2, g_scale, dtype).astype(dtype)

    def product(a, b):
        return lax.dot_general(a, b, dimension_numbers, precision=lax.Precision.HIGHEST)

    _, back = weft.vjp(product, q_lhs.astype(dtype), q_rhs.astype(dtype))
    dlhs, drhs = back(small)
    dlhs = dequantize(dlhs, dtype, rhs_scale * g_scale).astype(lhs.dtype)
    drhs = dequantize(drhs, dtype, lhs_scale * g_scale).astype(rhs.dtype)
    return dlhs, None, None, drhs, None, None, g_scale, g_history


quantized_dot.defvjp(_quantized_dot_forward, _quantized_dot_backward)


def _hashable(dimension_numbers):
    return tuple(tuple(tuple(int(i) for i in axes) for axes in pair) for pair in dimension_numbers)


# --- modules --------------------------------------------------------------------------------------


class Fp8DotGeneralBase(Module):
    """Scales and histories of a product's operands and of its gradient.

    Args:
        amax_history_length: how many steps the largest magnitudes are kept for, from which scales
            follow.
        e4m3_dtype: the 8-bit dtype of inputs and kernels.
        e5m2_dtype: the 8-bit dtype of gradients.
    """

    amax_history_length: int = 1024
    e4m3_dtype: Any = jnp.float8_e4m3fn
    e5m2_dtype: Any = jnp.float8_e5m2

    def setup(self):
        """Make the variables, as flax names them."""
        length = (self.amax_history_length,)
        for name in ("input", "kernel", "output_grad"):
            history, scale = f"{name}_amax_history", f"{name}_scale"
            setattr(self, history, self._meta(history, jnp.zeros, length))
            setattr(self, scale, self._meta(scale, jnp.ones, (1,)))

    def _meta(self, name, make, shape):
        return self.variable(OVERWRITE_WITH_GRADIENT, name, make, shape, jnp.float32)

    def _metas(self):
        return {
            "lhs_scale": self.input_scale.value,
            "rhs_scale": self.kernel_scale.value,
            "grad_scale": self.output_grad_scale.value,
            "lhs_amax_history": self.input_amax_history.value,
            "rhs_amax_history": self.kernel_amax_history.value,
            "grad_amax_history": self.output_grad_amax_history.value,
        }


class Fp8DotGeneralOp(Fp8DotGeneralBase):
    """A product of operands rounded to 8 bits; deprecated in favour of ``Fp8DirectDotGeneralOp``.

    The product is computed in the dtype of the kernel.

    Args:
        amax_history_length: how many steps the largest magnitudes are kept for, from which scales
            follow.
        e4m3_dtype: the 8-bit dtype of inputs and kernels.
        e5m2_dtype: the 8-bit dtype of gradients.

    Example:
        >>> import warnings
        >>> from weft import linen as nn
        >>> layer = nn.Dense(16, dot_general_cls=nn.Fp8DotGeneralOp)
        >>> with warnings.catch_warnings(action="ignore"):
        ...     layer.init_with_output(weft.random.key(0), jnp.ones((8, 32)))[0].shape
        (8, 16)
    """

    def __post_init__(self):
        super().__post_init__()
        if type(self) is Fp8DotGeneralOp:
            warn(
                "Fp8DotGeneralOp is deprecated: use Fp8DirectDotGeneralOp or Fp8Einsum",
                DeprecationWarning,
            )

    def __call__(self, x, kernel, dimension_numbers, **kwargs):
        """Multiply; options of `lax.dot_general` are accepted and have no effect."""
        dtype = kernel.dtype
        metas = self._metas()
        lhs, rhs = (
            in_qdq(
                dtype,
                self.e4m3_dtype,
                operand,
                metas[f"{side}_scale"],
                metas[f"{side}_amax_history"],
            )
            for side, operand in (("lhs", jnp.asarray(x, dtype)), ("rhs", kernel))
        )
        out = dot_general_with_precision(lhs, rhs, dimension_numbers)
        return out_qdq(dtype, self.e5m2_dtype, out, metas["grad_scale"], metas["grad_amax_history"])


class Fp8DirectDotGeneralOp(Fp8DotGeneralBase):
    """A product of 8-bit operands: pass it as the ``dot_general_cls`` of a layer.

    Args:
        amax_history_length: how many steps the largest magnitudes are kept for, from which scales
            follow.
        e4m3_dtype: the 8-bit dtype of inputs and kernels.
        e5m2_dtype: the 8-bit dtype of gradients.

    Example:
        >>> from weft import linen as nn
        >>> layer = nn.Dense(16, dot_general_cls=Fp8DirectDotGeneralOp)
        >>> variables = layer.init(weft.random.key(0), jnp.ones((8, 32)))
        >>> sorted(variables)
        ['_overwrite_with_gradient', 'params']
        >>> layer.apply(variables, jnp.ones((8, 32))).dtype
        dtype('float32')
    """

    def __call__(self, x, kernel, dimension_numbers, **kwargs):
        """Multiply; options of `lax.dot_general` are accepted and have no effect."""
        dtype = kernel.dtype
        return fp8_scaled_dot_general(
            jnp.asarray(x, dtype),
            kernel,
            dimension_numbers,
            preferred_element_type=dtype,
            quantize_compute_type=dtype,
            **self._metas(),
        )


class NANOOFp8DotGeneralOp(Fp8DotGeneralOp):
    """``Fp8DotGeneralOp`` in the 8-bit formats without infinities and negative zero.

    Args:
        e4m3_dtype: the 8-bit dtype of inputs and kernels.
        e5m2_dtype: the 8-bit dtype of gradients.
        amax_history_length: how many steps the largest magnitudes are kept for, from which scales
            follow.

    Example:
        >>> from weft import linen as nn
        >>> layer = nn.Dense(16, dot_general_cls=nn.NANOOFp8DotGeneralOp)
        >>> layer.init_with_output(weft.random.key(0), jnp.ones((8, 32)))[0].shape
        (8, 16)
    """

    e4m3_dtype: Any = jnp.float8_e4m3fnuz
    e5m2_dtype: Any = jnp.float8_e5m2fnuz


class Fp8Einsum(Fp8DotGeneralBase):
    """``numpy.einsum`` of two operands, the second a kernel, with 8-bit products.

    Args:
        amax_history_length: how many steps the largest magnitudes are kept for, from which scales
            follow.
        e4m3_dtype: the 8-bit dtype of inputs and kernels.
        e5m2_dtype: the 8-bit dtype of gradients.

    Example:
        >>> layer = Fp8Einsum()
        >>> args = "bk,kn->bn", jnp.ones((8, 32)), jnp.ones((32, 16))
        >>> layer.init_with_output(weft.random.key(0), *args)[0].shape
        (8, 16)
    """

    def __call__(self, eqn, lhs, rhs, precision=None, preferred_element_type=None):
        """The sum of products that a subscript string describes."""
        product = functools.partial(
            fp8_scaled_dot_general, quantize_compute_type=rhs.dtype, **self._metas()
        )
        return jnp.einsum(
            eqn,
            lhs.astype(rhs.dtype),
            rhs,
            precision=precision,
            preferred_element_type=preferred_element_type,
            _dot_general=product,
        )


Fp8DotGeneral = Fp8DirectDotGeneralOp
