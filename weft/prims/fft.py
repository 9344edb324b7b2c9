"""Discrete Fourier transforms over the last axes, by NumPy's pocketfft."""

from __future__ import annotations

import enum
import math
from math import log2, prod
from typing import Any

import numpy as np

from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, moveaxis
from weft.core.primitive import Primitive
from weft.core.registry import lookup
from weft.core.trace import typeof
from weft.division.factors import Factors, leading
from weft.prims.arithmetic import conj, div, mul
from weft.prims.families import (
    COMPLEX,
    broadcast_in_dim,
    kind_of,
    positions_along,
    scalar,
)


class FftType(enum.IntEnum):
    """Which Fourier transform: ``FFT``, ``IFFT``, ``RFFT`` or ``IRFFT``.

    Example:
        >>> from weft import lax
        >>> lax.FftType["RFFT"].name
        'RFFT'
    """

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def _real(dtype: Any) -> Any:
    return np.dtype(np.float64 if dtype == np.complex128 else np.float32)


def _complex(dtype: Any) -> Any:
    return np.dtype(np.complex128 if dtype == np.float64 else np.complex64)


class FFT(Primitive):
    """The transform of the last ``len(fft_lengths)`` axes.

    The compiler may ask for a complex transform along another axis instead.
    """

    arithmetic = True
    name = "fft"
    neutral = "fourier.fft"
    linear, masks = True, "apart"

    def flops(self, avals: Any, outs: Any, params: dict[str, Any]) -> float:
        return 5 * avals[0].size * log2(max(prod(params["fft_lengths"]), 2))

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        if params.get("axis") is not None:
            return None
        rank = len(params["fft_lengths"])
        return leading(avals, outs, [rank], [rank])

    divided_as = 0

    def explicit(self, specs: Any, avals: Any, outs: Any, params: dict[str, Any]) -> Any:
        divided = avals[0].divided
        for n, axes in zip(outs[0].shape, specs[0], strict=True):
            if n % prod(divided.mesh.shape[a] for a in axes):
                raise ValueError(
                    f"fft of {avals[0].str_short()} has a result of shape {outs[0].shape}, which "
                    "cannot be sharded like the operand; replicate the last dimension first with "
                    "weft.reshard"
                )
        return [specs[0]]

    def shape(
        self, x: Any, *, fft_type: FftType, fft_lengths: tuple[int, ...], axis: int | None = None
    ) -> ShapedArray:
        if axis is not None:
            if not 0 <= axis < x.ndim or kind_of(x.dtype) != COMPLEX:
                raise ValueError(f"fft along axis {axis} does not take {x.str_short()}")
            return x
        rank = len(fft_lengths)
        if rank > x.ndim:
            raise ValueError(
                f"fft over {rank} axes {fft_lengths} needs an operand of as many, got {x.shape}"
            )
        lead, last = x.shape[: x.ndim - rank], x.shape[x.ndim - rank :]
        if fft_type == FftType.RFFT:
            if x.dtype not in (np.float32, np.float64):
                raise ValueError(f"RFFT takes float32 or float64, got {x.dtype}: use astype")
            self._check_lengths("RFFT", x, last, fft_lengths)
            shape = (*lead, *fft_lengths[:-1], fft_lengths[-1] // 2 + 1)
            return ShapedArray(shape, _complex(x.dtype), x.weak_type)
        if kind_of(x.dtype) != COMPLEX:
            raise ValueError(
                f"{fft_type.name} takes complex64 or complex128, got {x.dtype}: use astype"
            )
        if fft_type == FftType.IRFFT:
            self._check_lengths("IRFFT", x, last[:-1], fft_lengths[:-1])
            return ShapedArray((*lead, *fft_lengths), _real(x.dtype), x.weak_type)
        self._check_lengths(fft_type.name, x, last, fft_lengths)
        return x

    def _check_lengths(self, name: str, x: Any, have: Any, want: Any) -> None:
        if have != want:
            raise ValueError(
                f"{name} of shape {x.shape} got fft_lengths {want}, which must be the sizes of its"
                f" last axes {have}: pad or slice it first"
            )

    @staticmethod
    def ref(
        x: np.ndarray,
        *,
        fft_type: FftType,
        fft_lengths: tuple[int, ...],
        axis: int | None = None,
    ) -> np.ndarray:
        axes = tuple(range(-len(fft_lengths), 0)) if axis is None else (axis,)
        if 0 in x.shape or 0 in fft_lengths:
            return _empty(x, fft_type, fft_lengths)
        if fft_type == FftType.FFT:
            return np.fft.fftn(x, axes=axes)
        if fft_type == FftType.IFFT:
            return np.fft.ifftn(x, axes=axes)
        if fft_type == FftType.RFFT:
            return np.fft.rfftn(x, axes=axes)
        return np.fft.irfftn(x, s=fft_lengths, axes=axes)

    def transpose(self, ct: Any, x: Any, *, fft_type: FftType, fft_lengths: Any) -> list[Any]:
        if fft_type == FftType.RFFT:
            return [_rfft_transpose(ct, fft_lengths)]
        if fft_type == FftType.IRFFT:
            return [_irfft_transpose(ct, fft_lengths)]
        return [self.bind(ct, fft_type=fft_type, fft_lengths=fft_lengths)]

    def batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
        return self.bind(moveaxis(args[0], dims[0], 0), **params), 0


def _empty(x: np.ndarray, fft_type: FftType, fft_lengths: tuple[int, ...]) -> np.ndarray:
    """Transforms that have nothing to add up: zeros of the result's shape."""
    lead = x.shape[: x.ndim - len(fft_lengths)]
    last = fft_lengths
    if fft_type == FftType.RFFT:
        last = (*fft_lengths[:-1], fft_lengths[-1] // 2 + 1)
    dtype = {FftType.RFFT: _complex, FftType.IRFFT: _real}.get(fft_type, np.dtype)(x.dtype)
    return np.zeros((*lead, *last), dtype)


fft_p = FFT()


def fft(x: Any, fft_type: FftType, fft_lengths: tuple[int, ...]) -> Any:
    """``fft_p`` bound."""
    return fft_p.bind(x, fft_type=fft_type, fft_lengths=fft_lengths)


def _multiplicity(dtype: Any, length: int, ndim: int) -> Any:
    """How often each frequency of a half spectrum stands in the full one: 1 at 0 and at the
    middle of an even length, 2 elsewhere; along the last of ``ndim`` axes."""
    count = length // 2 + 1
    where = positions_along((count,), 0)
    once = lookup("eq").bind(where, scalar(np.dtype(np.int32), 0))
    if length % 2 == 0:
        middle = lookup("eq").bind(where, scalar(np.dtype(np.int32), count - 1))
        once = lookup("or").bind(once, middle)
    one, two = (broadcast_in_dim(scalar(dtype, n), (count,)) for n in (1, 2))
    mask = lookup("select_n").bind(once, two, one)
    return broadcast_in_dim(mask, (*[1] * (ndim - 1), count), (ndim - 1,))


def _rfft_transpose(ct: Any, fft_lengths: tuple[int, ...]) -> Any:
    dtype = typeof(ct).dtype
    count = _multiplicity(dtype, fft_lengths[-1], np.ndim(ct))
    out = fft(div(conj(ct), count), FftType.IRFFT, fft_lengths)
    return mul(scalar(_real(dtype), math.prod(fft_lengths)), out)


def _irfft_transpose(ct: Any, fft_lengths: tuple[int, ...]) -> Any:
    half = fft(ct, FftType.RFFT, fft_lengths)
    dtype = typeof(half).dtype
    count = _multiplicity(dtype, fft_lengths[-1], np.ndim(half))
    scale = scalar(dtype, 1 / math.prod(fft_lengths))
    return conj(mul(mul(scale, count), half))
