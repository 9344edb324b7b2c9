"""Training that stops in the middle of an epoch ends with the same bits as one that does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STEPS = 23


def trained(folder, devices, stop):
    environment = dict(os.environ, WEFT_NUM_CPU_DEVICES=str(devices), WEFT_NUM_THREADS="1")
    command = [sys.executable, "-m", "tests.train.resumed_training"]
    return subprocess.run(
        [*command, folder, str(devices), str(stop)],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize("devices", [1, 4])
def test_a_training_resumed_twice_is_one_that_never_stopped(devices, tmp_path):
    whole = trained(tmp_path / "whole", devices, STEPS)
    assert whole.returncode == 0, whole.stderr
    assert whole.stdout.startswith(f"{STEPS} ")
    for stop in (8, 17):  # after the checkpoints of steps 5 and 15: neither is the end of an epoch
        assert trained(tmp_path / "parts", devices, stop).returncode == 9
    parts = trained(tmp_path / "parts", devices, STEPS)
    assert parts.stdout == whole.stdout, parts.stderr
    assert "from 15" in parts.stderr and "from" not in whole.stderr
