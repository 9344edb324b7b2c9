"""Values that rounds of a loop do not change: computed before it where that saves work, and the
same results wherever they are computed."""

import numpy as np
import pytest

import weft
from tests.runtime import ways
from weft import lax
from weft import numpy as jnp
from weft.compiler.passes.hoist import hoist
from weft.core.jaxpr import jaxprs_in_params
from weft.core.verify import check_jaxpr

RANDOM = np.random.default_rng(0)


def array(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def names(jaxpr):
    return [eqn.primitive.name for eqn in jaxpr.eqns]


def hoisted(fun, *args):
    """Operations before the last loop of a function, and those within it."""
    done = hoist(weft.make_jaxpr(fun)(*args))
    check_jaxpr(done)
    (*before, loop) = [e for e in done.eqns if e.primitive.name not in ("copy", "reduce_sum")]
    assert loop.primitive.name in ("scan", "while")
    inside = [n for j in jaxprs_in_params(loop.params) for n in names(j)]
    return [e.primitive.name for e in before], inside


def agrees(fun, *args):
    """Whether compiled code has the results of the references."""
    want = weft.tree.leaves(ways.interpreted(fun, *args))
    with weft.base.knobs.scope(backend="native"):
        got = weft.tree.leaves(weft.jit(fun)(*args))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-4, atol=2e-5)


def test_costly_values_are_computed_once():
    def fun(w, h, xs):
        def step(h, x):
            p = weft.nn.softmax(w)
            return jnp.tanh(h @ p + x), jnp.sum(h)

        return lax.scan(step, h, xs)

    args = array(12, 12), array(3, 12), array(50, 3, 12)
    before, inside = hoisted(fun, *args)
    assert "exp" in before and "div" in before and "dot_general" not in before
    assert "exp" not in inside and "tanh" in inside and "dot_general" in inside
    agrees(fun, *args)


def test_the_test_of_a_loop_is_looked_at_too():
    def fun(a, x):
        return lax.while_loop(
            lambda c: jnp.sum(c * c) > jnp.linalg.norm(jnp.exp(a)) * 1e-3, lambda c: c * 0.5, x
        )

    args = array(40, 40), array(30)
    before, inside = hoisted(fun, *args)
    assert "exp" in before and "exp" not in inside
    agrees(fun, *args)


def test_loops_in_loops():
    def fun(w, x):
        def outer(x, _):
            inner = lax.fori_loop(0, 40, lambda i, y: 0.5 * y + jnp.exp(w) @ jnp.cos(y) * 0.02, x)
            return inner * 1e-3 + jnp.sin(w)[0], None

        return lax.scan(outer, x, None, length=30)[0]

    args = array(20, 20) * 0.1, array(20)
    before, inside = hoisted(fun, *args)
    assert "exp" in before and "sin" in before
    assert "exp" not in inside and "sin" not in inside
    agrees(fun, *args)


def test_what_would_be_read_from_memory_stays():
    """An outer product is larger than what it is made of, views are read through, a few rounds on
    a few elements are not worth a kernel."""
    large = array(500), array(400), array(500, 400)

    def product(a, b, x):
        return lax.fori_loop(0, 100, lambda i, x: x * 0.5 + a[:, None] * b, x)

    before, inside = hoisted(product, *large)
    assert "mul" not in before and inside.count("mul") == 2
    agrees(product, *large)

    def views(a, x):
        return lax.fori_loop(0, 100, lambda i, x: x + jnp.flip(a.T, 0)[:4], x)

    assert hoisted(views, array(6, 8), array(4, 6))[0] == []
    agrees(views, array(6, 8), array(4, 6))

    def short(a, x):
        return lax.fori_loop(0, 3, lambda i, x: x + jnp.exp(a), x)

    before, inside = hoisted(short, array(5), array(5))
    assert before == [] and "exp" in inside


def test_costly_parts_of_an_outer_product_are_computed_once():
    def fun(a, b, x):
        return lax.fori_loop(0, 100, lambda i, x: x * 0.5 + jnp.exp(a)[:, None] * b, x)

    args = array(500), array(400), array(500, 400)
    before, inside = hoisted(fun, *args)
    assert "exp" in before and "mul" not in before and "exp" not in inside
    agrees(fun, *args)


def test_effects_barriers_and_loops_of_unknown_length_stay():
    seen = []

    def fun(w, x):
        def step(c, _):
            weft.debug.callback(lambda s: seen.append(float(s)), jnp.sum(jnp.exp(w)))
            y = lax.optimization_barrier(jnp.sin(w))
            (n,) = lax.while_loop(lambda n: n[0] < 5, lambda n: (n[0] + 1,), (0,))
            return c + y + n, None

        return lax.scan(step, x, None, length=20)[0]

    args = array(40, 40), array(40, 40)
    before, inside = hoisted(fun, *args)
    assert "exp" in before and "while" in inside and "optimization_barrier" in inside
    assert "debug_callback" in inside and "while" not in before
    agrees(fun, *args)
    weft.effects_barrier()
    assert len(seen) == 40
    np.testing.assert_allclose(seen, seen[0], rtol=1e-5)


def test_constants_of_the_body_and_results_that_never_change():
    table = jnp.asarray(array(30, 30))

    def fun(x):
        def step(c, x):
            return c + x, (jnp.exp(table)[0], jnp.sum(jnp.sin(table)))

        return lax.scan(step, x[0], x)

    before, inside = hoisted(fun, array(40, 30))
    assert {"exp", "sin"} <= {*before} and not {"exp", "sin"} & {*inside}
    agrees(fun, array(40, 30))


def test_one_body_in_two_loops():
    def step(w, x):
        return x * 0.9 + jnp.exp(w)

    def fun(w, v, x):
        a = lax.fori_loop(0, 60, lambda i, x: step(w, x), x)
        return a + lax.fori_loop(0, 60, lambda i, x: step(v, x), x)

    agrees(fun, array(20, 20), array(20, 20), array(20, 20))


@pytest.mark.parametrize("rounds", [0, 1, 7])
def test_no_rounds_are_no_rounds(rounds):
    def fun(w, x, n):
        return lax.fori_loop(0, n, lambda i, x: x + jnp.log(w), x)

    agrees(fun, -np.ones((30, 30), np.float32), array(30, 30), rounds)


def test_gradients():
    def loss(w, x):
        h = lax.scan(lambda h, x: (jnp.tanh(weft.nn.softmax(w) @ h + x), None), x[0], x)[0]
        return jnp.sum(h**2)

    agrees(weft.grad(loss), array(10, 10), array(25, 10))
