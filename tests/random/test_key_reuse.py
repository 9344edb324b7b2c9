"""Random keys used twice are errors where that is asked for; what passes and fails is JAX's."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax, random
from weft.errors import KeyReuseError


@pytest.fixture(autouse=True)
def watching():
    with weft.debug_key_reuse(True):
        yield


def draw_twice(k):
    return random.uniform(k) + random.uniform(k)


BAD = {
    "drawn twice": draw_twice,
    "drawn twice in jit": weft.jit(draw_twice),
    "jitted twice": lambda k: [weft.jit(random.uniform)(k) for _ in range(2)],
    "split twice": lambda k: (random.split(k), random.split(k)),
    "split and drawn": lambda k: (random.split(k), random.normal(k)),
    "element twice": lambda k: (lambda ks: random.uniform(ks[0]) + random.uniform(ks[0]))(
        random.split(k)
    ),
    "element and all": lambda k: (
        lambda ks: (random.uniform(ks[0]), weft.vmap(random.uniform)(ks))
    )(random.split(k)),
    "closed over in scan": lambda k: lax.scan(
        lambda c, _: (c, random.uniform(k)), 0.0, None, length=2
    ),
    "carried unchanged": lambda k: lax.scan(lambda c, _: (c, random.uniform(c)), k, None, length=2),
    "in every round": lambda k: lax.fori_loop(0, 3, lambda i, x: x + random.uniform(k), 0.0),
    "in a branch and after": lambda k: (
        lax.cond(True, random.uniform, lambda k: 0.0, k),
        random.uniform(k),
    ),
}
GOOD = {
    "drawn once": random.uniform,
    "folded in": lambda k: [random.uniform(random.fold_in(k, i)) for i in range(3)],
    "folded in and drawn": lambda k: (random.fold_in(k, 1), random.uniform(k)),
    "elements": lambda k: [random.uniform(x) for x in random.split(k, 3)],
    "mapped": lambda k: weft.vmap(random.uniform)(random.split(k, 3)),
    "cloned": lambda k: (random.uniform(k), random.uniform(random.clone(random.clone(k)))),
    "carried anew": lambda k: lax.scan(lambda c, _: (random.split(c)[0], 0.0), k, None, length=3),
    "rows of a scan": lambda k: lax.scan(
        lambda c, x: (c, random.uniform(x)), 0.0, random.split(k, 3)
    ),
    "in one branch each": lambda k: lax.cond(True, random.uniform, random.normal, k),
    "words": lambda k: (random.key_data(k), random.uniform(k)),
}


@pytest.mark.parametrize("how", BAD)
def test_reuse_is_an_error(how):
    with pytest.raises(KeyReuseError, match="used before"):
        BAD[how](random.key(3))


@pytest.mark.parametrize("how", BAD)
def test_and_nothing_without_asking(how):
    with weft.debug_key_reuse(False):
        BAD[how](random.key(3))


@pytest.mark.parametrize("how", GOOD)
def test_use_is_none(how):
    GOOD[how](random.key(3))
    weft.jit(GOOD[how])(random.key(4))


def test_arrays_of_words_are_not_watched():
    words = random.PRNGKey(0)
    assert random.uniform(words) == random.uniform(words)


def test_numbers_are_the_same_and_the_check_ends_with_its_scope():
    k = random.key(0)
    watched = random.normal(k, (3,))
    with weft.debug_key_reuse(False):
        plain = random.normal(k, (3,))
    assert np.array_equal(watched, plain)
    with pytest.raises(KeyReuseError):
        random.normal(k, (3,))
    assert weft.grad(lambda x: x * random.uniform(random.key(1)))(2.0) == random.uniform(
        random.key(1)
    )
    assert jnp.isfinite(watched).all()
