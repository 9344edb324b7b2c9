"""A diagonal normal distribution, and gradients scaled on their way back."""

from __future__ import annotations

from typing import Any, TypeVar

import weft
import weft.lax as lax
import weft.numpy as jnp
from weft.scipy.stats import norm

T = TypeVar("T")


class MultiNormalDiagFromLogScale:
    """Independent normal distributions, by their means and the logarithms of their deviations."""

    def __init__(self, loc, log_scale):
        self._mean, self._log_scale = jnp.asarray(loc), jnp.asarray(log_scale)
        self._scale = jnp.exp(self._log_scale)
        self._shape = jnp.broadcast_shapes(self._mean.shape, self._scale.shape)

    def sample(self, shape, key):
        """Draws of a shape."""
        noise = weft.random.normal(key, shape=(*shape, *self._shape))
        return noise * self._scale + self._mean

    def log_prob(self, x):
        """The logarithm of the density, over all dimensions."""
        logs = norm.logpdf(x, loc=self._mean, scale=self._scale)
        return jnp.sum(logs, axis=tuple(-(axis + 1) for axis in range(len(self._shape))))

    @property
    def log_scale(self):
        """The logarithms of the deviations."""
        return self._log_scale

    @property
    def params(self):
        """The means, and the logarithms of the deviations."""
        return [self._mean, self._log_scale]


def multi_normal(loc: Any, log_scale: Any) -> MultiNormalDiagFromLogScale:
    """Return a normal distribution with a diagonal covariance.

    Args:
        loc: the mean vector.
        log_scale: the logarithms of the standard deviations.

    Returns:
        A distribution with the methods ``sample(shape, seed)`` and ``log_prob(x)``.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.multi_normal(jnp.zeros(2), jnp.zeros(2)).log_prob(jnp.zeros(2)).round(4)
        Array(-1.8379, dtype=float32)
    """
    return MultiNormalDiagFromLogScale(loc, log_scale)


@weft.custom_vjp
def _scaled(inputs, scale):
    return inputs


def _scaled_forward(inputs, scale):
    return inputs, scale


def _scaled_backward(scale, cotangents):
    return weft.tree.map(lambda g: g * scale, cotangents), None


_scaled.defvjp(_scaled_forward, _scaled_backward)


def scale_gradient(inputs: T, scale: float) -> T:
    """Return the inputs, with gradients through them multiplied by a number.

    Args:
        inputs: an array or a tree of arrays.
        scale: the number. 0 stops the gradient.

    Returns:
        ``inputs``, unchanged.

    Example:
        >>> import weft, weft.optim as optim
        >>> float(weft.grad(lambda x: optim.scale_gradient(x, 0.5) ** 2)(3.0))
        3.0
    """
    if isinstance(scale, (int, float)):
        if scale == 1:
            return inputs
        if scale == 0:
            return lax.stop_gradient(inputs)
    return _scaled(inputs, scale)
