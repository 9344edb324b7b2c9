"""A density estimated from a sample by Gaussian kernels: ``scipy.stats.gaussian_kde``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import lax, random
from weft.core.array import Array
from weft.numpy import promotion
from weft.scipy import special
from weft.tree.registry import register_pytree_node_class

_NO_SINGLE = "gaussian_kde needs a sample of more than one element"


@register_pytree_node_class
@dataclass(frozen=True, init=False)
class gaussian_kde:
    """A density estimate: the mean of normal distributions around the points of a sample.

    Args:
        dataset: the sample, of shape (n,) or (dimensions, n).
        bw_method: the bandwidth: ``'scott'`` (the default), ``'silverman'``, a number, or a
            function of the estimate.
        weights: the weight of each point. By default all are equal.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.stats import gaussian_kde
        >>> density = gaussian_kde(jnp.array([-1.0, 0.0, 1.0]))
        >>> [round(float(p), 4) for p in density(jnp.array([0.0, 3.0]))]
        [0.3182, 0.0076]
    """

    neff: Any
    dataset: Any
    weights: Any
    covariance: Any
    inv_cov: Any

    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None) -> None:
        promotion.check_arraylike("gaussian_kde", dataset)
        data = jnp.atleast_2d(dataset)
        if jnp.issubdtype(data.dtype, np.complexfloating):
            raise NotImplementedError("gaussian_kde needs real samples")
        if data.ndim != 2:
            raise ValueError(f"gaussian_kde needs a sample of shape (d, n), got {data.shape}")
        if data.size <= 1:
            raise ValueError(_NO_SINGLE)
        (data,) = promotion.promote_dtypes_inexact(data)
        d, n = data.shape
        if weights is None:
            weights = jnp.full(n, 1 / n, data.dtype)
        else:
            promotion.check_arraylike("gaussian_kde", weights)
            data, weights = promotion.promote_dtypes_inexact(data, jnp.atleast_1d(weights))
            if weights.shape != (n,):
                raise ValueError(
                    f"gaussian_kde needs weights of shape {(n,)}, one per point, got"
                    f" {weights.shape}"
                )
            weights = weights / weights.sum()
        self._set(dataset=data, weights=weights, neff=1 / jnp.sum(weights**2))
        factor = self._bandwidth(bw_method, d)
        spread = jnp.atleast_2d(jnp.cov(data, rowvar=True, bias=False, aweights=weights))
        inverse = jnp.linalg.inv(spread)
        self._set(covariance=spread * factor**2, inv_cov=inverse / factor**2)

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _bandwidth(self, method: Any, d: int) -> Any:
        if method is None or (isinstance(method, str) and method == "scott"):
            return self.neff ** (-1 / (d + 4))
        if isinstance(method, str) and method == "silverman":
            return (self.neff * (d + 2) / 4) ** (-1 / (d + 4))
        if np.isscalar(method) and not isinstance(method, str):
            return method
        if isinstance(method, Array) and not method.shape:
            return method
        if callable(method):
            return method(self)
        raise ValueError(
            "bw_method of gaussian_kde must be 'scott', 'silverman', a number or a function, not "
            f"{method!r}"
        )

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        return (self.neff, self.dataset, self.weights, self.covariance, self.inv_cov), None

    @classmethod
    def tree_unflatten(cls, _: None, children: Any) -> gaussian_kde:
        self = cls.__new__(cls)
        names = ("neff", "dataset", "weights", "covariance", "inv_cov")
        self._set(**dict(zip(names, children, strict=True)))
        return self

    @property
    def d(self) -> int:
        """How many dimensions the sample has."""
        return int(self.dataset.shape[0])

    @property
    def n(self) -> int:
        """How many points the sample has."""
        return int(self.dataset.shape[1])

    def evaluate(self, points: Any) -> Array:
        """The density at points, which are columns."""
        promotion.check_arraylike("evaluate", points)
        points = self._columns(points)
        return jnp.exp(self._log_density(points))

    __call__ = evaluate

    def pdf(self, x: Any) -> Array:
        """The density at points, as ``evaluate``."""
        return self.evaluate(x)

    def logpdf(self, x: Any) -> Array:
        """The logarithm of the density at points."""
        promotion.check_arraylike("logpdf", x)
        return self._log_density(self._columns(x))

    def _columns(self, points: Any) -> Array:
        points = jnp.atleast_2d(points)
        if points.ndim != 2:
            raise ValueError(f"points are the columns of a matrix, got shape {points.shape}")
        d, m = points.shape
        if d != self.d:
            if d != 1 or m != self.d:
                raise ValueError(f"points have {d} dimensions, the sample of the density {self.d}")
            points = points.reshape(self.d, 1)
        return points

    def _log_density(self, points: Array) -> Array:
        points, data, weights, inverse = promotion.promote_dtypes_inexact(
            points, self.dataset, self.weights, self.inv_cov
        )
        # in coordinates whitened by a root of the inverse, distances are plain ones
        root = jnp.linalg.cholesky(inverse)
        data, points = root.T @ data, root.T @ points
        squares = jnp.square(points[:, :, None] - data[:, None, :]).sum(axis=0)
        norm = jnp.log(jnp.diagonal(root)).sum() - 0.5 * self.d * np.log(2 * np.pi)
        return special.logsumexp(-0.5 * squares, b=weights, axis=1) + norm

    def integrate_gaussian(self, mean: Any, cov: Any) -> Array:
        """The integral of the density times a normal density."""
        promotion.check_arraylike("integrate_gaussian", mean, cov)
        mean, cov = jnp.atleast_1d(jnp.squeeze(mean)), jnp.atleast_2d(cov)
        if mean.shape != (self.d,):
            raise ValueError(f"the mean has shape {mean.shape} where the density needs {(self.d,)}")
        if cov.shape != (self.d, self.d):
            raise ValueError(
                f"the covariance has shape {cov.shape} where the density needs {(self.d, self.d)}"
            )
        return self._overlap(mean[:, None] - self.dataset, self.covariance + cov) @ self.weights

    def _overlap(self, apart: Array, covariance: Array) -> Array:
        """Normal densities of columns."""
        root = jnp.linalg.cholesky(covariance)
        z = lax.linalg.triangular_solve(root, apart, left_side=True, lower=True)
        norm = jnp.log(jnp.diagonal(root)).sum() + 0.5 * self.d * np.log(2 * np.pi)
        return jnp.exp(-0.5 * (z * z).sum(axis=0) - norm)

    def integrate_box_1d(self, low: Any, high: Any) -> Array:
        """The integral of a density in one dimension from ``low`` to ``high``."""
        if self.d != 1:
            raise ValueError(f"integrate_box_1d is for one dimension, this density has {self.d}")
        if jnp.ndim(low) or jnp.ndim(high):
            raise ValueError("integrate_box_1d takes numbers as limits, not arrays")
        width = jnp.sqrt(self.covariance[0, 0])
        upper = special.ndtr((high - self.dataset[0]) / width)
        lower = special.ndtr((low - self.dataset[0]) / width)
        return self.weights @ (upper - lower)

    def integrate_kde(self, other: gaussian_kde) -> Array:
        """The integral of the product of two densities."""
        if other.d != self.d:
            raise ValueError(f"the densities have {self.d} and {other.d} dimensions")
        apart = (self.dataset[:, :, None] - other.dataset[:, None, :]).reshape(self.d, -1)
        values = self._overlap(apart, self.covariance + other.covariance)
        return self.weights @ values.reshape(self.n, other.n) @ other.weights

    def resample(self, key: Any, shape: Any = ()) -> Array:
        """Points drawn from the density, in columns: an array of shape ``(d, *shape)``."""
        which, noise = random.split(key)
        chosen = random.choice(which, self.n, shape=shape, p=self.weights)
        zero = jnp.zeros(self.d, self.covariance.dtype)
        moved = random.multivariate_normal(
            noise, zero, self.covariance, shape=shape, dtype=self.dataset.dtype
        )
        return self.dataset[:, chosen] + jnp.moveaxis(moved, -1, 0)

    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: Any = None) -> Array:
        """Not available: only ``integrate_box_1d`` is."""
        raise NotImplementedError(
            "integrate_box is not supported; use integrate_box_1d for one dimension"
        )

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Not available: a density does not change; make another with its ``bw_method``."""
        raise NotImplementedError(
            "the bandwidth can't change; create a new gaussian_kde with that bw_method"
        )
