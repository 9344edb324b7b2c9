"""Loops of a few elements: kernels and operations without loops of their own."""

import numpy as np
import pytest

import weft
from tests.runtime import ways
from weft import lax
from weft import numpy as jnp
from weft.backends.cpu import target
from weft.kernel.program import For, While


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.RandomState(seed).randn(*shape).astype(dtype)


def positive(n, seed=0, dtype=np.float32):
    a = normal(n, n, seed=seed, dtype=np.float64)
    return (a @ a.T + n * np.eye(n)).astype(dtype)


def walks(fun, *args):
    """Whether a program has a loop that is not one function."""

    def found(nodes):
        loops = (For, While)
        return any(
            isinstance(x, loops) and not (isinstance(x, While) and not x.body) for x in nodes
        )

    program = target.Cpu().assemble(weft.make_jaxpr(fun)(*args))
    return found(program.nodes) or bool(program.hosts)


def check(fun, *args, rtol=2e-5):
    assert not walks(fun, *args)
    got, want = weft.jit(fun)(*args), ways.interpreted(fun, *args)
    assert weft.tree.structure(got) == weft.tree.structure(want)
    for x, y in zip(weft.tree.leaves(got), weft.tree.leaves(want), strict=True):
        assert weft.typeof(x) is weft.typeof(y)
        x, y = np.asarray(x), np.asarray(y)
        if x.dtype.kind in "fc":
            np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol)
        else:
            np.testing.assert_array_equal(x, y)


def scanned(step, count=7):
    """A step on the matrices of a row, as a loop over rows."""
    return lambda *xs: lax.scan(lambda c, row: (c + 1, step(*row)), 0, xs)


def rows(*shape, count=7, dtype=np.float32):
    return normal(count, *shape, dtype=dtype)


# --- products -------------------------------------------------------------------------------------

PRODUCTS = {
    "2x2": ((2, 2), (2, 2), jnp.matmul),
    "wide": ((3, 4), (4, 9), jnp.matmul),
    "deep": ((2, 20), (20, 7), jnp.matmul),
    "vector": ((17, 17), (17,), jnp.matmul),
    "row": ((17,), (17, 17), jnp.matmul),
    "turned": ((17, 16), (17,), lambda a, x: a.T @ x),
    "both turned": ((8, 6), (7, 8), lambda a, b: a.T @ b.T),
    "batched": ((3, 5, 6), (3, 6, 4), jnp.matmul),
    "inner": ((200,), (200,), jnp.dot),
    "outer": ((12,), (13,), jnp.outer),
    "tensor": ((2, 3, 5, 4), (4, 3, 6), lambda a, b: jnp.einsum("iajb,bak->kij", a, b)),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products(name, dtype):
    x, y, step = PRODUCTS[name]
    with weft.enable_x64(dtype is np.float64):
        check(scanned(step), rows(*x, dtype=dtype), rows(*y, dtype=dtype), rtol=1e-4)


# --- factors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factors(n, dtype):
    with weft.enable_x64(dtype is np.float64):
        spd = np.stack([positive(n, seed, dtype) for seed in range(6)])
        check(scanned(jnp.linalg.cholesky), spd)
        a = normal(6, n, n, seed=1, dtype=dtype)
        check(scanned(lax.linalg.lu), a, rtol=1e-3)
        check(scanned(lambda a, b: jnp.linalg.solve(a, b)), spd, normal(6, n, dtype=dtype))
        check(scanned(jnp.linalg.inv), spd)
        check(scanned(jnp.linalg.det), spd, rtol=1e-4)
        check(scanned(lambda p: lax.linalg.lu_pivots_to_permutation(p, n)), _pivots(n))


def _pivots(n):
    state = np.random.RandomState(3)
    return np.stack([[state.randint(i, n) for i in range(n)] for _ in range(6)]).astype(np.int32)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangular_solve(left, lower, turned, unit):
    def step(a, b):
        return lax.linalg.triangular_solve(
            a, b, left_side=left, lower=lower, transpose_a=turned, unit_diagonal=unit
        )

    a = np.stack([positive(3, seed) / 3 for seed in range(5)])
    check(scanned(step), a, normal(5, *((3, 2) if left else (2, 3))), rtol=1e-3)


def test_matrices_without_factors():
    bad = np.stack([np.diag([1.0, -1, 2]), np.full((3, 3), np.nan), np.eye(3), np.zeros((3, 3))])
    check(scanned(jnp.linalg.cholesky), bad.astype(np.float32))
    flat = np.stack([np.zeros((3, 3)), np.ones((3, 3)), np.eye(3)[::-1]]).astype(np.float32)
    check(scanned(lax.linalg.lu), flat)
    stack = np.stack([np.stack([positive(2, s), positive(2, s + 9)]) for s in range(4)])
    check(scanned(jnp.linalg.cholesky), stack)
    check(scanned(lax.linalg.lu), stack)
    check(scanned(lax.linalg.lu), normal(4, 2, 3))
    check(scanned(lax.linalg.lu), normal(4, 3, 2))


# --- kernels --------------------------------------------------------------------------------------

KERNELS = {
    "sums": lambda x: (jnp.sum(x), jnp.sum(x, 0), jnp.sum(x, 1), jnp.mean(x * x)),
    "extremes": lambda x: (jnp.max(x), jnp.min(x, 0), jnp.argmax(x, 1), jnp.prod(x, 0)),
    "softmax": lambda x: (weft.nn.softmax(x, 0), weft.nn.softmax(x, 1)),
    "logsumexp": lambda x: weft.nn.logsumexp(x, 0) + weft.nn.logsumexp(x),
    "maths": lambda x: (jnp.sin(x), jnp.exp(-x * x), jnp.tanh(x) / (1 + x * x)),
    "joined": lambda x: jnp.concatenate([x[1:], jnp.stack([x[0] * 2, x[0]])]),
    "turned": lambda x: (x.T * 2, x[::-1, ::2] + 1, jnp.roll(x, 1, 0)),
    "complex": lambda x: jnp.abs(x[0] + 1j * x[1]) + ((x[0] - 1j * x[1]) ** 2).imag,
    "flags": lambda x: (jnp.any(x > 0, 0), jnp.all(x > -2), jnp.sum(x > 0), ~(x > 0)),
    "gathered": lambda x: x[jnp.argmax(x, 0), 0] + x[0, jnp.argmin(x[0])],
    "norms": lambda x: (x - x.mean(1, keepdims=True)) / jnp.sqrt(x.var(1, keepdims=True) + 1),
}


@pytest.mark.parametrize("shape", [(2, 2), (3, 5), (4, 10), (2, 17), (3, 70)])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name, shape):
    check(scanned(KERNELS[name]), rows(*shape))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "int32", "uint8", "bool"])
def test_types(dtype):
    def step(x):
        return x + x, jnp.max(x, 0), jnp.sum(x, 1), jnp.where(x > 0, x, x[:, ::-1])

    check(scanned(step), jnp.asarray(normal(7, 3, 9) * 3).astype(dtype), rtol=1e-2)


def test_sums_of_zeros():
    x = jnp.full((5, 8), -0.0)
    for total in weft.jit(scanned(lambda x: (jnp.sum(x), jnp.sum(x[:3]), x @ x)))(x)[1]:
        assert not np.signbit(np.asarray(total)).any()


def test_filters():
    """A Kalman filter, and the likelihood of a chain of hidden states."""
    move, look = positive(4) / 12, normal(2, 4)

    def kalman(seen):
        def step(state, y):
            mean, spread = move @ state[0], move @ state[1] @ move.T + 0.01 * jnp.eye(4)
            gain = jnp.linalg.solve(look @ spread @ look.T + jnp.eye(2), look @ spread).T
            mean = mean + gain @ (y - look @ mean)
            return (mean, spread - gain @ look @ spread), mean

        return lax.scan(step, (jnp.zeros(4), jnp.eye(4)), seen)

    check(kalman, normal(20, 2), rtol=1e-3)
    steps, shows = jnp.abs(normal(10, 10)), jnp.abs(normal(10, 20))

    def likelihood(seen):
        def step(c, o):
            a = c[0] @ steps * shows[:, o]
            total = jnp.sum(a)
            return (a / total, c[1] + jnp.log(total)), None

        return lax.scan(step, (jnp.ones(10), jnp.float32(0)), seen)[0]

    check(likelihood, np.arange(20, dtype=np.int32), rtol=1e-3)


def test_results_that_nobody_reads_do_not_make_a_loop_large():
    def last(x):
        return lax.scan(lambda c, r: (c * 0.5 + r, c), jnp.zeros(20), x)[0]

    check(last, normal(2000, 20))


# --- rows that are one vector ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extremes_of_rows(dtype):
    """NaN wins, and of two zeros the positive one is greater."""
    with weft.enable_x64(dtype is np.float64):
        for n in (2, 4, 5, 8, 10, 16, 28, 33, 64, 300):
            x = normal(40, n, dtype=dtype)
            x[1], x[2, n // 2], x[3], x[4] = -np.abs(x[1]), np.nan, -np.inf, np.inf
            x[5, 0], x[6] = -np.nan, -0.0
            x[7:9] = [[-0.0], [0.0]]
            x[7, n - 1], x[8, 0] = 0.0, -0.0
            for fun, want in ((jnp.max, np.max), (jnp.min, np.min)):
                got = np.asarray(weft.jit(lambda x, fun=fun: fun(x, 1))(x))
                np.testing.assert_array_equal(got, want(x, 1))
                assert list(np.signbit(got[7:9])) == [fun is jnp.min] * 2
