"""Products that leave a loop: which do, where they go, and the same results."""

import numpy as np
import pytest

import weft
from weft import lax
from weft import numpy as jnp
from weft.compiler.passes import fission as fission_pass
from weft.compiler.passes.fission import fission
from weft.compiler.passes.inline import inline
from weft.compiler.passes.prune import prune
from weft.core.verify import check_jaxpr
from weft.extend.core import jaxpr_as_fun

ROUNDS, ROWS, WIDTH = 6, 5, 8


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Products of any size leave loops, so that tests are quick."""
    monkeypatch.setattr(fission_pass, "MIN_PRODUCT", 1)


def array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def parted(fun, *args):
    """Products before, in and after the last loop of a function; all are after none."""
    made = fission(inline(weft.make_jaxpr(fun)(*args)))
    check_jaxpr(made)
    made = prune(made)
    loops = [i for i, e in enumerate(made.eqns) if e.primitive.name == "scan"]
    parts = [], [], made.eqns
    if loops:
        inner = made.eqns[loops[-1]].params["jaxpr"].eqns
        parts = made.eqns[: loops[-1]], inner, made.eqns[loops[-1] + 1 :]
    return tuple(sum(e.primitive.name == "dot_general" for e in part) for part in parts)


def agrees(fun, *args):
    """Whether the program after the pass has the results of the program before it."""
    closed = inline(weft.make_jaxpr(fun)(*args))
    flat = weft.tree.leaves(args)
    want, got = (jaxpr_as_fun(c)(*flat) for c in (closed, fission(closed)))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-4, atol=2e-5)


def recurrent(w, u, h, xs, reverse=False):
    def step(h, x):
        h = jnp.tanh(x @ w + h @ u)
        return h, h * 2

    return lax.scan(step, h, xs, reverse=reverse)


def weights():
    return array(WIDTH, WIDTH), array(WIDTH, WIDTH, seed=1), array(ROWS, WIDTH, seed=2)


ROW_INPUTS = array(ROUNDS, ROWS, WIDTH, seed=3)


@pytest.mark.parametrize("reverse", [False, True])
def test_products_of_rows_are_done_before(reverse):
    fun = lambda *args: recurrent(*args, reverse=reverse)
    assert parted(fun, *weights(), ROW_INPUTS) == (1, 1, 0)
    agrees(fun, *weights(), ROW_INPUTS)


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_of_weights_are_summed_after(reverse):
    def loss(w, u, h, xs):
        last, ys = recurrent(w, u, h, xs, reverse)
        return jnp.sum(jnp.sin(last)) + jnp.sum(ys * ys)

    grad = weft.grad(loss, argnums=(0, 1, 2, 3))
    # one product in the loop; after it both gradients of weights and that of the rows
    assert parted(grad, *weights(), ROW_INPUTS)[1:] == (1, 3)
    agrees(grad, *weights(), ROW_INPUTS)


def test_sums_that_are_moved_on_the_way():
    def fun(c, d, e, xs, ys):
        def step(carry, row):
            c, d, e = carry
            x, y = row
            y = jnp.tanh(y)
            a, b = jnp.split((x.T @ y).T, 2)
            return (c + a, b + d, e + jnp.reshape(jnp.sum(y, 0), (2, -1))), None

        return lax.scan(step, (c, d, e), (xs, ys))[0]

    half = array(WIDTH // 2, WIDTH)
    args = half, half + 1, array(2, WIDTH // 2), ROW_INPUTS, ROW_INPUTS + 1
    assert parted(fun, *args) == (0, 0, 1)
    agrees(fun, *args)


def test_products_of_batches_are_summed_too():
    def fun(c, xs, ys):
        step = lambda c, row: (c + jnp.einsum("bij,bik->bjk", *row), None)
        return lax.scan(step, c, (xs, ys))[0]

    xs = array(ROUNDS, 3, ROWS, WIDTH)
    args = array(3, WIDTH, WIDTH), xs, xs + 1
    assert parted(fun, *args) == (0, 0, 1)
    agrees(fun, *args)


def needed_in_rounds(c, xs):
    return lax.scan(lambda c, x: (c + x.T @ x, jnp.sum(c)), c, xs)


def returned_too(c, xs):
    def step(c, x):
        p = x.T @ x
        return c + p, p[0]

    return lax.scan(step, c, xs)


def decayed(c, xs):
    return lax.scan(lambda c, x: (0.9 * c + x.T @ x, None), c, xs)[0]


def added_twice(c, xs):
    def step(c, x):
        p = x.T @ x
        return c + p + jnp.exp(p), None

    return lax.scan(step, c, xs)[0]


def from_before(c, xs):
    return lax.scan(lambda c, x: (jnp.tanh(x @ c), x @ c), c[:ROWS], xs @ c[:, :ROWS])


@pytest.mark.parametrize("fun", [needed_in_rounds, returned_too, decayed, added_twice, from_before])
def test_what_rounds_need_stays(fun):
    args = array(WIDTH, WIDTH), ROW_INPUTS
    assert parted(fun, *args)[1] >= 1
    agrees(fun, *args)


def test_two_sums_of_one_product_and_literal_beginnings():
    def fun(w, xs):
        def step(carry, x):
            c, d, n = carry
            p = x.T @ x
            return (c + p, p + d, n + 1), x @ w

        zero = jnp.zeros((WIDTH, WIDTH))
        return lax.scan(step, (zero, zero, 0), xs)

    args = array(WIDTH, WIDTH), ROW_INPUTS
    before, inside, after = parted(fun, *args)
    assert inside == 0 and before + after == 2
    agrees(fun, *args)


def test_short_loops_and_small_products_stay(monkeypatch):
    assert parted(recurrent, *weights(), ROW_INPUTS[:3]) == (0, 2, 0)
    monkeypatch.setattr(fission_pass, "MIN_PRODUCT", 1 << 17)
    assert parted(recurrent, *weights(), ROW_INPUTS) == (0, 2, 0)
    monkeypatch.setattr(fission_pass, "MIN_PRODUCT", 1)
    monkeypatch.setattr(fission_pass, "MAX_STACKED_BYTES", 16)
    assert parted(weft.grad(lambda *a: recurrent(*a)[0].sum()), *weights(), ROW_INPUTS)[2] == 0


def test_compiled_programs():
    rows, width = 40, 64  # above the sizes from which on products leave loops

    def loss(w, u, h, xs):
        return jnp.sum(jnp.sin(recurrent(w, u, h, xs)[1]))

    args = array(width, width) / 8, array(width, width) / 8, array(rows, width)
    args = *args, array(5, rows, width)
    grad = weft.grad(loss, argnums=(0, 1, 3))
    with weft.base.knobs.scope(backend="interpret"):
        want = weft.jit(grad)(*args)
    with weft.base.knobs.scope(backend="native"):
        got = weft.jit(grad)(*args)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-3, atol=1e-4)
