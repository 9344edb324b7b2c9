"""Checkpoints that flax and Orbax wrote (``tests/train/record.py``), whole and damaged."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.train import checkpoint
from weft.train.checkpoint import CheckpointError, ocdbt, zstd

DATA = Path(__file__).parent / "data"
needs_zstd = pytest.mark.skipif(
    not zstd.is_there(), reason="a decoder of zstd is in Python 3.14, or pip install 'weft[train]'"
)
TARGET = {
    "params": {"w": jnp.zeros((2, 3)), "b": jnp.zeros(3, jnp.bfloat16)},
    "opt": (jnp.zeros(2, jnp.int32), [jnp.zeros(1)]),
    "step": 0,
    "rate": 0.0,
}


def check(path, partial=False):
    found = checkpoint.restore(path, TARGET, partial=partial)
    assert weft.tree.structure(found) == weft.tree.structure(TARGET)
    assert found["step"] == 3 and found["rate"] == 1.5
    np.testing.assert_array_equal(found["params"]["w"], np.arange(6.0).reshape(2, 3))
    assert found["params"]["b"].dtype == jnp.bfloat16 and (found["params"]["b"] == 1).all()
    assert not found["opt"][0].any() and found["opt"][1][0] == 1


def test_flax():
    check(DATA / "flax_7")


def test_orbax_without_compression():
    check(DATA / "orbax_plain")
    whole = checkpoint.restore(DATA / "orbax_plain")
    assert whole["empty"] == {} and whole["none"] is None
    assert list(whole["opt"]) == ["0", "1"]


@needs_zstd
def test_orbax():
    check(DATA / "orbax_zarr")
    check(DATA / "orbax_ocdbt", partial=True)
    large = checkpoint.restore(DATA / "orbax_ocdbt", at="large")
    np.testing.assert_array_equal(large, np.arange(2000.0))


@pytest.mark.skipif(zstd.is_there(), reason="there is a decoder of zstd")
@pytest.mark.parametrize("name", ["orbax_zarr", "orbax_ocdbt"])
def test_what_is_needed_is_named(name):
    with pytest.raises(CheckpointError, match=r"compressed with zstd.*pip install 'weft\[train\]'"):
        checkpoint.restore(DATA / name)


def test_the_folder_of_a_step(tmp_path):
    shutil.copytree(DATA / "orbax_plain", tmp_path / "5" / "default")
    shutil.copytree(DATA / "orbax_plain", tmp_path / "5" / "other")
    check(tmp_path / "5")
    shutil.copytree(DATA / "orbax_plain", tmp_path / "6" / "state")
    check(tmp_path / "6")
    (tmp_path / "7" / "metrics").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="it has no tree"):
        checkpoint.restore(tmp_path / "7")


def test_a_single_file(tmp_path):
    (tmp_path / "one").mkdir()
    shutil.copy(DATA / "flax_7", tmp_path / "one" / "checkpoint")
    check(tmp_path / "one")


def test_a_database_of_several_levels():
    found = ocdbt.Database(str(DATA / "ocdbt"))
    wanted = {
        f"layer_{number // 7}/part_{number}": b"%d" % number * (number % 11) for number in range(60)
    }
    wanted |= {"layer_0/part_1": b"new", "last": bytes(100)}
    assert {key: found.get(key) for key in found.values} == wanted
    assert found.get("none") is None


def test_damaged_databases(tmp_path):
    folder = tmp_path / "ocdbt"
    shutil.copytree(DATA / "ocdbt", folder)
    files = [path for path in folder.rglob("*") if path.is_file()]
    draw = np.random.RandomState(0)
    refused = 0
    for number in range(300):
        path = files[number % len(files)]
        data = bytearray(path.read_bytes())
        good = bytes(data)
        data[draw.randint(len(data))] ^= 1 << draw.randint(8)
        path.write_bytes(data[: draw.randint(len(data))] if number % 5 == 0 else data)
        try:
            found = ocdbt.Database(str(folder))
            for key in found.values:
                found.get(key)
        except CheckpointError:
            refused += 1
        path.write_bytes(good)
    assert refused > 100  # damage to what is no longer referred to is not seen


def edit(folder, change):
    path = folder / "_METADATA"
    body = json.loads(path.read_text())
    change(body)
    path.write_text(json.dumps(body))


def of_w(body):
    return body["tree_metadata"]["('params', 'w')"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b.update(use_zarr3=True), "zarr of version 3"),
        (lambda b: b.pop("tree_metadata"), "has no tree"),
        (lambda b: of_w(b).update(key_metadata=[]), "a leaf without keys"),
        (lambda b: of_w(b)["key_metadata"][0].update(key="../../x"), "has the key"),
        (lambda b: of_w(b).update(key_metadata=[{"key": ".."}]), "a leaf '..'"),
        (lambda b: of_w(b)["key_metadata"][1].update(key="z"), "does not exist"),
        (lambda b: of_w(b)["value_metadata"].update(value_type="string"), "is text"),
        (lambda b: b["tree_metadata"].update(x=of_w(b)), "appears twice"),
    ],
)
def test_forged_trees_of_orbax(tmp_path, change, message):
    shutil.copytree(DATA / "orbax_plain", tmp_path / "one")
    edit(tmp_path / "one", change)
    with pytest.raises(CheckpointError, match=message):
        checkpoint.restore(tmp_path / "one")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"zarr_format": 3}, "not a zarr array"),
        ({"filters": [{"id": "pickle"}]}, "not a zarr array"),
        ({"shape": [1 << 40, 1 << 40]}, "has the shape"),
        ({"shape": [1 << 30, 3], "chunks": [1, 1]}, "chunks"),
        ({"chunks": [0, 3]}, "has the shape"),
        ({"chunks": [1 << 20, 1 << 20]}, "bytes instead of"),
        ({"dtype": "|O"}, "has the dtype"),
        ({"dtype": "<f8"}, "bytes instead of"),
        ({"compressor": {"id": "blosc"}}, "compressed with 'blosc'"),
        ({"compressor": {"id": "zlib"}}, "zlib data is damaged"),
        ({"dimension_separator": "/../"}, "chunks"),
        ({"shape": [4, 3]}, "lacks the chunk 1.0"),
    ],
)
def test_forged_arrays_of_orbax(tmp_path, change, message):
    shutil.copytree(DATA / "orbax_plain", tmp_path / "one")
    path = tmp_path / "one" / "params.w" / ".zarray"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(CheckpointError, match=message):
        checkpoint.restore(tmp_path / "one")


@pytest.mark.parametrize("path", ["../x", "a/../b", "/x", "a//b", "..", "a/..", "./a", "a\0b", ""])
def test_databases_name_only_files_below_them(path):
    reader = ocdbt._Reader(b"", "a file")
    with pytest.raises(CheckpointError, match="it names the file"):
        ocdbt.Database._location(None, reader, [("", path)], 0, 0, 1)
