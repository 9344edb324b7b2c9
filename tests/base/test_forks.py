"""Locks that forks wait for."""

import os
import subprocess
import sys

import pytest

TEXT = """
import os, threading, time
from weft.base.forks import across_forks
lock = across_forks(threading.Lock())
begun = threading.Event()
def work():
    with lock:
        begun.set()
        time.sleep(0.1)
threading.Thread(target=work).start()
begun.wait()
child = os.fork()
late = across_forks(threading.Lock())
if child == 0:
    os._exit(7 if lock.acquire(blocking=False) and late.acquire(blocking=False) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), lock.acquire(blocking=False))
"""
# The lock is made by a hook that runs while the fork has begun.
LATE = """
import os, threading
from weft.base.forks import across_forks
locks = []
os.register_at_fork(before=lambda: locks.append(across_forks(threading.Lock())))
child = os.fork()
if child == 0:
    os._exit(7 if locks[0].acquire(blocking=False) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), locks[0].acquire(blocking=False))
"""
# Two threads are inside, each waiting for the other; the fork begins when they are, and waits too.
INSIDE = """
import os, threading, time
from weft.base.forks import Stay, across_forks
inside = across_forks(Stay())
meet = threading.Barrier(3)
left = []
def work():
    with inside, inside:
        meet.wait()
        time.sleep(0.1)
        left.append(1)
for _ in range(2):
    threading.Thread(target=work).start()
meet.wait()
with inside:
    child = os.fork()
if child == 0:
    with inside:
        os._exit(7 if len(left) == 2 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(left) == 2)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.parametrize("text", [TEXT, LATE, INSIDE], ids=["held", "late", "inside"])
def test_a_child_finds_locks_free(text):
    command = [sys.executable, "-W", "ignore", "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.stderr) == ("7 True\n", "")
