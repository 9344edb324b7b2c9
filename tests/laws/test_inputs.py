"""Every public function on arrays without axes or without elements answers as JAX does."""

import pytest

from tests.oracle import harness
from tests.oracle.table import FAMILIES
from weft.base import knobs


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["inputs_linalg", "inputs_numpy", "inputs_scipy"])
def test_small_inputs(name):
    checker = harness.Checker("weft")
    cases = FAMILIES[name].cases()
    with knobs.scope(backend="reference"):
        failures = [f for case in cases for f in checker.check(case)]
    assert len(cases) > 200
    assert not failures, "\n".join(map(str, failures[:20]))
