"""Samples of Fourier transforms: every kind, odd and even lengths, one axis and several."""

from tests.samples import Sample, normal
from weft.prims.fft import FftType

REAL = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
# An error of about log2(n) roundings, relative to the largest element.
TOL = 32

CASES = [
    ("fft_line", FftType.FFT, (4,), (4,), COMPLEX),
    ("fft_odd", FftType.FFT, (2, 5), (5,), COMPLEX),
    ("fft_plane", FftType.FFT, (2, 3, 4), (3, 4), COMPLEX),
    ("ifft_line", FftType.IFFT, (2, 5), (5,), COMPLEX),
    ("ifft_plane", FftType.IFFT, (3, 4), (3, 4), COMPLEX),
    ("rfft_even", FftType.RFFT, (2, 6), (6,), REAL),
    ("rfft_odd", FftType.RFFT, (5,), (5,), REAL),
    ("rfft_plane", FftType.RFFT, (2, 3, 4), (3, 4), REAL),
    ("irfft_even", FftType.IRFFT, (2, 4), (6,), COMPLEX),
    ("irfft_odd", FftType.IRFFT, (3,), (5,), COMPLEX),
    ("irfft_plane", FftType.IRFFT, (2, 3, 3), (3, 4), COMPLEX),
]
SAMPLES = [
    Sample(
        name=name,
        prim="fft",
        args=[normal(*shape)],
        params={"fft_type": kind, "fft_lengths": lengths},
        dtypes=dtypes,
        tol=TOL,
        linear=((0,),),
    )
    for name, kind, shape, lengths, dtypes in CASES
]
