"""``weft.scipy.optimize.minimize``."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.scipy.optimize import OptimizeResults, minimize


def rosenbrock(x):
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def himmelblau(p):
    x, y = p
    return (x**2 + y - 11) ** 2 + (x + y**2 - 7) ** 2


def matyas(p):
    x, y = p
    return 0.26 * (x**2 + y**2) - 0.48 * x * y


@pytest.mark.parametrize(
    ("function", "start", "wanted"),
    [
        (rosenbrock, np.zeros(3), np.ones(3)),
        (rosenbrock, np.array([-1.2, 1.0]), np.ones(2)),
        (himmelblau, np.ones(2), [3.0, 2.0]),
        (matyas, np.ones(2), [0.0, 0.0]),
        (lambda x: jnp.sum((x - 3) ** 4) + jnp.sum(x * x), np.full(4, 9.0), np.full(4, 2.0)),
        (lambda x: jnp.sum(1e4 * x**2 + x**4), np.array([3.0, -2.0]), [0.0, 0.0]),
    ],
    ids="rosenbrock3 rosenbrock2 himmelblau matyas quartic steep".split(),
)
def test_minima(function, start, wanted):
    with weft.enable_x64(True):
        found = minimize(function, jnp.asarray(start), method="BFGS", options={"gtol": 1e-7})
        assert found.success and found.status == 0
        np.testing.assert_allclose(found.x, wanted, atol=1e-5)
        np.testing.assert_allclose(found.fun, function(found.x))
        np.testing.assert_allclose(found.jac, weft.grad(function)(found.x), atol=1e-9)
        assert found.nfev == found.njev >= found.nit > 0


def test_inverse_hessian_and_counts():
    found = minimize(lambda x: jnp.sum((x - 2) ** 2), jnp.zeros(3), method="bfgs")
    assert isinstance(found, OptimizeResults)
    np.testing.assert_array_equal(found.x, [2.0, 2.0, 2.0])
    # JAX's answers: a parabola is done in one step, with the update that this gives
    assert (int(found.nfev), int(found.nit)) == (3, 1)
    wanted = np.eye(3) - np.full((3, 3), 1 / 3) + np.full((3, 3), 1 / 6)
    np.testing.assert_allclose(found.hess_inv, wanted, atol=1e-6)


def test_options():
    few = minimize(rosenbrock, jnp.zeros(3), method="BFGS", options={"maxiter": 3})
    assert not few.success and few.status == 1 and few.nit == 3
    loose = minimize(rosenbrock, jnp.zeros(3), method="BFGS", tol=1.0)
    assert loose.success and np.abs(loose.jac).max() < 1.0
    two = minimize(rosenbrock, jnp.zeros(3), method="BFGS", options={"norm": 2, "gtol": 1e-2})
    assert two.success and np.linalg.norm(two.jac) < 1e-2
    shifted = minimize(
        lambda x, a, b: jnp.sum((x - a - b) ** 2), jnp.zeros(2), (1.0, 2.0), method="BFGS"
    )
    np.testing.assert_allclose(shifted.x, [3.0, 3.0], atol=1e-6)


def test_failures():
    at_once = minimize(lambda x: jnp.sum(x * x), jnp.zeros(2), method="BFGS")
    assert at_once.success and at_once.nit == 0 and at_once.nfev == 1
    unbounded = minimize(lambda x: -jnp.sum(x), jnp.ones(2), method="BFGS")
    assert not unbounded.success and unbounded.status == 5
    undefined = minimize(lambda x: jnp.nan * jnp.sum(x), jnp.ones(2), method="BFGS")
    assert not undefined.success and undefined.status == 5
    kink = minimize(lambda x: jnp.abs(x).sum(), jnp.array([1.0, 2.3]), method="BFGS")
    assert not kink.success and kink.status == 3


def test_compiled_and_batched():
    def solve(start):
        return minimize(himmelblau, start, method="BFGS").x

    np.testing.assert_allclose(weft.jit(solve)(jnp.ones(2)), [3.0, 2.0], atol=1e-4)
    starts = jnp.array([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0]])
    for x in weft.vmap(solve)(starts):
        assert float(himmelblau(x)) < 1e-6


def test_refusals():
    for x0 in (jnp.zeros(2, int), jnp.zeros((2, 2)), jnp.zeros(())):
        with pytest.raises(TypeError):
            minimize(lambda x: jnp.sum(x * 1.0), x0, method="BFGS")
    with pytest.raises(TypeError, match="tuple"):
        minimize(lambda x, a: jnp.sum(x) * a, jnp.ones(2), 2.0, method="BFGS")
    with pytest.raises(ValueError, match="other"):
        minimize(lambda x: jnp.sum(x), jnp.ones(2), method="other")
    with pytest.raises(TypeError):
        minimize(lambda x: jnp.sum(x), jnp.ones(2), method="BFGS", options={"other": 1})
