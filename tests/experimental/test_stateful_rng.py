"""A random generator with state draws what the keys behind it draw."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax, random
from weft.experimental.random import StatefulPRNG, stateful_rng

SEED = 42
KEY = random.key(SEED)


def test_draws_are_those_of_the_counted_keys():
    rng = stateful_rng(SEED)
    keys = [random.fold_in(KEY, i) for i in range(6)]
    same = np.testing.assert_array_equal
    same(random.key_data(rng.key()), random.key_data(keys[0]))
    same(rng.random(3), random.uniform(keys[1], (3,)))
    same(rng.uniform(2.0, 3.0, (2, 2)), random.uniform(keys[2], (2, 2), minval=2.0, maxval=3.0))
    same(rng.normal(), random.normal(keys[3]))
    same(rng.integers(10, size=4), random.randint(keys[4], (4,), 0, 10))
    same(random.key_data(rng.key(2)), random.key_data(random.split(keys[5], 2)))
    # recorded from JAX 0.10.2
    first = stateful_rng(SEED)
    assert float(first.uniform()) == pytest.approx(0.5302608, abs=1e-7)
    assert float(first.uniform()) == pytest.approx(0.72766423, abs=1e-7)


def test_parameters_give_shape_and_dtype():
    rng = stateful_rng(0)
    assert rng.normal(jnp.zeros(3), jnp.ones((2, 1))).shape == (2, 3)
    assert rng.uniform(np.zeros(3), 1.0).shape == (3,)
    assert rng.normal(size=2, dtype=jnp.bfloat16).dtype == jnp.bfloat16
    assert rng.integers(0, 5, 3, dtype=jnp.uint8).dtype == np.uint8


def test_state_moves_on_in_compiled_functions_and_loops():
    rng, plain = stateful_rng(SEED), stateful_rng(SEED)
    wanted = [float(plain.normal()) for _ in range(7)]
    draw = weft.jit(rng.normal)
    got = [float(draw()), float(draw()), float(weft.jit(lambda r: r.normal())(rng))]
    got += lax.scan(lambda c, _: (c, rng.normal()), 0, length=3)[1].tolist()
    got += [float(rng.normal())]
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_split_and_spawn():
    rng = stateful_rng(SEED)
    keys = random.split(random.fold_in(KEY, 0), 3)
    split = rng.split(3)
    drawn = weft.vmap(lambda r: (r.uniform(), r.uniform()))(split)
    children = stateful_rng(SEED).spawn(3)
    for i, child in enumerate(children):
        assert isinstance(child, StatefulPRNG)
        first = random.uniform(random.fold_in(keys[i], 0))
        assert float(first) == float(child.uniform()) == float(drawn[0][i])
        assert float(child.uniform()) == float(drawn[1][i])
    assert split._counter[...].tolist() == [2, 2, 2]


def test_seeds():
    assert float(stateful_rng().random()) != float(stateful_rng().random())
    assert stateful_rng(1, impl="rbg").key().dtype == random.key(0, impl="rbg").dtype
    with pytest.raises(TypeError, match="seed="):
        weft.jit(lambda: stateful_rng().random())()
    with pytest.raises(TypeError):
        stateful_rng(1.5)
    assert weft.jit(lambda s: stateful_rng(s).random())(SEED) == stateful_rng(SEED).random()


def test_parts_of_a_generator_are_checked():
    key, counter = weft.random.key(0), weft.new_ref(0)
    StatefulPRNG(key, counter)
    for bad in (weft.random.PRNGKey(0), 0):
        with pytest.raises(ValueError, match="typed key"):
            StatefulPRNG(bad, counter)
    for bad in (0, jnp.uint32(0)):
        with pytest.raises(ValueError, match="reference to an integer"):
            StatefulPRNG(key, bad)


def test_a_generator_that_is_not_mapped_is_refused_under_vmap():
    rng = stateful_rng(0)
    with pytest.raises(ValueError, match=r"rng\.split"):
        weft.vmap(lambda x: x + rng.uniform())(jnp.zeros(3))
    with pytest.raises(ValueError, match=r"rng\.split"):
        weft.vmap(lambda r, x: x + r.uniform(), in_axes=(None, 0))(rng, jnp.zeros(3))
    drawn = weft.vmap(lambda r, x: x + r.uniform())(rng.split(3), jnp.zeros(3))
    assert len(set(drawn.tolist())) == 3
    inside = weft.vmap(lambda seed: stateful_rng(seed).uniform())(jnp.arange(3))
    assert len(set(inside.tolist())) == 3
