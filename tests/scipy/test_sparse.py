"""``weft.scipy.sparse.linalg`` against direct solutions."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.scipy.sparse import linalg

RNG = np.random.default_rng(0)
SOLVERS = ["cg", "bicgstab", "gmres"]


@pytest.fixture(autouse=True)
def double():
    with weft.enable_x64(True):
        yield


def system(name, n=6, kind="f"):
    a = RNG.standard_normal((n, n))
    if kind == "c":
        a = a + 1j * RNG.standard_normal((n, n))
    a = a @ a.conj().T + n * np.eye(n) if name == "cg" else a + 2 * n * np.eye(n)
    return a, RNG.standard_normal(n).astype(a.dtype)


@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize("name", SOLVERS)
def test_solutions(name, kind):
    solve = getattr(linalg, name)
    a, b = system(name, kind=kind)
    wanted = np.linalg.solve(a, b)
    for operator in (a, lambda x: a @ x):
        np.testing.assert_allclose(solve(operator, b, tol=1e-12)[0], wanted, rtol=1e-9)
    inverse = np.diag(1 / np.diag(a))
    for options in ({"M": lambda x: inverse @ x}, {"x0": wanted + 0.1}):
        np.testing.assert_allclose(solve(a, b, tol=1e-12, **options)[0], wanted, rtol=1e-9)
    np.testing.assert_allclose(solve(a, 0 * b)[0], 0 * b)
    np.testing.assert_array_equal(solve(a, b, x0=b, maxiter=0)[0], b)
    compiled = weft.jit(lambda a, b: solve(a, b, tol=1e-12)[0])
    np.testing.assert_allclose(compiled(a, b), wanted, rtol=1e-9)


@pytest.mark.parametrize("name", SOLVERS)
def test_trees(name):
    solve = getattr(linalg, name)
    a, b = system(name)
    right = {"a": b, "b": np.ones((2, 2))}
    found, _ = solve(lambda t: {"a": a @ t["a"], "b": 4 * t["b"]}, right, tol=1e-12)
    np.testing.assert_allclose(found["a"], np.linalg.solve(a, b), rtol=1e-8)
    np.testing.assert_allclose(found["b"], np.full((2, 2), 0.25), rtol=1e-8)


@pytest.mark.parametrize("name", SOLVERS)
def test_derivatives_and_batches(name):
    solve = getattr(linalg, name)
    a, b = system(name)
    weights = RNG.standard_normal(6)

    def total(a, b):
        return solve(a, b, tol=1e-13)[0] @ weights

    by_b = weft.grad(total, argnums=1)(a, b)
    np.testing.assert_allclose(by_b, np.linalg.solve(a.T, weights), rtol=1e-8)
    if name != "cg":
        by_a = weft.grad(total)(a, b)
        np.testing.assert_allclose(by_a, -np.outer(by_b, np.linalg.solve(a, b)), rtol=1e-7)
    stack = np.stack([b, 2 * b, -b])
    mapped = weft.vmap(lambda b: solve(a, b, tol=1e-12)[0])(stack)
    np.testing.assert_allclose(mapped, np.linalg.solve(a, stack.T).T, rtol=1e-8)


@pytest.mark.parametrize("method", ["batched", "incremental"])
def test_restarts(method):
    a, b = system("gmres", 12)
    for restart in (3, 50):
        x, info = linalg.gmres(a, b, tol=1e-11, restart=restart, solve_method=method)
        np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-8)
        assert info == 0
    # a space that is complete after one step
    x, _ = linalg.gmres(2 * np.eye(4), np.ones(4), solve_method=method)
    np.testing.assert_allclose(x, np.full(4, 0.5))


def test_one_iteration_as_jax():
    with weft.enable_x64(False):
        rng = np.random.default_rng(0).standard_normal((5, 5))
        a, b = (rng @ rng.T + 5 * np.eye(5)).astype("float32"), np.arange(5).astype("float32")
        wanted = [0.0, 0.11774, 0.23547, 0.35321, 0.47095]
        np.testing.assert_allclose(linalg.cg(a, b, maxiter=1)[0], wanted, atol=1e-5)
        wanted = [0.07495, 0.21825, 0.14856, 0.40114, 0.45333]
        np.testing.assert_allclose(linalg.bicgstab(a, b, maxiter=1)[0], wanted, atol=1e-5)
        wanted = [0.12791, 0.25648, 0.17388, 0.49408, 0.45628]
        found = linalg.gmres(a, b, restart=2, maxiter=2)[0]
        np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("name", SOLVERS)
def test_refusals(name):
    solve = getattr(linalg, name)
    a, b = system(name)
    for bad in (a[:3], np.ones(6)):
        with pytest.raises(ValueError, match="square"):
            solve(bad, b)
    for bad in ("a", a.tolist()):
        with pytest.raises(TypeError, match="linear map"):
            solve(bad, b)
    for x0, match in ((np.ones(4), "shape"), ({"a": b}, "structure")):
        with pytest.raises(ValueError, match=match):
            solve(a, b, x0=x0)
    with pytest.raises(ValueError, match="shapes"):
        solve(lambda x: x[:2], b)
    if name == "gmres":
        with pytest.raises(ValueError, match="solve_method"):
            solve(a, b, solve_method="other")


@pytest.mark.parametrize("solver", SOLVERS)
def test_objects_with_a_product_are_linear_maps(solver):
    matrix = jnp.array([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 4.0]])

    class Operator:
        def __init__(self, shape):
            self.shape = shape

        def __matmul__(self, x):
            return matrix @ x

    solve = getattr(linalg, solver)
    found, _ = solve(Operator((3, 3)), jnp.ones(3))
    np.testing.assert_allclose(matrix @ found, np.ones(3), rtol=1e-5)
    with pytest.raises(ValueError, match="square"):
        solve(Operator((3, 2)), jnp.ones(3))
    with pytest.raises(TypeError, match="shape and __matmul__"):
        solve(object(), jnp.ones(3))


@pytest.mark.parametrize(
    ("solver", "options", "weak"),
    [
        ("cg", {}, False),
        ("bicgstab", {}, True),
        ("gmres", {}, True),
        ("gmres", {"solve_method": "incremental"}, False),
    ],
)
def test_weak_types_of_solutions(solver, options, weak):
    solve = getattr(linalg, solver)
    assert solve(lambda x: x, 1.0, **options)[0].weak_type is weak
    assert solve(lambda x: x, {"a": 1.0}, **options)[0]["a"].weak_type is weak
    assert not solve(lambda x: x, jnp.ones(2), **options)[0].weak_type


def test_a_step_that_solves_the_system_makes_no_nan():
    b = np.float32([2, 0, 0])
    for solve in (linalg.cg, linalg.bicgstab, linalg.gmres):
        with weft.checks():
            x, _ = weft.jit(lambda b, solve=solve: solve(jnp.diag(jnp.full(3, 2.0)), b))(b)
        np.testing.assert_allclose(x, b / 2)
