"""Every public function under settings that forbid things, as JAX lets it through."""

import pytest

from weft.base import knobs

from . import scopes


@pytest.fixture(scope="module")
def wanted():
    return {each: scopes.chosen(each) for each in {n for _, _, n in scopes.SCOPES.values()}}


@pytest.mark.parametrize("scope", scopes.SCOPES)
def test_what_jax_computes_is_computed(scope, wanted):
    each = scopes.SCOPES[scope][2]
    with knobs.scope(backend="interpret"):
        failed = [
            f"{case.id}: {o.error}: {o.message}" for case, o in scopes.failures(scope, wanted[each])
        ]
    assert not failed, "\n".join(failed)


def test_every_public_function_has_a_case(wanted):
    assert len(wanted[1]) > 600


def test_cases_that_jax_refuses_are_still_there():
    known = {name for names in scopes.refused().values() for name in names}
    assert known <= scopes.chosen(scopes.RECORDED)
