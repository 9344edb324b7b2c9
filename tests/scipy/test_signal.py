"""``weft.scipy.signal`` against SciPy."""

import numpy as np
import pytest
import scipy.signal as reference

import weft
import weft.numpy as jnp
from weft.scipy import signal
from weft.scipy.windows import named_window

RNG = np.random.default_rng(0)
MODES = ["full", "same", "valid"]


@pytest.fixture(autouse=True)
def double():
    with weft.enable_x64(True):
        yield


def draw(*shape, kind="f"):
    x = RNG.standard_normal(shape)
    return x + 1j * RNG.standard_normal(shape) if kind == "c" else x


def close(got, wanted, tolerance=1e-10):
    assert got.shape == np.shape(wanted)
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


SHAPES = [((7,), (3,)), ((3,), (8,)), ((5, 6), (2, 3)), ((2, 2), (4, 3)), ((4, 5, 3), (2, 2, 2))]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_convolutions(shapes, kind, mode):
    a, b = (draw(*s, kind=kind) for s in shapes)
    close(signal.convolve(a, b, mode), reference.convolve(a, b, mode))
    close(signal.convolve(a, b, mode, method="fft"), reference.convolve(a, b, mode))
    close(signal.fftconvolve(a, b, mode), reference.fftconvolve(a, b, mode))
    close(signal.correlate(a, b, mode), reference.correlate(a, b, mode))
    if a.ndim == 2:
        close(signal.convolve2d(a, b, mode), reference.convolve2d(a, b, mode))
        close(signal.correlate2d(a, b, mode), reference.correlate2d(a, b, mode))


def test_convolution_of_operands_neither_of_which_is_larger():
    a, b = draw(3, 5), draw(4, 2)
    for mode in ("full", "same"):
        close(signal.convolve(a, b, mode), reference.convolve(a, b, mode))
    for function in (signal.convolve, signal.fftconvolve):
        with pytest.raises(ValueError, match="at least as large"):
            function(a, b, "valid")


def test_fftconvolve_over_axes():
    a, b = draw(3, 9), draw(3, 4)
    close(signal.fftconvolve(a, b, axes=[1]), reference.fftconvolve(a, b, axes=[1]))
    close(signal.fftconvolve(a, b, "same", axes=-1), reference.fftconvolve(a, b, "same", axes=-1))
    with pytest.raises(ValueError, match="equal sizes"):
        signal.fftconvolve(a, b[:2], axes=1)
    with pytest.raises(ValueError, match="out of bounds"):
        signal.fftconvolve(a, b, axes=2)


def test_convolution_dtypes_and_errors():
    with weft.enable_x64(False):
        found = signal.convolve(jnp.arange(4), jnp.ones(2, int))
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, [0, 1, 3, 5, 3])
    for call in (
        lambda: signal.convolve(np.ones(3), np.ones((2, 2))),
        lambda: signal.convolve(np.ones(3), np.ones(0)),
        lambda: signal.convolve(np.ones(3), np.ones(2), "other"),
        lambda: signal.convolve(np.ones(3), np.ones(2), method="other"),
        lambda: signal.convolve2d(np.ones(3), np.ones(2)),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            call()
    for keyword in ({"boundary": "wrap"}, {"fillvalue": 1}):
        with pytest.raises(NotImplementedError):
            signal.correlate2d(np.ones((2, 2)), np.ones((2, 2)), **keyword)


def test_convolution_derivatives_and_batches():
    a, b = draw(6), draw(3)
    for function in (signal.convolve, signal.fftconvolve):
        slope = weft.grad(lambda x, f=function: (f(x, b, "same") ** 2).sum())(a)
        close(slope, 2 * reference.correlate(reference.convolve(a, b, "same"), b, "same"))
        stack = np.stack([a, 2 * a])
        close(weft.vmap(lambda x, f=function: f(x, b))(stack), [np.convolve(x, b) for x in stack])
        close(weft.jit(function)(a, b), np.convolve(a, b))


@pytest.mark.parametrize("axis", [0, -1])
def test_detrend(axis):
    x = draw(7, 5).cumsum(axis=axis)
    close(signal.detrend(x, axis), reference.detrend(x, axis))
    close(signal.detrend(x, axis, "constant"), reference.detrend(x, axis, "constant"))
    close(signal.detrend(x, axis, bp=[2, 4]), reference.detrend(x, axis, bp=[2, 4]))
    for keyword, error in (({"type": "other"}, ValueError), ({"bp": 9}, ValueError),
                           ({"overwrite_data": True}, NotImplementedError)):  # fmt: skip
        with pytest.raises(error):
            signal.detrend(x, **keyword)


WINDOWS = [
    *"boxcar triang bartlett parzen bohman barthann cosine lanczos exponential tukey hann".split(),
    *"hamming blackman nuttall blackmanharris flattop han ham".split(),
    ("kaiser", 4.0), ("gaussian", 2.0), ("general_gaussian", 1.5, 3.0), ("tukey", 0.3),
    ("general_hamming", 0.7), ("general_cosine", [0.5, 0.3, 0.2]), ("exponential", None, 2.5),
]  # fmt: skip


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows(window):
    for n in (1, 2, 9, 16):
        close(named_window(window, n), reference.get_window(window, n), 1e-12)


SPECTRA = [
    {}, {"nperseg": 15, "noverlap": 4, "nfft": 32}, {"window": "hamming", "fs": 10.0},
    {"window": ("kaiser", 3.0)}, {"window": np.hanning(16)}, {"return_onesided": False},
]  # fmt: skip


@pytest.mark.parametrize("options", SPECTRA, ids=lambda o: ",".join(o) or "plain")
@pytest.mark.parametrize("shape", [(90,), (2, 80)])
def test_spectra(options, shape):
    x, y = draw(*shape), draw(*shape)
    options = {"nperseg": 16, **options}
    for got, wanted in zip(signal.stft(x, **options), reference.stft(x, **options), strict=True):
        close(got, wanted)
    for more in ({}, {"average": "median"}, {"scaling": "spectrum", "detrend": "linear"}):
        keywords = {**options, **more}
        for got, wanted in zip(
            signal.csd(x, y, **keywords), reference.csd(x, y, **keywords), strict=True
        ):
            close(got, wanted)
        for got, wanted in zip(
            signal.welch(x, **keywords), reference.welch(x, **keywords), strict=True
        ):
            close(got, wanted)


@pytest.mark.parametrize("boundary", ["even", "odd", "constant", "zeros", None])
@pytest.mark.parametrize("padded", [False, True])
def test_stft_boundaries(boundary, padded):
    x = draw(3, 50, 2)
    options = {"nperseg": 12, "boundary": boundary, "padded": padded, "axis": 1}
    for got, wanted in zip(signal.stft(x, **options), reference.stft(x, **options), strict=True):
        close(got, wanted)


def test_complex_signals_and_unequal_lengths():
    x, y = draw(40, kind="c"), draw(30)
    with pytest.warns(UserWarning, match="two-sided"):
        got = signal.stft(x, nperseg=8)[2]
    with pytest.warns(UserWarning, match="complex"):
        wanted = reference.stft(x, nperseg=8)[2]
    close(got, wanted)
    a = draw(40)
    close(signal.csd(a, y, nperseg=8)[1], reference.csd(a, y, nperseg=8)[1])
    with pytest.warns(UserWarning, match="cut to the signal"):
        signal.welch(y, nperseg=100)
    # JAX's answer: the whole signal is one segment where nothing is said
    assert signal.welch(a)[0].shape == signal.csd(a, a)[0].shape == (21,)
    assert signal.stft(jnp.zeros(0))[2].shape == (0,)


def test_spectrum_errors():
    x = draw(40)
    for options in (
        {"nperseg": 0}, {"noverlap": 16}, {"nfft": 8}, {"window": "other"}, {"window": "kaiser"},
        {"window": np.ones(3)}, {"window": np.ones((4, 4))}, {"boundary": "other"},
        {"detrend": True},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"\w"):
            signal.stft(x, **{"nperseg": 16, **options})
    for options in ({"average": "other"}, {"scaling": "other"}):
        with pytest.raises(ValueError, match="other"):
            signal.welch(x, nperseg=16, **options)


@pytest.mark.parametrize(
    "options", [{}, {"nperseg": 15}, {"noverlap": 12}, {"noverlap": 0, "window": "boxcar"},
                {"window": "hamming", "nfft": 20}, {"input_onesided": False}],
    ids=lambda o: ",".join(o) or "plain",
)  # fmt: skip
def test_istft(options):
    x = draw(2, 60)
    options = {"nperseg": 16, **options}
    forward = {k: v for k, v in options.items() if k != "input_onesided"}
    z = reference.stft(x, **forward, return_onesided=options.get("input_onesided", True))[2]
    time, got = signal.istft(z, **options)
    close(got, reference.istft(z, **options)[1])
    close(time, reference.istft(z, **options)[0])
    turned = np.moveaxis(z, -1, 0)
    got = signal.istft(turned, time_axis=0, freq_axis=-1, **options)[1]
    close(got, reference.istft(turned, time_axis=0, freq_axis=-1, **options)[1])


def test_istft_undoes_stft():
    x = draw(64)

    def there_and_back(x):
        return signal.istft(signal.stft(x, nperseg=16)[2], nperseg=16)[1]

    close(weft.jit(there_and_back)(x), x)
    close(weft.grad(lambda x: (there_and_back(x) ** 2).sum())(x), 2 * x)
    close(weft.vmap(there_and_back)(np.stack([x, -x])), [x, -x])
    for call in (
        lambda: signal.istft(x),
        lambda: signal.istft(np.ones((4, 4)), time_axis=0, freq_axis=0),
        lambda: signal.istft(np.ones((9, 4)), window=np.ones(3)),
        lambda: signal.istft(np.ones((9, 4)), noverlap=16),
    ):
        with pytest.raises(ValueError, match="istft"):
            call()
