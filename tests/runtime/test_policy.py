"""Compiling eager operations takes a share of the time, not all of it at their second call."""

import numpy as np
import pytest

import weft.numpy as jnp
from weft.api.learning import Learning
from weft.base import knobs
from weft.runtime import policy
from weft.runtime.policy import CAPACITY, Account


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(policy, "perf_counter", lambda: now[0])
    return now


def test_time_that_passes_fills_the_account(clock):
    with knobs.scope(eager_compile_share=0.25):
        account = Account()
        assert account.allows() and account.balance == CAPACITY
        began = clock[0]
        clock[0] += 0.1
        account.charge(began)
        assert account.balance == pytest.approx(CAPACITY - 0.1)
        assert not account.allows()  # a quarter of that time has come back
        clock[0] += 0.3
        assert account.allows()
        clock[0] += 1e6
        assert account.allows() and account.balance == CAPACITY
    with knobs.scope(eager_compile_share=1.0):
        account.charge(0.0)
        assert account.allows()


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_operations_wait_and_give_the_same(share, monkeypatch):
    empty = Account()
    empty.balance = -1.0
    monkeypatch.setattr("weft.runtime.policy.account", empty)
    x = jnp.arange(35.0).reshape(5, 7)
    inside = [c.cell_contents for c in jnp.moveaxis.__closure__]
    learner = next(c for c in inside if isinstance(c, Learning))
    learner._forget()
    with knobs.scope(eager_compile_share=share, backend="native"):
        for _ in range(6):
            moved = jnp.moveaxis(x, 0, 1)
            total = x + moved.T
    assert np.array_equal(moved, np.arange(35.0).reshape(5, 7).T)
    assert np.array_equal(total, 2 * np.arange(35.0).reshape(5, 7))
    (program,) = learner._seen.values()
    assert program.has_run == (share == 1)
