"""Warnings name the user's line, in whatever depth they arise."""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
import weft.linen as nn
import weft.numpy as jnp
from weft import optim
from weft.as_jax import children
from weft.experimental import sparse
from weft.extend.source_info_util import warn

KEY = weft.random.key(0)
X = np.ones((2, 4, 8), np.float32)
DIMENSIONS = (((1,), (0,)), ((), ()))


def attend(*inputs, **options):
    return nn.MultiHeadDotProductAttention(num_heads=2).init(KEY, *inputs, **options)


def dense_batches():
    return sparse.BCOO.fromdense(jnp.eye(3)).update_layout(n_batch=1, on_inefficient="warn")


CASES = {
    "narrowed": lambda: jnp.zeros(3, "float64"),
    "in jit": lambda: weft.jit(lambda x: x.astype("float64"))(jnp.ones(3)),
    "in a map": lambda: weft.tree.map(lambda x: jnp.asarray(x, "int64"), [1]),
    "legacy option": lambda: weft.jit(lambda x: x, compiler_options={"xla_no": 1})(1.0),
    "dtype of NumPy": lambda: np.dtype(jnp.ones(3)),
    "sparse": dense_batches,
    "optimiser": lambda: optim.optimistic_adam(0.1),
    "noise": lambda: optim.add_noise(0.1, 0.1),
    "norm": lambda: optim.global_norm([jnp.ones(2)]),
    "private": lambda: optim.contrib.differentially_private_aggregate(1.0, 0.0),
    "injected": lambda: optim.inject_stateful_hyperparams(optim.sgd)(0.1),
    "attention": lambda: attend(X, inputs_kv=X),
    "values like a mask": lambda: attend(X, np.ones((2, 8, 8)), np.ones((2, 8, 8))),
    "self-attention": lambda: nn.SelfAttention(num_heads=2).init(KEY, X),
    "fp8": lambda: nn.Fp8DotGeneralOp(),
    "fp8 product": lambda: nn.fp8_ops.dot_general_with_precision(
        X[0], X[0].T, DIMENSIONS, weft.lax.Precision.HIGHEST
    ),
    "child": lambda: children._warn_of_flags([sys.executable, "-I"]),
    "own": lambda: warn("mine"),
}


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("name", CASES)
def test_warning_names_the_users_line(name):
    with pytest.warns(Warning) as caught:
        CASES[name]()
    assert {w.filename for w in caught} == {__file__}, [
        (w.filename, str(w.message)) for w in caught
    ]


@dataclasses.dataclass
class Settings:
    """A class of the user's, whose ``__init__`` Python writes."""

    rate: float = 0.1

    def __post_init__(self):
        optim.optimistic_adam(self.rate)


@pytest.mark.filterwarnings("always")
def test_a_method_of_a_dataclass_is_no_place():
    with pytest.warns(DeprecationWarning) as caught:
        Settings()
    assert [w.filename for w in caught] == [__file__]

    @dataclasses.dataclass
    class Checked(weft.linen.Module):
        size: int = 3

        def __post_init__(self):
            super().__post_init__()
            jnp.ones(3) + jnp.ones(self.size)

    with pytest.raises(TypeError, match=r"— test_warnings.py:\d+, in Checked.__post_init__"):
        Checked(4)


def test_a_warning_through_a_library_names_the_users_line():
    with pytest.warns(RuntimeWarning) as caught:
        through(lambda: children._warn_of_flags([sys.executable, "-E"]))
    assert [w.filename for w in caught] == [__file__]


def through(f):
    """Call a function by one whose code is that of a library's file."""
    names = {"f": f}
    exec(compile("def call():\n    return f()", subprocess.__file__, "exec"), names)
    return names["call"]()


def test_only_one_place_counts_frames():
    root = Path(weft.__file__).parent
    found = [
        str(path.relative_to(root))
        for path in sorted(root.rglob("*.py"))
        if re.search(r"\bwarnings\.warn\(|stacklevel=", path.read_text("utf-8"))
    ]
    assert found == [str(Path("base", "source.py"))], "write weft.base.source.warn instead"
