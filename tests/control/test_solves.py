"""custom_root and custom_linear_solve: implicit derivatives, batches, user errors."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax

RNG = np.random.default_rng(1)
A = (RNG.normal(size=(3, 3)) + 3 * np.eye(3)).astype(np.float32)
B = RNG.normal(size=3).astype(np.float32)


def square_root(a):
    def newton(f, x):
        return lax.while_loop(lambda x: jnp.abs(f(x)) > 1e-5, lambda x: (x + a / x) / 2, x)

    return lax.custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0))


def test_root_and_its_derivatives():
    assert square_root(4.0) == pytest.approx(2.0)
    assert weft.grad(square_root)(4.0) == pytest.approx(0.25)
    assert weft.jvp(square_root, (4.0,), (2.0,))[1] == pytest.approx(0.5)
    assert weft.jit(weft.grad(weft.grad(square_root)))(4.0) == pytest.approx(-1 / 32)
    x = np.array([1.0, 4.0, 9.0], np.float32)
    np.testing.assert_allclose(weft.vmap(weft.grad(square_root))(x), 0.5 / np.sqrt(x), rtol=1e-5)


def test_root_of_a_tree_with_aux():
    def solve(f, guess):
        return {"u": guess["u"] * 0 + 3.0}, 17

    def root(a):
        residual = lambda t: {"u": a * t["u"] - 6.0}
        tangent_solve = lambda g, y: {"u": y["u"] / g({"u": 1.0})["u"]}
        return lax.custom_root(residual, {"u": 1.0}, solve, tangent_solve, has_aux=True)

    (solution, aux) = root(2.0)
    assert solution["u"] == 3.0 and aux == 17
    assert weft.grad(lambda a: root(a)[0]["u"])(2.0) == pytest.approx(-1.5)


def solve_by_matrix(matvec, b):
    matrix = weft.jacfwd(matvec)(b)
    adjugate = jnp.stack(
        [jnp.stack([_minor(matrix, j, i) * (-1) ** (i + j) for j in range(3)]) for i in range(3)]
    )
    return adjugate @ b / (matrix[0] @ adjugate[:, 0])


def _minor(m, i, j):
    rows = [k for k in range(3) if k != i]
    cols = [k for k in range(3) if k != j]
    return m[rows[0], cols[0]] * m[rows[1], cols[1]] - m[rows[0], cols[1]] * m[rows[1], cols[0]]


def solve(a, b):
    return lax.custom_linear_solve(lambda x: a @ x, b, solve_by_matrix, solve_by_matrix)


def test_linear_solve_and_its_derivatives():
    np.testing.assert_allclose(solve(A, B), np.linalg.solve(A, B), rtol=1e-4)
    tangent = weft.jvp(solve, (A, B), (A, B))[1]
    np.testing.assert_allclose(tangent, np.zeros(3), atol=1e-5)
    loss = lambda a, b: (solve(a, b) ** 2).sum()
    da, db = weft.jit(weft.grad(loss, argnums=(0, 1)))(A, B)
    x = np.linalg.solve(A, B)
    expected = np.linalg.solve(A.T, 2 * x)
    np.testing.assert_allclose(db, expected, rtol=1e-3)
    np.testing.assert_allclose(da, -np.outer(expected, x), rtol=1e-3)


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_linear_solve_over_a_batch(axes):
    a = np.stack([A, A.T]) if axes[0] == 0 else A
    b = np.stack([B, -2 * B]) if axes[1] == 0 else B
    got = weft.vmap(solve, in_axes=axes)(a, b)
    pick = lambda v, d, i: v if d is None else v[i]
    expected = [solve(pick(a, axes[0], i), pick(b, axes[1], i)) for i in range(2)]
    np.testing.assert_allclose(got, expected, rtol=1e-4)
    loss = lambda a, b: solve(a, b).sum()
    got = weft.vmap(weft.grad(loss), in_axes=axes)(a, b)
    expected = [weft.grad(loss)(pick(a, axes[0], i), pick(b, axes[1], i)) for i in range(2)]
    np.testing.assert_allclose(got, expected, rtol=1e-3)


def test_symmetric_and_aux():
    def f(a, b):
        run = lambda matvec, b: (b / a, {"steps": 1})
        return lax.custom_linear_solve(lambda x: a * x, b, run, symmetric=True, has_aux=True)

    x, aux = f(2.0, 3.0)
    assert x == 1.5 and aux == {"steps": 1}
    assert weft.grad(lambda a, b: f(a, b)[0])(2.0, 3.0) == pytest.approx(-0.75)
    program = weft.make_jaxpr(f)(2.0, 3.0)
    assert program.eqns[0].primitive.name == "custom_linear_solve"
    assert "const_lengths=_LinearSolveTuple(matvec=1, vecmat=1" in str(program)


def test_user_errors():
    forward_only = lambda b: lax.custom_linear_solve(lambda x: 2 * x, b, lambda m, b: b / 2)
    assert weft.jvp(forward_only, (3.0,), (1.0,))[1] == 0.5
    with pytest.raises(TypeError, match="transpose_solve"):
        weft.grad(forward_only)(3.0)
    with pytest.raises(ValueError, match=r"matvec.*same structure as b"):
        lax.custom_linear_solve(lambda x: (x, x), B, lambda m, b: b)
    with pytest.raises(ValueError, match=r"solve.*\(1, 3\).*\(3,\)"):
        lax.custom_linear_solve(lambda x: x, B, lambda m, b: b[None])
    with pytest.raises(ValueError, match="has_aux"):
        lax.custom_linear_solve(lambda x: x, 1.0, lambda m, b: (b, 1, 2), has_aux=True)
    with pytest.raises(TypeError, match=r"f of custom_root.*initial_guess"):
        lax.custom_root(lambda x: (x, x), 1.0, lambda f, x: x, lambda g, y: y)
    with pytest.raises(TypeError, match="solve of custom_root"):
        lax.custom_root(lambda x: x, 1.0, lambda f, x: (x, x), lambda g, y: y)
