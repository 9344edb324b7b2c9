"""The special functions as primitives: programs, derivatives, batching and errors."""

import numpy as np
import pytest

import weft
from weft import lax

POINTS = np.array([0.2, 0.5, 0.9], np.float32)

UNARY = ["erf", "erfc", "erf_inv", "lgamma", "digamma", "bessel_i0e", "bessel_i1e"]
BINARY = ["igamma", "igammac", "polygamma", "zeta", "igamma_grad_a", "random_gamma_grad"]


def slope(fun, x, step=1e-3):
    return (np.asarray(fun(x + step), float) - np.asarray(fun(x - step), float)) / (2 * step)


@pytest.mark.parametrize("name", UNARY)
def test_unary_derivatives(name):
    fun = getattr(lax, name)
    _, tangent = weft.jvp(fun, (POINTS,), (np.ones_like(POINTS),))
    with weft.enable_x64(True):
        wanted = slope(fun, POINTS.astype(np.float64))
    np.testing.assert_allclose(tangent, wanted, rtol=2e-4)


@pytest.mark.parametrize("name", BINARY)
def test_derivatives_by_the_second_operand(name):
    fun = getattr(lax, name)
    first = np.float32(3.0)
    _, tangent = weft.jvp(lambda x: fun(first, x), (POINTS,), (np.ones_like(POINTS),))
    with weft.enable_x64(True):
        wanted = slope(lambda x: fun(np.float64(3.0), x), POINTS.astype(np.float64), 1e-4)
    np.testing.assert_allclose(tangent, wanted, rtol=2e-4)


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_derivatives_by_the_first_operand(name):
    fun = getattr(lax, name)
    x = np.float32(0.7)
    _, tangent = weft.jvp(lambda a: fun(a, x), (POINTS,), (np.ones_like(POINTS),))
    with weft.enable_x64(True):
        wanted = slope(lambda a: fun(a, np.float64(x)), POINTS.astype(np.float64), 1e-4)
    np.testing.assert_allclose(tangent, wanted, rtol=2e-4)


def test_betainc():
    a, b = np.float32(2.0), np.float32(3.0)
    out, tangent = weft.jvp(lambda x: lax.betainc(a, b, x), (POINTS,), (np.ones_like(POINTS),))
    np.testing.assert_allclose(out, 6 * POINTS**2 - 8 * POINTS**3 + 3 * POINTS**4, rtol=1e-5)
    np.testing.assert_allclose(tangent, 12 * POINTS * (1 - POINTS) ** 2, rtol=1e-5)
    gradient = weft.grad(lambda x: lax.betainc(a, b, x).sum())(POINTS)
    np.testing.assert_allclose(gradient, tangent, rtol=1e-6)


def test_slope_of_i1e_at_zero():
    assert float(weft.grad(lax.bessel_i1e)(0.0)) == 0.5


def test_programs_read_as_in_jax():
    text = str(weft.make_jaxpr(lambda x, t: weft.jvp(lax.lgamma, (x,), (t,)))(POINTS, POINTS))
    assert "c:f32[3] = lgamma a" in text and "d:f32[3] = digamma a" in text
    text = str(weft.make_jaxpr(lax.betainc)(0.5, 0.5, 0.5))
    assert "regularized_incomplete_beta a b c" in text
    text = str(weft.make_jaxpr(lambda x: lax.igamma(x, 2.0))(POINTS))
    assert text == "{ lambda ; a:f32[3]. let b:f32[3] = igamma a 2.0:f32[] in (b,) }"


def test_batching_and_broadcasting():
    a = np.array([[0.5], [2.0]], np.float32)
    wanted = lax.igamma(a, POINTS[None])
    assert wanted.shape == (2, 3)
    got = weft.vmap(lambda row: lax.igamma(row, POINTS))(np.repeat(a, 3, axis=1))
    np.testing.assert_array_equal(got, wanted)
    got = weft.vmap(lambda x: lax.igamma(a, x), in_axes=0, out_axes=1)(POINTS)
    np.testing.assert_array_equal(np.reshape(got, (2, 3)), wanted)


def test_operands_without_a_derivative():
    with pytest.raises(ValueError, match="with respect to a and b"):
        weft.grad(lambda a: lax.betainc(a, 2.0, 0.5))(1.0)
    with pytest.raises(ValueError, match="order m"):
        weft.grad(lambda m: lax.polygamma(m, 2.0))(1.0)
    with pytest.raises(NotImplementedError, match="exponent"):
        weft.grad(lambda x: lax.zeta(x, 2.0))(2.0)


def test_dtype_errors():
    with pytest.raises(TypeError, match="lgamma does not accept dtype int32"):
        lax.lgamma(np.arange(3, dtype=np.int32))
    with pytest.raises(TypeError, match="same dtype"):
        lax.igamma(np.float32(1), np.float16(1))
