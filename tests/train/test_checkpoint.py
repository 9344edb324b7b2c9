"""Checkpoints: what comes back, into which trees, which ones stay, and what is refused."""

import json
import os
import shutil
import threading
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import optim, train
from weft.train import checkpoint
from weft.train.checkpoint import CheckpointError, CheckpointManager, Keep, safetensors, writing


class Pair(NamedTuple):
    left: object
    right: object


def same(a, b):
    """Equal trees, to the bit and to the type of every leaf."""
    (xs, one), (ys, other) = weft.tree.flatten(a), weft.tree.flatten(b)
    assert one == other
    for x, y in zip(xs, ys):
        assert type(x) is type(y), (x, y)
        if isinstance(x, weft.Array) and jnp.issubdtype(x.dtype, weft.dtypes.prng_key):
            assert x.dtype == y.dtype
            x, y = weft.random.key_data(x), weft.random.key_data(y)
        if hasattr(x, "dtype"):
            assert x.dtype == y.dtype and x.shape == y.shape
            assert np.asarray(x).tobytes() == np.asarray(y).tobytes()
        else:
            assert x == y or (x != x and y != y)


ADAM = optim.adam(1e-2)


def a_state():
    params = {"Dense_0": {"kernel": jnp.arange(6.0).reshape(2, 3), "bias": jnp.zeros(3)}}
    state = train.TrainState.create(apply_fn=None, params=params, tx=ADAM)
    return state.apply_gradients(grads=weft.tree.map(jnp.ones_like, params))


EVERYTHING = {
    "keys": weft.random.split(weft.random.key(3), (2, 2)),
    "old_key": weft.random.PRNGKey(1),
    "rbg": weft.random.key(0, impl="rbg"),
    "scalars": [True, -3, 2**200, 1.5, float("nan"), float("-inf"), 1 - 2j, "text\ud800", b"\x00"],
    "nothing": None,
    "empty": ({}, [], ()),
    "numpy": (np.arange(4, dtype=">i2")[::2].astype("<i2"), np.float64(2.5), np.zeros((0, 3))),
    "dtypes": {name: jnp.ones((2, 3), name) for name in (
        "bool int8 uint16 int32 uint32 float16 bfloat16 float8_e4m3fn float8_e5m2 int4 uint4 "
        "float8_e4m3b11fnuz complex64"
    ).split()},
    "none/and~odd": {1: jnp.ones(()), 20: {"a/b": jnp.zeros(1)}},
}  # fmt: skip


def test_any_tree_comes_back_as_it_was(tmp_path):
    path = checkpoint.save(tmp_path / "one", EVERYTHING, step=3, metadata={"by": ["me"]})
    same(checkpoint.restore(path), EVERYTHING)
    same(checkpoint.restore(path, EVERYTHING), EVERYTHING)
    found = checkpoint.read_manifest(path)
    assert found.step == 3 and found.metadata == {"by": ["me"]}


def test_bytes_of_arrays_are_as_safetensors_says(tmp_path):
    path = checkpoint.save(tmp_path / "one", {"w": np.arange(2, dtype=np.float32), "n": 1})
    assert sorted(os.listdir(path)) == ["manifest.json", "process_00000.safetensors"]
    data = (tmp_path / "one" / "process_00000.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    assert size % 8 == 0 and data[8 + size :] == np.arange(2, dtype=np.float32).tobytes()
    wanted = {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    assert json.loads(data[8 : 8 + size]) == wanted
    assert json.loads((tmp_path / "one" / "manifest.json").read_text())["manifest"]["step"] == 0


# the bytes that safetensors 0.8.0 writes: save({"b": bf16[2], "a": f32[1]}, {"by": "me"})
RECORDED = (
    b'\x88\x00\x00\x00\x00\x00\x00\x00{"__metadata__":{"by":"me"},"a":{"dtype":"F32","shape":[1],'
    b'"data_offsets":[0,4]},"b":{"dtype":"BF16","shape":[2],"data_offsets":[4,8]}} '
    b"\x00\x00\x00@\x80?\x80?"
)


def test_files_are_those_of_the_safetensors_package(tmp_path):
    path = tmp_path / "file.safetensors"
    arrays = {"b": np.ones(2, ml_dtypes.bfloat16), "a": np.full(1, 2, np.float32)}
    checkpoint.save_safetensors(arrays, path, {"by": "me"})
    assert path.read_bytes() == RECORDED
    same(checkpoint.load_safetensors(path), arrays)
    assert safetensors.load_metadata(path) == {"by": "me"}
    same(checkpoint.restore(path), arrays)


def test_the_safetensors_package_reads_them(tmp_path):
    package = pytest.importorskip("safetensors.numpy", reason="a check with the package itself")
    path = checkpoint.save(tmp_path / "one", {"a": {"b": np.arange(3.0)}, "c": np.ones(2, bool)})
    same(package.load_file(f"{path}/process_00000.safetensors"),
         {"a/b": np.arange(3.0), "c": np.ones(2, bool)})  # fmt: skip


def test_a_train_state_goes_back_into_a_new_one(tmp_path):
    state = a_state()
    checkpoint.save(tmp_path / "one", state)
    fresh = a_state().replace(step=0)
    restored = checkpoint.restore(tmp_path / "one", fresh)
    same(restored, state)
    assert restored.tx is fresh.tx
    plain = checkpoint.restore(tmp_path / "one")
    assert plain["opt_state"][0]["mu"].keys() == {"Dense_0"}
    same(checkpoint.restore(tmp_path / "one", at="params/Dense_0"), state.params["Dense_0"])


def test_other_dtypes(tmp_path):
    tree = {"w": jnp.arange(3.0), "n": jnp.arange(3), "flag": jnp.array(True)}
    checkpoint.save(tmp_path / "one", tree)
    half = checkpoint.restore(tmp_path / "one", dtype=jnp.bfloat16)
    assert [half[k].dtype.name for k in ("w", "n", "flag")] == ["bfloat16", "int32", "bool"]
    choose = lambda name, dtype: "float16" if name == "w" else dtype
    chosen = checkpoint.restore(tmp_path / "one", dtype=choose)
    assert chosen["w"].dtype == jnp.float16 and chosen["n"].dtype == jnp.int32
    target = {"w": np.zeros(3), "n": jnp.zeros(3, jnp.int8), "flag": jnp.zeros((), jnp.float32)}
    wanted = {"w": np.arange(3.0), "n": jnp.arange(3, dtype=jnp.int8), "flag": jnp.float32(1)}
    same(checkpoint.restore(tmp_path / "one", target), wanted)
    with pytest.raises(CheckpointError, match="'w' is stored as float32, the target is int32"):
        checkpoint.restore(tmp_path / "one", target | {"w": jnp.zeros(3, jnp.int32)})
    checkpoint.save(tmp_path / "two", {"n": np.array([1, 300])})
    with pytest.raises(CheckpointError, match="do not fit uint8"):
        checkpoint.restore(tmp_path / "two", {"n": jnp.zeros(2, jnp.uint8)})


def test_64_bits_are_not_cut_in_silence(tmp_path):
    with weft.enable_x64(True):
        checkpoint.save(tmp_path / "one", {"w": jnp.arange(3.0)})
    with pytest.raises(CheckpointError, match="64-bit types are off"):
        checkpoint.restore(tmp_path / "one")
    assert checkpoint.restore(tmp_path / "one", dtype=jnp.float32)["w"].dtype == jnp.float32


def test_other_trees_and_names(tmp_path):
    checkpoint.save(tmp_path / "one", {"enc": {"w": jnp.ones(2), "b": jnp.zeros(2)}, "step": 4})
    target = {"model": Pair(jnp.zeros(2), None), "new": jnp.full(1, 7.0)}
    names = {"model/left": "enc/w", "new": None}
    restored = checkpoint.restore(tmp_path / "one", target, names=names, partial=True)
    same(restored, {"model": Pair(jnp.ones(2), None), "new": jnp.full(1, 7.0)})
    whole = {"net": {"w": jnp.zeros(2), "b": jnp.ones(2)}, "step": 0}
    assert checkpoint.restore(tmp_path / "one", whole, names={"net": "enc"})["step"] == 4
    by_function = lambda name: name.replace("net/", "enc/")
    same(checkpoint.restore(tmp_path / "one", whole, names=by_function)["net"]["w"], jnp.ones(2))
    with pytest.raises(CheckpointError, match=r"lacks 'net/b', 'net/w' and has 'enc/b', 'enc/w'"):
        checkpoint.restore(tmp_path / "one", whole)
    with pytest.raises(CheckpointError, match="no value for it"):
        shape = {"other": weft.ShapeDtypeStruct((2,), jnp.float32)}
        checkpoint.restore(tmp_path / "one", shape, partial=True)
    with pytest.raises(CheckpointError, match=r"shape \(2,\), the target has \(3,\)"):
        checkpoint.restore(tmp_path / "one", {"enc": {"w": jnp.zeros(3)}}, partial=True)


@pytest.mark.parametrize(
    ("stored", "target"),
    [
        (weft.random.key(0), jnp.zeros(2, jnp.uint32)),
        (jnp.zeros(2, jnp.uint32), weft.random.key(0)),
        (weft.random.key(0), weft.random.key(0, impl="rbg")),
        ("text", 3),
        (3, "text"),
        (jnp.ones(2), "text"),
        (3, jnp.ones(2)),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, stored, target):
    checkpoint.save(tmp_path / "one", {"x": stored})
    with pytest.raises(CheckpointError, match="'x'"):
        checkpoint.restore(tmp_path / "one", {"x": target})


@pytest.mark.parametrize("leaf", [object(), {1, 2}, np.array(["a"]), np.array([None]), len])
def test_what_cannot_be_stored_is_named(tmp_path, leaf):
    with pytest.raises(CheckpointError, match="'a/0'"):
        checkpoint.save(tmp_path / "one", {"a": [leaf]})
    assert os.listdir(tmp_path) == []


def test_names_that_would_be_equal_are_kept_apart(tmp_path):
    tree = {"a/b": 1, "a": {"b": 2}, "a~1b": 3, "w": {"x": np.ones(1)}, "w@0": np.ones(2)}
    checkpoint.save(tmp_path / "one", tree)
    same(checkpoint.restore(tmp_path / "one"), tree)


# --- a training's checkpoints ---


def test_which_ones_stay(tmp_path):
    rule = Keep(last=2, best=1, metric="loss", every_steps=5)
    with CheckpointManager(tmp_path, rule) as manager:
        for step in range(12):
            manager.save(step, {"w": jnp.full(1, step)}, metrics={"loss": abs(step - 3.2)})
    assert manager.all_steps() == [0, 3, 5, 10, 11]
    assert manager.best_step() == 3 and manager.latest_step() == 11
    assert manager.best_step("loss", "max") == 11
    assert manager.restore(5)["w"][0] == 5 and manager.restore()["w"][0] == 11
    assert manager.manifest(3).metrics == {"loss": abs(3 - 3.2)}
    assert CheckpointManager(tmp_path, rule).best_step() == 3
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_one_in_a_period_stays():
    saved = [checkpoint.policy.Saved(n, 10.0 * n, {}) for n in range(8)]
    assert Keep(last=1, every_seconds=25).chosen(saved) == {0, 3, 6, 7}
    assert Keep().chosen(saved) == set(range(8))


def test_when_to_save(tmp_path):
    manager = CheckpointManager(tmp_path, save_every_steps=3)
    assert [step for step in range(7) if manager.should_save(step)] == [0, 3, 6]
    assert CheckpointManager(tmp_path).should_save(1)
    assert CheckpointManager(tmp_path, save_every_seconds=0).should_save(1)
    assert not CheckpointManager(tmp_path, save_every_seconds=1e9).should_save(1)


def test_a_step_is_replaced_only_when_asked(tmp_path):
    with CheckpointManager(tmp_path, keep=3) as manager:
        manager.save(1, {"w": 1})
        with pytest.raises(CheckpointError, match="overwrite=True"):
            manager.save(1, {"w": 2})
        for value in (3, 4):
            manager.save(1, {"w": value}, overwrite=True)
            assert manager.restore(1) == {"w": value}
    assert os.listdir(tmp_path) == ["step_1-2"] and manager.all_steps() == [1]


def test_a_replaced_version_that_a_kill_left_is_removed(tmp_path):
    for value, overwrite in ((1, False), (2, True)):
        with CheckpointManager(tmp_path) as manager:
            manager.save(1, {"w": value}, overwrite=overwrite)
        if not overwrite:
            shutil.copytree(tmp_path / "step_1", tmp_path / "old")
    (tmp_path / "old").rename(tmp_path / "step_1")
    assert manager.restore(1) == {"w": 2}
    with CheckpointManager(tmp_path) as manager:
        manager.save(2, {"w": 3})
    assert sorted(os.listdir(tmp_path)) == ["step_1-1", "step_2"]


def test_foreign_files_are_neither_taken_nor_removed(tmp_path):
    mine = ["step_x", "step_2.tmp", "notes", ".hidden", "step_7", ".step_1.saving-mine"]
    for name in mine:
        (tmp_path / name).mkdir()
    (tmp_path / "step_9").write_text("a file")
    with CheckpointManager(tmp_path, keep=1) as manager:
        manager.save(1, {"w": 1})
        manager.wait()
        (tmp_path / "step_1" / "my notes").write_text("keep me")
        manager.save(2, {"w": 2})
        manager.wait()
        assert manager.all_steps() == [1, 2]
    assert (tmp_path / "step_1" / "my notes").read_text() == "keep me"
    assert set(mine) | {"step_1", "step_2", "step_9"} == set(os.listdir(tmp_path))


def test_damaged_ones_are_left_alone(tmp_path):
    with CheckpointManager(tmp_path, keep=1) as manager:
        manager.save(1, {"w": 1})
    path = tmp_path / "step_1" / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"step":1', b'"step":2'))
    with CheckpointManager(tmp_path, keep=1) as manager:
        manager.save(3, {"w": 3}, metrics={"loss": 1})
        manager.save(4, {"w": 4}, metrics={"loss": 2})
    assert manager.all_steps() == [1, 4] and manager.best_step("loss") == 4
    with pytest.raises(CheckpointError, match="damaged"):
        manager.restore(1)


def test_what_is_left_by_a_killed_process_is_cleaned(tmp_path):
    name = writing.temporary_name("step_4", "saving")
    left = tmp_path / name.replace(f"-{os.getpid()}-", "-999999999-")
    alive = tmp_path / writing.temporary_name("step_5", "saving")
    for path in (left, alive):
        path.mkdir()
        (path / "process_00000.safetensors").write_bytes(b"half")
    with CheckpointManager(tmp_path) as manager:
        manager.save(1, {"w": 1})
    assert not left.exists() and alive.exists()


def test_errors_of_the_thread_are_raised(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "_write_synced", full)
    manager = CheckpointManager(tmp_path)
    manager.save(1, {"w": jnp.ones(3)})
    with pytest.raises(OSError, match="No space left"):
        manager.wait()
    assert manager.all_steps() == [] and os.listdir(tmp_path) == []


def test_a_wait_can_end(tmp_path, monkeypatch):
    go, commit = threading.Event(), writing.commit
    monkeypatch.setattr(writing, "commit", lambda *a: (go.wait(30), commit(*a)))
    manager = CheckpointManager(tmp_path)
    manager.save(1, {"w": 1})
    with pytest.raises(TimeoutError):
        manager.wait(0.01)
    go.set()
    manager.wait()
    assert manager.all_steps() == [1]


def test_a_snapshot_copies_no_array_of_weft():
    x, y = jnp.arange(1000.0), np.arange(10)
    taken = writing.snapshot({"x": x, "y": y})
    assert np.shares_memory(taken.blocks["x"][0].array, np.asarray(x))
    assert not np.shares_memory(taken.blocks["y"][0].array, y)


@pytest.mark.parametrize("step", [-1, 1.5, "3", jnp.ones(())])
def test_wrong_steps(tmp_path, step):
    with pytest.raises((TypeError, ValueError), match="step"):
        CheckpointManager(tmp_path).save(step, {})


def test_a_snapshot_is_of_its_moment(tmp_path, monkeypatch):
    """Donated arrays and NumPy arrays that change while a thread writes."""
    go, write = threading.Event(), writing.write_blocks
    monkeypatch.setattr(writing, "write_blocks", lambda *a: (go.wait(30), write(*a))[1])
    step = weft.jit(lambda x: x + 1, donate_argnums=0)
    x, y = jnp.zeros(100_000), np.zeros(10)
    with CheckpointManager(tmp_path) as manager:
        manager.save(1, {"x": x, "y": y})
        for _ in range(5):
            x = step(x)
        y += 1
        go.set()
    found = manager.restore()
    assert float(x[0]) == 5 and not np.asarray(found["x"]).any() and not found["y"].any()
