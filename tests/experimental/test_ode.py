"""odeint against closed forms, its adjoint gradient against differences, and ravel_pytree."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.experimental import ode
from weft.experimental.ode import odeint
from weft.flatten_util import ravel_pytree

TIMES = np.linspace(0.0, 1.0, 4)
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


@pytest.fixture(autouse=True)
def wide():
    with weft.enable_x64(True):
        yield


def decay(y, t, rate):
    return -rate * y


def test_closed_form():
    y = odeint(decay, jnp.array([1.0, 2.0]), TIMES, 0.7, **CLOSE)
    np.testing.assert_allclose(y, np.exp(-0.7 * TIMES)[:, None] * [1.0, 2.0], rtol=1e-8)


def test_time_dependence_and_trees():
    def swing(y, t):
        return {"x": y["v"], "v": -y["x"] + 0 * t}

    start = {"x": jnp.array([1.0, 0.5]), "v": jnp.zeros(2)}
    y = odeint(swing, start, TIMES, **CLOSE)
    np.testing.assert_allclose(y["x"], np.cos(TIMES)[:, None] * [1.0, 0.5], rtol=1e-7)
    np.testing.assert_allclose(y["v"], -np.sin(TIMES)[:, None] * [1.0, 0.5], atol=1e-8)


def test_complex():
    y = odeint(lambda y, t: 1j * y, jnp.array(1.0 + 0j), TIMES, **CLOSE)
    np.testing.assert_allclose(y, np.exp(1j * TIMES), rtol=1e-8)


def logistic(y, t, a, b):
    return a * y - b * y * y * jnp.cos(t)


def loss(y0, ts, a, b):
    return jnp.sum(jnp.sin(odeint(logistic, y0, ts, a, b, **CLOSE)))


def test_gradients_by_all_arguments():
    args = (jnp.array([0.3, 0.6]), jnp.asarray(TIMES), 1.1, 0.4)
    found = weft.grad(loss, argnums=(0, 1, 2, 3))(*args)
    flat, unravel = ravel_pytree(args)
    found, _ = ravel_pytree(found)
    for i in range(flat.size):
        step = np.zeros(flat.size)
        step[i] = 1e-4
        up, down = loss(*unravel(flat + step)), loss(*unravel(flat - step))
        np.testing.assert_allclose(found[i], (up - down) / 2e-4, rtol=1e-5, atol=1e-7)


def test_gradient_by_closed_over_values():
    def f(c):
        return odeint(lambda y, t: -c * y, 1.0, TIMES, **CLOSE)[-1]

    expected = -np.exp(-0.7)
    np.testing.assert_allclose(weft.grad(f)(0.7), expected, rtol=1e-7)
    np.testing.assert_allclose(weft.jit(weft.grad(f))(0.7), expected, rtol=1e-7)
    rates = jnp.array([0.3, 0.7])
    np.testing.assert_allclose(weft.vmap(f)(rates), np.exp(-rates), rtol=1e-8)
    np.testing.assert_allclose(weft.vmap(weft.grad(f))(rates), -np.exp(-rates), rtol=1e-7)


def test_bounds_on_steps():
    coarse = odeint(decay, 1.0, TIMES, 0.7, rtol=1e-2, atol=1e-2)
    fine = odeint(decay, 1.0, TIMES, 0.7, rtol=1e-2, atol=1e-2, hmax=0.01)
    exact = np.exp(-0.7 * TIMES)
    assert np.abs(fine - exact).max() < 1e-9 < np.abs(coarse - exact).max()
    stopped = odeint(decay, 1.0, TIMES, 50.0, mxstep=1, **CLOSE)
    assert np.abs(stopped[-1] - np.exp(-50.0)) > 1e-3


def test_forward_mode_is_refused():
    with pytest.raises(TypeError, match="forward-mode"):
        weft.jvp(lambda c: odeint(decay, 1.0, TIMES, c)[-1], (1.0,), (1.0,))


def test_mistakes():
    with pytest.raises(TypeError, match="array of floats"):
        odeint(decay, 1.0, jnp.arange(3), 1.0)
    with pytest.raises(TypeError, match=r"\*args"):
        odeint(decay, 1.0, TIMES, "fast")


def test_parts_of_the_method():
    f = lambda y, t: -y
    y0 = jnp.array([1.0])
    y1, f1, error, k = ode.runge_kutta_step(f, y0, f(y0, 0.0), 0.0, jnp.array(0.1))
    np.testing.assert_allclose(y1, np.exp(-0.1), rtol=1e-9)
    np.testing.assert_allclose(f1, -y1, rtol=1e-12)
    assert k.shape == (7, 1) and abs(float(error[0])) < 1e-6
    polynomial = ode.interp_fit_dopri(y0, y1, k, jnp.array(0.1))
    np.testing.assert_allclose(jnp.polyval(polynomial, 0.5), np.exp(-0.05), rtol=1e-7)
    assert float(ode.optimal_step_size(1.0, jnp.array(0.0))) == 10.0
    assert float(ode.optimal_step_size(1.0, jnp.array(1e6))) == pytest.approx(0.2)


def test_ravel_of_one_dtype_takes_any():
    flat, unravel = ravel_pytree([jnp.ones((2, 2)), 2.0])
    assert flat.shape == (5,)
    back = unravel(flat.astype(np.float32))
    assert back[0].shape == (2, 2) and back[1].dtype == np.float32
    assert unravel == ravel_pytree([jnp.zeros((2, 2)), 1.0])[1]
    assert hash(unravel) == hash(ravel_pytree([jnp.zeros((2, 2)), 1.0])[1])


def test_ravel_of_several_dtypes():
    flat, unravel = ravel_pytree({"i": jnp.arange(2), "c": jnp.ones(1) + 1j})
    assert flat.dtype == np.complex128
    back = unravel(flat)
    assert back["i"].dtype == np.int64 and back["i"].tolist() == [0, 1]
    with pytest.raises(TypeError, match="complex128"):
        unravel(flat.real)
    with pytest.raises(ValueError, match="3 elements"):
        unravel(jnp.concatenate([flat, flat]))


def test_ravel_of_nothing():
    flat, unravel = ravel_pytree({"a": None})
    assert flat.shape == (0,) and flat.dtype == np.float32
    assert unravel(flat) == {"a": None}
