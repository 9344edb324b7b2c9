"""Images at other sizes: each axis is multiplied by a matrix of weights made from a kernel."""

from __future__ import annotations

import enum
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import lax
from weft.base import knobs
from weft.core.array import Array
from weft.lax.shape import canonical_shape
from weft.numpy.operands import arraylike
from weft.numpy.promotion import mixes_inside, promote_dtypes_inexact


class ResizeMethod(enum.Enum):
    """How a resized image takes its values from the given one.

    >>> from weft.image import ResizeMethod
    >>> ResizeMethod.from_string("bilinear")
    <ResizeMethod.LINEAR: 1>
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of a name."""
        if s not in _NAMES:
            raise ValueError(f"no resize method is named {s!r}; there are {', '.join(_NAMES)}")
        return _NAMES[s]


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    "linear": ResizeMethod.LINEAR,
    "bilinear": ResizeMethod.LINEAR,
    "trilinear": ResizeMethod.LINEAR,
    "triangle": ResizeMethod.LINEAR,
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    "cubic": ResizeMethod.CUBIC,
    "bicubic": ResizeMethod.CUBIC,
    "tricubic": ResizeMethod.CUBIC,
    "cubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
    "bicubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
    "area": ResizeMethod.AREA,
}


# A kernel: of weft.numpy, or of NumPy where all sizes are known, and distances.
Kernel = Callable[[Any, Any], Any]
# Weights up to which those of known sizes are computed once, when a program is traced.
MAX_KNOWN = 1 << 16


def _triangle(lib: Any, x: Any) -> Any:
    return lib.maximum(0, 1 - x)


def _cubic(a: float) -> Kernel:
    """Keys' cubic convolution kernel; a is its slope at distance 1."""

    def kernel(lib: Any, x: Any) -> Any:
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return lib.where(x < 1, near, lib.where(x < 2, far, 0))

    return kernel


def _lanczos(radius: int) -> Kernel:
    def kernel(lib: Any, x: Any) -> Any:
        return lib.where(x < radius, lib.sinc(x) * lib.sinc(x / radius), 0)

    return kernel


_KERNELS = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.LANCZOS3: _lanczos(3),
    ResizeMethod.LANCZOS5: _lanczos(5),
    ResizeMethod.CUBIC: _cubic(-0.5),
}


def _method(method: str | ResizeMethod) -> ResizeMethod:
    if isinstance(method, str):
        return ResizeMethod.from_string(method)
    if not isinstance(method, ResizeMethod):
        raise ValueError(f"a resize method is a name or a ResizeMethod, not {method!r}")
    return method


def _library_of(x: Any) -> Any:
    """What computes with a number: NumPy where it is known."""
    return np if isinstance(x, np.generic | float | int) else jnp


def _weights(
    size: int, out_size: int, scale: Any, shift: Any, method: ResizeMethod, antialias: bool
) -> Any:
    """The matrix (size, out_size) that makes an axis of ``out_size`` of one of ``size``."""
    known = type(size) is int and type(out_size) is int and size * out_size <= MAX_KNOWN
    if known and _library_of(scale) is _library_of(shift) is np:
        return _known_weights(size, out_size, scale, shift, method, antialias)
    return _made(jnp, size, out_size, scale, shift, method, antialias)


@functools.lru_cache(64)
def _known_weights(*given: Any) -> np.ndarray:
    """The weights of known sizes; the same array for axes of equal sizes."""
    weights = _made(np, *given)
    weights.flags.writeable = False
    return weights


def _made(
    lib: Any,
    size: int,
    out_size: int,
    scale: Any,
    shift: Any,
    method: ResizeMethod,
    antialias: bool,
) -> Any:
    """Weights by NumPy or by weft.numpy."""
    inverse = 1 / scale
    library = np if type(size) is int and type(out_size) is int else jnp
    index = library.arange(size, dtype=np.float32)[:, None]
    places = library.arange(out_size, dtype=np.float32)
    sample = (places + 0.5) * inverse - shift * inverse - 0.5
    if method is ResizeMethod.AREA:
        # how much of an element each interval covers
        half = 0.5 * inverse
        low = lib.maximum(sample - half, index - 0.5)
        weights = lib.maximum(lib.minimum(sample + half, index + 0.5) - low, 0)
    else:
        widened = _library_of(inverse).maximum(inverse, 1) if antialias else 1
        if method is ResizeMethod.CUBIC_PYTORCH:
            kernel = _cubic(-0.5 if antialias else -0.75)
        else:
            kernel = _KERNELS[method]
        if method is ResizeMethod.CUBIC_PYTORCH and not antialias:
            return _clamped_cubic(lib, size, sample, kernel)
        weights = kernel(lib, lib.abs(sample - index) / widened)
    total = weights.sum(axis=0, keepdims=True)
    enough = lib.abs(total) > 1000 * float(np.finfo(np.float32).eps)
    weights = lib.where(enough, weights / lib.where(enough, total, 1), 0)
    # the end is an array: code for one size does for others then
    inside = (sample >= -0.5) & (sample <= library.full(out_size, size - 0.5, np.float32))
    if isinstance(inside, np.ndarray) and inside.all():
        return weights
    return lib.where(inside, weights, 0)


def _clamped_cubic(lib: Any, size: int, sample: Any, kernel: Kernel) -> Any:
    """Weights of a cubic whose taps beyond an edge fall on the edge."""
    first = lib.floor(sample)
    index = (np if type(size) is int else jnp).arange(size)[:, None]
    weights: Any = 0
    for tap in (-1, 0, 1, 2):
        held = lib.clip(first + tap, 0, size - 1)
        weights = weights + lib.where(held == index, kernel(lib, lib.abs(sample - first - tap)), 0)
    return weights


def _apply(x: Array, axis: int, weights: Any, precision: Any) -> Array:
    if weights.dtype != x.dtype:
        weights = weights.astype(x.dtype)
    product = jnp.tensordot(x, weights, axes=((axis,), (0,)), precision=precision)
    return jnp.moveaxis(product, -1, axis)


def scale_and_translate(
    image: Any,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: Any,
    translation: Any,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = lax.Precision.HIGHEST,
) -> Array:
    """An image scaled and moved along some dimensions, 0 where nothing comes to lie.

    Args:
        image: Array of any number of dimensions; dimensions that keep their size are not resampled.
        shape: Shape of the result, one size for each dimension of ``image``.
        spatial_dims: The dimensions that are scaled and translated; the others keep their size.
        scale: One factor for each of ``spatial_dims``; above 1 enlarges.
        translation: One offset for each of ``spatial_dims``, in elements of the result.
        method: A ``ResizeMethod`` or its name: "linear", "cubic", "lanczos3" or "lanczos5";
            "nearest" is refused.
        antialias: If true, the kernel is widened when an image shrinks, so that every input element
            counts.
        precision: Precision of the matrix products, as for ``weft.numpy.matmul``.

    Returns:
        Array of shape ``shape``; zero where it lies outside of the image.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.image import scale_and_translate
        >>> x = jnp.array([1.0, 2.0, 3.0])
        >>> scale_and_translate(x, (3,), (0,), jnp.array([1.0]), jnp.array([1.0]), "linear")
        Array([0., 1., 2.], dtype=float32)
    """
    x, shape = arraylike("scale_and_translate", image), canonical_shape(shape)
    _check_rank(x, shape)
    kind = _method(method)
    if kind is ResizeMethod.NEAREST:
        raise ValueError("scale_and_translate has no method 'nearest'")
    scale, translation = arraylike("scale_and_translate", scale), jnp.asarray(translation)
    dims = [_canonical(operator.index(d), x.ndim) for d in spatial_dims]
    if len(set(dims)) < len(dims):
        raise ValueError(f"scale_and_translate got a dimension twice: {tuple(spatial_dims)}")
    if scale.shape != (len(dims),) or translation.shape != (len(dims),):
        raise ValueError(
            f"scale_and_translate needs a scale and a translation for each of {len(dims)}"
            f" dimensions, got shapes {scale.shape} and {translation.shape}"
        )
    for axis, (n, m) in enumerate(zip(x.shape, shape, strict=True)):
        if axis not in dims and n != m:
            raise ValueError(
                f"dimension {axis} is not in spatial_dims, but its size would change from {n} to "
                f"{m}"
            )
    (x,) = promote_dtypes_inexact(x)
    scale, translation = promote_dtypes_inexact(scale, translation)
    # only the two above must agree; the weights take the image's dtype
    with knobs.scope(numpy_rank_promotion="allow", numpy_dtype_promotion="standard"):
        for i, axis in enumerate(dims):
            n, m = x.shape[axis], shape[axis]
            x = _apply(
                x, axis, _weights(n, m, scale[i], translation[i], kind, antialias), precision
            )
    return x


def _ratio(m: Any, n: Any) -> Any:
    if type(m) is int and type(n) is int:
        return np.float32(m / n) if m else 1
    return jnp.float32(m) / jnp.float32(n)


@mixes_inside
def resize(
    image: Any,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = lax.Precision.HIGHEST,
) -> Array:
    """An image at another shape; ``antialias`` widens the kernel where it shrinks.

    Args:
        image: Array of any number of dimensions; dimensions that keep their size are not resampled.
        shape: Shape of the result, one size for each dimension of ``image``.
        method: A ``ResizeMethod`` or its name: "nearest", "linear", "cubic", "lanczos3",
            "lanczos5", "cubic-pytorch" or "area".
        antialias: If true, the kernel is widened when an image shrinks, so that every input element
            counts.
        precision: Precision of the matrix products, as for ``weft.numpy.matmul``.

    Returns:
        Array of shape ``shape``, in the dtype of ``image``; floating-point for integers unless the
        method is "nearest".

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.image import resize
        >>> resize(jnp.array([0.0, 4.0]), (4,), "linear")
        Array([0., 1., 3., 4.], dtype=float32)
    """
    x, shape = arraylike("resize", image), canonical_shape(shape)
    _check_rank(x, shape)
    kind = _method(method)
    changed = [axis for axis, n in enumerate(shape) if n != x.shape[axis]]
    for axis in changed:
        if x.shape[axis] == 0:
            raise ValueError(f"resize cannot enlarge the empty dimension {axis} of {x.shape}")
    if kind is ResizeMethod.NEAREST:
        for axis in changed:
            n, m = x.shape[axis], shape[axis]
            middle: Any
            index: Any
            if type(n) is int and type(m) is int:
                middle = (np.arange(m) + 0.5) * np.float32(n) / np.float32(m)
                index = np.floor(middle.astype(np.float32)).astype(np.int32)
            else:
                middle = (jnp.arange(m) + 0.5) * jnp.float32(n) / jnp.float32(m)
                index = jnp.floor(middle).astype(np.int32)
            x = jnp.take(x, index, axis=axis)
        return x
    (x,) = promote_dtypes_inexact(x)
    # what shrinks comes first: the rest has less to do then
    known = all(type(n) is int for n in (*shape, *x.shape))
    order = sorted(changed, key=lambda axis: shape[axis] / x.shape[axis]) if known else changed
    for axis in order:
        n, m = x.shape[axis], shape[axis]
        weights = _weights(n, m, _ratio(m, n), 0, kind, antialias)
        x = _apply(x, axis, weights, precision)
    return x


def _check_rank(x: Array, shape: Sequence[int]) -> None:
    if len(shape) != x.ndim:
        raise ValueError(
            f"a shape of {len(shape)} dimensions for an image of {x.ndim}: {tuple(shape)} and"
            f" {x.shape}"
        )


def _canonical(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {rank}")
    return axis % rank
