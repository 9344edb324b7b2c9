"""weft.linen against recorded answers of flax: parameters from keys, outputs, gradients, errors."""

import pytest

from tests.linen import harness
from tests.linen.fp8_cases import FAMILIES

RECORDED = {name: harness.load(name) for name in FAMILIES}
CASES = [
    pytest.param(name, case, dtype, id=f"{case.name}/{dtype}")
    for name, cases in FAMILIES.items()
    for case in cases
    for dtype in ("float32", "float64")
]


@pytest.fixture(scope="module")
def libraries():
    return {dtype: harness.library("weft", dtype) for dtype in ("float32", "float64")}


@pytest.mark.parametrize("family, case, dtype", CASES)
def test_a_case_is_as_recorded(libraries, family, case, dtype):
    recorded = RECORDED[family]
    assert f"{case.name}/{dtype}" in recorded, "not recorded: run python -m tests.linen.record"
    harness.compare(harness.run(case, libraries[dtype]), recorded[f"{case.name}/{dtype}"])


def test_nothing_is_recorded_twice_or_for_nothing():
    for family, cases in FAMILIES.items():
        names = {f"{case.name}/{dtype}" for case in cases for dtype in ("float32", "float64")}
        assert names == set(RECORDED[family])
