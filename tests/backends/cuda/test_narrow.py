"""Arithmetic of bfloat16 as text for GPUs, run on the host: the same bits as with float32."""

import re

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.backends.cuda.test_columns import launch
from tests.backends.cuda.test_ptx import kernels_of
from weft import lax
from weft import numpy as jnp
from weft.backends.cuda import ptx
from weft.backends.cuda import schedule as schedules
from weft.backends.cuda.schedule import schedule
from weft.backends.cuda.text.render import render
from weft.kernel.run import run_kernel

BF16 = ml_dtypes.bfloat16
# Zeros, numbers that round to others, the ends of the range, NaN; none that float32 would flush.
EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    1.0078125,
    3.0,
    255.0,
    2.0**127,
    3e38,
    -3e38,
    np.inf,
    -np.inf,
    np.nan,
]


def numbers(size, seed):
    rng = np.random.default_rng(seed)
    found = rng.normal(size=size) * 2.0 ** rng.integers(-20, 20, size)
    edges = rng.integers(0, len(EDGES), size)
    return np.where(rng.random(size) < 0.3, np.array(EDGES)[edges], found).astype(BF16)


def usual(size, seed):
    return np.random.default_rng(seed).normal(size=size).astype(BF16)


def check(fun, *args):
    """The texts of a function's kernels, after a run on the host: as NumPy runs them, bit by bit,
    but for the signs of NaNs."""
    texts = []
    for kernel in kernels_of(fun, *args):
        outside = [b for b in kernel.buffers if b.role != "row"]
        given = iter(args)
        whole = [
            np.asarray(next(given)).reshape(-1) if b.role == "in" else np.zeros(b.size, b.dtype)
            for b in outside
        ]
        parts, scratch = schedule(kernel)
        pieces = [b.copy() for b in whole] + [np.zeros(b.size, b.dtype) for b in scratch]
        with np.errstate(all="ignore"):
            run_kernel(kernel, whole)
        for part in parts:
            launch(part, [pieces[i] for i in part.buffers])
            texts.append(str(render(part)))
        for b, x, y in zip(outside, whole, pieces, strict=False):
            if b.dtype.name == "bfloat16":
                x, y = (np.where(np.isnan(z), BF16(np.nan), z).view(np.uint16) for z in (x, y))
            np.testing.assert_array_equal(x, y)
    return texts


def chosen(x, y):
    z = x * y
    return jnp.where(z > 0, z, jnp.where(y > x, -y, abs(x) * 2)) + (x > y).astype(x.dtype)


FUNCTIONS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "polynomial": lambda x, y: ((x * y + 1) * x - 0.5) * y + x,
    "extremes": lambda x, y: jnp.maximum(x * y, 0) + jnp.minimum(x - y, y),
    "signs": lambda x, y: -(x * y) + abs(x - y) * -x,
    "choices": chosen,
    "rounded": lambda x, y: x * (x / (y + 1)) + y,
    "to float32": lambda x, y: (x * y).astype(np.float32) + 1,
    "integers": lambda x, y: (x * y > 3).astype(np.int32),
    "square": lambda x, y: lax.square(x + y) - y,
}


@pytest.mark.parametrize("size", [(64,), (3, 37), (9,)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_have_the_bits_of_float32_rounded(name, size, monkeypatch):
    monkeypatch.setattr(schedules, "THREADS", 32)
    x, y = numbers(size, 1), numbers(size, 2)
    (text,) = check(FUNCTIONS[name], x, y)
    assert "fma.rn.bf16" in text


@pytest.mark.parametrize("name", FUNCTIONS)
def test_elements_far_apart_are_computed_two_at_a_time(name, monkeypatch):
    monkeypatch.setattr(schedules, "THREADS", 32)
    monkeypatch.setattr(schedules, "MANY_ELEMENTS", 1)
    x, y = numbers((7, 43), 1), numbers((7,), 2)
    (text,) = check(lambda x, y: FUNCTIONS[name](x, y[:, None]), x, y)
    assert "fma.rn.bf16x2" in text


def test_columns_are_computed_two_at_a_time(monkeypatch):
    monkeypatch.setattr(schedules, "ENOUGH_THREADS", 64)
    x, y = (usual((12, 260), i) for i in (1, 2))
    (text,) = check(lambda x, y: jnp.max(x * y + x, axis=0), x, y)
    assert "fma.rn.bf16x2" in text


def test_rare_branches_have_sums_of_one_element():
    (kernel,) = kernels_of(lambda x: jnp.sin(x * x + 1) * x, usual((64,), 1))
    text = str(render(schedule(kernel).parts[0]))
    assert "fma.rn.bf16 " in text and "bf16x2 $0, $1, $2, $3" not in text


def test_a_chain_of_sums_and_products_converts_nothing():
    """Every operation was computed with float32, and rounded by an instruction that takes as long
    as two others."""

    def horner(x):
        y = x * 0
        for k in range(12):
            y = y * x * 0.5 + (k - 6) / 7
        return y

    (kernel,) = kernels_of(horner, jnp.ones((8, 1 << 14), BF16))
    text = ptx.assemble(render(schedule(kernel).parts[0]))
    body = re.findall(r"^\t+([a-z]\S+)", text, re.M)
    assert not [word for word in body if word.startswith("cvt.rn.bf16")]
    assert sum(word == "fma.rn.bf16x2" for word in body) <= 2 * 37


def test_older_gpus_have_the_instructions():
    (kernel,) = kernels_of(FUNCTIONS["extremes"], *[jnp.ones((64, 64), BF16)] * 2)
    text = ptx.assemble(render(schedule(kernel).parts[0]), 80)
    assert "fma.rn.bf16x2" in text and not re.search(r"\b(add|sub|mul)\.rn\.bf16", text)


def test_gradients_of_a_norm_are_right_to_the_bit():
    def loss(x, scale):
        return weft.nn.relu((x - 0.5) * scale + 0.25).astype(np.float32) * 2

    fun = lambda x, scale, g: weft.vjp(loss, x, scale)[1](g)[0]
    check(fun, usual((64, 64), 1), usual((64,), 2), np.ones((64, 64), np.float32))
