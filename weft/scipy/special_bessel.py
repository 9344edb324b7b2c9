"""Bessel functions and spherical harmonics of ``scipy.special``."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import lax
from weft.core.array import Array
from weft.numpy.operands import arraylike, inexact, real
from weft.numpy.promotion import mixes_inside


def i0e(x: Any) -> Array:
    """Return the modified Bessel function of order 0, times exp(-|x|).

    Args:
        x: where to evaluate it, real numbers.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft.scipy.special import i0e
        >>> float(i0e(0.0))
        1.0
    """
    (x,) = inexact("i0e", x)
    return lax.bessel_i0e(x)


def i0(x: Any) -> Array:
    """Return the modified Bessel function of order 0.

    Args:
        x: where to evaluate it, real numbers.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft.scipy.special import i0
        >>> round(float(i0(1.0)), 4)
        1.2661
    """
    (x,) = inexact("i0", x)
    return lax.mul(lax.exp(lax.abs(x)), lax.bessel_i0e(x))


def i1e(x: Any) -> Array:
    """Return the modified Bessel function of order 1, times exp(-|x|).

    Args:
        x: where to evaluate it, real numbers.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft.scipy.special import i1e
        >>> float(i1e(0.0))
        0.0
    """
    (x,) = inexact("i1e", x)
    return lax.bessel_i1e(x)


def i1(x: Any) -> Array:
    """Return the modified Bessel function of order 1.

    Args:
        x: where to evaluate it, real numbers.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> from weft.scipy.special import i1
        >>> round(float(i1(1.0)), 4)
        0.5652
    """
    (x,) = inexact("i1", x)
    return lax.mul(lax.exp(lax.abs(x)), lax.bessel_i1e(x))


@mixes_inside
def bessel_jn(z: Any, *, v: int, n_iter: int = 50) -> Array:
    """Return Bessel functions of the first kind of orders 0 to ``v``.

    Args:
        z: where to evaluate them, real numbers.
        v: the highest order.
        n_iter: the order at which Miller's downward recurrence starts; well above both ``v`` and
            the largest |z|.

    Returns:
        A float array of shape ``(v + 1, *z.shape)``.

    Example:
        >>> from weft.scipy.special import bessel_jn
        >>> [round(float(j), 4) for j in bessel_jn(1.0, v=2)]
        [0.7652, 0.4401, 0.1149]
    """
    (z,) = real("bessel_jn", z)
    v, n_iter = operator.index(v), operator.index(n_iter)
    at_zero = z == 0
    safe = jnp.where(at_zero, 1, z)
    big = 1e10

    def step(carry: Any, order: Any) -> Any:
        above, value, total = carry
        factor, even = order
        above, value = value, factor / safe * value - above
        total = total + jnp.where(even, 2 * value, 0)
        # The recurrence grows without bound: it is scaled down, and what was kept in the end.
        scale = jnp.where(jnp.abs(value) > big, z.dtype.type(1 / big), z.dtype.type(1))
        return (above * scale, value * scale, total * scale), (value, scale)

    def orders(start: int, stop: int) -> Any:
        k = np.arange(start, stop)
        return jnp.asarray(2 * (k + 1), z.dtype), jnp.asarray(k % 2 == 0)

    zero, most = jnp.zeros_like(z), min(v, n_iter)
    carry = (zero, jnp.full_like(z, 1e-16), zero)
    down = lambda c, k: (step(c, k)[0], None)
    carry, _ = lax.scan(down, carry, orders(most + 1, n_iter + 1), reverse=True)
    (_, last, total), (kept, scales) = lax.scan(step, carry, orders(0, most + 1), reverse=True)
    kept = kept * jnp.cumprod(scales, 0)
    kept = jnp.concatenate([kept, jnp.zeros((v - most, *z.shape), z.dtype)])
    # 1 = J_0 + 2 J_2 + 2 J_4 + ... (DLMF 10.12.4).
    values = kept / (total - last)
    first = lax.broadcasted_iota(z.dtype, (v + 1,) + (1,) * z.ndim, 0) == 0
    return jnp.where(at_zero, first.astype(z.dtype), values)


def sph_harm_y(
    n: Any, m: Any, theta: Any, phi: Any, diff_n: int | None = None, n_max: int | None = None
) -> Array:
    """Return a spherical harmonic.

    Args:
        n: the degree, integers.
        m: the order, integers from -n to n.
        theta: the polar angle, from 0 to π.
        phi: the azimuth, from 0 to 2π.
        diff_n: SciPy's request for derivatives, which must be None: differentiate instead.
        n_max: the largest degree, needed if ``n`` is traced.

    Returns:
        A complex array of the shape of the arguments.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.special import sph_harm_y
        >>> y = sph_harm_y(jnp.array([1]), jnp.array([0]), jnp.array([0.0]), jnp.array([0.0]))
        >>> round(float(y[0].real), 4)
        0.4886
    """
    if diff_n is not None:
        raise NotImplementedError(
            "sph_harm_y has no diff_n; differentiate with respect to theta and phi with weft.jacfwd"
        )
    if n_max is None:
        n_max = int(np.max(np.asarray(n)))
    n, m = jnp.asarray(n), jnp.asarray(m)
    theta, phi = inexact("sph_harm_y", jnp.atleast_1d(arraylike("sph_harm_y", theta)), phi)
    value = _legendre(n, jnp.abs(m), theta, operator.index(n_max))
    angle = jnp.abs(m) * phi
    out = lax.complex(*jnp.broadcast_arrays(value * jnp.cos(angle), value * jnp.sin(angle)))
    mirrored = jnp.where(m % 2 == 0, 1, -1) * jnp.conj(out)
    return jnp.where(m < 0, mirrored, out)


def _legendre(n: Any, m: Any, theta: Any, n_max: int) -> Any:
    """Normalised associated Legendre functions, by recurrence in the degree (DLMF 14.10.3)."""
    x, sine = jnp.cos(theta), jnp.abs(jnp.sin(theta))
    shape = np.broadcast_shapes(n.shape, m.shape, theta.shape)
    order = jnp.broadcast_to(m, shape).astype(theta.dtype)
    zero = jnp.zeros(shape, theta.dtype)

    def step(degree: Any, state: Any) -> Any:
        diagonal, before, value, out = state
        d = jnp.asarray(degree, theta.dtype)
        grown = -jnp.sqrt((2 * d + 1) / (2 * jnp.maximum(d, 1))) * sine * diagonal
        diagonal = jnp.where((degree > 0) & (d <= order), grown, diagonal)
        above = d > order
        square = jnp.where(above, d * d - order * order, 1)
        front = jnp.sqrt(jnp.maximum(4 * d * d - 1, 1) / square)
        back = jnp.where(above & (d - 1 > order), (d - 1) ** 2 - order * order, 0)
        # The root's derivative at 0 is infinite; d and order carry none.
        back = jnp.sqrt(back / jnp.maximum(4 * (d - 1) ** 2 - 1, 1))
        risen = front * (x * value - back * before)
        new = jnp.where(d == order, diagonal, jnp.where(above, risen, 0))
        return diagonal, value, new, jnp.where(degree == n, new, out)

    start = (jnp.full(shape, 0.5 / math.sqrt(math.pi), theta.dtype), zero, zero, zero)
    return lax.fori_loop(0, n_max + 1, step, start)[3]
