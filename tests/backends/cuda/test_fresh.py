"""Scatters into zeros: no copies of these."""

import numpy as np
import pytest

import weft
from tests.backends.cuda import planned
from weft import numpy as jnp
from weft.backends.cuda import commands
from weft.backends.cuda.passes.fresh import fresh
from weft.core.jaxpr import eval_jaxpr
from weft.core.verify import check_jaxpr

NUMBERS = np.arange(5000, dtype=np.int32) % 700


def one(i, x):
    return weft.ops.segment_sum(x[i], i, 800)


def two(i, x):
    return jnp.sqrt(weft.ops.segment_sum(jnp.ones(i.shape), i, 800))[:, None] * one(i, x)


def repeated(i, x):
    return one(i, jnp.sin(one(i, x)))


def gradient(i, x):
    return weft.grad(lambda x: jnp.sum(repeated(i, x) ** 2))(x)


def extremes(i, x):
    return weft.ops.segment_max(x[i], i, 800) - weft.ops.segment_min(x[i], i, 800)


@pytest.mark.parametrize("program", [one, two, repeated, gradient, extremes])
def test_zeros_are_not_copied(monkeypatch, program):
    x = np.random.default_rng(0).normal(size=(800, 4)).astype("f")
    closed = weft.make_jaxpr(program)(NUMBERS, x)
    after = fresh(closed)
    check_jaxpr(after)
    for found, expected in zip(
        eval_jaxpr(after.jaxpr, after.consts, NUMBERS, x),
        eval_jaxpr(closed.jaxpr, closed.consts, NUMBERS, x),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)
    planned.install(monkeypatch)
    made = planned.planned(program, NUMBERS, x).commands
    assert not [c for c in made if isinstance(c, commands.Moved)]


def test_an_operand_that_is_needed_is_copied(monkeypatch):
    planned.install(monkeypatch)
    x = np.ones((800, 4), "f")
    function = lambda i, x, u: (y := x * 2, y.at[i].add(u))
    made = planned.planned(function, NUMBERS, x, np.ones((5000, 4), "f")).commands
    (copy,) = (c for c in made if isinstance(c, commands.Moved))
    assert copy.target != copy.source
