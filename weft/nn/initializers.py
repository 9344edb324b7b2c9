"""Initialisers of weights: functions of a key, a shape and a dtype, and makers of such functions.

Sizes: an array of weights maps ``in_axis`` to ``out_axis``; all further axes but ``batch_axis``
are positions that share the weights' variance (fan-in and fan-out count them).
"""

from __future__ import annotations

import math
import sys as _sys
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

import weft.numpy as jnp
from weft import dtypes, random
from weft.base.traceback import expose as _expose
from weft.core.array import Array

Axes = int | Sequence[int]

# Standard deviations of a standard normal cut at ±2 and of a complex one cut at modulus 2.
_CUT_NORMAL = 0.87962566103423978
_CUT_COMPLEX_NORMAL = 0.95311164380491208


@runtime_checkable
class Initializer(Protocol):
    """The type of initialisers: functions of key, shape and dtype that return an array.

    >>> import weft
    >>> isinstance(weft.nn.initializers.zeros, weft.nn.initializers.Initializer)
    True
    """

    def __call__(
        self, key: Any, shape: Sequence[int], dtype: Any = None, out_sharding: Any = None
    ) -> Array: ...


def _float(dtype: Any) -> Any:
    return dtypes.default_float_dtype() if dtype is None else dtype


def zeros(key: Any, shape: Sequence[int], dtype: Any = None, out_sharding: Any = None) -> Array:
    """Return an array of zeros; the key is not used.

    Args:
        key: a random key, which is ignored.
        shape: the shape of the array.
        dtype: the dtype of the array; the default float dtype if None.
        out_sharding: where the array lives: a ``Sharding`` or ``PartitionSpec``.

    Returns:
        An array of shape ``shape``.

    Example:
        >>> import weft
        >>> weft.nn.initializers.zeros(weft.random.key(0), (2,))
        Array([0., 0.], dtype=float32)
    """
    return jnp.zeros(shape, _float(dtype), out_sharding=out_sharding)


def ones(key: Any, shape: Sequence[int], dtype: Any = None, out_sharding: Any = None) -> Array:
    """Return an array of ones; the key is not used.

    Args:
        key: a random key, which is ignored.
        shape: the shape of the array.
        dtype: the dtype of the array; the default float dtype if None.
        out_sharding: where the array lives: a ``Sharding`` or ``PartitionSpec``.

    Returns:
        An array of shape ``shape``.

    Example:
        >>> import weft
        >>> weft.nn.initializers.ones(weft.random.key(0), (2,))
        Array([1., 1.], dtype=float32)
    """
    return jnp.ones(shape, _float(dtype), out_sharding=out_sharding)


def constant(value: Any, dtype: Any = None) -> Initializer:
    """Return an initialiser that fills arrays with ``value``.

    Args:
        value: a number, or an array that broadcasts to the requested shape.
        dtype: the dtype of the arrays; the default float dtype if None. A call can name another.

    Returns:
        A function of key, shape and dtype.

    Example:
        >>> import weft
        >>> weft.nn.initializers.constant(0.5)(weft.random.key(0), (2,))
        Array([0.5, 0.5], dtype=float32)
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype, out_sharding: Any = None) -> Array:
        return jnp.full(shape, value, dtype=_float(dtype), out_sharding=out_sharding)

    return init


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Return an initialiser of numbers uniform in [0, scale).

    Args:
        scale: the upper bound.
        dtype: the dtype of the arrays; the default float dtype if None. A call can name another.

    Returns:
        A function of key, shape and dtype.

    Example:
        >>> import weft
        >>> weft.nn.initializers.uniform(1.0)(weft.random.key(0), (2, 3)).shape
        (2, 3)
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype, out_sharding: Any = None) -> Array:
        dtype = _float(dtype)
        sample = random.uniform(key, shape, dtype, out_sharding=out_sharding)
        return sample * jnp.array(scale, dtype)

    return init


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Return an initialiser of normal numbers with mean 0.

    Args:
        stddev: the standard deviation.
        dtype: the dtype of the arrays; the default float dtype if None. A call can name another.

    Returns:
        A function of key, shape and dtype.

    Example:
        >>> import weft
        >>> weft.nn.initializers.normal(1.0)(weft.random.key(0), (2, 3)).shape
        (2, 3)
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype, out_sharding: Any = None) -> Array:
        dtype = _float(dtype)
        sample = random.normal(key, shape, dtype, out_sharding=out_sharding)
        return sample * jnp.array(stddev, dtype)

    return init


def truncated_normal(
    stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0
) -> Initializer:
    """Return an initialiser of normal numbers restricted to an interval.

    Args:
        stddev: the factor of the result; close to the standard deviation for wide intervals.
        dtype: the dtype of the arrays; the default float dtype if None. A call can name another.
        lower: the lower bound, before the numbers are multiplied by ``stddev``.
        upper: the upper bound, before the numbers are multiplied by ``stddev``.

    Returns:
        A function of key, shape and dtype.

    Example:
        >>> import weft
        >>> x = weft.nn.initializers.truncated_normal(1.0)(weft.random.key(0), (100,))
        >>> bool(abs(x).max() <= 2)
        True
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype, out_sharding: Any = None) -> Array:
        dtype = _float(dtype)
        sample = random.truncated_normal(key, lower, upper, shape, dtype, out_sharding=out_sharding)
        return sample * jnp.array(stddev, dtype)

    return init


def _size(shape: Sequence[int], axes: Axes) -> int:
    return shape[axes] if isinstance(axes, int) else math.prod(shape[i] for i in axes)


def _fans(
    shape: Sequence[int], in_axis: Axes, out_axis: Axes, batch_axis: Axes
) -> tuple[float, float]:
    """How many inputs make an output, and how many outputs an input reaches."""
    if in_axis == -2 and len(shape) < 2:
        raise ValueError(
            f"variance scaling cannot tell inputs from outputs in weights of shape {tuple(shape)}:"
            " give at least 2 dimensions, or pass in_axis and out_axis"
        )
    inputs, outputs = _size(shape, in_axis), _size(shape, out_axis)
    positions = math.prod(shape) / inputs / outputs / _size(shape, batch_axis)
    return inputs * positions, outputs * positions


_DENOMINATORS = {
    "fan_in": lambda inputs, outputs: inputs,
    "fan_out": lambda inputs, outputs: outputs,
    "fan_avg": lambda inputs, outputs: (inputs + outputs) / 2,
    "fan_geo_avg": lambda inputs, outputs: (inputs * outputs) ** 0.5,
}


def _on_disc(key: Any, shape: Sequence[int], dtype: Any, radius: Any) -> Array:
    """Complex numbers of uniform angle, their modulus a function of a uniform number."""
    modulus_key, angle_key = random.split(key)
    part = np.array(0, dtype).real.dtype
    dtype = dtypes.to_complex_dtype(part)
    modulus = radius(random.uniform(modulus_key, shape, part)).astype(dtype)
    angle = 2 * np.pi * random.uniform(angle_key, shape, part).astype(dtype)
    return modulus * jnp.exp(1j * angle)


def _cut_radius(uniform: Any) -> Any:
    """Modulus of a complex normal cut at 2, by the inverse of its distribution function."""
    return jnp.sqrt(-jnp.log(1 - (1 - jnp.exp(jnp.array(-4.0, uniform.dtype))) * uniform))


def _scaled(key: Any, shape: Any, dtype: Any, distribution: str, variance: Any, place: Any) -> Any:
    real = dtypes.issubdtype(dtype, np.floating)
    if distribution == "truncated_normal":
        if not real:
            sample = _on_disc(key, shape, dtype, _cut_radius)
            return sample * (jnp.sqrt(variance) / jnp.array(_CUT_COMPLEX_NORMAL, dtype))
        sample = random.truncated_normal(key, -2, 2, shape, dtype, out_sharding=place)
        return sample * (jnp.sqrt(variance) / jnp.array(_CUT_NORMAL, dtype))
    if distribution == "normal":
        return random.normal(key, shape, dtype, out_sharding=place) * jnp.sqrt(variance)
    if not real:
        sample = _on_disc(key, shape, dtype, lambda u: jnp.sqrt(2 * u))
        return sample * jnp.sqrt(variance)
    sample = random.uniform(key, shape, dtype, -1, out_sharding=place)
    return sample * jnp.sqrt(3 * variance)


def variance_scaling(
    scale: Any,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: Any = None,
) -> Initializer:
    """Return an initialiser of weights with variance scale / n, n being a fan of the weight.

    A weight's fan-in is the number of inputs that each output sums, its fan-out the number of
    outputs that each input reaches.

    Args:
        scale: the numerator of the variance.
        mode: the fan n: ``'fan_in'``, ``'fan_out'``, ``'fan_avg'`` (their mean) or
            ``'fan_geo_avg'`` (their geometric mean).
        distribution: ``'truncated_normal'``, ``'normal'`` or ``'uniform'``.
        in_axis: the axis or axes of the inputs of a weight.
        out_axis: the axis or axes of the outputs of a weight.
        batch_axis: axes that hold independent weights and count in no fan.
        dtype: the dtype of the arrays; the default float dtype if None. A call can name another.

    Returns:
        A function of key, shape and dtype.

    Example:
        >>> import weft
        >>> init = weft.nn.initializers.variance_scaling(1.0, "fan_in", "uniform")
        >>> x = init(weft.random.key(0), (12, 4))
        >>> bool(abs(x).max() <= 0.5)
        True
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype, out_sharding: Any = None) -> Array:
        dtype = _float(dtype)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        fans = _fans(shape, in_axis, out_axis, batch_axis)
        if mode not in _DENOMINATORS:
            raise ValueError(
                f"variance_scaling got mode={mode!r}: pass one of {', '.join(_DENOMINATORS)}"
            )
        if distribution not in ("truncated_normal", "normal", "uniform"):
            raise ValueError(
                f"variance_scaling got distribution={distribution!r}: pass 'truncated_normal',"
                " 'normal' or 'uniform'"
            )
        variance = jnp.array(scale / _DENOMINATORS[mode](*fans), dtype=dtype)
        return _scaled(key, shape, dtype, distribution, variance, out_sharding)

    return init


def glorot_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Return Glorot and Bengio's uniform initialiser (2010): variance 1 over the mean of both fans.

    Args:
        in_axis: the axis or axes of the inputs of a weight.
        out_axis: the axis or axes of the outputs of a weight.
        batch_axis: axes that hold independent weights and count in no fan.
        dtype: the dtype of the arrays; the default float dtype if None. A call can name another.

    Returns:
        A function of key, shape and dtype.

    Example:
        >>> import weft
        >>> x = weft.nn.initializers.glorot_uniform()(weft.random.key(0), (2, 4))
        >>> x.shape, bool(abs(x).max() <= 1)
        ((2, 4), True)
    """
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


def glorot_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Return Glorot and Bengio's initialiser (2010), from a truncated normal distribution.

    Args:
        in_axis: the axis or axes of the inputs of a weight.
        out_axis: the axis or axes of the outputs of a weight.
        batch_axis: axes that hold independent weights and count in no fan.
        dtype: the dtype of the arrays; the default float dtype if None. A call can name another.

    Returns:
        A function of key, shape and dtype.

    Example:
        >>> import weft
        >>> weft.nn.initializers.glorot_normal()(weft.random.key(0), (2, 4)).shape
        (2, 4)
    """
    return variance_scaling(
        1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype
    )


def lecun_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Return LeCun's uniform initialiser: variance 1 / fan-in.

    Args:
        in_axis: the axis or axes of the inputs of a weight.
        out_axis: the axis or axes of the outputs of a weight.
        batch_axis: axes that hold independent weights and count in no fan.
        dtype: the dtype of the arrays; the default float dtype if None. A call can name another.

    Returns:
        A function of key, shape and dtype.

    Example:
        >>> import weft
        >>> x = weft.nn.initializers.lecun_uniform()(weft.random.key(0), (12, 4))
        >>> x.shape, bool(abs(x).max() <= 0.5)
        ((12, 4), True)
    """
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def lecun_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Return LeCun's initialiser from a truncated normal distribution: variance 1 / fan-in.

    Args:
        in_axis: the axis or axes of the inputs of a weight.
        out_axis: the axis or axes of the outputs of a weight.
        batch_axis: axes that hold independent weights and count in no fan.
        dtype: the dtype of the arrays; the default float dtype if None. A call can name another.

    Returns:
        A function of key, shape and dtype.

    Example:
        >>> import weft
        >>> weft.nn.initializers.lecun_normal()(weft.random.key(0), (2, 4)).shape
        (2, 4)
    """
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def he_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Return He's uniform initialiser for relu (arXiv:1502.01852): variance 2 / fan-in.

    Args:
        in_axis: the axis or axes of the inputs of a weight.
        out_axis: the axis or axes of the outputs of a weight.
        batch_axis: axes that hold independent weights and count in no fan.
        dtype: the dtype of the arrays; the default float dtype if None. A call can name another.

    Returns:
        A function of key, shape and dtype.

    Example:
        >>> import weft
        >>> x = weft.nn.initializers.he_uniform()(weft.random.key(0), (24, 4))
        >>> x.shape, bool(abs(x).max() <= 0.5)
        ((24, 4), True)
    """
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def he_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
) -> Initializer:
    """Return He's initialiser for relu (arXiv:1502.01852): truncated normal, variance 2 / fan-in.

    Args:
        in_axis: the axis or axes of the inputs of a weight.
        out_axis: the axis or axes of the outputs of a weight.
        batch_axis: axes that hold independent weights and count in no fan.
        dtype: the dtype of the arrays; the default float dtype if None. A call can name another.

    Returns:
        A function of key, shape and dtype.

    Example:
        >>> import weft
        >>> weft.nn.initializers.he_normal()(weft.random.key(0), (2, 4)).shape
        (2, 4)
    """
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Return an initialiser of matrices with orthonormal rows or columns.

    Args:
        scale: the factor of the matrices.
        column_axis: the axis of the columns; all other axes together are the rows.
        dtype: the dtype of the arrays; the default float dtype if None. A call can name another.

    Returns:
        A function of key, shape and dtype.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> x = weft.nn.initializers.orthogonal()(weft.random.key(0), (3, 3))
        >>> bool(jnp.allclose(x @ x.T, jnp.eye(3), atol=1e-5))
        True
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype, out_sharding: Any = None) -> Array:
        dtype = _float(dtype)
        if len(shape) < 2:
            raise ValueError(
                f"orthogonal needs a shape of at least 2 dimensions, got {tuple(shape)}"
            )
        if 0 in shape:
            return jnp.zeros(shape, dtype, out_sharding=out_sharding)
        columns = shape[column_axis]
        rows = math.prod(shape) // columns
        matrix = random.orthogonal(key, rows, (), dtype, columns, out_sharding=out_sharding)
        kept = list(shape)
        del kept[column_axis]
        moved = jnp.moveaxis(jnp.reshape(matrix, (*kept, columns)), -1, column_axis)
        return jnp.array(scale, dtype) * moved

    return init


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Return an initialiser of convolution kernels that are an orthogonal matrix at the centre.

    Elsewhere they are 0. A shape is 1 to 3 window sizes, inputs, outputs, with no fewer outputs
    than inputs (arXiv:1806.05393).

    Args:
        scale: the factor of the matrix.
        column_axis: the axis of the columns of the matrix.
        dtype: the dtype of the arrays; the default float dtype if None. A call can name another.

    Returns:
        A function of key, shape and dtype.

    Example:
        >>> import weft
        >>> x = weft.nn.initializers.delta_orthogonal()(weft.random.key(0), (3, 2, 2))
        >>> float(abs(x[0]).sum())
        0.0
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype, out_sharding: Any = None) -> Array:
        dtype = _float(dtype)
        if len(shape) not in (3, 4, 5):
            raise ValueError(f"delta_orthogonal needs 3, 4 or 5 dimensions, got {tuple(shape)}")
        if shape[-1] < shape[-2]:
            raise ValueError(
                "delta_orthogonal needs at least as many outputs as inputs, got shape "
                f"{tuple(shape)}"
            )
        matrix = orthogonal(scale, column_axis, dtype)(key, shape[-2:])
        centre = tuple((n - 1) // 2 for n in shape[:-2])
        return jnp.zeros(shape, dtype, out_sharding=out_sharding).at[centre].set(matrix)

    return init


_expose(_sys.modules[__name__])
