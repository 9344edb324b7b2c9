"""Eight devices: programs whose answers JAX gave, run in a process that shows as many."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.parallel.cases import CASES

ROOT = Path(__file__).resolve().parents[2]
RECORD = json.loads((Path(__file__).parent / "data" / "answers.json").read_text())
ENVIRONMENT = dict(os.environ, WEFT_NUM_CPU_DEVICES="8", PYTHONPATH=str(ROOT))

# What the texts of errors say.
TEXTS = {
    "not_the_same": "so it must be the same on all devices along ['x'], but it is computed",
    "rank": "the spec P('x', None, None) for 3 dimensions, and it has the shape (8, 8)",
    "indivisible": "its size 7 is not divisible by 8",
    "axis": "P('q',) names the axis 'q', and the mesh has the axes ('x',)",
    "axis_of_results": "P('q',) names the axis 'q', and the mesh has the axes ('x',)",
    "rank_of_results": "the spec P('x',) for 1 dimensions, and it has the shape ()",
    "axis_twice": "P('x', 'x') shards two dimensions over the axis 'x'",
    "structure": "in_specs for 2 arguments of <lambda>, which is called with 1",
    "structure_of_results": "out_specs of shard_map do not fit the results",
    "spec_is_text": "takes partition specs as in_specs, got 'x' of type str",
    "no_mesh": "set one with weft.set_mesh(mesh)",
    "axis_names": "axis_names={'q'}, and the mesh has the axes ('x',)",
    "not_by_hand": "name the axis 'y', which is not among axis_names {'x'}",
    "devices_apart": "operand 0, float32[8,8], on device 1; operand 1, float32[8,8], on device 2",
    "devices_apart_in_jit": "Move one of them first: weft.device_put(x, y.sharding).",
    "mesh_and_device": "on devices [0, 1, 2, 3, 4, 5, 6, 7]",
    "too_many": "needs 1000 devices, there are 8",
    "put_indivisible": "dimension 0 of shape (7, 8) cannot be divided into 8 equal parts",
    "put_rank": "P('x', 'y', None) has entries for 3 dimensions",
    "put_spec_without_mesh": "set one with weft.set_mesh(mesh)",
    "in_shardings": "move it first with device_put, or leave that sharding out (None)",
    "in_shardings_count": "has entries for 2 arguments, but the call has 1",
    "out_shardings": "dimension 0 of shape (7, 8) cannot be divided into 8 equal parts",
    "parts_on_one_device": "takes one array on each device of the sharding",
    "parts_of_wrong_shape": "got a part of shape (2,)",
    "too_few_parts": "8 devices need one array each, got 1",
    "pmap_devices": "a mapped axis of size 9, which needs 9 devices, but there are 8",
    "pmap_sizes": "different sizes [4, 8]",
    "pmap_scalar": "use in_axes=None for arguments that all devices share",
    "pmap_nothing_mapped": "needs a mapped argument or axis_size",
    "pmap_devices_given": "was given 2 devices and a mapped axis of size 8",
    "pcast_twice": "varies over ['x'] already",
    "explicit/no_mesh_dot": "set one with weft.set_mesh(mesh)",
    "explicit/auto_zeros": "only Explicit axes are part of types",
    "explicit/auto_reshard": "'x' is an axis of type AxisType.Auto",
    "explicit/none": "reshard needs a sharding",
    "explicit/constraint": "move the array with weft.reshard(x, P('x',))",
    "explicit/other_mesh": "set the array's own mesh with weft.set_mesh",
    "explicit/two_meshes": "arrays that are sharded over different meshes",
    "explicit/auto_axes_without": "pass out_sharding",
    "explicit/auto_axes_unknown": "auto_axes got the axes ('q',), and the mesh has the axes",
    "explicit/explicit_axes_no_mesh": "set one with weft.set_mesh(mesh)",
    "reshard_spec/indivisible": "dimension 1 of shape (8, 4) cannot be divided into 8 equal parts",
    "dot/rank": "has entries for 3 dimensions",
}


# Cases that JAX refuses by an assertion or a lookup of its own, or for how it is made; and cases in
# which it forgets what it was told. Weft says what is wrong, or computes the result.
OTHERWISE = {
    **dict.fromkeys(
        [
            f"wrong/{place}/rank"
            for place in "reshard reshard_spec zeros zeros_spec dot reshape auto_axes callback"
            " shard_shape".split()
        ],
        "ValueError",
    ),
    "wrong/explicit/auto_axes_unknown": "ValueError",
    "wrong/shard_map/unbound": "NameError",
    "explicit/repeat/xy": "float32[8@x,8@y]",
    "explicit/repeat/_y": "float32[8,8@y]",
    "explicit/trace/x": "float32[]",
    "explicit/trace/_x": "float32[]",
    "explicit/trace/xy": "float32[]",
    "explicit/batched_product/x": "float32[4@x,8,3]",
    "explicit/batched_product/xy": "float32[4@x,8,3]",
    "explicit/said_in_jit/get_row": "float32[4@y]",
    "explicit/said/matmul_batch": "float32[1,8@x,8]",
    "explicit/said_in_jit/matmul_batch": "float32[1,8@x,8]",
    "explicit/said/asarray": "float32[8@y,4]",
    "explicit/said_in_jit/asarray": "float32[8@y,4]",
    "explicit/said_in_jit/out_shardings": "float32[8@y,4]",
    "explicit/said/more_bincount": "int32[8@x]",
    "explicit/said_in_jit/more_bincount": "int32[8@x]",
}


@pytest.fixture(scope="session")
def answers():
    """What weft gives for all cases, with eight devices."""
    return json.loads(run("-m", "tests.parallel.cases"))


def run(*command, **settings):
    """What Python prints in a process with eight devices."""
    env = {**ENVIRONMENT, **settings}
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


def compare(expected, found, where):
    if isinstance(expected, list):
        assert isinstance(found, list) and len(found) == len(expected), where
        for i, pair in enumerate(zip(expected, found, strict=True)):
            compare(*pair, f"{where}[{i}]")
    elif isinstance(expected, dict) and "values" in expected:
        assert found["shape"] == expected["shape"] and found["dtype"] == expected["dtype"], where
        np.testing.assert_allclose(
            found["values"], expected["values"], rtol=2e-5, atol=1e-4, err_msg=where
        )
        assert found["spec"] == expected["spec"], f"{where} is divided as {found['spec']}"
        assert found["ids"] == expected["ids"], f"{where} is on {found['ids']}"
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys(), (where, found)
        for key in expected:
            compare(expected[key], found[key], f"{where}.{key}")
    else:
        assert found == expected, where


@pytest.mark.parametrize("name", [name for name, _ in CASES])
def test_answers_are_those_of_jax(answers, name):
    expected, found = RECORD[name], answers[name]
    if name in OTHERWISE:
        assert OTHERWISE[name] == (found["error"] if isinstance(found, dict) else found[0])
        return
    if isinstance(expected, dict) and "error" in expected:
        assert isinstance(found, dict) and "error" in found, "JAX refuses this"
        assert found["error"] == expected["error"], found["text"]
        return
    assert not (isinstance(found, dict) and "error" in found), found
    compare(expected, found, name)


@pytest.mark.parametrize("name", TEXTS)
def test_errors_say_what_is_wrong(answers, name):
    assert TEXTS[name] in answers[f"wrong/{name}"]["text"]
    named = re.search(r"cases\w*\.py:\d+", answers[f"wrong/{name}"]["text"])
    assert named, "the user's line is not named"


@pytest.mark.parametrize("page", ["docs/parallel.md", "docs/tutorials/parallel.md"])
def test_the_pages_about_devices(page):
    """Each in a process of its own: a page may set a mesh for the whole process."""
    assert "1 passed" in run("-m", "pytest", "-q", "-p", "no:cacheprovider", page)


def test_what_devices_do_together_is_what_one_does_alone():
    assert ", 0 broken" in run("-m", "tests.parallel.law")


@pytest.mark.full
def test_what_devices_of_every_mesh_do_together_is_what_one_does_alone():
    assert ", 0 broken" in run("-m", "tests.parallel.law", "all")


PROGRAMS, FULL_PROGRAMS, CHUNK = 250, 5_000, 125


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_random_programs_under_random_shardings(first):
    assert ", 0 broken" in run("-m", "tests.parallel.random_programs", str(first), str(CHUNK))


@pytest.mark.full
@pytest.mark.parametrize("first", range(PROGRAMS, FULL_PROGRAMS, CHUNK))
def test_more_random_programs_under_random_shardings(first):
    assert ", 0 broken" in run("-m", "tests.parallel.random_programs", str(first), str(CHUNK))


EXAMPLES = sorted(path.name for path in (ROOT / "examples" / "parallel").glob("*.py"))


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "transformer.py"])
def test_examples_train_as_one_device_does(name):
    for count in ("8", "2") if name == "mesh.py" else ("8",):
        told = run(f"examples/parallel/{name}", WEFT_NUM_CPU_DEVICES=count)
        assert "parameters within" in told


COUNT = "import weft; print(weft.device_count(), weft.local_device_count())"


@pytest.mark.parametrize(
    "settings",
    [
        {"WEFT_NUM_CPU_DEVICES": "4"},
        {"WEFT_NUM_CPU_DEVICES": "-1", "JAX_NUM_CPU_DEVICES": "4"},
        {
            "WEFT_NUM_CPU_DEVICES": "-1",
            "XLA_FLAGS": "--a --xla_force_host_platform_device_count=4 --b",
        },
    ],
)
def test_how_many_devices_there_are(settings):
    settings = {**settings}
    if "JAX_NUM_CPU_DEVICES" in settings:
        del settings["WEFT_NUM_CPU_DEVICES"]
        code = f"import os; del os.environ['WEFT_NUM_CPU_DEVICES']; {COUNT}"
    else:
        code = COUNT
    assert run("-c", code, **settings) == "4 4\n"


def test_the_setting_holds_before_the_first_computation():
    code = "import weft; weft.config.update('jax_num_cpu_devices', 3); print(weft.device_count())"
    assert run("-c", code) == "3\n"


NATIVE = """
import weft, weft.numpy as jnp, time
from weft.runtime.client import host_named
native_hits = host_named("native").hits
there, here = weft.device_put(jnp.ones(8), weft.devices()[2]), jnp.ones(8)
f = weft.jit(lambda x, y: x + y)
mesh = weft.make_mesh((8,), "x", (weft.sharding.AxisType.Auto,))
g = weft.jit(weft.shard_map(lambda x: weft.lax.psum(x, "x"), mesh=mesh, in_specs=weft.P("x"),
                            out_specs=weft.P()))
for i in range(200):
    placed, plain, summed = f(here, there), f(here, here), g(here)
    assert placed.devices() == {weft.devices()[2]} and placed.committed
    assert plain.devices() == {weft.devices()[0]} and not plain.committed
    assert summed.sharding.num_devices == 8 and summed.tolist() == [8.0]
    if i > 20 and native_hits(f) > 20 and native_hits(g) > 20:
        break
    time.sleep(0.01 if i > 20 else 0)
print(native_hits(f) > 20, native_hits(g) > 20)
"""


def test_placements_are_part_of_the_guards_of_native_calls():
    assert run("-c", NATIVE) == "True True\n"
