"""Functions with custom rules that close over mapped values; weak carries; 64-bit leftovers."""

import pytest

import weft
import weft.numpy as jnp
from weft import lax


def with_vjp(x):
    @weft.custom_vjp
    def f(y):
        return x * y

    f.defvjp(lambda y: (x * y, y), lambda y, ct: (ct * x * 10.0,))
    return f


def with_jvp(x):
    @weft.custom_jvp
    def f(y):
        return x * y

    f.defjvp(lambda primals, tangents: (x * primals[0], tangents[0] * x * 10.0))
    return f


@pytest.mark.parametrize("make", [with_vjp, with_jvp])
def test_custom_rule_closes_over_a_mapped_value(make):
    xs = jnp.array([1.0, 2.0, 3.0])
    assert weft.vmap(lambda x: make(x)(2.0))(xs).tolist() == [2.0, 4.0, 6.0]
    assert weft.vmap(lambda x, y: make(x)(y))(xs, xs).tolist() == [1.0, 4.0, 9.0]
    assert weft.vmap(lambda x: weft.grad(make(x))(2.0))(xs).tolist() == [10.0, 20.0, 30.0]
    assert weft.jit(weft.vmap(lambda x: make(x)(2.0)))(xs).tolist() == [2.0, 4.0, 6.0]
    nested = weft.vmap(lambda x: weft.vmap(lambda y: make(x * y)(y))(xs))(xs)
    assert nested.tolist() == [[1.0, 4.0, 9.0], [2.0, 8.0, 18.0], [3.0, 12.0, 27.0]]


@pytest.mark.parametrize("make", [with_vjp, with_jvp])
def test_mapped_value_that_leaked_is_still_refused(make):
    saved = []
    weft.vmap(lambda x: saved.append(x))(jnp.ones(3))
    with pytest.raises(weft.errors.UnexpectedTracerError):
        weft.vmap(lambda y: make(saved[0])(y))(jnp.ones(3))


def test_weak_carry_takes_the_dtype_of_the_body():
    half = jnp.float16(1)
    assert lax.scan(lambda c, _: (c + half, None), 1.0, None, length=2)[0].dtype == jnp.float16
    assert lax.while_loop(lambda c: c < 3, lambda c: c + jnp.uint8(1), 1).dtype == jnp.uint8
    assert lax.fori_loop(0, 3, lambda i, c: c + jnp.int8(1), 1).dtype == jnp.int8
    with pytest.raises(TypeError, match="carry"):
        lax.scan(lambda c, _: (weft.random.key(0), None), 1.0, None, length=2)


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
def test_64_bit_arrays_outside_enable_x64():
    with weft.enable_x64(True):
        x = jnp.array([1.0, 2.0])
    assert (x + 1).dtype == jnp.float32
    assert (x > 1).tolist() == [False, True]
    assert weft.grad(lambda x: (x**2).sum())(x).tolist() == [2.0, 4.0]
    assert isinstance(x @ x, weft.Array)


def test_scalar_results_are_arrays():
    half = jnp.einsum("->", jnp.float32(2), preferred_element_type=jnp.float16)
    for out in (
        half,
        jnp.bitwise_count(3),
        jnp.signbit(jnp.float32(1)),
        jnp.float16(1.23).round(1),
    ):
        assert isinstance(out, weft.Array)


def test_jacobians_of_python_scalars_are_weak():
    assert weft.jacfwd(jnp.sin)(1.0).weak_type
    assert weft.hessian(jnp.sin)(1.0).weak_type
    assert not weft.jacfwd(jnp.sin)(jnp.float32(1)).weak_type
