"""Rolls, pads and joined arrays on GPUs: index arithmetic inside of what reads them, one launch."""

import numpy as np
import pytest

import weft
from tests.backends.cuda.host_device import install
from tests.backends.cuda.test_columns import run_text
from tests.backends.cuda.test_join import compiled, draws, launches
from weft import numpy as jnp
from weft.backends.cuda import groups, loops, program
from weft.backends.cuda.loops import Grid
from weft.backends.cuda.schedule import Schedule, schedule
from weft.backends.cuda.text import join
from weft.backends.cuda.text.loops import Writer
from weft.compiler.plan import Planner
from weft.kernel.kernel import Loop


def kernels_of(fun, *args):
    """The kernels of a function as a GPU has them."""
    return [n.kernel for n in Planner(program.Cuda()).program(weft.make_jaxpr(fun)(*args)).nodes]


def heat(x):
    near = sum(jnp.roll(x, s, a) for a in range(x.ndim) for s in (1, -1))
    return x + 0.1 * (near - 2 * x.ndim * x)


def life(x):
    around = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b]
    near = sum(jnp.roll(x, at, (0, 1)) for at in around)
    return jnp.where((near > 3) | ((x > 1) & (near < 2)), x, near)


def wave(x, v):
    y = jnp.pad(x, 1, mode="edge")
    near = y[2:, 1:-1] + y[:-2, 1:-1] + y[1:-1, 2:] + y[1:-1, :-2] - 4 * x
    v = v + 0.1 * near
    return x + 0.1 * v, v


def joined(x, y):
    return jnp.tanh(jnp.concatenate([x, y * 2, x + y], 0))


def gradient(fun):
    return weft.grad(lambda x, *more: sum((y**2).sum() for y in weft.tree.leaves(fun(x, *more))))


# Functions, their operands, and the loops of the one kernel that each is.
CASES = {
    "three dimensions": (heat, [(12, 40, 60)], 7),
    "two dimensions": (heat, [(130, 150)], 9),
    "diagonals": (life, [(130, 150)], 9),
    "edges": (wave, [(130, 150), (130, 150)], 9),
    "joined": (joined, [(130, 150), (130, 150)], 3),
    "a roll": (lambda x: jnp.roll(x, 3) * 2, [(20_000,)], 2),
}


@pytest.mark.parametrize("name", CASES)
def test_one_launch(name, monkeypatch):
    """What was rolled, padded or joined is never in memory."""
    install(monkeypatch)
    fun, shapes, count = CASES[name]
    args = [draws(*shape, seed=i) for i, shape in enumerate(shapes)]
    (kernel,) = kernels_of(fun, *args)
    assert sum(isinstance(s, Loop) for s in kernel.body) == count
    run = compiled(fun, *args)
    (launch,) = launches(run)
    assert launch.threads == 256
    made = run(args)
    for a, b in zip(made, weft.tree.leaves(fun(*args)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["three dimensions", "diagonals", "edges"])
def test_gradients_have_few_launches(name, monkeypatch):
    install(monkeypatch)
    fun, shapes, _ = CASES[name]
    args = [draws(*shape, seed=i) for i, shape in enumerate(shapes)]
    run = compiled(gradient(fun), *args)
    assert len(launches(run)) <= 5
    np.testing.assert_allclose(run(args)[0], weft.jit(gradient(fun))(*args), rtol=1e-4, atol=1e-4)


def test_ranges_are_blocks_of_one_launch():
    """The text of a launch whose blocks have ranges of elements, run on the host."""
    x = draws(20, 30)
    (kernel,) = kernels_of(lambda x: jnp.roll(jnp.roll(x, 1, 0), 2, 1) * 3, x)
    parts = schedule(kernel).parts
    assert len(parts) == 4 and all(isinstance(p, Schedule) and p.apart for p in parts)
    pieces = [groups.accesses(p, (0, 1)).piece([0, 1]) for p in parts]
    made, out = groups.Joined(tuple(pieces), 0, True), np.zeros_like(x)
    run_text(made, [x, out], join.render(made))
    np.testing.assert_allclose(out, np.roll(np.roll(x, 1, 0), 2, 1) * 3)


def items(fun, *args):
    """The parts of a function's kernels, as those of a loop."""
    collector = loops.Collector(lambda size: 99, lambda a, b: a == b, 132)
    kernels = kernels_of(fun, *args)
    return [p for k in kernels for p in collector.kernel(k, tuple(range(len(args) + 1)))]


def test_ranges_of_a_loop_begin_where_the_one_before_ended():
    """Threads that have nothing of one range have the next, and none waits for another."""
    writer = Writer(Grid(4, 256), lambda a, b: a == b, 98, 1 << 16)
    parts = items(heat, draws(16, 16))
    for part in parts:
        writer.part(part)
    assert writer.barriers == 0 and len(parts) == 9
    counts = [p.schedule.iterations for p in parts]
    text = "\n".join(writer.lines)
    for i, part in enumerate(parts):
        if part.mode == "threads" and i:  # a single element is computed by every thread for itself
            assert f"add i64 %everywhere, {1024 - sum(counts[:i])}" in text


@pytest.mark.parametrize("side, fits", [(64, True), (256, True), (1024, False), (2048, False)])
def test_stencils_of_much_work_are_launches(side, fits):
    """A loop in one kernel has few threads: it pays where launches would take longer."""
    parts = items(heat, weft.ShapeDtypeStruct((side, side), np.float32))
    if fits:
        assert loops.choose(parts, 132)[0] == 132
    else:
        with pytest.raises(loops.Unfit, match="too much work"):
            loops.choose(parts, 132)
