"""Checkpoints of steps: what is kept and removed, what is refused, and files of flax."""

import os
import stat
import threading
import time

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.linen import harness
from weft import linen as nn
from weft import optim
from weft.linen import errors, serialization
from weft.linen.training import checkpoints, train_state


def tree(value=0.0):
    return {"w": np.full((2, 3), value, np.float32), "n": 3}


def files(folder):
    return checkpoints.natural_sort(os.listdir(folder))


def test_the_last_ones_are_kept_and_one_in_some_steps(tmp_path):
    for step in range(10):
        checkpoints.save_checkpoint(tmp_path, tree(step), step, keep=2, keep_every_n_steps=4)
    assert files(tmp_path) == [f"checkpoint_{n}" for n in (0, 4, 8, 9)]
    assert checkpoints.available_steps(tmp_path) == [0, 4, 8, 9]
    assert checkpoints.latest_checkpoint(tmp_path) == str(tmp_path / "checkpoint_9")
    assert checkpoints.restore_checkpoint(tmp_path, tree())["w"][0, 0] == 9
    assert checkpoints.restore_checkpoint(tmp_path, tree(), step=4)["w"][0, 0] == 4
    assert checkpoints.restore_checkpoint(tmp_path / "checkpoint_8", None)["w"][0, 0] == 8


def test_steps_go_by_number_and_other_files_stay(tmp_path):
    (tmp_path / "checkpoint_notes").write_text("mine")
    for step in (9, 10, 100.5):
        checkpoints.save_checkpoint(tmp_path, tree(step), step, keep=2)
    assert files(tmp_path) == ["checkpoint_10", "checkpoint_100.5", "checkpoint_notes"]
    assert checkpoints.available_steps(tmp_path, step_type=float) == [10.0, 100.5]


def test_a_later_step_is_not_overwritten_unless_asked_for(tmp_path):
    for step in (1, 2, 3):
        checkpoints.save_checkpoint(tmp_path, tree(), step, keep=3)
    for step in (2, 3):
        with pytest.raises(errors.InvalidCheckpointError, match="overwrite=True"):
            checkpoints.save_checkpoint(tmp_path, tree(), step, keep=3)
    checkpoints.save_checkpoint(tmp_path, tree(7), 2, keep=3, overwrite=True)
    assert checkpoints.available_steps(tmp_path) == [1, 2]
    assert checkpoints.restore_checkpoint(tmp_path, tree())["w"][0, 0] == 7


def test_what_is_not_there(tmp_path):
    target = tree()
    assert checkpoints.restore_checkpoint(tmp_path, target) is target
    assert checkpoints.restore_checkpoint(tmp_path / "none", target) is target
    assert checkpoints.latest_checkpoint(tmp_path / "none") is None
    checkpoints.save_checkpoint(tmp_path, target, 5)
    with pytest.raises(
        ValueError, match=r"no checkpoint .*checkpoint_4; there are checkpoints of the steps 5"
    ):
        checkpoints.restore_checkpoint(tmp_path, target, step=4)
    with pytest.raises(ValueError, match="keep=0"):
        checkpoints.save_checkpoint(tmp_path, target, 6, keep=0)
    with pytest.raises(ValueError, match="orbax_checkpointer is an Orbax option"):
        checkpoints.save_checkpoint(tmp_path, target, 6, orbax_checkpointer=object())
    (tmp_path / "checkpoint_7").mkdir()
    with pytest.raises(ValueError, match="folder, as written by Orbax"):
        checkpoints.restore_checkpoint(tmp_path, target)


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def fail(a, b):
        raise OSError("no room")

    checkpoints.save_checkpoint(tmp_path, tree(1), 1)
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no room"):
        checkpoints.save_checkpoint(tmp_path, tree(2), 2)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["checkpoint_1"]


def test_in_the_background(tmp_path):
    manager = checkpoints.AsyncManager()
    for step in range(3):
        checkpoints.save_checkpoint(tmp_path, tree(step), step, async_manager=manager)
        manager.save_future.result()
    manager.wait_previous_save()
    assert files(tmp_path) == ["checkpoint_2"]
    leave = threading.Event()
    manager.save_async(lambda: leave.wait(60) and 1 / 0)
    threading.Timer(0.05, leave.set).start()
    with pytest.raises(ZeroDivisionError):
        manager.wait_previous_save()  # without a warning: it was asked for


def test_a_save_that_must_wait_says_so_at_its_line(tmp_path):
    manager, leave = checkpoints.AsyncManager(), threading.Event()
    manager.save_async(lambda: leave.wait(60))
    threading.Timer(0.05, leave.set).start()
    with pytest.warns(UserWarning, match="previous checkpoint") as caught:
        checkpoints.save_checkpoint(tmp_path, tree(1), 1, async_manager=manager)
    assert [w.filename for w in caught] == [__file__]
    manager.wait_previous_save()


def test_a_train_state_goes_through_a_file(tmp_path):
    model = nn.Dense(2)
    params = model.init(weft.random.key(0), jnp.ones((1, 3)))["params"]
    new = lambda: train_state.TrainState.create(
        apply_fn=model.apply, params=params, tx=optim.adam(0.1)
    )
    state = new().apply_gradients(grads=weft.tree.map(jnp.ones_like, params))
    checkpoints.save_checkpoint(tmp_path, state, int(state.step))
    back = checkpoints.restore_checkpoint(tmp_path, new())
    assert back.step == 1
    for a, b in zip(weft.tree.leaves(state), weft.tree.leaves(back), strict=True):
        assert np.array_equal(a, b)


def test_files_of_flax_are_read(tmp_path):
    """What flax writes without Orbax is the bytes that its serialization gives."""
    data = (harness.DATA / "values.msgpack").read_bytes()
    (tmp_path / "checkpoint_3").write_bytes(data)
    found = checkpoints.restore_checkpoint(tmp_path, None)
    assert serialization.to_bytes(found) == data


def test_names_of_before_linen():
    given = {"Conv_0": 1, "Dense_1": {"kernel": 2}, "Conv_2": {"Dense_3": 3}, "last": 4}
    want = {"Conv_0": 1, "Dense_0": {"kernel": 2}, "Conv_1": {"Dense_0": 3}, "last": 4}
    assert checkpoints.convert_pre_linen(given) == want
    assert checkpoints.convert_pre_linen(want) == want


def test_paths():
    assert checkpoints.safe_normpath("./a//b/../c") == "a/c"
    assert checkpoints.safe_normpath("gs://a//b/") == "gs://a/b"
    assert checkpoints.natural_sort(["a-2", "a1"], signed=False) == ["a1", "a-2"]


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
@pytest.mark.parametrize("mask, mode", [(0o077, 0o600), (0o022, 0o644), (0o027, 0o640)])
def test_the_umask_says_who_may_read(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        path = checkpoints.save_checkpoint(tmp_path, tree(), 1)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(path).st_mode) == mode


@pytest.mark.skipif(os.name != "posix", reason="folders are synchronised on POSIX systems only")
def test_the_file_and_its_name_are_on_disk_before_older_ones_go(tmp_path, monkeypatch):
    checkpoints.save_checkpoint(tmp_path, tree(), 1)
    done, real = [], {name: getattr(os, name) for name in ("fsync", "replace", "remove")}

    def noted(name):
        def call(*args):
            kind = ""
            if name == "fsync":
                kind = " folder" if stat.S_ISDIR(os.fstat(args[0]).st_mode) else " file"
            done.append(name + kind)
            return real[name](*args)

        return call

    for name in real:
        monkeypatch.setattr(os, name, noted(name))
    checkpoints.save_checkpoint(tmp_path, tree(), 2)
    assert done == ["fsync file", "replace", "fsync folder", "remove"]
    assert os.listdir(tmp_path) == ["checkpoint_2"]


def test_what_a_killed_process_left_is_removed(tmp_path):
    old = time.time() - 2 * checkpoints.STALE_SECONDS
    names = [".checkpoint_1.abc_1234", ".checkpoint_2.0123abcd", ".other_1.abcd1234", ".checkpoint"]
    for name in names:
        (tmp_path / name).write_bytes(b"partial")
        os.utime(tmp_path / name, (old, old))
    (tmp_path / ".checkpoint_3.89abcdef").write_bytes(b"of another process")
    checkpoints.save_checkpoint(tmp_path, tree(), 4)
    left = {".other_1.abcd1234", ".checkpoint", ".checkpoint_3.89abcdef", "checkpoint_4"}
    assert set(os.listdir(tmp_path)) == left


@pytest.mark.parametrize("name", ["checkpoint_1e400", "checkpoint_-1e999"])
def test_steps_without_end_are_other_files(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    checkpoints.save_checkpoint(tmp_path, tree(), 3)
    assert checkpoints.available_steps(tmp_path) == [3]
    assert checkpoints.latest_checkpoint(tmp_path).endswith("checkpoint_3")
    assert (tmp_path / name).exists()
    with pytest.raises(ValueError, match="finite number"):
        checkpoints.save_checkpoint(tmp_path, tree(), float("inf"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names on this system")
def test_pipes_are_refused(tmp_path):
    os.mkfifo(tmp_path / "checkpoint_1")
    with pytest.raises(ValueError, match="a pipe or a device"):
        checkpoints.restore_checkpoint(tmp_path, tree())


def test_another_model_is_refused(tmp_path):
    checkpoints.save_checkpoint(tmp_path, {"w": np.zeros(3), "more": np.zeros(2)}, 1)
    for target, text in [
        ({"w": np.zeros(2), "more": np.zeros(2)}, "at './w'"),
        ({"w": np.zeros(3)}, "the state has 'more' at '.'"),
        ({"w": np.zeros(3), "more": np.zeros(2), "b": 1}, "the state lacks 'b' at '.'"),
    ]:
        with pytest.raises(ValueError, match=text):
            checkpoints.restore_checkpoint(tmp_path, target)
    taken = checkpoints.restore_checkpoint(tmp_path, {"w": np.zeros(2)}, strict=False)
    assert list(taken) == ["w"] and taken["w"].shape == (3,)
