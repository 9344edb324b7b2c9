"""weft.optim gives what optax gave: updates, states and their names, dtypes, errors."""

import pytest

import weft
import weft.numpy as jnp
import weft.optim
from tests.optim import harness
from tests.optim.cases import FAMILIES

ALL = [(family, case) for family, cases in FAMILIES.items() for case in cases]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("family", "case"), ALL, ids=[f"{name}-{case.id}" for name, case in ALL])
def test_as_recorded(family, case):
    recorded = harness.load(family)
    assert case.id in recorded, f"not recorded: run tools/record_optim.py {family}"
    with weft.enable_x64(case.x64):
        found = harness.outcome(case, harness.Library(weft, jnp, weft.optim, case.x64))
    assert not (problem := harness.difference(case, found, recorded[case.id])), problem


def test_there_are_enough_cases():
    assert len(ALL) >= 700
