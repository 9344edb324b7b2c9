"""Checks of large results that look at the sizes of smaller operands first."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.compiler.checks import ranges
from weft.compiler.checks.flow import Flow

ROWS, SIZE = 16, 256


def step(w, x, y):
    error = jnp.tanh(x @ w) - y
    return w - 0.1 * (x.T @ error)


def arguments(scale=1.0):
    random = np.random.default_rng(0)
    shapes = (SIZE, SIZE), (ROWS, SIZE), (ROWS, SIZE)
    w, x, y = [jnp.asarray(random.standard_normal(s, np.float32)) for s in shapes]
    return w, x * scale, y * scale


def test_weights_are_excused_by_the_operands_of_their_gradient():
    jaxpr = weft.make_jaxpr(step)(*arguments()).jaxpr
    flow = Flow(jaxpr)
    ((v, leaves),) = ranges.excused(flow).items()
    assert v is jaxpr.outvars[0]
    assert jaxpr.invars[1] in leaves and len(leaves) == 2


@pytest.mark.parametrize("other", [
    lambda w, x, y: w / (x.T @ y),  # 0 / 0
    lambda w, x, y: w * (x.T @ y),  # an infinity in w times zero
    lambda w, x, y: w - (x.T @ y) - 2 * w,  # an infinity in w less itself
    lambda w, x, y: jnp.sqrt(w) - x.T @ y,
    lambda w, x, y: w - 0.0 * w,
])  # fmt: skip
def test_what_can_make_a_nan_of_usual_numbers_or_arguments_is_not_excused(other):
    jaxpr = weft.make_jaxpr(other)(*arguments()).jaxpr
    assert jaxpr.outvars[0] not in ranges.excused(Flow(jaxpr))


def test_results_are_the_same_with_operands_in_and_out_of_the_usual_range():
    for scale in (1.0, 1e8):
        args = arguments(scale)
        with weft.checks(nan=True):
            checked = weft.jit(step)(*args)
        np.testing.assert_array_equal(checked, weft.jit(step)(*args))


def test_a_product_that_makes_a_nan_of_an_infinity_is_named():
    w, x, y = arguments()
    x, y = x.at[3, 5].set(jnp.inf), y.at[3, 7].set(0.0)
    with weft.checks(nan=True), pytest.raises(FloatingPointError, match="dot_general made nan"):
        weft.jit(lambda w, x, y: w - 0.1 * (x.T @ y))(w, x, y)


def test_nan_in_arguments_is_no_mistake():
    w, x, y = arguments()
    with weft.checks(nan=True):
        f = weft.jit(step)
        assert np.isnan(f(w.at[0, 0].set(jnp.nan), x, y)).any()
        assert np.isnan(f(w, x.at[0, 0].set(jnp.nan), y)).all(1).any()


def test_a_nan_beside_large_numbers_is_found():
    w, x, y = arguments()

    def f(w, x, y):
        error = jnp.log(y) * 1e9
        return w - 0.1 * (x.T @ error)

    with weft.checks(nan=True), pytest.raises(weft.errors.NaNCheckError, match="log made nan"):
        weft.jit(f)(w, x, y)
