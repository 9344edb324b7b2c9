"""Transformations, control flow and custom rules called with what they cannot take."""

import pytest

import weft
import weft.numpy as jnp
from tests.errors.reading import text_of
from weft import lax

ONE = jnp.ones(3)


def with_jvp(rule):
    f = weft.custom_jvp(lambda x: x)
    f.defjvp(rule)
    return f


def with_vjp(fwd, bwd):
    f = weft.custom_vjp(lambda x: x)
    f.defvjp(fwd, bwd)
    return f


def spent():
    f = weft.jit(lambda state: state + 1, donate_argnums=0)
    x = jnp.ones(3)
    f(x)
    return f, x


TRANSFORMS = {
    "in_axes count": (
        ValueError,
        lambda: weft.vmap(lambda a, b: a, in_axes=(0,))(ONE, ONE),
        ["in_axes", "1 entries", "2 positional"],
    ),
    "in_axes range": (
        ValueError,
        lambda: weft.vmap(lambda weights: weights, in_axes=3)(ONE),
        ["axis 3", "weights", "(3,)", "in_axes=None"],
    ),
    "in_axes tree": (
        ValueError,
        lambda: weft.vmap(lambda a: a["x"], in_axes=({"y": 0},))({"x": ONE}),
        ["in_axes", "prefix", "'y'", "'x'"],
    ),
    "in_axes kind": (
        TypeError,
        lambda: weft.vmap(lambda a: a, in_axes=0.5)(ONE),
        ["in_axes", "0.5"],
    ),
    "out_axes range": (
        ValueError,
        lambda: weft.vmap(lambda a: a, out_axes=3)(ONE),
        ["out_axes", "3"],
    ),
    "out_axes tree": (
        ValueError,
        lambda: weft.vmap(lambda a: (a, a), out_axes=(0, 0, 0))(ONE),
        ["out_axes", "length 3", "length 2"],
    ),
    "out_axes None": (
        ValueError,
        lambda: weft.vmap(lambda a: a, out_axes=None)(ONE),
        ["out_axes", "mapped"],
    ),
    "sizes": (
        ValueError,
        lambda: weft.vmap(lambda params, x: x)({"w": jnp.ones(4), "b": jnp.ones(4)}, ONE),
        ["params['w']", "float32[4]", "argument x", "float32[3]", "in_axes=None"],
    ),
    "grad of integers": (
        TypeError,
        lambda: weft.grad(lambda steps: steps * 2.0)(3),
        ["int32", "argument steps", "floating", "allow_int"],
    ),
    "grad of an integer leaf": (
        TypeError,
        lambda: weft.grad(lambda x, p: p["w"], argnums=1)(1.0, {"w": jnp.arange(3), "b": ONE}),
        ["int32", "p['w']", "argnums"],
    ),
    "grad of a vector": (
        TypeError,
        lambda: weft.grad(lambda x: x * 2)(ONE),
        ["scalar", "(3,)", ".sum()", "jacrev"],
    ),
    "grad of complex output": (
        TypeError,
        lambda: weft.grad(lambda x: x * 1j)(1.0),
        ["complex64", "real"],
    ),
    "grad of complex input": (
        TypeError,
        lambda: weft.grad(lambda x: x * x)(1j),
        ["complex", "holomorphic"],
    ),
    "grad of a pair": (
        TypeError,
        lambda: weft.grad(lambda x: (x, x))(1.0),
        ["scalar", "tuple", "has_aux"],
    ),
    "argnums": (
        TypeError,
        lambda: weft.grad(lambda x: x, argnums=2)(1.0),
        ["argnums=2", "1 positional"],
    ),
    "no aux": (TypeError, lambda: weft.grad(lambda x: x, has_aux=True)(1.0), ["pair", "has_aux"]),
    "tangent shape": (
        ValueError,
        lambda: weft.jvp(lambda angle: jnp.sin(angle), (ONE,), (jnp.ones(4),)),
        ["angle", "(3,)", "(4,)"],
    ),
    "tangent dtype": (
        TypeError,
        lambda: weft.jvp(lambda angle: jnp.sin(angle), (ONE,), (jnp.arange(3),)),
        ["angle", "float32", "int32"],
    ),
    "tangent tree": (
        TypeError,
        lambda: weft.jvp(jnp.sin, (ONE,), ({"a": ONE},)),
        ["tree structure", "'a'"],
    ),
    "cotangent shape": (
        ValueError,
        lambda: weft.vjp(jnp.sin, ONE)[1](jnp.ones(4)),
        ["cotangent", "float32[4]", "float32[3]"],
    ),
    "cotangent tree": (
        ValueError,
        lambda: weft.vjp(lambda x: (x, x), ONE)[1](ONE),
        ["cotangent", "(*, *)", "tuple"],
    ),
    "reverse through while": (
        ValueError,
        lambda: weft.grad(lambda x: lax.while_loop(lambda v: v < 9, lambda v: v * 2, x))(1.0),
        ["while_loop", "lax.scan", "jvp"],
    ),
    "unhashable": (
        ValueError,
        lambda: weft.jit(lambda x, n: x, static_argnums=1)(1.0, [1]),
        ["hashable", "[1]", "list", "tuple"],
    ),
    "unhashable by name": (
        ValueError,
        lambda: weft.jit(lambda x, n: x, static_argnames="n")(1.0, n=[1]),
        ["'n'", "hashable", "list"],
    ),
    "static position": (
        ValueError,
        lambda: weft.jit(lambda x: x, static_argnums=3),
        ["static_argnums=3", "1 positional"],
    ),
    "static name": (
        ValueError,
        lambda: weft.jit(lambda x: x, static_argnames="q"),
        ["'q'", "(x)"],
    ),
    "argument": (
        TypeError,
        lambda: weft.jit(lambda x, mode: x)(1.0, "fast"),
        ["mode", "'fast'", "str", "static_argnames"],
    ),
    "argument leaf": (
        TypeError,
        lambda: weft.jit(lambda config: 1)({"a": [object()]}),
        ["config['a'][0]", "object"],
    ),
    "result": (
        TypeError,
        lambda: weft.jit(lambda x: {"a": "text"})(1.0),
        ["returned", "'text'", "str"],
    ),
    "too many arguments": (TypeError, lambda: weft.jit(lambda x: x)(1, 2), ["2 were given"]),
    "too few arguments": (TypeError, lambda: weft.jit(lambda x, y: x)(1), ["missing", "'y'"]),
    "compiled for others": (
        TypeError,
        lambda: weft.jit(lambda speed: speed).lower(ONE).compile()(jnp.ones(4)),
        ["speed", "float32[3]", "float32[4]"],
    ),
    "compiled for another tree": (
        TypeError,
        lambda: weft.jit(lambda x: x).lower(ONE).compile()({"a": ONE}),
        ["structure", "'a'"],
    ),
    "donated before": (
        ValueError,
        lambda: (lambda f, x: f(x))(*spent()),
        ["state", "float32[3]", "deleted", "donate", "copy"],
    ),
}

CONTROL = {
    "scan carry": (
        TypeError,
        lambda: lax.scan(lambda c, x: ((c, c), x), 0.0, ONE),
        ["scan", "carry", "tuple"],
    ),
    "scan carry type": (
        TypeError,
        lambda: lax.scan(lambda c, x: (c[:1], x), ONE, ONE),
        ["carry", "float32[3]", "float32[1]"],
    ),
    "scan result": (
        TypeError,
        lambda: lax.scan(lambda c, x: c, 0.0, ONE),
        ["pair"],
    ),
    "scan lengths": (
        ValueError,
        lambda: lax.scan(lambda c, x: (c, x), 0.0, (ONE, jnp.ones(4))),
        ["scan", "3", "4"],
    ),
    "while predicate": (
        TypeError,
        lambda: lax.while_loop(lambda x: x < 3, lambda x: x, ONE),
        ["bool[3]", ".any()"],
    ),
    "while carry": (
        TypeError,
        lambda: lax.while_loop(lambda x: x < 3, lambda x: (x, x), 1.0),
        ["while_loop", "tuple"],
    ),
    "fori carry": (
        TypeError,
        lambda: lax.fori_loop(0, 3, lambda i, x: (x, x), 1.0),
        ["fori_loop", "tuple"],
    ),
    "cond trees": (
        TypeError,
        lambda: lax.cond(True, lambda x: x, lambda x: (x, x), 1.0),
        ["cond", "true_fun", "false_fun", "tuple"],
    ),
    "cond types": (
        TypeError,
        lambda: lax.cond(True, lambda x: x, lambda x: 1, ONE),
        ["float32[3]", "int32[]", "astype"],
    ),
    "switch": (
        TypeError,
        lambda: lax.switch(0, [lambda x: x, lambda x: (x,)], 1.0),
        ["switch"],
    ),
}

RULES = {
    "jvp tangent": (
        TypeError,
        lambda: weft.jvp(with_jvp(lambda p, t: (p[0], jnp.ones(4))), (ONE,), (ONE,)),
        ["JVP rule", "float32[3]", "float32[4]"],
    ),
    "jvp pair": (
        TypeError,
        lambda: weft.jvp(with_jvp(lambda p, t: p[0]), (ONE,), (ONE,)),
        ["JVP rule", "pair"],
    ),
    "no jvp": (
        AttributeError,
        lambda: weft.grad(weft.custom_jvp(lambda x: x))(1.0),
        ["defjvp"],
    ),
    "vjp fwd": (
        TypeError,
        lambda: weft.grad(with_vjp(lambda x: x, lambda r, g: (g,)))(1.0),
        ["fwd rule", "pair"],
    ),
    "vjp bwd": (
        TypeError,
        lambda: weft.grad(with_vjp(lambda x: (x, None), lambda r, g: g))(1.0),
        ["bwd"],
    ),
    "vjp bwd shape": (
        ValueError,
        lambda: weft.grad(with_vjp(lambda x: (x, None), lambda r, g: (jnp.ones(7),)))(1.0),
        ["bwd", "float32[7]", "float32[]"],
    ),
    "vjp bwd count": (
        TypeError,
        lambda: weft.grad(with_vjp(lambda x: (x, None), lambda r, g: (g, g)))(1.0),
        ["bwd"],
    ),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transform(name):
    kind, fun, phrases = TRANSFORMS[name]
    text_of(kind, fun, *phrases)


@pytest.mark.parametrize("name", CONTROL)
def test_control_flow(name):
    kind, fun, phrases = CONTROL[name]
    text_of(kind, fun, *phrases)


@pytest.mark.parametrize("name", RULES)
def test_custom_rule(name):
    kind, fun, phrases = RULES[name]
    text_of(kind, fun, *phrases, located=name != "no jvp")


# Sentences that tests of libraries look for.
SENTENCES = {
    "cond, structure": (
        TypeError,
        lambda: lax.cond(True, lambda x: (x, x), lambda x: x, 1.0),
        "cond branch outputs must have the same pytree structure",
    ),
    "switch, structure": (
        TypeError,
        lambda: lax.switch(1, [lambda x: (x, x), lambda x: x], 1.0),
        "switch branch outputs must have the same pytree structure",
    ),
    "cond, types": (
        TypeError,
        lambda: lax.cond(True, lambda x: x, lambda x: x.astype(int), jnp.ones(2)),
        "cond branches must have equal output types",
    ),
    "vmap, sizes": (
        ValueError,
        lambda: weft.vmap(lambda x, y: x)(jnp.ones(2), jnp.ones(3)),
        "vmap got inconsistent sizes for array axes to be mapped",
    ),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_errors_have_the_sentences_that_libraries_look_for(name):
    error, call, sentence = SENTENCES[name]
    text_of(error, call, sentence)
