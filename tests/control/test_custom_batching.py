"""custom_vmap: rules under nestings with the other transformations, and their errors."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import debug, lax
from weft.custom_batching import custom_vmap, sequential_vmap

X = np.arange(3, dtype=np.float32)


def total(x):
    return lax.reduce_sum(x, tuple(range(x.ndim)))


def make():
    seen = []

    @custom_vmap
    def f(x, y):
        return jnp.sin(x) * y

    @f.def_vmap
    def rule(axis_size, in_batched, x, y):
        seen.append((axis_size, list(in_batched)))
        return jnp.sin(x) * y + 10, in_batched[0] or in_batched[1]

    return f, seen


@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit])
def test_rule_is_used_under_vmap_only(wrap):
    f, seen = make()
    np.testing.assert_allclose(wrap(f)(X, X), np.sin(X) * X, rtol=1e-6)
    assert seen == []
    out = weft.vmap(wrap(f), in_axes=(0, None))(X, np.float32(2.0))
    np.testing.assert_allclose(out, np.sin(X) * 2 + 10, rtol=1e-6)
    assert seen == [(3, [True, False])]


def test_batch_dimension_is_in_front():
    @custom_vmap
    def f(x):
        return x

    @f.def_vmap
    def rule(axis_size, in_batched, x):
        assert x.shape == (3, 2)
        return x, True

    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(weft.vmap(f, in_axes=1)(x), x.T)


def test_derivatives_of_function_and_rule():
    f, _ = make()
    _, tangent = weft.jvp(lambda x: f(x, X), (X,), (np.ones_like(X),))
    np.testing.assert_allclose(tangent, np.cos(X) * X, rtol=1e-6)
    g = weft.vmap(f, in_axes=(0, None))
    out, tangent = weft.jvp(lambda x: g(x, np.float32(2.0)), (X,), (np.ones_like(X),))
    np.testing.assert_allclose(out, np.sin(X) * 2 + 10, rtol=1e-6)
    np.testing.assert_allclose(tangent, np.cos(X) * 2, rtol=1e-6)
    np.testing.assert_allclose(weft.grad(lambda x: total(f(x, X)))(X), np.cos(X) * X, rtol=1e-6)


def test_vmap_of_jvp_uses_the_derivative_of_the_rule():
    f, seen = make()

    def push(x, dx):
        return weft.jvp(lambda x: f(x, np.float32(2.0)), (x,), (dx,))

    for tangent_axis, dx in ((0, np.ones_like(X)), (None, np.float32(1.0))):
        out, tangent = weft.vmap(push, in_axes=(0, tangent_axis))(X, dx)
        np.testing.assert_allclose(out, np.sin(X) * 2 + 10, rtol=1e-6)
        np.testing.assert_allclose(tangent, np.cos(X) * 2, rtol=1e-6)
    # as JAX: to the rule an operand is batched where its tangent is too
    assert seen == [(3, [True, False]), (3, [False, False])]


def test_trees():
    @custom_vmap
    def f(tree):
        return {"out": tree["a"] + tree["b"][0]}

    @f.def_vmap
    def rule(axis_size, in_batched, tree):
        assert in_batched == [{"a": True, "b": [False]}]
        return {"out": tree["a"] * tree["b"][0]}, {"out": True}

    out = weft.vmap(f, in_axes=({"a": 0, "b": [None]},))({"a": X, "b": [np.float32(5.0)]})
    np.testing.assert_array_equal(out["out"], 5 * X)


def test_sequential_vmap():
    seen = []

    @sequential_vmap
    def f(x, y):
        debug.callback(lambda v: seen.append(float(v)), x)
        return x + y

    out = weft.vmap(f, in_axes=(0, None))(X, np.float32(1.0))
    np.testing.assert_array_equal(out, X + 1)
    assert seen == [0.0, 1.0, 2.0]


def wrong(rule):
    f = custom_vmap(lambda x: x)
    if rule is not None:
        f.def_vmap(rule)
    return lambda: weft.vmap(f)(X)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (wrong(None), AttributeError, "no batching rule"),
        (wrong(lambda n, b, x: x), TypeError, "must return a pair"),
        (wrong(lambda n, b, x: (x, (True,))), ValueError, "one structure"),
        (wrong(lambda n, b, x: ((x,), (True,))), ValueError, "structure that the function"),
    ],
)
def test_wrong_rules_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call()
