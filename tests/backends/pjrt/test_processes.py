"""A plugin with devices of several processes, which find each other by weft's store."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.base.errors import JaxRuntimeError
from weft.parallel.transport.store import Messages, Server, Store

ROOT = Path(__file__).resolve().parents[3]


def free_port():
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return door.getsockname()[1]


def together(count, task):
    """What each of some processes, here threads, returns or raises."""
    port, found = free_port(), [None] * count

    def run(number):
        try:
            made = Messages(f"127.0.0.1:{port}", count, number, 20.0, 20.0, None)
            try:
                found[number] = task(made)
            finally:
                made.end(10.0)
        except Exception as error:
            found[number] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize("platform", ["joined", "cpu"])
def test_programs_over_processes(platform):
    """Programs that the plugin divides, or for CPUs weft itself, without MPI."""
    port, count = free_port(), 2
    env = dict(os.environ, PYTHONPATH=str(ROOT), WEFT_CACHE="off", WEFT_NUM_CPU_DEVICES="2")
    command = [sys.executable, "-m", "tests.backends.pjrt.joined", platform, str(port), str(count)]
    started = [
        subprocess.Popen(
            [*command, str(i)],
            cwd=ROOT,
            env=env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for i in range(count)
    ]
    said = [process.communicate(timeout=300)[0] for process in started]
    for number, text in enumerate(said):
        assert f"process {number}: all right" in text, text


def test_messages():
    every = (0, 1, 2)

    def task(made):
        own = np.full((2,), made.rank, "int32")
        rows = np.arange(3) + 10 * made.rank
        moves = ((0, 0, 1, 1), (2, 1, 2, 0), (1, 2, 0, 2))
        sends = {r: np.full(2, 10 * made.rank + r, np.uint8) for r in every}
        return (
            made.all_gather(own, every).tolist(),
            made.all_to_all(rows, every).tolist(),
            made.permute(rows, moves, every).tolist(),
            {r: v.tolist() for r, v in made.swap(sends, dict.fromkeys(every, 2), "a test").items()},
            made.share(b"x" * made.rank),
            made.begin_program("f", every, "text at 0x12"),
            made.begin_program("g", every, "text"),
        )

    for rank, got in enumerate(together(3, task)):
        assert got[0] == [[0, 0], [1, 1], [2, 2]] and got[1] == [rank, rank + 10, rank + 20]
        assert got[2] == [[0, 0, 12], [0, 0, 0], [21, 0, 0]][rank]
        assert got[3] == {r: [10 * r + rank] * 2 for r in every}
        assert got[4] == [b"", b"x", b"xx"] and got[5:] == (1, 2)


def test_other_programs_and_collectives_are_errors():
    def task(made):
        return made.begin_program("fg"[made.rank], (0, 1), f"program {made.rank}")

    for error in together(2, task):
        assert isinstance(error, JaxRuntimeError)
        expected = "process 1 is about to run a different program from process 0: g, and f there"
        assert expected in str(error)

    def meet(made):
        with made.at(f"psum {made.rank}"):
            return made.share(b"")

    for error in together(2, meet):
        assert isinstance(error, JaxRuntimeError) and "in different collectives" in str(error)


def test_processes_that_leave_or_are_late():
    def leave(made):
        return None if made.rank else made.share(b"")

    first, _ = together(2, leave)
    assert isinstance(first, JaxRuntimeError) and "process 1 has left the others" in str(first)
    server = Server("127.0.0.1", 0, 1)
    store = Store("127.0.0.1", server.port, 0, 5.0)
    assert store.try_get(b"k") is None
    with pytest.raises(TimeoutError, match="no process has set 'k'"):
        store.get(b"k", 20)
    store.put(b"k", b"v")
    store.put(b"once", b"w", reads=1)
    assert store.get(b"k", 20) == store.try_get(b"k") == b"v"
    assert store.get(b"once", 20) == b"w" and store.try_get(b"once") is None
    store.leave()
    server.close(1.0)


def test_arguments_are_checked():
    def joined(*given, limit=0):
        return weft.distributed._joined(*given, limit, None, None)

    with pytest.raises(ValueError, match="process_id=3 of num_processes=2"):
        joined("127.0.0.1:1", 2, 3)
    with pytest.raises(ValueError, match="write host:port of process 0"):
        joined("nowhere", 2, 0)
    with pytest.raises(JaxRuntimeError, match="process 1 can't reach process 0 at"):
        joined(f"127.0.0.1:{free_port()}", 2, 1)
    with pytest.raises(ValueError, match="give each of them coordinator_address"):
        joined(None, 2, None)
    with pytest.raises(ValueError, match="without process_id, and MPI did not start"):
        joined("localhost:1", 2, None)
    with pytest.raises(ValueError, match="without num_processes and process_id"):
        joined("localhost:1", None, None)
    assert not weft.distributed.is_initialized()
