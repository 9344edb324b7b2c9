"""Every public function under settings that forbid things, as JAX lets it through."""

import pytest

from weft.base import knobs

from . import scopes


@pytest.fixture(scope="module")
def wanted() -> set[str]:
    return scopes.chosen(scopes.TESTED)


@pytest.mark.parametrize("scope", scopes.SCOPES)
def test_what_jax_computes_is_computed(scope: str, wanted: set[str]) -> None:
    check(scope, wanted)


@pytest.mark.full
@pytest.mark.parametrize("scope", scopes.SCOPES)
def test_more_of_what_jax_computes_is_computed(scope: str) -> None:
    check(scope, scopes.chosen(scopes.RECORDED))


def check(scope: str, wanted: set[str]) -> None:
    with knobs.scope(backend="reference"):
        failed = [
            f"{case.id}: {o.error}: {o.message}" for case, o in scopes.failures(scope, wanted)
        ]
    assert not failed, "\n".join(failed)


def test_there_are_cases_of_nearly_every_function(wanted: set[str]) -> None:
    assert len(wanted) > 500


def test_refused_cases_are_still_there() -> None:
    known = {name for names in scopes.refused().values() for name in names}
    assert known <= scopes.chosen(scopes.RECORDED)
