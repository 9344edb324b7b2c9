"""Types on meshes with explicit axes: small programs whose answers JAX gave."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.parallel.cases_types import LINES

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(__file__).parent / "data"
RECORD = json.loads((DATA / "types.json").read_text())
# Answers that differ from JAX's; docs/moving-from-jax.md gives the reasons.
OTHERWISE = json.loads((DATA / "types_otherwise.json").read_text())
ENVIRONMENT = dict(os.environ, WEFT_NUM_CPU_DEVICES="8", PYTHONPATH=str(ROOT))


@pytest.fixture(scope="session")
def answers():
    """What weft answers to all lines, with eight devices."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.parallel.cases_types"],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return json.loads(done.stdout)


def alike(expected, found):
    if isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            return False
        return all(alike(a, b) for a, b in zip(expected, found, strict=True))
    if isinstance(expected, float) and isinstance(found, float):
        return bool(np.isclose(expected, found, rtol=1e-4, atol=1e-5, equal_nan=True))
    return expected == found


def test_the_record_is_of_these_lines():
    assert list(RECORD) == LINES and set(OTHERWISE) <= set(LINES)


@pytest.mark.parametrize("line", LINES)
def test_answers_are_those_of_jax(answers, line):
    expected = OTHERWISE.get(line, RECORD[line])
    assert alike(expected, answers[line]), f"{answers[line]}\nand not\n{expected}"
    assert line not in OTHERWISE or not alike(RECORD[line], answers[line]), "JAX answers so too"
