"""Convolution and correlation for ``scipy.signal``, by windows or by Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import lax
from weft.core.array import Array
from weft.numpy.operands import inexact, is_complex

_MODES = ("full", "same", "valid")


def _check_mode(name: str, mode: str) -> None:
    if mode not in _MODES:
        raise ValueError(f"{name}: mode {mode!r} is not one of 'full', 'same', 'valid'")


def _operands(name: str, in1: Any, in2: Any) -> list[Array]:
    if jnp.ndim(in1) != jnp.ndim(in2):
        raise ValueError(
            f"{name} needs operands of the same rank, got {jnp.ndim(in1)} and {jnp.ndim(in2)}"
        )
    return inexact(name, in1, in2)


def _is_swapped(name: str, shape1: Sequence[int], shape2: Sequence[int]) -> bool:
    """In mode valid, whether the second operand is the one that the first slides over."""
    if all(a >= b for a, b in zip(shape1, shape2, strict=True)):
        return False
    if all(a <= b for a, b in zip(shape1, shape2, strict=True)):
        return True
    raise ValueError(
        f"{name} in mode 'valid' needs one operand to be at least as large as the other in every"
        f" dimension, got shapes {tuple(shape1)} and {tuple(shape2)}"
    )


def _convolve(name: str, x: Array, kernel: Array, mode: str, precision: Any) -> Array:
    """A convolution by sliding the turned kernel over x."""
    _check_mode(name, mode)
    if not x.size or not kernel.size:
        raise ValueError(f"{name} needs operands with elements, got {x.shape} and {kernel.shape}")
    if not x.shape:
        return x * kernel
    if mode == "valid" and _is_swapped(name, x.shape, kernel.shape):
        x, kernel = kernel, x
    if mode == "full":
        pads = [(k - 1, k - 1) for k in kernel.shape]
    elif mode == "same":
        # the middle of what 'full' gives
        pads = [(k // 2, (k - 1) // 2) for k in kernel.shape]
    else:
        pads = [(0, 0)] * x.ndim
    ones = (1,) * x.ndim
    out = lax.conv_general_dilated(
        x[None, None], jnp.flip(kernel)[None, None], ones, pads, precision=precision
    )
    return out[0, 0]


def convolve(
    in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None
) -> Array:
    """Return the convolution of two arrays.

    Args:
        in1: the first array.
        in2: the second array, with as many dimensions.
        mode: ``'full'`` for all of it, ``'same'`` for the middle, of the shape of ``in1``, or
            ``'valid'`` for where the arrays overlap completely.
        method: ``'direct'``, ``'fft'``, or ``'auto'``, which is direct.
        precision: the precision of the products on accelerators, as in ``lax.dot``.

    Returns:
        An array of the shape that ``mode`` asks for.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.signal import convolve
        >>> convolve(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 1.0]))
        Array([1., 3., 5., 3.], dtype=float32)
    """
    x, kernel = _operands("convolve", in1, in2)
    if method == "fft":
        return fftconvolve(x, kernel, mode)
    if method not in ("auto", "direct"):
        raise ValueError(
            f"convolve supports the methods 'auto', 'direct' and 'fft', not {method!r}"
        )
    return _convolve("convolve", x, kernel, mode, precision)


def correlate(
    in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None
) -> Array:
    """Return the correlation of two arrays: a convolution with the second reversed and conjugated.

    Args:
        in1: the first array.
        in2: the second array, with as many dimensions.
        mode: ``'full'`` for all of it, ``'same'`` for the middle, of the shape of ``in1``, or
            ``'valid'`` for where the arrays overlap completely.
        method: ``'direct'``, ``'fft'``, or ``'auto'``, which is direct.
        precision: the precision of the products on accelerators, as in ``lax.dot``.

    Returns:
        An array of the shape that ``mode`` asks for.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.signal import correlate
        >>> correlate(jnp.array([1.0, 2.0, 3.0]), jnp.array([0.0, 1.0]), mode="valid")
        Array([2., 3.], dtype=float32)
    """
    x, kernel = _operands("correlate", in1, in2)
    return convolve(x, jnp.flip(kernel.conj()), mode, method, precision)


def _check_plane(name: str, in1: Any, in2: Any, boundary: str, fillvalue: float) -> None:
    if boundary != "fill" or fillvalue != 0:
        raise NotImplementedError(f"{name} supports only boundary='fill' with fillvalue=0")
    if jnp.ndim(in1) != 2 or jnp.ndim(in2) != 2:
        raise ValueError(f"{name} is for matrices, got ranks {jnp.ndim(in1)} and {jnp.ndim(in2)}")


def convolve2d(
    in1: Any,
    in2: Any,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Array:
    """Return the convolution of two matrices.

    Args:
        in1: the first array.
        in2: the second array, with as many dimensions.
        mode: ``'full'`` for all of it, ``'same'`` for the middle, of the shape of ``in1``, or
            ``'valid'`` for where the arrays overlap completely.
        boundary: must be ``'fill'``: outside of the arrays is 0.
        fillvalue: must be 0.
        precision: the precision of the products on accelerators, as in ``lax.dot``.

    Returns:
        A matrix of the shape that ``mode`` asks for.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.signal import convolve2d
        >>> convolve2d(jnp.eye(2), jnp.ones((1, 2)))
        Array([[1., 1., 0.],
               [0., 1., 1.]], dtype=float32)
    """
    _check_plane("convolve2d", in1, in2, boundary, fillvalue)
    x, kernel = _operands("convolve2d", in1, in2)
    return _convolve("convolve2d", x, kernel, mode, precision)


def correlate2d(
    in1: Any,
    in2: Any,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Array:
    """Return the correlation of two matrices.

    Args:
        in1: the first array.
        in2: the second array, with as many dimensions.
        mode: ``'full'`` for all of it, ``'same'`` for the middle, of the shape of ``in1``, or
            ``'valid'`` for where the arrays overlap completely.
        boundary: must be ``'fill'``: outside of the arrays is 0.
        fillvalue: must be 0.
        precision: the precision of the products on accelerators, as in ``lax.dot``.

    Returns:
        A matrix of the shape that ``mode`` asks for.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.signal import correlate2d
        >>> correlate2d(jnp.eye(2), jnp.array([[0.0, 1.0]]), mode="same")
        Array([[0., 0.],
               [1., 0.]], dtype=float32)
    """
    _check_plane("correlate2d", in1, in2, boundary, fillvalue)
    _check_mode("correlate2d", mode)
    x, kernel = _operands("correlate2d", in1, in2)
    turned = jnp.flip(kernel.conj())
    if mode == "valid" and _is_swapped("correlate2d", x.shape, kernel.shape):
        # as in SciPy, the conjugate is of the operand that slides, here the first
        return _convolve("correlate2d", x, turned, mode, precision).conj()
    if mode != "same":
        return _convolve("correlate2d", x, turned, mode, precision)
    # SciPy's middle of an even excess is the later one here, the earlier one in convolve2d
    whole = _convolve("correlate2d", x, turned, "full", precision)
    starts = [k // 2 for k in kernel.shape]
    return lax.dynamic_slice(whole, starts, x.shape)


def _smooth_length(n: int) -> int:
    """The least length from n on without prime factors above 5, which transforms fast."""
    while True:
        rest = n
        for factor in (2, 3, 5):
            while rest > 1 and rest % factor == 0:
                rest //= factor
        if rest <= 1:
            return n
        n += 1


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Array:
    """Return the convolution of two arrays, by Fourier transforms.

    Args:
        in1: the first array.
        in2: the second array, with as many dimensions.
        mode: ``'full'`` for all of it, ``'same'`` for the middle, of the shape of ``in1``, or
            ``'valid'`` for where the arrays overlap completely.
        axes: the axes to convolve over; all by default. Along the others the arrays broadcast.

    Returns:
        An array of the shape that ``mode`` asks for.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.signal import fftconvolve
        >>> fftconvolve(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 1.0])).round()
        Array([1., 3., 5., 3.], dtype=float32)
    """
    _check_mode("fftconvolve", mode)
    x, y = _operands("fftconvolve", in1, in2)
    if not x.ndim:
        return x * y
    over = _axes(x.ndim, axes)
    for axis, (n, m) in enumerate(zip(x.shape, y.shape, strict=True)):
        if axis not in over and n != m:
            raise ValueError(
                f"fftconvolve over axes {over} needs equal sizes along the others, got shapes"
                f" {x.shape} and {y.shape}"
            )
    if mode == "valid" and _is_swapped("fftconvolve", x.shape, y.shape):
        x, y = y, x
    full = [x.shape[a] + y.shape[a] - 1 for a in over]
    lengths = [_smooth_length(n) for n in full]
    if is_complex(x):
        product = jnp.fft.fftn(x, lengths, over) * jnp.fft.fftn(y, lengths, over)
        out = jnp.fft.ifftn(product, lengths, over)
    else:
        product = jnp.fft.rfftn(x, lengths, over) * jnp.fft.rfftn(y, lengths, over)
        out = jnp.fft.irfftn(product, lengths, over)
    starts, sizes = [0] * x.ndim, list(x.shape)
    for a, n in zip(over, full, strict=True):
        if mode == "full":
            sizes[a] = n
        elif mode == "same":
            starts[a] = (n - x.shape[a]) // 2
        else:
            starts[a], sizes[a] = y.shape[a] - 1, x.shape[a] - y.shape[a] + 1
    return lax.slice(out, starts, [s + n for s, n in zip(starts, sizes, strict=True)])


def _axes(rank: int, axes: Any) -> tuple[int, ...]:
    if axes is None:
        return tuple(range(rank))
    given = np.atleast_1d(np.asarray(axes, int)).tolist()
    for axis in given:
        if not -rank <= axis < rank:
            raise ValueError(f"axis {axis} is out of bounds for array of dimension {rank}")
    return tuple(sorted({axis % rank for axis in given}))
