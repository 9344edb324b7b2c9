"""A sweep of 20 runs whose launcher and workers are killed twice: none is lost, none doubled."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from weft.train import launch
from weft.train.launch import worker

SCRIPT = pathlib.Path(__file__).with_name("launch_sweep.py")
ROOT = pathlib.Path(__file__).resolve().parents[2]


def start(folder, count=20, seconds=0.1):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(SCRIPT), str(folder), str(count), str(seconds)]
    return subprocess.Popen(command, env=environment, start_new_session=True)


def runs(folder):
    return sorted((folder / "runs").glob("[0-9]*"))


def completed(folder):
    return [run for run in runs(folder) if launch.status_of(run).state == "completed"]


def wait_for(folder, count, process, seconds=180):
    end = time.monotonic() + seconds
    while len(completed(folder)) < count:
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.01)


def wait_for_a_run_under_way(folder, process, seconds=180):
    """Wait until a run has a checkpoint and is not near its end."""
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        for run in runs(folder):
            state = worker.read_json(run / "state.json")
            if state and 1 <= state["step"] <= 3 and worker.is_locked(run / "lock"):
                return
        time.sleep(0.005)
    raise AssertionError("no run was under way")


def kill_workers(folder):
    """Kill the workers that hold locks; how many there were."""
    killed = 0
    for run in runs(folder):
        if worker.is_locked(run / "lock"):
            with contextlib.suppress(ProcessLookupError, launch.LaunchError):
                os.kill(worker.read_json(run / "lock")["pid"], signal.SIGKILL)
                killed += 1
    return killed


def check_all(folder, count=20):
    """Every run completed once, no two workers of a run met, and interrupted ones went on."""
    assert len(runs(folder)) == len(completed(folder)) == count
    numbers, resumed = [], 0
    for run in runs(folder):
        assert not (run / "doubled").exists()
        ends = [worker.read_json(path / "exit.json") for path in worker.attempt_folders(run)]
        assert [end["state"] for end in ends] == ["interrupted"] * (len(ends) - 1) + ["completed"]
        numbers.append(ends[-1]["result"]["number"])
        lines = [line.split() for line in (run / "steps.txt").read_text().splitlines()]
        steps = [int(step) for _, step in lines]
        assert sorted(set(steps)) == [1, 2, 3, 4, 5, 6] and steps == sorted(steps)
        # at most the step of the interruption is done again
        assert len(steps) - 6 <= len(ends) - 1
        resumed += ends[-1]["result"]["begun"] > 0
    assert sorted(numbers) == list(range(count))
    return resumed


def test_launcher_and_workers_are_killed_twice(tmp_path):
    folder = tmp_path / "sweep"
    (folder / "runs").mkdir(parents=True)
    first = start(folder)
    wait_for(folder, 4, first)
    first.kill()  # its workers go on
    first.wait()
    second = start(folder)
    wait_for(folder, 10, second)
    wait_for_a_run_under_way(folder, second)
    assert kill_workers(folder)  # which the launcher starts again
    wait_for(folder, 12, second)
    wait_for_a_run_under_way(folder, second)
    second.kill()
    second.wait()
    kill_workers(folder)
    third = start(folder)
    assert third.wait(180) == 0
    assert check_all(folder) >= 1
    before = {run: (run / "steps.txt").read_text() for run in runs(folder)}
    fourth = start(folder)
    assert fourth.wait(180) == 0
    assert before == {run: (run / "steps.txt").read_text() for run in runs(folder)}
    launches = [json.loads(path.read_text()) for path in folder.glob("launches/*/launch.json")]
    assert len(launches) == 3  # the last one had nothing to start


def test_workers_of_a_killed_launcher_are_taken_over(tmp_path):
    (tmp_path / "runs").mkdir()
    first = start(tmp_path, 8)
    while not any(worker.is_locked(run / "lock") for run in runs(tmp_path)):
        time.sleep(0.005)
    first.kill()
    first.wait()
    assert start(tmp_path, 8).wait(180) == 0
    assert all(len(worker.attempt_folders(run)) == 1 for run in runs(tmp_path))
    check_all(tmp_path, 8)


def test_an_interrupt_ends_workers_and_the_next_launch_resumes(tmp_path):
    (tmp_path / "runs").mkdir()
    first = start(tmp_path, 4, 0.5)
    wait_for_a_run_under_way(tmp_path, first)
    first.send_signal(signal.SIGINT)
    assert first.wait(180) != 0
    assert not any(worker.is_locked(run / "lock") for run in runs(tmp_path))
    assert any(launch.status_of(run).state == "interrupted" for run in runs(tmp_path))
    assert start(tmp_path, 4, 0.5).wait(180) == 0
    assert check_all(tmp_path, 4) >= 1
