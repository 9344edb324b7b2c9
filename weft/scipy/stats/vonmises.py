"""The von Mises distribution on the circle."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands
from weft.scipy.special import i0e

__all__ = ["logpdf", "pdf"]


def logpdf(x: Any, kappa: Any) -> Array:
    """Return the logarithm of the density of the von Mises distribution.

    It is kappa (cos x - 1) - log(2π exp(-kappa) I₀(kappa)).

    Args:
        x: the angles in radians at which to evaluate it.
        kappa: the concentration around 0, not negative.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import vonmises
        >>> round(float(vonmises.logpdf(0.0, 1.0)), 4)
        -1.0738
    """
    x, kappa = operands.real("vonmises.logpdf", x, kappa)
    value = kappa * (jnp.cos(x) - 1) - jnp.log(2 * np.pi * i0e(kappa))
    return jnp.where(kappa > 0, value, np.nan)


def pdf(x: Any, kappa: Any) -> Array:
    """Return the density of the von Mises distribution.

    Args:
        x: the angles in radians at which to evaluate it.
        kappa: the concentration around 0, not negative.

    Returns:
        A float array of the shape that the arguments broadcast to.

    Example:
        >>> from weft.scipy.stats import vonmises
        >>> round(float(vonmises.pdf(0.0, 1.0)), 4)
        0.3417
    """
    return jnp.exp(logpdf(x, kappa))
