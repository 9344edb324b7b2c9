"""What ``jit`` checks before it traces, when it traces again, and what it says of donations."""

import gc
import logging
import warnings
import weakref

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax


def many(a, b, *args, c=1, **kw):
    return a


def first(a, /, b):
    return a


@pytest.mark.parametrize(
    ("fun", "marks"),
    [
        (lambda a: a, {"donate_argnames": ("nope",)}),
        (lambda a: a, {"static_argnames": "nope"}),
        (many, {"static_argnames": "args"}),
        (many, {"donate_argnames": "args"}),
        (first, {"static_argnames": "a"}),
        (first, {"donate_argnames": "a"}),
        (first, {"donate_argnums": 2}),
    ],
)
def test_marks_that_no_parameter_has(fun, marks):
    with pytest.raises(ValueError, match=r"parameter|position"):
        weft.jit(fun, **marks)


@pytest.mark.parametrize("marks", [{"static_argnames": 3}, {"static_argnums": "a"}])
def test_marks_of_the_wrong_type(marks):
    with pytest.raises(TypeError):
        weft.jit(first, **marks)


@pytest.mark.parametrize("marks", [{"static_argnames": "z"}, {"donate_argnames": ("b", "z")}])
def test_marks_that_keywords_may_have(marks):
    assert weft.jit(many, **marks)(1.0, 2.0) == 1.0


def test_a_function_jitted_twice_is_traced_once():
    traced = []

    def f(x, n=1):
        traced.append(n)
        return x * n

    assert [int(weft.jit(f)(i)) for i in range(4)] == [0, 1, 2, 3] and len(traced) == 1
    weft.jit(f)(1.0)
    assert len(traced) == 2
    static = [weft.jit(f, static_argnames="n") for _ in range(2)]
    assert [int(g(3, n=n)) for g in static for n in (1, 2)] == [3, 6, 3, 6] and len(traced) == 4
    static[0].clear_cache()
    assert static[0](3, n=2) == 6 and len(traced) == 5
    weft.clear_caches()
    assert weft.jit(f)(2) == 2 and len(traced) == 6


def test_piecewise_traces_its_functions_once():
    traced = []

    def low(x):
        traced.append("low")
        return -x

    def high(x, by):
        traced.append("high")
        return by * x

    x = jnp.array([-2.0, 3.0])
    for _ in range(3):
        found = jnp.piecewise(x, [x < 0], [lambda v, by: low(v), high], by=2.0)
    assert found.tolist() == [2.0, 6.0]
    traced.clear()
    take_low = lambda v: low(v)
    for _ in range(3):
        found = jnp.piecewise(x, [x < 0], [take_low, 7])
    assert found.tolist() == [2.0, 7.0] and traced == ["low"]


@pytest.mark.parametrize(
    "use",
    [
        lambda big: weft.jit(lambda x: big + x),
        lambda big: weft.jit(lambda x: lax.cond(x > 0, lambda: big, lambda: big + 1)),
        lambda big: weft.jit(lambda x: lax.fori_loop(0, 2, lambda _, y: y + big, big * x)),
        lambda big: weft.jit(lambda x: lax.scan(lambda c, _: (c + big, c), big * x, None, 2)),
        lambda big: weft.jit(weft.checkpoint(lambda x: jnp.sin(big * x))),
    ],
    ids=["add", "cond", "fori_loop", "scan", "checkpoint"],
)
def test_dropped_functions_let_go_of_what_they_close_over(use):
    big = jnp.ones(1000)
    seen = weakref.ref(big)
    f = use(big)
    f(1)
    f(2)
    del f, big
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize(
    ("fun", "options", "what"),
    [
        (lambda x: x.sum(), {}, "float32\\[4\\]"),
        (lambda x: 1.0, {"keep_unused": True}, "float32\\[4\\]"),
        (lambda x: 1.0, {}, None),
        (lambda x: x + 1, {}, None),
        (lambda x: x.reshape(2, 2), {}, None),
        (lambda x: x.astype(int), {}, None),
    ],
)
def test_donations_in_vain_are_said_once(fun, options, what):
    f = weft.jit(fun, donate_argnums=0, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if what is None:
            f(jnp.ones(4))
        else:
            with pytest.warns(UserWarning, match=f"donated buffers were not usable: {what}"):
                f(jnp.ones(4))
        f(jnp.ones(4))
        weft.jit(lambda x: f(x * 2))(jnp.ones(4))


def test_lowering_says_what_is_donated_in_vain():
    with pytest.warns(UserWarning, match="not usable: float32\\[3\\], float32\\[3\\]"):
        weft.jit(lambda x, y: 1.0 + x[0] * y[0], donate_argnums=(0, 1)).lower(
            jnp.ones(3), jnp.ones(3)
        )


def test_tokens_go_through_jit():
    made = weft.jit(lax.create_token)
    token = lax.create_token()
    assert type(made(1.0)) is type(made(1.0)) is type(token)
    after = weft.jit(lambda t, x: (lax.after_all(t, t), x + 1))
    for _ in range(2):
        out, y = after(token, 1.0)
        assert type(out) is type(token) and y == 2
    assert type(weft.jit(lambda t: t)(token)) is type(token)
    assert repr(weft.eval_shape(lax.create_token, 1.0)) == "AbstractToken()"


def test_cache_misses_of_the_package_are_not_explained(caplog):
    with caplog.at_level(logging.WARNING, "weft"), weft.explain_cache_misses(True):
        jnp.linalg.det(jnp.eye(7))
        weft.nn.gelu(jnp.ones(13))
        assert not caplog.records
        weft.jit(lambda x: jnp.sin(x))(np.ones(11))
        assert len(caplog.records) == 1 and "<lambda>" in caplog.text


def test_axes_of_vmap_are_no_dict():
    with pytest.raises(TypeError, match="in_axes must be an int, None, or a tuple"):
        weft.vmap(lambda x: x["a"], in_axes={"a": 0})
    assert weft.vmap(lambda x: x["a"], in_axes=({"a": 0},))({"a": jnp.ones(2)}).shape == (2,)


def test_values_of_jvp():
    value, tangent = weft.jvp(jnp.asarray, (1.0,), (2.0,))
    assert isinstance(value, weft.Array) and isinstance(tangent, weft.Array)
    assert isinstance(weft.jvp(lambda x: x + 1.0, (1.0,), (2.0,))[1], weft.Array)

    @weft.custom_jvp
    def f(x):
        return x

    f.defjvp(lambda primals, tangents: (2.0, 3.0))
    assert weft.jvp(f, (1.0,), (2.0,)) == (2.0, 3.0)
    assert type(weft.jvp(f, (1.0,), (2.0,))[1]) is float
