"""Programs on meshes: how their results are divided is found once."""

import collections
import dataclasses

import pytest

import weft
from weft import NamedSharding, P
from weft import numpy as jnp
from weft.division import propagate
from weft.sharding import AxisType


@weft.tree_util.register_dataclass
@dataclasses.dataclass
class Pair:
    a: object
    b: object


Named = collections.namedtuple("Named", "a b")


@pytest.fixture
def flows(monkeypatch):
    """The programs whose shardings are propagated."""
    found, run = [], propagate.propagate
    monkeypatch.setattr(
        propagate, "propagate", lambda *args, **more: found.append(args) or run(*args, **more)
    )
    return found


@pytest.mark.parametrize("kind", [Pair, Named, lambda a, b: (a, b)])
def test_a_second_call_propagates_nothing(kind, flows):
    mesh = weft.make_mesh((1,), ("data",), (AxisType.Auto,))
    put = lambda x, spec: weft.device_put(x, NamedSharding(mesh, spec))
    whole, rows = put(jnp.ones(4), P()), put(jnp.ones((8, 4)), P("data"))
    f = weft.jit(lambda pair, x: (weft.tree.leaves(pair)[0] * x, x.sum(0)))
    first = f(kind(whole, whole), rows)
    assert flows and first[0].sharding.spec == P("data")
    flows.clear()
    for _ in range(12):
        assert f(kind(whole, whole), rows)[0].sharding.spec == P("data")
    assert not flows
    # arguments that are divided in another way are another question
    again = f(kind(whole, whole), put(jnp.ones((8, 4)), P(None, "data")))
    assert again[0].sharding.spec == P(None, "data")
    assert f(kind(whole, whole), rows)[0].sharding.spec == P("data")
