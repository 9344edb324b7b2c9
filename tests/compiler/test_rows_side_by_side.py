"""Rows too short, or too ragged, for vectors of their own run next to each other."""

import numpy as np
import pytest

import weft
from weft import numpy as jnp
from weft.compiler.pipeline import fuse, schedule, simplify
from weft.kernel.kernel import Loop, statements

LENGTHS = [9, 10, 13, 16, 17, 24, 31, 32, 33]


def in_lanes(f, *args):
    """Whether the only kernel of a function computes several rows in one vector."""
    (node,) = fuse(simplify(weft.make_jaxpr(f)(*args)).jaxpr)[1]
    (part,) = schedule(node.kernel).parts
    return any(isinstance(s, Loop) and s.lanes for s in statements(part.kernel.body))


@pytest.mark.parametrize("length", LENGTHS)
def test_rows_that_are_no_whole_vectors(length):
    x = jnp.ones((64, length))
    assert in_lanes(lambda x: (x**2).sum(-1), x) == (length < 32 and length != 16)


def test_windows_count_by_their_innermost_axis():
    assert in_lanes(lambda x: (x**2).sum((0, 2)), jnp.ones((4, 64, 4)))
    assert in_lanes(lambda x: (x**2).sum((1, 2)), jnp.ones((64, 5, 5)))
    assert not in_lanes(lambda x: (x**2).sum((1, 2)), jnp.ones((64, 4, 4)))  # 16 in a row


def test_few_rows_stay_rows():
    assert not in_lanes(lambda x: (x**2).sum(-1), jnp.ones((8, 10)))


PROGRAMS = {
    "squares": lambda np, x: np.exp(-(x**2).sum(-1)),
    "normalised": lambda np, x: (x - x.mean(-1, keepdims=True)) / (1 + x.std(-1, keepdims=True)),
    "softmax": lambda np, x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
    "largest": lambda np, x: x.max(-1) - x.argmax(-1),
    "pairs": lambda np, x: np.abs(x[0, :, None] - x[1, None]).sum(-1),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_to_numpy(name, dtype):
    with weft.enable_x64(True):
        for length in LENGTHS:
            for rows in (37, 70, 129):
                x = np.random.RandomState(length).randn(2, rows, length)
                given = jnp.asarray(x, dtype)
                want = PROGRAMS[name](np, np.asarray(given, np.float64))
                found = weft.jit(lambda x: PROGRAMS[name](jnp, x))(given)
                bound = 0.15 if dtype == "bfloat16" else 2e-5
                np.testing.assert_allclose(np.asarray(found, np.float64), want, bound, bound)
