"""Programs about meshes and devices answer as JAX does, in a process that shows eight devices."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORD = json.loads((Path(__file__).parent / "data" / "meshes.json").read_text())
ENVIRONMENT = dict(os.environ, WEFT_NUM_CPU_DEVICES="8", PYTHONPATH=str(ROOT))

# Where JAX fails inside itself, or has not what the case is about; what weft gives is right.
OTHERWISE = {
    "checkify_index_in_shard_map": [True, False],
    "checkify_around_shard_map": [False, True, False, True],
    "checkify_scan_of_shard_map": [True, False],
}


@pytest.fixture(scope="module")
def answers():
    """What weft gives for all cases, with eight devices."""
    command = [sys.executable, "-m", "tests.parallel.mesh_programs", "weft"]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return json.loads(done.stdout)


def compare(expected, found, where):
    if isinstance(expected, list):
        assert isinstance(found, list) and len(found) == len(expected), (where, found)
        for i, pair in enumerate(zip(expected, found, strict=True)):
            compare(*pair, f"{where}[{i}]")
    elif isinstance(expected, dict) and "values" in expected:
        assert isinstance(found, dict), (where, found)
        assert found["shape"] == expected["shape"] and found["dtype"] == expected["dtype"], where
        np.testing.assert_allclose(
            found["values"], expected["values"], rtol=2e-5, atol=1e-6, err_msg=where
        )
    else:
        assert found == expected, where


@pytest.mark.parametrize("name", RECORD)
def test_answers_are_those_of_jax(answers, name):
    expected, found = OTHERWISE.get(name, RECORD[name]), answers[name]
    if isinstance(expected, dict) and "error" in expected:
        assert isinstance(found, dict) and "error" in found, f"JAX refuses this: {found}"
        assert found["error"] == expected["error"], found["text"]
        return
    assert not (isinstance(found, dict) and "error" in found), found
    compare(expected, found, name)
