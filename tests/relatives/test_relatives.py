"""Recorded random calls of the public interface give what they give on JAX.

``tools/relatives.py`` draws and records them.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.relatives import draw, run, store

SHARES = 32
EVERY_TIME = 8  # shares that run by default; the full tier runs all


@pytest.mark.parametrize("share", range(EVERY_TIME))
def test_recorded_calls(share):
    run_share(share)


@pytest.mark.full
@pytest.mark.parametrize("share", range(EVERY_TIME, SHARES))
def test_recorded_calls_of_the_full_tier(share):
    run_share(share)


def run_share(share: int) -> None:
    """In a process of its own, which has eight devices."""
    command = [sys.executable, "-m", "tests.relatives.test_relatives", str(share)]
    root = str(Path(__file__).parents[2])
    env = {**os.environ, "WEFT_NUM_CPU_DEVICES": "8", "WEFT_PLATFORMS": "cpu", "PYTHONPATH": root}
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=root)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def check(share: int) -> list[str]:
    weft, found = run.Library("weft"), []
    for row in store.read()[share::SHARES]:
        call = row["call"]
        kind, text = run.difference(call, store.unpacked(row), run.result(weft, call))
        if kind:
            found.append(f"{kind}: {text}\n  {call}")
    return found


def test_draws_are_the_same_in_every_process():
    assert draw.call(7) == draw.call(7)
    assert len({str(draw.call(seed)) for seed in range(200)}) == 200


if __name__ == "__main__":
    problems = check(int(sys.argv[1]))
    print("\n".join(problems))
    sys.exit(bool(problems))
