"""Loops of unknown length: their conditions are looked at, and a failure ends them."""

import numpy as np
import pytest

import weft as jax
import weft.numpy as jnp
from weft import lax
from weft.backends.cpu import target
from weft.base.checking import asked
from weft.compiler.checks.instrument import stopping
from weft.compiler.pipeline import simplify


def error_of(kind, function, *args, **kinds):
    with jax.checks(**kinds), pytest.raises(kind) as caught:
        function(*args)
    return str(caught.value).split("\n")[0]


def test_conditions_are_looked_at():
    def halve(x):
        return lax.while_loop(lambda c: jnp.sqrt(c[0] - 1.0) > 0.5, lambda c: (c[0] - 1, c[1]), x)

    x = (np.float32(4.5), np.float32(0))
    got = error_of(FloatingPointError, jax.jit(halve), x)
    assert got.startswith("sqrt made nan: sqrt(-0.5) — "), got
    assert "iteration 4 of the loop at test_loops.py:" in got
    mapped = jax.jit(jax.vmap(halve))
    got = error_of(FloatingPointError, mapped, (np.full(3, 4.5, np.float32), np.zeros(3)))
    assert got.startswith("sqrt made nan: sqrt(-0.5) — "), got
    assert "; element 0 of the batch; iteration 4 of the loop at test_loops.py:" in got
    with jax.checks():
        assert float(jax.jit(halve)((np.float32(4.125), np.float32(1)))[0]) == 1.125
    first = error_of(FloatingPointError, jax.jit(halve), (np.float32(0), np.float32(0)))
    assert "sqrt(-1)" in first
    assert "iteration 0" in first


def test_indices_and_divisors_of_conditions():
    table = jnp.array([5, 4, 3, 2])

    def walk(i):
        return lax.while_loop(lambda i: table[i] > 0, lambda i: i + 1, i)

    got = error_of(IndexError, jax.jit(walk), 1)
    assert got.startswith("dynamic_slice got index 4 for axis 0 of size 4"), got
    assert "iteration 3 of the loop" in got

    def divide(i):
        return lax.while_loop(lambda i: 12 % i != 5, lambda i: i - 1, i)

    got = error_of(ZeroDivisionError, jax.jit(divide), 3)
    assert "rem divided by zero: 12 % 0" in got
    assert "iteration 3 of the loop" in got


def test_a_failure_ends_the_loop():
    """Without that these would go on for ever: no comparison with a NaN is true."""

    def forever(x):
        return lax.while_loop(lambda x: ~(x < 1e-3), lambda x: jnp.sqrt(x - 1), x)

    for function, x in (
        (jax.jit(forever), np.float32(4)),
        (jax.jit(jax.vmap(forever)), np.array([4, 0.0001], np.float32)),
        (jax.jit(lambda x: lax.scan(lambda c, i: (forever(c), i), x, jnp.arange(3))[0]), 4.0),
    ):
        got = error_of(FloatingPointError, function, x, nan=True)
        assert got.startswith("sqrt made nan"), got
    outside = jax.jit(lambda x, n: lax.while_loop(lambda i: i != n, lambda i: i // (i - i), x))
    assert "divided by zero" in error_of(ZeroDivisionError, outside, 1, 2, division=True)


def test_loops_that_get_nans_go_on():
    x = np.array([np.nan, 2.0], np.float32)

    def grow(x):
        return lax.while_loop(lambda s: s[1] < 5, lambda s: (s[0] * 1.5 + 1, s[1] + 1), (x, 0))[0]

    def filled(x):
        step = lambda s: (jnp.where(s[1] == 1, jnp.nan, s[0]) * 2.0 + x, s[1] + 1)
        return lax.while_loop(lambda s: s[1] < 5, step, (x, 0))[0]

    def asked(x):
        def step(s):
            y = jax.pure_callback(
                lambda x: x * np.float32(np.nan), jax.ShapeDtypeStruct((2,), np.float32), s[0]
            )
            return y, s[1] + 1

        return lax.while_loop(lambda s: (s[1] < 4) | (s[0].sum() > 0), step, (x, 0))

    for function in (grow, filled):
        want = jax.jit(lambda x, f=function: f(x))(x)
        with jax.checks():
            np.testing.assert_array_equal(jax.jit(function)(x), want)
    with jax.checks(), pytest.raises(FloatingPointError, match="pure_callback made nan"):
        jax.jit(asked)(np.ones(2, np.float32))


def test_a_mistake_beside_a_given_nan():
    """A failure that ends a loop comes before one of a NaN that was given."""

    def f(x, y):
        def step(c, i):
            odd = (x * c > 3).sum()  # a NaN ends here, in every round
            inner = lax.while_loop(lambda v: ~(v < 1e-3), lambda v: jnp.sqrt(v - 1), y + i)
            return c + odd + inner, i

        return lax.scan(step, 1.0, jnp.arange(4.0))[0]

    x = np.array([np.nan, 1.0], np.float32)
    got = error_of(FloatingPointError, jax.jit(f), x, np.float32(4), nan=True)
    assert got.startswith("sqrt made nan: sqrt(-"), got

    def g(x, y):
        def step(s):
            c, i = s
            inner = lax.while_loop(lambda v: v > 1e-3, lambda v: v * 0.5, c)
            return jnp.log(y - i) + inner, i + 1

        return lax.while_loop(lambda s: s[1] < 8, step, (1.0, 0.0))[0]

    got = error_of(FloatingPointError, jax.jit(g), x, np.float32(2.5), nan=True)
    assert got.startswith("log made nan: log(-0.5)"), got
    assert "iteration 3 of the loop" in got


@pytest.mark.parametrize("seed", range(4))
def test_results_have_the_same_bits(seed):
    rng = np.random.default_rng(seed)
    x = rng.random((3, 5), np.float32) + 0.5

    def power(x):
        def going(s):
            return (jnp.linalg.norm(s[0]) > 1e-2) & (s[1] < 20)

        return lax.while_loop(
            going, lambda s: (jnp.tanh(s[0] @ s[0].T) @ x * 0.3, s[1] + 1), (x, 0)
        )

    for function, args in ((power, x), (jax.vmap(power), x[None] * np.ones((4, 1, 1), "f"))):
        want = jax.jit(function)(args)
        again = jax.jit(lambda x, f=function: f(x))
        with jax.checks(nan=True, inf=True, overflow=True):
            got = again(args)
        for mine, plain in zip(got, want, strict=True):
            np.testing.assert_array_equal(mine, plain)


# --- loops under vmap -----------------------------------------------------------------------------


def rounds(n, step, *args):
    """So many rounds of a step."""
    return lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, *step(*s[1:])), (n, *args))[1:]


def falling(n, x, y):
    """Rows whose logarithm is taken, a bad one after some rounds."""
    return rounds(n, lambda x: (jnp.log(x) * y,), x)[0]


def lengths(*shape):
    return np.random.default_rng(0).integers(1, 4, shape).astype(np.int32)


@pytest.mark.parametrize("size, total", [(1, 4), (1, 100), (7, 5), (7, 100), (3000, 20)])
def test_the_element_of_a_batch_is_named(size, total):
    n, x = lengths(total), np.full((total, size), 1000, np.float32)
    n[total // 2], y = 9, np.full(size, 0.9, np.float32)
    x = x[:, 0] if size == 1 else x
    function = jax.jit(jax.vmap(falling, (0, 0, None)))
    got = error_of(FloatingPointError, function, n, x, y[0] if size == 1 else y)
    where = "" if size == 1 else " at [0]"
    assert got.startswith(f"log made nan{where}: log(-0.72"), got
    assert f"; element {total // 2} of the batch; iteration 4 of the loop at test_loops.py" in got


def test_the_element_of_two_batches_is_named():
    n, x, y = lengths(6, 4), np.full((4, 6, 5), 1000, np.float32), np.full((6, 5), 0.9, np.float32)
    n[3, 2] = 9
    x[2, 3, 4] = 0.1  # a NaN earlier than in other places
    function = jax.jit(jax.vmap(jax.vmap(falling, (0, 0, None)), (0, 1, 0)))
    got = error_of(FloatingPointError, function, n, x, y)
    assert got.startswith("log made nan at [4]: log(-2.07"), got
    assert "; element [3, 2] of the batch; iteration 1 of the loop" in got


def test_other_failures_in_a_batch():
    table = jnp.array([5, 4, 3, 2])

    def walk(i):
        return lax.while_loop(lambda i: table[i] > 0, lambda i: i + 1, i)

    got = error_of(IndexError, jax.jit(jax.vmap(walk)), np.arange(4, dtype=np.int32))
    assert "index 4 for axis 0 of size 4" in got
    assert "; element 0 of the batch; iteration 4 of the loop" in got

    def double(n, x):
        return rounds(n, lambda x: (x * 2,), x)[0]

    n = np.full(50, 3, np.int32)
    n[31] = 40
    got = error_of(OverflowError, jax.jit(jax.vmap(double)), n, np.ones(50, np.int32))
    assert "mul overflowed int32: 1073741824 * 2" in got
    assert "; element 31 of the batch; iteration 30 of the loop" in got
    n[31] = 70
    with jax.enable_x64(True):
        got = error_of(OverflowError, jax.jit(jax.vmap(double)), n, np.ones(50, np.int64))
    assert "mul overflowed int64: 4611686018427387904 * 2" in got
    assert "; element 31 of the batch; iteration 62 of the loop" in got


def test_loops_and_branches_inside_of_a_batch():
    def inner(n, x):
        def step(x):
            y = lax.scan(lambda c, i: (jnp.sqrt(c - i), None), x, jnp.arange(3.0))[0]
            return (lax.cond(y[0] > 0, lambda y: y * 400, lambda y: y, y) + 2,)

        return rounds(n, step, x)[0]

    def outer(n, x):
        return lax.scan(lambda c, _: (jax.vmap(inner)(n, c), None), x, None, length=2)[0]

    n, x = lengths(30), np.full((30, 3), 100, np.float32)
    with jax.checks():
        found = jax.jit(outer)(n, x)
    np.testing.assert_array_equal(found, jax.jit(outer)(n, x))
    x[17] = 1
    got = error_of(FloatingPointError, jax.jit(outer), n, x)
    assert got.startswith("sqrt made nan at [0]: sqrt(-2)"), got
    first, batch, loop, last = got.split("; ")[1:]
    assert first.startswith("iteration 0 of the loop at") and batch == "element 17 of the batch"
    assert loop.startswith("iteration 0 of") and last.startswith("iteration 2 of")


def test_elements_that_get_nans_go_on_and_others_raise():
    n, x = lengths(40), np.full((40, 5), 1000, np.float32)
    x[3], y = np.nan, np.full(5, 0.9, np.float32)
    function = jax.jit(jax.vmap(falling, (0, 0, None)))
    with jax.checks():
        assert np.isnan(function(n, x, y)[3]).all()
    n[20] = 9
    got = error_of(FloatingPointError, function, n, x, y)
    assert "log(-0.72" in got and "; element 20 of the batch" in got


@pytest.mark.parametrize("shape", [(500,), (500, 20), (20, 5000)])
def test_batches_run_each_element_no_longer_than_it_needs(shape):
    """With checks, too: elements one by one, or numbers in blocks that are filled again."""
    n, x = lengths(shape[0]), np.random.default_rng(1).random(shape, np.float32) + 2
    square = lambda x: jnp.sum(x * x) if x.ndim else x * x
    step = lambda x: (jnp.log(x) + 1 / (1 + square(x)) + 2,)
    function = lambda n, x: jax.vmap(lambda n, x: rounds(n, step, x)[0])(n, x)
    with jax.checks():
        checked = stopping(jax.make_jaxpr(function)(n, x), asked())
        texts = [str(text) for text, _ in target.Cpu().assemble(checked).codes]
        found = jax.jit(lambda *args: function(*args))(n, x)
    if len(shape) == 1:
        assert any("label %refill" in text for text in texts)
    else:
        names = [eqn.primitive.name for eqn in simplify(checked, target=target.Cpu()).eqns]
        assert "scan" in names and "while" not in names
    np.testing.assert_array_equal(found, jax.jit(function)(n, x))


def test_values_on_the_way_to_a_result_have_memory():
    """A loop inside writes its result where that of the round belongs, which is made in place."""

    def one(n, x):
        def step(y, mean, count):
            y = y + 0.1
            y = y / (1 + jnp.sqrt(jnp.sum(y * y)))
            y = lax.fori_loop(0, 3, lambda i, v: v * 0.9 + i, y)
            return y, mean + jnp.mean(y), count + 1

        return rounds(n, step, x, jnp.float32(0.5), jnp.int32(0))

    n, x = np.full(5000, 7, np.int32), np.random.default_rng(1).random(5000, np.float32)
    with jax.checks():
        found = jax.jit(lambda *args: jax.vmap(one)(*args))(n, x)
    for got, want in zip(found, jax.jit(jax.vmap(one))(n, x), strict=True):
        np.testing.assert_array_equal(got, want)
