"""Fourier transforms of ``weft.lax``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.api.jit import jit
from weft.core.array import Array
from weft.core.dims.dim import whole
from weft.core.trace import typeof
from weft.prims.convert import convert
from weft.prims.families import COMPLEX, is_narrow, kind_of
from weft.prims.fft import FftType, fft_p


def _type_of(fft_type: Any) -> FftType:
    if isinstance(fft_type, FftType):
        return fft_type
    if isinstance(fft_type, str) and fft_type.upper() in FftType.__members__:
        return FftType[fft_type.upper()]
    error = ValueError if isinstance(fft_type, str) else TypeError
    names = ", ".join(FftType.__members__)
    raise error(f"{fft_type!r} is not a Fourier transform; write one of {names}")


def _fft(x: Any, fft_type: FftType | str, fft_lengths: tuple[int, ...]) -> Array:
    kind = _type_of(fft_type)
    dtype = typeof(x).dtype
    if kind == FftType.RFFT:
        if kind_of(dtype) == COMPLEX:
            raise ValueError(
                f"an RFFT takes real values, got {dtype}: use FFT, or take the real part first"
            )
        x = convert(x, np.dtype(np.float32) if is_narrow(dtype) else dtypes.to_inexact_dtype(dtype))
    else:
        x = convert(x, dtypes.to_complex_dtype(dtype))
    if not fft_lengths:
        return x
    return fft_p.bind(x, fft_type=kind, fft_lengths=fft_lengths)


_fft.__name__ = _fft.__qualname__ = "fft"
_staged = jit(_fft, static_argnums=(1, 2))


def fft(x: Any, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Array:
    """Return the discrete Fourier transform along the last axes.

    Args:
        x: Array; real for "RFFT", else converted to complex.
        fft_type: "FFT", "IFFT", "RFFT" (of real values: half of the frequencies) or "IRFFT", or an
            ``FftType``.
        fft_lengths: Sizes of the transformed axes; for "IRFFT" those of the result.

    Returns:
        Complex array; real for "IRFFT". Inverses divide by the number of values.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.fft(jnp.array([1., 2., 3., 4.]), "RFFT", (4,))
        Array([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)
    """
    return _staged(x, fft_type, tuple(map(whole, fft_lengths)))
