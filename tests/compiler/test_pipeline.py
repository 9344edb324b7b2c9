"""The list of passes: run in order, verified, noted, and free of charge when nobody asks."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.runtime import ways
from weft.base import errors, knobs
from weft.compiler import pipeline
from weft.compiler.analysis.cost import kernel_bytes
from weft.compiler.pipeline import PIPELINE, Pass, fuse, schedule, simplify
from weft.compiler.watch import Watch
from weft.kernel.kernel import show


def traced(fun, *args):
    return weft.make_jaxpr(fun)(*args)


X = np.arange(12, dtype=np.float32).reshape(3, 4)


def twice(x):
    return weft.jit(jnp.sin)(x) + weft.jit(jnp.sin)(x)


def test_one_list_says_all():
    kinds = [p.on for p in PIPELINE]
    order = ["program", "region", "fusion", "steps", "loop", "nodes", "kernel"]
    assert kinds == sorted(kinds, key=order.index)
    assert kinds.count("fusion") == 1


def test_passes_run_in_the_order_of_the_list():
    watch = Watch(traced(twice, X))
    _, steps = fuse(simplify(watch.closed, watch).jaxpr, watch)
    for step in steps:
        schedule(step.kernel, watch)
    left_out = (
        "fix_order decode attention straighten pack special unroll refine nearer"
        " put_off own_loops interchange overlap orient"
    ).split()
    expected = [p.name for p in PIPELINE if p.name not in left_out]
    assert [p.name for p in watch.passes] == expected
    assert set(watch.seconds) == {"simplify", "fuse", "schedule"}
    assert all(p.seconds >= 0 for p in watch.passes)


def test_a_stage_within_another_is_counted_once(monkeypatch):
    clock = iter([0.0, 1.0, 4.0, 6.0, 6.0, 10.0])
    monkeypatch.setattr("weft.compiler.watch.perf_counter", lambda: next(clock))
    watch = Watch(traced(twice, X))
    plan = watch.mark()
    fusing = watch.mark()
    watch.spent("render", (3.0, 0.0))  # from 3 to 4, while kernels are fused
    watch.passed("pack", "steps", None, fusing)
    watch.spent("plan", plan)
    assert watch.passes[0].seconds == 5.0
    assert watch.seconds == {"render": 1.0, "fuse": 4.0, "plan": 5.0}


def test_watching_changes_nothing():
    closed = traced(twice, X)
    plain = simplify(closed)
    watched = simplify(closed, Watch(closed))
    assert plain is simplify(closed) and plain is not watched
    assert str(plain) == str(watched)
    assert [eqn.primitive.name for eqn in plain.eqns] == ["sin", "add"]


def broken(closed, target):
    """A pass that forgets the equations that everything hangs on."""
    return type(closed)(closed.jaxpr.replace(eqns=closed.eqns[1:]), closed.consts)


def test_verify_names_the_pass(monkeypatch):
    bad = Pass("forget", "program", broken)
    monkeypatch.setattr(pipeline, "_PROGRAM", [*pipeline._PROGRAM, bad])
    closed = traced(lambda x: jnp.sin(x) + 1, X)
    simplify(closed)
    closed = traced(lambda x: jnp.sin(x) + 1, X)
    with knobs.verify(1), pytest.raises(errors.JaxprTypeError) as raised:
        simplify(closed)
    assert raised.value.__notes__ == ["after the pass 'forget'"]


def test_verify_looks_at_kernels_too(monkeypatch):
    def spoil(parts, small):
        (part,) = parts.parts
        kernel = part.kernel._replace(grid=(part.kernel.grid[0], part.kernel.grid[1] + 1))
        return parts._replace(parts=[part._replace(kernel=kernel)])

    monkeypatch.setattr(pipeline, "_KERNEL", [*pipeline._KERNEL, Pass("spoil", "kernel", spoil)])
    (step,) = fuse(simplify(traced(jnp.sin, X)).jaxpr)[1]
    with knobs.verify(1):
        schedule(step.kernel)
    with knobs.verify(2), pytest.raises(Exception) as raised:
        schedule(step.kernel)
    assert raised.value.__notes__ == ["after the pass 'spoil'"]


@pytest.mark.parametrize("level", [0, 1, 2])
def test_programs_compile_at_every_level_of_verification(level):
    with knobs.verify(level):
        found = weft.jit(lambda x: weft.nn.softmax(x @ x.T).sum(0))(X / 10 + level)
    expected = ways.interpreted(lambda x: weft.nn.softmax(x @ x.T).sum(0), X / 10 + level)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


# --- kernels as text, and what they move ----------------------------------------------------------


def kernel_of(fun, *args):
    (step,) = fuse(simplify(traced(fun, *args)).jaxpr)[1]
    return step.kernel


def test_text_names_what_is_used_twice():
    text = show(kernel_of(lambda x: (x + 1) * (x + 1), X))
    assert "v0 = add(b0[4*p0 + p1], 1.0)" in text
    assert "= mul(v0, v0)" in text


def test_text_of_a_kernel_is_complete():
    text = show(kernel_of(lambda x: jnp.tanh(jnp.exp(jnp.sin(x))), X))
    assert "..." not in text
    assert max(map(len, text.splitlines())) < 240


@pytest.mark.parametrize(
    ("fun", "read", "written"),
    [
        (lambda x: x + 1, 48, 48),
        (lambda x: x[:1, 1:3] * 2, 8, 8),
        (lambda x: x - jnp.max(x, 1, keepdims=True), 48, 48),
        (lambda x: jnp.sum(x, 1), 48, 12),
        (lambda x: jnp.zeros((5, 5)) + 1, 0, 100),
    ],
)
def test_bytes_of_a_kernel(fun, read, written):
    assert kernel_bytes(kernel_of(fun, X)) == (read, written)


def test_bytes_of_a_gather_are_those_gathered():
    big = np.ones((1000, 8), np.float32)
    rows = np.array([3, 5, 7], np.int32)
    kernel = kernel_of(lambda x, i: x[i], big, rows)
    read, written = kernel_bytes(kernel)
    assert written == 96
    assert 96 <= read <= 96 + 12


@pytest.mark.parametrize("length, parts", [(1 << 16, 1), (1 << 17, 2), (300_000, 2)])
def test_booleans_are_joined_in_longer_pieces_than_sums(length, parts):
    """A comparison for each element is too little work for threads where a sum is enough."""
    x = np.zeros(length, np.float32)
    x[length - 1] = 2
    counts = []
    costly = lambda x: (jnp.tanh(x) * jnp.sin(x) > 1).any()
    for fun in (lambda x: (x > 1).any(), lambda x: jnp.sum(x * 2), costly):
        told = str(weft.explain(fun, quiet=True)(x))
        counts.append(2 if "2 launches" in told else 1)
    assert counts == [parts, 2, 2]
    assert weft.jit(lambda x: (x > 1).any())(x) and not weft.jit(lambda x: (x <= 1).all())(x)
