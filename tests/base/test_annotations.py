"""Functions and classes whose annotations name what only a type checker has imported.

This file has no ``from __future__ import annotations``: from Python 3.14 on, annotations are
evaluated when they are read, and reading these fails. Older Pythons get them as text.
"""

import inspect
import sys
from typing import NamedTuple

import pytest

import weft
import weft.numpy as jnp
from weft import linen as nn
from weft.base.record import Record
from weft.base.traceback import api_boundary

SOURCE = """
def f(x: Unknown, n: "Unknown" = 2) -> Unknown:
    return x * n

class Layer(nn.Module):
    width: Width = 3

    @nn.compact
    def __call__(self, x: Unknown) -> Unknown:
        return nn.Dense(self.width)(x)

class Pair(Record):
    first: Unknown
    second: Unknown = 2
"""


@pytest.fixture(scope="module")
def made():
    future = "" if sys.version_info >= (3, 14) else "from __future__ import annotations\n"
    names = {"nn": nn, "Record": Record, "__name__": __name__}
    exec(compile(future + SOURCE, __file__, "exec", dont_inherit=True), names)
    return names


def test_transformations_take_functions_with_unknown_annotations(made):
    f = made["f"]
    assert weft.jit(f, static_argnames="n")(3.0, n=4) == 12.0
    assert weft.grad(f)(3.0) == 2.0
    assert weft.vmap(f, in_axes=(0, None))(jnp.arange(3.0), 2.0)[2] == 4.0
    assert list(inspect.signature(weft.jit(f)).parameters) == ["x", "n"]
    assert weft.checkpoint(f)(1.0) == 2.0
    assert weft.custom_vjp(f).__wrapped__ is f
    assert api_boundary(f)(1.0) == 2.0


def test_modules_take_fields_with_unknown_annotations(made):
    layer = made["Layer"](width=4)
    assert layer.init_with_output(weft.random.key(0), jnp.ones(2))[0].shape == (4,)


def test_records_take_fields_with_unknown_annotations(made):
    assert made["Pair"](1) == (1, 2)
    assert made["Pair"]._fields == ("first", "second")


class Ours(Record):
    x: int
    y: float = 1.0


class Theirs(NamedTuple):
    x: int
    y: float = 1.0


def test_annotations_of_records_are_those_of_named_tuples():
    assert Ours.__annotations__ == Theirs.__annotations__
    assert inspect.signature(Ours) == inspect.signature(Theirs)
