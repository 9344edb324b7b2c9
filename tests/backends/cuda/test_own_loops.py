"""Batched loops as one kernel of a GPU: their text, run on the host and read by the assembler, and
how often they are launched."""

import re
import subprocess

import numpy as np
import pytest

import weft
from tests.backends.cuda.host_device import install, install_client
from tests.backends.cuda.test_columns import run_text
from tests.backends.cuda.test_program import compiled
from tests.backends.cuda.test_routines import assembler_path
from tests.compiler.test_own_loops import (
    CASES,
    MOVES,
    SHARED,
    check,
    floats,
    generated,
    launches,
    lengths,
    newton,
    planned,
    until,
    vectors,
)
from weft.backends.cuda import commands, loops, ptx
from weft.backends.cuda.passes.target import GpuTarget
from weft.backends.cuda.schedule import schedule
from weft.backends.cuda.text.render import render
from weft.backends.llvm.code import Effort
from weft.base import knobs
from weft.compiler.plan import Planner
from weft.kernel.program import For
from weft.kernel.run import run_kernel


def kernel_of(fun, *args):
    (kernel,) = launches(planned(weft.vmap(fun), *args))
    return kernel


def operands(kernel, n):
    """Memory of a kernel: rounds for its whole numbers, and floats."""
    found = []
    for b in kernel.buffers:
        if b.role == "out":
            found.append(np.zeros(b.size, b.dtype))
        elif b.dtype.kind in "iu":
            found.append(np.resize(n, b.size).astype(b.dtype))
        else:
            found.append(floats(b.size).astype(b.dtype))
    return found


def check_text(kernel, n):
    """The text of a kernel gives what its reference does."""
    (part,) = schedule(kernel).parts
    got = operands(kernel, n)
    want = [x.copy() for x in got]
    run_text(part, got)
    run_kernel(kernel, want)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), 2e-5, 2e-5)


def assembled(module, folder):
    """The registers of a kernel, which has nothing on a stack."""
    path = assembler_path()
    if path is None:
        pytest.skip("no ptxas on this machine")
    source = folder / "a.ptx"
    source.write_text(ptx.assemble(module, 90))
    command = [path, "-arch=sm_90a", "-v", str(source), "-o", str(folder / "a.cubin")]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    told = said.stdout + said.stderr
    assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in told
    return int(re.search(r"Used (\d+) registers", told)[1])


@pytest.mark.parametrize("name", CASES)
def test_text_on_the_host(name):
    fun, shape = CASES[name]
    n = lengths(70)
    check_text(kernel_of(fun, n, floats(70, *shape)), n)


@pytest.mark.parametrize("seed", range(0, 60, 12))
def test_generated_text_on_the_host(seed):
    fun, count = generated(seed)
    n = lengths(70, seed=seed)
    check_text(kernel_of(fun, n, *[floats(70)] * count), n)


@pytest.mark.parametrize("name", SHARED)
def test_text_of_warps_on_the_host(name):
    for size, length in ((3, 33), (2, 64)):
        n = lengths(size) % 7 + 1
        check_text(kernel_of(SHARED[name], n, floats(size, length)), n)


@pytest.mark.parametrize("name", MOVES)
def test_text_of_moves_on_the_host(name):
    n = lengths(3) % 5 + 1
    check_text(kernel_of(until(lambda x: (MOVES[name](x),)), n, floats(3, 50)), n)


@pytest.mark.parametrize("name", [*CASES, *SHARED, *range(0, 60, 6)])
def test_assembler(name, tmp_path):
    """What goes round is in registers."""
    if name in SHARED:
        fun, shapes = SHARED[name], [(150,)]
    else:
        fun, shape = CASES[name] if name in CASES else generated(name)
        shapes = [shape] if isinstance(shape, tuple) else [()] * shape
    (part,) = schedule(kernel_of(fun, lengths(70), *[floats(70, *s) for s in shapes])).parts
    assert assembled(render(part), tmp_path) <= 128


def test_long_bodies_are_compiled_with_care():
    """How often a loop goes round isn't known: it is worth the time that optimisation takes."""
    (part,) = schedule(kernel_of(CASES["walk"][0], lengths(70), floats(70))).parts
    assert len(str(render(part))) > ptx.QUICK_TEXT
    assert render(part).effort is Effort.OPTIMISE


def test_a_loop_is_one_launch(monkeypatch):
    install(monkeypatch)
    n, x = lengths(50), floats(50, 5)
    run = compiled(weft.vmap(vectors), n, x)
    (launched,) = commands.leaves(run.commands)
    assert type(launched) is commands.Launched and launched.blocks == 1
    got = run([n, x])
    np.testing.assert_allclose(got[0], weft.jit(weft.vmap(vectors))(n, x)[0], 2e-5, 2e-5)


def test_other_sizes_have_kernels_of_their_own(monkeypatch):
    """Code for any size would run all elements until the last of them is done."""
    gpu = install_client(monkeypatch)
    run = weft.jit(weft.vmap(newton))
    for size in (12, 20, 28, 36):
        n, x = lengths(size), floats(size)
        got = run(*weft.device_put((n, x), gpu))
        np.testing.assert_allclose(got, weft.jit(weft.vmap(newton))(n, x), rtol=1e-6)
        text = run.lower(*weft.device_put((n, x), gpu)).compile().as_text()
        assert "loop_of_elements" in text and "repeat" not in text


def test_loops_inside_of_others(monkeypatch):
    """A batched loop in the rounds of a loop over all."""
    install(monkeypatch)

    def fun(n, x):
        return weft.lax.fori_loop(0, 3, lambda i, x: weft.vmap(newton)(n, x)[::-1] + 1, x)

    n, x = lengths(20), floats(20)
    run = compiled(fun, n, x)
    monkeypatch.setattr(commands.LoopKernel, "capturable", False)
    np.testing.assert_allclose(run([n, x])[0], weft.jit(fun)(n, x), rtol=1e-5)


def test_warps_that_share_rows_stay_out_of_loops_in_one_kernel():
    """There the threads of a warp may have iterations that aren't neighbours."""
    fun = lambda n, x: weft.lax.fori_loop(0, 3, lambda i, x: weft.vmap(vectors)(n, x)[0] + 1, x)
    for length, joined in ((5, True), (64, False)):
        n, x = lengths(20), floats(20, length)
        program = Planner(GpuTarget()).program(weft.make_jaxpr(fun)(n, x))
        (node,) = [x for x in program.nodes if isinstance(x, For)]
        collector = loops.Collector(lambda size: 1000, lambda a, b: a == b, 132)
        if joined:
            assert collector.region([node])
        else:
            with pytest.raises(loops.Unfit, match="share a row"):
                collector.region([node])


REFILLED = [name for name in CASES if name not in ("matrices", "sorting", "spiral")]


@pytest.mark.parametrize("name", REFILLED)
def test_threads_that_are_done_take_the_next_elements(name):
    """The same bits as of a thread for each element; the last warps have fewer."""
    fun, shape = CASES[name]
    for size in (300, 45):
        n = lengths(size)
        kernel = kernel_of(fun, n, *[floats(size, *shape)])
        (alone,) = schedule(kernel).parts
        with knobs.scope(gpu_refill=1):
            (part,) = schedule(kernel).parts
        assert part.each == 2 and part.blocks < alone.blocks + (size < 64)
        got, want = operands(kernel, n), operands(kernel, n)
        run_text(part, got)
        run_text(alone, want)
        for a, b in zip(got, want, strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", [*REFILLED, *range(0, 60, 10)])
def test_assembler_of_refilled_loops(name, tmp_path):
    fun, shape = CASES[name] if name in CASES else generated(name)
    shapes = [shape] if isinstance(shape, tuple) else [()] * shape
    kernel = kernel_of(fun, lengths(70), *[floats(70, *s) for s in shapes])
    with knobs.scope(gpu_refill=1):
        (part,) = schedule(kernel).parts
    assert assembled(render(part), tmp_path) <= 128


def test_all_elements_of_a_large_batch():
    check(newton, lengths(20000), floats(20000), alone=(0, 12345))
