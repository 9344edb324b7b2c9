"""Python values among arrays: errors name the place, and what they advise works there."""

import collections
import dataclasses
import enum
import functools
from typing import Any, NamedTuple

import numpy as np
import pytest

import weft
import weft.linen
import weft.numpy as jnp
from tests.errors.reading import text_of
from weft.linen import struct

W = jnp.ones(2)


@weft.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    w: Any
    act: Any = "relu"


@functools.partial(
    weft.tree_util.register_dataclass, data_fields=["w", "act"], meta_fields=["size"]
)
class Listed:
    def __init__(self, w, act, size=3):
        self.w, self.act, self.size = w, act, size


@struct.dataclass
class Flax:
    w: Any
    act: Any


@weft.tree_util.register_pytree_node_class
class Own:
    def __init__(self, act):
        self.act = act

    def tree_flatten(self):
        return (self.act,), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


@dataclasses.dataclass
class Plain:
    w: Any


@dataclasses.dataclass(frozen=True)
class Options:
    act: str = "relu"


class Pair(NamedTuple):
    w: Any
    act: Any


class Mode(enum.Enum):
    FAST = 1


FIELD = "dataclasses.field(metadata=dict(static=True))"
META = "meta_fields of register_dataclass"
APART = "an argument that static_argnames names"
CASES = {
    "argument": ("relu", "x", ["static_argnums or static_argnames"]),
    "function": (jnp.tanh, "x", ["static_argnums or static_argnames"]),
    "member of an enum": (Mode.FAST, "x", ["static_argnums or static_argnames"]),
    "options": (Options(), "x", ["static_argnums or static_argnames"]),
    "module": (weft.linen.Dense(3), "x", ["static_argnums or static_argnames", "Dense("]),
    "field": (Layer(W), "x.act", ["field of Layer static", FIELD, META]),
    "function in a field": (Layer(W, jnp.tanh), "x.act", ["field of Layer static", FIELD]),
    "dtype in a field": (Layer(W, np.dtype("float32")), "x.act", ["field of Layer static"]),
    "field in a dict": ({"a": [Layer(W)]}, "x['a'][0].act", ["field of Layer static", FIELD]),
    "listed field": (Listed(W, "relu"), "x.act", ["field of Listed static: name it in " + META]),
    "field of flax": (Flax(W, "relu"), "x.act", ["Flax static", "struct.field(pytree_node=False)"]),
    "node": (Own("relu"), "x", ["auxiliary data of Own"]),
    "dict": ({"w": W, "act": "relu"}, "x['act']", ["take it out of the dict", APART]),
    "dict in a field": (Layer(W, {"k": "relu"}), "x.act['k']", ["take it out of the dict", APART]),
    "ordered": (collections.OrderedDict(a="b"), "x['a']", ["take it out of the OrderedDict"]),
    "list": ([W, "relu"], "x[1]", ["take it out of the list", APART]),
    "named tuple": (Pair(W, "relu"), "x.act", ["take it out of the Pair", APART]),
    "dataclass": (Plain(W), "x", ["register the dataclass Plain", "register_dataclass"]),
    "texts": (np.array(["a"]), "x", ["dtype is <U1", "give each text a number"]),
    "objects": ({"a": np.array([1, None])}, "x['a']", ["dtype is object", "x.astype(float)"]),
}


@pytest.mark.parametrize("name", CASES)
def test_advice_is_for_the_place(name):
    value, place, words = CASES[name]
    text = text_of(TypeError, lambda: weft.jit(lambda x: 1)(value))
    assert f"argument {place}" in text and "which is not an array" in text
    for word in words:
        assert word in text
    if "static_argnums" not in words[0]:
        assert "static_argnums" not in text


OTHERS = {
    "grad": (weft.grad, "close over it"),
    "vjp": (lambda f: lambda x: weft.vjp(f, x), "close over it"),
    "vmap": (weft.vmap, "in_axes=None"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_transformations_have_no_static_arguments(name):
    transformed, advice = OTHERS[name]
    call = transformed(lambda x: jnp.float32(1.0))
    for value in ("relu", {"w": W, "act": "relu"}):
        text = text_of(TypeError, lambda v=value: call(v), located=False)
        assert advice in text and "static_arg" not in text
    assert FIELD in text_of(TypeError, lambda: call(Layer(W)), located=False)


@weft.tree_util.register_dataclass
@dataclasses.dataclass
class Fixed:
    w: Any
    act: Any = dataclasses.field(default="relu", metadata={"static": True})


@functools.partial(weft.tree_util.register_dataclass, data_fields=["w"], meta_fields=["act"])
@dataclasses.dataclass
class Named:
    w: Any
    act: Any


def test_the_advice_works():
    apply = weft.jit(lambda x: getattr(weft.nn, x.act)(x.w) if x.act else x.w)
    for value in (Fixed(W), Named(W, "relu"), Named(W, None)):
        np.testing.assert_array_equal(apply(value), W)
        np.testing.assert_array_equal(weft.grad(lambda x: apply(x).sum())(value).w, W)
    assert weft.jit(lambda x: 1)(Layer(W, None)) == 1
    both = weft.vmap(lambda x, act: getattr(weft.nn, act)(x), in_axes=(0, None))
    np.testing.assert_array_equal(both(W, "relu"), W)


def test_loops_advise_no_conversion_of_texts():
    for value in ("relu", jnp.tanh):
        text = text_of(TypeError, lambda v=value: weft.lax.cond(True, lambda x: 1, lambda x: 2, v))
        assert "close over Python values" in text and "weft.numpy.array" not in text
