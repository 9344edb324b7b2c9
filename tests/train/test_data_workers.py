"""Worker processes and threads: the same elements in the same order, errors, and no remains."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.train.pipelines import Counting, Numbers, noisy, pipeline
from tests.train.test_data_resume import same
from weft.train import data

ROOT = Path(__file__).resolve().parents[2]


def slow_square(x):
    time.sleep(0.0002)
    return x * x


def image(element, rng):
    picture = element["x"][:, ::-1] if rng.random() < 0.5 else element["x"]
    return {"x": picture.astype(np.float32) / 255, "label": element["label"]}


def images(count=300):
    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 255, (count, 16, 16, 3)).astype(np.uint8)
    return data.arrays({"x": pixels, "label": np.arange(count)})


def in_use():
    """Descriptors of this process, and names in the system's shared memory, of data pipelines."""
    names = []
    for handle in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{handle}"))
        except OSError:
            continue
    return sorted(name for name in names if "weft-data" in name), shared_memory()


def shared_memory():
    return {name for name in os.listdir("/dev/shm") if "weft" in name}


def is_running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_workers_give_the_same_in_the_same_order(tmp_path):
    """One pool for many pipelines, one after the other; restored at some places."""
    parts = [pipeline(seed, tmp_path).map(repr) for seed in range(60)]
    made = data.concatenate(parts)
    elements, states = [], []
    reader = iter(made)
    states.append(reader.state())
    for element in reader:
        elements.append(element)
        states.append(reader.state())
    assert len(elements) > 400
    for options in ({"workers": 2}, {"workers": 3, "threads": True, "prefetch": 0}):
        with made.iterator(**options) as workers:
            assert list(workers) == elements
            for cut in range(5, len(elements) - 3, len(elements) // 7):
                workers.restore(states[cut])
                assert [next(workers) for _ in range(3)] == elements[cut : cut + 3]
                assert workers.state() == states[cut + 3]


@pytest.mark.parametrize("workers", [1, 2])
def test_batches_of_images_through_shared_memory(workers):
    made = images().shuffle(seed=1).map(image, seed=2).batch(64)
    expected = list(made)
    before = in_use()
    with made.iterator(workers=workers) as reader:
        first = [next(reader) for _ in range(3)]
        state = reader.state()
        rest = list(reader)
        assert all(map(same, first + rest, expected))
        reader.restore(state)
        assert all(map(same, list(reader), rest))
        rest[0]["x"][...] = 0  # a batch belongs to who reads it
        processes = [worker.process.pid for worker in reader._runner._workers]
    assert not any(map(is_running, processes))
    assert all(map(same, first, expected[:3]))  # what was read stays valid
    del first, rest, reader
    gc.collect()
    assert in_use() == before


def test_slabs_are_used_again_and_copied_if_the_reader_keeps_all():
    made = images(64).batch(2).repeat(40)
    with made.iterator(workers=1, prefetch=0) as reader:
        for _ in range(200):
            next(reader)
        (worker,) = reader._runner._workers
        assert len(worker.slabs) <= 8
        kept = list(reader)
        assert len(worker.slabs) < 64 and len(kept) == 40 * 32 - 200
    assert all(map(same, kept[-32:], list(images(64).batch(2))))


def test_streams_and_indexed_sources_from_modules():
    parts = [
        data.source(Counting(0, 500)).map(noisy, seed=1).batch(8),
        data.source(Numbers(0, 100)).filter(lambda row: row["x"] % 3).shuffle(seed=1).batch(8),
    ]
    made = data.concatenate(parts)
    with made.iterator(workers=2) as reader:
        assert all(map(same, list(reader), [*parts[0], *parts[1]]))


def test_errors_in_workers_name_the_element_and_the_line():
    class Odd(Exception):
        def __init__(self, code, more):
            super().__init__(f"odd {code}")

    def fails(x):
        if x == 37:
            raise Odd(1, 2)  # cannot be unpickled
        if x == 57:
            raise KeyError("label")
        return x

    with data.source(range(100)).map(fails).iterator(workers=2) as reader:
        assert [next(reader) for _ in range(37)] == list(range(37))
        with pytest.raises(data.DataError, match="Odd: odd 1") as caught:
            next(reader)
        assert caught.value.__notes__[0].startswith("element 37 of map(fails (test_data_workers.py")
        assert "raise Odd(1, 2)" in caught.value.__notes__[1]
    with data.source(range(40, 100)).map(fails).batch(4).iterator(workers=2) as reader:
        with pytest.raises(KeyError, match="label") as caught:
            list(reader)
        assert "element 17 of map(fails" in caught.value.__notes__[0]
        assert "test_data_workers.py" in caught.value.__notes__[0].partition("—")[2]


def test_a_killed_worker_is_an_error_and_no_hang():
    def dies(x):
        if x == 40:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    with data.source(range(100)).map(dies).batch(4).iterator(workers=2) as reader:
        with pytest.raises(
            data.WorkerError, match=r"killed by SIGKILL while .* element 10 of batch"
        ):
            list(reader)
        with pytest.raises(data.WorkerError):
            next(reader)
        processes = [worker.process for worker in reader._runner._workers]
    assert all(process.returncode is not None for process in processes)

    with data.source(range(100)).map(sys.exit).iterator(workers=1) as reader:
        with pytest.raises(data.WorkerError, match="exit code"):
            next(reader)


def test_what_cannot_be_sent_is_said():
    with pytest.raises(data.DataError, match="cannot be sent to worker processes"):
        lock = threading.Lock()
        data.source(range(3)).map(lambda x: (x, lock)).iterator(workers=1)
    with pytest.raises(data.DataError, match="pass a function that returns a new iterator"):
        data.source(iter(range(3))).iterator(workers=1)


SCRIPT = """
import os, sys, time
import numpy as np
from weft.train import data

scale = 3  # a global of the script

class Source:
    def __init__(self, n): self.n = n
    def __len__(self): return self.n
    def __getitem__(self, i): return {"x": self.helper(i)}
    def helper(self, i): return np.full(5000, scale * i)

class Child(Source):
    def __len__(self): return super().__len__() + 1

def fibonacci(n): return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

def wait(x):
    if sys.argv[1] != "run" and x["x"][0] > 30:
        time.sleep(60)
    return {**x, "f": fibonacci(int(x["x"][0]) % 10)}

made = data.source(Child(20)).map(wait).batch(3)
reader = made.iterator(workers=2)
pids = [worker.process.pid for worker in reader._runner._workers]
print(*pids, flush=True)
for number, batch in enumerate(reader):
    print(number, batch["x"].shape, batch["x"][0, 0], batch["f"].tolist(), flush=True)
"""


def test_a_script_needs_no_guard(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(path), "run"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 8 and lines[2] == "1 (3, 5000) 9 [34, 1, 5]"
    assert not done.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_script_leaves_no_process(tmp_path, how):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    before = shared_memory()
    process = subprocess.Popen(
        [sys.executable, str(path), "sleep"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    workers = list(map(int, process.stdout.readline().split()))
    assert process.stdout.readline().startswith("0 ")
    if how == signal.SIGINT:  # as a terminal sends it, to all of them
        os.killpg(process.pid, signal.SIGINT)
    else:  # workers sleep in a user's function, and would end after it
        for each in (process.pid, *workers):
            os.kill(each, signal.SIGKILL)
    try:
        _, said = process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        if how != signal.SIGINT:
            raise
        # Python drops an interrupt that comes while it finalizes an object, and says so
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=30)
        said = said.partition("KeyboardInterrupt")[2]
    if how == signal.SIGINT:
        assert said.count("KeyboardInterrupt") == 1 and process.returncode == -signal.SIGINT
        assert not any(map(is_running, workers))
    assert shared_memory() <= before


def test_prefetching_and_devices():
    made = images(100).map(lambda row: {**row, "x": row["x"] / 255}).batch(10)
    expected = list(made)
    for options in ({"prefetch": 3}, {"device": weft.devices()[0]}):
        reader = made.iterator(**options)
        first = [next(reader) for _ in range(4)]
        state = reader.state()
        assert state == _after(made, 4)
        rest = list(reader)
        assert len(rest) == 6 and next(reader, None) is None
        for batch, right in zip(first + rest, expected, strict=True):
            assert isinstance(batch["x"], weft.Array) == ("device" in options)
            assert np.allclose(batch["x"], right["x"]) and (batch["label"] == right["label"]).all()
        reader.restore(state)
        assert (next(reader)["label"] == expected[4]["label"]).all()
        reader.close()
    with pytest.raises(ValueError, match="not both"):
        made.iterator(device=weft.devices()[0], sharding=weft.devices()[0])
    with pytest.raises(data.DataError, match="devices don't support"):
        next(data.source("abc").batch(2).iterator(device=weft.devices()[0]))


def _after(made, count):
    reader = iter(made)
    for _ in range(count):
        next(reader)
    return reader.state()


def test_errors_of_a_reading_thread_come_in_order():
    def fails(x):
        return 1 // (x - 5) + x

    reader = data.source(range(10)).map(fails).iterator(prefetch=4)
    assert [next(reader) for _ in range(5)] == [fails(x) for x in range(5)]
    for _ in range(2):
        with pytest.raises(ZeroDivisionError) as caught:
            next(reader)
        assert "element 5 of map(fails" in caught.value.__notes__[0]
    threads = threading.active_count()
    reader.close()
    assert threading.active_count() <= threads


def test_readers_that_are_dropped_end_their_threads():
    before = threading.active_count()
    for options in ({"prefetch": 2}, {"workers": 2, "threads": True}):
        reader = data.source(range(1000)).map(slow_square).iterator(**options)
        assert next(reader) == 0
        del reader
    gc.collect()
    deadline = time.monotonic() + 20
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_a_sharding_places_batches():
    mesh = weft.make_mesh((1,), ("data",))
    where = weft.sharding.NamedSharding(mesh, weft.sharding.PartitionSpec("data"))
    batch = next(data.arrays({"x": np.ones((4, 2))}).batch(4).iterator(sharding=where))
    assert batch["x"].sharding == where
