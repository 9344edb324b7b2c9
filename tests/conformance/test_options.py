"""Every option that is accepted has its effect or says that it has none."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.errors import JaxRuntimeError, UnexpectedTracerError


@pytest.fixture
def option():
    """Sets an option for the test and puts it back."""
    old = []

    def set_option(name, value):
        old.append((name, weft.config.read(name)))
        weft.config.update(name, value)

    yield set_option
    for name, value in reversed(old):
        weft.config.update(name, value)


def test_no_tracing_lets_known_types_through_and_refuses_others():
    f = weft.jit(lambda x: x + 1)
    f(1.0)
    with weft.no_tracing():
        assert f(2.0) == 3.0
        assert jnp.ones(3).sum() == 3
        with pytest.raises(RuntimeError, match="no_tracing"):
            f(2)
        with pytest.raises(RuntimeError, match="no_tracing"):
            weft.vmap(f)(np.ones(3))
        with pytest.raises(RuntimeError, match="no_tracing"):
            weft.make_jaxpr(lambda x: x)(1.0)
        with pytest.raises(RuntimeError, match="no_tracing"):
            lax.scan(lambda c, _: (c, c), 1.0, None, length=2)
    assert f(2) == 3


def test_operations_learnt_after_no_tracing_are_native():
    x = jnp.arange(5.0)
    with weft.no_tracing():
        for _ in range(4):
            assert (x + x)[1] == 2
            assert jnp.cumsum(x)[2] == 3
    for _ in range(4):
        assert (x + x)[1] == 2
        assert jnp.cumsum(x)[2] == 3


def test_no_execution_refuses_to_compute_and_lets_trace():
    x = jnp.ones(3)
    f = weft.jit(lambda x: 2 * x)
    for _ in range(3):
        f(x), x + 1, jnp.sin(x)
    with weft.no_execution():
        for compute in (
            lambda: f(x),
            lambda: x + 1,
            lambda: jnp.sin(x),
            lambda: jnp.ones(3),
            lambda: weft.jit(lambda: jnp.ones(3))(),
            lambda: weft.jit(lambda x: x, donate_argnums=0)(x),
            lambda: f.lower(x).compile()(x),
            lambda: lax.scan(lambda c, _: (c, c), x, None, length=2),
        ):
            with pytest.raises(RuntimeError, match="no_execution"):
                compute()
        assert weft.eval_shape(f, x).shape == (3,)
        assert len(weft.make_jaxpr(f)(x).eqns) == 1
        assert weft.device_put(np.ones(2)).shape == (2,)
    assert f(x)[0] == 2


def test_half_sums_are_refused_where_they_are_not_allowed():
    x = jnp.ones(3, jnp.bfloat16)
    with weft.allow_f16_reductions(False):
        with pytest.raises(ValueError, match="allow_f16_reductions"):
            lax.reduce_sum(x, [0])
        with pytest.raises(ValueError, match="allow_f16_reductions"):
            weft.jit(lambda x: lax.reduce_sum(x, [0]))(x.astype(jnp.float16))
        assert jnp.sum(x) == 3  # which adds up in float32
        assert lax.reduce_max(x, [0]) == 1
    assert lax.reduce_sum(x, [0]) == 3


def _wrong_backward():
    f = weft.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, ct: (jnp.ones(5),))
    return f


def test_backward_rules_are_not_checked_where_asked(option):
    with pytest.raises(ValueError, match="types of the arguments"):
        weft.grad(_wrong_backward())(1.0)
    option("jax_disable_bwd_checks", True)
    for transform in (
        weft.grad,
        lambda f: weft.grad(weft.jit(f)),
        lambda f: weft.jit(weft.grad(f)),
    ):
        assert transform(_wrong_backward())(1.0).shape == (5,)


def _closing_over(x):
    @weft.custom_vjp
    def product(y):
        return x * y

    product.defvjp(lambda y: (product(y), None), lambda _, ct: (ct,))
    return product


def test_custom_vjp3_refuses_closed_over_tracers(option):
    np.testing.assert_array_equal(
        weft.vmap(lambda x: _closing_over(x)(3.0))(jnp.arange(3.0)), [0, 3, 6]
    )
    option("jax_custom_vjp3", True)
    for transform in (weft.vmap, weft.jit, lambda f: weft.vmap(weft.grad(f))):
        with pytest.raises(UnexpectedTracerError, match="closes over"):
            transform(lambda x: _closing_over(x)(3.0))(jnp.arange(3.0))
    assert weft.grad(_closing_over(2.0))(1.0) == 1  # the rule's own


def test_cotangents_given_to_rules_are_arrays():
    f = weft.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, ct: (ct.astype(jnp.float32) * 2,))
    assert weft.grad(f)(1.0) == weft.jit(weft.grad(f))(1.0) == 2


def test_unknown_compiler_options_are_refused():
    with pytest.raises(JaxRuntimeError, match="no_such"):
        weft.jit(lambda x: x).lower(1.0).compile(compiler_options={"no_such": 1})
    f = weft.jit(lambda x: x, compiler_options={"no_such": 1})
    f.lower(1.0)
    for call in (f, weft.vmap(f)):
        with pytest.raises(JaxRuntimeError, match="no_such"):
            call(jnp.ones(2))


def test_options_of_xla_are_said_to_do_nothing():
    f = weft.jit(lambda x: x + 1, compiler_options={"xla_cpu_enable_fast_math": True})
    with pytest.warns(UserWarning, match="no effect"):
        assert f(1.0) == 2
    with pytest.warns(UserWarning, match="no effect"), pytest.raises(ValueError, match="outermost"):
        weft.jit(lambda x: f(x))(1.0)
