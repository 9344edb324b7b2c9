"""A NaN that is passed into a loop or branch hides none that an operation there makes."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.base.checking import asked
from weft.compiler.checks import rounds
from weft.compiler.checks.instrument import flat, telling
from weft.core.jaxpr import jaxpr_as_fun

NAN = np.float32(np.nan)
SHORT = jnp.arange(6.0)


def scanned(x, y):
    """``x`` is passed on, and ``y`` goes down until it is negative."""
    return lax.scan(lambda c, i: ((c[0] * 1.5, jnp.sqrt(c[1] - 1)), c[0] + c[1]), (x, y), SHORT)


def one_value(x, y):
    """What is passed in and what is made meet in each element."""
    return lax.scan(lambda c, i: (c + jnp.sqrt(y - i), c), x, SHORT)


def repeated(x, y):
    going = lambda s: s[2] < 6
    step = lambda s: (s[0] + jnp.log(s[1]), s[1] - 1, s[2] + 1)
    return lax.while_loop(going, step, (x, y, 0))[:2]


def counted(x, y):
    return lax.fori_loop(0, 6, lambda i, c: (c[0] * c[1], jnp.sqrt(c[1] - 1)), (x, y))


def branched(x, y):
    return lax.cond(x < 2, lambda x, y: x, lambda x, y: x + jnp.sqrt(y), x, y - 20)


def nested(x, y):
    inner = lambda c, j: ((c[0] + 1, jnp.sqrt(c[1] - j)), c[0])
    return lax.scan(lambda c, i: lax.scan(inner, c, jnp.arange(3.0)), (x, y), SHORT)


def in_a_branch(x, y):
    """Branches in a loop, a product, and a value that is compared."""

    def step(c, i):
        x, y = c
        z = lax.cond(i < 3, lambda y: y, lambda y: jnp.log(y - 90), y)
        return (x + (x > z), y - 1), jnp.outer(jnp.ones(2) * z, jnp.ones(3)).sum() + x

    return lax.scan(step, (x, y), SHORT)


PROGRAMS = {
    scanned: "sqrt made nan", one_value: "sqrt made nan", repeated: "log made nan",
    counted: "sqrt made nan", branched: "sqrt made nan", nested: "sqrt made nan",
    in_a_branch: "log made nan",
}  # fmt: skip
BAD, FINE = np.float32(9), np.float32(1e30)
# Of values that go down and up again, these make a NaN in some round.
STARTS = {
    one_value: (np.float32(3), FINE),
    repeated: (np.float32(3.5), FINE),
    nested: (BAD, np.float32(np.inf)),
}


def starts(f):
    return STARTS.get(f, (BAD, FINE))


def stopped(f, *args):
    """The error of a compiled call, or None."""
    with weft.checks():
        try:
            weft.jit(f)(*args)
        except FloatingPointError as error:
            return error


def told(f, *args):
    """The error of a program that says which check has failed, as those of devices do, or None."""
    closed = weft.make_jaxpr(f)(*args)
    with weft.checks():
        made, culprit = telling(closed, asked())
    *_, numbers = weft.jit(jaxpr_as_fun(made))(*weft.tree.leaves(args))
    given = [np.asarray(x) for x in [*flat(closed).consts, *weft.tree.leaves(args)]]
    return culprit.error([np.asarray(numbers), *given]) if numbers[0] else None


@pytest.mark.sampled(2)
@pytest.mark.parametrize("error_of", [stopped, told])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_what_an_operation_makes_is_reported(f, error_of):
    bad, fine = starts(f)
    error = error_of(f, NAN, bad)
    assert str(error).startswith(PROGRAMS[f]), error
    assert "test_hidden.py" in str(error)
    assert ("iteration" in str(error)) == (f is not branched), error
    assert str(error) == str(error_of(f, NAN, bad))
    assert error_of(f, NAN, fine) is None


@pytest.mark.sampled(2)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_elements_of_a_batch_hide_none_of_others(f):
    bad, fine = starts(f)
    x = np.array([NAN, 1, NAN], np.float32)
    error = stopped(weft.vmap(f), x, np.array([fine, bad, fine]))
    if f is branched:  # only for numbers that aren't below 2
        error = stopped(weft.vmap(f), x, np.array([fine, fine, bad]))
    assert str(error).startswith(PROGRAMS[f]), error
    assert stopped(weft.vmap(f), x, np.array([fine] * 3)) is None


def test_other_checks_are_not_hidden():
    table = np.ones(5, np.float32)
    past = weft.jit(lambda x, t: lax.fori_loop(0, 6, lambda i, c: c * t[i], x))
    with weft.checks(), pytest.raises(IndexError, match=r"index 5 (?s:.*)iteration 5"):
        past(NAN, table)
    parts = weft.jit(lambda x, n: lax.fori_loop(0, 6, lambda i, c: (c[0] * 2, 12 // (n - i)), x))
    with weft.checks(), pytest.raises(ZeroDivisionError, match=r"12 // 0(?s:.*)iteration 3"):
        parts((NAN, 0), 3)


def test_what_where_discards_is_no_mistake_beside_a_given_nan():
    step = lambda c, i: (c + jnp.where(c[1] > i, jnp.sqrt(c[1] - i), 0.0), c[::-1])
    f = lambda v: lax.scan(step, v, SHORT)
    assert stopped(f, np.array([NAN, 2.5], np.float32)) is None
    moved = lambda v: lax.scan(lambda c, i: (jnp.sqrt(c)[1:].sum() + c, c.max()), v, SHORT)
    assert stopped(moved, np.array([-1, 2, NAN], np.float32)) is None  # nobody reads the first


def test_arrays_keep_their_elements_apart():
    def f(v, w):
        return lax.scan(lambda c, i: (c, jnp.log(c - i) @ w), v, jnp.arange(3.0))

    v, w = np.full((4, 3), 9, np.float32), np.ones((3, 2), np.float32)
    v[0, 1] = NAN
    assert stopped(f, v, w) is None
    v[2, 1] = 1.5
    error = stopped(f, v, w)
    assert "log made nan at [2, 1]: log(-0.5)" in str(error) and "iteration 2" in str(error)


def test_calls_with_missing_values_replay_no_rounds(monkeypatch):
    """Observations that are NaN, as in filters with missing data."""
    monkeypatch.setattr(rounds, "MAX_REPLAYED", 0)

    def f(ys):
        step = lambda m, y: (jnp.where(jnp.isnan(y), m, 0.9 * m + 0.1 * y), m + y)
        return lax.scan(step, 0.0, ys)

    ys = np.array([1.0, NAN, 3.0], np.float32)
    run = weft.jit(f)
    wanted = run(ys)
    with weft.checks():
        for _ in range(3):
            np.testing.assert_array_equal(run(ys)[1], wanted[1])
