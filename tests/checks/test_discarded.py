"""What where discards is no mistake, behind library operations and loops and in gradients, too;
what it takes is reported where it was made."""

import inspect

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.control.test_where_gradients import CLASSICS
from weft import lax

X = np.array([-1.0, 2.0, 5.0], np.float32)


def scanned(f):
    return lambda x: lax.scan(lambda c, s: (c + f(x * s), c), 0.0, jnp.ones(2))[0]


def carried(f):
    return lambda x: lax.scan(lambda c, s: (c, f(c)), x, jnp.ones(2))[1].sum()


def branched(f):
    return lambda x: lax.cond(x.sum() > -1e9, f, lambda x: 0.0 * x.sum(), x)


WRAPS = [lambda f: f, scanned, carried, branched, weft.checkpoint]
# Values that go round in a loop, and that other elements of a row are computed from, are looked at.
LOOKED_AT = ("loop", "power_spectrum", "tokens_without_loss", "deviation", "bfloat16")
NAMES = [name for name in CLASSICS if name not in LOOKED_AT]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("wrap", range(len(WRAPS)))
@pytest.mark.parametrize("name", NAMES)
def test_right_gradients_raise_no_alarm(name, wrap):
    f, x, _ = CLASSICS[name]
    gradient = weft.jit(weft.grad(WRAPS[wrap](f)))
    wanted = np.asarray(gradient(x))
    if not np.isfinite(wanted).all():
        return  # as of a loop around a sum of infinities
    with weft.checks():
        np.testing.assert_allclose(gradient(x), wanted, 1e-4, 1e-6)


def rounds(x):
    return lax.scan(lambda c, v: (c, jnp.sqrt(v - 1) * 2), 0.0, x)[1]


def twice(x):
    return lax.scan(lambda c, i: (c, rounds(x) + i), 0.0, jnp.arange(2.0))[1].sum(0)


def branch(x):
    return lax.cond(x.sum() > 0, lambda x: jnp.sqrt(x), lambda x: x, x)


def product(x):
    return (jnp.sqrt(x)[:, None] * jnp.ones((3, 3))) @ jnp.ones(3)


def factor(x):
    return jnp.linalg.cholesky(jnp.eye(3) * x).sum(1)


def ordered(x):
    return jnp.sort(jnp.log(x))[::-1]


@pytest.mark.parametrize(
    ("f", "told", "depth"),
    [
        (rounds, "sqrt made nan: sqrt(-2)", 1),
        (twice, "sqrt made nan: sqrt(-2)", 2),
        (branch, "sqrt made nan at [0]: sqrt(-1)", 0),
        (product, "sqrt made nan at [0]: sqrt(-1)", 0),
        (factor, "cholesky made nan at [0, 0]: cholesky(", 0),
        (ordered, "log made nan at [0]: log(-1)", 0),
    ],
)
def test_what_is_taken_is_found_where_it_was_made(f, told, depth):
    none = weft.jit(lambda x: jnp.where(x > 1e9, f(x), 0.0))
    some = weft.jit(lambda x: jnp.where(x < 1e9, f(x), 0.0))
    with weft.checks():
        np.testing.assert_array_equal(none(X), np.zeros(3))
        with pytest.raises(FloatingPointError) as caught:
            some(X)
    error = str(caught.value).split("\n")[0]
    assert error.startswith(told), error
    assert error.count("iteration") == depth, error
    lines, first = inspect.getsourcelines(f)
    assert any(f"test_discarded.py:{first + i}" in error for i in range(len(lines))), error
