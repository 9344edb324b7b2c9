"""Scatters whose kernels compute the updates."""

import random

import numpy as np
import pytest

import weft
from tests.backends.cuda import planned
from tests.backends.cuda.host_device import install
from tests.backends.cuda.test_columns import launch
from tests.backends.cuda.test_program import Target, compiled
from weft import numpy as jnp
from weft.backends.cuda import driver, ptx
from weft.backends.cuda.passes.target import GpuTarget
from weft.backends.cuda.routines import scatter
from weft.backends.cuda.schedule import schedule
from weft.backends.cuda.text.render import render
from weft.base import knobs
from weft.compiler.pipeline import fuse
from weft.kernel.run import run_kernel

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Few updates are computed by kernels that add them, too, on a GPU that adds four at a time."""
    monkeypatch.setattr(scatter, "MIN_FUSED", 1)
    monkeypatch.setattr(driver, "reduces_vectors", lambda: True)


def draws(*shape, dtype=np.float32):
    return RNG.integers(-9, 10, shape).astype(dtype)


def places(count, most, dtype=np.int32):
    return RNG.integers(-2, most + 2, count).astype(dtype)


def messages(x, w, a, b):
    return weft.ops.segment_sum(x[a] * w[:, None], b, len(x))


def added(x, w, a, b):
    return x.at[b].add(jnp.sin(x)[a] * 2)


def gradient(x, w, a, b):
    loss = lambda x, w: jnp.sum(messages(jnp.cos(x), w, a, b) ** 2)
    return weft.grad(loss, (0, 1))(x, w)


def doubled(x, w, a, b):
    y = x[a] * w[:, None]
    return weft.ops.segment_sum(y, b, len(x)), weft.ops.segment_sum(y, a, len(x)), jnp.exp(y)


def of_rows(x, w, a, b):
    y = weft.nn.softmax(x, -1)
    return weft.ops.segment_sum(y[a], b, len(x))


def clipped(x, w, a, b):
    return x.at[b].add(w[:, None] * 2, mode="clip")


def windows(x, w, a, b):
    return jnp.zeros((9, 5, x.shape[1])).at[b, a % 5].add(x[a] - 1)


def several(x, w, a, b):
    return jnp.zeros((20, 3, 4)).at[b].add(w[:, None, None] * jnp.ones((3, 4)))


PROGRAMS = [messages, added, gradient, doubled, of_rows, clipped, windows, several]


def arguments(width, dtype=np.float32, index=np.int32):
    return [draws(11, width, dtype=dtype), draws(40, dtype=dtype), places(40, 11, index) % 11,
            places(40, 11, index)]  # fmt: skip


def combining(function, *args):
    """The kernels of a program that add updates, and what is left to routines."""
    target = GpuTarget()
    closed = target.simplify(weft.make_jaxpr(function)(*args))
    steps = fuse(closed.jaxpr, target=target)[1]
    rest = [s.eqn.primitive.name for s in steps if s.eqn is not None]
    return [s.kernel for s in steps if s.kernel is not None and s.kernel.serial], rest


@pytest.mark.parametrize("width", [8, 6])
@pytest.mark.parametrize("program", PROGRAMS)
def test_results(program, width, monkeypatch):
    install(monkeypatch)
    args = arguments(width)
    kernels, rest = combining(program, *args)
    assert kernels and "scatter-add" not in rest
    want = weft.tree.leaves(weft.jit(program)(*args))
    for a, b in zip(compiled(program, *args)(args), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-3)


def in_place(x, w, a, b):
    return x.at[b].add(w[:, None] * jnp.ones((1, x.shape[1])))


def twice(x, w, a, b):
    y = x.at[b].add(x[a] * w[:, None])
    return y.at[a].add(jnp.sin(x)[b]), jnp.sum(x)


@pytest.mark.parametrize(("program", "launches"), [(in_place, 1), (added, 2), (twice, 4)])
def test_donated_arguments(program, launches, monkeypatch):
    """Rows are added in the memory of an argument if nothing reads it any more."""
    install(monkeypatch)
    args = arguments(8)
    want = weft.tree.leaves(weft.jit(program)(*args))
    run = Target().compile(weft.make_jaxpr(program)(*args), [True, False, False, False])
    run.capturable = False
    for a, b in zip(run(args), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    assert len(run.commands) == launches


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "float64"])
@pytest.mark.parametrize("index", ["int32", "int8", "uint32", "int64"])
def test_types(dtype, index, monkeypatch):
    install(monkeypatch)
    with weft.enable_x64():
        args = arguments(8, dtype, index)
        assert combining(messages, *args)[0]
        want = weft.jit(messages)(*args)
        (found,) = compiled(messages, *args)(args)
    np.testing.assert_allclose(found, want, rtol=1e-6)


def generated(seed):
    """Updates computed of arrays at indices, added to an array of some dimensions."""
    r = random.Random(seed)
    sizes = [r.choice([2, 3, 5]) for _ in range(r.randint(1, 2))]
    width, rows = r.choice([4, 5, 8, 12]), r.choice([3, 17])
    at = [places(rows, n) for n in sizes]
    x, w = draws(*sizes, width), draws(rows, width)
    source = RNG.integers(0, rows, rows).astype("i")

    def program(x, w, source, *at):
        y = r.choice([lambda: w[source], lambda: w * 2, lambda: w[source] * w, lambda: -w])()
        base = x if r.random() < 0.5 else jnp.zeros_like(x)
        out = base.at[tuple(at)].add(y + r.choice([0, 1]))
        return out * 2 if r.random() < 0.5 else out

    return program, [x, w, source, *at], r


def test_generated(monkeypatch):
    install(monkeypatch)
    count = 0
    for seed in range(60):
        program, args, r = generated(seed)
        state = r.getstate()
        want = weft.jit(program)(*args)
        r.setstate(state)
        count += len(combining(program, *args)[0])
        r.setstate(state)
        (found,) = compiled(program, *args)(args)
        np.testing.assert_allclose(found, want, rtol=1e-5, err_msg=str(seed))
    assert count > 30


@pytest.mark.parametrize("width", [8, 6])
@pytest.mark.parametrize("program", [messages, windows])
def test_texts(program, width):
    """The code of a kernel does what the kernel says, with four neighbours at a time."""
    ((kernel,), _) = combining(program, *arguments(width))
    (part,) = schedule(kernel).parts
    arrays = []
    for b in kernel.buffers:
        integers = b.dtype.kind == "i"
        arrays.append(places(b.size, 5, b.dtype) if integers else draws(b.size, dtype=b.dtype))
    expected = [x.copy() for x in arrays]
    run_kernel(kernel, expected)
    launch(part, arrays)
    for a, b in zip(arrays, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    made = ptx.assemble(render(part))
    assert ("red.global.add.v4.f32" in made) == (width == 8) == (".version 8.1" in made)
    assert width == 8 or made.count("global.add.f32") == 1


def test_what_stays_a_routine():
    args = arguments(8)
    sums = lambda x, w, a, b: weft.ops.segment_sum(w * 2, b, 11)  # of single numbers
    narrow = lambda x, w, a, b: weft.ops.segment_sum(x[a].astype("bfloat16"), b, 11)
    given = lambda x, w, a, b: weft.ops.segment_sum(jnp.concatenate([x] * 4)[:40], b, 11)
    for program in (sums, narrow):
        assert combining(program, *args)[1] == ["scatter-add"]
    assert combining(lambda x, b: weft.ops.segment_sum(x, b, 11), draws(40, 8), args[3])[0] == []
    assert combining(given, *args)[1] in ([], ["scatter-add"])
    with knobs.scope(deterministic_ops=True):
        assert combining(messages, *args)[1] == ["scatter-add"]


def test_updates_are_not_stored(monkeypatch):
    monkeypatch.undo()
    planned.install(monkeypatch)
    nodes, edges, width = 30_000, 180_000, 64
    args = [draws(nodes, width), draws(edges), places(edges, nodes), places(edges, nodes)]
    made = planned.planned(messages, *args)
    assert len(made.commands) == 2 and not made.arena  # zeros, and what is added to them
