"""Bad numbers that a loop carries: no mistake where ``where`` discards them behind the loop, and a
mistake where anything else reads them."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax

X = np.array([-1.0, 0.5, 4.0], np.float32)


def ok(x):
    return x > 0


def anything(x):
    return x > -5


def while_loop(step, x):
    return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, step(s[1])), (0, x))[1]


def several(x, good):
    """Two parts of a carry, of which one is computed from the other."""

    def step(c, _):
        logs, kept = c
        return (jnp.log(x) + logs * 0, jnp.where(good(x), logs, 0.0)), kept.sum()

    return lax.scan(step, (x, x), None, length=3)[1]


PROGRAMS = {
    "behind fori_loop": lambda x, good: jnp.where(
        good(x), lax.fori_loop(0, 3, lambda i, c: jnp.sqrt(c), x), 0.0
    ),
    "behind while_loop": lambda x, good: jnp.where(good(x), while_loop(jnp.sqrt, x), 0.0),
    "next iteration": lambda x, good: lax.scan(
        lambda c, _: (jnp.log(x), jnp.where(good(x), c, 0.0).sum()), x, None, length=3
    )[1],
    "both": lambda x, good: jnp.where(
        good(x),
        lax.scan(lambda c, _: (jnp.log(x) + jnp.where(good(x), c, 0.0), None), x, length=3)[0],
        0.0,
    ),
    "several": several,
}


DISCARDED = ["behind fori_loop", "behind while_loop", "both"]


@pytest.mark.parametrize("name", DISCARDED)
def test_discarded_carries(name):
    f = PROGRAMS[name]
    with weft.checks():
        found = np.asarray(weft.jit(lambda x: f(x, ok))(X))
        slopes = np.asarray(weft.jit(weft.jacfwd(lambda x: f(x, ok)))(X))
    assert np.isfinite(found).all() and np.isfinite(slopes).all()


@pytest.mark.parametrize("name", PROGRAMS)
def test_carries_that_are_taken(name):
    f = PROGRAMS[name]
    with weft.checks(), pytest.raises(FloatingPointError):
        weft.jit(lambda x: f(x, anything))(X)


def test_what_a_predicate_reads_counts():
    def f(x):
        last = lax.while_loop(lambda c: c.sum() < 9, lambda c: jnp.log(c), x)
        return jnp.where(x > 0, last, 0.0)

    with weft.checks(), pytest.raises(FloatingPointError, match="log made nan"):
        weft.jit(f)(X)


def test_a_comparison_in_the_next_iteration_counts():
    def f(x):
        return lax.scan(lambda c, _: (jnp.log(x), (c > 0).sum()), x, None, length=3)[1]

    with weft.checks(), pytest.raises(FloatingPointError, match="log made nan"):
        weft.jit(f)(X)


# --- what a later round discards, or takes --------------------------------------------------------


def next_round(x, good):
    return lax.scan(lambda c, _: (jnp.log(x), jnp.where(good(x), c, 0.0).sum()), x, None, length=3)[
        1
    ]


def and_the_last(x, good):
    """The last value is a result, too; those before it are discarded."""

    def step(c, t):
        used = jnp.where(good(x), c, 0.0)
        return jnp.log(jnp.where(t > 2, 1.0, x)), used

    return lax.scan(step, x, jnp.arange(4))


def fori_loop(x, good):
    def body(i, s):
        total, root = s
        return total + jnp.where(good(x), root, 0.0), jnp.sqrt(x)

    return lax.fori_loop(0, 3, body, (x * 0, x))[0]


def while_later(x, good):
    def body(s):
        i, total, root = s
        return i + 1, total + jnp.where(good(x), root, 0.0), jnp.sqrt(x)

    return lax.while_loop(lambda s: s[0] < 3, body, (0, x * 0, x))[1]


def two_rounds_later(x, good):
    def step(c, _):
        first, second = c
        return (second, jnp.sqrt(x)), jnp.where(good(x), first, 0.0).sum()

    return lax.scan(step, (x, x), None, length=4)[1]


def nested(x, good):
    def outer(c, _):
        def inner(d, _):
            used = jnp.where(good(x), d, 0.0)
            return jnp.log(x) + used, used.sum()

        d, sums = lax.scan(inner, c, None, length=2)
        return jnp.where(good(x), d, 0.0), sums.sum()

    return lax.scan(outer, x, None, length=3)[1]


def of_a_branch(x, good):
    def step(c, t):
        used = jnp.where(good(x), c, 0.0)
        return lax.cond(t > 0, jnp.log, jnp.sqrt, x), used.sum()

    return lax.scan(step, x, jnp.arange(3), length=3)[1]


def before_the_loop(x, good):
    logs = jnp.log(x)
    return lax.scan(lambda c, _: (c, jnp.where(good(x), c, 0.0).sum()), logs, None, length=2)[1]


def constant_of_the_loop(x, good):
    logs = jnp.log(x)
    step = lambda c, _: (c + jnp.where(good(x), logs, 0.0).sum(), None)
    return lax.scan(step, 0.0, None, length=3)[0]


def of_batch(f):
    return lambda x, good: weft.vmap(lambda v: f(v[None], good))(x)


LATER = {
    "scan": next_round,
    "last value": and_the_last,
    "fori_loop": fori_loop,
    "while_loop": while_later,
    "two rounds": two_rounds_later,
    "nested": nested,
    "branch": of_a_branch,
    "before": before_the_loop,
    "constant": constant_of_the_loop,
    "vmap of scan": of_batch(next_round),
    "vmap of while_loop": of_batch(while_later),
}


@pytest.mark.parametrize("name", LATER)
def test_later_rounds_discard(name):
    f = LATER[name]
    want = weft.jit(lambda x: f(x, ok))(X)
    with weft.checks():
        found = weft.jit(lambda x: f(x, ok))(X)
        slopes = weft.jit(weft.grad(lambda x: f(x, ok)[-1].sum()))(X) if name == "scan" else 0.0
    for a, b in zip(weft.tree.leaves(found), weft.tree.leaves(want), strict=True):
        assert np.isfinite(np.asarray(a)).all() and np.array_equal(a, b)
    assert np.isfinite(np.asarray(slopes)).all()


@pytest.mark.parametrize("name", LATER)
@pytest.mark.parametrize("given", [0.0, np.nan])
def test_later_rounds_take(name, given):
    """The error names the operation, also if other elements were given as NaN."""
    f = LATER[name]
    if np.isnan(given) and name.startswith("vmap"):
        return  # its elements are loops of their own
    x = np.where(X > 1, given or X, X).astype(np.float32)
    with weft.checks(), pytest.raises(FloatingPointError, match=r"(log|sqrt) made nan.*\(-1\)"):
        weft.jit(lambda x: f(x, anything))(x)


def test_the_round_that_made_it():
    def step(c, t):
        return jnp.log(2.5 - t), jnp.where(t == 4, c, 0.0)

    f = weft.jit(lambda: lax.scan(step, 0.0, jnp.arange(6.0))[1])
    with weft.checks(), pytest.raises(FloatingPointError) as caught:
        f()
    assert "log made nan: log(-0.5)" in str(caught.value)
    assert "iteration 3 of the loop" in str(caught.value)
    last = weft.jit(lambda: lax.scan(step, 0.0, jnp.arange(6.0))[0])
    with weft.checks(), pytest.raises(FloatingPointError, match="iteration 5 of the loop"):
        last()


def test_indices_and_divisors_of_a_later_round():
    """A value that the next round takes was computed by a mistake."""

    def step(c, t):
        return table[t + 3], jnp.where(t > 0, c, 0.0)

    def halves(c, t):
        return 1.0 / (t - 1.0), jnp.where(t > 1, c, 0.0)

    table = jnp.arange(5.0)
    with weft.checks(), pytest.raises(IndexError):
        weft.jit(lambda: lax.scan(step, 0.0, jnp.arange(4))[1])()
    with weft.checks(), pytest.raises(ZeroDivisionError):
        weft.jit(lambda: lax.scan(halves, 0.0, jnp.arange(4.0))[1])()
