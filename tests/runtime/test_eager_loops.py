"""Loops outside of compiled functions: compiled once, with the same bits in every call."""

import numpy as np
import pytest

import weft
from weft import lax
from weft import numpy as jnp
from weft.base import knobs
from weft.runtime import policy, programs

MATRIX = jnp.asarray(np.random.default_rng(0).normal(size=(5, 5)).astype(np.float32) / 3)
START = jnp.arange(5, dtype=jnp.float32)


def rounded(carry, x):
    carry = jnp.tanh(MATRIX @ carry + x)
    return carry, carry.sum()


def exact(carry, x):
    return carry * 0.5 + x, carry


@pytest.fixture
def staged(monkeypatch):
    """Programs that are made for loops."""
    found = []
    stage = programs.stage

    def noted(fun, avals):
        found.append(avals)
        return stage(fun, avals)

    monkeypatch.setattr(programs, "stage", noted)
    with knobs.scope(cache="off"):
        yield found


@pytest.mark.parametrize("length", [1, 3, 40, 300])
def test_a_scan_has_the_same_bits_in_every_call(length):
    xs = jnp.linspace(0, 1, length)
    want = weft.jit(lambda c, xs: lax.scan(rounded, c, xs))(START, xs)
    first = lax.scan(rounded, START, xs)
    for a, b in zip(first, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    for _ in range(3):
        got = lax.scan(rounded, START, xs)
        assert [a.tolist() for a in got] == [a.tolist() for a in first]


def test_a_loop_that_is_run_again_is_not_made_again(staged):
    body = lambda carry, x: rounded(carry, x)
    first = lax.scan(body, START, START)
    made = len(staged)
    assert made == 1
    for _ in range(3):
        again = lax.scan(body, START, START)
        assert again[0].tolist() == first[0].tolist()
    assert len(staged) == made
    lax.scan(body, START, START[:3])
    assert len(staged) == made + 1


def test_a_short_exact_loop_is_compiled_once_it_has_run_often(staged):
    body = lambda carry, x: exact(carry, x)
    xs = jnp.ones(100)
    calls = policy.LOOP_EQUATIONS // 100
    want = np.asarray(lax.scan(body, START, xs)[0])
    assert not staged
    for _ in range(calls):
        np.testing.assert_array_equal(lax.scan(body, START, xs)[0], want)
    assert len(staged) == 1


def test_a_while_loop_is_compiled_at_once_if_rounding_differs_else_when_it_has_run_often(staged):
    going = lambda state: state[0] < 4
    rough = lambda state: (state[0] + 1, jnp.sin(state[1]))
    got = lax.while_loop(going, rough, (0, START))
    assert len(staged) == 1
    want = weft.jit(lambda x: lax.while_loop(going, rough, (0, x)))(START)
    assert got[1].tolist() == want[1].tolist()

    step = lambda i: i + 1
    below = lambda i: i < 4
    before = len(staged)
    for _ in range(2 * policy.LOOP_CALLS):
        assert lax.while_loop(below, step, 0).item() == 4
    assert len(staged) == before + 1


def test_a_loop_knows_what_it_was_made_for(staged):
    body = lambda carry, x: (jnp.sin(carry) + x, None)
    for dtype in (jnp.float32, jnp.float16, jnp.float32):
        x = START.astype(dtype)
        assert lax.scan(body, x, x)[0].dtype == dtype
    assert (
        lax.scan(body, START, START)[0].tolist()
        != lax.scan(body, START, START, reverse=True)[0].tolist()
    )
    assert len(staged) == 3


def test_printing_and_checks_stay_in_a_loop(capfd):
    def body(carry, x):
        weft.debug.print("at {}", x)
        return jnp.sin(carry) + x, None

    for _ in range(2):
        lax.scan(body, 0.0, jnp.arange(2.0))
    weft.effects_barrier()
    assert capfd.readouterr().out.count("at ") == 4
    with weft.debug_nans(True), pytest.raises(FloatingPointError, match="log"):
        lax.scan(lambda c, x: (jnp.log(c - x), None), 0.5, jnp.arange(2.0))
