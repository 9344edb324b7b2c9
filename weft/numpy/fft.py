"""``weft.numpy.fft``: discrete Fourier transforms with NumPy's names and conventions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.base.traceback import expose
from weft.core.array import Array
from weft.core.dims.dim import Dim, min_dim, whole
from weft.lax.shape import canonical_axis
from weft.numpy.creation import arange, array, asarray, placed
from weft.numpy.promotion import check_arraylike
from weft.prims.families import scalar
from weft.prims.fft import FftType

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

Sizes = Sequence[int] | None


def _scale(norm: str | None, inverse: bool, count: int, dtype: Any) -> Any:
    """What the transform is multiplied by; None for 1. Inverse ones divide by ``count`` already."""
    if norm not in (None, "backward", "forward", "ortho"):
        raise ValueError(f"norm must be 'backward', 'ortho' or 'forward', got {norm!r}")
    if norm in (None, "backward") or count == 0:
        return None
    if type(count) is Dim:
        number = scalar(dtype, count)
        number = lax.sqrt(number) if norm == "ortho" else number
        return number if inverse else lax.div(scalar(dtype, 1), number)
    factor = count**0.5 if norm == "ortho" else float(count)
    return scalar(dtype, factor if inverse else 1 / factor)


def _axes_and_sizes(name: str, x: Any, s: Sizes, axes: Sizes) -> tuple[tuple[int, ...], Any]:
    """The axes to transform and the sizes asked for, checked."""
    if s is not None:
        s = tuple(map(whole, s))
        if any(n <= 0 for n in s):
            raise ValueError(f"{name} needs positive sizes, got {s}")
        if axes is not None and len(s) != len(axes):
            raise ValueError(f"{name} got {len(s)} sizes for {len(axes)} axes")
    if axes is None:
        first = 0 if s is None else x.ndim - len(s)
        axes = range(first, x.ndim)
    found = tuple(canonical_axis(axis, x.ndim) for axis in axes)
    if len(set(found)) != len(found):
        raise ValueError(f"{name} takes each axis once, got axes {tuple(axes)}")
    return found, s


def _resize(x: Any, sizes: Sequence[int]) -> Any:
    """The last axes cut or padded with zeros to these sizes."""
    lead = x.ndim - len(sizes)
    whole = (*x.shape[:lead], *sizes)
    kept = tuple(map(min_dim, whole, x.shape))
    if kept != x.shape:
        x = lax.slice(x, (0,) * x.ndim, kept)
    if kept == whole:
        return x
    config = [(0, n - k, 0) for n, k in zip(whole, kept)]
    return lax.pad(x, scalar(x.dtype, 0), config)


def _transform(name: str, kind: FftType, a: Any, s: Sizes, axes: Sizes, norm: Any) -> Array:
    check_arraylike(f"jnp.fft.{name}", a)
    x = asarray(a)
    found, sizes = _axes_and_sizes(name, x, s, axes)
    others = tuple(i for i in range(x.ndim) if i not in found)
    order = (*others, *found)
    moved = order != tuple(range(x.ndim))
    if moved:
        x = lax.transpose(x, order)
    own = x.shape[len(others) :]
    if sizes is not None:
        half = kind == FftType.IRFFT
        x = _resize(x, (*sizes[:-1], sizes[-1] // 2 + 1) if half else sizes)
    elif kind == FftType.IRFFT and own:
        sizes = (*own[:-1], max(0, 2 * (own[-1] - 1)))
    else:
        sizes = own
    if kind == FftType.RFFT and sizes and sizes[-1] < 1:
        raise ValueError(f"{name} needs at least one value along the last axis, got {sizes[-1]}")
    result = _by_three(x, kind, tuple(sizes))
    inverse = name.startswith("i")
    scale = _scale(norm, inverse, prod(sizes), result.dtype)
    if scale is not None:
        result = result * scale
    return lax.transpose(result, _inverse(order)) if moved else result


def _by_three(x: Any, kind: FftType, sizes: tuple[int, ...]) -> Any:
    """The transform of the last axes, at most three at a time."""
    if len(sizes) <= 3:
        return lax.fft(x, kind, sizes)
    count = 2 if len(sizes) == 4 else 3
    lead = x.ndim - len(sizes)
    split = x.ndim - count
    forth = (*range(lead), *range(split, x.ndim), *range(lead, split))
    back = _inverse(forth)
    last, first = sizes[-count:], sizes[:-count]
    if kind in (FftType.FFT, FftType.RFFT):
        x = lax.fft(x, kind, last)
        rest = _by_three(lax.transpose(x, forth), FftType.FFT, first)
        return lax.transpose(rest, back)
    x = _by_three(lax.transpose(x, forth), FftType.IFFT, first)
    return lax.fft(lax.transpose(x, back), kind, last)


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes another."""
    return tuple(np.argsort(order).tolist())


def _transform_1d(name: str, kind: FftType, a: Any, n: Any, axis: Any, norm: Any) -> Array:
    if isinstance(axis, (list, tuple)):
        raise ValueError(f"{name} takes one axis, got {axis}: use {name}n")
    sizes = None if n is None else [n]
    return _transform(name, kind, a, sizes, None if axis is None else [axis], norm)


def _transform_2d(name: str, kind: FftType, a: Any, s: Sizes, axes: Any, norm: Any) -> Array:
    if axes is None:
        raise TypeError(f"{name} needs its two axes: leave axes out for the last two, or use fftn")
    if len(axes) != 2:
        raise ValueError(f"{name} takes two axes, got {axes}")
    return _transform(name, kind, a, s, axes, norm)


# --- one axis -------------------------------------------------------------------------------------


def fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the discrete Fourier transform along an axis.

    Args:
        a: Array, real or complex.
        n: Number of values to transform along the axis: the input is cut or padded with zeros to
            it; by default its size.
        axis: Axis to transform.
        norm: Where to divide: "backward" (by n in the inverse, the default), "forward" (by n in the
            forward transform) or "ortho" (by sqrt(n) in both).

    Returns:
        Complex array of size ``n`` along ``axis``; frequencies in the order of ``fftfreq``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fft.fft(jnp.array([1., 2., 3., 4.]))
        Array([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j], dtype=complex64)
    """
    return _transform_1d("fft", FftType.FFT, a, n, axis, norm)


def ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the inverse discrete Fourier transform along an axis.

    Args:
        a: Array, real or complex.
        n: Number of values to transform along the axis: the input is cut or padded with zeros to
            it; by default its size.
        axis: Axis to transform.
        norm: Where to divide: "backward" (by n in the inverse, the default), "forward" (by n in the
            forward transform) or "ortho" (by sqrt(n) in both).

    Returns:
        Complex array of size ``n`` along ``axis``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fft.ifft(jnp.array([4., 0., 0., 0.]))
        Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _transform_1d("ifft", FftType.IFFT, a, n, axis, norm)


def rfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the Fourier transform of real values: the frequencies that are not negative.

    Args:
        a: Array of real numbers; complex ones raise an error.
        n: Number of values to transform along the axis: the input is cut or padded with zeros to
            it; by default its size.
        axis: Axis to transform.
        norm: Where to divide: "backward" (by n in the inverse, the default), "forward" (by n in the
            forward transform) or "ortho" (by sqrt(n) in both).

    Returns:
        Complex array of size ``n // 2 + 1`` along ``axis``; the other frequencies are their
        conjugates.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fft.rfft(jnp.array([1., 2., 3., 4.]))
        Array([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)
    """
    return _transform_1d("rfft", FftType.RFFT, a, n, axis, norm)


def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the real values whose transform is given by its non-negative frequencies.

    Args:
        a: Array of m frequencies along ``axis``, as ``rfft`` returns.
        n: Size of the result along the axis; by default ``2 * (m - 1)``. Give it if the size was
            odd.
        axis: Axis to transform.
        norm: Where to divide: "backward" (by n in the inverse, the default), "forward" (by n in the
            forward transform) or "ortho" (by sqrt(n) in both).

    Returns:
        Real array of size ``n`` along ``axis``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fft.irfft(jnp.array([10., -2. + 2.j, -2.]))
        Array([1., 2., 3., 4.], dtype=float32)
    """
    return _transform_1d("irfft", FftType.IRFFT, a, n, axis, norm)


def hfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the real transform of values with Hermitian symmetry, of which half are given.

    Args:
        a: Array of the m first values along ``axis``; the others are their conjugates.
        n: Size of the result along the axis; by default ``2 * (m - 1)``.
        axis: Axis to transform.
        norm: Where to divide: "backward" (by n in the inverse, the default), "forward" (by n in the
            forward transform) or "ortho" (by sqrt(n) in both).

    Returns:
        Real array of size ``n`` along ``axis``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fft.hfft(jnp.array([1., 2., 3.]))
        Array([ 8., -2.,  0., -2.], dtype=float32)
    """
    check_arraylike("jnp.fft.hfft", a)
    if isinstance(axis, (list, tuple)):
        raise ValueError(f"hfft takes one axis, got {axis}")
    x = asarray(a).conj()
    size = 2 * (x.shape[canonical_axis(axis, x.ndim)] - 1) if n is None else n
    return _transform_1d("hfft", FftType.IRFFT, x, n, axis, norm) * size


def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Return the inverse of ``hfft``: the first half of values with Hermitian symmetry.

    Args:
        a: Array of real numbers.
        n: Number of values to transform along the axis: the input is cut or padded with zeros to
            it; by default its size.
        axis: Axis to transform.
        norm: Where to divide: "backward" (by n in the inverse, the default), "forward" (by n in the
            forward transform) or "ortho" (by sqrt(n) in both).

    Returns:
        Complex array of size ``n // 2 + 1`` along ``axis``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fft.ihfft(jnp.array([8., -2., 0., -2.]))
        Array([1.+0.j, 2.+0.j, 3.+0.j], dtype=complex64)
    """
    if isinstance(axis, (list, tuple)):
        raise ValueError(f"ihfft takes one axis, got {axis}")
    x = asarray(a)
    size = x.shape[canonical_axis(axis, x.ndim)] if n is None else n
    return _transform_1d("ihfft", FftType.RFFT, x, n, axis, norm).conj() * (1 / size)


# --- two axes, any axes ---------------------------------------------------------------------------


def fft2(a: Any, s: Sizes = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Array:
    """Return the discrete Fourier transform along two axes.

    Args:
        a: Array, real or complex.
        s: Size to transform along each of ``axes``: the input is cut or padded with zeros to it; by
            default its shape.
        axes: The two axes to transform.
        norm: Where to divide: "backward" (by n in the inverse, the default), "forward" (by n in the
            forward transform) or "ortho" (by sqrt(n) in both).

    Returns:
        Complex array.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fft.fft2(jnp.ones((2, 2)))
        Array([[4.+0.j, 0.+0.j],
               [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _transform_2d("fft2", FftType.FFT, a, s, axes, norm)


def ifft2(
    a: Any, s: Sizes = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """Return the inverse discrete Fourier transform along two axes.

    Args:
        a: Array, real or complex.
        s: Size to transform along each of ``axes``: the input is cut or padded with zeros to it; by
            default its shape.
        axes: The two axes to transform.
        norm: Where to divide: "backward" (by n in the inverse, the default), "forward" (by n in the
            forward transform) or "ortho" (by sqrt(n) in both).

    Returns:
        Complex array.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fft.ifft2(jnp.array([[4., 0.], [0., 0.]]))
        Array([[1.+0.j, 1.+0.j],
               [1.+0.j, 1.+0.j]], dtype=complex64)
    """
    return _transform_2d("ifft2", FftType.IFFT, a, s, axes, norm)


def rfft2(
    a: Any, s: Sizes = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """Return the Fourier transform of real values along two axes.

    Args:
        a: Array of real numbers.
        s: Size to transform along each of ``axes``: the input is cut or padded with zeros to it; by
            default its shape.
        axes: The two axes to transform.
        norm: Where to divide: "backward" (by n in the inverse, the default), "forward" (by n in the
            forward transform) or "ortho" (by sqrt(n) in both).

    Returns:
        Complex array; of the last of ``axes`` only the non-negative frequencies.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fft.rfft2(jnp.ones((2, 4))).shape
        (2, 3)
    """
    return _transform_2d("rfft2", FftType.RFFT, a, s, axes, norm)


def irfft2(
    a: Any, s: Sizes = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """Return the inverse of ``rfft2``.

    Args:
        a: Array of frequencies, as ``rfft2`` returns.
        s: Sizes of the result along ``axes``; the last is by default ``2 * (m - 1)``.
        axes: The two axes to transform.
        norm: Where to divide: "backward" (by n in the inverse, the default), "forward" (by n in the
            forward transform) or "ortho" (by sqrt(n) in both).

    Returns:
        Real array.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fft.irfft2(jnp.fft.rfft2(jnp.ones((2, 4))))
        Array([[1., 1., 1., 1.],
               [1., 1., 1., 1.]], dtype=float32)
    """
    return _transform_2d("irfft2", FftType.IRFFT, a, s, axes, norm)


def fftn(a: Any, s: Sizes = None, axes: Sizes = None, norm: str | None = None) -> Array:
    """Return the discrete Fourier transform along up to all axes.

    Args:
        a: Array, real or complex.
        s: Size to transform along each of ``axes``: the input is cut or padded with zeros to it; by
            default its shape.
        axes: Axes to transform; by default all, or the last ``len(s)``.
        norm: Where to divide: "backward" (by n in the inverse, the default), "forward" (by n in the
            forward transform) or "ortho" (by sqrt(n) in both).

    Returns:
        Complex array.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fft.fftn(jnp.ones((2, 1, 2)))[0]
        Array([[4.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _transform("fftn", FftType.FFT, a, s, axes, norm)


def ifftn(a: Any, s: Sizes = None, axes: Sizes = None, norm: str | None = None) -> Array:
    """Return the inverse discrete Fourier transform along up to all axes.

    Args:
        a: Array, real or complex.
        s: Size to transform along each of ``axes``: the input is cut or padded with zeros to it; by
            default its shape.
        axes: Axes to transform; by default all, or the last ``len(s)``.
        norm: Where to divide: "backward" (by n in the inverse, the default), "forward" (by n in the
            forward transform) or "ortho" (by sqrt(n) in both).

    Returns:
        Complex array.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fft.ifftn(jnp.fft.fftn(jnp.ones((1, 2)))).real
        Array([[1., 1.]], dtype=float32)
    """
    return _transform("ifftn", FftType.IFFT, a, s, axes, norm)


def rfftn(a: Any, s: Sizes = None, axes: Sizes = None, norm: str | None = None) -> Array:
    """Return the Fourier transform of real values along up to all axes.

    Args:
        a: Array of real numbers.
        s: Size to transform along each of ``axes``: the input is cut or padded with zeros to it; by
            default its shape.
        axes: Axes to transform; by default all, or the last ``len(s)``.
        norm: Where to divide: "backward" (by n in the inverse, the default), "forward" (by n in the
            forward transform) or "ortho" (by sqrt(n) in both).

    Returns:
        Complex array; of the last of ``axes`` only the non-negative frequencies.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fft.rfftn(jnp.ones((2, 3, 4))).shape
        (2, 3, 3)
    """
    return _transform("rfftn", FftType.RFFT, a, s, axes, norm)


def irfftn(a: Any, s: Sizes = None, axes: Sizes = None, norm: str | None = None) -> Array:
    """Return the inverse of ``rfftn``.

    Args:
        a: Array of frequencies, as ``rfftn`` returns.
        s: Sizes of the result along ``axes``; the last is by default ``2 * (m - 1)``.
        axes: Axes to transform; by default all, or the last ``len(s)``.
        norm: Where to divide: "backward" (by n in the inverse, the default), "forward" (by n in the
            forward transform) or "ortho" (by sqrt(n) in both).

    Returns:
        Real array.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fft.irfftn(jnp.ones((2, 3, 3))).shape
        (2, 3, 4)
    """
    return _transform("irfftn", FftType.IRFFT, a, s, axes, norm)


# --- frequencies ----------------------------------------------------------------------------------


def _check_scalars(name: str, n: Any, d: Any) -> None:
    for what, x in (("n", n), ("d", d)):
        if isinstance(x, (list, tuple)):
            raise ValueError(f"{name} takes a single number as {what}, got {x}")


def fftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """Return the frequencies that belong to the values of ``fft``.

    Args:
        n: Number of samples, a static integer.
        d: Distance of the samples.
        dtype: Floating-point dtype of the result; by default the default float type.
        device: Device or sharding to put the result on.

    Returns:
        Vector of length ``n``: 0, the positive and then the negative frequencies, in cycles per
        unit of ``d``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fft.fftfreq(4)
        Array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    _check_scalars("fftfreq", n, d)
    wanted = dtypes.default_float_dtype() if dtype is None else np.dtype(dtype)
    real = dtypes.finfo(dtypes.to_inexact_dtype(wanted)).dtype
    i = arange(n, dtype=real)
    k = (i + n // 2) % n - n // 2
    return placed((k / array(d * n, dtype=real)).astype(wanted), device, None)


def rfftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """Return the frequencies that belong to the values of ``rfft``.

    Args:
        n: Number of samples, a static integer.
        d: Distance of the samples.
        dtype: Floating-point dtype of the result; by default the default float type.
        device: Device or sharding to put the result on.

    Returns:
        Vector of length ``n // 2 + 1``, from 0 up, in cycles per unit of ``d``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fft.rfftfreq(4)
        Array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    _check_scalars("rfftfreq", n, d)
    wanted = dtypes.default_float_dtype() if dtype is None else np.dtype(dtype)
    found = arange(n // 2 + 1, dtype=wanted) / array(d * n, dtype=wanted)
    return placed(found, device, None)


def _shifted(name: str, x: Any, axes: Any, sign: int) -> Array:
    check_arraylike(f"jnp.fft.{name}", x)
    x = asarray(x)
    if axes is None:
        axes = range(x.ndim)
    elif isinstance(axes, int):
        axes = (axes,)
    for axis in axes:
        axis = canonical_axis(axis, x.ndim)
        size = x.shape[axis]
        split = (-sign * (size // 2)) % size if size else 0
        if split:
            parts = [lax.slice_in_dim(x, *ends, axis=axis) for ends in ((split, size), (0, split))]
            x = lax.concatenate(parts, axis)
    return x


def fftshift(x: Any, axes: int | Sequence[int] | None = None) -> Array:
    """Return an array with the zero frequency moved to the middle.

    Args:
        x: Array of values in the order of ``fft`` or ``fftfreq``.
        axes: Axis or sequence of axes to shift; by default all.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fft.fftshift(jnp.fft.fftfreq(4))
        Array([-0.5 , -0.25,  0.  ,  0.25], dtype=float32)
    """
    return _shifted("fftshift", x, axes, 1)


def ifftshift(x: Any, axes: int | Sequence[int] | None = None) -> Array:
    """Return an array with the zero frequency moved from the middle to the front.

    Args:
        x: Array as ``fftshift`` returns.
        axes: Axis or sequence of axes to shift; by default all.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fft.ifftshift(jnp.array([-1, 0, 1]))
        Array([ 0,  1, -1], dtype=int32)
    """
    return _shifted("ifftshift", x, axes, -1)


expose(sys.modules[__name__])
