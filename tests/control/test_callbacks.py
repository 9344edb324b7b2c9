"""Callbacks: what they see under each transformation, their effects, and their errors."""

import io
import logging

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import debug, lax
from weft.api.callbacks import effects_barrier, pure_callback
from weft.custom_derivatives import custom_jvp
from weft.experimental import io_callback

X = np.arange(3, dtype=np.float32)
SCALAR = weft.ShapeDtypeStruct((), np.float32)
VECTOR = weft.ShapeDtypeStruct((3,), np.float32)


@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit])
def test_pure_callback_takes_and_returns_trees(wrap):
    def host(tree, scale=1.0):
        assert isinstance(tree["a"], weft.Array)
        return {"sum": np.sum(tree["a"], dtype=np.float32), "scaled": np.asarray(tree["a"]) * scale}

    shapes = {"sum": SCALAR, "scaled": VECTOR}
    out = wrap(lambda x: pure_callback(host, shapes, {"a": x}, scale=np.float32(2.0)))(X)
    assert float(out["sum"]) == 3.0
    np.testing.assert_array_equal(out["scaled"], 2 * X)


@pytest.mark.parametrize(
    ("method", "shapes"),
    [
        ("sequential", [((), ())] * 3),
        ("sequential_unrolled", [((), ())] * 3),
        ("expand_dims", [((3,), (1,))]),
        ("broadcast_all", [((3,), (3,))]),
        ("legacy_vectorized", [((3,), ())]),
    ],
)
def test_pure_callback_under_vmap(method, shapes):
    seen = []

    def host(x, y):
        seen.append((x.shape, y.shape))
        return np.asarray(x) + np.asarray(y)

    def f(x, y):
        return pure_callback(host, SCALAR, x, y, vmap_method=method)

    out = weft.vmap(f, in_axes=(0, None))(X, np.float32(2.0))
    np.testing.assert_array_equal(out, X + 2)
    assert seen == shapes


def test_pure_callback_may_be_dropped_and_impure_ones_not():
    seen = []
    note = seen.append

    def f(x):
        pure_callback(lambda v: note("pure"), None, x)
        io_callback(lambda v: note("io"), None, x)
        debug.callback(lambda v: note("debug"), x)
        return x

    weft.jit(lambda x: f(f(x)))(1.0)
    assert [s for s in seen if s != "pure"] == ["io", "debug"] * 2


def test_ordered_effects_in_loops_and_branches():
    seen = []

    @weft.jit
    def f(x):
        def body(i, c):
            io_callback(lambda i: seen.append(int(i)), None, i, ordered=True)
            return c + 1

        x = lax.fori_loop(0, 3, body, x)
        return lax.cond(x > 0, lambda x: _noted(seen, "yes", x), lambda x: x, x)

    f(1)
    effects_barrier()
    assert seen == [0, 1, 2, "yes"]


def _noted(seen, word, x):
    io_callback(lambda v: seen.append(word), None, x, ordered=True)
    return x


def test_derivative_by_custom_rule():
    @custom_jvp
    def f(x):
        return pure_callback(np.sin, SCALAR, x)

    f.defjvp(lambda primals, tangents: (f(*primals), jnp.cos(primals[0]) * tangents[0]))
    np.testing.assert_allclose(weft.jit(weft.grad(f))(1.0), np.cos(1.0), rtol=1e-6)


def test_debug_callback_sees_primal_values_and_each_element():
    seen = []

    def f(x):
        debug.callback(lambda v: seen.append(float(v)), x)
        return x * x

    weft.grad(f)(2.0)
    weft.grad(weft.jit(f))(3.0)
    weft.jvp(f, (4.0,), (1.0,))
    weft.vmap(f)(X)
    weft.jit(weft.vmap(weft.grad(f)))(X)
    assert seen == [2.0, 3.0, 4.0, 0.0, 1.0, 2.0, 0.0, 1.0, 2.0]


def test_debug_callback_options_first():
    seen = []
    debug.callback(ordered=True)(lambda x, word: seen.append((int(x), word)), 3, word="a")
    assert seen == [(3, "a")]


@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit])
def test_debug_print_formats_like_str_format(wrap, capsys):
    def f(x):
        debug.print("x {x} {}", x[0], x=x)
        debug.print("{:.2f} {}", x[1] / 3, "word", ordered=True)
        debug.print("plain")
        debug.print(ordered=True)("two {}", 2)

    wrap(f)(X)
    assert capsys.readouterr().out == "x [0. 1. 2.] 0.0\n0.33 word\nplain\ntwo 2\n"


def test_debug_print_under_vmap(capsys):
    weft.vmap(lambda x, y: debug.print("{} {}", x, y), in_axes=(0, None))(X, 7)
    assert capsys.readouterr().out == "0.0 7\n1.0 7\n2.0 7\n"


def test_debug_log(caplog):
    with caplog.at_level(logging.INFO, logger="weft.debug"):
        weft.jit(lambda x: debug.log("value {}", x))(3)
    assert caplog.messages == ["value 3"]
    assert caplog.records[0].pathname.endswith("test_callbacks.py")


def test_breakpoint_shows_values():
    out = io.StringIO()

    def f(x):
        doubled = 2 * x
        debug.breakpoint(stdin=io.StringIO("p doubled\nbt\nl\np nope\nhelp\nc\n"), stdout=out)
        return doubled

    assert float(weft.jit(f)(3.0)) == 6.0
    text = out.getvalue()
    assert "(wdb) 6.0" in text and "in f" in text and "NameError" in text and "EXPR" in text
    assert "doubled = 2 * x" in text


def test_breakpoint_has_variables_that_are_no_trees():
    out, ring, mixed = io.StringIO(), [], {1: 2, "a": 3}
    ring.append(ring)

    def f(x):
        debug.breakpoint(stdin=io.StringIO("u\np ring[0] is ring, mixed, x\nc\n"), stdout=out)
        return x

    def caller(x, ring, mixed):
        return f(x)

    weft.jit(lambda x: caller(x, ring, mixed))(3.0)
    assert "(True, {1: 2, 'a': 3}, " in out.getvalue() and "3." in out.getvalue()


def test_shardings(capsys):
    seen = []
    debug.inspect_array_sharding(jnp.zeros(3), callback=seen.append)
    weft.jit(lambda x: debug.inspect_array_sharding(x, callback=seen.append))(X)
    assert [s.num_devices for s in seen] == [1, 1]
    debug.visualize_array_sharding(jnp.zeros((2, 2)))
    assert "CPU 0" in capsys.readouterr().out
    with pytest.raises(ValueError, match="one or two dimensions"):
        debug.visualize_array_sharding(jnp.zeros((2, 2, 2)))


def failing(*_):
    raise ValueError("boom")


@pytest.mark.parametrize(
    "call",
    [
        lambda: pure_callback(failing, SCALAR, 1.0),
        lambda: weft.jit(lambda x: pure_callback(failing, SCALAR, x))(1.0),
        lambda: weft.jit(lambda x: io_callback(failing, None, x))(1.0),
        lambda: weft.jit(lambda x: debug.callback(failing, x))(1.0),
    ],
)
def test_errors_in_callbacks_keep_their_message(call):
    with pytest.raises(weft.errors.JaxRuntimeError, match="failing failed: ValueError: boom"):
        call()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: debug.callback(failing, 1.0), ValueError, "boom"),
        (
            lambda: pure_callback(lambda x: x[:2], VECTOR, X),
            weft.errors.JaxRuntimeError,
            r"shape \(3,\).*shape \(2,\)",
        ),
        (
            lambda: pure_callback(lambda x: np.arange(3), VECTOR, X),
            weft.errors.JaxRuntimeError,
            "dtype float32.*int32",
        ),
        (
            lambda: pure_callback(lambda x: (x, x), VECTOR, X),
            weft.errors.JaxRuntimeError,
            "1 results.*returned 2",
        ),
        (
            lambda: pure_callback(lambda x: x, np.zeros(3), X),
            ValueError,
            "64-bit type float64",
        ),
        (lambda: pure_callback(lambda x: x, "f32", X), TypeError, "shape and a dtype"),
        (
            lambda: pure_callback(lambda x: x, VECTOR, X, vmap_method="some"),
            ValueError,
            "vmap_method must be one of",
        ),
        (
            lambda: weft.vmap(lambda x: pure_callback(lambda x: x, SCALAR, x))(X),
            NotImplementedError,
            "vmap_method='sequential'",
        ),
        (
            lambda: weft.grad(lambda x: pure_callback(lambda x: x, SCALAR, x))(1.0),
            ValueError,
            "custom_jvp",
        ),
        (
            lambda: weft.grad(lambda x: io_callback(lambda x: x, SCALAR, x))(1.0),
            ValueError,
            "no JVP rule",
        ),
        (
            lambda: weft.vmap(lambda x: io_callback(lambda x: x, SCALAR, x, ordered=True))(X),
            ValueError,
            "cannot map an ordered io_callback",
        ),
        (lambda: debug.callback(3, 1.0), TypeError, "takes a function"),
        (lambda: debug.print(X), TypeError, "format string"),
        (lambda: debug.print("x", X), ValueError, "positional arguments"),
        (lambda: debug.print("x", y=X), ValueError, "f-string"),
        (lambda: debug.print("{} {}", 1), IndexError, "index"),
        (lambda: debug.print("{x}"), KeyError, "x"),
    ],
)
def test_misuse(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit])
def test_results_in_the_other_byte_order(wrap):
    for order in "<>":
        host = lambda x, o=order: np.asarray(x).astype(f"{o}f4")
        out = wrap(lambda x, h=host: pure_callback(h, VECTOR, x))(X)
        assert out.dtype == np.float32 and out.tolist() == X.tolist()
