"""Window functions, for tapering samples."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.core.array import Array
from weft.numpy.broadcasting import filled
from weft.numpy.promotion import concrete
from weft.numpy.ufuncs import add, multiply, power, subtract, true_divide
from weft.numpy.unary import absolute, cos, i0, sqrt
from weft.prims.families import scalar


def _samples(name: str, M: Any) -> tuple[int, Any]:
    """How many samples, and their numbers; None where the window is constant."""
    count = operator.index(concrete(M, f"{name} needs a concrete number of samples"))
    return count, lax.iota(dtypes.default_float_dtype(), count) if count > 1 else None


def _constant(count: int) -> Array:
    return filled((count,), scalar(dtypes.default_float_dtype(), 1))


def _cosine(n: Any, cycles: int, count: int) -> Any:
    return cos(true_divide(multiply(cycles * 2 * np.pi, n), count - 1))


def blackman(M: int) -> Array:
    """Return the Blackman window: 0.42 - 0.5 cos(2 pi n / (M - 1)) + 0.08 cos(4 pi n / (M - 1)).

    Args:
        M: Number of points, a static integer.

    Returns:
        Floating-point vector of length ``M``, symmetric, largest in the middle.

    Example:
        >>> import weft.numpy as jnp
        >>> f"{jnp.blackman(3)[1]:.2f}"
        '1.00'
    """
    count, n = _samples("blackman", M)
    if n is None:
        return _constant(count)
    first = subtract(0.42, multiply(0.5, _cosine(n, 1, count)))
    return add(first, multiply(0.08, _cosine(n, 2, count)))


def bartlett(M: int) -> Array:
    """Return the triangular (Bartlett) window, which is 0 at the ends.

    Args:
        M: Number of points, a static integer.

    Returns:
        Floating-point vector of length ``M``, symmetric, largest in the middle.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.bartlett(3)
        Array([0., 1., 0.], dtype=float32)
    """
    count, n = _samples("bartlett", M)
    if n is None:
        return _constant(count)
    offset = subtract(add(multiply(2, n), 1), count)
    return subtract(1, true_divide(absolute(offset), count - 1))


def hamming(M: int) -> Array:
    """Return the Hamming window: 0.54 - 0.46 cos(2 pi n / (M - 1)).

    Args:
        M: Number of points, a static integer.

    Returns:
        Floating-point vector of length ``M``, symmetric, largest in the middle.

    Example:
        >>> import weft.numpy as jnp
        >>> f"{jnp.hamming(3)[1]:.2f}"
        '1.00'
    """
    count, n = _samples("hamming", M)
    if n is None:
        return _constant(count)
    return subtract(0.54, multiply(0.46, _cosine(n, 1, count)))


def hanning(M: int) -> Array:
    """Return the Hann window: 0.5 - 0.5 cos(2 pi n / (M - 1)).

    Args:
        M: Number of points, a static integer.

    Returns:
        Floating-point vector of length ``M``, symmetric, largest in the middle.

    Example:
        >>> import weft.numpy as jnp
        >>> f"{jnp.hanning(3)[1]:.2f}"
        '1.00'
    """
    count, n = _samples("hanning", M)
    if n is None:
        return _constant(count)
    return multiply(0.5, subtract(1, _cosine(n, 1, count)))


def kaiser(M: int, beta: Any) -> Array:
    """Return the Kaiser window: a ratio of Bessel functions with a shape parameter.

    Args:
        M: Number of points, a static integer.
        beta: Shape: 0 is a rectangle, larger values make the window narrower. It may be traced.

    Returns:
        Floating-point vector of length ``M``, symmetric, largest in the middle.

    Example:
        >>> import weft.numpy as jnp
        >>> f"{jnp.kaiser(3, 0.0)[0]:.2f}"
        '1.00'
    """
    count, n = _samples("kaiser", M)
    if n is None:
        return _constant(count)
    half = 0.5 * (count - 1)
    offset = true_divide(subtract(n, half), half)
    shape = multiply(beta, sqrt(subtract(1, power(offset, 2))))
    return true_divide(i0(shape), i0(beta))
