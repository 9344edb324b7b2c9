"""The Fourier transform primitive: values, transposes, batches."""

import numpy as np
import pytest

import weft
from weft import lax
from weft.lax import FftType

KINDS = [FftType.FFT, FftType.IFFT, FftType.RFFT, FftType.IRFFT]
SHAPES = [((5,), 1), ((6,), 1), ((2, 4, 5), 2), ((3, 4, 2, 6), 3)]


def draw(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def cases():
    for kind in KINDS:
        for shape, rank in SHAPES:
            for extra in (0, 1) if kind == FftType.IRFFT else (0,):
                lengths = shape[-rank:]
                if kind == FftType.IRFFT:
                    lengths = (*lengths[:-1], 2 * (lengths[-1] - 1) + extra)
                yield kind, shape, lengths


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("kind,shape,lengths", list(cases()), ids=str)
def test_fft(kind, shape, lengths, x64):
    with weft.enable_x64(x64):
        dtype = np.dtype(np.float64 if x64 else np.float32)
        if kind != FftType.RFFT:
            dtype = np.result_type(dtype, np.complex64)
        x = draw(shape, dtype)
        axes = tuple(range(-len(lengths), 0))
        numpy = getattr(np.fft, kind.name.lower() + "n")
        want = numpy(x, s=lengths, axes=axes)
        found = lax.fft(x, kind, lengths)
        assert found.dtype == want.dtype and found.shape == want.shape
        tol = 1e-12 if x64 else 1e-4
        np.testing.assert_allclose(found, want, rtol=tol, atol=tol)
        batched = weft.vmap(lambda x: lax.fft(x, kind.name, lengths), in_axes=1, out_axes=1)
        stacked = np.stack([x, 2 * x], 1)
        np.testing.assert_allclose(
            np.take(np.asarray(batched(stacked)), 1, 1), 2 * want, rtol=tol, atol=tol
        )


@pytest.mark.parametrize("kind,shape,lengths", list(cases()), ids=str)
def test_transpose(kind, shape, lengths):
    with weft.enable_x64(True):
        dtype = np.float64 if kind == FftType.RFFT else np.complex128
        x, t = draw(shape, dtype), draw(shape, dtype, 1)
        out, dot = weft.jvp(lambda x: lax.fft(x, kind, lengths), (x,), (t,))
        _, pull = weft.vjp(lambda x: lax.fft(x, kind, lengths), x)
        ct = draw(out.shape, out.dtype, 2)
        (back,) = pull(ct)
        np.testing.assert_allclose(
            np.real(np.sum(np.asarray(dot) * ct)), np.real(np.sum(np.asarray(back) * t)), rtol=1e-9
        )


def test_inputs_are_converted():
    assert lax.fft(np.arange(4), "FFT", (4,)).dtype == np.complex64
    assert lax.fft(np.arange(4), "RFFT", (4,)).dtype == np.complex64
    x = np.arange(3.0, dtype=np.float32)
    assert lax.fft(x, "FFT", ()).dtype == np.complex64


def test_errors():
    x = np.ones((3, 4), np.float32)
    with pytest.raises(ValueError, match="real values"):
        lax.fft(x.astype(np.complex64), "RFFT", (4,))
    with pytest.raises(ValueError, match="RFFT of shape"):
        lax.fft(x, "RFFT", (5,))
    with pytest.raises(ValueError, match="as many"):
        lax.fft(x, "FFT", (3, 3, 4))
    with pytest.raises(ValueError, match="not a Fourier transform"):
        lax.fft(x, "DCT", (4,))
    with pytest.raises(TypeError, match="not a Fourier transform"):
        lax.fft(x, 7, (4,))
