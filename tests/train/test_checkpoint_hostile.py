"""Damaged, foreign and hostile checkpoints: a clear error, nothing run, nothing removed."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from weft.train import checkpoint
from weft.train.checkpoint import CheckpointError, manifest, plain_json, safetensors

ROOT = Path(__file__).resolve().parents[2]
TREE = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "n": 3}


@pytest.fixture
def saved(tmp_path):
    return checkpoint.save(tmp_path / "one", TREE)


def forge(path, change):
    """Change the manifest and make its checksum fit."""
    file = os.path.join(path, manifest.FILE)
    with open(file, "rb") as old:
        body = json.loads(old.read())["manifest"]
    text = change(body)
    text = json.dumps(body, separators=(",", ":")) if text is None else text
    digest = hashlib.sha256(text.encode()).hexdigest()
    with open(file, "w") as new:
        new.write(f'{{"sha256":"{digest}","manifest":{text}}}\n')


def edit(*path, to):
    def change(body):
        for key in path[:-1]:
            body = body[key]
        body[path[-1]] = to

    return change


PART = ("leaves", "w", "parts", 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (edit(*PART, "file", to="../../secret.safetensors"), "not a data file"),
        (edit(*PART, "file", to="/etc/passwd"), "not a data file"),
        (edit(*PART, "file", to="process_00000.safetensors\0"), "not a data file"),
        (edit("files", to={"../x": {"bytes": 1, "header_crc32": 1}}), "a wrong file"),
        (edit("leaves", "w", "shape", to=[1 << 40, 1 << 40]), "a wrong shape"),
        (edit("leaves", "w", "shape", to=[2, 4]), "do not make up"),
        (edit("leaves", "w", "shape", to=[2, -3]), "a wrong shape"),
        (edit(*PART, "shape", to=[1 << 50, 3]), "do not make up"),
        (edit("leaves", "w", "parts", to=[]), "leave a gap"),
        (edit("leaves", "w", "dtype", to="object"), "unknown dtype"),
        (edit("leaves", "w", "dtype", to="int32"), "does not hold"),
        (edit("leaves", "w", "kind", to="pickle"), "unknown kind"),
        (edit("leaves", "n", "value", to=3), "wrong value of type int"),
        (edit("leaves", "n", "value", to="0xg"), "not of type int"),
        (edit("tree", to="x"), "not there once"),
        (edit("tree", to={"kind": "tuple", "items": ["w", "w"]}), "not there once"),
        (edit("tree", to=None), "not in its tree"),
        (edit("tree", "kind", to="os.system"), "a node of kind"),
        (edit("version", to=2), "format version 2; this weft reads 1"),
        (edit("format", to="other"), "not a manifest of weft"),
        (edit("metrics", to={"loss": "x"}), "a metric"),
        (edit("extra", to=1), "other fields"),
        (lambda body: "[" * 200_000, "nested too deeply|cannot be read"),
        (lambda body: '{"step":1,"step":2}', "'step' appears twice"),
        (lambda body: '{"step":NaN}', "NaN is not a JSON number"),
        (lambda body: f'{{"step":{"9" * 10_000}}}', "cannot be read"),
    ],
)
def test_forged_manifests(saved, change, message):
    forge(saved, change)
    before = sorted(os.listdir(saved))
    with pytest.raises(CheckpointError, match=message):
        checkpoint.restore(saved)
    assert sorted(os.listdir(saved)) == before


def test_deep_trees_are_refused(saved):
    deep = '{"kind":"list","items":[' * 1000 + '"w"' + "]}" * 1000
    forge(
        saved, lambda body: json.dumps(body | {"tree": 0}).replace('"tree": 0', f'"tree": {deep}')
    )
    with pytest.raises(CheckpointError, match=r"levels deep|nested too deeply"):
        checkpoint.restore(saved)


@pytest.mark.parametrize("name", ["manifest.json", "process_00000.safetensors"])
def test_every_byte_is_checked(saved, name):
    path = os.path.join(saved, name)
    with open(path, "rb") as file:
        data = file.read()
    for at in range(0, len(data), 3):
        with open(path, "wb") as file:
            file.write(data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1 :])
        with pytest.raises(CheckpointError):
            checkpoint.restore(saved)
    for size in (0, 1, 8, len(data) - 1):
        with open(path, "wb") as file:
            file.write(data[:size])
        with pytest.raises(CheckpointError):
            checkpoint.restore(saved)


def header(text, data=b"", size=None):
    text = text.encode() if isinstance(text, str) else json.dumps(text).encode()
    return (len(text) if size is None else size).to_bytes(8, "little") + text + data


def one(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a checkpoint of flax"),
        (header({}, size=1 << 62), "not a checkpoint of flax"),
        (header({}, size=3), "not a safetensors file"),
        (header({"a": one()}, bytes(4)), "its header says"),
        (header({"a": one()}, bytes(9)), "its header says"),
        (header({"a": one("O")}, bytes(8)), "has the dtype 'O'"),
        (header({"a": one(shape=(3,))}, bytes(8)), "has 12 bytes"),
        (header({"a": one(shape=(-2,))}, bytes(8)), "has the shape"),
        (header({"a": one(shape=(True, 2))}, bytes(8)), "has the shape"),
        (header({"a": one(shape=(1 << 61, 1 << 61))}, bytes(8)), "has the shape"),
        (header({"a": one(), "b": one()}, bytes(8)), "overlap or leave gaps"),
        (header({"a": one(offsets=(4, 12))}, bytes(12)), "overlap or leave gaps"),
        (header({"a": one("BOOL", (1,), (0, 1))}, b"\x07"), "neither 0 nor 1"),
        (header({"a": 3}), "is not valid in safetensors"),
        (header({"__metadata__": {"a": 1}}), "must map names to strings"),
        (header('{"a":1,"a":2}'), "'a' appears twice"),
        (header('{"a":' * 100_000), "nested too deeply|cannot be read"),
        (b"\x93" * 5000, "nested too deeply"),
        (b"\x81\xa1a\xc7\x05\x01\x93\x90\xa1O\xc4\x00", "not a checkpoint of flax"),
        (b"\x81\xa1a\xd6\x07abcd", "levels deep|of type|checkpoint"),
        (b"\x03", "holds no dictionary"),
        (b"PK\x03\x04 a zip file", "not a checkpoint of flax|holds no dictionary"),
    ],
)
def test_foreign_files(tmp_path, data, message):
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=message):
        checkpoint.restore(path)
    assert path.read_bytes() == data


def test_what_is_not_a_plain_file(tmp_path, saved):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckpointError, match="not a plain file"):
        checkpoint.load_safetensors(tmp_path / "pipe")
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        checkpoint.restore(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        checkpoint.restore(tmp_path / "empty")
    os.unlink(os.path.join(saved, "process_00000.safetensors"))
    with pytest.raises(CheckpointError, match="cannot be opened"):
        checkpoint.restore(saved)


def test_errors_are_value_errors():
    assert issubclass(CheckpointError, ValueError)
    assert not plain_json.is_shape([True]) and safetensors.MAX_HEADER == 100_000_000


def test_mutants():
    """A short run of tools/fuzz_checkpoints.py, which watches a process of its own."""
    command = [sys.executable, "-m", "tools.fuzz_checkpoints", "--mutants", "1500", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1500 mutants" in done.stdout and "damaged manifest.json: refused" in done.stdout
