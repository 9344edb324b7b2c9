"""Every public function under settings that forbid things, as JAX lets it through."""

import os
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.parametrize("scope", ["shard_first"])
def test_what_one_device_computes_is_computed_in_shard_map(scope: str) -> None:
    inside_shard_map(scope, scopes.TESTED)


@pytest.mark.full
@pytest.mark.parametrize("scope", scopes.SHARDED)
def test_more_of_what_one_device_computes_is_computed_in_shard_map(scope: str) -> None:
    inside_shard_map(scope, scopes.RECORDED)


def inside_shard_map(scope: str, each: int) -> None:
    """Run cases in a process that shows two devices."""
    root = Path(__file__).resolve().parents[2]
    env = dict(os.environ, WEFT_NUM_CPU_DEVICES="2", PYTHONPATH=str(root))
    command = [sys.executable, "-m", "tests.oracle.scopes", str(each), scope]
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


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
