"""Einsums whose only step is known without a search for paths."""

import random

import numpy as np
import pytest

import weft.numpy as jnp
from weft.numpy import einstein


def _drawn(rng: random.Random) -> tuple[str, tuple[tuple[int, ...], ...]]:
    names = "abcdEF"[: rng.randint(1, 6)]
    sizes = {x: rng.randint(1, 3) for x in names}
    given = ["".join(rng.choices(names, k=rng.randint(1, 4))) for _ in range(rng.randint(1, 2))]
    there = sorted(set("".join(given)))
    result = "".join(rng.sample(there, rng.randint(0, len(there))))
    return f"{','.join(given)}->{result}", tuple(tuple(sizes[x] for x in t) for t in given)


@pytest.mark.parametrize("seed", range(60))
def test_the_step_is_the_one_that_is_found(seed: int) -> None:
    subscripts, shapes = _drawn(random.Random(seed))
    step = einstein._only_step(subscripts, shapes)
    for optimize in ("auto", "optimal", False, True):
        stand_ins = map(einstein._Shape, shapes)
        assert einstein._find_steps((subscripts, *stand_ins), optimize)[1] == [step]


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk", ((2, 3), (3, 4))),
        ("i j,jk->ik", ((2, 3), (3, 4))),
        ("...i,i->...", ((2, 3), (3,))),
        ("ij,jk->ikz", ((2, 3), (3, 4))),
        ("ij,jk->ikk", ((2, 3), (3, 4))),
        ("ij,jk->ik", ((2, 3), (1, 4))),
        ("ij->ij", ((2, 3, 4),)),
        ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 5))),
        (",i->i", ((), (3,))),
    ],
)
def test_what_is_open_or_wrong_is_left_to_the_search(subscripts: str, shapes) -> None:
    assert einstein._only_step(subscripts, shapes) is None


def test_both_ways_give_the_same_numbers() -> None:
    rng = np.random.default_rng(0)
    for seed in range(20):
        subscripts, shapes = _drawn(random.Random(seed))
        arrays = [rng.normal(size=s).astype(np.float32) for s in shapes]
        want = np.einsum(subscripts, *(x.astype(np.float64) for x in arrays))
        np.testing.assert_allclose(jnp.einsum(subscripts, *arrays), want, rtol=1e-5, atol=1e-5)
