"""The right-skewed Gumbel distribution, of the largest of many values."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.core.array import Array
from weft.numpy import operands

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density: -z - exp(-z) - log(scale), with z = (x - loc) / scale.

    >>> from weft.scipy.stats import gumbel_r
    >>> float(gumbel_r.logpdf(0.0))
    -1.0
    """
    x, loc, scale = operands.real("gumbel_r.logpdf", x, loc, scale)
    z = (x - loc) / scale
    value = -(z + jnp.exp(-z)) - jnp.log(scale)
    return jnp.where(scale > 0, value, np.nan)


def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density.

    >>> from weft.scipy.stats import gumbel_r
    >>> round(float(gumbel_r.pdf(0.0)), 4)
    0.3679
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of values up to x.

    >>> from weft.scipy.stats import gumbel_r
    >>> round(float(gumbel_r.cdf(0.0)), 4)
    0.3679
    """
    return jnp.exp(logcdf(x, loc, scale))


def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of ``cdf``.

    >>> from weft.scipy.stats import gumbel_r
    >>> float(gumbel_r.logcdf(0.0))
    -1.0
    """
    x, loc, scale = operands.real("gumbel_r.logcdf", x, loc, scale)
    return jnp.where(scale > 0, -jnp.exp((loc - x) / scale), np.nan)


def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of values above x.

    >>> from weft.scipy.stats import gumbel_r
    >>> round(float(gumbel_r.sf(0.0)), 4)
    0.6321
    """
    return -jnp.expm1(logcdf(*operands.strong("gumbel_r.sf", x, loc, scale)))


def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of ``sf``.

    >>> from weft.scipy.stats import gumbel_r
    >>> round(float(gumbel_r.logsf(0.0)), 4)
    -0.4587
    """
    return jnp.log(-jnp.expm1(logcdf(x, loc, scale)))


def ppf(p: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The inverse of ``cdf``.

    >>> from weft.scipy.stats import gumbel_r
    >>> round(float(gumbel_r.ppf(0.5)), 4)
    0.3665
    """
    p, loc, scale = operands.real("gumbel_r.ppf", p, loc, scale)
    inside = (p > 0) & (p < 1)
    return jnp.where(inside, loc - scale * jnp.log(-jnp.log(p)), np.nan)
