"""Transforms by code that is the same for all lengths: against NumPy, and none compiled for new."""

import numpy as np
import pytest

import weft
from tests.backends import tasks, test_fft
from tests.backends.tasks import run_tasks
from weft import numpy as jnp
from weft.backends.cpu.calls import native
from weft.backends.cpu.routines.fourier import fft, fft_kernels
from weft.backends.llvm.native import processor
from weft.kernel.program import Type
from weft.prims.fft import FftType

KINDS = test_fft.KINDS
# one transform, fewer than lanes, more
STACKS = [(), (3,), (21,)]
LONG = [169, 202, 256, 331, 500, 997, 1000, 1003, 1024, 1155, 1511, 2197, 4096, 5040, 8191, 10000]


@pytest.fixture(autouse=True)
def by_any(monkeypatch):
    """What ``test_fft`` checks is this code."""
    monkeypatch.setattr(test_fft, "native", lowered)


def lowered(kind, x, out, lengths, **more):
    params = {"fft_type": kind, "fft_lengths": lengths, **more}
    made = fft.lower([Type(x.shape, x.dtype)], [out], params)
    return run_tasks(made, [x], [out])[0]


# --- results --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_all_short_lengths(kind):
    for n in range(1, 131):
        test_fft.check(kind, np.float32, (*STACKS[(n + kind) % 3], n), (n,))
    for n in range(1 + kind % 2, 131, 2):
        test_fft.check(kind, np.float64, (*STACKS[n // 2 % 3], n), (n,))


@pytest.mark.parametrize("kind", KINDS)
def test_longer_lengths(kind):
    for i, n in enumerate(LONG):
        real = [np.float32, np.float64][i % 2]
        test_fft.check(kind, real, (*STACKS[(i + kind) % 3], n), (n,))


def test_long_lengths():
    test_fft.check(FftType.FFT, np.float32, (1 << 18,), (1 << 18,))
    test_fft.check(FftType.RFFT, np.float64, (300000,), (300000,))
    test_fft.check(FftType.IRFFT, np.float32, (1 << 17,), (1 << 17,))
    test_fft.check(FftType.FFT, np.float32, (66191,), (66191,))  # its chirp's spectrum is computed


@pytest.mark.parametrize("kind", KINDS)
def test_tables_made_in_each_call(kind, monkeypatch):
    monkeypatch.setattr(fft, "MAX_KEPT_FACTORS", 0)
    monkeypatch.setattr(fft, "MAX_KEPT_SPECTRUM", 0)
    for i, n in enumerate([*LONG, 101, 103, 206, 1366]):
        real = [np.float32, np.float64][(i + kind) % 2]
        test_fft.check(kind, real, (*STACKS[i % 3], n), (n,))


@pytest.mark.parametrize("kind", KINDS)
def test_more_than_two_factors(kind, monkeypatch):
    # as if memory for passes were smaller, so that lengths need not be beyond four million
    monkeypatch.setattr(fft, "MAX_SIMD_LENGTH", 48)
    fft.split.cache_clear()
    for i, n in enumerate([4096, 5040, 12000, 6561, 2 * 4913, 2003]):
        real = [np.float32, np.float64][(i + kind) % 2]
        assert n > 48 * 48 or not fft.smooth(n)
        test_fft.check(kind, real, (*STACKS[(i + kind) % 3], n), (n,))
    fft.split.cache_clear()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(3, 20, 6), (2, 30, 40), (2, 37, 20), (2, 3, 9, 11), (5, 1, 4)])
def test_several_axes(kind, shape):
    for rank in range(2, len(shape) + 1):
        test_fft.check(kind, np.float32, shape, shape[-rank:])


@pytest.mark.parametrize("kind", [FftType.FFT, FftType.IFFT])
@pytest.mark.parametrize("shape", [(9, 40), (2, 101, 20), (30, 3), (4, 6, 5), (3, 5000, 2)])
def test_any_axis(kind, shape):
    for axis in range(len(shape)):
        x = test_fft.draw(shape, np.complex64)
        out = Type(shape, np.dtype(np.complex64))
        got = lowered(kind, x, out, (shape[axis],), axis=axis)
        want = (np.fft.fft if kind == FftType.FFT else np.fft.ifft)(x, axis=axis)
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize("bits", [128, 256])
def test_narrower_vectors(bits, monkeypatch):
    monkeypatch.setattr(processor, "vector_bits", lambda: bits)
    for kind in KINDS:
        for real in (np.float32, np.float64):
            for shape in [(7, 48), (700,), (3, 38), (9, 26), (211,), (2, 5)]:
                test_fft.check(kind, real, shape, shape[-1:])
    test_fft.check(FftType.FFT, np.float64, (3, 6, 10), (6, 10))
    monkeypatch.setattr(fft, "MAX_KEPT_FACTORS", 0)
    monkeypatch.setattr(fft, "MAX_KEPT_SPECTRUM", 0)
    for kind in KINDS:
        for real in (np.float32, np.float64):
            for shape in [(700,), (211,), (2, 5000), (422,)]:
                test_fft.check(kind, real, shape, shape[-1:])


def test_the_ends_of_a_half_spectrum_are_read_as_real():
    test_fft.test_the_ends_of_a_half_spectrum_are_read_as_real()


def test_an_element_that_is_not_finite_stays_in_its_row():
    test_fft.test_an_element_that_is_not_finite_stays_in_its_row()


def test_nothing_to_do_is_left_to_others():
    for shape, lengths in [((0, 8), (8,)), ((3, 0), (0,)), ((4, 2), ())]:
        kind = Type(shape, np.dtype(np.complex64))
        params = {"fft_type": 0, "fft_lengths": lengths}
        assert fft.lower([kind], [kind], params) is None


def test_arrays_of_long_transforms_are_short():
    """Programs are kept, so that what is in them must not grow as lengths do."""
    for n in (1 << 16, 16381, 1 << 21, 2097143, 97**3, 3 << 21):
        for kind in (FftType.FFT, FftType.RFFT):
            x, out = (Type((n,), np.dtype(d)) for d in (np.float64, np.complex128))
            ins = x if kind == FftType.RFFT else out
            made = fft.lower([ins], [out], {"fft_type": kind, "fft_lengths": (n,)})
            arrays = {id(p.what): p.what for task in made.tasks for p in task.places}
            size = sum(a.nbytes for a in arrays.values() if isinstance(a, np.ndarray))
            assert size <= 3 << 19, (n, kind, size)  # of narrow vectors, which have more factors


def test_radices_make_up_the_length():
    for n in (1, 2, 12, 36, 128, 1000, 1155, 2197, 97 * 89):
        radices = fft_kernels.radices_of(n)
        assert np.prod(radices) == n and max(radices) <= 97
    assert fft_kernels.radices_of(64) == (8, 8) and fft_kernels.radices_of(100) == (10, 10)


# --- code -----------------------------------------------------------------------------------------


def test_texts_have_no_lengths():
    def made(kind, real, shape):
        x, out = test_fft.operand(kind, real, shape, shape[-1:])
        params = {"fft_type": kind, "fft_lengths": shape[-1:]}
        return fft.lower([Type(x.shape, x.dtype)], [out], params)

    for kind in KINDS:
        for shapes in ([(1000,), (4000,)], [(30, 64), (40, 2000)], [(1009,), (8191,)]):
            one, other = (made(kind, np.float32, shape) for shape in shapes)
            assert [t.module for t in one.tasks] == [t.module for t in other.tasks]


def array(name, shape):
    rng = np.random.default_rng(sum(shape))
    x = rng.normal(size=shape)
    if name == "rfft":
        return x.astype(np.float32)
    return (x + 1j * rng.normal(size=shape)).astype(np.complex64)


# lengths that, or whose halves, have all radices; a prime, half of a prime, several halves
EACH = [6, 9, 16, 25, 49, 64, 100, 33, 35, 103, 206, 1, 2]
# lengths that have each radix before others
EACH += [12, 15, 18, 14, 24, 27, 30, 22, 26]
LINES = [11551, 2520, 3072, 2310, 231, 1013, 2026, 1012, 26, 2500, 4500]
# those whose halves, which lie in memory in another way than rows, have all radices
LINES += [1081, 1141, 8640, 8960, 9216, 98280, 135240, 180180, 500500]
NEW_LINES = [1000, 1021, 640, 900, 5000, 4411, 7001, 363, 1800, 60, 2042]
NEW_PLANES = [(20, 30), (99, 64), (19, 120), (64, 63), (33, 107), (107, 64), (50, 77), (9, 2)]


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_a_new_length_compiles_nothing(name, texts):
    check_new(name, [(n,) for n in EACH + LINES], [(n,) for n in NEW_LINES], -1, texts)


def test_long_lines_of_a_new_length_compile_nothing(texts):
    # a chirp; two halves of all straight radices, before others and last
    for n in (65551, 98280, 180180, 500500, 1 << 17, 135240):
        jnp.fft.fft(array("fft", (n,)))
        jnp.fft.rfft(array("rfft", (2 * n,)))
    texts.clear()
    for name, n in [("fft", 65557), ("fft", 147000), ("fft", 1 << 20), ("rfft", 300300)]:
        x = array(name, (n,))
        want = getattr(np.fft, name)(x)
        found = getattr(jnp.fft, name)(x)
        np.testing.assert_allclose(found, want, rtol=0, atol=3e-6 * np.abs(want).max())
        assert texts == [], (name, n)


READ, WRITTEN = "icmp ne i64 %a.pairs_in", ["icmp ne i64 %a.pairs_out", "icmp ne ptr %a.lane"]


@pytest.mark.parametrize("radix, questions", [(4, [READ, *WRITTEN]), (7, [READ]), (0, [READ])])
def test_passes_of_rows_do_not_ask_how_elements_lie(radix, questions):
    paired, split = (fft_kernels.pass_module(4, 128, radix, True, x)[0] for x in (True, False))
    for question in questions:
        assert question in str(paired) and question not in str(split)


@pytest.mark.parametrize("name, axis", [("fft", 1), ("ifft", 0), ("rfft", 1), ("irfft", 1)])
def test_planes_of_a_new_shape_compile_nothing(name, axis, texts):
    # the transform of real numbers is one of half the length
    every = {*EACH, *(2 * n for n in EACH)} if name in ("rfft", "irfft") else EACH
    known = [shape for n in every for shape in ((n, 17), (17, n), (3, n), (n, 3))]
    check_new(name, known, NEW_PLANES, axis, texts)


def test_scaled_transforms_compile_nothing(texts):
    def fun(n):
        return jnp.fft.fft(array("fft", (n,)), norm="ortho")

    for n in (257, 300, 1013):  # code for few elements, and some of the transform's
        fun(n)
    texts.clear()
    for n in (256, 512, 1019):
        np.testing.assert_allclose(
            fun(n), np.fft.fft(array("fft", (n,)), norm="ortho"), rtol=0, atol=3e-5
        )
    assert not [text for text in texts if "%call" not in str(text)]


def check_new(name, known, new, axis, texts):
    fun, exact = getattr(jnp.fft, name), getattr(np.fft, name)
    for shape in known:
        fun(array(name, shape), axis=axis)
    texts.clear()
    for shape in new:
        x = array(name, shape)
        for _ in range(3):
            found = fun(x, axis=axis)
        want = exact(x, axis=axis)
        np.testing.assert_allclose(found, want, rtol=0, atol=3e-6 * np.abs(want).max())
        assert texts == [], shape


def test_a_call_gives_the_same_bits_each_time():
    x = jnp.asarray(array("fft", (2, 1013)))
    first = np.asarray(jnp.fft.fft(x)).tobytes()
    assert all(np.asarray(jnp.fft.fft(x)).tobytes() == first for _ in range(4))


def test_compiled_functions_have_the_same_code():
    closed = weft.make_jaxpr(jnp.fft.fft)(np.ones(1000, np.complex64))
    codes = [text for text, _ in native.Executable(closed).plan.codes]
    out = Type((1000,), np.dtype(np.complex64))
    params = {"fft_type": FftType.FFT, "fft_lengths": (1000,)}
    assert all(task.module in codes for task in fft.lower([out], [out], params).tasks)


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_pieces_changes_no_bits(kind, monkeypatch):
    """Blocks at the end overlap others, and their factors are rounded in another way."""

    def backwards(address, given, start, stop, chunk):
        call = tasks.function(address)
        for i in reversed(range(start, stop)):
            call(list(given), i, i + 1)

    for shape in [(2, 2308), (3, 8190), (1000,)]:
        x, out = test_fft.operand(kind, np.float32, shape, shape[-1:])
        found = lowered(kind, x, out, shape[-1:])
        with monkeypatch.context() as patch:
            patch.setattr(tasks.pool, "run", backwards)
            again = lowered(kind, x, out, shape[-1:])
        assert found.tobytes() == again.tobytes(), shape
