"""Native functions that differ in sizes alone are one."""

import numpy as np
import pytest

import weft
from weft import numpy as jnp
from weft.backends.cpu import target
from weft.backends.cpu.assembly import Run
from weft.backends.cpu.calls import native
from weft.backends.llvm.native.machine import Ahead
from weft.core.interpret import run as interpret


def planned(fun, *args):
    closed = weft.make_jaxpr(fun)(*args)
    with Ahead() as ahead:
        return target.Cpu(None, ahead).assemble(closed)


def check(fun, *args):
    closed = weft.make_jaxpr(fun)(*args)
    made = native.Executable(closed)
    expected = interpret(closed.jaxpr, [np.asarray(c) for c in closed.consts], list(args))
    for got, want in zip(made(list(args)), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    return made.plan


def rows(*shapes, dtype=np.float32):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s).astype(dtype) for s in shapes]


def softmax(x):
    e = jnp.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def below(x):
    return jnp.tanh(x - x.max(1, keepdims=True))


SHAPES = [(30, 160), (50, 320), (40, 480), (62, 96)]


@pytest.mark.parametrize("function", [below, lambda x: x.sum(0), lambda x: x + x[:1]])
def test_kernels_of_other_sizes_share_code(function):
    fun = lambda *xs: [function(x) for x in xs]
    plan = check(fun, *rows(*SHAPES))
    launches = [node for node in plan.nodes if isinstance(node, Run)]
    assert len({node.code for node in launches}) < len(launches)
    texts = [str(plan.codes[node.code][0]) for node in launches]
    assert any("%sized" in text for text in texts)
    again = planned(fun, *rows(*SHAPES))
    assert [n.code for n in again.nodes] == [n.code for n in plan.nodes]


ANY_SHAPES = [(3, 5), (2, 2), (33, 31), (64, 33), (16, 16), (5, 128), (40, 300), (41, 300), (7, 9)]
MOVES = {
    "reduced columns": lambda x: x.sum(0),
    "reduced rows": lambda x: jnp.exp(x).sum(1),
    "joined": lambda x: below(x) + x[:1],
    "transposed": lambda x: x.T * 2,
    "turned round": lambda x: x[::-1, ::-1] + 1,
    "every second": lambda x: x[:, ::2] - 1,
    "padded": lambda x: jnp.pad(x, 1) * 3,
    "counted": lambda x: jnp.argmax(x, 1),
    "gathered": lambda x: x[jnp.arange(5) % 3 - 1] + 1,
    "stacked": lambda x: jnp.concatenate([x, 2 * x], 1),
}


@pytest.mark.parametrize("name", MOVES)
def test_kernels_of_all_sizes_are_right_side_by_side(name):
    check(lambda *xs: [MOVES[name](x) for x in xs], *rows(*ANY_SHAPES))


def test_code_is_shared_by_those_that_it_is_good_for():
    fun = lambda *xs: [x * x[:1] for x in xs]
    plan = check(fun, *rows((700, 320), (500, 640), (600, 333), (400, 461)))
    codes = [node.code for node in plan.nodes if isinstance(node, Run)]
    # whole vectors in the first two, what is left of a row in the others
    assert codes[0] == codes[1] and codes[2] == codes[3] and codes[0] != codes[2]


def test_functions_that_would_read_too_many_sizes_are_apart(monkeypatch):
    monkeypatch.setattr(target, "MAX_READ_SIZES", 0)
    plan = check(lambda *xs: [below(x) for x in xs], *rows(*SHAPES))
    assert not any("%sized" in str(made) for made, _ in plan.codes)


def test_code_that_a_loop_uses_too():
    def fun(x, y):
        def body(_, x):
            return softmax(x) @ jnp.ones((160, 160)) * 0.01

        return weft.lax.fori_loop(0, 3, body, softmax(x)), softmax(y)

    check(fun, *rows((30, 160), (50, 320)))
