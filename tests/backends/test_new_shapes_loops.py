"""Programs with loops and branches on new shapes: results, and no new code for them."""

import numpy as np
import pytest

import weft
from weft import lax
from weft import numpy as jnp
from weft.backends.cpu.calls import native
from weft.backends.cpu.code.loop_text import Survey, Text
from weft.base import knobs
from weft.kernel.program import For, While, inner_regions

special, linalg = weft.scipy.special, weft.scipy.linalg


def reals(n, seed=0):
    return np.random.default_rng([n, seed]).uniform(0.1, 2.0, n).astype(np.float32)


def integers(n, seed=0):
    return np.random.default_rng([n, seed]).integers(1, 1000, n).astype(np.int32)


def square(n):
    x = np.random.default_rng(n).normal(size=(n, n)).astype(np.float32)
    return x @ x.T / n + np.eye(n, dtype=np.float32)


# functions, what they are given at a size, and sizes; the first are of no other test
FEW = [601, 523, 640, 701]
MANY = [40_013, 43_007, 47_111, 51_203]
SQUARES = [19, 21, 27, 25]
CALLS = {
    "gcd": (jnp.gcd, lambda n: [integers(n), integers(n, 1)], FEW),
    "gcd of many": (jnp.gcd, lambda n: [integers(n), integers(n, 1)], MANY),
    "lcm": (jnp.lcm, lambda n: [integers(n), integers(n, 1)], FEW),
    "isin": (jnp.isin, lambda n: [integers(n), integers(n // 2, 1)], FEW),
    "searchsorted": (jnp.searchsorted, lambda n: [np.sort(reals(n)), reals(n, 1)], FEW),
    "searchsorted of many": (jnp.searchsorted, lambda n: [np.sort(reals(97)), reals(n, 1)], MANY),
    "interp": (jnp.interp, lambda n: [reals(n), np.arange(40.0), reals(40, 1)], FEW),
    "expn": (lambda x: special.expn(2, x), lambda n: [reals(n)], FEW),
    "hyp1f1": (special.hyp1f1, lambda n: [reals(n), reals(n, 1) + 3, reals(n, 2)], FEW),
    "expm": (linalg.expm, lambda n: [square(n)], SQUARES),
    "qdwh": (lax.linalg.qdwh, lambda n: [square(n)], SQUARES),
    "eigenvalues": (
        lambda d, e: linalg.eigh_tridiagonal(d, e, eigvals_only=True),
        lambda n: [reals(n), reals(n - 1, 1)],
        SQUARES,
    ),
    "polyfit": (lambda x, y: jnp.polyfit(x, y, 3), lambda n: [reals(n), reals(n, 1)], FEW),
}


def leaves(x):
    return [np.asarray(v) for v in weft.tree.leaves(x)]


@pytest.mark.parametrize("name", CALLS)
def test_a_new_shape_compiles_nothing(name, texts):
    fun, given, sizes = CALLS[name]
    compiled = weft.jit(lambda *xs: fun(*xs))
    for i, n in enumerate(sizes):
        args = [jnp.asarray(x) for x in given(n)]
        for _ in range(3):
            found = fun(*args)
        if i > 1:
            assert texts == [], n
        for a, b in zip(leaves(found), leaves(compiled(*args)), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)
        texts.clear()


# --- loops of all kinds, as general programs ------------------------------------------------------


def rows(n, m=3):
    return np.random.default_rng([n, m]).normal(size=(n, m)).astype(np.float32)


LOOPS = {
    "sums of rows": (lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x), rows),
    "backwards": (lambda x: lax.scan(lambda c, r: (c + r, c), x[0], x, reverse=True), rows),
    "single numbers": (lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c), 0.0, x[:, 0]), rows),
    "pairs": (
        lambda x: lax.scan(lambda c, r: ((c[1], c[0] + r), c[0]), (0.0, 1.0), x[:, 0]),
        rows,
    ),
    "products": (lambda x: lax.fori_loop(0, 70, lambda i, c: c @ (x / 9), x), lambda n: rows(n, n)),
    "until": (
        lambda x: lax.while_loop(lambda c: c.sum() > 1, lambda c: c * 0.9, jnp.abs(x)),
        rows,
    ),
    "each until": (
        lambda x: weft.vmap(
            lambda v: lax.while_loop(lambda c: c > 1e-2, lambda c: c * 0.7, jnp.abs(v))
        )(x.ravel()),
        rows,
    ),
    "one of two": (
        lambda x: lax.cond(x.sum() > 0, lambda v: jnp.sort(v, 0), lambda v: v * 2, x),
        rows,
    ),
    "branches in loops": (
        lambda x: lax.fori_loop(
            0, 80, lambda i, c: lax.cond(i % 3 == 0, lambda v: v * 0.5, lambda v: v + x, c), x
        ),
        rows,
    ),
    "loops in loops": (
        lambda x: lax.scan(
            lambda c, r: (lax.fori_loop(0, r.size * 30, lambda i, v: v * 0.9 + r, c), c), x[0], x
        ),
        rows,
    ),
    "single numbers in loops": (
        lambda x: lax.scan(
            lambda c, r: (lax.fori_loop(0, 3 * len(x), lambda i, v: v * 0.9 + r, c), c),
            0.0,
            x[:, 0],
        ),
        rows,
    ),
    "until in loops": (
        lambda x: lax.scan(
            lambda c, r: (lax.while_loop(lambda v: v > abs(r), lambda v: v * 0.9, c) + 9, c),
            9.0,
            x[:, 0],
        ),
        rows,
    ),
    "factors": (
        lambda x: lax.fori_loop(
            0, 90, lambda i, c: jnp.linalg.cholesky(c @ c.T + jnp.eye(len(x))) / len(x), x
        ),
        lambda n: rows(n, n),
    ),
}


def planned(fun, *args):
    return native.compile_program(native.generalise(weft.make_jaxpr(fun)(*args)))


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_for_any_size_gives_the_same(name):
    fun, given = LOOPS[name]
    for n in (1, 2, 5, 8, 41, 300) if "products" not in name and "factors" not in name else (2, 7):
        args = [jnp.asarray(given(n))]
        found = planned(fun, *args)(args)
        with knobs.scope(backend="reference"):
            wanted = weft.jit(lambda *xs, f=fun: f(*xs))(*args)
        for a, b in zip(found, leaves(wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_has_one_text_for_all_sizes(name, texts):
    fun, given = LOOPS[name]
    # rounds are even and odd in number, which may show
    for n in (23, 24, 28, 31, 37):
        planned(fun, jnp.asarray(given(n)))
        if n > 24:
            assert texts == [], n
        texts.clear()


def test_a_loop_of_a_user_is_compiled_once(texts):
    for n in (51, 57, 63):
        x, start = jnp.asarray(rows(n, 6)), jnp.asarray(rows(n, 6)[0])
        _, found = lax.scan(lambda c, r: (jnp.tanh(c * 0.5 + r) * 2 - c * r, c), start, x)
        assert (texts == []) == (n != 51)
        with knobs.scope(backend="reference"):
            _, wanted = lax.scan(lambda c, r: (jnp.tanh(c * 0.5 + r) * 2 - c * r, c), start, x)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
        texts.clear()


def test_single_numbers_go_round_in_one_function():
    def loops(nodes):
        return [x for n in nodes for x in [n, *(y for r in inner_regions(n) for y in loops([*r]))]]

    plan = planned(*[LOOPS["single numbers"][0], jnp.asarray(rows(50))]).plan
    kinds = [x for x in loops(plan.nodes) if isinstance(x, (For, While))]
    assert [type(x) for x in kinds] == [While] and not kinds[0].body  # it calls the function


def test_a_kernel_of_many_numbers_has_them_written_into_it():
    def chain(x):
        for i in range(20):
            x = x * (1.5 + i) + 0.25
        return x

    plan = planned(chain, jnp.ones(700)).plan
    assert not any(c.dtype == np.float32 for c in plan.constants)
    np.testing.assert_allclose(
        planned(chain, jnp.ones(700))([jnp.ones(700)])[0], chain(np.ones(700)), 1e-5
    )


def test_names_of_slots_are_numbered_as_they_come():
    one, other = Text(Survey([], [], 0)), Text(Survey([], [], 0))
    names = [
        [t.named("x", n), t.named("m", m), t.named("s", n)]
        for t, n, m in ((one, 17, 3), (other, 2, 40))
    ]
    assert names == [["%x0", "%m1", "%s0"]] * 2
    assert one.function_name(17) == other.function_name(9) == "f0"
    assert one.named("x", 3) != one.named("x", 17)


# --- functions that have learnt -------------------------------------------------------------------


def test_a_long_function_is_planned_as_a_whole_on_a_new_shape(texts, monkeypatch):
    made = []
    compiled = native.Executable

    def noted(closed, *rest):
        made.append(closed)
        return compiled(closed, *rest)

    monkeypatch.setattr(native, "Executable", noted)
    for n in (433, 449):
        made.clear()
        x = jnp.asarray(reals(n))
        first = special.expi(x)
        assert (len(made) == 1) == (n == 449)
        assert (first == special.expi(x)).all()


def test_what_is_costly_in_branches_has_the_bits_of_compiled_functions():
    n = 421
    x = np.linspace(-60, 60, n, dtype=np.float32)
    a, b = reals(n), reals(n, 1) + 1
    found = special.hyp1f1(a, b, x)
    assert (found == weft.jit(special.hyp1f1)(a, b, x)).all()
    few = special.hyp1f1(a, b, x / 60)  # nobody wants the other branch
    np.testing.assert_array_equal(few, weft.jit(special.hyp1f1)(a, b, x / 60))


def _recurrent(w, h):
    return lax.scan(lambda h, _: (jnp.tanh(h @ w), h.mean()), h, None, length=90)


def _heated(u):
    near = [(1, 0), (-1, 0), (1, 1), (-1, 1)]
    return lax.while_loop(
        lambda c: c[0] < 80,
        lambda c: (c[0] + 1, c[1] * 0.6 + 0.1 * sum(jnp.roll(c[1], *at) for at in near)),
        (0, u),
    )[1]


@pytest.mark.parametrize("fun", [_recurrent, _heated], ids=lambda f: f.__name__)
def test_long_loops_over_many_elements_are_made_once(fun, texts):
    """Where each round is more than calling its functions, they do for any size."""
    for i, n in enumerate([71, 75, 83, 90]):
        x = np.random.default_rng(n).normal(size=(n, n)).astype(np.float32) / 8
        given = [jnp.asarray(a) for a in ((x, x[:9]) if fun is _recurrent else (x,))]
        before = len(texts)
        got = leaves(fun(*given))
        if i > 1:
            assert len(texts) == before, n
        with knobs.scope(backend="reference"):
            want = leaves(fun(*given))
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
