"""Traced values used where a value is needed, and traced values that escape."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.errors.reading import text_of
from weft import errors, lax

ONE = jnp.ones(3)


def decide(x, limit):
    y = x * 2
    if y > limit:
        return y
    return -y


def repeat(x, limit):
    while x < limit:
        x = x + 1
    return x


def assign(x):
    x[0] = 1.0
    return x


MISUSES = {
    "assert": (
        "TracerBoolConversionError",
        lambda: weft.jit(lambda x: not x)(True),
        ["the argument x", "& | ~"],
    ),
    "int": (
        "ConcretizationTypeError",
        lambda: weft.jit(lambda count: int(count))(3),
        ["int()", "int32[]", "the argument count", "static_argnames"],
    ),
    "float": (
        "ConcretizationTypeError",
        lambda: weft.jit(lambda p: float(p["rate"]))({"rate": 0.1}),
        ["float()", "float32[]", "p['rate']"],
    ),
    "item": ("ConcretizationTypeError", lambda: weft.jit(lambda x: x.item())(1.0), ["item()"]),
    "range": (
        "TracerIntegerConversionError",
        lambda: weft.jit(lambda n: list(range(n)))(3),
        ["Python integer", "the argument n", "fori_loop", "static_argnames"],
    ),
    "list index": (
        "TracerIntegerConversionError",
        lambda: weft.jit(lambda i: [1, 2, 3][i])(1),
        ["jnp.asarray(items)[i]", "the argument i"],
    ),
    "np.asarray": (
        "TracerArrayConversionError",
        lambda: weft.jit(lambda x: np.asarray(x))(ONE),
        ["float32[3]", "the argument x", "pure_callback"],
    ),
    "np.sin": (
        "TracerArrayConversionError",
        lambda: weft.jit(lambda x: np.sin(x * 2))(ONE),
        ["jnp.sin(x)", "instead of np.sin(x)", "computed by mul", "the argument x"],
    ),
    "mask": (
        "NonConcreteBooleanIndexError",
        lambda: weft.jit(lambda x: x[x > 0])(ONE),
        ["bool[3]", "jnp.where(mask, x, 0)", "size="],
    ),
    "arange": (
        "ConcretizationTypeError",
        lambda: weft.jit(lambda n: jnp.arange(n))(3),
        ["arange", "the argument n", "static"],
    ),
    "zeros": (
        TypeError,
        lambda: weft.jit(lambda n: jnp.zeros(n))(3),
        ["shapes", "static_argnames", "the argument n"],
    ),
    "zeros of two": (
        TypeError,
        lambda: weft.jit(lambda n: jnp.zeros((n, 2)))(3),
        ["JitTracer(~int32[]), 2", "static_argnames", "the argument n"],
    ),
    "slice": (
        IndexError,
        lambda: weft.jit(lambda x, n: x[:n])(ONE, 2),
        ["lax.dynamic_slice", "the argument n"],
    ),
    "under vmap": (
        "TracerBoolConversionError",
        lambda: weft.vmap(lambda x, y: 1 if x > y else 2)(ONE, ONE),
        ["mapped by vmap", "mapped arguments (x, y)"],
    ),
    "under vmap of jit": (
        "TracerBoolConversionError",
        lambda: weft.jit(weft.vmap(lambda x: 1 if x else 2))(ONE),
        ["The value is the argument x"],
    ),
    "under grad of jit": (
        "TracerBoolConversionError",
        lambda: weft.jit(weft.grad(lambda x: x if x > 0 else -x))(1.0),
        ["computed by gt", "bool[]", "the argument x"],
    ),
    "in a scan": (
        "TracerBoolConversionError",
        lambda: lax.scan(lambda c, x: (c, 1 if x > 0 else 2), 0.0, ONE),
        ["scan", "the argument x"],
    ),
    "np in grad": (
        "TracerArrayConversionError",
        lambda: weft.grad(lambda x: np.sin(x))(1.0),
        ["differentiated", "jnp.sin"],
    ),
    "static names": (
        "TracerBoolConversionError",
        lambda: weft.jit(lambda n, x: x if x > n else -x, static_argnums=0)(2, 1.0),
        ["from the argument x."],
    ),
}


@pytest.mark.parametrize("name", MISUSES)
def test_value_needed(name):
    kind, fun, phrases = MISUSES[name]
    text_of(kind, fun, *phrases)


def test_lines_are_those_of_the_misuse():
    kind = "TracerBoolConversionError"
    text = text_of(kind, lambda: weft.jit(decide)(1.0, 3.0), "lax.cond", "gt", located=False)
    here = decide.__code__.co_firstlineno
    assert f"test_traced_values.py:{here + 2}, in decide" in text
    assert "from the argument x, the argument limit." in text
    text = text_of(kind, lambda: weft.jit(repeat)(1.0, 3.0), "lax.while_loop", located=False)
    assert f"test_traced_values.py:{repeat.__code__.co_firstlineno + 1}, in repeat" in text


def test_values_are_there_in_plain_differentiation():
    assert float(weft.grad(lambda x: x * 2 if x > 0 else -x)(3.0)) == 2.0
    assert float(weft.grad(lambda x: float(x) * x)(3.0)) == 3.0


@pytest.mark.parametrize("transform", [lambda f: f, weft.jit], ids=["eager", "jit"])
def test_assignment(transform):
    text = text_of(TypeError, lambda: transform(assign)(ONE), "x.at[index].set(value)",
                   located=False)  # fmt: skip
    assert f"test_traced_values.py:{assign.__code__.co_firstlineno + 1}, in assign" in text


# --- leaks ----------------------------------------------------------------------------------------


def leaked_by(transform, make=jnp.sin):
    kept = []

    def f(x):
        y = make(x)
        kept.append(y)
        return y

    transform(f)
    return kept[0]


LEAKS = {
    "jit": lambda f: weft.jit(f)(ONE),
    "vmap": lambda f: weft.vmap(f)(ONE),
    "grad": lambda f: weft.grad(f)(1.0),
    "jvp": lambda f: weft.jvp(f, (ONE,), (ONE,)),
    "scan": lambda f: lax.scan(lambda c, x: (c, f(x)), 0.0, ONE),
    "cond": lambda f: lax.cond(True, f, f, ONE),
    "make_jaxpr": lambda f: weft.make_jaxpr(f)(ONE),
}


@pytest.mark.parametrize("name", LEAKS)
def test_leaked_then_used(name):
    x = leaked_by(LEAKS[name])
    phrases = ["escaped", "float32", "return y, extra", "checking_leaks"]
    text_of("UnexpectedTracerError", lambda: x + 1, *phrases)
    text_of("UnexpectedTracerError", lambda: jnp.cos(x), *phrases)
    text_of("UnexpectedTracerError", lambda: weft.jit(lambda y: x + y)(ONE), *phrases)
    text_of("UnexpectedTracerError", lambda: weft.vmap(lambda y: x + y)(ONE), *phrases)
    text_of("UnexpectedTracerError", lambda: weft.grad(lambda y: x * y)(1.0), *phrases)
    text_of("UnexpectedTracerError", lambda: weft.jit(lambda y: y)(x), *phrases)


def test_a_leak_names_its_origin():
    x = leaked_by(LEAKS["jit"])
    text = text_of("UnexpectedTracerError", lambda: x + 1)
    assert "was traced for jit is f at test_traced_values.py:" in text
    assert "computed by sin at test_traced_values.py:" in text and "the argument x" in text


@pytest.mark.parametrize("name", ["jit", "vmap", "scan", "make_jaxpr"])
def test_leaks_are_found_where_they_happen(name):
    with weft.checking_leaks():
        text_of(Exception, lambda: leaked_by(LEAKS[name]), "1 traced value(s) escape", "return y",
                located=False)  # fmt: skip


def test_no_leak_no_error():
    f = weft.vmap(lambda x: lax.scan(lambda c, v: (c + jnp.sin(v), c), 0.0, x)[0])
    with weft.checking_leaks():
        weft.jit(weft.grad(lambda x: f(x)[0]))(jnp.ones((2, 3)))
        weft.jit(weft.value_and_grad(lambda x: (x * x, x), has_aux=True))(3.0)


def test_classes_can_be_caught():
    assert issubclass(errors.TracerBoolConversionError, errors.ConcretizationTypeError)
    assert issubclass(errors.UnexpectedTracerError, TypeError)
    assert issubclass(errors.NonConcreteBooleanIndexError, IndexError)
