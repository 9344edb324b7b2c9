"""Operands that do not fit: shapes, dtypes, ranks, sizes, keys."""

import os
import warnings

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.errors.reading import text_of
from weft import lax

ONE, TALL, WIDE = jnp.ones(3), jnp.ones((2, 3)), jnp.ones((3, 4))
INTS = jnp.arange(3)

MISMATCHES = {
    "lax shapes": (TypeError, lambda: lax.add(TALL, WIDE), ["add", "(2, 3)", "(3, 4)"]),
    "lax ranks": (TypeError, lambda: lax.mul(TALL, ONE), ["mul", "(2, 3)", "(3,)", "reshape"]),
    "lax dtypes": (
        TypeError,
        lambda: lax.add(ONE, INTS),
        ["add", "float32[3]", "int32[3]", "convert_element_type"],
    ),
    "lax of an integer": (TypeError, lambda: lax.sin(INTS), ["sin", "int32"]),
    "lax of a list": (TypeError, lambda: lax.sin([1.0]), ["list"]),
    "operator": (TypeError, lambda: TALL + WIDE, ["add", "(2, 3)", "(3, 4)"]),
    "operator in jit": (
        TypeError,
        lambda: weft.jit(lambda a, b: a * b)(TALL, WIDE),
        ["mul", "(2, 3)", "(3, 4)"],
    ),
    "numpy of a list": (TypeError, lambda: jnp.add([1, 2], 3), ["add", "list", "jnp.array"]),
    "dot": (TypeError, lambda: jnp.dot(TALL, TALL), ["dot", "(2, 3)"]),
    "dot_general": (
        TypeError,
        lambda: lax.dot_general(TALL, TALL, (((1,), (0,)), ((), ()))),
        ["dot_general", "(2, 3)"],
    ),
    "concatenate": (
        TypeError,
        lambda: jnp.concatenate([TALL, WIDE]),
        ["concatenate", "(2, 3)", "(3, 4)", "dimension 0"],
    ),
    "reshape": (TypeError, lambda: jnp.ones(6).reshape(4), ["reshape", "(6,)", "(4,)"]),
    "einsum": (
        ValueError,
        lambda: jnp.einsum("ij,jk", TALL, TALL),
        ["'j'", "3", "2"],
    ),
    "axis": ("AxisError", lambda: jnp.sum(ONE, axis=1), ["axis 1", "1 dimension"]),
    "indices": (IndexError, lambda: ONE[0, 0], ["too many indices", "(3,)"]),
    "index by float": (TypeError, lambda: ONE[0.5], ["integer", "float"]),
    "index by list": (TypeError, lambda: ONE[[0, 1]], ["jnp.array(seq)"]),
    "update": (ValueError, lambda: ONE.at[:2].set(jnp.ones(5)), ["(5,)", "(2,)"]),
    "truth": (ValueError, lambda: bool(ONE), ["(3,)", "any()", "all()"]),
    "no key": (TypeError, lambda: weft.random.normal(0, (3,)), ["key", "weft.random.key(seed)"]),
    "wrong words": (
        TypeError,
        lambda: weft.random.normal(np.zeros(2, np.float32)),
        ["uint32", "float32[2]", "weft.random.key"],
    ),
    "many keys": (
        ValueError,
        lambda: weft.random.normal(weft.random.split(weft.random.key(0)), (3,)),
        ["(2,)", "vmap"],
    ),
    "sum of key": (TypeError, lambda: weft.random.key(0) + 1, ["add", "key<fry>"]),
    "key to NumPy": (TypeError, lambda: np.asarray(weft.random.key(0)), ["key_data"]),
    "seed": (TypeError, lambda: weft.random.key(1.5), ["integer seed", "float32"]),
    "large integer": (OverflowError, lambda: jnp.array(2**40), ["1099511627776", "int32"]),
    "large operand": (OverflowError, lambda: INTS + 2**40, ["1099511627776", "int32", "x64"]),
    "large argument": (OverflowError, lambda: weft.jit(lambda x: x)(2**40), ["1099511627776"]),
    "deleted": (RuntimeError, lambda: deleted() + 1, ["deleted", "float32[3]", "donated"]),
    "deleted to NumPy": (RuntimeError, lambda: np.asarray(deleted()), ["deleted", "float32[3]"]),
    "axis name": (NameError, lambda: lax.psum(ONE, "i"), ["'i'", "axis_name='i'"]),
    "other axis name": (
        NameError,
        lambda: weft.vmap(lambda x: lax.psum(x, "j"), axis_name="i")(ONE),
        ["'j'", "bound here: 'i'"],
    ),
}


def deleted():
    x = jnp.ones(3)
    x.delete()
    return x


@pytest.mark.parametrize("name", MISMATCHES)
def test_mismatch(name):
    kind, fun, phrases = MISMATCHES[name]
    text_of(kind, fun, *phrases)


def test_ranks_can_be_forbidden():
    def mixed():
        with weft.numpy_rank_promotion("raise"):
            return TALL + ONE

    words = ("add", "(2, 3)", "(3,)", "numpy_rank_promotion", "reshape")
    text_of(ValueError, mixed, "could not be broadcast together", *words)


def test_promotion_can_be_forbidden():
    def mixed():
        with weft.numpy_dtype_promotion("strict"):
            return ONE + INTS

    text_of("TypePromotionError", mixed, "float32", "int32", "astype", "strict")


def test_small_integers_wrap():
    assert int(jnp.uint8(1) + 300) == 45
    assert int(weft.jit(lambda x: x + 300)(jnp.uint8(1))) == 45
    assert int(jnp.uint32(1) + (-2)) == 2**32 - 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: jnp.zeros(2, jnp.float64),
        lambda: ONE.astype("float64"),
        lambda: jnp.array([1.0], dtype=np.float64),
        lambda: lax.convert_element_type(INTS, np.int64),
    ],
)
def test_64_bits_without_x64(make):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = make()
    assert made.dtype.itemsize == 4
    (warning,) = caught
    assert warning.category is UserWarning
    assert os.path.basename(warning.filename) == "test_operands.py"
    assert warning.lineno == make.__code__.co_firstlineno
    text = str(warning.message)
    assert "64" in text and "32" in text and "x64" in text


def test_rank_warning_is_at_the_users_line():
    with warnings.catch_warnings(record=True) as caught, weft.numpy_rank_promotion("warn"):
        warnings.simplefilter("always")
        TALL + ONE
    assert [os.path.basename(w.filename) for w in caught] == ["test_operands.py"]
    assert "(2, 3)" in str(caught[0].message)


@pytest.mark.parametrize(
    "symbol", ["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>"]
)
@pytest.mark.parametrize("other", [[1.0, 2.0], (1,)], ids=["list", "tuple"])
def test_operands_are_named_as_written(symbol, other):
    x, name = jnp.ones(2, int), type(other).__name__
    first = eval(f"lambda x, y: y {symbol} x")
    second = eval(f"lambda x, y: x {symbol} y")
    given = f"unsupported operand type(s) for {symbol}: "
    advice = f"convert the {name} with jnp.array(...)"
    kind = type(x).__name__
    for operate, both in ((first, f"'{name}' and '{kind}'"), (second, f"'{kind}' and '{name}'")):
        text_of(TypeError, lambda f=operate: f(x, other), given + both, advice, located=False)
    in_jit = weft.jit(lambda x: eval(f"x {symbol} y", {"x": x, "y": other}))
    text_of(TypeError, lambda: in_jit(x), advice, located=False)


@pytest.mark.parametrize(
    ("fun", "name", "axis"),
    [
        (lambda: jnp.ones((2, 3)) + jnp.ones(4), "in add;", "axis -1, 3 and 4,"),
        (lambda: jnp.ones((2, 3)) < jnp.ones((5, 4, 3)), "in less;", "axis -2, 2 and 4,"),
        (lambda: jnp.hypot(jnp.ones((2, 3)), np.ones(4)), "in hypot;", "axis -1, 3 and 4,"),
        (lambda: jnp.where(True, jnp.ones((2, 3)), jnp.ones(4)), "in where;", "axis -1, 3 and 4,"),
        (
            lambda: jnp.select([jnp.ones(3) > 0], [jnp.ones((2, 4))]),
            "in select;",
            "axis -1, 3 and 4,",
        ),
        (
            lambda: jnp.broadcast_arrays(jnp.ones(3), jnp.ones((2, 1)), jnp.ones((5, 3))),
            "in broadcast_arrays;",
            "axis -2, 2 and 5,",
        ),
        (
            lambda: weft.random.gamma(weft.random.key(0), jnp.ones(4), (2, 3)),
            "in gamma;",
            "axis -1, 3 and 4,",
        ),
        (
            lambda: weft.vmap(jnp.multiply)(jnp.ones((5, 2, 3)), jnp.ones((5, 4))),
            "in multiply;",
            "axis -1, 3 and 4,",
        ),
    ],
)
def test_broadcasting_names_the_operation_and_the_axis(fun, name, axis):
    says = "Incompatible shapes for broadcasting: "
    text_of(ValueError, fun, says, name, f"the sizes of {axis} must be equal or 1")


def test_equal_ranks_name_the_operation_and_the_axis():
    said = "the sizes of axis 1, 3 and 4, must be equal or 1"
    text_of(TypeError, lambda: jnp.ones((2, 3)) * jnp.ones((1, 4)), "mul got", said)
    text_of(TypeError, lambda: lax.atan2(jnp.ones((2, 3)), jnp.ones((2, 4))), "atan2 got", said)


def draw(key):
    return weft.random.normal(key)


def drawn_twice():
    key = weft.random.key(0)
    return draw(key), weft.random.uniform(key)


def drawn_in_jit():
    return weft.jit(lambda k: (weft.random.normal(k), weft.random.bits(k)))(weft.random.key(0))


def drawn_in_scan():
    return lax.scan(lambda k, _: (k, weft.random.normal(k)), weft.random.key(0), None, 3)


def split_twice():
    keys = weft.random.split(weft.random.key(0), 4)
    return weft.random.split(keys[1]), weft.random.permutation(keys[1], 5)


def drawn_in_branch():
    return lax.cond(True, lambda k: weft.random.normal(k) + draw(k), draw, weft.random.key(0))


@pytest.mark.parametrize(
    "fun", [drawn_twice, drawn_in_jit, drawn_in_scan, split_twice, drawn_in_branch]
)
def test_a_key_used_twice_names_the_line(fun):
    with weft.debug_key_reuse(False):
        draw(weft.random.key(1))  # which lines of programs that are kept are not taken from
    with weft.debug_key_reuse(True):
        located = fun is not drawn_in_branch
        text = text_of(
            "KeyReuseError", fun, "used before", "Make new keys with random.split", located=located
        )
    assert " — test_operands.py:" in text
