"""Which kernels a program becomes, and what they read, keep and write."""

import numpy as np
import pytest

import weft
from weft import lax
from weft import numpy as jnp
from weft.backends.cpu.calls.native import Executable
from weft.base import knobs
from weft.compiler import fuse, pull, rows
from weft.compiler.expand import expand
from weft.compiler.fuse import Fusion
from weft.compiler.passes.cse import cse
from weft.compiler.passes.inline import inline
from weft.compiler.passes.prune import prune
from weft.kernel.kernel import Loop, Store, statements
from weft.kernel.spec import verify


def plan(fun, *shapes, dtype=np.float32):
    closed = weft.make_jaxpr(fun)(*(np.zeros(s, dtype) for s in shapes))
    steps = Fusion(expand(prune(cse(inline(closed))).jaxpr)).plan()
    for step in steps:
        if step.kernel is not None:
            verify(step.kernel)
    return steps


def run(fun, *args):
    """Results by the executable itself."""
    return Executable(weft.make_jaxpr(fun)(*args))(list(args))


def roles(step):
    return [b.role for b in step.kernel.buffers]


def passes(step):
    return [s for s in step.kernel.body if isinstance(s, Loop)]


def softmax(x):
    e = jnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_a_chain_is_one_kernel():
    (step,) = plan(lambda x, y: jnp.tanh(x * 2 + y) - x, (40, 50), (40, 50))
    assert roles(step).count("in") == 2 and roles(step).count("out") == 1


def test_siblings_are_one_kernel():
    (step,) = plan(lambda x: (x + 1, x * 2, x > 0), (40, 50))
    assert roles(step).count("in") == 1 and roles(step).count("out") == 3


def test_results_that_are_made_of_each_other_are_one_kernel():
    def update(p, g, m):
        m = 0.9 * m + g
        return p - 0.1 * m, m

    (step,) = plan(update, (300,), (300,), (300,))
    assert roles(step).count("in") == 3 and roles(step).count("out") == 2


def test_a_result_read_elsewhere_is_read_by_a_later_kernel():
    def fun(x):
        y = x + 1
        return y, y[::-1] * 2

    first, second = plan(fun, (300,))
    assert len(first.writes) == 1 and first.writes[0] in second.buffers
    x = np.arange(300, dtype=np.float32)
    _, z = run(fun, x)
    np.testing.assert_array_equal(z, (x + 1)[::-1] * 2)


def test_a_result_reread_through_a_reshape_is_read_by_a_later_kernel():
    def fun(x):
        y = x + 1
        return y, y.reshape(20, 15).T.reshape(300) * 2

    x = np.arange(300, dtype=np.float32)
    _, z = run(fun, x)
    np.testing.assert_array_equal(z, (x + 1).reshape(20, 15).T.reshape(300) * 2)


def test_rows_are_one_kernel():
    for fun in (softmax, lambda x: (x - x.mean(-1, keepdims=True)) / (1 + x.var(-1)[:, None])):
        (step,) = plan(fun, (40, 50))
        assert roles(step).count("in") == 1 and roles(step).count("out") == 1


def test_the_gradient_of_softmax_is_one_kernel():
    (step,) = plan(weft.grad(lambda x: jnp.sum(softmax(x) * x)), (40, 50))
    assert roles(step).count("out") == 1


def test_a_costly_value_of_a_row_is_kept_between_passes():
    (step,) = plan(softmax, (40, 50))
    assert roles(step).count("row") == 1
    (place,) = [i for i, role in enumerate(roles(step)) if role == "row"]
    assert step.kernel.buffers[place].size == 50
    stores = [s for s in statements(step.kernel.body) if isinstance(s, Store)]
    assert [s.buffer == place for s in stores] == [True, False]
    assert len(passes(step)) == 3


def test_rows_too_long_for_the_stack_are_computed_again(monkeypatch):
    monkeypatch.setattr(rows, "MAX_ROW_BUFFER_BYTES", 100)
    (step,) = plan(softmax, (40, 50))
    assert "row" not in roles(step)


def test_cheap_values_are_computed_again_in_each_pass():
    (step,) = plan(lambda x: (x * 2) / (x * 2).sum(-1, keepdims=True), (40, 50))
    assert "row" not in roles(step)


def test_a_costly_value_of_two_kernels_is_written_once():
    def fun(x):
        e = jnp.exp(x)
        return e.sum(0), e.sum(1)

    first, second = plan(fun, (40, 50))
    assert [v.aval.shape for v in first.writes] == [(40, 50), (40,)]
    assert first.writes[0] in second.buffers


def test_what_two_kernels_share_is_written_where_they_part():
    def fun(x):
        y = jnp.exp(jnp.sin(x)) * 2
        return y.sum(0), y.sum(1)

    first, second = plan(fun, (40, 50))
    assert [v.aval.shape for v in first.writes] == [(40, 50), (40,)]
    assert [v.aval.shape for v in second.writes] == [(50,)]


def test_few_costly_values_are_computed_again():
    steps = plan(lambda x, t: (x * jnp.exp(t), (x * jnp.exp(t)).sum(0)), (40, 50), ())
    assert all(v.aval.shape for s in steps for v in s.writes)


def test_a_costly_row_for_every_row_is_written_first():
    first, second = plan(lambda x, b: x * jnp.exp(b)[None], (40, 50), (50,))
    assert [v.aval.shape for v in first.writes] == [(50,)]
    assert first.writes[0] in second.buffers


def test_a_costly_column_is_computed_before_the_inner_loop():
    (step,) = plan(lambda x, b: x * jnp.exp(b)[:, None], (40, 50), (40,))
    assert len(step.writes) == 1


def test_large_kernels_are_cut(monkeypatch):
    def fun(x):
        for i in range(12):
            x = jnp.sin(x) + 0.1 * i
        return x

    x = np.linspace(-2, 2, 500, dtype=np.float32)
    (want,) = run(fun, x)
    monkeypatch.setattr(pull, "MAX_KERNEL_OPS", 100)
    assert len(plan(fun, (500,))) > 2
    (got,) = run(fun, x)
    np.testing.assert_array_equal(got, want)


def test_reductions_of_one_element_are_movements():
    (step,) = plan(lambda x: x.sum(1) + lax.reduce_max(x, (1,)), (300, 1))
    assert not passes(step)


def test_library_calls_split_a_program():
    steps = plan(lambda x: jnp.exp(x + 1) @ jnp.tanh(x) * 2, (20, 20))
    libraries = [s.eqn.primitive.name for s in steps if s.kernel is None]
    assert libraries == ["dot_general"] and len(steps) == 3


def written_before_read(steps, given):
    known = set(given)
    for step in steps:
        reads = step.eqn.invars if step.kernel is None else step.buffers
        assert known.issuperset(v for v in reads if v not in step.writes), step
        known.update(step.writes)


def test_results_in_several_kernels_are_written_before_they_are_read():
    def many(x, t):
        first = x[0] * 2
        return [first, *[first + t * i for i in range(50)], x[1] * 3]

    def products(x, y):
        p, q = x @ x, y @ y
        one, other = q[0, 0] * 2, p[0, 0] * 3
        return one, other, other + q[0, 1], one - q[1, 0]

    for fun, shapes in ((many, [(4,), ()]), (products, [(128, 128), (128, 128)])):
        closed = weft.make_jaxpr(fun)(*(np.zeros(s, np.float32) for s in shapes))
        jaxpr = prune(cse(inline(closed))).jaxpr
        fusion = Fusion(jaxpr)
        written_before_read(fusion.plan(), fusion.given)
    x, t = np.arange(4, dtype=np.float32), np.array(2, np.float32)
    np.testing.assert_array_equal(run(many, x, t), many(x, t))


def stencil(x, width=3):
    """A sum over all boxes of a width less, each with a weight of its own."""
    parts = []
    for at in np.ndindex(*[width] * x.ndim):
        box = tuple(slice(a, n - width + 1 + a) for a, n in zip(at, x.shape))
        parts.append((1 + sum(at)) * x[box] ** 2)
    return jnp.sum(jnp.sin(sum(parts)))


def check_gradient(fun, shape, dtype=np.float32):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    gradient = weft.grad(fun)
    with knobs.scope(backend="reference"):
        want = gradient(x)
    np.testing.assert_allclose(run(gradient, x)[0], want, rtol=0, atol=2e-5 * np.abs(want).max())


def test_the_gradient_of_a_stencil_is_the_inside_and_a_rim(monkeypatch):
    steps = plan(weft.grad(stencil), (40, 50))
    assert [roles(s).count("out") for s in steps].count(0) == 0
    joined = [s for s in steps if s.buffers[-1] is steps[-1].buffers[-1] or not s.writes]
    assert len(steps) <= 7 and len(joined) >= 4  # two rims for each axis
    check_gradient(stencil, (40, 50))
    check_gradient(stencil, (12, 9, 11))
    monkeypatch.setattr(fuse, "RIMS", 10**9)
    check_gradient(stencil, (7, 8))


def test_small_arrays_that_are_all_rim_are_one_kernel():
    steps = plan(weft.grad(stencil), (5, 6, 5))
    assert len(steps) <= 3
    check_gradient(stencil, (5, 6, 5))


def test_rims_of_arrays_spread_apart():
    def spread(x):
        parts = [
            (1 + i) * lax.pad(x, np.float32(i), [(i, 9 - i, 2), (9 - i, i, 1)]) for i in range(9)
        ]
        return jnp.sum(jnp.sin(sum(parts)))

    check_gradient(spread, (5, 6))
    x = np.random.default_rng(0).standard_normal((5, 6)).astype(np.float32)
    with knobs.scope(backend="reference"):
        want = spread(x)
    np.testing.assert_allclose(run(spread, x)[0], want, rtol=1e-4)


def test_leaves_of_many_arrays_are_kernels_of_their_own():
    """Adam's update reads four arrays a leaf and writes three: few leaves to a kernel, one code."""

    def update(trees):
        g, m, v, p = trees
        m = [0.9 * m + 0.1 * g for m, g in zip(m, g, strict=True)]
        v = [0.99 * v + 0.01 * g * g for v, g in zip(v, g, strict=True)]
        p = [p - m / (1e-8 + v) for p, m, v in zip(p, m, v, strict=True)]
        return m, v, p

    trees = [[jnp.full((64, 8), float(i + 1)) for i in range(24)] for _ in range(4)]
    told = str(weft.explain(update, quiet=True)(trees))
    lines = [line.split(":")[0].strip() for line in told.splitlines() if line.startswith("  k")]
    assert len(set(lines)) == 1, told


def normalise(x, scale):
    """Layer normalisation by the means of values and of squares."""
    mean = x.mean(-1, keepdims=True)
    variance = (x * x).mean(-1, keepdims=True) - mean * mean
    return (x - mean) * lax.rsqrt(variance + 1e-6) * scale


def test_a_normalisation_is_one_kernel_when_its_gradient_needs_its_statistics():
    def loss(x, scale, w):
        return jnp.sum(jnp.sin(normalise(x, scale) @ w))

    steps = plan(weft.grad(loss, argnums=(0, 1)), (200, 300), (300,), (300, 100))
    first = next(i for i, s in enumerate(steps) if s.eqn is not None)
    assert first == 1  # nothing but one kernel comes before the product
    shapes = {v.aval.shape for v in steps[0].writes}
    assert (200, 300) in shapes and len(shapes) > 1
    args = [np.random.RandomState(0).standard_normal(s).astype("f") for s in [(9, 20), (20,)]]
    w = np.eye(20, 5, dtype="f")
    ours = run(weft.grad(loss, argnums=(0, 1)), *args, w)
    wide = [x.astype("f8") for x in (*args, w)]
    step = 1e-6
    with weft.enable_x64(True):
        for got, x in zip(ours, wide[:2], strict=True):
            move = np.random.RandomState(1).standard_normal(x.shape)
            ends = []
            for sign in (1, -1):
                given = [y + sign * step * move if y is x else y for y in wide]
                ends.append(float(loss(*map(jnp.asarray, given))))
            np.testing.assert_allclose(np.vdot(got, move), np.diff(ends)[0] / -2 / step, rtol=1e-4)


@pytest.mark.parametrize(("columns", "kernels"), [(3, 2), (fuse.MIN_JOINED_ROW, 1)])
def test_values_of_short_rows_are_a_kernel_of_their_own(columns, kernels):
    def distances(x):
        sums = jnp.sum(x**2, -1)
        return sums, (sums + 0.01)[:, None] ** -1.5

    steps = plan(distances, (50, columns))
    assert len(steps) == kernels


def test_a_residual_is_read_as_one_array():
    """Not the products and biases that it is the sum of, again and again."""

    def net(x, scale, ws):
        for w in ws:
            x = x + normalise(x, scale) @ w
        return jnp.sum(normalise(x, scale))

    w = np.zeros((120, 120), np.float32)
    closed = weft.make_jaxpr(weft.grad(net))(w, w[0], [w] * 6)
    steps = Fusion(expand(prune(cse(inline(closed))).jaxpr)).plan()
    read = [
        sum(b.role == "in" and b.size == w.size for b in s.kernel.buffers)
        for s in steps
        if s.kernel is not None
    ]
    assert max(read) <= 4


def test_large_leaves_that_share_nothing_are_kernels_of_their_own():
    def lion(leaves):
        step = lambda p, m, g: (p - 0.1 * jnp.sign(0.9 * m + 0.1 * g), 0.99 * m + 0.01 * g)
        return [step(*leaf) for leaf in leaves]

    for shape, kernels in (((200, 200), 3), ((20, 20), 1)):
        closed = weft.make_jaxpr(lion)([[np.zeros(shape, np.float32)] * 3] * 3)
        steps = Fusion(expand(prune(cse(inline(closed))).jaxpr)).plan()
        assert len(steps) == kernels
