"""Passes one by one: what they leave out, what they keep, and that programs mean the same."""

import numpy as np
import pytest

import weft
from tests.runtime import ways
from weft import lax
from weft import numpy as jnp
from weft.compiler.passes.collapse import collapse
from weft.compiler.passes.cse import cse
from weft.compiler.passes.inline import inline
from weft.compiler.passes.prune import prune
from weft.core.verify import check_jaxpr
from weft.kernel.build import Builder
from weft.kernel.kernel import Buffer, Kernel, Loop, Reduce, Store, affine
from weft.kernel.nodes import F32
from weft.kernel.spec import verify

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def names(closed):
    return [eqn.primitive.name for eqn in closed.eqns]


def evaluate(closed, *args):
    return [np.asarray(x) for x in weft.core.eval_jaxpr(closed.jaxpr, closed.consts, *args)]


def same(closed, changed, *args):
    check_jaxpr(changed)
    for a, b in zip(evaluate(closed, *args), evaluate(changed, *args), strict=True):
        np.testing.assert_array_equal(a, b)


def test_inline_flattens_calls_within_calls():
    inner = weft.jit(lambda x: jnp.sin(x) * 2)
    outer = weft.jit(lambda x: inner(x) + inner(x + 1))
    closed = weft.make_jaxpr(lambda x: (outer(x), inner(x)))(X)
    flat = inline(closed)
    assert "jit" in names(closed) and "jit" not in names(flat)
    same(closed, flat, X)


def test_inline_keeps_constants_of_calls():
    table = jnp.arange(4.0)
    call = weft.jit(lambda x: x + table)
    closed = weft.make_jaxpr(lambda x: call(x) * call(x + 1))(X)
    same(closed, inline(closed), X)


def test_inline_of_calls_that_return_their_operands():
    call = weft.jit(lambda x, y: (y, x, 2.0, x))
    closed = weft.make_jaxpr(lambda x: call(x, x + 1))(X)
    flat = inline(closed)
    assert names(flat) == ["add"]
    same(closed, flat, X)


def test_cse_computes_equal_equations_once():
    closed = weft.make_jaxpr(lambda x: jnp.sin(x) + jnp.sin(x) * jnp.sin(x + 0))(X)
    shorter = cse(closed)
    assert names(shorter).count("sin") == 2
    same(closed, shorter, X)


def test_cse_tells_literals_apart_by_their_bits():
    closed = weft.make_jaxpr(lambda x: (x * 0.0, x * -0.0, x * 1, x * 1.0))(X)
    shorter = cse(closed)
    a, b, *_ = evaluate(shorter, np.ones(3, np.float32)[:, None] * np.ones(4, np.float32))
    assert not np.signbit(a).any() and np.signbit(b).all()
    same(closed, shorter, X)


def test_cse_keeps_parameters_apart():
    closed = weft.make_jaxpr(lambda x: (x.sum(0).sum(), x.sum(1).sum()))(X)
    assert names(cse(closed)).count("reduce_sum") == 4


def test_cse_leaves_effects_alone():
    def fun(x):
        weft.debug.print("{}", x[0, 0])
        weft.debug.print("{}", x[0, 0])
        return x

    closed = weft.make_jaxpr(fun)(X)
    effects = [eqn for eqn in closed.eqns if eqn.effects]
    assert len([eqn for eqn in prune(cse(closed)).eqns if eqn.effects]) == len(effects) == 2


def test_prune_leaves_out_what_nothing_needs():
    closed = weft.make_jaxpr(lambda x: (jnp.cos(jnp.sin(x)), x + 1)[1])(X)
    shorter = prune(closed)
    assert names(shorter) == ["add"]
    same(closed, shorter, X)


@pytest.mark.parametrize(
    ("fun", "name", "without"),
    [
        (lambda x: jnp.linalg.eigvalsh(x), "eigh", {"vectors": False}),
        (lambda x: jnp.linalg.qr(x, mode="r"), "qr", {"q": False}),
        (lambda x: jnp.linalg.eigh(x)[1], "eigh", {}),
    ],
)
def test_prune_asks_for_no_results_that_nothing_uses(fun, name, without):
    x = np.diag(np.arange(1.0, 20.0, dtype=np.float32))
    closed = inline(weft.make_jaxpr(fun)(x))
    (before,) = [eqn for eqn in closed.eqns if eqn.primitive.name == name]
    (after,) = [eqn for eqn in prune(closed).eqns if eqn.primitive.name == name]
    assert after.params == {**before.params, **without}
    np.testing.assert_allclose(np.abs(weft.jit(fun)(x)), np.abs(fun(x)), rtol=1e-5)


def test_prune_keeps_programs_in_which_all_is_needed():
    closed = weft.make_jaxpr(lambda x: (jnp.sin(x), x))(X)
    assert prune(closed) is closed


def elementwise(strides, extents):
    """``out[i, j] = in[strides]``, two loops over row-major results."""
    k = Builder()
    index = affine(0, dict(zip(("p0", "p1"), strides, strict=True)))
    at = affine(0, {"p0": extents[1], "p1": 1})
    body = [Store(1, at, k.load(0, F32, index))]
    size = extents[0] * extents[1]
    buffers = [Buffer(F32, size, "in"), Buffer(F32, size, "out")]
    return Kernel("k", buffers, ("p0", extents[0]), [Loop("p1", extents[1], body)])


def test_collapse_makes_contiguous_axes_one():
    merged = collapse(elementwise((4, 1), (3, 4)))
    verify(merged)
    assert merged.grid[1] == 12 and not any(isinstance(s, Loop) for s in merged.body)


def test_collapse_leaves_a_transpose_alone():
    kernel = elementwise((1, 3), (3, 4))
    assert collapse(kernel) is kernel


def test_collapse_leaves_a_broadcast_alone():
    kernel = elementwise((0, 1), (3, 4))
    assert collapse(kernel) is kernel


def test_collapse_leaves_an_axis_whose_position_is_used():
    k = Builder()
    kernel = elementwise((4, 1), (3, 4))
    store = Store(1, affine(0, {"p0": 4, "p1": 1}), k.cast(k.index("p1"), F32))
    kernel = kernel._replace(body=[Loop("p1", 4, [store])])
    assert collapse(kernel) is kernel


def test_collapse_looks_at_every_nest_of_the_same_axes():
    """Two regions of one array: rows of seven that are whole, and six of seven elements."""
    x = np.arange(35, dtype=np.float32).reshape(5, 7)

    def windows(x, start):
        return lax.reduce_window(x, start, lax.add, (2, 2), (1, 1), ((1, 2), (0, 1)))

    want = np.asarray(ways.interpreted(windows, x, np.float32(0)))
    np.testing.assert_array_equal(weft.jit(windows)(x, np.float32(0)), want)


def test_collapse_merges_the_axes_of_a_reduction():
    k = Builder()
    value = k.load(0, F32, affine(0, {"r0": 4, "r1": 1}))
    reduce = Reduce(0, "add", value, F32, 0)
    loops = Loop("r0", 3, [Loop("r1", 4, [reduce], (0,))], (0,))
    total = Store(1, affine(0, {}), k.make("acc", (), F32, 0))
    kernel = Kernel("k", [Buffer(F32, 12, "in"), Buffer(F32, 1, "out")], None, [loops, total])
    merged = collapse(kernel)
    verify(merged)
    loop = merged.body[0]
    assert loop.extent == 12 and not any(isinstance(s, Loop) for s in loop.body)
