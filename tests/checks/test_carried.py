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
