"""What reports say: lines of rules and of weft's own functions, repeated operands, elements that
count, mistakes beside values that were passed in, and where an infinity comes from."""

import inspect

import numpy as np
import pytest

import weft as jax
import weft.numpy as jnp
from weft import lax

INF, NAN = np.inf, np.nan


def told(function, *args, **kinds):
    """The error of a call with checks; None without one."""
    try:
        with jax.checks(**kinds):
            jax.block_until_ready(function(*args))
    except jax.errors.CheckError as error:
        return str(error)
    return None


def line_of(function, plus=0):
    return f"test_reports.py:{inspect.getsourcelines(function)[1] + plus},"


# --- lines ----------------------------------------------------------------------------------------


def call_a(x):
    return jnp.linalg.cholesky(x)


def call_b(x):
    return jnp.linalg.cholesky(x)


def through_a_loop(x):
    return lax.fori_loop(0, 2, lambda i, y: jnp.linalg.cholesky(y), x)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, jax.vmap], ids=["eager", "jit", "vmap"])
def test_functions_of_weft_stand_at_the_line_of_each_caller(wrap):
    x = np.stack([-np.eye(3, dtype=np.float32)] * 2)
    for f in (call_a, call_b, call_a):
        assert line_of(f, 1) in told(wrap(f), x)
    assert line_of(through_a_loop, 1) in told(wrap(through_a_loop), x)


def test_gradients_of_functions_of_weft_stand_at_the_line_of_each_caller():
    x = jnp.zeros(3)
    for f in (lambda x: jnp.linalg.norm(x), lambda x: jnp.linalg.norm(x) * 2):
        assert line_of(f) in told(jax.jit(jax.grad(f)), x)


@jax.custom_vjp
def length(x):
    return jnp.sqrt((x * x).sum())


def length_fwd(x):
    return length(x), (x, length(x))


def length_bwd(saved, ct):
    x, n = saved
    scaled = ct * x
    return (scaled / n,)


length.defvjp(length_fwd, length_bwd)


@jax.custom_jvp
def root(x):
    return jnp.sqrt(x)


@root.defjvp
def root_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    return root(x), dx / (2 * jnp.sqrt(x))


scaled = jax.custom_batching.custom_vmap(lambda x: x * 2)


@scaled.def_vmap
def scaled_rule(size, batched, x):
    return jnp.log(x), batched[0]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda f: f,
        jax.jit,
        jax.checkpoint,
        lambda f: lambda x: lax.scan(lambda c, r: (c + f(r), None), 0.0, x[None])[0],
        lambda f: lambda x: jax.vmap(f)(x[None]).sum(),
        lambda f: lambda x: jnp.where(x.sum() < 9, f(x), 0.0),
    ],
    ids=["plain", "jit", "checkpoint", "scan", "vmap", "where"],
)
def test_rules_of_users_stand_at_their_own_lines(wrap):
    x = jnp.zeros(2)
    assert line_of(length_bwd, 3) in told(jax.jit(jax.grad(wrap(length))), x)
    f = wrap(lambda x: root(x).sum())
    assert line_of(root_jvp, 3) in told(jax.jit(jax.grad(f)), x)


def test_batching_rules_stand_at_their_own_lines():
    f = jax.jit(lambda x: jax.vmap(jax.jit(scaled))(x))
    assert line_of(scaled_rule, 2) in told(f, -jnp.ones(2))


def test_rules_of_weft_stand_at_the_line_of_the_call():
    def first(x):
        return jax.nn.relu(x)

    eqns = jax.make_jaxpr(jax.jit(jax.grad(lambda x: jax.jit(first)(x).sum())))(jnp.ones(2)).eqns
    lines = {info.file for info in (eqn.source_info for eqn in eqns)}
    assert lines == {__file__}


# --- operands and elements ------------------------------------------------------------------------


def test_repeated_operands_are_shown_at_the_element():
    x = jnp.array([[0.0, 2.0], [1.0, 3.0]])
    f = jax.jit(lambda x: x / (x - x[:, :1]))
    assert "div divided by zero at [0, 0]: 0 / 0" in told(f, x)
    f = jax.jit(lambda x: x - x.max(axis=1, keepdims=True))
    assert "sub made nan at [1, 0]: -inf - -inf" in told(f, jnp.array([[0.0, 1.0], [-INF, -INF]]))


def test_random_keys_and_narrow_floats_are_shown():
    f = jax.jit(lambda k: jax.random.gamma(k, -1.0, (3,)))
    got = told(f, jax.random.key(0))
    assert "random_gamma(key<fry>[]" in got and "parameters of the distribution" in got
    f = jax.jit(lambda x: jnp.cumsum(x))
    assert "bfloat16[2], inf at [0]" in told(f, jnp.array([INF, -INF], jnp.bfloat16))


ROWS = jnp.arange(4)


@pytest.mark.parametrize(
    ("function", "want"),
    [
        (lambda x, d: jnp.where(ROWS > 1, x / d, 0.0), "div divided by zero at [3]: 3 / 0"),
        (
            lambda x, d: jnp.where(ROWS > 1, x.astype(int) // d.astype(int), 0),
            "div divided by zero at [3]: 3 // 0",
        ),
        (
            lambda x, d: lax.fori_loop(
                0, 3, lambda i, c: c + jnp.where(ROWS > i + 1, x / d, 0.0), x
            ),
            "div divided by zero at [3]: 3 / 0",
        ),
        (
            lambda x, d: jnp.where(ROWS[:, None] > 1, x[:, None] / d[None, :2], 0.0),
            "div divided by zero at [2, 0]: 2 / 0",
        ),
        (
            lambda x, d: jnp.where(ROWS > 1, (x[:, None] / d[:, None]).sum(1), 0.0),
            "div divided by zero at [3, 0]: 3 / 0",
        ),
    ],
)
@pytest.mark.parametrize("batch", [False, True])
def test_the_element_that_counts_is_named(function, want, batch):
    x, d = jnp.arange(4.0), jnp.array([0.0, 1.0, 2.0, 0.0])
    if batch:
        got = told(jax.jit(jax.vmap(function)), jnp.stack([x, x]), jnp.stack([d + 1, d]))
        want = want.replace("at [", "at [1, ")
    else:
        got = told(jax.jit(function), x, d)
    assert want in got


def test_what_where_discards_behind_a_long_chain():
    def f(x, d):
        y = x / (d + 5)
        for _ in range(14):
            y = jnp.sin(y) + 1
        return jnp.where(d != 0, y / d, 0.0)

    with jax.checks():
        jax.jit(f)(jnp.arange(4.0), jnp.array([0.0, 1.0, 2.0, 0.0]))


def test_the_sum_that_counts_is_named():
    x = jnp.array([70000, 1, 2, 80000])
    f = jax.jit(lambda x: jnp.where(ROWS > 1, x * x, 0))
    assert "mul overflowed int32 at [3]: 80000 * 80000" in told(f, x)


# --- indices that where discards ------------------------------------------------------------------

TABLE = jnp.arange(15.0).reshape(5, 3) + 1
IDS = np.array([[0, 7], [2, -9]])

DISCARDED = {
    "rows": lambda t, i: jnp.where(((i >= 0) & (i < 5))[..., None], t[i], 0.0).sum(),
    "take": lambda t, i: jnp.where(
        ((i >= 0) & (i < 5))[..., None], jnp.take(t, i, axis=0), 0.0
    ).sum(),
    "rows summed": lambda t, i: jnp.where((i >= 0) & (i < 5), t[i].sum(-1), 0.0).sum(),
    "elements": lambda t, i: jax.vmap(
        jax.vmap(lambda k: jnp.where((k >= 0) & (k < 5), t[k], 0.0).sum())
    )(i).sum(),
    "scan": lambda t, i: lax.scan(
        lambda c, k: (c + jnp.where((k >= 0) & (k < 5), t[k], 0.0).sum(), None), 0.0, i.reshape(-1)
    )[0],
    "slice": lambda t, i: jax.vmap(
        lambda k: jnp.where((k >= 0) & (k < 5), lax.dynamic_slice(t, (k, 0), (1, 3)), 0.0).sum()
    )(i.reshape(-1)).sum(),
    "along an axis": lambda t, i: jnp.where(
        (i >= 0) & (i < 5), jnp.take_along_axis(t[:, :2], i, 0), 0.0
    ).sum(),
}


@pytest.mark.parametrize("name", DISCARDED)
@pytest.mark.parametrize("wrap", [lambda f: f, jax.grad], ids=["value", "grad"])
def test_what_where_discards_may_be_read_anywhere(name, wrap):
    f = wrap(DISCARDED[name])
    want = jax.jit(f)(TABLE, IDS)
    with jax.checks():
        np.testing.assert_allclose(jax.jit(lambda t, i: f(t, i))(TABLE, IDS), want, rtol=1e-6)
    # the same without the mistake's guard
    f = wrap(lambda t, i: DISCARDED[name](t, jnp.abs(i) % 5) + t[i].sum())
    assert "index 7 for axis 0 of size 5" in told(jax.jit(f), TABLE, IDS)


def test_the_index_that_counts_is_named():
    ids = np.array([9, 1, 7, 2])
    f = jax.jit(lambda t, i: jnp.where((i != 9)[:, None], t[i], 0.0))
    assert "index 7 for axis 0 of size 5, at [2] of its indices" in told(f, TABLE, ids)
    f = jax.jit(jax.grad(lambda t, i: jnp.where((i != 9)[:, None], t[i], 0.0).sum()))
    assert "index 7 for axis 0 of size 5, at [2] of its indices" in told(f, TABLE, ids)


def test_zeros_that_a_user_writes_out_of_bounds_are_a_mistake():
    f = jax.jit(lambda t, i: t.at[i].add(0.0))
    assert "scatter-add got index 9" in told(f, TABLE, np.array([9]))


# --- beside values that were passed in ------------------------------------------------------------

BESIDE = {
    "repeated": (
        lambda x: x - x.max(1, keepdims=True),
        [[NAN, 1.0], [-INF, -INF]],
        "sub made nan at [1, 0]: -inf - -inf",
    ),
    "sum": (lambda x: x.sum(1), [[NAN, 1.0], [INF, -INF]], "reduce_sum made nan at [1]"),
    "product": (
        lambda x: x @ jnp.array([[0.0, 1.0], [1.0, 1.0]]),
        [[NAN, 1.0], [INF, 2.0]],
        "dot_general made nan at [1, 0]",
    ),
    "factor": (
        lambda x: jnp.linalg.cholesky(x[:, :, None]),
        [[NAN], [-1.0]],
        "cholesky made nan at [1, 0, 0]",
    ),
}


@pytest.mark.parametrize("name", BESIDE)
def test_a_nan_beside_one_that_was_passed_in_is_named(name):
    function, x, want = BESIDE[name]
    x = np.array(x, np.float32)
    assert want in told(jax.jit(function), x)
    assert told(jax.jit(function), np.stack([x[0], x[0]])) is None


# --- infinities -----------------------------------------------------------------------------------


def test_a_nan_of_an_infinity_says_where_that_was_made():
    def f(x):
        y = jnp.exp(x)
        return y / y.sum()

    got = told(jax.jit(f), jnp.array([1.0, 100.0]))
    assert "div made nan at [1]: inf / inf" in got
    assert "exp made inf at [1]: exp(100)" in got
    assert line_of(f, 1)[:-1] in got and "`exp` smaller" in got


def test_an_infinity_that_was_passed_in_is_not_explained():
    got = told(jax.jit(lambda x: x - x), jnp.array([INF]))
    assert "sub made nan at [0]: inf - inf" in got and "made inf" not in got


def test_the_advice_fits_the_operation_that_made_an_infinity():
    f = jax.jit(jax.grad(lambda x: x.std(1).sum()))
    got = told(f, jnp.array([[1.0, 2.0], [3.0, 3.0]]))
    assert "div made inf at [1]: 0.5 / 0" in got and "Guard the operand of `div`" in got


def test_the_gradient_of_a_read_is_advised_as_one():
    f = jax.jit(jax.grad(lambda t, i: t[i].sum()))
    got = told(f, jnp.ones((3, 2)), np.array([3]))
    assert "got index 3 for axis 0 of size 3" in got and 'get(mode="clip")' in got


@pytest.mark.parametrize(
    ("function", "args", "want"),
    [
        (lambda x: 7 % x, (jnp.array([0]),), "n % jnp.where(d == 0, 1, d)"),
        (lambda x: 7 // x, (jnp.array([0]),), "n // jnp.where(d == 0, 1, d)"),
        (lambda x, i: x.at[i].set(1.0), (jnp.ones(3), np.array([4])), 'set(y, mode="drop")'),
        (lambda x, i: x[i], (jnp.ones(3), np.array([4])), 'get(mode="clip")'),
        (lambda x, i: lax.dynamic_slice(x, (i,), (2,)), (jnp.ones(3), 2), "jnp.clip(i, 0,"),
    ],
)
def test_the_advice_fits(function, args, want):
    assert want in told(jax.jit(function), *args)


def test_iterations_of_a_backward_pass_have_the_numbers_of_the_loop():
    times = jax.custom_vjp(lambda x, t: x * t)
    times.defvjp(
        lambda x, t: (x * t, t),
        lambda t, ct: (ct * jnp.log(t), None),
    )
    loop = lambda w, xs: jax.lax.scan(lambda c, t: (times(c, t), None), w, xs)[0]
    for xs, place in (([-1.0, 2, 3, 4], 0), ([1.0, 2, 3, -4], 3)):
        with jax.checks(), pytest.raises(FloatingPointError) as caught:
            jax.jit(jax.grad(loop))(1.0, jnp.array(xs))
        assert f"iteration {place} of the loop at " in str(caught.value)
        assert "which runs backwards from 3" in str(caught.value)
