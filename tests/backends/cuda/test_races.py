"""Kernels by their text on the host, with what each of their threads reads and writes looked at:
generated programs have no races, and give what the CPU does."""

import random

import numpy as np
import pytest

import weft
from tests.backends.cuda import mixtures, observed
from tests.backends.cuda.convergence import Kernel
from tests.backends.cuda.test_join import compiled
from tests.backends.cuda.test_runs import GRIDS
from weft import lax
from weft import numpy as jnp
from weft.backends.cuda import assemble, ptx
from weft.backends.cuda.text import runs
from weft.backends.cuda.text.loops import Writer
from weft.backends.cuda.text.threads import Threads
from weft.base import knobs

# How far results may be from those of the CPU, by the bytes of a number.
NEAR = {2: 4e-2, 4: 2e-3, 8: 1e-4, 16: 1e-6}


def draws(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def join_all(monkeypatch, grid):
    """Have whatever can be one launch be one, on these blocks."""
    monkeypatch.setattr(runs, "MIN_LAUNCHES", 2)
    monkeypatch.setattr(runs, "launch_of", lambda *given: 1 << 40)
    monkeypatch.setattr(runs, "blocks", lambda *given: [grid])
    monkeypatch.setattr(assemble, "choose", lambda *given: grid)


def check(fun, args, kind=None, donated=(), turns=1, want=None):
    """Run a program by its texts, and look at these; ``want`` gives the same on the CPU."""
    with pytest.MonkeyPatch.context() as patch:
        with knobs.scope(backend="native"):
            leaves = weft.tree.leaves(weft.jit(want or fun)(*args))
            wanted = [np.asarray(x) for x in leaves]
        modules = observed.install(patch)
        if kind is not None:
            join_all(patch, GRIDS[kind])
        run = compiled(fun, *args, donated=donated)
        for _ in range(turns):
            for a, b in zip(run([np.array(x) for x in args]), wanted, strict=True):
                same(np.asarray(a), b)
    for module in modules:
        assert not Kernel(ptx.assemble(module)).apart()


def same(a, b):
    assert a.shape == b.shape and a.dtype == b.dtype
    if a.dtype.kind in "iub":
        np.testing.assert_array_equal(a, b)
        return
    near = NEAR[a.dtype.itemsize // (2 if a.dtype.kind == "c" else 1)]
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    most = max(1, np.nanmax(abs(b), initial=0))
    np.testing.assert_allclose(a, b, rtol=near, atol=near * most)


@pytest.mark.parametrize("kind", [None, *GRIDS])
@pytest.mark.parametrize("seed", [3, 15, 22, 34])
def test_mixtures(seed, kind):
    fun, args = mixtures.mixture(seed, empty=seed % 11 == 5)
    r = random.Random(seed)
    with weft.enable_x64(True):
        check(fun, args, kind, [r.random() < 0.3 for _ in args], 2)


@pytest.mark.parametrize("seed", [1, 5, 9, 14, 20, 30])
def test_batched_loops(seed):
    """Elements have the results that they have one by one."""
    one, args = mixtures.batch(seed)
    alone = lambda *args: lax.map(lambda x: one(*x), args)
    with weft.enable_x64(True), knobs.scope(gpu_refill=seed % 5 == 0):
        check(weft.vmap(one), args, "block", want=alone)


SINGLE = {
    "written over": lambda x, i: lax.dynamic_update_slice(x, -x, (i,)),
    "read before": lambda x, i: (lax.dynamic_update_slice(x, -x, (i,)), x.sum()),
    "in a loop": lambda x, i: lax.fori_loop(
        0, 3, lambda j, c: (c[1] * 2 + i, lax.dynamic_update_slice(c[0], c[1], (j,))), (x, x + 1)
    ),
}


@pytest.mark.parametrize("kind", GRIDS)
@pytest.mark.parametrize("name", SINGLE)
def test_an_element_that_all_threads_write_is_not_written_again_at_once(name, kind):
    check(SINGLE[name], [draws(1), np.int32(0)], kind)


def test_missing_barriers_of_launches_are_races(monkeypatch):
    fun = lambda x: lax.associative_scan(lambda a, b: jnp.maximum(a * 0.5, b), x)
    for kind in GRIDS:
        check(fun, [draws(20, 3)], kind)
        with monkeypatch.context() as patch:
            patch.setattr(Writer, "conflicts", lambda *given: False)
            with pytest.raises(observed.Race):
                check(fun, [draws(20, 3)], kind)


def test_missing_barriers_of_blocks_are_races(monkeypatch):
    fun = lambda x: x / jnp.sum(x * x, 1, keepdims=True)
    check(fun, [draws(1, 700)])
    monkeypatch.setattr(Threads, "_barrier", lambda self: None)
    with pytest.raises(observed.Race):
        check(fun, [draws(1, 700)])
