"""Stencils that follow each other: what is written between them is decided beforehand."""

import numpy as np
import pytest

import weft
from weft import lax
from weft import numpy as jnp
from weft.backends.cuda.passes.target import GpuTarget
from weft.compiler.fuse import Fusion, _connected
from weft.compiler.plan import Planner
from weft.kernel.program import Launch


def f32(*shape):
    return weft.ShapeDtypeStruct(shape, np.float32)


def steps_of(fun, *args):
    """How often kernels are planned, and the nodes of a program for a GPU."""
    rounds = []
    plan = Fusion._steps

    def counted(self):
        rounds.append(self)
        return plan(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fusion, "_steps", counted)
        closed = weft.jit(fun).trace(*args).jaxpr
        nodes = Planner(GpuTarget()).program(closed).nodes
    assert all(isinstance(node, Launch) for node in nodes)
    return len(rounds), nodes


def rolled(x):
    near = sum(jnp.roll(x, s, a) for a in range(x.ndim) for s in (1, -1))
    return x + 0.1 * (near - 2 * x.ndim * x)


def sliced(x):
    inner = x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]
    return jnp.pad(0.25 * inner + 0.1 * x[1:-1, 1:-1], 1)


def diagonal(x):
    around = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b]
    return 0.1 * sum(jnp.roll(x, at, (0, 1)) for at in around) - x


def repeated(step, times):
    def run(x):
        for _ in range(times):
            x = step(x)
        return x

    return run


@pytest.mark.parametrize("step", [rolled, sliced, diagonal])
@pytest.mark.parametrize("shape", [(300, 400), (509, 257)])
def test_each_step_is_one_kernel(step, shape):
    """Twenty steps of a heat equation once were 31 kernels, planned three times."""
    rounds, nodes = steps_of(repeated(step, 6), f32(*shape))
    assert len(nodes) == 6 and rounds <= 2


def test_a_volume():
    _, nodes = steps_of(repeated(rolled, 4), f32(40, 50, 60))
    assert len(nodes) == 4


def test_states_of_two_arrays():
    """A velocity that every later step would compute again from all that came before it."""

    def step(state, _):
        x, v = state
        y = jnp.pad(x, 1, mode="edge")
        near = y[2:, 1:-1] + y[:-2, 1:-1] + y[1:-1, 2:] + y[1:-1, :-2] - 4 * x
        v = v + 0.1 * near
        return (x + 0.1 * v, v), None

    run = lambda x, v: lax.scan(step, (x, v), None, length=10)[0]
    rounds, nodes = steps_of(run, f32(1000, 2000), f32(1000, 2000))
    assert len(nodes) <= 15 and rounds <= 2
    assert max(len(node.slots) for node in nodes) <= 5  # arrays of a kernel


def test_an_operand_of_one_stencil_is_computed_where_it_is_read():
    """What is written once and read once would take more memory than to read its two operands."""
    _, nodes = steps_of(lambda x, y: rolled(x * y), f32(100_000), f32(100_000))
    assert len(nodes) == 1


def test_every_other_element_is_no_place_of_its_own():
    """Levels of a wavelet take each element once: what they read is not written for them."""

    def levels(x):
        parts = []
        for _ in range(4):
            even, odd = x[:, ::2], x[:, 1::2]
            parts.append((even - odd) * 0.7)
            x = (even + odd) * 0.7
        return jnp.concatenate([x, *parts], 1)

    _, nodes = steps_of(levels, f32(500, 4096))
    assert len(nodes) == 1
    _, nodes = steps_of(weft.grad(lambda x: (levels(x) ** 2).sum()), f32(500, 4096))
    assert len(nodes) == 5


@pytest.mark.parametrize("step", [rolled, sliced])
def test_results_are_those_of_the_steps(step):
    x = np.random.default_rng(0).normal(size=(12, 20)).astype(np.float32)
    run = repeated(step, 3)
    found = weft.jit(run)(x)
    for _ in range(3):
        x = np.asarray(weft.jit(step)(x))
    np.testing.assert_allclose(found, x, rtol=1e-5, atol=1e-5)


def _slowly(roots, masks):
    joined = []
    for out, mask in zip(roots, masks, strict=True):
        members, apart = [out], []
        for other, found in joined:
            if other & mask:
                mask, members = mask | other, found + members
            else:
                apart.append((other, found))
        joined = [*apart, (mask, members)]
    return joined


@pytest.mark.parametrize("seed", range(20))
def test_roots_are_joined_by_what_they_read(seed):
    """Groups in the order of their last members; 1,000 leaves once took seconds."""
    rng = np.random.default_rng(seed)
    masks = [sum(1 << int(b) for b in rng.integers(0, 30, rng.integers(0, 4))) for _ in range(25)]
    assert _connected(range(25), masks) == _slowly(range(25), masks)
