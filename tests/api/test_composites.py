"""Named operations, scaled products and tolerances of lax."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.test_util import check_grads


def tangent(x, *, scale=1.0, offset=None):
    out = scale * jnp.sin(x) / jnp.cos(x)
    return out if offset is None else out + offset["by"]


named = lax.composite(tangent, name="my.tangent", version=2)


def test_programs_show_the_name():
    (eqn,) = weft.make_jaxpr(lambda x: named(x, scale=3.0))(1.0).eqns
    assert eqn.primitive.name == "composite"
    assert (eqn.params["name"], eqn.params["version"]) == ("my.tangent", 2)
    assert [name for name, _, _ in eqn.params["attributes"]] == ["scale"]
    assert [e.primitive.name for e in eqn.params["jaxpr"].eqns] == ["sin", "mul", "cos", "div"]
    assert named.__name__ == "tangent"


def test_it_is_its_decomposition():
    x = jnp.linspace(-1, 1, 5)
    options = {"scale": 2.0, "offset": {"by": 1.0}}
    np.testing.assert_allclose(named(x, **options), tangent(x, **options), rtol=1e-6)
    jitted = weft.jit(lambda x: named(x, **options))
    np.testing.assert_allclose(jitted(x), tangent(x, **options), rtol=1e-6)
    np.testing.assert_allclose(weft.vmap(named)(x), tangent(x), rtol=1e-6)


@pytest.mark.parametrize(
    "differentiate",
    [weft.grad, lambda f: weft.jit(weft.grad(f)), lambda f: lambda x: weft.jvp(f, (x,), (x,))],
    ids=["grad", "jit", "jvp"],
)
def test_it_has_no_derivative_of_its_own(differentiate):
    with pytest.raises(ValueError, match=r"my.tangent.*custom_jvp"):
        differentiate(named)(1.0)
    known = weft.custom_jvp(named)
    known.defjvp(lambda xs, ts: (named(*xs), ts[0] / jnp.cos(xs[0]) ** 2))
    np.testing.assert_allclose(weft.grad(known)(0.5), 1 / np.cos(0.5) ** 2, rtol=1e-5)
    assert weft.grad(lambda x: named(jnp.float32(0)) + x)(1.0) == 1  # where it is a constant


def test_tracers_that_belong_to_it_are_refused():
    by = lambda x: lax.composite(lambda y: x * y, name="by.x")
    assert by(jnp.float32(2))(3.0) == 6
    for transform in (weft.jit, weft.grad, lambda f: lambda x: weft.vmap(f)(jnp.ones(2))):
        with pytest.raises(weft.errors.UnexpectedTracerError, match=r"by\.x"):
            transform(lambda x: by(x)(3.0))(2.0)
        with pytest.raises(weft.errors.UnexpectedTracerError, match="scale"):
            transform(lambda x: named(1.0, scale=x))(2.0)


def test_scaled_products():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 6, 8)), rng.standard_normal((2, 8, 4))
    left, right = rng.uniform(1, 2, (2, 6, 4)), rng.uniform(1, 2, (2, 2, 4))
    expected = (a * np.repeat(left, 2, 2)) @ (b * np.repeat(right, 4, 1))
    args = [jnp.asarray(x, jnp.float32) for x in (a, b, left, right)]
    fun = lambda a, b, s, t: lax.scaled_dot(
        a, b, lhs_scale=s, rhs_scale=t, preferred_element_type=jnp.float32
    )
    np.testing.assert_allclose(fun(*args), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(weft.jit(fun)(*args), expected, rtol=1e-4, atol=1e-5)
    assert lax.scaled_dot(args[0], args[1]).dtype == jnp.bfloat16
    check_grads(fun, args, order=1, atol=1e-2, rtol=1e-2, modes=["rev"])


@pytest.mark.parametrize(
    ("shape", "message"),
    [((6, 3), "divided"), ((6, 8), "two or more"), ((5, 4), "dimension 0"), ((6,), "dimensions")],
)
def test_scales_that_do_not_fit(shape, message):
    with pytest.raises(TypeError, match=message):
        lax.scaled_dot(jnp.ones((6, 8)), jnp.ones((8, 4)), lhs_scale=jnp.ones(shape))


def test_scaled_products_of_vectors_are_refused():
    with pytest.raises(TypeError, match="two or more dimensions"):
        lax.scaled_dot(jnp.ones(8), jnp.ones((8, 4)))
    with pytest.raises(TypeError, match="dimension_numbers"):
        lax.scaled_dot(jnp.ones((2, 8)), jnp.ones((3, 8, 4)))


def test_tolerances():
    assert lax.exp(1.0, accuracy=lax.Tolerance(rtol=1e-3)) == lax.exp(1.0)
    with pytest.raises(ValueError, match="at least one"):
        lax.Tolerance()
    with pytest.raises(ValueError, match="not negative"):
        lax.Tolerance(atol=-1.0)
