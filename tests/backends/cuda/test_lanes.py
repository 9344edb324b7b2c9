"""Commands that may run side by side: in lanes, after all that they must come after."""

import numpy as np
import pytest

import weft
from tests.backends.cuda import host_device
from weft import numpy as jnp
from weft.backends.cuda import driver, lanes
from weft.backends.cuda.program import Cuda, get, put


def conflicts(a, b):
    """Whether two commands must be in order."""
    if a is None or b is None:
        return True
    overlap = lambda xs, ys: any(
        x[0] == y[0] and x[1] < y[2] and y[1] < x[2] for x in xs for y in ys
    )
    return overlap(a[1], b[0] + b[1]) or overlap(a[0], b[1])


@pytest.mark.parametrize("seed", range(30))
def test_conflicting_commands_are_in_order(seed):
    rng = np.random.default_rng(seed)

    def ranges():
        found = []
        for _ in range(rng.integers(0, 3)):
            low = int(rng.integers(0, 12))
            found.append((str(rng.choice(["a", "b", "arena"])), low, low + int(rng.integers(1, 5))))
        return found

    touched = [None if rng.random() < 0.05 else (ranges(), ranges()) for _ in range(60)]
    steps = lanes.arrange(touched)
    before = []  # all that a step comes after, by lanes and waiting
    for i, step in enumerate(steps):
        known = set()
        earlier = [j for j in range(i) if steps[j].lane == step.lane][-1:]
        for other in (*step.after, *earlier):
            known |= {other} | before[other]
        before.append(known)
        for j in range(i):
            assert j in known or not conflicts(touched[j], touched[i]), (j, i)
    assert len({step.lane for step in steps}) == lanes.LANES


def branches(x):
    left, right, third = x, x, x
    for _ in range(3):
        left = left @ x * 0.1
        right = (right - right.max(1, keepdims=True)) * 0.9
        third = third.T - third.mean(0)
    return left @ right, third.sum(), jnp.cumsum((left * third).mean(0))


def test_a_program_with_independent_parts_has_lanes(monkeypatch):
    host_device.install_client(monkeypatch)
    x = np.ones((8, 16), np.float32)
    fun = lambda x: (x.sum(0) * 2, x.max(1) + 1, (x * x).sum(), x.min(0) - x.sum(0))
    run = Cuda().compile(weft.make_jaxpr(fun)(x))
    assert run.lanes is None or len({step.lane for step in run.lanes}) > 1
    many = lambda x: [jnp.cumsum(x.sum(i % 2) * i).sum() for i in range(6)]
    run = Cuda().compile(weft.make_jaxpr(many)(x))
    touched = [lanes.touched(run, command) for command in run.commands]
    assert any(t is not None and t[0] for t in touched)


def test_what_is_computed_in_place_is_written(monkeypatch):
    host_device.install_client(monkeypatch)
    fun = lambda x: jnp.cumsum(jnp.cumsum(x) * 2)
    run = Cuda().compile(weft.make_jaxpr(fun)(np.ones(64, np.float32)))
    within = [c for c in run.commands if type(c).__name__ == "Launched"]
    within = [c for c in within if len(set(c.spots)) < len(c.spots)]
    assert within
    for command in within:
        reads, writes = lanes.touched(run, command)
        assert len(writes) == 1 and not reads


@pytest.mark.skipif(driver.count() == 0, reason="no NVIDIA GPU on this machine")
def test_lanes_on_a_gpu():
    x = np.random.default_rng(0).normal(size=(96, 96)).astype(np.float32)
    closed = weft.make_jaxpr(branches)(x)
    run = Cuda().compile(closed)
    assert run.lanes is not None
    want = weft.tree.leaves(weft.jit(branches)(x))
    given = [put(x)]
    for _ in range(20):
        results = run.run_on_device(given)
        for buffer, aval, b in zip(results, closed.out_avals, want, strict=True):
            np.testing.assert_allclose(get(buffer, aval), b, rtol=2e-4, atol=1e-4)
    assert any(graph is not None for graph in run.graphs.values())
