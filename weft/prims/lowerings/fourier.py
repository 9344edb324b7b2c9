"""Fourier transforms as products with twiddle factors: stages of a radix-2 transform that needs no
reordering (Stockham), lengths that are no power of two by way of one (Bluestein 1970), and short
ones as plain sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.prims.arithmetic import complex_, conj
from weft.prims.families import along
from weft.prims.fft import FftType
from weft.prims.lowerings.tools import I32, I64, bind, convert, dtype_of, fill, like, spread
from weft.prims.reduce import reduce_sum
from weft.prims.shape import iota, reshape, transpose

# Lengths up to which a sum for each frequency is less work than a longer power of two.
MAX_DIRECT_LENGTH = 32
# Lengths whose squares may be too large for 32 bits.
_LONG = 1 << 15


def _real_of(dtype: Any) -> Any:
    return np.dtype(np.float64 if dtype == np.complex128 else np.float32)


def _turned(count: Any, whole: int, dtype: Any) -> Any:
    """exp(-2 pi i count / whole), for counts below ``whole``."""
    angle = bind("mul", convert(count, dtype), np.dtype(dtype).type(-2 * np.pi / whole))
    cos, sin = (bind(name, angle, accuracy=None) for name in ("cos", "sin"))
    return complex_(cos, sin)


def _times(x: Any, factors: Any) -> Any:
    """Rows times factors of their last axes."""
    rank, own = np.ndim(x), np.ndim(factors)
    return bind("mul", x, spread(factors, np.shape(x), range(rank - own, rank)))


def _powers_of_two(x: Any) -> Any:
    """The transform of the last axis, whose length is a power of two.

    After t stages, row r has the transform of every (n / 2**t)-th element from the r-th.
    """
    *lead, n = np.shape(x)
    axis, dtype = len(lead), _real_of(dtype_of(x))
    x = reshape(x, (*lead, n, 1))
    rows, done = n, 1
    while rows > 1:
        rows //= 2
        even, odd = along(x, axis, 0, rows), along(x, axis, rows, 2 * rows)
        odd = _times(odd, _turned(iota(I32, (done,)), 2 * done, dtype))
        both = bind("add", even, odd), bind("sub", even, odd)
        x = bind("concatenate", *both, dimension=axis + 1)
        done *= 2
    return reshape(x, (*lead, n))


def _direct(x: Any) -> Any:
    """A sum for each frequency."""
    *lead, n = np.shape(x)
    axis, dtype = len(lead), _real_of(dtype_of(x))
    both = bind("mul", iota(I32, (n, n), 0), iota(I32, (n, n), 1))
    factors = _turned(bind("rem", both, np.int32(n)), n, dtype)
    repeated = spread(x, (*lead, n, n), (*range(axis), axis + 1))
    return reduce_sum(_times(repeated, factors), (axis + 1,))


def _chirped(x: Any) -> Any:
    """A transform of any length as a convolution, by transforms of a power of two."""
    *lead, n = np.shape(x)
    axis, dtype = len(lead), _real_of(dtype_of(x))
    size = 1 << (2 * n - 2).bit_length()
    count = I64 if n > _LONG else I32
    place = iota(count, (n,))
    squares = bind("rem", bind("mul", place, place), like(place, 2 * n))
    chirp = _turned(squares, 2 * n, dtype)
    other = conj(chirp)
    ends = [(0, size - n, 0)]
    wide = [(0, 0, 0)] * axis + ends
    given = bind("pad", _times(x, chirp), like(x, 0), padding_config=tuple(wide))
    front = bind("pad", other, like(other, 0), padding_config=tuple(ends))
    behind = bind("rev", along(other, 0, 1, n), dimensions=(0,))
    behind = bind("pad", behind, like(other, 0), padding_config=((size - n + 1, 0, 0),))
    factors = _powers_of_two(bind("add", front, behind))
    product = _times(_powers_of_two(given), factors)
    found = conj(_powers_of_two(conj(product)))
    found = bind("mul", found, like(found, 1 / size))
    return _times(along(found, axis, 0, n), chirp)


def _transformed(x: Any, axis: int, back: bool) -> Any:
    """The transform along an axis, or the one that undoes it."""
    rank, n = np.ndim(x), np.shape(x)[axis]
    if n == 1:
        return x
    order = (*(i for i in range(rank) if i != axis), axis)
    x = conj(x) if back else x
    x = transpose(x, order) if axis != rank - 1 else x
    if n & (n - 1) == 0:
        x = _powers_of_two(x)
    else:
        x = _direct(x) if n <= MAX_DIRECT_LENGTH else _chirped(x)
    if axis != rank - 1:
        x = transpose(x, (*range(axis), rank - 1, *range(axis, rank - 1)))
    return bind("mul", conj(x), like(x, 1 / n)) if back else x


def _whole(half: Any, n: int) -> Any:
    """The spectrum of a real signal of n elements, of its first half."""
    axis, count = np.ndim(half) - 1, n // 2 + 1
    have = np.shape(half)[axis]
    if have > count:
        half = along(half, axis, 0, count)
    elif have < count:
        config = ((0, 0, 0),) * axis + ((0, count - have, 0),)
        half = bind("pad", half, like(half, 0), padding_config=config)
    if n < 3:
        return half
    rest = conj(bind("rev", along(half, axis, 1, n - count + 1), dimensions=(axis,)))
    return bind("concatenate", half, rest, dimension=axis)


def fft(x: Any, *, fft_type: Any, fft_lengths: tuple[int, ...], axis: int | None = None) -> Any:
    rank = np.ndim(x)
    axes = [axis] if axis is not None else list(range(rank - len(fft_lengths), rank))
    shape, dtype = list(np.shape(x)), dtype_of(x)
    complex_dtype = np.dtype(np.complex128 if dtype.itemsize == 8 and dtype.kind == "f" else dtype)
    if dtype == np.float32:
        complex_dtype = np.dtype(np.complex64)
    if 0 in shape or 0 in fft_lengths:
        for i, n in zip(axes, fft_lengths, strict=axis is None):
            last = fft_type == FftType.RFFT and i == rank - 1
            shape[i] = n // 2 + 1 if last else n
        real = fft_type == FftType.IRFFT
        return fill(tuple(shape), _real_of(dtype) if real else complex_dtype, 0)
    if not axes:
        return bind("copy", x)
    if fft_type == FftType.RFFT:
        x = _transformed(convert(x, complex_dtype), rank - 1, False)
        x = along(x, rank - 1, 0, fft_lengths[-1] // 2 + 1)
        axes = axes[:-1]
    back = fft_type in (FftType.IFFT, FftType.IRFFT)
    if fft_type == FftType.IRFFT:
        for i in axes[:-1]:
            x = _transformed(x, i, True)
        return bind("real", _transformed(_whole(x, fft_lengths[-1]), rank - 1, True))
    for i in axes:
        x = _transformed(x, i, back)
    return bind("copy", x)
