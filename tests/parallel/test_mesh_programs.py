"""Programs about meshes and devices answer as JAX does, in a process that shows eight devices."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.parallel.mesh_programs import CASES
from tests.parallel.mesh_refusals import PROGRAMS

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(__file__).parent / "data"
RECORD = json.loads((DATA / "meshes.json").read_text())
REFUSALS = json.loads((DATA / "refusals.json").read_text())
ENVIRONMENT = dict(os.environ, WEFT_NUM_CPU_DEVICES="8", PYTHONPATH=str(ROOT))

# Where JAX fails inside itself, or has not what the case is about; what weft gives is right.
OTHERWISE = {
    "checkify_index_in_shard_map": [True, False],
    "checkify_around_shard_map": [False, True, False, True],
    "checkify_scan_of_shard_map": [True, False],
}


def told(*command):
    """The last line that a module prints, in a process with eight devices."""
    command = [sys.executable, "-m", *command]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout.splitlines()[-1]


def run(module):
    return json.loads(told(f"tests.parallel.{module}", "weft"))


@pytest.fixture(scope="module")
def answers():
    return run("mesh_programs")


@pytest.fixture(scope="module")
def refusals():
    return run("mesh_refusals")


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


# Errors from inside of JAX, where it does not check: any refusal will do.
ACCIDENTS = ("AssertionError", "AttributeError", "IndexError", "KeyError", "JaxRuntimeError")
# Where weft answers otherwise on purpose.
ELSE = {
    "mesh/axis names twice": "ValueError",  # such a mesh cannot be used
    "make_mesh/names twice": "ValueError",
    "make_mesh/float": "ValueError",  # JAX takes 2.0 and "2" for 2
    "make_mesh/text": "ValueError",
    "NamedSharding/memory number": "ValueError",
    "pmap/sizes": "IndivisibleError",  # which is a ValueError
    "pmap/axis_size": "IndivisibleError",
    "pmap/global axis": "ok",  # names of axes may be numbers, as for vmap
    "smap/out_axes True": "TypeError",  # before the mesh is looked for
    "groups/in shard_map": "ok",
    "groups/all_to_all uneven": "ValueError",  # results would have different shapes
    "custom_vmap/grad": "ok",  # differentiated as the function is
    "custom_vmap/grad in jit": "ok",
    "custom_vmap/wrong result": "TypeError",
    "checkpoint/not a function": "TypeError",
    "checkpoint/prevent_cse text": "TypeError",
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_jax_refuses_is_refused(refusals, name):
    expected, (found, text) = ELSE.get(name, REFUSALS[name]), refusals[name]
    if expected in ACCIDENTS and name not in ELSE:
        assert found != "ok"
    else:
        assert found == expected, text


def test_every_case_is_recorded():
    assert list(RECORD) == list(CASES)
    assert list(REFUSALS) == list(PROGRAMS)


def test_every_option_has_an_effect_or_is_refused():
    assert int(told("tests.parallel.mesh_options").split()[0]) > 60
