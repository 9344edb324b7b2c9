"""Native Fourier transforms against NumPy in double precision: every way a length is handled."""

import numpy as np
import pytest

from tests.backends.tasks import run_tasks
from weft.backends.cpu.routines.fourier import fft
from weft.backends.llvm.native import processor
from weft.base import knobs
from weft.kernel.program import Type
from weft.prims.fft import FftType

COMPLEX = {np.dtype(np.float32): np.complex64, np.dtype(np.float64): np.complex128}
# One pass, several, odd radices, primes (straight and by chirps), halves, and long ones.
LENGTHS = [1, 2, 3, 5, 6, 8, 13, 16, 17, 30, 34, 64, 97, 100, 101, 169, 202, 256, 1000, 1003, 1024]
LENGTHS += [2197, 5040]
KINDS = [FftType.FFT, FftType.IFFT, FftType.RFFT, FftType.IRFFT]


def draw(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def operand(kind, real, shape, lengths):
    """An operand of a transform, and the type of its result."""
    half = (*shape[:-1], lengths[-1] // 2 + 1)
    wide = np.dtype(COMPLEX[np.dtype(real)])
    if kind == FftType.RFFT:
        return draw(shape, real), Type(half, wide)
    if kind == FftType.IRFFT:
        return draw(half, wide), Type(shape, np.dtype(real))
    return draw(shape, wide), Type(shape, wide)


def native(kind, x, out, lengths):
    params = {"fft_type": kind, "fft_lengths": lengths}
    lowered = fft.lower([Type(x.shape, x.dtype)], [out], params)
    return run_tasks(lowered, [x], [out])[0]


def exact(kind, x, lengths):
    axes = tuple(range(-len(lengths), 0))
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    name = {0: "fftn", 1: "ifftn", 2: "rfftn", 3: "irfftn"}[int(kind)]
    return getattr(np.fft, name)(wide, s=lengths, axes=axes)


def check(kind, real, shape, lengths):
    x, out = operand(kind, real, shape, lengths)
    got, want = native(kind, x, out, lengths), exact(kind, x, lengths)
    assert got.shape == want.shape and got.dtype == out.dtype
    size = max(2, np.prod(lengths))
    bound = np.finfo(real).eps * (1 + np.log2(size)) * np.sqrt(np.mean(np.abs(want) ** 2))
    error = np.sqrt(np.mean(np.abs(got - want) ** 2))
    assert error <= bound, (kind, real, shape, error / bound)
    assert np.abs(got - want).max() <= 8 * bound


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_length(kind):
    for i, n in enumerate(LENGTHS):
        # fewer transforms than lanes, one, or more; each kind meets a length in another number
        stack = [(), (3,), (21,)][(i + kind) % 3]
        check(kind, np.float32, (*stack, n), (n,))


@pytest.mark.parametrize("kind", KINDS)
def test_double_precision(kind):
    for shape in [(12,), (3, 34), (9, 50), (1000,), (2, 4096)]:
        check(kind, np.float64, shape, shape[-1:])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(3, 20, 6), (2, 30, 40), (2, 37, 20), (2, 3, 9, 11), (5, 1, 4)])
def test_several_axes(kind, shape):
    for rank in range(2, len(shape) + 1):
        check(kind, np.float32, shape, shape[-rank:])


def test_long_transforms_whose_tables_are_computed():
    check(FftType.FFT, np.float32, (1 << 18,), (1 << 18,))
    check(FftType.IFFT, np.float64, (2, 98304), (98304,))
    check(FftType.RFFT, np.float32, (300000,), (300000,))
    check(FftType.IRFFT, np.float32, (1 << 17,), (1 << 17,))


@pytest.mark.parametrize("kind", KINDS)
def test_transforms_too_long_for_two_halves(kind, monkeypatch):
    fft.split.cache_clear()
    monkeypatch.setattr(fft, "MAX_SIMD_LENGTH", 32)
    try:
        check(kind, np.float32, (2, 30000), (30000,))
        check(kind, np.float32, (2, 100, 33), (100, 33))
    finally:
        fft.split.cache_clear()


@pytest.mark.parametrize("bits", [128, 256])
def test_narrower_vectors(bits, monkeypatch):
    monkeypatch.setattr(processor, "vector_bits", lambda: bits)
    for kind in KINDS:
        for real in (np.float32, np.float64):
            for shape in [(7, 48), (700,), (3, 38)]:
                check(kind, real, shape, shape[-1:])
    check(FftType.FFT, np.float64, (3, 6, 10), (6, 10))


def test_the_ends_of_a_half_spectrum_are_read_as_real():
    for n in (8, 9, 34, 512, 4096):
        x = draw((2, n // 2 + 1), np.complex64)
        x[:, 0] = np.nan * 1j + 1
        if n % 2 == 0:
            x[:, -1] = np.inf * 1j + 2
        x.real[:, 0] = 1
        if n % 2 == 0:
            x.real[:, -1] = 2
        got = native(FftType.IRFFT, x, Type((2, n), np.dtype(np.float32)), (n,))
        clean = x.copy()
        clean.imag[:, 0] = 0
        if n % 2 == 0:
            clean.imag[:, -1] = 0
        np.testing.assert_allclose(got, exact(FftType.IRFFT, clean, (n,)), atol=1e-5)


def test_the_ends_of_a_half_spectrum_are_real():
    for n in (2, 4, 8, 34, 512, 4096):
        for rows in (1, 20):
            x = draw((rows, n), np.float32)
            got = native(FftType.RFFT, x, Type((rows, n // 2 + 1), np.dtype(np.complex64)), (n,))
            assert not np.any(np.ascontiguousarray(got.imag[:, [0, -1]]).view(np.uint32))


def test_an_element_that_is_not_finite_stays_in_its_row():
    x = draw((20, 60), np.complex64)
    x[3, 7] = np.inf
    x[5, 0] = np.nan
    got = native(FftType.FFT, x, Type(x.shape, x.dtype), (60,))
    assert [i for i in range(20) if not np.isfinite(got[i]).all()] == [3, 5]


def test_nothing_to_transform_is_left_to_the_reference():
    for shape, lengths in [((0, 8), (8,)), ((3, 0), (0,)), ((4, 2), ())]:
        kind = Type(shape, np.dtype(np.complex64))
        assert fft.lower([kind], [kind], {"fft_type": 0, "fft_lengths": lengths}) is None


def test_passes_are_few_functions():
    kind = Type((1 << 20,), np.dtype(np.complex64))
    lowered = fft.lower([kind], [kind], {"fft_type": 0, "fft_lengths": kind.shape})
    called = {place.what for task in lowered.tasks for place in task.places if place.kind == "code"}
    assert len(called) == 4  # the walk over passes, those of two radices, and what transposes
    assert sum(task.module.line_count for task in lowered.tasks) < 700


def test_the_same_bits_on_any_number_of_threads():
    x = draw((3, 1 << 14), np.complex64)
    results = []
    for count in (1, 2, 8):
        with knobs.scope(num_threads=count):
            results.append(native(FftType.FFT, x, Type(x.shape, x.dtype), (1 << 14,)).tobytes())
    assert len(set(results)) == 1
