"""Options that say where things run, on a GPU made of the host; and what libraries take for
granted."""

import ctypes

import numpy as np
import pytest

import weft
from tests.backends.cuda import host_device
from tests.backends.cuda.emulation import run_routine
from weft import export, nn
from weft import numpy as jnp
from weft.backends.cuda import driver, libraries
from weft.backends.cuda.routines import fourier
from weft.core.registry import lookup
from weft.kernel.program import Type


@pytest.fixture
def gpu(monkeypatch):
    found = host_device.install_client(monkeypatch)
    with weft.default_device(found):
        yield found


@pytest.mark.parametrize("backend", ["cpu", "gpu", "cuda"])
def test_jit_runs_where_its_backend_says(gpu, backend):
    run = weft.jit(lambda x, y: 2 * x + y, backend=backend)
    for x in (jnp.arange(4.0), np.arange(4, dtype=np.float32)):
        for _ in range(3):
            found = run(x, 1.0)
            assert found.device.platform == ("cpu" if backend == "cpu" else gpu.platform)
            np.testing.assert_array_equal(found, [1, 3, 5, 7])


def test_nested_backends_have_to_agree(gpu):
    inner = weft.jit(lambda x: x + 1, backend="cpu")
    inner(1.0)
    with pytest.raises(ValueError, match="inside jit with backend='gpu'"):
        weft.jit(lambda x: inner(x), backend="gpu")(1.0)
    same = weft.jit(lambda x: x + 1, backend="cuda")
    assert float(weft.jit(lambda x: same(x), backend="gpu")(1.0)) == 2


def test_a_device_and_a_backend_are_one_too_many():
    with pytest.raises(ValueError, match="give only one of them"):
        weft.jit(lambda x: x, device=weft.devices("cpu")[0], backend="cpu")
    with pytest.raises(RuntimeError, match="Unknown backend"):
        weft.jit(lambda x: x, backend="abacus")(1.0)


@pytest.mark.parametrize("x", [np.arange(3.0), np.float32(2), memoryview(b"abc")])
def test_arrays_of_the_host_are_not_shared_with_a_gpu(gpu, x):
    with pytest.raises(ValueError, match="copy=False"):
        jnp.asarray(x, copy=False)
    cpu = weft.devices("cpu")[0]
    assert jnp.asarray(x, copy=False, device=cpu).device == cpu
    assert jnp.asarray(jnp.ones(3), copy=False).device == gpu
    for given in ([1.0, 2.0], 3.0):  # which own no memory that could be shared
        assert jnp.asarray(given, copy=False).device == gpu


def test_functions_are_exported_for_gpus(gpu, monkeypatch):
    monkeypatch.setattr("weft.export.exported.default_backend", lambda: "gpu")
    fun, x = weft.jit(lambda x: 2 * x), np.ones(3, np.float32)
    made = export.export(fun)(x)
    assert made.platforms == ("cuda",)
    np.testing.assert_array_equal(export.deserialize(made.serialize()).call(x), [2, 2, 2])
    assert export.export(fun, platforms=["gpu", "cuda", "cpu"])(x).platforms == ("cuda", "cpu")
    with pytest.raises(ValueError, match="not for cuda"):
        export.export(fun, platforms=["cpu"])(x).call(x)


def test_attention_takes_names_of_implementations():
    q = jnp.ones((1, 4, 2, 8))
    want = nn.dot_product_attention(q, q, q)
    for name in ("cudnn", "xla"):
        found = nn.dot_product_attention(q, q, q, implementation=name)
        np.testing.assert_array_equal(found, want)
    with pytest.raises(ValueError, match="'abacus'"):
        nn.dot_product_attention(q, q, q, implementation="abacus")


# --- Fourier transforms ---------------------------------------------------------------------------


class Cufft:
    """cuFFT by NumPy: transforms to real numbers believe that all their axes are symmetric."""

    def __init__(self):
        self.plans = []

    def cufftPlanMany(self, plan, rank, lengths, *rest):
        *_, kind, batch = rest
        ctypes.cast(plan, ctypes.POINTER(ctypes.c_int))[0] = len(self.plans)
        self.plans.append((tuple(lengths[:rank]), kind, batch))
        return 0

    def cufftSetStream(self, plan, stream):
        return 0

    def _run(self, plan, source, target, dtypes, direction=None):
        lengths, _, batch = self.plans[plan.value]
        half = (*lengths[:-1], lengths[-1] // 2 + 1)
        shapes = [half if d.kind == "c" and direction is None else lengths for d in dtypes]
        x, out = (
            np.frombuffer(
                (ctypes.c_char * (batch * int(np.prod(s)) * d.itemsize)).from_address(p.value), d
            ).reshape(batch, *s)
            for p, s, d in zip((source, target), shapes, dtypes, strict=True)
        )
        axes = tuple(range(1, len(lengths) + 1))
        if direction is not None:
            found = np.fft.fftn(x, axes=axes) if direction < 0 else np.fft.ifftn(x, axes=axes)
            out[...] = found * (1 if direction < 0 else np.prod(lengths))
        elif dtypes[0].kind == "f":
            out[...] = np.fft.rfftn(x, axes=axes)
        else:
            out[...] = _symmetric(x, lengths) * np.prod(lengths)
        return 0

    def cufftExecC2R(self, plan, source, target):
        return self._run(plan, source, target, (np.dtype("c8"), np.dtype("f4")))

    def cufftExecR2C(self, plan, source, target):
        return self._run(plan, source, target, (np.dtype("f4"), np.dtype("c8")))

    def cufftExecC2C(self, plan, source, target, direction):
        return self._run(plan, source, target, (np.dtype("c8"), np.dtype("c8")), direction)


def _symmetric(x, lengths):
    """The inverse of a half spectrum whose other half is taken to be its mirror image."""
    whole = np.zeros((len(x), *lengths), complex)
    for at in np.ndindex(*lengths):
        mirrored = at[-1] > lengths[-1] // 2
        place = tuple((-i) % n for i, n in zip(at, lengths, strict=True)) if mirrored else at
        value = x[(slice(None), *place)]
        whole[(slice(None), *at)] = value.conj() if mirrored else value
    # a mirror image in all axes: parts of the edges that are not symmetric are lost
    flipped = whole
    for axis, n in enumerate(lengths, 1):
        flipped = np.take(flipped, (-np.arange(n)) % n, axis)
    whole = (whole + flipped.conj()) / 2 if len(lengths) > 1 else whole
    return np.fft.ifftn(whole, axes=tuple(range(1, len(lengths) + 1))).real


@pytest.mark.parametrize(
    "shape, lengths", [((3, 5), (8,)), ((2, 6, 5), (6, 8)), ((4, 6, 3), (4, 6, 5))]
)
def test_spectra_need_not_be_symmetric_in_outer_axes(shape, lengths, monkeypatch):
    if driver.count():
        pytest.skip("libraries of the host can't stand in for those of a GPU that is there")
    monkeypatch.setattr(libraries, "has", lambda name: True)
    cufft = Cufft()
    monkeypatch.setattr(libraries, "library", lambda name: cufft)
    monkeypatch.setattr(fourier, "_plan", fourier._plan.__wrapped__)
    rng = np.random.default_rng(0)
    x = (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)
    axes = tuple(range(-len(lengths), 0))
    want = np.fft.irfftn(x, lengths, axes).astype(np.float32)
    kind = weft.lax.FftType.IRFFT
    routine = fourier.fft(
        [Type(x.shape, x.dtype)], [Type(want.shape, want.dtype)],
        {"fft_type": kind, "fft_lengths": lengths},
    )  # fmt: skip
    out = np.zeros(want.shape, np.float32)
    run_routine(routine, [x], [out])
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        lookup("fft").ref(x, fft_type=kind, fft_lengths=lengths), want, 1e-4, 1e-5
    )
