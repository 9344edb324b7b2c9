"""Every public function has recorded cases: value, compiled, derivatives, batches."""

import pytest

from . import coverage


@pytest.fixture(scope="module")
def found() -> dict[str, list[str]]:
    return coverage.holes(coverage.recorded())


def test_every_function_has_its_cases(found) -> None:
    assert coverage.uncovered(found) == {}


def test_no_exception_is_outdated(found) -> None:
    outdated = [
        f"{name}: {kind}"
        for name, (kinds, _) in coverage.EXCEPTIONS.items()
        for kind in kinds.split()
        if name not in found
    ]
    assert outdated == []


def test_a_function_without_cases_is_found() -> None:
    empty = coverage.holes({})
    assert set(empty["numpy.sin"]) == {"value"}
    floats = {"numpy.sin": {**dict.fromkeys((*coverage.KINDS, "arrays"), 1), "floats": 1, "vjp": 0}}
    assert coverage.holes(floats)["numpy.sin"] == ["vjp"]
