"""The whole product in a few seconds: run it before every commit."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.base import knobs


def test_numpy_on_arrays():
    x = jnp.arange(6.0).reshape(2, 3)
    assert (x @ x.T).tolist() == [[5.0, 14.0], [14.0, 50.0]]
    assert jnp.sum(x, axis=0).tolist() == [3.0, 5.0, 7.0]
    assert x[0, ::-1].tolist() == [2.0, 1.0, 0.0]
    assert x.at[0, 0].set(9.0)[0, 0] == 9.0
    assert (x.dtype, (x + 1).dtype, (x > 1).dtype) == (np.float32, np.float32, np.bool_)


def test_transformations_nest():
    def f(x):
        return jnp.sum(jnp.sin(x) ** 2)

    x = jnp.arange(3.0)
    expected = np.sin(2 * np.arange(3))
    for derivative in (
        weft.grad(f),
        weft.jit(weft.grad(f)),
        weft.grad(weft.jit(f)),
        weft.grad(weft.checkpoint(f)),
        lambda v: weft.vjp(f, v)[1](1.0)[0],
        weft.jacfwd(f),
        lambda v: weft.vmap(weft.grad(lambda s: jnp.sin(s) ** 2))(v),
    ):
        np.testing.assert_allclose(derivative(x), expected, atol=1e-6)
    hessian = weft.hessian(f)(x)
    np.testing.assert_allclose(hessian, np.diag(2 * np.cos(2 * np.arange(3))), atol=1e-5)


def test_jit_runs_python_once_for_each_type():
    calls = []

    @weft.jit
    def f(x):
        calls.append(1)
        return x * 2

    f(1.0), f(2.0), f(jnp.ones(3)), f(jnp.zeros(3))
    assert len(calls) == 2


def test_programs_print():
    text = "{ lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = mul b a in (c,) }"
    assert str(weft.make_jaxpr(lambda x: jnp.sin(x) * x)(1.0)) == text


def test_control_flow():
    assert lax.cond(True, lambda x: x + 1, lambda x: x - 1, 1.0) == 2.0
    assert lax.fori_loop(0, 5, lambda i, x: x + i, 0) == 10
    assert lax.while_loop(lambda x: x < 10, lambda x: x * 2, 1) == 16
    total, running = lax.scan(lambda c, x: (c + x, c), 0.0, jnp.arange(4.0))
    assert (float(total), running.tolist()) == (6.0, [0.0, 0.0, 1.0, 3.0])
    power = weft.grad(lambda x: lax.fori_loop(0, 3, lambda i, y: y * x, 1.0))
    assert power(2.0) == 12.0


def test_random_numbers_are_jaxs():
    key = weft.random.key(0)
    np.testing.assert_array_equal(
        weft.random.uniform(key, (3,)), np.float32([0.947667, 0.9785799, 0.33229148])
    )
    assert weft.random.key_data(weft.random.split(key)[0]).tolist() == [1797259609, 2579123966]


def test_custom_rules():
    @weft.custom_jvp
    def f(x):
        return jnp.sin(x)

    f.defjvp(lambda p, t: (f(*p), 7.0 * t[0]))

    @weft.custom_vjp
    def g(x):
        return x * x

    g.defvjp(lambda x: (g(x), x), lambda x, ct: (ct * 5.0,))
    assert weft.grad(f)(1.0) == 7.0
    assert weft.jit(weft.grad(g))(1.0) == 5.0


def test_trees_and_training():
    def predict(params, x):
        for w, b in params:
            x = jnp.tanh(x @ w + b)
        return x

    key = weft.random.key(1)
    params = [(weft.random.normal(key, (4, 4)) * 0.5, jnp.zeros(4)) for _ in range(2)]
    x = weft.random.normal(weft.random.key(2), (16, 4))
    y = jnp.sin(x)

    @weft.jit
    def step(params):
        value, grads = weft.value_and_grad(lambda p: jnp.mean((predict(p, x) - y) ** 2))(params)
        return value, weft.tree.map(lambda p, g: p - 0.2 * g, params, grads)

    first, params = step(params)
    for _ in range(20):
        last, params = step(params)
    assert last < 0.7 * first


def test_errors_say_what_to_write():
    with pytest.raises(weft.errors.TracerBoolConversionError, match=r"jnp\.where"):
        weft.jit(lambda x: x if x > 0 else -x)(1.0)
    with pytest.raises(TypeError, match="scalar output"):
        weft.grad(lambda x: x)(jnp.ones(3))
    with pytest.raises(TypeError, match=r"\.at\["):
        jnp.ones(3)[0] = 1.0


def test_native_code_agrees_with_the_interpreter():
    x = np.random.default_rng(0).standard_normal((5, 33)).astype(np.float32)

    def f(x):
        centred = x - jnp.mean(x, 1, keepdims=True)
        return centred / (jnp.max(jnp.abs(x), 1, keepdims=True) + 1), jnp.sum(x * x, 0)

    expected = weft.jit(f)(x)
    with knobs.scope(backend="native"):
        got = weft.jit(f)(x)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
