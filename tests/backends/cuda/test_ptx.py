"""Kernels of every sample for a GPU: LLVM makes PTX of them, on any machine."""

import re

import numpy as np
import pytest

import weft
from tests.laws.checks import seed_of
from tests.samples import WIDE, all_samples
from weft import numpy as jnp
from weft.backends.cuda import client, driver, ptx
from weft.backends.cuda.schedule import schedule
from weft.backends.cuda.text.render import render
from weft.backends.reference.program import Reference
from weft.compiler.plan import Planner, Unplannable
from weft.kernel.build import Builder
from weft.kernel.kernel import Atomic, Buffer, Kernel, Loop, affine
from weft.kernel.nodes import F32, I32
from weft.kernel.program import Launch, inner_regions
from weft.kernel.run import run_kernel

SAMPLES = [s for s in all_samples() if s.axis is None]
# Elements of all buffers of a kernel up to which NumPy runs it.
MOST_ELEMENTS = 1 << 14


def kernels(nodes):
    for node in nodes:
        if isinstance(node, Launch):
            yield node.kernel
        for region in inner_regions(node):
            yield from kernels(region)


def kernels_of(fun, *args):
    closed = weft.make_jaxpr(fun)(*args)
    return list(kernels(Planner(Reference()).program(closed).nodes))


def check_schedule(kernel):
    """What is scheduled for a GPU, run by NumPy, gives what the kernel gives."""
    rng = np.random.default_rng(0)
    outside = [b for b in kernel.buffers if b.role != "row"]
    if sum(b.size for b in outside) > MOST_ELEMENTS:
        return
    whole = [rng.integers(0, 2, b.size).astype(b.dtype) for b in outside]
    parts, scratch = schedule(kernel)
    pieces = [b.copy() for b in whole] + [np.zeros(b.size, b.dtype) for b in scratch]
    with np.errstate(all="ignore"):
        run_kernel(kernel, whole)
        for part in parts:
            run_kernel(part.kernel, [pieces[i] for i in part.buffers])
    for b, x, y in zip(outside, whole, pieces, strict=False):
        if b.role == "out":
            wide = np.float32 if b.dtype.name == "bfloat16" else b.dtype
            np.testing.assert_allclose(x.astype(wide), y.astype(wide), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("prim", sorted({s.prim for s in SAMPLES}))
def test_kernels_are_rendered(prim):
    texts = set()
    for sample in (s for s in SAMPLES if s.prim == prim):
        dtype = sample.dtypes[0]
        args = sample.operands(dtype, seed_of(sample))
        with weft.enable_x64(dtype in WIDE):
            try:
                found = kernels_of(sample.function(dtype), *args)
            except Unplannable:
                continue
        for kernel in found:
            check_schedule(kernel)
            texts.update(render(part) for part in schedule(kernel).parts)
    for text in texts:
        assert all(
            ", align" in line for line in str(text).splitlines() if "addrspace(3) global" in line
        )
    for text in sorted(texts, key=lambda text: len(str(text)))[:1]:
        assert ".visible .entry kernel" in ptx.assemble(text)


def test_shared_memory_after_an_odd_row_is_aligned():
    with weft.enable_x64(True):
        (kernel,) = kernels_of(weft.nn.softmax, jnp.ones((3, 4_099)))
        (made,) = schedule(kernel).parts
        text = ptx.assemble(render(made))
    declared = re.findall(r"\.shared \.align (\d+)", text)
    assert len(declared) >= 2 and all(int(n) >= 16 for n in declared)


x = jnp.ones((64, 1000))


@pytest.mark.parametrize(
    "fun, wide, shares",
    [
        (lambda x: jnp.tanh(x) * 2 + 1, x, False),
        (lambda x: x.reshape(8, 8, 1000) + 1, x, False),
        (weft.nn.softmax, x, True),
        (lambda x: x.sum(1), x, True),
        (lambda x: x.sum(0), jnp.ones((100, 5000)), False),
        (lambda x: x.T.sum(1), jnp.ones((100, 5000)), False),
    ],
    ids="elementwise transpose softmax rows columns turned".split(),
)
def test_a_block_shares_rows_and_threads_have_elements(fun, wide, shares):
    (kernel,) = kernels_of(fun, wide)
    (made,) = schedule(kernel).parts
    assert made.shares == shares
    assert made.threads % 32 == 0 and made.blocks * made.threads >= 32
    text = ptx.assemble(render(made))
    assert ("shfl.sync" in text) == shares


@pytest.mark.parametrize(
    "fun, shape",
    [
        (lambda x: x.sum(), (300_001,)),
        (lambda x: (x.max(), (x * x).sum()), (301, 1000)),
        (lambda x: x.sum(0), (1000, 5000)),
        (lambda x: jnp.exp(x).sum(1) * 2, (7, 60_000)),
        (lambda x: jnp.any(x > 3, axis=0), (999, 4100)),
    ],
    ids="all two columns rows any".split(),
)
def test_long_reductions_are_split(fun, shape):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    for kernel in kernels_of(fun, x):
        parts, scratch = schedule(kernel)
        if not any(isinstance(s, Loop) for s in kernel.body):
            continue
        assert (
            len(parts) == 2 and scratch and all(".entry" in ptx.assemble(render(p)) for p in parts)
        )
        outside = [b for b in kernel.buffers if b.role != "row"]
        whole = [x.reshape(-1) if b.role == "in" else np.zeros(b.size, b.dtype) for b in outside]
        pieces = [b.copy() for b in whole] + [np.zeros(b.size, b.dtype) for b in scratch]
        run_kernel(kernel, whole)
        for part in parts:
            run_kernel(part.kernel, [pieces[i] for i in part.buffers])
        for a, b in zip(whole, pieces, strict=False):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("shape", [(3000, 1028), (6000, 2052)])
def test_columns_are_read_several_rows_at_a_time(shape):
    mean = jnp.ones((shape[0], 1))
    (kernel,) = kernels_of(lambda x, m: ((x - m) * x).sum(0), jnp.ones(shape), mean)
    first, _ = schedule(kernel).parts
    assert first.rows == 4 and not first.shares
    assert first.vector == 4 and ptx.assemble(render(first)).count("v4.b32") >= 4


def test_kernels_say_how_many_threads_they_have():
    (kernel,) = kernels_of(weft.nn.softmax, jnp.ones((64, 16384)))
    (made,) = schedule(kernel).parts
    assert f".maxntid {made.threads}" in ptx.assemble(render(made))


@pytest.mark.skipif(driver.count() > 0, reason="this machine has a GPU")
def test_a_missing_driver_is_one_clear_line():
    with pytest.raises(driver.DriverError) as error:
        client.clients()
    assert "driver" in str(error.value)


def test_transposes_go_through_shared_memory():
    (kernel,) = kernels_of(lambda x: x.T + 1, x)
    (made,) = schedule(kernel).parts
    assert made.tile is not None and made.blocks == 2 * 32
    text = ptx.assemble(render(made))
    assert "st.shared" in text and "ld.shared" in text
    (made,) = schedule(kernel, distinct=False).parts  # in place there is nothing to transpose
    assert made.tile is None


def test_rows_that_a_thread_reads_back_stay_in_registers():
    (kernel,) = kernels_of(weft.nn.softmax, jnp.ones((256, 4096)))
    (made,) = schedule(kernel).parts
    text = ptx.assemble(render(made))
    assert made.trips == 4 and "row" not in text and "ld.local" not in text


def test_joined_arrays_are_a_kernel_each():
    (kernel,) = kernels_of(lambda *xs: jnp.concatenate(xs, -1), *[jnp.ones((8, 64, 32))] * 3)
    parts = schedule(kernel).parts
    assert len(parts) == 3 and not any(p.shares for p in parts)
    check_schedule(kernel)
    assert len(schedule(kernel, distinct=False).parts) == 1


def test_rare_values_of_a_sine_are_behind_branches():
    (sine,) = kernels_of(jnp.sin, jnp.ones(4096))
    text = ptx.assemble(render(schedule(sine).parts[0]))
    assert text.count("bra") > 4 and "cvt.rn.f32.f64" in text


@pytest.mark.parametrize("name", "mul add max neg abs lt rem copysign where".split())
def test_float16_is_only_converted(name):
    """PTX's own arithmetic of float16 flushes denormal numbers."""
    fun = (
        {
            "mul": lambda x, y: x * y,
            "add": lambda x, y: x + y,
            "neg": lambda x, y: -x,
            "abs": lambda x, y: abs(x),
            "lt": lambda x, y: x < y,
            "where": lambda x, y: jnp.where(x < y, -y, abs(x)),
        }.get(name)
        or getattr(weft.lax, name, None)
        or getattr(jnp, name)
    )
    x = jnp.ones(4096, jnp.float16)
    (kernel,) = kernels_of(fun, x, x)
    text = ptx.assemble(render(schedule(kernel).parts[0]))
    words = set(re.findall(r"^\t(?:@\S+ )?(\S*\.f16\S*)", text, re.M))
    assert words and words <= {"cvt.f32.f16", "cvt.rn.f16.f32"}


def test_stencils_have_a_kernel_for_the_inside_and_each_edge():
    fun = lambda x: jnp.roll(x, 1, 0) + jnp.roll(x, -1, 1)
    (kernel,) = kernels_of(fun, jnp.ones((100, 100)))
    parts = schedule(kernel).parts
    assert len(parts) == 4 and all(p.apart for p in parts)
    assert max(p.iterations for p in parts) > 9000
    check_schedule(kernel)


@pytest.mark.parametrize("op", ["add", "mul", "min", "max"])
@pytest.mark.parametrize("dtype", [F32, I32], ids=str)
def test_elements_that_threads_share_are_combined_by_the_memory(op, dtype):
    k, at = Builder(), affine(0, {"i": 1})
    atomic = Atomic(1, affine(0, {}), op, k.load(0, dtype, at))
    buffers = [Buffer(dtype, 50, "in"), Buffer(dtype, 1, "out")]
    (part,) = schedule(Kernel("meet", buffers, ("i", 50), [atomic], serial=True)).parts
    assert re.search(r"\b(atom|red)\.", ptx.assemble(render(part)))
