"""Programs on many arrays: no kernel has more of them than a launch has parameters."""

from itertools import pairwise

import numpy as np
import pytest

import weft
from tests.backends.cuda import planned
from weft import numpy as jnp
from weft.backends.cuda import commands
from weft.backends.cuda.groups import MAX_PARAMETERS

MANY = 500


def chain(y, *xs):
    found = []
    for i in range(MANY):
        y = y * 1.01 + i
        found.append(y)
    return found


def clipped(y, *xs):
    norm = jnp.sqrt(sum(jnp.sum(x * x) for x in xs))
    return [x / norm for x in xs]


PROGRAMS = {
    "every result of a chain": chain,
    "one array, many results": lambda y, *xs: [y * 2 + i for i in range(MANY)],
    "neighbours": lambda y, *xs: [a + b for a, b in pairwise(xs)],
    "numbers": lambda y, *xs: [y * x[0] for x in xs],
    "clipped by their norm": clipped,
    "questions": lambda y, *xs: [jnp.any(x > 1) for x in xs],
    "one question about all": lambda y, *xs: jnp.array([jnp.isfinite(x).all() for x in xs]).all(),
    "questions and results": lambda y, *xs: [(x * 2, jnp.all(x < 2)) for x in xs],
    "joined": lambda y, *xs: jnp.concatenate(xs) * 2,
}


def draws():
    rng = np.random.default_rng(0)
    return [rng.normal(size=12).astype(np.float32) for _ in range(MANY + 1)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_launches_have_room_for_their_parameters(name, monkeypatch):
    planned.install(monkeypatch)
    made = planned.planned(PROGRAMS[name], *draws()).commands
    most = max(len(c.spots) for c in commands.leaves(made) if hasattr(c, "spots"))
    assert 100 < most <= MAX_PARAMETERS


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_the_same(name):
    args = draws()
    found = weft.tree.leaves(weft.jit(PROGRAMS[name])(*args))
    with weft.disable_jit():
        want = weft.tree.leaves(PROGRAMS[name](*args))
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
