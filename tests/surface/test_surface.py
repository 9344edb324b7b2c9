"""weft answers the programs of this folder as JAX did when ``tools/record_surface.py`` asked it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.backends.pjrt import plugins

from . import asked

ROOT = Path(__file__).resolve().parents[2]
# JAX had no libtpu when it was asked.
NEEDS_NO_LIBTPU = {"tp.get_topology_desc()"}


@pytest.mark.parametrize("group", asked.groups())
def test_answers_are_those_of_jax(group):
    assert asked.programs(group) and set(asked.programs(group)) == set(asked.answers(group))
    # eight devices, which must be known before weft is imported
    environment = dict(os.environ, PYTHONPATH=str(ROOT), WEFT_NUM_CPU_DEVICES="8")
    environment["WEFT_PLATFORMS"] = "cpu"
    done = subprocess.run(
        [sys.executable, "-m", "tests.surface.asked", group],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    differing = json.loads(done.stdout.splitlines()[-1])
    if "tpu" in plugins.known():
        differing = [row for row in differing if row[0] not in NEEDS_NO_LIBTPU]
    told = [f"{program}\n  weft: {found}\n  JAX: {wanted}" for program, found, wanted in differing]
    assert not told, "\n".join(told)
