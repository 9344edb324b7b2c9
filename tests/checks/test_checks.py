"""Errors inside compiled code: operation, line, element, operands and iterations."""

import inspect

import numpy as np
import pytest

import weft as jax
import weft.numpy as jnp
from weft.errors import CheckError

ALL = {"nan": True, "index": True, "division": True, "overflow": True}


def error_of(kind, function, *args, **kinds):
    """The first line of the error of a call, which must be of a class."""
    with jax.checks(**(kinds or ALL)), pytest.raises(kind) as caught:
        function(*args)
    assert isinstance(caught.value, CheckError)
    return str(caught.value).split("\n")[0]


def here(plus=0):
    """This file and the caller's line."""
    return f"test_checks.py:{inspect.currentframe().f_back.f_lineno + plus}"


X = np.array([[1.0, 2.0], [3.0, -0.25]], np.float32)


@pytest.mark.parametrize("wrap", [jax.jit, lambda f: f], ids=["jit", "eager"])
def test_a_nan_is_named(wrap):
    f, line = wrap(lambda x: (jnp.log(x) * 2).sum()), here()
    got = error_of(FloatingPointError, f, X)
    assert got.startswith("log made nan at [1, 1]: log(-0.25) — "), got
    assert line in got
    assert "in <lambda>" in got


def test_errors_come_again_and_end_with_the_scope():
    f = jax.jit(jnp.log)
    for _ in range(4):
        error_of(FloatingPointError, f, X)
    assert np.isnan(f(X)[1, 1])
    with jax.checks(nan=True):
        np.testing.assert_array_equal(f(abs(X)), np.asarray(jnp.log(abs(X))))


def test_what_where_discards_is_no_mistake():
    def f(x, d):
        y = jnp.where(x > 0, jnp.log(x) * 2 + 1, 0.0)
        whole = jnp.where(d == 0, 0, 12 // d)
        up = jnp.where(d < 2**31 - 1, d + 1, d)
        return y, jnp.where(jnp.isnan(jnp.sqrt(x)), 0, 1), whole, up

    d = jnp.array([0, 3, 2**31 - 1])
    with jax.checks(**ALL):
        _, seen, whole, up = jax.jit(f)(X, d)
    assert not seen[1, 1]
    assert whole.tolist() == [0, 4, 0]
    assert up.tolist() == [1, 4, 2**31 - 1]
    taken = jax.jit(lambda x: jnp.where(x < 0, jnp.log(x), 0.0))
    assert "log(-0.25)" in error_of(FloatingPointError, taken, X)


def test_gradients_that_where_repairs_are_clean():
    f = jax.jit(jax.grad(lambda v: jnp.where(v > 0, jnp.sqrt(v), 0.0).sum()))
    with jax.checks(**ALL):
        np.testing.assert_allclose(f(jnp.array([0.0, 1.0, -1.0])), [0, 0.5, 0])

    def lengths(points):
        squares = jnp.sum((points[:, None] - points[None]) ** 2, -1)
        return jnp.where(squares > 0, jnp.sqrt(squares), 0.0).sum()

    with jax.checks(**ALL):
        assert np.isfinite(jax.jit(jax.grad(lengths))(X)).all()


def test_nans_that_are_given_are_not_made():
    x = jnp.array([1.0, np.nan])
    constant = jnp.array([np.nan])
    with jax.checks(**ALL):
        assert np.isnan(jax.jit(lambda x: jnp.exp(x) + 1)(x)[1])
        assert np.isnan(jax.jit(lambda x: x * constant)(x)).all()
        assert jnp.nanmean(x) == 1
    both = jax.jit(lambda x: jnp.log(x - 2))
    assert "log(-1)" in error_of(FloatingPointError, both, x)


def test_infinities_have_a_flag_of_their_own():
    f = jax.jit(lambda x: 1 / x)
    x = jnp.array([1.0, 0.0])
    with jax.checks(nan=True):
        assert np.isinf(f(x)[1])
    assert "div made inf at [1]: 1 / 0" in error_of(FloatingPointError, f, x, inf=True)
    with jax.checks(inf=True):
        assert np.isinf(jax.jit(lambda x: x + 1)(jnp.array([np.inf]))[0])


@pytest.mark.parametrize("build", [lambda f, n: f, lambda f, n: jax.vmap(f)], ids=["one", "vmap"])
def test_iterations_of_loops_are_counted(build):
    def step(c, i):
        return jnp.log(c) * 3 - i, c

    def scanned(x):
        return jax.lax.scan(step, x, jnp.arange(20.0))[0]

    def backwards(x):
        return jax.lax.scan(step, x, jnp.arange(20.0)[::-1], reverse=True)[0]

    def nested(x):
        def inner(c, j):
            return jnp.sqrt(c - j), j

        def outer(c, i):
            return jax.lax.scan(inner, c + 10 * i, jnp.arange(4.0))[0], i

        return jax.lax.scan(outer, x, jnp.arange(5.0)[::-1])[0]

    def unknown(x):
        return jax.lax.while_loop(lambda c: c[1] < 9, lambda c: (c[0] ** 0.5 - 1, c[1] + 1), (x, 0))

    for function, iterations in [(scanned, 1), (backwards, 1), (nested, 2), (unknown, 1)]:
        x, carry = np.float32(5.0), []
        x = np.full(3, x) if build(abs, 0) is not abs else x
        got = error_of(FloatingPointError, jax.jit(build(function, 0)), x)
        assert got.count("iteration") == iterations, (got, carry)
    got = error_of(FloatingPointError, jax.jit(scanned), np.float32(5.0))
    value, number = np.float32(5.0), 0
    while value > 0:
        value, number = np.log(value) * 3 - number, number + 1
    assert got.startswith(f"log made nan: log({value:.6g}) — "), got
    assert f"iteration {number} of the loop at test_checks.py:" in got


def test_loops_with_products_and_branches():
    def step(c, x):
        c = jax.lax.cond(x > 2, lambda c: jnp.sqrt(c - 100), lambda c: c @ c / 4, c)
        return c, c.sum()

    f = jax.jit(lambda c: jax.lax.scan(step, c, jnp.arange(6.0)))
    got = error_of(FloatingPointError, f, jnp.ones((4, 4)))
    assert got.startswith("sqrt made nan at [0, 0]: sqrt(-99) — "), got
    assert "iteration 3 of the loop" in got


def test_indices_out_of_bounds():
    x = jnp.arange(10.0)
    index = jnp.array([3, 11])
    cases = [
        (lambda x, i: x[i[1]], "dynamic_slice got index 11 for axis 0 of size 10"),
        (lambda x, i: x[i], "gather got index 11 for axis 0 of size 10, at [1] of its"),
        (lambda x, i: x.at[i].add(1.0), "scatter-add got index 11 for axis 0 of size 10"),
        (lambda x, i: x.at[-i].set(0.0), "scatter got index -1 (-11 from the end)"),
        (lambda x, i: jnp.take_along_axis(x, i, 0), "gather got index 11"),
        (lambda x, i: jax.lax.dynamic_slice(x, (i[0] + 5,), (4,)), "got index 8 of 4 elements"),
        (
            lambda x, i: jax.lax.dynamic_update_slice(x, x[:3], (i[1],)),
            "dynamic_update_slice got index 11 of 3 elements",
        ),
    ]
    for function, text in cases:
        for wrapped in (function, lambda x, i, f=function: jax.vmap(f, (0, None))(x[None], i)):
            got = error_of(IndexError, jax.jit(wrapped), x, index)
            if wrapped is function:
                assert text in got
    with jax.checks(**ALL):
        inside = jnp.array([3, -10])
        for function, _ in cases[1:3]:
            jax.jit(function)(x, inside)
        assert jax.jit(lambda x, i: x.at[i].get(mode="clip"))(x, index)[1] == 9


def test_divisions_by_zero():
    n, d = jnp.array([7, 8]), jnp.array([2, 0])
    assert "by zero at [1]: 8 " in error_of(ZeroDivisionError, jax.jit(lambda n, d: n // d), n, d)
    got = error_of(ZeroDivisionError, jax.jit(lambda n, d: n / d), n, d)
    assert "div divided by zero at [1]: 8 / 0" in got
    with jax.checks(nan=True, overflow=True):
        jax.jit(lambda n, d: n // d)(n, d)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_integers_that_wrap(dtype):
    with jax.enable_x64(True):
        most, least = np.iinfo(dtype).max, np.iinfo(dtype).min
        root = int(np.sqrt(float(most)))
        wrapping = [
            (lambda x: x + 1, most),
            (lambda x: x - 1, least),
            (lambda x: x * x, root * 2),
            (lambda x: -x, least),
            (abs, least),
            (lambda x: x**3, root),
            (lambda x: jnp.sum(x, dtype=dtype), most // 2 + 1),
            (lambda x: jnp.cumsum(x, dtype=dtype), most // 2 + 1),
        ]
        for function, value in wrapping:
            x = jnp.full(3, value, dtype)
            got = error_of(OverflowError, jax.jit(function), x)
            assert f"overflowed {dtype}" in got
            with jax.checks(**ALL):
                jax.jit(function)(jnp.full(3, 3, dtype))
            with jax.checks(overflow=("uint8",)):
                jax.jit(function)(x)


def test_unsigned_integers_wrap_unless_they_are_named():
    f, x = jax.jit(lambda x: x + x), jnp.array([200], jnp.uint8)
    with jax.checks(**ALL):
        f(x)
        jax.jit(lambda key: jax.random.normal(key, (8,)))(jax.random.key(1))
    assert "add overflowed uint8 at [0]: 200 + 200" in error_of(
        OverflowError, f, x, overflow=(jnp.uint8,)
    )


def test_donated_arguments_live_on():
    f = jax.jit(lambda w, g: w - jnp.log(g), donate_argnums=0)
    w = jnp.ones(4)
    error_of(FloatingPointError, f, w, jnp.array([1.0, 2.0, -1.0, 1.0]))
    assert not w.is_deleted()
    np.testing.assert_array_equal(w, np.ones(4))
    with jax.checks(**ALL):
        f(w, jnp.ones(4))


def test_what_was_printed_before_stays_printed(capsys):
    def f(x):
        jax.debug.print("before {}", x, ordered=True)
        y = jnp.log(x)
        jax.debug.print("after {}", y, ordered=True)
        return y * 2

    error_of(FloatingPointError, jax.jit(f), -1.0)
    assert "before -1.0" in capsys.readouterr().out


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_the_reference_says_the_same(backend):
    with jax._knobs.backend(backend):
        got = error_of(FloatingPointError, jax.jit(lambda x: jnp.log(x)), X)
    assert got.startswith("log made nan at [1, 1]: log(-0.25) — ")


def test_settings():
    with pytest.raises(TypeError, match="integer dtypes"):
        jax.checks(overflow=("float32",))
    with jax.checks():
        assert jax._knobs.check_nan.value
        assert jax._knobs.check_overflow.value == "signed"
        assert not jax._knobs.check_inf.value
    with jax.checks(overflow=jnp.int8):
        assert jax._knobs.check_overflow.value == "int8"
        with jax.checks(nan=True, overflow=False):
            assert jax._knobs.check_overflow.value == ""


@pytest.mark.parametrize(
    ("function", "advice"),
    [
        (jnp.log, "log(jnp.where(ok, x, 1))"),
        (lambda x: x * jnp.inf + jnp.inf, "Guard the operands with `jnp.where`"),
        (lambda x: jnp.linalg.inv(jnp.zeros((2, 2)) * x[0]), "is a matrix singular?"),
        (lambda x: jnp.linalg.cholesky(jnp.eye(2) * x[0]), "is a matrix singular?"),
    ],
)
def test_advice_fits_the_operation(function, advice):
    with jax.checks(**ALL), pytest.raises(FloatingPointError) as caught:
        jax.jit(function)(jnp.array([-1.0, -2.0]))
    assert advice in str(caught.value).split("\n")[1]


def test_products_and_solves_are_named():
    big = jnp.full((2, 2), 1e38)
    got = error_of(FloatingPointError, jax.jit(lambda a, b: (a * 10) @ b), big, jnp.zeros((2, 2)))
    assert got.startswith("dot_general made nan at [0, 0]: dot_general("), got
    assert "inf at [0, 0]" in got
    got = error_of(FloatingPointError, jax.jit(jnp.linalg.inv), jnp.zeros((2, 2)), nan=True)
    assert "made nan" in got


def test_elements_of_a_batch_that_are_done_make_no_nans():
    def one(x):
        return jax.lax.while_loop(lambda x: x > 0, jnp.log, x)

    x = jnp.array([0.5, 20.0, 3.0])
    with jax.checks(**ALL):
        got = jax.jit(jax.vmap(one))(x)
    np.testing.assert_array_equal(got, jax.vmap(one)(x))
    bad = jax.vmap(lambda x: jax.lax.while_loop(lambda x: x < 5, lambda x: jnp.sqrt(x) * 3, x))
    got = error_of(FloatingPointError, jax.jit(bad), jnp.array([2.0, -1.0, 4.0]))
    assert "sqrt made nan: sqrt(-1)" in got
    assert "; element 1 of the batch; iteration 0 of" in got


def test_values_that_are_not_available_are_said_to_be():
    def step(c, i):
        y = jax.pure_callback(lambda c: np.sqrt(c) + 0, jax.ShapeDtypeStruct((), c.dtype), c)
        z = jax.experimental.io_callback(lambda c: c, jax.ShapeDtypeStruct((), c.dtype), c - 1)
        return y + jnp.log(z), None

    f = jax.jit(lambda x: jax.lax.scan(step, x, jnp.arange(4))[0])
    got = error_of(FloatingPointError, f, np.float32(0.5), nan=True)
    assert "iteration 0 of the loop" in got
    assert "not available" in got
    far = jax.jit(lambda x: jax.lax.fori_loop(0, 3_000_000, lambda i, c: jnp.sqrt(c - 1e-6), x))
    with jax.checks(nan=True):
        far(np.float32(2.0))


def test_devices_of_the_host_are_checked():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("i",))
    spec = jax.sharding.PartitionSpec("i")
    f = jax.shard_map(
        lambda v: jnp.log(v) + jax.lax.psum(v, "i"), mesh=mesh, in_specs=spec, out_specs=spec
    )
    assert "log made nan" in error_of(FloatingPointError, jax.jit(f), jnp.array([1.0, -1.0]))
    g = jax.pmap(lambda v: jnp.log(v))
    assert "log made nan at [0, 1]" in error_of(FloatingPointError, g, jnp.array([[1.0, -1.0]]))


def test_threads_have_their_own_checks():
    from concurrent.futures import ThreadPoolExecutor

    f = jax.jit(lambda x: jnp.log(x) + 1)

    def run(checked):
        for _ in range(20):
            if checked:
                error_of(FloatingPointError, f, X, nan=True)
            else:
                assert np.isnan(f(X)[1, 1])
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, [True, False, True, False]))
