"""Activations, normalisations and encodings of neural networks.

At kinks the derivative is the one JAX takes: 0 for relu at 0 and for relu6 at 0 and 6.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes, lax
from weft.base.source import warn
from weft.control.custom_jvp import custom_jvp
from weft.core.array import Array, Whole
from weft.core.dims.dim import Dim, whole
from weft.lax.shape import canonical_axis
from weft.numpy.broadcasting import choose_where
from weft.numpy.exponentials import Axis, logsumexp
from weft.numpy.operands import arraylike, inexact
from weft.numpy.promotion import concrete, ensure_array
from weft.prims.selection import switch_p


def _either(condition: Any, x: Any, y: Any) -> Array:
    """A piece of a function where the condition holds, another elsewhere; both are finite."""
    return choose_where(condition, x, y, switch_p)


def identity(x: Any) -> Array:
    """Return the argument itself, as an array.

    Args:
        x: an array, or what ``jnp.asarray`` accepts.

    Returns:
        ``x``, of the same dtype.

    Example:
        >>> from weft import nn
        >>> nn.identity(2.0)
        Array(2., dtype=float32, weak_type=True)
    """
    return arraylike("identity", x)


@custom_jvp
def relu(x: Any) -> Array:
    """Return max(x, 0); its derivative at 0 is 0.

    Args:
        x: an array or number.

    Returns:
        An array of the shape and dtype of ``x``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.nn.relu(jnp.array([-1.0, 0.0, 2.0]))
        Array([0., 0., 2.], dtype=float32)
        >>> weft.grad(weft.nn.relu)(0.0)
        Array(0., dtype=float32, weak_type=True)
    """
    return jnp.maximum(x, 0)


relu.defjvps(lambda g, out, x: switch_p.bind(x > 0, lax.full_like(g, 0), g))


@custom_jvp
def relu6(x: Any) -> Array:
    """Return min(max(x, 0), 6); its derivative at 0 and at 6 is 0.

    Args:
        x: an array or number.

    Returns:
        An array of the shape and dtype of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft import nn
        >>> nn.relu6(jnp.array([-1.0, 3.0, 8.0]))
        Array([0., 3., 6.], dtype=float32)
    """
    return jnp.minimum(jnp.maximum(x, 0), 6.0)


relu6.defjvps(lambda g, out, x: switch_p.bind((x > 0) & (x < 6), lax.full_like(g, 0), g))


def squareplus(x: Any, b: Any = 4) -> Array:
    """Return (x + sqrt(x² + b)) / 2, a smooth relu (arXiv:2112.11687).

    Args:
        x: an array, or what ``jnp.asarray`` accepts. Integers become floats.
        b: how smooth the bend at 0 is; 0 gives relu.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft import nn
        >>> float(nn.squareplus(0.0))
        1.0
    """
    x, b = arraylike("squareplus", x), arraylike("squareplus", b)
    return (x + jnp.sqrt(jnp.square(x) + b)) / 2


def softplus(x: Any) -> Array:
    """Return log(1 + exp(x)), a smooth relu, without overflow.

    Args:
        x: an array, or what ``jnp.asarray`` accepts. Integers become floats.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft import nn
        >>> float(nn.softplus(1000.0))
        1000.0
    """
    return jnp.logaddexp(x, 0)


def sparse_plus(x: Any) -> Array:
    """Return 0 below -1, x above 1, and (x + 1)² / 4 between.

    Args:
        x: an array, or what ``jnp.asarray`` accepts. Integers become floats.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft import nn
        >>> nn.sparse_plus(jnp.array([-2.0, 0.0, 2.0]))
        Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    x = arraylike("sparse_plus", x)
    return _either(x <= -1.0, 0.0, _either(x >= 1.0, x, (x + 1.0) ** 2 / 4))


def soft_sign(x: Any) -> Array:
    """Return x / (1 + |x|).

    Args:
        x: an array, or what ``jnp.asarray`` accepts. Integers become floats.

    Returns:
        A float array of the shape of ``x``, between -1 and 1.

    Example:
        >>> from weft import nn
        >>> float(nn.soft_sign(-1.0))
        -0.5
    """
    x = arraylike("soft_sign", x)
    return x / (jnp.abs(x) + 1)


def sigmoid(x: Any) -> Array:
    """Return 1 / (1 + exp(-x)).

    Args:
        x: an array, or what ``jnp.asarray`` accepts. Integers become floats.

    Returns:
        A float array of the shape of ``x``, between 0 and 1.

    Example:
        >>> from weft import nn
        >>> float(nn.sigmoid(0.0))
        0.5
    """
    return lax.logistic(ensure_array("sigmoid", x))


def sparse_sigmoid(x: Any) -> Array:
    """Return 0 below -1, 1 above 1, and (x + 1) / 2 between: the derivative of sparse_plus.

    Args:
        x: an array, or what ``jnp.asarray`` accepts. Integers become floats.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft import nn
        >>> float(nn.sparse_sigmoid(0.5))
        0.75
    """
    return 0.5 * jnp.clip(ensure_array("sparse_sigmoid", x) + 1.0, 0.0, 2.0)


def silu(x: Any) -> Array:
    """Return x · sigmoid(x), also called swish.

    Args:
        x: an array, or what ``jnp.asarray`` accepts. Integers become floats.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft import nn
        >>> float(nn.silu(0.0))
        0.0
    """
    x = arraylike("silu", x)
    return x * sigmoid(x)


swish = silu


def mish(x: Any) -> Array:
    """Return x · tanh(softplus(x)) (arXiv:1908.08681).

    Args:
        x: an array, or what ``jnp.asarray`` accepts. Integers become floats.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft import nn
        >>> float(nn.mish(0.0))
        0.0
    """
    x = arraylike("mish", x)
    return x * jnp.tanh(softplus(x))


def log_sigmoid(x: Any) -> Array:
    """Return log(sigmoid(x)), without underflow.

    Args:
        x: an array, or what ``jnp.asarray`` accepts. Integers become floats.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft import nn
        >>> float(nn.log_sigmoid(-1000.0))
        -1000.0
    """
    return -softplus(-arraylike("log_sigmoid", x))


def elu(x: Any, alpha: Any = 1.0) -> Array:
    """Return x where it is positive, alpha (exp(x) - 1) elsewhere.

    Args:
        x: an array, or what ``jnp.asarray`` accepts. Integers become floats.
        alpha: minus the limit at minus infinity.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft import nn
        >>> float(nn.elu(-1000.0))
        -1.0
    """
    x = arraylike("elu", x)
    positive = x > 0
    # The inner where keeps the exponential of large x out of the derivative.
    return _either(positive, x, alpha * jnp.expm1(_either(positive, 0.0, x)))


def celu(x: Any, alpha: Any = 1.0) -> Array:
    """Return max(x, 0) + alpha (exp(min(x, 0) / alpha) - 1) (arXiv:1704.07483).

    Args:
        x: an array, or what ``jnp.asarray`` accepts. Integers become floats.
        alpha: minus the limit at minus infinity. The derivative is continuous for every alpha.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft import nn
        >>> float(nn.celu(-1000.0, 2.0))
        -2.0
    """
    return jnp.maximum(x, 0.0) + alpha * jnp.expm1(jnp.minimum(x, 0.0) / alpha)


def selu(x: Any) -> Array:
    """Return a scaled elu that keeps mean 0 and variance 1 through layers (arXiv:1706.02515).

    Args:
        x: an array, or what ``jnp.asarray`` accepts. Integers become floats.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft import nn
        >>> round(float(nn.selu(1.0)), 4)
        1.0507
    """
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


def leaky_relu(x: Any, negative_slope: Any = 1e-2) -> Array:
    """Return x where it is positive or 0, negative_slope · x elsewhere.

    Args:
        x: an array, or what ``jnp.asarray`` accepts. Integers become floats.
        negative_slope: the slope for negative numbers.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft import nn
        >>> float(nn.leaky_relu(-1.0, 0.5))
        -0.5
    """
    x = arraylike("leaky_relu", x)
    return _either(x >= 0, x, negative_slope * x)


def hard_tanh(x: Any) -> Array:
    """Return x clipped to [-1, 1].

    Args:
        x: an array, or what ``jnp.asarray`` accepts. Integers become floats.

    Returns:
        An array of the shape of ``x``.

    Example:
        >>> from weft import nn
        >>> float(nn.hard_tanh(3.0))
        1.0
    """
    x = arraylike("hard_tanh", x)
    return _either(x > 1, 1, _either(x < -1, -1, x))


def hard_sigmoid(x: Any) -> Array:
    """Return relu6(x + 3) / 6, a sigmoid of straight lines.

    Args:
        x: an array, or what ``jnp.asarray`` accepts. Integers become floats.

    Returns:
        A float array of the shape of ``x``, between 0 and 1.

    Example:
        >>> from weft import nn
        >>> float(nn.hard_sigmoid(0.0))
        0.5
    """
    return relu6(ensure_array("hard_sigmoid", x) + 3.0) / 6.0


def hard_silu(x: Any) -> Array:
    """Return x · hard_sigmoid(x), also called hard_swish.

    Args:
        x: an array, or what ``jnp.asarray`` accepts. Integers become floats.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft import nn
        >>> float(nn.hard_silu(3.0))
        3.0
    """
    x = arraylike("hard_silu", x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


def gelu(x: Any, approximate: bool = True) -> Array:
    """Return x times the standard normal distribution function at x.

    Args:
        x: an array, or what ``jnp.asarray`` accepts. Integers become floats.
        approximate: use the formula with tanh, which is faster, instead of the exact one with erf.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft import nn
        >>> round(float(nn.gelu(1.0, approximate=False)), 4)
        0.8413
    """
    (x,) = inexact("gelu", x)
    kind = x.dtype.type
    if approximate:
        inner = kind(math.sqrt(2 / math.pi)) * (x + 0.044715 * (x**3))
        return x * (0.5 * (1.0 + jnp.tanh(inner)))
    return 0.5 * x * lax.erfc(-x * kind(math.sqrt(0.5)))


def glu(x: Any, axis: int = -1) -> Array:
    """Return the first half of x along an axis times the sigmoid of the second half.

    Args:
        x: an array, or what ``jnp.asarray`` accepts. Integers become floats.
        axis: the axis to halve. Its size must be even.

    Returns:
        A float array whose size along ``axis`` is half of that of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft import nn
        >>> nn.glu(jnp.array([4.0, 0.0]))
        Array([2.], dtype=float32)
    """
    x = arraylike("glu", x)
    if x.shape[canonical_axis(axis, x.ndim)] % 2:
        raise AssertionError(
            f"glu needs an even size along axis {axis}, got shape {x.shape}: pad the axis or pass"
            " another"
        )
    first, second = jnp.split(x, 2, axis)
    return first * sigmoid(second)


@custom_jvp
def log1mexp(x: Any) -> Array:
    """Return log(1 - exp(-x)) for x > 0, accurate at both ends.

    Args:
        x: an array, or what ``jnp.asarray`` accepts. Integers become floats.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft import nn
        >>> round(float(nn.log1mexp(1e-6)), 4)
        -13.8155
    """
    # Two forms, each on the side of log 2 where it keeps its digits (Mächler, Rmpfr note, 2012).
    x = arraylike("log1mexp", x)
    return jnp.where(x < math.log(2.0), jnp.log(-jnp.expm1(-x)), jnp.log1p(-jnp.exp(-x)))


log1mexp.defjvps(lambda g, out, x: g / jnp.expm1(x))


def logmeanexp(x: Any, axis: Axis = None, where: Any = None, keepdims: bool = False) -> Array:
    """Return log(mean(exp(x))) over some axes, without overflow.

    Args:
        x: an array, or what ``jnp.asarray`` accepts. Integers become floats.
        axis: the axis or axes to reduce. By default all.
        where: a mask that broadcasts to ``x``; elements where it is False are left out.
        keepdims: keep the reduced axes, with size 1.

    Returns:
        A float array of the reduced shape.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft import nn
        >>> nn.logmeanexp(jnp.array([1000.0, 1000.0]))
        Array(1000., dtype=float32)
    """
    x = ensure_array("logmeanexp", x)
    total = logsumexp(x, axis=axis, where=where, keepdims=keepdims)
    if where is None:
        size = x.size if axis is None else _count(x.shape, axis)
        if type(size) is Dim:
            return total - jnp.log(jnp.asarray(size, total.dtype))
        return total - jnp.asarray(math.log(size) if size else -np.inf, total.dtype)
    chosen = jnp.broadcast_to(where, x.shape)
    count = jnp.sum(chosen, axis=axis, keepdims=keepdims, dtype=total.dtype)
    return total - jnp.log(count)


def _count(shape: tuple[int, ...], axis: int | tuple[int, ...]) -> int:
    axes = (axis,) if isinstance(axis, int) else axis
    return math.prod(shape[i] for i in axes)


def standardize(
    x: Any,
    axis: Axis = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: Any = 1e-5,
    where: Any = None,
    *,
    algorithm: str = "fast",
) -> Array:
    """Return (x - mean) / sqrt(variance + epsilon).

    Args:
        x: an array, or what ``jnp.asarray`` accepts. Integers become floats.
        axis: the axis or axes along which mean and variance are computed.
        mean: the mean; computed from ``x`` by default.
        variance: the variance; computed from ``x`` by default.
        epsilon: a small number that keeps the divisor away from 0.
        where: a mask that broadcasts to ``x``; elements where it is False don't count in mean and
            variance.
        algorithm: how the variance is computed: ``'fast'``, mean(x²) - mean(x)², or ``'stable'``,
            mean((x - mean)²).

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft import nn
        >>> nn.standardize(jnp.array([1.0, 3.0]), epsilon=0.0)
        Array([-1.,  1.], dtype=float32)
    """
    x = arraylike("standardize", x)
    if mean is None:
        mean = jnp.mean(x, axis, keepdims=True, where=where)
    if variance is None:
        if algorithm == "stable":
            variance = jnp.mean(jnp.square(x - mean), axis, keepdims=True, where=where)
        elif algorithm != "fast":
            raise ValueError(f"standardize got algorithm={algorithm!r}: pass 'fast' or 'stable'")
        else:
            second = jnp.mean(jnp.square(x), axis, keepdims=True, where=where)
            # Rounding can make the difference of near-equal numbers negative.
            variance = jnp.clip(second - jnp.square(mean), 0)
    return jnp.subtract(x, mean) * lax.rsqrt(variance + epsilon)


def one_hot(x: Whole, num_classes: int, *, dtype: Any = None, axis: Any = -1) -> Array:
    """Return rows of zeros with a 1 at each index; an index out of range gives a row of zeros.

    Args:
        x: the indices, an integer array.
        num_classes: the length of a row.
        dtype: the dtype of the result; the default float dtype if None.
        axis: where the new dimension goes, or the name of a mapped axis of size ``num_classes``.

    Returns:
        An array with one more dimension than ``x``, of size ``num_classes``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft import nn
        >>> nn.one_hot(jnp.array([0, 2, 5]), 3)
        Array([[1., 0., 0.],
               [0., 0., 1.],
               [0., 0., 0.]], dtype=float32)
    """
    size = whole(concrete(num_classes, "one_hot needs to know the number of classes"))
    x = jnp.asarray(x)
    if not dtypes.issubdtype(x.dtype, np.integer):
        warn(
            f"one_hot takes integers, got dtype {x.dtype}; this will be an error: convert with"
            " astype(int)",
            DeprecationWarning,
        )
    dtype = dtypes.default_float_dtype() if dtype is None else dtype
    try:
        place = operator.index(axis)
    except TypeError:
        if size != lax.axis_size(axis):
            raise ValueError(
                f"one_hot over the mapped axis {axis!r} of size {lax.axis_size(axis)} needs"
                f" num_classes of that size, got {size}"
            ) from None
        return jnp.asarray(x == lax.axis_index(axis), dtype=dtype)
    rank = x.ndim + 1
    if not -rank <= place < rank:
        raise ValueError(f"one_hot got axis={place} for a result of rank {rank}")
    place %= rank
    shape = [1] * rank
    shape[place] = size
    expanded = lax.expand_dims(x, (place,))
    classes = lax.broadcasted_iota(x.dtype, tuple(shape), place)
    return (expanded == classes).astype(dtype)
