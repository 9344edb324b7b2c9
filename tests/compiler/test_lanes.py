"""Batched loops and branches: elements run no longer than they need, and give the same bits."""

import functools

import numpy as np
import pytest

import weft
from weft import lax
from weft import numpy as jnp
from weft.backends.cpu import target
from weft.base import knobs
from weft.compiler import interchange, plan
from weft.compiler.pipeline import simplify
from weft.control.jit import Jit
from weft.control.lanes import rungs
from weft.control.while_loop import While
from weft.core.jaxpr import jaxprs_in_params


def lengths(*shape, most=60, seed=0):
    found = np.random.default_rng(seed).geometric(0.15, shape)
    found.flat[found.size // 3] = most
    return np.minimum(found, most).astype(np.int32)


def floats(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def until(step):
    """A loop of as many rounds as its first operand says."""
    return lambda n, *args: lax.while_loop(
        lambda s: s[0] > 0, lambda s: (s[0] - 1, *step(*s[1:])), (n, *args)
    )[1:]


def bits(tree):
    leaves = weft.tree.leaves(tree)
    keys = [weft.dtypes.issubdtype(x.dtype, weft.dtypes.prng_key) for x in leaves]
    values = [weft.random.key_data(x) if k else x for x, k in zip(leaves, keys, strict=True)]
    return [np.asarray(x).tobytes() for x in values]


def both(fun, args, primitive, patch):
    """Bits of a function with and without compaction, and how often that was done."""
    own, found = primitive.compacted, []

    def seen(self, params, judge):
        made = own(self, params, judge)
        found.append(made is not None)
        return made

    with patch.context() as inside:
        inside.setattr(primitive, "compacted", seen)
        new = weft.jit(lambda *a: fun(*a))(*args)
        inside.setattr(primitive, "compacted", lambda *_: None)
        old = weft.jit(lambda *a: fun(*a, *[]))(*args)
    return bits(new), bits(old), sum(found)


# --- loops of single numbers, in blocks -----------------------------------------------------------


def newton(n, a):
    return until(lambda x: (0.5 * (x + a / x),))(n, a)[0]


def collatz(n):
    step = lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1)
    return lax.while_loop(lambda s: s[0] > 1, step, (n, 0))[1]


def spiral(c):
    step = lambda s: (s[0] * s[0] + c, s[1] + 1)
    return lax.while_loop(lambda s: (abs(s[0]) < 2.0) & (s[1] < 50), step, (c, 0))


def masked(fun, *args, patch):
    """A function's results where every loop goes round by round for all elements."""
    with patch.context() as inside:
        inside.setattr(plan, "interchange", lambda *_: None)
        inside.setattr(While, "compacted", lambda *_: None)
        return weft.jit(lambda *a: fun(*a))(*args)


@pytest.mark.parametrize("size", [16, 17, 100, 1000, 5001])
def test_loops_of_numbers_have_the_same_bits(size, monkeypatch):
    n, a = lengths(size), np.abs(floats(size)) + 0.1
    c = (floats(size) + 1j * floats(size, seed=2)).astype(np.complex64)
    for fun, args in ((newton, (n, a)), (collatz, (n,)), (spiral, (c,))):
        mapped = weft.vmap(fun)
        texts = target.Cpu().assemble(weft.make_jaxpr(mapped)(*args)).codes
        assert any(name == "blocks" for _, name in texts)
        assert bits(weft.jit(mapped)(*args)) == bits(masked(mapped, *args, patch=monkeypatch))


def test_collatz_counts():
    def steps(n):
        return 0 if n <= 1 else 1 + steps(n // 2 if n % 2 == 0 else 3 * n + 1)

    n = np.arange(1, 300, dtype=np.int32)
    np.testing.assert_array_equal(weft.jit(weft.vmap(collatz))(n), [*map(steps, n.tolist())])


def test_elements_that_are_done_at_once_and_two_axes(monkeypatch):
    none, a = np.zeros(500, np.int32), np.abs(floats(500)) + 0.5
    np.testing.assert_array_equal(weft.jit(weft.vmap(newton))(none, a), a)
    n, a = lengths(30, 40), np.abs(floats(30)) + 0.1
    twice = weft.vmap(weft.vmap(newton, (0, None)), (0, 0))
    assert bits(weft.jit(twice)(n, a)) == bits(masked(twice, n, a, patch=monkeypatch))


def test_a_long_loop_is_left_for_signals_and_goes_on(monkeypatch):
    n, a = lengths(400, most=3000), np.abs(floats(400)) + 0.1
    want = bits(weft.jit(weft.vmap(newton))(n, a))
    monkeypatch.setattr(interchange, "ELEMENTS_PER_POLL", 400 * 7)
    assert bits(weft.jit(lambda *x: weft.vmap(newton)(*x))(n, a)) == want


def test_blocks_are_filled_again():
    """One element in 64 is long: blocks of neighbours would wait for each of them."""
    n, a = np.ones(4096, np.int32), np.full(4096, 2.0, np.float32)
    n[::64] = 256
    closed = weft.make_jaxpr(weft.vmap(newton))(n, a)
    (text,) = [t for t, name in target.Cpu().assemble(closed).codes if name == "blocks"]
    assert "label %refill" in str(text) and "@llvm.cttz.i64" in str(text)
    found = np.asarray(weft.jit(weft.vmap(newton))(n, a))
    np.testing.assert_allclose(found[::64], np.sqrt(2), rtol=1e-6)
    np.testing.assert_array_equal(found[1::64], 1.5)


# --- other loops, in smaller and smaller batches --------------------------------------------------


def test_rungs_get_smaller_to_the_least():
    assert rungs(8, 1) == [6, 4, 3, 2, 1]
    assert rungs(1000, 10)[:4] == [750, 500, 375, 250] and rungs(1000, 10)[-1] >= 10
    assert rungs(64, 64) == []


def ode(n, y, p):
    def step(y, h):
        k = jnp.cos(y + h * jnp.sin(y * p)) * p
        error = jnp.sqrt(jnp.sum(k * k))
        return y + h * k / (1 + error), jnp.where(error > 1, h * 0.9, h * 1.01)

    return until(step)(n, y, jnp.float32(0.01))


def solver(n, a, b):
    return until(lambda x: (x - 0.01 * (a @ x - b),))(n, b)


def dense(n, x, w):
    return until(lambda x: (jnp.tanh(x @ w),))(n, x)


def walk(n, key):
    def step(key, x):
        key, other = weft.random.split(key)
        return key, x + weft.random.normal(other, (40,))

    return until(step)(n, key, jnp.zeros(40))


def inner(n, x):
    def step(x):
        y, _ = lax.while_loop(
            lambda s: s[1] < x[0], lambda s: (jnp.sin(s[0]), s[1] + 0.5), (x, 0.0)
        )
        return (lax.fori_loop(0, 3, lambda i, v: v * 0.99 + i, y),)

    return until(step)(n, x)


def tangent(n, y, p):
    return weft.jvp(lambda y: ode(n, y, p), (y,), (jnp.ones_like(y),))


def probabilities(n, x, y):
    step = lambda x, y: (weft.nn.softmax(x + y) * 3 + jnp.cumsum(x) * 0.01, jnp.roll(y, 1))
    return until(step)(n, x, y)


def factored(n, a, x):
    step = lambda a, x: (a, jnp.linalg.cholesky(a + 0.1 * jnp.outer(x, x)) @ x / (1 + x @ x))
    goes = lambda s: (s[0] > 0) & (jnp.sum(s[2]) < 50)
    return lax.while_loop(goes, lambda s: (s[0] - 1, *step(*s[1:])), (n, a, x))[2]


def solved(n, a, x):
    return until(lambda a, x: (a, jnp.linalg.solve(a, x) + 0.5))(n, a, x)[1]


def positive(total, n):
    a = floats(total, n, n) / n
    return np.einsum("bij,bkj->bik", a, a) + 2 * np.eye(n, dtype=np.float32)


_CASES = {
    "many short rows": (
        weft.vmap(probabilities, (0, 0, None)),
        lambda: (lengths(2500), floats(2500, 7), floats(7)),
    ),
    "many factors": (
        weft.vmap(factored),
        lambda: (lengths(300), positive(300, 12), floats(300, 12)),
    ),
    "many solutions": (
        weft.vmap(solved),
        lambda: (lengths(300), positive(300, 9), floats(300, 9)),
    ),
    "dense": (
        weft.vmap(dense, (0, 1, None)),
        lambda: (lengths(150), floats(32, 150), floats(32, 32) / 6),
    ),
    "keys": (weft.vmap(walk), lambda: (lengths(80), weft.random.split(weft.random.key(0), 80))),
    "inner": (weft.vmap(inner), lambda: (lengths(60), floats(60, 100))),
    "sorted": (
        weft.vmap(lambda n, x: until(lambda x: (jnp.sort((x * 5 + jnp.sum(x)) % 97),))(n, x)),
        lambda: (lengths(300), np.arange(300 * 30, dtype=np.int32).reshape(300, 30) % 89),
    ),
}


@pytest.mark.parametrize("name", [*_CASES])
def test_smaller_batches_have_the_same_bits(name, monkeypatch):
    fun, make = _CASES[name]
    new, old, times = both(fun, make(), While, monkeypatch)
    assert times == 1 and new == old


def relaxed(n, x, p):
    return until(lambda x, k: (jnp.sin(x) * p + jnp.roll(x, 1) - jnp.max(x), k + 1))(n, x, 0)


_IN_TURN = {
    "rows": ([(0, 0, None)], (9, 33), (33,)),
    "columns": ([(0, 1, 1)], (64, 40), (40, 64)),
    "axes": ([(0, None, 0), (0, 0, None)], (6, 5, 7), (6, 7)),
    "many": ([(0, 0, None)], (1000, 3), (3,)),
}


@pytest.mark.parametrize("name", _IN_TURN)
def test_arrays_without_sums_go_one_by_one(name, monkeypatch):
    axes, shape, given = _IN_TURN[name]
    x = floats(*shape[-2:])
    args = lengths(*shape[:-1]), x.T if name == "columns" else x, floats(*given, seed=3)
    assert in_turn(relaxed, axes, args, monkeypatch)
    fun = mapped(relaxed, axes)
    assert bits(weft.jit(fun)(*args)) == bits(masked(fun, *args, patch=monkeypatch))


def mapped(one, axes):
    """A function over some axes, the outermost first."""
    for in_axes in reversed(axes):
        one = weft.vmap(one, in_axes)
    return one


def alone(one, axes, args):
    """The results of a compiled function for one element after the other."""
    if not axes:
        return one(*args)
    size = next(x.shape[a] for x, a in zip(args, axes[0]) if a is not None)
    pick = lambda x, a, i: x if a is None else x[(slice(None),) * a + (i,)]
    rows = [[pick(x, a, i) for x, a in zip(args, axes[0])] for i in range(size)]
    found = [alone(one, axes[1:], row) for row in rows]
    return weft.tree.map(lambda *xs: np.stack([np.asarray(x) for x in xs]), *found)


def in_turn(one, axes, args, patch):
    """Whether all elements of a loop run one after the other; each must have the bits that it has
    alone."""
    made = []
    own = While.compacted

    def seen(self, params, judge):
        made.append(own(self, params, judge))
        return made[-1]

    with patch.context() as inside:
        inside.setattr(While, "compacted", seen)
        new = weft.jit(lambda *a: mapped(one, axes)(*a))(*args)
    if not all(p is not None and any(e.primitive.name == "scan" for e in p.eqns) for p in made):
        return False
    with knobs.scope(shape_generic=False):  # sums of any length have another order
        found = alone(weft.jit(lambda *a: one(*a)), axes, args)
    assert made and bits(new) == bits(found)
    return True


def normalised(n, x):
    return until(lambda x: (jnp.sin(x) / (1 + jnp.linalg.norm(x)),))(n, x)


def two_axes(n, x):
    step = lambda x: x * 0.5 + jnp.sum(x, (0, 2))[None, :, None] * 0.1 + jnp.sum(x, 0)
    return until(lambda x: (step(x),))(n, x)


def counted(n, x):
    step = lambda x, k: (x * 0.9 + k.sum() / (1 + jnp.sum(x * x)), (k * 3 + 1) % 11)
    return until(step)(n, x, jnp.arange(5))


def matrices(n, x, a):
    return until(lambda x: (jnp.tanh(a @ x) + x @ a,))(n, x)


def rows_of_probabilities(n, x):
    return until(lambda x: (weft.nn.softmax(x) * 3 + jnp.cumsum(x) * 0.01,))(n, x)


def products(n, x):
    return until(lambda x: (jnp.tanh(x + jnp.prod(1 + x * 0.01)),))(n, x)


def until_small(n, x):
    goes = lambda s: (jnp.sum(s[0] ** 2) > 1e-2) & (s[1] > 0)
    return lax.while_loop(goes, lambda s: (s[0] * 0.7, s[1] - 1), (x, n))


def slope(n, x):
    return weft.jvp(lambda x: normalised(n, x), (x,), (jnp.ones_like(x),))


def rounds_of_loops(n, x):
    step = lambda x, _: (weft.vmap(normalised)(n, x)[0] + 1, x.sum())
    return lax.scan(step, x, None, length=3)


def with_loops_inside(n, x):
    def step(x):
        goes = lambda s: s[1] < jnp.sum(s[0] ** 2) * 0.1
        y, k = lax.while_loop(goes, lambda s: (s[0] * 0.9, s[1] + 0.1), (x + 1, 0.0))
        y = lax.scan(lambda y, z: (y * 0.5 + jnp.sum(y * z), None), y, jnp.eye(3, len(x)))[0]
        return (lax.cond(k > 0.5, lambda y: y / (1 + jnp.linalg.norm(y)), jnp.sin, y),)

    return until(step)(n, x)


def with_sums_inside(n, x):
    step = lambda c, _: (c * 0.5 + jnp.sum(x * c) * 0.01, None)
    return until(lambda x: (x * 0.99 + lax.scan(step, x[0], None, length=5)[0] * 0.01,))(n, x)


def ordered_values(n, x):
    return until(lambda x: (jnp.sort(jnp.sin(x * 5 + jnp.mean(x))),))(n, x)


def spectrum(n, x):
    return until(lambda x: (jnp.abs(jnp.fft.fft(x)) / (1 + jnp.linalg.norm(x)),))(n, x)


def histogram(n, x):
    step = lambda x: (jnp.zeros(16).at[jnp.int32(jnp.abs(x) * 9) % 16].add(x) + 0.1,)
    return until(step)(n, x)


def windows(n, x):
    return until(lambda x: (jnp.tanh(jnp.convolve(x, jnp.array([0.2, 0.5, 0.2]), "same")),))(n, x)


def substituted(n, a, x):
    solve = functools.partial(lax.linalg.triangular_solve, left_side=True, lower=True)
    return until(lambda a, x: (a, solve(a, x[:, None])[:, 0] + 0.5))(n, a, x)[1]


_narrow = lambda *shape: jnp.asarray(floats(*shape)).astype(jnp.bfloat16)
_SUMS = {
    **{
        f"rows of {n}": (normalised, (0, 0), lambda total, n=n: (floats(total, n),))
        for n in (2, 7, 16, 33, 100, 3000)
    },
    "two axes": (two_axes, (0, 0), lambda total: (floats(total, 3, 4, 5) * 0.1,)),
    "batch inside": (two_axes, (0, 1), lambda total: (floats(3, total, 4, 5) * 0.1,)),
    "integers": (counted, (0, 0), lambda total: (floats(total, 13),)),
    "matrices": (
        matrices,
        (0, 0, 0),
        lambda total: (floats(total, 6, 6) * 0.1, floats(total, 6, 6, seed=3) * 0.2),
    ),
    "one matrix": (
        matrices,
        (0, 0, None),
        lambda total: (floats(total, 6, 6) * 0.1, floats(6, 6, seed=3) * 0.2),
    ),
    "softmax": (rows_of_probabilities, (0, 0), lambda total: (floats(total, 10),)),
    "prod": (products, (0, 0), lambda total: (floats(total, 10),)),
    "condition": (until_small, (0, 0), lambda total: (floats(total, 21),)),
    "narrow": (normalised, (0, 0), lambda total: (_narrow(total, 17),)),
    "narrow matrices": (
        matrices,
        (0, 0, 0),
        lambda total: (_narrow(total, 4, 4), _narrow(total, 4, 4)),
    ),
    "tangents": (slope, (0, 0), lambda total: (floats(total, 17),)),
    "loops inside": (with_loops_inside, (0, 0), lambda total: (floats(total, 11),)),
    "sums inside": (with_sums_inside, (0, 0), lambda total: (floats(total, 64),)),
    "order": (ordered_values, (0, 0), lambda total: (floats(total, 21),)),
    "spectrum": (spectrum, (0, 0), lambda total: (floats(total, 16),)),
    "histogram": (histogram, (0, 0), lambda total: (floats(total, 16),)),
    "windows": (windows, (0, 0), lambda total: (floats(total, 30),)),
    "ode": (ode, (0, 0, None), lambda total: (floats(total, 40), floats(40, seed=5))),
    "derivative": (tangent, (0, 0, None), lambda total: (floats(total, 40), floats(40, seed=5))),
}


@pytest.mark.parametrize("total", [8, 300])
@pytest.mark.parametrize("name", _SUMS)
def test_small_arrays_with_sums_go_one_by_one(name, total, monkeypatch):
    one, axes, make = _SUMS[name]
    if name == "rows of 3000":
        total = min(total, 40)
    assert in_turn(one, [axes], (lengths(total, most=30), *make(total)), monkeypatch)


@pytest.mark.parametrize("total, size", [(8, 3), (8, 16), (60, 7), (200, 5), (16, 40)])
@pytest.mark.parametrize("one", [factored, solved, substituted])
def test_solvers_go_one_by_one(one, total, size, monkeypatch):
    args = lengths(total, most=20), positive(total, size), floats(total, size)
    assert in_turn(one, [(0, 0, 0)], args, monkeypatch)


def by_own_matrix(n, a, x):
    return until(lambda x: (a @ x / (1 + jnp.abs(x).sum()),))(n, x)


def by_solves(n, a, x):
    return until(lambda x: (jnp.linalg.solve(a + jnp.diag(x * x), x + 1),))(n, x)


def by_table(n, table, x):
    return until(lambda x, k: (x * 0.5 + table[k * 7 % len(table)], k + 1))(n, x, 0)


def in_place(n, x):
    return until(lambda x, k: (x.at[k % 5].add(0.5) * 0.9, k + 1))(n, x, 0)


def turned(n, x):
    return until(lambda x: (jnp.sin(x) + 0.2 * jnp.roll(x, 1),))(n, x)


_MANY_SMALL = {
    "own matrices": (by_own_matrix, (0, 0, 0), [(2048, 8, 8), (2048, 8)], True),
    "solves": (by_solves, (0, 0, 0), [(2048, 3, 3), (2048, 3)], True),
    "shared table": (by_table, (0, None, 0), [(64, 3), (2048, 3)], True),
    "own tables": (by_table, (0, 0, 0), [(2048, 12), (2048,)], True),
    "updates in place": (in_place, (0, 0), [(2048, 5)], True),
    "short vectors": (turned, (0, 0), [(2048, 3)], False),
}


@pytest.mark.parametrize("name", _MANY_SMALL)
def test_many_small_elements_share_a_batch_where_vectors_compute_them(name, monkeypatch):
    """What is read in memory for each element, and small solves, are quicker one by one."""
    one, axes, shapes, apart = _MANY_SMALL[name]
    args = [floats(*shape, seed=i) for i, shape in enumerate(shapes)]
    if name == "solves":
        args[0] = args[0] * 0.1 + 3 * np.eye(3, dtype=np.float32)
    assert in_turn(one, [axes], (lengths(2048, most=20), *args), monkeypatch) == apart


_LARGE = {
    "rows": (ode, [(0, 0, None)], lambda: (lengths(24), floats(24, 9000), floats(9000))),
    "two axes": (
        ode,
        [(1, 0, None), (0, None, 0)],
        lambda: (lengths(4, 6).T, floats(4, 9000), floats(6, 9000)),
    ),
    "tangent": (tangent, [(0, 0, None)], lambda: (lengths(24), floats(24, 9000), floats(9000))),
    "unused": (
        lambda *args: ode(*args)[0],
        [(0, 0, None)],
        lambda: (lengths(24), floats(24, 9000), floats(9000)),
    ),
    "long rows": (normalised, [(0, 0)], lambda: (lengths(9), floats(9, 200_000))),
    "vectors": (solver, [(0, 0, 0)], lambda: (lengths(64), floats(64, 40, 40), floats(64, 40))),
    "systems": (solver, [(0, 0, 0)], lambda: (lengths(16), floats(16, 80, 80), floats(16, 80))),
    "products": (
        matrices,
        [(0, 0, 0)],
        lambda: (lengths(8), floats(8, 70, 70) * 0.1, floats(8, 70, 70, seed=3) * 0.1),
    ),
    "one matrix": (
        matrices,
        [(0, 0, None)],
        lambda: (lengths(20), floats(20, 65, 65) * 0.1, floats(65, 65, seed=3) * 0.1),
    ),
    "solve": (solved, [(0, 0, 0)], lambda: (lengths(9), positive(9, 100), floats(9, 100))),
    "cholesky": (factored, [(0, 0, 0)], lambda: (lengths(9), positive(9, 100), floats(9, 100))),
    "loops inside": (with_loops_inside, [(0, 0)], lambda: (lengths(9), floats(9, 5000))),
    "many solutions": (
        solved,
        [(0, 0, 0)],
        lambda: (lengths(260), positive(260, 60), floats(260, 60)),
    ),
}


@pytest.mark.parametrize("name", _LARGE)
def test_large_arrays_go_one_by_one(name, monkeypatch):
    """Also where a product or a solver is a library's, and where threads share one element."""
    one, axes, make = _LARGE[name]
    assert in_turn(one, axes, make(), monkeypatch)


def test_loops_in_a_scan_go_one_by_one(monkeypatch):
    n, x = lengths(40, most=30), floats(40, 17)
    new, _, times = both(rounds_of_loops, (n, x), While, monkeypatch)
    y, total = x, []
    one = weft.jit(lambda n, x: normalised(n, x))
    for _ in range(3):
        total.append(y.sum())
        y = np.asarray(alone(one, [(0, 0)], (n, np.asarray(y)))[0]) + 1
    assert times == 1 and new[0] == y.tobytes()
    np.testing.assert_allclose(np.frombuffer(new[1], np.float32), total, rtol=1e-5)


def test_sums_of_64_bits_and_lanes_that_end_at_once_go_one_by_one(monkeypatch):
    with weft.enable_x64(True):
        x = np.random.default_rng(0).standard_normal((40, 19))
        assert in_turn(normalised, [(0, 0)], (lengths(40), x), monkeypatch)
    x = floats(40, 19)
    none = np.zeros(40, np.int32)
    assert in_turn(normalised, [(0, 0)], (none, x), monkeypatch)
    np.testing.assert_array_equal(weft.jit(weft.vmap(normalised))(none, x)[0], x)


def test_vectors_times_one_matrix_stay_one_product(monkeypatch):
    """One product of many vectors is quicker than a loop over them."""
    w = floats(24, 24) / 5
    one = lambda n, x: until(lambda x: (jnp.tanh(w @ x),))(n, x)
    for total, apart in ((16, True), (600, False)):
        args = lengths(total), floats(total, 24)
        assert in_turn(one, [(0, 0)], args, monkeypatch) == apart


def test_sums_of_small_arrays_are_right():
    """The order of sums changes rounding, and nothing else."""
    n, x, a = lengths(30), floats(30, 5, 5) * 0.1, floats(30, 5, 5, seed=3) * 0.2
    (found,) = weft.jit(weft.vmap(matrices))(n, x, a)
    for i in range(30):
        y = x[i].astype(np.float64)
        for _ in range(n[i]):
            y = np.tanh(a[i] @ y) + y @ a[i]
        np.testing.assert_allclose(found[i], y, rtol=1e-3, atol=1e-5)


def test_what_must_not_be_compacted(monkeypatch):
    x = floats(200, 40)

    def shown(n, x):
        return until(lambda x: (weft.pure_callback(np.sin, x, x, vmap_method="expand_dims"),))(n, x)

    def together(n, x):
        return until(lambda x: (x - lax.pmean(x, "batch"),))(n, x)

    for fun in (shown, together):
        mapped = weft.vmap(fun, axis_name="batch")
        new, old, times = both(mapped, (lengths(200, most=4), x), While, monkeypatch)
        assert times == 0 and new == old


def test_the_program_is_as_jax_prints_it():
    """What is remembered for the compiler does not show in a loop's equation."""
    closed = weft.make_jaxpr(weft.vmap(ode, (0, 0, None)))(
        lengths(200), floats(200, 40), floats(40)
    )
    names = [eqn.primitive.name for eqn in closed.eqns]
    assert names.count("while") == 1 and "jit" not in names


# --- branches -------------------------------------------------------------------------------------


def heavy(i, x):
    loop = lambda x: lax.fori_loop(0, 50, lambda _, v: jnp.sin(v) * 1.1, x)
    return lax.cond(i > 0, loop, lambda x: x * 2, x)


def several(i, x):
    loop = lambda c, x: lax.fori_loop(0, 10 * c, lambda _, v: jnp.cos(v) + c, x)
    return lax.switch(i, [functools.partial(loop, c) for c in range(1, 5)], x)


def product(i, a, x):
    return lax.cond(i > 0, lambda a, x: a @ (a @ x), lambda a, x: x, a, x)


def chosen(size, share):
    return (np.random.default_rng(3).random(size) < share).astype(np.int32)


@pytest.mark.parametrize("share", [0.0, 0.03, 0.4, 1.0])
def test_branches_run_on_their_own_elements(share, monkeypatch):
    args = chosen(500, share), floats(500, 20)
    new, old, times = both(weft.vmap(heavy), args, Jit, monkeypatch)
    assert new == old and times == 1


@pytest.mark.parametrize("name", ["several", "product", "shared", "gradient", "per example"])
def test_other_branches(name, monkeypatch):
    i, x = chosen(300, 0.2), floats(300, 32)
    total = lambda i, x: jnp.sum(heavy(i, x) ** 2)
    fun, args, least = {
        "several": (weft.vmap(several), (np.arange(-4, 296, dtype=np.int32) % 7 - 1, x), 1),
        "product": (weft.vmap(product), (i, floats(300, 32, 32), x), 1),
        "shared": (weft.vmap(product, (0, None, 0)), (i, floats(32, 32) / 6, x), 1),
        "gradient": (weft.grad(lambda x: jnp.sum(weft.vmap(heavy)(i, x) ** 2)), (x,), 0),
        "per example": (weft.vmap(weft.grad(total, 1)), (i, x), 1),
    }[name]
    new, old, times = both(fun, args, Jit, monkeypatch)
    assert new == old and times >= least


def test_what_elements_share_is_not_copied_for_each():
    """A matrix of all elements is one matrix in the branches, too: products of many rows."""
    args = chosen(200, 0.2), floats(32, 32) / 6, floats(200, 32)
    fun = weft.vmap(product, (0, None, 0))
    closed = simplify(weft.make_jaxpr(fun)(*args), target=target.Cpu())

    def products_in(jaxpr):
        for eqn in jaxpr.eqns:
            if eqn.primitive.name == "dot_general":
                yield [x.aval.shape for x in eqn.invars]
            for inner in jaxprs_in_params(eqn.params):
                yield from products_in(inner)

    shapes = list(products_in(closed.jaxpr))
    assert shapes and all((32, 32) in pair for pair in shapes)
    for i, found in enumerate(weft.jit(fun)(*args)):
        expected = args[1] @ (args[1] @ args[2][i]) if args[0][i] else args[2][i]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    total = lambda a: jnp.sum(fun(args[0], a, args[2]) ** 2)
    mapped = lambda a: jnp.sum(lax.map(lambda row: product(row[0], a, row[1]), args[::2]) ** 2)
    np.testing.assert_allclose(
        weft.jit(weft.grad(total))(args[1]), weft.grad(mapped)(args[1]), rtol=1e-3, atol=1e-3
    )


def test_cheap_branches_stay_selects():
    fun = weft.vmap(lambda i, x: lax.cond(i > 0, lambda x: x + 1, lambda x: x * 2, x))
    names = [e.primitive.name for e in weft.make_jaxpr(fun)(chosen(100, 0.5), floats(100)).eqns]
    assert "jit" not in names and "select_n" in names
