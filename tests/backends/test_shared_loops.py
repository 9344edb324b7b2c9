"""Loops whose rounds threads share: rounds have the bits that they have alone."""

import numpy as np
import pytest

import weft
from weft import lax
from weft import numpy as jnp
from weft.backends.cpu import target
from weft.backends.cpu.code import loop_text, shared_text
from weft.base import knobs


def floats(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def lengths(size, most=40):
    found = np.random.default_rng(0).geometric(0.15, size)
    found[size // 3], found[-1] = most, 0
    return np.minimum(found, most).astype(np.int32)


def until(step, n, *args):
    return lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, *step(*s[1:])), (n, *args))[1:]


def rows(row):
    n, x = row
    return until(lambda x: (jnp.tanh(x) + 1 / (1 + jnp.sum(x * x)),), n, x)[0]


def loops_inside(row):
    n, x = row

    def step(x, k):
        y = lax.fori_loop(0, 3, lambda i, y: y * 0.9 + jnp.roll(y, 1) * i, x)
        y, _ = lax.while_loop(lambda s: s[1] < 2, lambda s: (s[0] * 0.5, s[1] + 1), (y, k % 3))
        y = lax.cond(k % 2 == 0, jnp.sin, lambda y: y / (1 + jnp.linalg.norm(y)), y)
        return y, k + 1

    return until(step, n, x, jnp.int32(0))


def products(row):
    n, a = row
    return until(lambda x: (jnp.tanh(a @ x) + x,), n, a)[0]


def systems(row):
    n, a = row
    return until(lambda x: (jnp.linalg.solve(a + 3 * jnp.eye(len(a)), x),), n, a[0])[0]


CASES = {
    "small rows": (rows, lambda: (lengths(500), floats(500, 33))),
    "rows": (rows, lambda: (lengths(40), floats(40, 3000))),
    "rows of chunks": (rows, lambda: (lengths(40), floats(40, 7000))),
    "small loops inside": (loops_inside, lambda: (lengths(300), floats(300, 17))),
    "loops inside": (loops_inside, lambda: (lengths(30), floats(30, 2000))),
    "products": (products, lambda: (lengths(20), floats(20, 64, 64) / 20)),
    "systems": (systems, lambda: (lengths(30), floats(30, 50, 50) / 50)),
    "no loop inside": (lambda row: jnp.cumsum(jnp.sin(row[1])) * row[0], lambda: (
        lengths(600), floats(600, 3000))),
}  # fmt: skip


def functions(fun, args):
    """The texts of the functions of loops in a program that threads share."""
    codes = target.Cpu().assemble(weft.make_jaxpr(fun)(*args)).codes
    return [str(text) for text, name in codes if name == "loop" and "atomicrmw" in str(text)]


def bits(tree):
    return [np.asarray(x).tobytes() for x in weft.tree.leaves(tree)]


def alone(one, args):
    """The results of a compiled function for one round after the other."""
    compiled = weft.jit(lambda *row: one(row))
    with knobs.scope(shape_generic=False):
        found = [compiled(*row) for row in zip(*args, strict=True)]
    return weft.tree.map(lambda *xs: np.stack([np.asarray(x) for x in xs]), *found)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("name", CASES)
def test_rounds_have_the_bits_that_they_have_alone(name, count):
    one, make = CASES[name]
    args = make()
    fun = lambda *args: lax.map(one, args)
    assert len(functions(fun, args)) == 1
    want, compiled = bits(alone(one, args)), weft.jit(fun)
    with knobs.scope(num_threads=count):
        for _ in range(4):
            assert bits(compiled(*args)) == want


@pytest.mark.parametrize("name", ["small rows", "rows", "small loops inside", "loops inside"])
def test_rounds_are_left_for_signals_and_go_on(name, monkeypatch):
    one, make = CASES[name]
    args = make()
    want = bits(alone(one, args))
    own = shared_text.counter

    def often():
        declared, metadata, call, period = own()
        return declared, metadata, call, period >> 12

    monkeypatch.setattr(shared_text, "counter", often)
    monkeypatch.setattr(loop_text, "LINES_PER_POLL", 1)
    fun = lambda *args: lax.map(one, args)
    assert "label %restore" in functions(fun, args)[0]
    compiled = weft.jit(fun)
    for count in (1, 3):
        with knobs.scope(num_threads=count):
            for _ in range(3):
                assert bits(compiled(*args)) == want


def test_rounds_backwards():
    x = floats(300, 2000)
    fun = lambda x: lax.scan(lambda _, y: (None, jnp.cumsum(y)), None, x, reverse=True)[1]
    assert len(functions(fun, (x,))) == 1
    np.testing.assert_allclose(weft.jit(fun)(x), np.cumsum(x, 1), rtol=1e-3, atol=1e-3)


def test_loops_that_one_thread_does():
    """Rounds that need the one before, little work, and Python inside of a round."""
    x = floats(300, 3000)
    needs = lambda x: lax.scan(lambda c, y: (c + y.sum(), jnp.cumsum(y) + c), 0.0, x)
    little = lambda x: lax.map(lambda y: y[0] + y[1], x[:, :2])

    def shown(x):
        shape = weft.ShapeDtypeStruct((3000,), np.float32)
        return lax.map(lambda y: weft.pure_callback(np.sort, shape, y) + jnp.cumsum(y), x)

    for fun in (needs, little, shown):
        assert not functions(fun, (x,))
    np.testing.assert_allclose(
        weft.jit(shown)(x), np.sort(x) + np.cumsum(x, 1), rtol=1e-3, atol=1e-3
    )
