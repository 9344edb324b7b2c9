"""Fusion where arithmetic is cheap next to memory: what is written, and what is computed again."""

import numpy as np
import pytest

import weft
from weft import nn
from weft import numpy as jnp
from weft.backends.cuda.passes.special import special
from weft.backends.cuda.program import Cuda
from weft.backends.reference.program import Executable, Reference
from weft.compiler.pipeline import simplify
from weft.compiler.plan import Planner
from weft.core.jaxpr import eval_jaxpr
from weft.kernel.kernel import Loop, statements
from weft.kernel.nodes import walk
from weft.kernel.program import Launch


class Again(Reference):
    recomputes, min_stored_ops = True, Cuda.min_stored_ops

    def simplify(self, closed):
        return special(simplify(closed))


def programs(fun, *args):
    closed = weft.make_jaxpr(fun)(*args)
    return [Planner(target).program(closed) for target in (Again(), Reference())]


def written(program):
    """Bytes that kernels write."""
    return sum(
        b.size * b.dtype.itemsize
        for node in program.nodes
        if isinstance(node, Launch)
        for b in node.kernel.buffers
        if b.role == "out"
    )


def test_convolutions_without_space_are_products():
    x, w = np.ones((3, 4), np.float32), np.ones((5, 4), np.float32)
    fun = lambda x, w: weft.lax.conv_general_dilated(x, w, (), ())
    found = special(weft.make_jaxpr(fun)(x, w))
    assert [eqn.primitive.name for eqn in found.jaxpr.eqns].count("conv_general_dilated") == 0
    np.testing.assert_allclose(eval_jaxpr(found.jaxpr, found.consts, x, w)[0], 4 * np.ones((3, 5)))


def draws(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def norm(x, gain):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * weft.lax.rsqrt(variance + 1e-5) * gain


def picked(x, labels):
    chosen = jnp.take_along_axis(x, labels[:, None], -1)[:, 0]
    return (nn.logsumexp(x, -1) - chosen).mean()


LABELS = np.random.default_rng(1).integers(-512, 512, 64).astype(np.int32)
CASES = {
    "norm": (weft.grad(lambda x, g: norm(jnp.sin(x), g).sum() ** 2, (0, 1)), 512, (512,)),
    "gelu": (weft.grad(lambda x, w: (nn.gelu(x @ w) @ w.T).sum()), 512, (512, 512)),
    "cross entropy": (lambda x, _: weft.value_and_grad(picked)(x, LABELS), 512, (1,)),
}


@pytest.mark.parametrize("name", CASES)
def test_less_is_written_and_results_are_the_same(name):
    fun, width, other = CASES[name]
    outs = lambda x, w: weft.tree.leaves(fun(x, w))
    args = [draws(64, width), draws(*other)]
    again, kept = programs(outs, *args)
    assert written(again) < written(kept)
    avals = weft.make_jaxpr(outs)(*args).out_avals
    for a, b in zip(Executable(again, avals)(args), Executable(kept, avals)(args), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("mode", ["fill", "clip", "promise_in_bounds"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_one_element_of_each_row(mode, axis):
    x = draws(4, 5, 6)
    shape = [n if i != axis else 1 for i, n in enumerate(x.shape)]
    most = x.shape[axis] if mode == "promise_in_bounds" else 9
    index = np.random.default_rng(2).integers(0, most, shape).astype(np.int32)

    def fun(x):
        return (jnp.take_along_axis(x, index, axis, mode=mode) ** 2).sum()

    closed = simplify(weft.make_jaxpr(weft.grad(fun))(x))
    found = special(closed)
    names = [eqn.primitive.name for eqn in found.jaxpr.eqns]
    assert "scatter-add" not in names and "select_n" in names
    got, want = (eval_jaxpr(c.jaxpr, c.consts, x) for c in (found, closed))
    np.testing.assert_array_equal(got[0], want[0])


def test_several_elements_of_a_row_stay_a_scatter():
    index = np.zeros((4, 2), np.int32)
    fun = lambda x: jnp.take_along_axis(x, index, 1).sum()
    closed = simplify(weft.make_jaxpr(weft.grad(fun))(draws(4, 6)))
    assert "scatter-add" in [eqn.primitive.name for eqn in special(closed).jaxpr.eqns]


@pytest.mark.parametrize("order", [("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [5, 6])
def test_windows_of_one_element_are_products(order, stride, size):
    shape = (3, size, size, 4) if order[0] == "NHWC" else (3, 4, size, size)
    x, w = draws(*shape), draws(*((1, 1, 4, 7) if order[1] == "HWIO" else (7, 4, 1, 1)))

    def fun(x, w):
        out = weft.lax.conv_general_dilated(x, w, (stride,) * 2, "SAME", dimension_numbers=order)
        return (out**2).sum(), out

    both = weft.grad(fun, (0, 1), has_aux=True)
    closed = simplify(weft.make_jaxpr(lambda x, w: weft.tree.leaves(both(x, w)))(x, w))
    found = special(closed)
    names = [eqn.primitive.name for eqn in found.jaxpr.eqns]
    assert names.count("dot_general") == 3 and "conv_general_dilated" not in names
    for a, b in zip(*(eval_jaxpr(c.jaxpr, c.consts, x, w) for c in (found, closed)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_other_convolutions_stay():
    x, w = draws(2, 6, 6, 4), draws(3, 3, 4, 5)
    order = ("NHWC", "HWIO", "NHWC")
    fun = lambda x, w: weft.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=order)
    closed = simplify(weft.make_jaxpr(fun)(x, w))
    assert special(closed) is closed


def test_a_row_that_a_matrix_is_multiplied_by_is_written():
    """Else it would be computed for each column."""
    x, gain, matrix = draws(512), draws(512), draws(512, 256)
    fun = lambda x, gain, matrix: norm(x, gain) @ matrix
    again, _ = programs(fun, x, gain, matrix)
    first, last = [node.kernel for node in again.nodes if isinstance(node, Launch)]
    sizes = [b.size for b in last.buffers]
    assert first.grid is None and sorted(sizes) == [256, 512, 512 * 256]
    avals = weft.make_jaxpr(fun)(x, gain, matrix).out_avals
    (got,) = Executable(again, avals)([x, gain, matrix])
    np.testing.assert_allclose(got, np.asarray(fun(x, gain, matrix)), rtol=1e-3, atol=1e-3)
    (plain,) = programs(lambda x, matrix: (x + 1) @ matrix, x, matrix)[0].nodes
    assert sorted(b.size for b in plain.kernel.buffers) == [256, 512, 512 * 256]


def sampled(x, at):
    low = jnp.floor(at).astype("int32")
    i, j = low.T
    a, b = (at - low).T
    above = x[i, j] * (1 - b) + x[i, j + 1] * b
    return jnp.sum((above * (1 - a) + x[i + 1, j] * a) ** 2)


def read_apart(program):
    """How many elements kernels read at places that data give, for each of their iterations."""
    found = 0
    for node in program.nodes:
        if isinstance(node, Launch):
            inside = [s for s in statements(node.kernel.body) if not isinstance(s, Loop)]
            loads = {id(v): v for v in walk([v for s in inside for v in s.operands])}
            found += sum(v.op == "load" and bool(v.args) for v in loads.values())
    return found


@pytest.mark.parametrize(("count", "once"), [(1 << 18, True), (100, False)])
def test_what_is_read_at_random_is_kept(count, once):
    """Several scatters need neighbours of many points: these are read once. Those of few points
    are read again, which takes no longer than another kernel."""
    args = (
        weft.ShapeDtypeStruct((512, 512), "float32"),
        weft.ShapeDtypeStruct((count, 2), "float32"),
    )
    program, _ = programs(weft.grad(sampled, (0, 1)), *args)
    assert (read_apart(program) == 3) == once
