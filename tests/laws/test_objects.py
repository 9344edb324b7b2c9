"""Objects with ``__jax_array__`` do in the place of arrays, in every public function.

What a function gives or raises for them is what it gives or raises for the arrays they stand for:
objects of a plain class, and those of a registered dataclass, which are pytrees, too.
"""

import dataclasses
import importlib

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.oracle.cases import signatures
from weft.base import knobs

MODULES = (
    "numpy numpy.linalg numpy.fft nn scipy.special scipy.linalg scipy.signal scipy.fft scipy.stats"
).split()
MATRIX = jnp.array([[1.5, 0.25, 0.5], [0.25, 1.75, 0.125], [0.5, 0.125, 2.0]])
COUNTS = jnp.array([[1, 2, 3], [4, 0, 2], [2, 1, 5]])
# Functions that say what an argument is, which for an object is another thing than for an array.
OTHERWISE = frozenset("iscomplexobj isrealobj isscalar promote_types".split())


class Plain:
    def __init__(self, x):
        self.x = x

    def __jax_array__(self):
        return self.x


@weft.tree_util.register_dataclass
@dataclasses.dataclass
class Registered:
    x: weft.Array

    def __jax_array__(self):
        return self.x


def functions():
    for module in MODULES:
        for name, listed in signatures.parameters(module).items():
            rest = signatures.REST.get(name, ())
            count = 1 if rest else signatures.required(listed)
            if name in OTHERWISE or not count:
                continue
            if rest or not signatures.structural(module, listed):
                yield module, name, count, rest


def outcome(function, args):
    """Leaves of the result, or the class of the error."""
    try:
        return weft.tree.leaves(function(*args))
    except Exception as error:
        return type(error)


def same(one, two):
    if isinstance(one, type) or isinstance(two, type):
        return one is two
    return len(one) == len(two) and all(
        np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind in "fc")
        and jnp.result_type(a) == jnp.result_type(b)
        for a, b in zip(one, two, strict=True)
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("kind", [Plain, Registered])
def test_objects_do_as_arrays(module, kind):
    home, wrong, accepted = importlib.import_module(f"weft.{module}"), [], 0
    with knobs.scope(backend="reference"):
        for where, name, count, rest in functions():
            if where != module:
                continue
            function = getattr(home, name)
            for x in (MATRIX, COUNTS):
                want = outcome(function, [*[x] * count, *rest])
                found = outcome(function, [*[kind(x)] * count, *rest])
                accepted += not isinstance(want, type)
                if not same(want, found):
                    wrong.append(f"{name}({kind.__name__} of {x.dtype}): {found}, not {want}")
    assert not wrong, "\n".join(wrong)
    assert accepted > 2
