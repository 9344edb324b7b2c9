"""A training that is killed at any moment finds its last checkpoint, and never half of one."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MEMORY = "/dev/shm"  # where syncing costs nothing, so that many moments are tried in seconds


def run(folder, kills):
    command = [sys.executable, "-m", "tests.train.kill_checkpoints", str(folder), str(kills), "0"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=900)
    assert done.returncode == 0, done.stderr
    pattern = rf"{kills} kills, (\d+) in the middle of a save, (\d+) steps"
    found = re.search(pattern, done.stdout)
    assert found, done.stdout
    assert int(found[1]) >= 4 and int(found[2]) >= 10, done.stdout


def test_killed_200_times(tmp_path):
    if not os.access(MEMORY, os.W_OK):
        run(tmp_path, 200)
        return
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        run(folder, 200)


def test_killed_on_a_disk(tmp_path):
    run(tmp_path, 40)


@pytest.mark.full
def test_killed_on_a_disk_200_times(tmp_path):
    run(tmp_path, 200)
