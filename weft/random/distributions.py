"""The distributions that others are made of: bits, uniforms, normals and their transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft import numpy as jnp
from weft.api.jit import jit
from weft.core.array import Array
from weft.random.arguments import (
    broadcast,
    broadcast_shape,
    check_cast,
    check_dtype,
    check_shape,
    const,
    converted,
    placed,
    random_bits,
    unpack,
)
from weft.random.keys import check_key, split_key

ONE = np.float32(1)
_UNSIGNED = {n: np.dtype(f"uint{n}") for n in (8, 16, 32, 64)}


def drawn(
    name: str,
    draw: Callable[..., Any],
    key: Any,
    params: tuple[Any, ...],
    shape: Any,
    dtype: Any,
    out_sharding: Any,
) -> Array:
    """What ``draw(key, *params, shape, dtype)`` gives, once all of them are checked."""
    key, _ = check_key(name, key)
    dtype = check_dtype(name, dtype)
    shape = broadcast_shape(name, shape, *params) if params else check_shape(name, shape)
    check_cast(name, dtype, *params)
    return placed(draw(key, *params, shape, dtype), out_sharding)


def bits(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Return random unsigned integers, in which every bit is 0 or 1 with equal probability.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        shape: the shape of the result. By default a single number.
        dtype: an unsigned integer dtype; uint32 by default, uint64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.bits(weft.random.key(0), (2,))
        Array([4070199207, 4202968722], dtype=uint32)
    """
    key, _ = check_key("bits", key)
    given = dtypes.default_uint_dtype() if dtype is None else dtype
    given = check_dtype("bits", given, np.unsignedinteger)
    drawn = random_bits(key, given.itemsize * 8, check_shape("bits", shape))
    return placed(drawn, out_sharding)


def uniform(
    key: Any,
    shape: Any = (),
    dtype: Any = None,
    minval: Any = 0.0,
    maxval: Any = 1.0,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return numbers uniform in ``[minval, maxval)``.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        shape: the shape of the result. By default a single number.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        minval: the lower bound, which can be drawn; broadcast against ``shape``.
        maxval: the upper bound, which is not drawn; broadcast against ``shape``.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.uniform(weft.random.key(0), (2,))
        Array([0.947667 , 0.9785799], dtype=float32)
    """
    key, _ = check_key("uniform", key)
    dtype = check_dtype("uniform", dtype)
    drawn = _uniform(key, minval, maxval, check_shape("uniform", shape), dtype)
    return placed(drawn, out_sharding)


@jit(static_argnums=(3, 4))
def _uniform(key: Any, minval: Any, maxval: Any, shape: Any, dtype: Any) -> Any:
    bounds = [lax.convert_element_type(x, dtype) for x in (minval, maxval)]
    minval, maxval = (lax.broadcast_to_rank(x, len(shape)) for x in bounds)
    info = dtypes.finfo(dtype)
    if info.bits not in _UNSIGNED:
        raise TypeError(f"uniform returns floats of 8, 16, 32 or 64 bits, not dtype {dtype}")
    # Few bits of mantissa want few random bits: more would be thrown away.
    drawn = 8 if info.nmant < 8 else info.bits
    unsigned = _UNSIGNED[info.bits]
    raw = lax.convert_element_type(random_bits(key, drawn, shape), unsigned)
    # Random bits under the exponent of 1 make a float in [1, 2).
    one = np.array(1.0, dtype)
    mantissa = lax.shift_right_logical(raw, unsigned.type(drawn - info.nmant))
    floats = lax.bitcast_convert_type(lax.bitwise_or(mantissa, one.view(unsigned)[()]), dtype)
    floats = lax.sub(floats, one[()])
    scaled = lax.add(lax.mul(floats, lax.sub(maxval, minval)), minval)
    return lax.max(minval, lax.reshape(scaled, shape))


# --- normals --------------------------------------------------------------------------------------


def normal(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Return numbers from the standard normal distribution.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        shape: the shape of the result. By default a single number.
        dtype: the dtype of the result, float or complex; the default float dtype if None. Complex
            numbers have variance 1 in total.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.normal(weft.random.key(0), (2,)).shape
        (2,)
    """
    key, _ = check_key("normal", key)
    dtype = check_dtype("normal", dtype, np.inexact)
    return placed(_normal(key, check_shape("normal", shape), dtype), out_sharding)


@jit(static_argnums=(1, 2))
def _normal(key: Any, shape: Any, dtype: Any) -> Any:
    if not dtypes.issubdtype(dtype, np.complexfloating):
        return _normal_real(key, shape, dtype)
    part = np.zeros((), dtype).real.dtype
    re, im = (
        lax.convert_element_type(_normal_real(k, shape, part), dtype)
        for k in unpack(split_key(key))
    )
    scale = np.array(np.sqrt(2), dtype)[()]
    return lax.div(lax.add(re, lax.mul(dtype.type(1j), im)), scale)


@jit(static_argnums=(1, 2))
def _normal_real(key: Any, shape: Any, dtype: Any) -> Any:
    low = np.nextafter(np.array(-1.0, dtype), np.array(0.0, dtype), dtype=dtype)[()]
    u = uniform(key, shape, dtype, low, np.array(1.0, dtype)[()])
    return lax.mul(np.array(np.sqrt(2), dtype)[()], lax.erf_inv(u))


def truncated_normal(
    key: Any,
    lower: Any,
    upper: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return numbers from the standard normal distribution, restricted to an interval.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        lower: the lower bound.
        upper: the upper bound.
        shape: the shape of the result. By default what ``lower`` and ``upper`` broadcast to.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``, every element between the bounds.

    Example:
        >>> import weft
        >>> x = weft.random.truncated_normal(weft.random.key(0), -1.0, 1.0, (100,))
        >>> bool((x > -1.0).all() and (x < 1.0).all())
        True
    """
    key, _ = check_key("truncated_normal", key)
    dtype = check_dtype("truncated_normal", dtype)
    shape = broadcast_shape("truncated_normal", shape, lower, upper)
    return placed(_truncated_normal(key, lower, upper, shape, dtype), out_sharding)


@jit(static_argnums=(3, 4))
def _truncated_normal(key: Any, lower: Any, upper: Any, shape: Any, dtype: Any) -> Any:
    sqrt2 = np.array(np.sqrt(2), dtype)[()]
    lower = lax.convert_element_type(lower, dtype)
    upper = lax.convert_element_type(upper, dtype)
    a = lax.erf(lax.div(lower, sqrt2))
    b = lax.erf(lax.div(upper, sqrt2))
    out = lax.mul(sqrt2, lax.erf_inv(uniform(key, shape, dtype, minval=a, maxval=b)))
    infinity = np.array(np.inf, dtype)
    low = lax.nextafter(lax.stop_gradient(lower), infinity[()])
    high = lax.nextafter(lax.stop_gradient(upper), (-infinity)[()])
    # The bounds are open: rounding must not reach them.
    return jnp.clip(out, low, high)


def lognormal(
    key: Any,
    sigma: Any = ONE,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return numbers whose logarithm is normal with mean 0.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        sigma: the standard deviation of the logarithm.
        shape: the shape of the result. By default the shape of ``sigma``.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.lognormal(weft.random.key(0), shape=(2,)).shape
        (2,)
    """
    key, _ = check_key("lognormal", key)
    dtype = check_dtype("lognormal", dtype, np.inexact)
    shape = broadcast_shape("lognormal", shape, sigma)
    check_cast("lognormal", dtype, sigma)
    return placed(_lognormal(key, sigma, shape, dtype), out_sharding)


@jit(static_argnums=(2, 3), inline=True)
def _lognormal(key: Any, sigma: Any, shape: Any, dtype: Any) -> Any:
    sigma = lax.convert_element_type(sigma, dtype)
    return lax.exp(normal(key, shape, dtype) * sigma)


def rademacher(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Return signs, -1 and 1 with equal probability.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        shape: the shape of the result. By default a single number.
        dtype: the dtype of the result; int32 by default, int64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.rademacher(weft.random.key(0), (3,))
        Array([-1, -1,  1], dtype=int32)
    """
    key, _ = check_key("rademacher", key)
    dtype = dtypes.check_user_dtype(int if dtype is None else dtype, "rademacher")
    return placed(_rademacher(key, check_shape("rademacher", shape), dtype), out_sharding)


@jit(static_argnums=(1, 2))
def _rademacher(key: Any, shape: Any, dtype: Any) -> Any:
    heads = lax.convert_element_type(bernoulli(key, 0.5, shape), dtype)
    return lax.convert_element_type(2 * heads - 1, dtype)


def bernoulli(
    key: Any,
    p: Any = 0.5,
    shape: Any = None,
    mode: str = "low",
    *,
    out_sharding: Any = None,
) -> Array:
    """Return booleans that are True with probability ``p``.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        p: the probability of True, between 0 and 1.
        shape: the shape of the result. By default the shape of ``p``.
        mode: ``'low'``, or ``'high'`` to draw twice as many bits, which is exact for smaller
            probabilities.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        A boolean array of shape ``shape``.

    Example:
        >>> import weft
        >>> weft.random.bernoulli(weft.random.key(0), 0.5, (3,))
        Array([False, False,  True], dtype=bool)
    """
    if mode not in ("high", "low"):
        raise ValueError(f"bernoulli takes mode='low' or mode='high', got {mode!r}")
    key, _ = check_key("bernoulli", key)
    dtype = dtypes.dtype(p)
    if not dtypes.issubdtype(dtype, np.floating):
        raise TypeError(f"bernoulli takes a probability of floating dtype, got {dtype}")
    shape = broadcast_shape("bernoulli", shape, p)
    p = converted(p, dtype)
    return placed(_bernoulli(key, p, shape, mode), out_sharding)


@jit(static_argnums=(2, 3))
def _bernoulli(key: Any, p: Any, shape: Any, mode: str) -> Any:
    dtype = p.dtype
    if mode == "low":
        return uniform(key, shape, dtype) < p
    high, low = unpack(uniform(key, (2, *shape), dtype))
    return low * 2.0 ** -dtypes.finfo(dtype).nmant < p - high


# --- by the inverse of the distribution function --------------------------------------------------


def exponential(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Return numbers from the exponential distribution with mean 1.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        shape: the shape of the result. By default a single number.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.exponential(weft.random.key(0), (2,)).shape
        (2,)
    """
    return drawn("exponential", _exponential, key, (), shape, dtype, out_sharding)


@jit(static_argnums=(1, 2))
def _exponential(key: Any, shape: Any, dtype: Any) -> Any:
    return lax.neg(lax.log1p(lax.neg(uniform(key, shape, dtype))))


def cauchy(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Return numbers from the standard Cauchy distribution.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        shape: the shape of the result. By default a single number.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.cauchy(weft.random.key(0), (2,)).shape
        (2,)
    """
    return drawn("cauchy", _cauchy, key, (), shape, dtype, out_sharding)


@jit(static_argnums=(1, 2))
def _cauchy(key: Any, shape: Any, dtype: Any) -> Any:
    u = uniform(key, shape, dtype, minval=dtypes.finfo(dtype).eps, maxval=1.0)
    return lax.tan(lax.mul(const(u, np.pi), lax.sub(u, const(u, 0.5))))


def laplace(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Return numbers from the Laplace distribution: exponential numbers with random signs.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        shape: the shape of the result. By default a single number.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.laplace(weft.random.key(0), (2,)).shape
        (2,)
    """
    return drawn("laplace", _laplace, key, (), shape, dtype, out_sharding)


@jit(static_argnums=(1, 2))
def _laplace(key: Any, shape: Any, dtype: Any) -> Any:
    low = -1.0 + dtypes.finfo(dtype).epsneg
    u = uniform(key, shape, dtype, minval=low, maxval=1.0)
    return lax.mul(lax.sign(u), lax.log1p(lax.neg(lax.abs(u))))


def logistic(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Return numbers from the standard logistic distribution.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        shape: the shape of the result. By default a single number.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.logistic(weft.random.key(0), (2,)).shape
        (2,)
    """
    return drawn("logistic", _logistic, key, (), shape, dtype, out_sharding)


@jit(static_argnums=(1, 2))
def _logistic(key: Any, shape: Any, dtype: Any) -> Any:
    x = uniform(key, shape, dtype, minval=dtypes.finfo(dtype).tiny, maxval=1.0)
    return lax.sub(lax.log(x), lax.log1p(lax.neg(x)))


def pareto(
    key: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Return numbers from the Pareto distribution, with density ``b / x ** (b + 1)`` for x >= 1.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        b: the exponent of the tail, positive.
        shape: the shape of the result. By default the shape of ``b``.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.pareto(weft.random.key(0), 2.0, (2,)).shape
        (2,)
    """
    return drawn("pareto", _pareto, key, (b,), shape, dtype, out_sharding)


@jit(static_argnums=(2, 3))
def _pareto(key: Any, b: Any, shape: Any, dtype: Any) -> Any:
    b = lax.convert_element_type(b, dtype)
    return lax.exp(exponential(key, shape, dtype) / b)


def rayleigh(
    key: Any, scale: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Return numbers from the Rayleigh distribution: lengths of normal vectors in the plane.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        scale: the standard deviation of each component of the vectors.
        shape: the shape of the result. By default the shape of ``scale``.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.rayleigh(weft.random.key(0), 2.0, (2,)).shape
        (2,)
    """
    return drawn("rayleigh", _rayleigh, key, (scale,), shape, dtype, out_sharding)


@jit(static_argnums=(2, 3))
def _rayleigh(key: Any, scale: Any, shape: Any, dtype: Any) -> Any:
    u = uniform(key, shape, dtype)
    scale = broadcast(lax.convert_element_type(scale, dtype), shape)
    return lax.mul(scale, lax.sqrt(lax.mul(lax.log(u), const(scale, -2))))


def weibull_min(
    key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = None
) -> Array:
    """Return numbers from the Weibull distribution of minima.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        scale: the factor of the result.
        concentration: the shape parameter of the distribution, positive; 1 gives the exponential
            distribution.
        shape: the shape of the result. By default a single number.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.weibull_min(weft.random.key(0), 2.0, 1.5, (2,)).shape
        (2,)
    """
    key, _ = check_key("weibull_min", key)
    dtype = check_dtype("weibull_min", dtype)
    return _weibull_min(key, scale, concentration, check_shape("weibull_min", shape), dtype)


@jit(static_argnums=(3, 4))
def _weibull_min(key: Any, scale: Any, concentration: Any, shape: Any, dtype: Any) -> Any:
    u = uniform(key, shape, dtype, minval=0, maxval=1)
    return jnp.power(lax.neg(lax.log1p(lax.neg(u))), 1.0 / concentration) * scale


def triangular(
    key: Any,
    left: Any,
    mode: Any,
    right: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return numbers whose density rises from ``left`` to ``mode`` and falls to ``right``.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        left: the lower bound.
        mode: where the density is largest.
        right: the upper bound.
        shape: the shape of the result. By default what the three bounds broadcast to.
        dtype: the float dtype of the result; float32 by default, float64 with 64-bit types enabled.
        out_sharding: where the result lives: a ``Sharding`` or ``PartitionSpec`` that places it on
            devices.

    Returns:
        An array of shape ``shape`` and dtype ``dtype``.

    Example:
        >>> import weft
        >>> weft.random.triangular(weft.random.key(0), 0.0, 1.0, 3.0, (2,)).shape
        (2,)
    """
    return drawn("triangular", _triangular, key, (left, mode, right), shape, dtype, out_sharding)


@jit(static_argnums=(4, 5), inline=True)
def _triangular(key: Any, left: Any, mode: Any, right: Any, shape: Any, dtype: Any) -> Any:
    left = broadcast(lax.convert_element_type(left, dtype), shape)
    right = broadcast(lax.convert_element_type(right, dtype), shape)
    mode = broadcast(lax.convert_element_type(mode, dtype), shape)
    turn = (mode - left) / (right - left)
    u = uniform(key, shape, dtype)
    rising = left + lax.sqrt(u * (right - left) * (mode - left))
    falling = right - lax.sqrt((1 - u) * (right - left) * (right - mode))
    return lax.select(u < turn, rising, falling)
