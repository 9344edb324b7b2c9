"""``weft.numpy.fft`` against NumPy."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp

fft = jnp.fft


def draw(*shape, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def close(found, want):
    found = np.asarray(found)
    assert found.shape == want.shape
    assert found.dtype.kind == want.dtype.kind
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [None, 3, 7])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_one_axis(name, n, norm):
    kinds = [np.float32] if name == "rfft" else [np.float32, np.complex64]
    for dtype in kinds:
        x = draw(4, 5, dtype=dtype)
        for axis in (-1, 0):
            found = getattr(fft, name)(x, n, axis, norm)
            close(found, getattr(np.fft, name)(x, n, axis, norm))


@pytest.mark.parametrize("n", [None, 3, 7])
def test_hermitian(n):
    close(
        fft.hfft(draw(4, 5, dtype=np.complex64), n), np.fft.hfft(draw(4, 5, dtype=np.complex64), n)
    )
    close(fft.ihfft(draw(4, 5), n, axis=0), np.fft.ihfft(draw(4, 5), n, axis=0))


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_many_axes(name, norm):
    x = draw(2, 3, 2, 3, 4)
    for s, axes in ((None, None), (None, (0, 1)), ((4, 2), (1, -1)), (None, (-1, 0))):
        found = getattr(fft, name)(x, s, axes, norm)
        close(found, getattr(np.fft, name)(x, s, axes, norm))
    for two in ("fft2", "ifft2", "rfft2", "irfft2"):
        close(getattr(fft, two)(x, norm=norm), getattr(np.fft, two)(x, norm=norm))


def test_frequencies():
    for n in (1, 4, 5):
        close(fft.fftfreq(n, 0.5), np.fft.fftfreq(n, 0.5))
        close(fft.rfftfreq(n, 0.5), np.fft.rfftfreq(n, 0.5))
    assert fft.fftfreq(4, dtype=np.float16).dtype == np.float16
    x = draw(3, 4, 5)
    for axes in (None, 0, -1, (0, 2)):
        close(fft.fftshift(x, axes), np.fft.fftshift(x, axes))
        close(fft.ifftshift(x, axes), np.fft.ifftshift(x, axes))


def test_gradient_is_that_of_parseval():
    x = draw(6)
    grad = weft.grad(lambda x: (jnp.abs(fft.fft(x)) ** 2).sum())(x)
    close(grad, 12 * x)
    grad = weft.grad(lambda x: (fft.irfft(fft.rfft(x)) * x).sum())(x)
    close(grad, 2 * x)


def test_errors():
    x = draw(3, 4)
    with pytest.raises(ValueError, match="'backward', 'ortho' or 'forward'"):
        fft.fft(x, norm="sideways")
    with pytest.raises(ValueError, match="positive sizes"):
        fft.fft(x, 0)
    with pytest.raises(ValueError, match="2 sizes for 1 axes"):
        fft.fftn(x, (2, 2), (0,))
    with pytest.raises(ValueError, match="each axis once"):
        fft.fftn(x, axes=(0, 0))
    with pytest.raises(ValueError, match="one axis"):
        fft.fft(x, axis=(0, 1))
    with pytest.raises(ValueError, match="two axes"):
        fft.fft2(x, axes=(0,))
    with pytest.raises(ValueError, match="single number"):
        fft.fftfreq([4])
    with pytest.raises(TypeError, match="list"):
        fft.fft([1.0, 2.0])
