"""Our attention for Hopper GPUs: its text, what the assembler says of it, how it is launched."""

import math
import subprocess

import numpy as np
import pytest

from tests.backends.cuda.emulation import run_routine
from tests.backends.cuda.test_routines import assembler_path
from weft.backends.cuda.routines import attention, dnn_attention
from weft.backends.cuda.routines.base import ROUTINES, Library, Routine, Run, given, made
from weft.backends.cuda.routines.hopper import attention as launches
from weft.backends.cuda.routines.hopper import ptx
from weft.backends.cuda.routines.hopper.backward import backward_text
from weft.backends.cuda.routines.hopper.forward import forward_text
from weft.kernel.nodes import BF16, F16
from weft.kernel.program import Type


def sizes_of(dtype=BF16, depth=128, heads=(4, 4), rows=300, columns=300, shift=0):
    many, few = heads
    strides = [(n * h * depth, depth, h * depth) for n, h in ((rows, many), (columns, few))]
    strides = [strides[0], strides[1], strides[1], strides[0], strides[0]]
    return dnn_attention.Sizes(
        dtype, 2, many, few, rows, columns, depth, tuple(strides), 0.125, shift
    )


CASES = {
    "causal": sizes_of(),
    "plain": sizes_of(dtype=F16, shift=None),
    "shared": sizes_of(heads=(4, 2), rows=200, columns=331, shift=131),
    "narrow": sizes_of(depth=64),
    "narrow plain": sizes_of(depth=64, heads=(4, 1), shift=None),
}


def texts(s):
    forward = forward_text(launches.forward_of(s))
    return [forward, *(backward_text(launches.backward_of(s, by)) for by in (True, False))]


@pytest.mark.parametrize("name", CASES)
def test_products(name):
    """As many matrix instructions as the tiles have, for each place where they are written."""
    s = CASES[name]
    forward, columns, rows = (text.count("wgmma.mma_async") for text in texts(s))
    deep, wide = s.depth // 16, launches.FORWARD_WIDTH // 16
    assert forward == 2 * (deep + wide)  # the first and last tile are apart from the loop
    narrow = launches.BACKWARD_WIDTH // 16
    assert columns == 2 * deep + 2 * narrow and rows == 2 * deep + narrow


@pytest.mark.parametrize("name", CASES)
def test_assembler(name, tmp_path):
    """Nothing is kept in memory that belongs into registers, and products aren't put in a row."""
    path = assembler_path()
    if path is None:
        pytest.skip("no ptxas on this machine")
    for i, text in enumerate(texts(CASES[name])):
        source = tmp_path / f"{i}.ptx"
        source.write_text(text)
        command = [path, "-arch=sm_90a", "-v", str(source), "-o", str(tmp_path / "out.cubin")]
        said = subprocess.run(command, check=True, capture_output=True, text=True)
        told = said.stdout + said.stderr
        assert "0 bytes spill stores, 0 bytes spill loads" in told
        assert "C75" not in told, told


def test_memory_of_a_block():
    for s in CASES.values():
        kernels = [launches.forward_of(s), *(launches.backward_of(s, by) for by in (True, False))]
        assert all(kernel.bytes <= 227 << 10 for kernel in kernels)


def test_steps_of_depth():
    """Columns as depth: 32 bytes a step inside of a panel; rows: 16 rows of 128 bytes."""
    assert [16 * ptx.row_step(k, 64) for k in range(6)] == [0, 32, 64, 96, 8192, 8224]
    assert [16 * ptx.column_step(k) for k in range(3)] == [0, 2048, 4096]
    assert ptx.float_word(1.0) == "0f3F800000"


class Recorded:
    """In the place of a launch."""

    def __init__(self, kernel, sizes, which):
        self.kernel, self.sizes, self.which = kernel, sizes, which

    def run(self, stream, *addresses):
        raise AssertionError("no GPU")


@pytest.fixture
def on_hopper(monkeypatch):
    monkeypatch.setattr(launches, "known", lambda sizes: True)
    monkeypatch.setattr(launches, "Launch", Recorded)
    monkeypatch.setattr(dnn_attention, "plan", lambda write, sizes: None)


MANY = Type((1, 128, 2, 64), F16)
ROWS = Type((1, 2, 128), np.dtype(np.float32))
PARAMS = {"orders": ("bthd",) * 3, "scale": 0.25, "causal": None}


def test_without_cudnn(on_hopper):
    """The same bits in every run: no library adds up by atomics."""
    (step,) = ROUTINES["attention"]([MANY] * 3, [], PARAMS).steps
    assert type(step) is Library
    assert step.places == (given(0), given(1), given(2), made(0), made(1))
    params = PARAMS | {"orders": ("bthd",) * 4}
    routine = ROUTINES["attention_backward"]([MANY] * 4 + [ROWS, MANY], [], params)
    numbers, columns, rows = routine.steps
    assert [type(step) for step in routine.steps] == [Run, Library, Library]
    assert routine.scratch == (8 * 2 * 128,)
    assert columns.function.__self__.which == (1, 2, 0, 4)
    assert columns.places[-2:] == (made(1), made(2)) and rows.places[-1] == made(0)
    assert numbers.places[:3] == (given(5), given(3), given(4))


@pytest.mark.parametrize(
    ("columns", "shift", "ours"),
    [(1024, None, False), (2048, None, True), (2048, 0, False), (4096, 0, True)],
)
def test_long_rows(on_hopper, monkeypatch, columns, shift, ours):
    """The forward pass is ours where it is faster."""

    class Plan:
        workspace = 0

        def run(self, *args):
            raise AssertionError("no GPU")

    monkeypatch.setattr(dnn_attention, "plan", lambda write, sizes: Plan())
    t = Type((1, columns, 2, 64), F16)
    (step,) = ROUTINES["attention"]([t] * 3, [], PARAMS | {"causal": shift}).steps
    assert isinstance(step.function.__self__, Recorded) == ours


def test_known_needs_a_gpu():
    assert not launches.known(sizes_of()) or launches.driver.device().architecture == 90
    assert launches.padded(128) == 128 and launches.padded(129) == 256


def test_numbers_of_rows():
    """Logarithms and sums of products, with rows of padding, whose weights are 0."""
    rows, depth, heads = 20, 64, 2
    rng = np.random.default_rng(0)
    g, o = (rng.normal(size=(1, rows, heads, depth)).astype(BF16) for _ in range(2))
    logs = rng.normal(size=(1, heads, rows)).astype(np.float32)
    s = sizes_of(depth=depth, heads=(heads, heads), rows=rows, columns=rows)._replace(batch=1)
    names = attention._names(s) | {"PADDED": 32}
    module = attention._module(attention.stubs.row_numbers, **names)
    run = Run(module, 32 * heads // 8, 256, (given(0), given(1), given(2), made(0)))
    out = np.zeros((2, heads, 32), np.float32)
    run_routine(Routine([run]), [g, o, logs], [out])
    np.testing.assert_allclose(out[0, :, :rows], logs[0] * math.log2(math.e), rtol=1e-6)
    want = np.einsum("thd,thd->ht", g[0].astype(np.float64), o[0].astype(np.float64))
    np.testing.assert_allclose(out[1, :, :rows], want, rtol=1e-4, atol=1e-4)
    assert (out[0, :, rows:] > 1e29).all() and not out[1, :, rows:].any()
