"""How much two images differ: a number for each pair. Values are from 0 to 1, channels last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import lax
from weft.core.array import Array
from weft.image.adjusting import windows
from weft.image.layout import image_of

AXES = (-3, -2, -1)


def _pair(name: str, a: Array, b: Array) -> tuple[Array, Array]:
    a, b = image_of(name, a), image_of(name, b)
    if a.shape != b.shape:
        raise ValueError(f"{name} takes two images of one shape, not {a.shape} and {b.shape}")
    for image in (a, b):
        if not jnp.issubdtype(image.dtype, jnp.floating):
            raise TypeError(f"{name} takes floating-point images, not {image.dtype}")
    return a, b


def mae(a: Array, b: Array, *, ignore_nans: bool = False) -> Array:
    """The mean absolute error.

    Args:
        a: an image (height, width, channels), or a batch of them.
        b: the same.
        ignore_nans: leave out pixels that are NaN.

    Returns:
        A number, or one for each pair.

    Example:
        >>> import weft
        >>> weft.image.mae(weft.numpy.ones((2, 2, 1)), weft.numpy.zeros((2, 2, 1)))
        Array(1., dtype=float32)
    """
    a, b = _pair("mae", a, b)
    return (jnp.nanmean if ignore_nans else jnp.mean)(jnp.abs(a - b), axis=AXES)


def mse(a: Array, b: Array, *, ignore_nans: bool = False) -> Array:
    """The mean squared error.

    Args:
        a: an image (height, width, channels), or a batch of them.
        b: the same.
        ignore_nans: leave out pixels that are NaN.

    Returns:
        A number, or one for each pair.

    Example:
        >>> import weft
        >>> weft.image.mse(weft.numpy.full((2, 2, 1), 2.0), weft.numpy.zeros((2, 2, 1)))
        Array(4., dtype=float32)
    """
    a, b = _pair("mse", a, b)
    return (jnp.nanmean if ignore_nans else jnp.mean)(jnp.square(a - b), axis=AXES)


def rmse(a: Array, b: Array, *, ignore_nans: bool = False) -> Array:
    """The root of the mean squared error.

    Args:
        a: an image (height, width, channels), or a batch of them.
        b: the same.
        ignore_nans: leave out pixels that are NaN.

    Returns:
        A number, or one for each pair.

    Example:
        >>> import weft
        >>> weft.image.rmse(weft.numpy.full((2, 2, 1), 2.0), weft.numpy.zeros((2, 2, 1)))
        Array(2., dtype=float32)
    """
    a, b = _pair("rmse", a, b)
    return jnp.sqrt(mse(a, b, ignore_nans=ignore_nans))


def psnr(a: Array, b: Array, *, ignore_nans: bool = False) -> Array:
    """The peak signal-to-noise ratio, in decibels, of images from 0 to 1.

    Args:
        a: an image (height, width, channels), or a batch of them.
        b: the same.
        ignore_nans: leave out pixels that are NaN.

    Returns:
        A number, or one for each pair.

    Example:
        >>> import weft
        >>> weft.image.psnr(weft.numpy.full((2, 2, 1), 0.1), weft.numpy.zeros((2, 2, 1))).round(3)
        Array(20., dtype=float32)
    """
    a, b = _pair("psnr", a, b)
    return -10.0 * jnp.log(mse(a, b, ignore_nans=ignore_nans)) / np.log(10.0).astype(np.float32)


def simse(a: Array, b: Array, *, ignore_nans: bool = False) -> Array:
    """The mean squared error with ``b`` scaled to make it least (Barron and Malik, 2015).

    Args:
        a: an image (height, width, channels), or a batch of them.
        b: the same.
        ignore_nans: leave out pixels that are NaN.

    Returns:
        A number, or one for each pair.

    Example:
        >>> import weft
        >>> image = weft.numpy.arange(4.0).reshape(2, 2, 1)
        >>> weft.image.simse(image, 3 * image)
        Array(0., dtype=float32)
    """
    a, b = _pair("simse", a, b)
    total = jnp.nansum if ignore_nans else jnp.sum
    scale = total(a * b, axis=AXES, keepdims=True) / total(b * b, axis=AXES, keepdims=True)
    return mse(a, scale * b, ignore_nans=ignore_nans)


def _middle(image: Array) -> Array:
    """About the mean of an image, 0 where that is not finite: variances about it lose few digits.
    They are the same about any number, so that it has no gradient."""
    some = image[..., ::8, :, :]
    middle = lax.stop_gradient(jnp.mean(some, axis=(-3, -2), keepdims=True))
    return jnp.where(jnp.isfinite(middle), middle, 0)


def ssim(
    a: Array,
    b: Array,
    *,
    max_val: float = 1.0,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    return_map: bool = False,
    precision: Any = lax.Precision.HIGHEST,
    filter_fn: Callable[[Array], Array] | None = None,
    ignore_nans: bool = False,
) -> Array:
    """The structural similarity: 1 for equal images (Wang et al., 2004).

    Args:
        a: an image (height, width, channels), or a batch of them.
        b: the same.
        max_val: the largest value that a pixel can have.
        filter_size: the height and width of the window.
        filter_sigma: the standard deviation of the window, a Gaussian.
        k1: damps the comparison of means.
        k2: damps the comparison of variances.
        return_map: return the similarity around each pixel instead.
        precision: has no effect: windows are summed in full precision.
        filter_fn: means over windows, in place of the Gaussian's.
        ignore_nans: leave out windows that have NaN.

    Returns:
        A number, or one for each pair, or the map.

    Example:
        >>> import weft
        >>> image = weft.random.uniform(weft.random.key(0), (16, 16, 3))
        >>> weft.image.ssim(image, image).round(3)
        Array(1., dtype=float32)
    """
    a, b = _pair("ssim", a, b)
    if filter_fn is None:
        places = np.arange(filter_size) - (filter_size - 1) / 2
        weights = jnp.exp(-0.5 * jnp.square(jnp.asarray(places, jnp.float32) / filter_sigma))
        weights = (weights / jnp.sum(weights)).astype(a.dtype)
        middles = _middle(a), _middle(b)
        u, v = a - middles[0], b - middles[1]
        whole = jnp.stack([u, v, u * u, v * v, u * v])
        means: Any = windows(windows(whole, weights, -2), weights, -3)
        mean_a, mean_b = means[0] + middles[0], means[1] + middles[1]
    else:
        means = [filter_fn(image) for image in (a, b, a * a, b * b, a * b)]
        mean_a, mean_b = means[0], means[1]
    aa, bb, ab = mean_a * mean_a, mean_b * mean_b, mean_a * mean_b
    least = float(np.finfo(np.float32).eps) ** 2
    squares = means[0] * means[0], means[1] * means[1]
    var_a, var_b = (jnp.maximum(least, m - mm) for m, mm in zip(means[2:4], squares, strict=True))
    # A covariance is at most the root of the product of the variances. Its sign is not taken
    # apart: that would lose the gradient where it is 0.
    limit = jnp.sqrt(var_a * var_b)
    both = means[4] - means[0] * means[1]
    both = jnp.minimum(jnp.maximum(both, -limit), limit)
    c1, c2 = (k1 * max_val) ** 2, (k2 * max_val) ** 2
    similar = (2 * ab + c1) * (2 * both + c2) / ((aa + bb + c1) * (var_a + var_b + c2))
    if return_map:
        return similar
    return (jnp.nanmean if ignore_nans else jnp.mean)(similar, axis=AXES)
