"""Work for which weft starts threads, where the system gives none."""

import threading

import numpy as np
import pytest

import weft
from weft.backends.llvm.native import pool
from weft.base import progress
from weft.experimental.array_serialization import serialization
from weft.linen.training import checkpoints
from weft.train import CheckpointManager, data


@pytest.fixture
def refused(monkeypatch):
    """The threads that were to be started."""
    found = []

    def start(thread):
        found.append(thread)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    return found


def test_the_code_of_the_pool(refused, monkeypatch):
    monkeypatch.setattr(pool, "_asked", False)
    monkeypatch.setattr(pool, "threads", lambda: 2)
    pool.ask()
    assert len(refused) == 1


def test_the_line_of_a_slow_function(refused):
    line = progress._Line("compiling", "f")
    assert line.text().startswith("weft: compiling f") and len(refused) == 1
    line.end()


def test_checkpoints(refused, tmp_path):
    manager = CheckpointManager(tmp_path, asynchronous=True)
    for step in (1, 2):
        manager.save(step, {"w": np.full(3, step)})
    manager.wait()
    assert manager.restore()["w"].tolist() == [2] * 3 and refused


def test_a_checkpoint_that_fails(refused, tmp_path, monkeypatch):
    manager = CheckpointManager(tmp_path, asynchronous=True)
    monkeypatch.setattr(manager, "_prune", lambda: 1 / 0)
    manager.save(1, {"w": np.ones(3)})
    with pytest.raises(ZeroDivisionError):
        manager.wait()


def test_checkpoints_of_one_file(monkeypatch, tmp_path):
    manager = checkpoints.AsyncManager()
    save = lambda step: checkpoints.save_checkpoint(
        tmp_path, {"w": np.full(3, step)}, step, async_manager=manager
    )
    done, clean = [], checkpoints._clean
    note = lambda folder, prefix, step, *rest: (
        done.append(step),
        clean(folder, prefix, step, *rest),
    )
    monkeypatch.setattr(checkpoints, "_clean", note)
    with monkeypatch.context() as inside:
        inside.setattr(threading.Thread, "start", _no_thread)
        save(1)
        save(2)
    save(3)  # there are threads again
    manager.wait_previous_save()
    assert done == [1, 2, 3] and checkpoints.available_steps(tmp_path) == [3]


def _no_thread(thread):
    raise RuntimeError("can't start new thread")


def test_arrays_in_files(refused, tmp_path):
    manager, done = serialization.GlobalAsyncCheckpointManager(), []
    x = weft.numpy.arange(6.0).reshape(2, 3)
    path = str(tmp_path / "x")
    manager.serialize_with_paths([x], [path], on_commit_callback=lambda: done.append(1))
    manager.wait_until_finished()
    (found,) = manager.deserialize_with_paths([x.sharding], [path])
    assert done == [1] and found.tolist() == x.tolist()


@pytest.mark.parametrize("most", [0, 1])
@pytest.mark.parametrize("workers, prefetch", [(2, 0), (0, 3), (2, 3)])
def test_data(monkeypatch, workers, prefetch, most):
    """As many threads as there may be compute; without one, whoever waits."""
    real, begun = threading.Thread.start, []

    def start(thread):
        if len(begun) == most:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    source = data.arrays({"x": np.arange(20)}).map(lambda e: {"x": e["x"] * 2}).batch(4)
    want = np.arange(0, 40, 2).reshape(5, 4).tolist()
    with source.iterator(workers=workers, threads=True, prefetch=prefetch) as found:
        assert [batch["x"].tolist() for batch in found] == want
    assert len(begun) == most
