"""Cosine transforms: ``weft.scipy.fft``."""

from __future__ import annotations

import sys as _sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes
from weft.base.traceback import expose as _expose
from weft.core.array import Array
from weft.lax.shape import canonical_axis
from weft.numpy import operands
from weft.numpy.promotion import mixes_inside

__all__ = ["dct", "dctn", "idct", "idctn"]


def _check(name: str, type: int, norm: str | None) -> None:
    if type != 2:
        raise NotImplementedError(f"{name} supports only the transform of type 2, not {type}")
    if norm not in (None, "backward", "ortho"):
        raise ValueError(f"{name}: norm {norm!r} is not None, 'backward' or 'ortho'")


def _sized(x: Array, n: int | None, axis: int) -> Array:
    """``x`` cut or filled with zeros to n elements, that axis last."""
    x = jnp.moveaxis(x, canonical_axis(axis, x.ndim), -1)
    size = x.shape[-1] if n is None else n
    if size < 1:
        error = TypeError if size == 0 else ValueError
        raise error(f"a cosine transform needs at least one element, got {size}")
    if n is None or n == x.shape[-1]:
        return x
    if n < x.shape[-1]:
        return x[..., :n]
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, n - x.shape[-1])])


def _floating(name: str, x: Any) -> Array:
    (array,) = operands.inexact(name, x)
    if dtypes.finfo(array.dtype).bits < 32:
        return array.astype(np.float32)
    return array


def _weights(n: int, dtype: Any) -> np.ndarray:
    """What makes the orthonormal transform of the plain one."""
    weights = np.full(n, np.sqrt(0.5 / n))
    weights[0] /= np.sqrt(2)
    return weights.astype(dtype)


def _turns(n: int, dtype: Any) -> np.ndarray:
    """exp(-iπk / 2n) for the frequencies of a real transform."""
    return np.exp(-0.5j * np.pi * np.arange(n // 2 + 1) / n).astype(dtypes.to_complex_dtype(dtype))


def _forward(x: Array) -> Array:
    """2 Σ x[j] cos(πk (2j + 1) / 2n) along the last axis, by one real transform of length n.

    The elements are taken in the order 0 2 4 ... 5 3 1 (Makhoul, 1980).
    """
    n = x.shape[-1]
    ordered = jnp.concatenate([x[..., ::2], jnp.flip(x[..., 1::2], -1)], axis=-1)
    z = jnp.fft.rfft(ordered) * _turns(n, x.dtype)
    upper = jnp.flip(z.imag[..., 1 : (n + 1) // 2], -1)
    return 2 * jnp.concatenate([z.real, -upper], axis=-1)


def _backward(x: Array) -> Array:
    """The inverse of ``_forward``."""
    n = x.shape[-1]
    mirrored = jnp.concatenate([jnp.zeros_like(x[..., :1]), jnp.flip(x[..., 1:], -1)], axis=-1)
    half = n // 2 + 1
    z = 0.5 * (x[..., :half] - 1j * mirrored[..., :half]) * _turns(n, x.dtype).conj()
    ordered = jnp.fft.irfft(z, n)
    first = (n + 1) // 2
    even, odd = ordered[..., :first], jnp.flip(ordered[..., first:], -1)
    odd = jnp.pad(odd, [(0, 0)] * (x.ndim - 1) + [(0, first - n // 2)])
    return jnp.stack([even, odd], axis=-1).reshape(*x.shape[:-1], 2 * first)[..., :n]


@mixes_inside
def dct(
    x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """Return the discrete cosine transform of type 2 along an axis.

    Args:
        x: a real array.
        type: the type of the transform; only 2 is supported.
        n: the length of the transform: the axis is cut or padded with zeros. By default its size.
        axis: the axis of the transform.
        norm: ``'ortho'`` makes the transform orthogonal; None or ``'backward'`` scales only the
            inverse.

    Returns:
        A float array with ``n`` elements along ``axis``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.fft import dct
        >>> dct(jnp.ones(2))
        Array([4., 0.], dtype=float32)
    """
    _check("dct", type, norm)
    x = _floating("dct", x)
    if operands.is_complex(x):
        real, imag = (dct(part, type, n, axis, norm) for part in (x.real, x.imag))
        return real + 1j * imag
    x = _sized(x, n, axis)
    out = _forward(x)
    if norm == "ortho":
        out = out * _weights(x.shape[-1], x.dtype)
    return jnp.moveaxis(out, -1, axis)


@mixes_inside
def idct(
    x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """Return the inverse of ``dct``.

    Args:
        x: a real array.
        type: the type of the transform; only 2 is supported.
        n: the length of the transform: the axis is cut or padded with zeros. By default its size.
        axis: the axis of the transform.
        norm: ``'ortho'`` makes the transform orthogonal; None or ``'backward'`` scales only the
            inverse.

    Returns:
        A float array with ``n`` elements along ``axis``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.fft import idct
        >>> idct(jnp.array([4.0, 0.0]))
        Array([1., 1.], dtype=float32)
    """
    _check("idct", type, norm)
    x = _floating("idct", x)
    if operands.is_complex(x):
        real, imag = (idct(part, type, n, axis, norm) for part in (x.real, x.imag))
        return real + 1j * imag
    x = _sized(x, n, axis)
    if norm == "ortho":
        x = x / _weights(x.shape[-1], x.dtype)
    return jnp.moveaxis(_backward(x), -1, axis)


def _plan(name: str, x: Array, s: Any, axes: Any) -> list[tuple[int, int | None]]:
    """The axes to transform, each with its length."""
    sizes = None if s is None else np.atleast_1d(np.asarray(s, int)).tolist()
    if axes is None:
        count = x.ndim if sizes is None else len(sizes)
        chosen = list(range(x.ndim - count, x.ndim))
    else:
        chosen = np.atleast_1d(np.asarray(axes, int)).tolist()
    for axis in chosen:
        if not -x.ndim <= axis < x.ndim:
            raise ValueError(f"axis {axis} is out of bounds for array of dimension {x.ndim}")
    if len({axis % x.ndim for axis in chosen}) < len(chosen):
        raise ValueError(f"{name} got an axis twice: {tuple(chosen)}")
    if sizes is not None and len(sizes) != len(chosen):
        raise ValueError(f"{name} got {len(sizes)} sizes for {len(chosen)} axes")
    return list(zip(chosen, sizes or [None] * len(chosen), strict=True))


@mixes_inside
def dctn(
    x: Any,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Return the discrete cosine transform of type 2 along several axes.

    Args:
        x: a real array.
        type: the type of the transform; only 2 is supported.
        s: the lengths of the transform along ``axes``: they are cut or padded with zeros. By
            default their sizes.
        axes: the axes of the transform. By default all, or the last ``len(s)``.
        norm: ``'ortho'`` makes the transform orthogonal; None or ``'backward'`` scales only the
            inverse.

    Returns:
        A float array of the transformed shape.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.fft import dctn
        >>> dctn(jnp.ones((2, 2)))
        Array([[16.,  0.],
               [ 0.,  0.]], dtype=float32)
    """
    _check("dctn", type, norm)
    x = operands.arraylike("dctn", x)
    for axis, n in _plan("dctn", x, s, axes):
        x = dct(x, type, n, axis, norm)
    return x


@mixes_inside
def idctn(
    x: Any,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Return the inverse of ``dctn``.

    Args:
        x: a real array.
        type: the type of the transform; only 2 is supported.
        s: the lengths of the transform along ``axes``: they are cut or padded with zeros. By
            default their sizes.
        axes: the axes of the transform. By default all, or the last ``len(s)``.
        norm: ``'ortho'`` makes the transform orthogonal; None or ``'backward'`` scales only the
            inverse.

    Returns:
        A float array of the transformed shape.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.fft import idctn
        >>> idctn(jnp.array([[16.0, 0.0], [0.0, 0.0]]))
        Array([[1., 1.],
               [1., 1.]], dtype=float32)
    """
    _check("idctn", type, norm)
    x = operands.arraylike("idctn", x)
    for axis, n in _plan("idctn", x, s, axes):
        x = idct(x, type, n, axis, norm)
    return x


_expose(_sys.modules[__name__])
