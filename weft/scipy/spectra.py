"""Spectra of signals for ``scipy.signal``: short-time transforms, densities and trends."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes
from weft.base.source import warn
from weft.core.array import Array
from weft.lax.shape import canonical_axis
from weft.numpy.operands import arraylike, inexact
from weft.numpy.promotion import mixes_inside, promote_dtypes_inexact
from weft.scipy.windows import named_window

Trend = str | bool | Callable[[Array], Array]


@mixes_inside
def detrend(
    data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: None = None
) -> Array:
    """Return data without its mean, or without straight lines fitted to it.

    Args:
        data: the array.
        axis: the axis along which to fit.
        type: ``'linear'``, or ``'constant'`` to subtract the mean.
        bp: the break points: positions along the axis at which a new line starts.
        overwrite_data: accepted for SciPy; must be None.

    Returns:
        A float array of the shape of ``data``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.signal import detrend
        >>> detrend(jnp.array([0.0, 2.0, 1.0]), type="constant")
        Array([-1.,  1.,  0.], dtype=float32)
    """
    if overwrite_data is not None:
        raise NotImplementedError("detrend has no overwrite_data: arrays are immutable")
    if type not in ("linear", "constant"):
        raise ValueError(f"detrend supports the types 'linear' and 'constant', not {type!r}")
    (x,) = inexact("detrend", jnp.asarray(data))
    if type == "constant":
        return x - x.mean(axis=axis, keepdims=True)
    n = x.shape[axis]
    breaks = np.unique(np.r_[0, np.asarray(bp, int).ravel(), n])
    if breaks[0] < 0 or breaks[-1] > n:
        raise ValueError(f"break points must lie between 0 and {n}, the length of the axis")
    x = jnp.moveaxis(x, axis, -1)
    parts = [_without_line(x[..., start:stop]) for start, stop in pairwise(breaks)]
    return jnp.moveaxis(jnp.concatenate(parts, axis=-1), -1, axis)


def _without_line(x: Array) -> Array:
    """The rest after the line of least squares along the last axis."""
    n = x.shape[-1]
    centred = x - x.mean(axis=-1, keepdims=True)
    if n == 1:
        return centred
    time = np.arange(n) - (n - 1) / 2
    direction = jnp.asarray(time / np.sqrt((time * time).sum()), x.dtype)
    return centred - (centred * direction).sum(axis=-1, keepdims=True) * direction


def _trend_remover(trend: Trend) -> Callable[[Array], Array]:
    if callable(trend):
        return trend
    if trend is False:
        return lambda x: x
    if isinstance(trend, str):
        return lambda x: detrend(x, type=trend)
    raise ValueError(f"detrend is 'linear', 'constant', a function or False, not {trend!r}")


def _window(name: str, window: Any, nperseg: int, dtype: Any) -> Array:
    if isinstance(window, str | tuple):
        return jnp.asarray(named_window(window, nperseg), dtype)
    values = jnp.asarray(window)
    if values.ndim != 1:
        raise ValueError(f"{name} needs a window of one dimension, got shape {values.shape}")
    if values.shape[0] != nperseg:
        raise ValueError(
            f"{name} has segments of {nperseg} values and a window of {values.shape[0]}"
        )
    return values.astype(dtype)


def _segment_length(name: str, window: Any, nperseg: Any, length: int) -> int:
    if nperseg is not None:
        nperseg = int(nperseg)
        if nperseg < 1:
            raise ValueError(f"{name} needs a positive nperseg, got {nperseg}")
    if isinstance(window, str | tuple):
        nperseg = length if nperseg is None else nperseg  # as JAX has it; SciPy takes 256
        if nperseg > length:
            warn(
                f"{name} has segments of {nperseg} values and a signal of {length}; segments are"
                " cut to the signal"
            )
            nperseg = length
        return nperseg
    if nperseg is None:
        nperseg = jnp.shape(window)[0] if jnp.ndim(window) else 1
        if nperseg > length:
            raise ValueError(f"{name} has a window of {nperseg} values, longer than the signal")
    return int(nperseg)


def _overlap(name: str, nperseg: int, noverlap: int | None) -> int:
    noverlap = nperseg // 2 if noverlap is None else int(noverlap)
    if noverlap >= nperseg:
        raise ValueError(f"{name} needs noverlap below nperseg, got {noverlap} and {nperseg}")
    return noverlap


def _transform_length(name: str, nperseg: int, nfft: int | None) -> int:
    if nfft is None:
        return nperseg
    if nfft < nperseg:
        raise ValueError(f"{name} needs nfft of at least nperseg, got {nfft} and {nperseg}")
    return int(nfft)


def _extend(name: str, x: Array, boundary: str | None, n: int) -> Array:
    """``x`` with n values more on both sides of the last axis."""
    if boundary not in ("even", "odd", "constant", "zeros", None):
        raise ValueError(
            f"{name} supports the boundaries 'even', 'odd', 'constant', 'zeros' and None, not"
            f" {boundary!r}"
        )
    if boundary is None or n == 0:
        return x
    width = [(0, 0)] * (x.ndim - 1) + [(n, n)]
    if boundary == "odd":
        return jnp.pad(x, width, mode="reflect", reflect_type="odd")
    kinds = {"even": "reflect", "constant": "edge", "zeros": "constant"}
    return jnp.pad(x, width, mode=kinds[boundary])


def _segments(x: Array, nperseg: int, step: int) -> Array:
    """Overlapping pieces of the last axis: (..., pieces, nperseg)."""
    count = (x.shape[-1] - nperseg) // step + 1
    if step == nperseg:
        return x[..., : count * step].reshape(*x.shape[:-1], count, nperseg)
    return x[..., np.arange(count)[:, None] * step + np.arange(nperseg)]


def _pad_end(x: Array, n: int) -> Array:
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, n)]) if n else x


def _spectrogram(
    name: str,
    x: Array,
    y: Array | None,
    *,
    fs: Any,
    window: Any,
    nperseg: Any,
    noverlap: Any,
    nfft: Any,
    trend: Trend,
    onesided: bool,
    scaling: str,
    boundary: str | None = None,
    padded: bool = False,
) -> tuple[Array, Array, Array]:
    """Frequencies, times, and transforms of segments of the last axis, or with y their products."""
    signals = [x] if y is None else [x, y]
    nperseg = _segment_length(name, window, nperseg, max(s.shape[-1] for s in signals))
    noverlap = _overlap(name, nperseg, noverlap)
    nfft = _transform_length(name, nperseg, nfft)
    complex_dtype = dtypes.to_complex_dtype(x.dtype)
    real_dtype = dtypes.finfo(complex_dtype).dtype
    step = nperseg - noverlap
    signals = [_extend(name, s, boundary, nperseg // 2) for s in signals]
    length = signals[0].shape[-1]
    if padded:
        extra = -(length - nperseg) % step % nperseg
        signals = [_pad_end(s, extra) for s in signals]
        length += extra
    values = _window(name, window, nperseg, real_dtype)
    if scaling == "density":
        scale = 1 / (fs * (values * values).sum())
    elif scaling == "spectrum":
        scale = 1 / jnp.square(values.sum())
    else:
        raise ValueError(f"{name} supports the scalings 'density' and 'spectrum', not {scaling!r}")
    if onesided and any(dtypes.issubdtype(s.dtype, np.complexfloating) for s in signals):
        onesided = False
        warn(f"{name} of complex signals is two-sided; pass return_onesided=False")
    remove = _trend_remover(trend)
    transform = jnp.fft.rfft if onesided else jnp.fft.fft
    found = [transform(remove(_segments(s, nperseg, step)) * values, nfft) for s in signals]
    frequencies = (jnp.fft.rfftfreq if onesided else jnp.fft.fftfreq)(nfft, 1 / fs)
    time = jnp.arange(nperseg / 2, length - nperseg / 2 + 1, step, dtype=real_dtype) / fs
    if boundary is not None:
        time = time - nperseg / 2 / fs
    if name == "stft":
        result = found[0] * jnp.sqrt(scale)
    else:
        result = jnp.conj(found[0]) * found[-1] * scale
        if onesided:
            # a negative frequency each, but for those that are their own
            twice = np.full(result.shape[-1], 2.0)
            twice[0] = 1
            if nfft % 2 == 0:
                twice[-1] = 1
            result = result * jnp.asarray(twice, real_dtype)
    return frequencies.astype(real_dtype), time, result.astype(complex_dtype)


@mixes_inside
def stft(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: Any = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Trend = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Array, Array, Array]:
    """Return the short-time Fourier transform of a signal.

    Args:
        x: the signal.
        fs: the sampling frequency.
        window: the name of a window such as ``'hann'``, a tuple of name and parameters, or an array
            of its values.
        nperseg: the length of a segment; shorter signals are a single segment.
        noverlap: how many samples neighbouring segments share. By default half of a segment.
        nfft: the length of the Fourier transforms; longer ones pad each segment with zeros. By
            default ``nperseg``.
        detrend: what to take out of each segment: ``'constant'``, ``'linear'``, a function of
            segments, or False for nothing.
        return_onesided: for real signals, return only frequencies that are not negative.
        boundary: how to extend the signal at its ends: ``'even'``, ``'odd'``, ``'constant'``,
            ``'zeros'``, or None for not at all.
        padded: pad the signal with zeros to a whole number of segments.
        axis: the axis of time.

    Returns:
        Three arrays: the frequencies, the times of the segments, and the transform, with
        frequencies in place of ``axis`` and times last.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.signal import stft
        >>> f, t, z = stft(jnp.ones(32), nperseg=8)
        >>> z.shape
        (5, 9)
    """
    (x,) = inexact("stft", x)
    if not x.size:
        empty = jnp.zeros(x.shape, x.dtype)
        return empty, empty, empty.astype(dtypes.to_complex_dtype(x.dtype))
    axis = canonical_axis(axis, x.ndim)
    frequencies, time, result = _spectrogram(
        "stft",
        jnp.moveaxis(x, axis, -1),
        None,
        fs=fs,
        window=window,
        nperseg=nperseg,
        noverlap=noverlap,
        nfft=nfft,
        trend=detrend,
        onesided=return_onesided,
        scaling="spectrum",
        boundary=boundary,
        padded=padded,
    )
    return frequencies, time, _frequency_back(result, axis)


def _frequency_back(result: Array, axis: int) -> Array:
    """Put the frequencies, last, where the signal's axis was; times come last then."""
    return jnp.moveaxis(result, -1, axis - 1 if axis < 0 else axis)


@mixes_inside
def csd(
    x: Any,
    y: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: Any = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Trend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """Return the cross spectral density of two signals, by Welch's method.

    Args:
        x: the first signal.
        y: the second signal; None stands for ``x``, and makes the result real.
        fs: the sampling frequency.
        window: the name of a window such as ``'hann'``, a tuple of name and parameters, or an array
            of its values.
        nperseg: the length of a segment. By default 256, or the length of the signal if that is
            shorter.
        noverlap: how many samples neighbouring segments share. By default half of a segment.
        nfft: the length of the Fourier transforms; longer ones pad each segment with zeros. By
            default ``nperseg``.
        detrend: what to take out of each segment: ``'constant'``, ``'linear'``, a function of
            segments, or False for nothing.
        return_onesided: for real signals, return only frequencies that are not negative.
        scaling: ``'density'`` (power per frequency) or ``'spectrum'`` (power).
        axis: the axis of time.
        average: how to combine the segments: ``'mean'`` or ``'median'``.

    Returns:
        Two arrays: the frequencies, and the density, with frequencies in place of ``axis``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.signal import csd
        >>> f, p = csd(jnp.arange(32.0), jnp.ones(32), nperseg=8)
        >>> p.shape, p.dtype
        ((5,), dtype('complex64'))
    """
    x = arraylike("csd", x)
    if y is None:
        (x,) = inexact("csd", x)
        pair = (x, None)
    else:
        x, y = map(jnp.asarray, promote_dtypes_inexact(x, arraylike("csd", y)))
        canonical_axis(axis, x.ndim)
        pair = _matched(x, y, axis)
    if not x.size or (y is not None and not y.size):
        shape = x.shape if not x.size else y.shape
        empty = jnp.zeros(shape, dtypes.finfo(x.dtype).dtype)
        return empty, empty if y is None else empty.astype(dtypes.to_complex_dtype(x.dtype))
    axis = canonical_axis(axis, x.ndim)
    frequencies, _, result = _spectrogram(
        "csd",
        *(s if s is None else jnp.moveaxis(s, axis, -1) for s in pair),
        fs=fs,
        window=window,
        nperseg=nperseg,
        noverlap=noverlap,
        nfft=nfft,
        trend=detrend,
        onesided=return_onesided,
        scaling=scaling,
    )
    result = _averaged(result, average)
    if y is None:
        result = result.real
    return frequencies, jnp.moveaxis(result, -1, axis)


def _matched(x: Array, y: Array, axis: int) -> tuple[Array, Array]:
    """Both signals at one shape, the shorter with zeros at its end."""
    if x.ndim != y.ndim:
        raise ValueError(f"csd needs signals of the same rank, got {x.shape} and {y.shape}")
    lengths = x.shape[axis], y.shape[axis]
    others = [list(s.shape) for s in (x, y)]
    for shape in others:
        shape[axis] = 1
    try:
        common = list(np.broadcast_shapes(*map(tuple, others)))
    except ValueError as error:
        raise ValueError(f"csd got signals of shapes {x.shape} and {y.shape}") from error
    if not min(lengths):
        return x, y
    pair = []
    for s in (x, y):
        width = [(0, 0)] * s.ndim
        width[axis] = (0, max(lengths) - s.shape[axis])
        common[axis] = max(lengths)
        pair.append(jnp.broadcast_to(jnp.pad(s, width), common))
    return pair[0], pair[1]


def _averaged(result: Array, average: str) -> Array:
    """The average of segments (axis -2)."""
    if average not in ("mean", "median"):
        raise ValueError(f"the average is 'mean' or 'median', not {average!r}")
    if average == "mean":
        return result.mean(axis=-2)
    n = result.shape[-2]
    # what the median of n exponential variables is above their mean, on average
    pairs = 2 * np.arange(1.0, (n - 1) // 2 + 1)
    bias = 1 + (1 / (pairs + 1) - 1 / pairs).sum().item()
    real, imag = (jnp.median(part, axis=-2) / bias for part in (result.real, result.imag))
    return real + 1j * imag


@mixes_inside
def welch(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: Any = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Trend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """Return the power spectral density of a signal, by Welch's method.

    Args:
        x: the signal.
        fs: the sampling frequency.
        window: the name of a window such as ``'hann'``, a tuple of name and parameters, or an array
            of its values.
        nperseg: the length of a segment. By default 256, or the length of the signal if that is
            shorter.
        noverlap: how many samples neighbouring segments share. By default half of a segment.
        nfft: the length of the Fourier transforms; longer ones pad each segment with zeros. By
            default ``nperseg``.
        detrend: what to take out of each segment: ``'constant'``, ``'linear'``, a function of
            segments, or False for nothing.
        return_onesided: for real signals, return only frequencies that are not negative.
        scaling: ``'density'`` (power per frequency) or ``'spectrum'`` (power).
        axis: the axis of time.
        average: how to combine the segments: ``'mean'`` or ``'median'``.

    Returns:
        Two arrays: the frequencies, and the density, with frequencies in place of ``axis``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.signal import welch
        >>> f, p = welch(jnp.cos(jnp.arange(64.0)), nperseg=16)
        >>> float(f[p.argmax()])
        0.1875
    """
    return csd(
        x,
        None,
        fs,
        window,
        nperseg,
        noverlap,
        nfft,
        detrend,
        return_onesided,
        scaling,
        axis,
        average,
    )


@mixes_inside
def istft(
    Zxx: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Array, Array]:
    """Return the signal that a short-time Fourier transform belongs to: the inverse of ``stft``.

    As in SciPy, the times belong to the first axis of the signal.

    Args:
        Zxx: the transform.
        fs: the sampling frequency.
        window: the name of a window such as ``'hann'``, a tuple of name and parameters, or an array
            of its values.
        nperseg: the length of a segment. By default computed from the number of frequencies.
        noverlap: how many samples neighbouring segments share. By default half of a segment.
        nfft: the length of the Fourier transforms; longer ones pad each segment with zeros. By
            default ``nperseg``.
        input_onesided: whether ``Zxx`` has only frequencies that are not negative.
        boundary: whether the signal was extended at its ends.
        time_axis: the axis of the segments' times.
        freq_axis: the axis of the frequencies.

    Returns:
        Two arrays: the times, and the signal.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.signal import istft, stft
        >>> x = jnp.arange(16.0)
        >>> t, back = istft(stft(x, nperseg=8)[2], nperseg=8)
        >>> bool(jnp.allclose(back, x, atol=1e-5))
        True
    """
    z = arraylike("istft", Zxx)
    if z.ndim < 2:
        raise ValueError(f"istft needs at least two dimensions, got shape {z.shape}")
    rank = z.ndim
    time_axis, freq_axis = (canonical_axis(i, rank) for i in (time_axis, freq_axis))
    if time_axis == freq_axis:
        raise ValueError(f"istft needs two axes, got {time_axis} for time and for frequency")
    z = jnp.moveaxis(z.astype(dtypes.to_complex_dtype(z.dtype)), (time_axis, freq_axis), (-2, -1))
    whole = 2 * (z.shape[-1] - 1) if input_onesided else z.shape[-1]
    nperseg = int(nperseg or whole)
    if nfft is None:
        nfft = nperseg if input_onesided and nperseg == whole + 1 else whole
    else:
        nfft = _transform_length("istft", nperseg, nfft)
    step = nperseg - _overlap("istft", nperseg, noverlap)
    pieces = (jnp.fft.irfft if input_onesided else jnp.fft.ifft)(z, nfft)[..., :nperseg]
    real_dtype = dtypes.finfo(z.dtype).dtype
    values = _window("istft", window, nperseg, real_dtype)
    total = _overlapped(pieces * (values * values.sum()), step)
    weight = _overlapped(jnp.broadcast_to(values * values, (z.shape[-2], nperseg)), step)
    if boundary:
        inner = slice(nperseg // 2, total.shape[-1] - nperseg // 2)
        total, weight = total[..., inner], weight[inner]
    signal = total / jnp.where(weight > 1e-10, weight, 1)
    signal = jnp.moveaxis(signal, -1, time_axis - (freq_axis < time_axis))
    # along the first axis, whichever axis is time, as SciPy and JAX count
    time = jnp.arange(signal.shape[0], dtype=real_dtype) / fs
    return time, signal


def _overlapped(pieces: Array, step: int) -> Array:
    """The sum of pieces (axis -2) laid ``step`` apart.

    Each piece is cut into blocks of ``step``; block j of piece i goes to place i + j. Rows that
    are one longer than their number of places bring that shift about by a reshape.
    """
    *lead, count, n = pieces.shape
    blocks = -(-n // step)
    x = _pad_end(pieces, blocks * step - n).reshape(*lead, count, blocks, step)
    x = jnp.moveaxis(x, -2, -3)
    x = jnp.pad(x, [(0, 0)] * (x.ndim - 2) + [(0, blocks), (0, 0)])
    places = count + blocks - 1
    x = x.reshape(*lead, blocks * (places + 1), step)[..., : blocks * places, :]
    x = x.reshape(*lead, blocks, places * step).sum(axis=-2)
    return x[..., : n + (count - 1) * step]
