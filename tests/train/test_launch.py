"""Experiments on this machine: what runs, what is recorded, and what wrong input says."""

import dataclasses
import json
import math
import os
import pathlib
import subprocess
import sys

import pytest

from tests.train import launch_programs as programs
from tests.train import resume_programs
from weft.train import launch
from weft.train.launch import configs, worker
from weft.train.report import reading

ROOT = pathlib.Path(__file__).resolve().parents[2]


def experiment(folder, **options):
    return launch.create_experiment(folder, verbose=False, **options)


def run_one(folder, job, args=None, **options):
    with experiment(folder, **options) as made:
        unit = made.add(job, args)
    return unit


def test_a_run_records_what_it_was_and_did(tmp_path):
    unit = run_one(tmp_path, programs.add, {"rate": 0.5, "depth": 2})
    status = unit.status
    assert (status.state, status.attempts, status.code) == ("completed", 1, 0)
    assert unit.result == {"sum": 2.5, "loss": 1.0} and unit.metric("loss") == 1.0
    assert math.isnan(unit.metric("other")) and status.started <= status.ended
    described = json.loads((unit.folder / "unit.json").read_text())
    assert described["args"] == {"rate": 0.5, "depth": 2}
    assert described["executable"]["name"] == "tests.train.launch_programs:add"
    attempt = unit.folder / "attempts" / "1"
    assert (attempt / "stdout.txt").read_text() == "rate 0.5\n"
    assert (attempt / "stderr.txt").read_text() == "a warning\n"
    assert (unit.folder / "artefacts" / "note.txt").read_text() == "kept"
    begun = json.loads((attempt / "attempt.json").read_text())
    assert {"host", "python", "cores", "variables"} <= begun["environment"].keys()
    recorded = json.loads((tmp_path / "launches" / "1" / "launch.json").read_text())
    assert "numpy" in recorded["installed"] and recorded["environment"]["host"]
    assert not list(tmp_path.rglob("*.tmp"))


def test_finished_runs_are_not_run_again(tmp_path):
    sweep = launch.grid(rate=[0.1, 0.2], depth=[1, 2])
    with experiment(tmp_path) as first:
        units = first.add_sweep(programs.add, sweep)
        again = first.add(programs.add, dict(sweep[0]))
    assert again is units[0] and sorted(first.work_units) == [1, 2, 3, 4]
    with experiment(tmp_path) as second:
        second.add(programs.add, {"rate": 0.3})
        taken = second.add_sweep(programs.add, reversed(sweep))
        other = second.add(programs.add, sweep[0], identity="second seed")
    assert [unit.work_unit_id for unit in taken] == [4, 3, 2, 1] and other.work_unit_id == 6
    assert all(unit.status.attempts == 1 for unit in second.work_units.values())
    assert first.best("loss").args == {"rate": 0.1, "depth": 1}
    assert first.best("loss", "max").args == {"rate": 0.2, "depth": 2}


def test_failures_are_told_and_kept(tmp_path, capfd):
    with launch.create_experiment(tmp_path, restarts=1, title="told") as first:
        units = {how: first.add(programs.fail, {"how": how}) for how in ("raise", "exit", "kill")}
        once = first.add(programs.fail, {"how": "kill once"})
    found = {how: unit.status for how, unit in units.items()}
    assert (found["raise"].state, found["raise"].error) == ("failed", "ValueError: a <bad> thing")
    assert (found["exit"].state, found["exit"].code) == ("failed", 3)
    assert (found["kill"].state, found["kill"].attempts) == ("interrupted", 2)
    assert found["kill"].error == "killed by signal 9"
    assert (once.status.state, once.result) == ("completed", 2)
    printed = capfd.readouterr().err
    assert "told: 2 of 4 failed" in printed and "interrupted too often" in printed
    trace = (units["raise"].folder / "attempts" / "1" / "stderr.txt").read_text()
    assert 'raise ValueError("a <bad> thing")' in trace
    with experiment(tmp_path) as second:
        unit = second.add(programs.fail, {"how": "exit"})
        with pytest.raises(launch.WorkUnitFailedError, match=r"1 failed: ValueError.*attempts.1"):
            second.add(programs.fail, {"how": "raise"}).wait_until_complete()
    assert unit.status.attempts == 1
    assert run_one(tmp_path, programs.fail, {"how": "exit"}, retry_failed=True).status.attempts == 2


def test_limits(tmp_path):
    executor = launch.Local(max_parallel=2, cores=1, memory="1GB", max_seconds=30)
    with experiment(tmp_path / "a", executor=executor) as made:
        memory = made.add(programs.fail, {"how": "memory"})
        about = made.add(launch.Job(programs.about, env_vars={"SHOWN": "here"}))
    assert memory.status.state == "failed" and memory.status.error == "MemoryError"
    assert about.result["variable"] == "here" and about.result["weft"] is False
    if hasattr(os, "sched_getaffinity"):
        assert len(about.result["cores"]) == 1
    slow = launch.Local(max_seconds=0.3)
    status = run_one(tmp_path / "b", programs.fail, {"how": "sleep"}, executor=slow).status
    assert (status.state, status.error) == ("failed", "ran longer than 0.3 seconds")


def test_stopping(tmp_path):
    with experiment(tmp_path) as made:
        slow = made.add(programs.fail, {"how": "sleep"})
        made.add(programs.add, {"rate": 1.0}).wait_until_complete()
        slow.stop()
        waiting = made.add(programs.fail, {"how": "raise"})
        waiting.stop()
    assert (slow.status.state, waiting.status.state) == ("stopped", "stopped")
    assert run_one(tmp_path, programs.fail, {"how": "sleep"}).status.state == "stopped"


def test_configurations_come_back_as_they_were(tmp_path):
    config = programs.Config(rate=float("inf"))
    values = {"shape": (1, [2.5, None]), "kind": programs.Kind.SMALL, "inner": {"f": json.dumps}}
    with experiment(tmp_path) as made:
        whole = made.add(programs.configured, config)
        parts = made.add(programs.show, {**values, "config": config})
    assert whole.result == repr(config)
    told = parts.result.replace(str(json.dumps).split(" at ")[1][:-1], "")
    assert "(1, [2.5, None])" in told and repr(config) in told and "function dumps" in told
    flat = configs.flatten(configs.encode(config))
    assert flat["where"] == "a/b" and flat["rate"] == "inf"


def test_a_command(tmp_path):
    program = "import os, sys; print(sys.argv[1:], os.listdir(os.environ['WEFT_RUN_FOLDER']))"
    unit = run_one(tmp_path, launch.Command([sys.executable, "-c", program]), {"a": 1, "b": [True]})
    assert unit.status.state == "completed"
    printed = (unit.folder / "attempts" / "1" / "stdout.txt").read_text()
    assert printed.startswith("['--a=1', '--b=[true]']") and "unit.json" in printed
    failed = run_one(tmp_path, launch.Command([sys.executable, "-c", "import sys; sys.exit(4)"]))
    assert failed.status.code == 4
    missing = run_one(tmp_path, launch.Command(["no-such-program-anywhere"]))
    assert "FileNotFoundError" in missing.status.error


def test_one_launcher_at_a_time(tmp_path):
    with experiment(tmp_path) as made:
        with pytest.raises(launch.LockedError, match=f"process {os.getpid()} on"):
            experiment(tmp_path)
        unit = made.add(programs.add, {"rate": 1.0})
    with pytest.raises(launch.LaunchError, match="is closed"):
        made.add(programs.add, {"rate": 2.0})
    assert unit.status.state == "completed"
    experiment(tmp_path).close()


def test_a_second_worker_is_refused(tmp_path):
    unit = run_one(tmp_path, programs.add, {"rate": 1.0})
    task = launch.Task(unit.folder, tmp_path / "launches" / "1", 0, "token", "name", {})
    assert subprocess.run(task.command(), capture_output=True).returncode == worker.REFUSED
    lock = worker.try_lock(unit.folder / "lock")
    late = dataclasses.replace(task, after=1)
    done = subprocess.run(late.command(), capture_output=True, text=True)
    os.close(lock)
    assert done.returncode == worker.REFUSED and "another worker" in done.stderr
    assert unit.status.attempts == 1


def test_a_worker_that_cannot_start(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", sys.executable + "-missing")
    with pytest.raises(FileNotFoundError), experiment(tmp_path) as made:
        made.add(programs.add, {"rate": 1.0})
    monkeypatch.undo()
    monkeypatch.setattr(worker, "__file__", str(tmp_path / "gone.py"))
    status = run_one(tmp_path, programs.add, {"rate": 1.0}).status
    assert status.state == "failed" and "did not start" in status.error
    assert "gone.py" in status.error


def test_the_state_of_the_source_is_recorded(tmp_path):
    source = tmp_path / "source"
    source.mkdir()

    def git(*arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *arguments], cwd=source, check=True, capture_output=True)

    git("init", "-q")
    (source / "a.txt").write_text("one\n")
    git("add", ".")
    git("commit", "-qm", "first")
    (source / "a.txt").write_text("two\n")
    (source / "new.txt").write_text("untracked\n")
    unit = run_one(tmp_path / "e", programs.add, {"rate": 1.0}, source=source)
    state = json.loads((unit.folder / "attempts" / "1" / "attempt.json").read_text())["git"]
    assert len(state["commit"]) == 40 and state["changed"] and state["untracked"] == ["new.txt"]
    assert "-one\n+two\n" in (tmp_path / "e" / state["diff"]).read_text()


def test_successive_halving(tmp_path):
    rates = [{"rate": rate / 10} for rate in range(9)]
    for _ in range(2):  # the second time nothing is run, and the same is decided
        with experiment(tmp_path) as made:
            rungs = launch.successive_halving(
                made, programs.climb, rates, metric="loss", budget="steps", budgets=[1, 3, 9]
            )
        assert [len(rung) for rung in rungs] == [9, 3, 1]
        assert rungs[-1][0].args == {"rate": 0.3, "steps": 9}
        assert rungs[-1][0].result == {"from": 3} and len(made.work_units) == 13
        assert all(unit.status.attempts == 1 for unit in made.work_units.values())


def test_a_run_continues_one_of_another_experiment(tmp_path):
    first = run_one(tmp_path / "a", programs.climb, {"rate": 0.1, "steps": 2})
    with experiment(tmp_path / "b") as made:
        unit = made.add(programs.climb, {"rate": 0.1, "steps": 4}, previous=first)
    assert unit.result == {"from": 2}


def test_sweeps():
    space = {"rate": launch.LogUniform(1e-4, 1e-1), "depth": launch.Integers(1, 4)}
    drawn = launch.random(50, space, act=["relu", "gelu"], seed=3)
    assert drawn == launch.random(50, space, act=["relu", "gelu"], seed=3)
    assert drawn != launch.random(50, space, act=["relu", "gelu"], seed=4)
    assert {config["depth"] for config in drawn} == {1, 2, 3, 4}
    assert all(1e-4 <= config["rate"] <= 1e-1 for config in drawn)
    spread = launch.latin(20, space, width=launch.Uniform(0, 1))
    strata = [int(20 * math.log(config["rate"] / 1e-4, 1e3)) for config in spread]
    assert sorted(strata) == list(range(20))
    assert sorted(int(20 * config["width"]) for config in spread) == list(range(20))
    depths = [config["depth"] for config in spread]
    assert all(depths.count(depth) == 5 for depth in (1, 2, 3, 4))
    assert len(launch.grid({"a.b": [1, 2]}, c=range(3))) == 6


def wrong_inputs():
    local = launch.Local
    yield lambda e: e.add(lambda run: None), TypeError, "top of a module"
    yield lambda e: e.add(programs.add, {"rat": 1.0}), TypeError, "missing a required argument"
    yield lambda e: e.add(programs.add, {"rate": object()}), TypeError, r"args\['rate'\] is an obj"
    yield lambda e: e.add(programs.add, {"a.b": 1}), TypeError, "launch.Gin.from_dict"
    yield lambda e: e.add(programs.add, [1]), TypeError, "a dictionary, a dataclass or launch.Gin"
    yield lambda e: e.add(programs.show, {"a": {1: 2}}), TypeError, "keys must be strings"
    yield lambda e: e.add(programs.show, {"a": {"$x": 2}}), TypeError, "keys must be strings"
    yield lambda e: e.add(3), TypeError, "is not a function"
    yield lambda e: e.add_sweep(programs.add, {"rate": 1}), TypeError, "a list of configurations"
    yield lambda e: launch.Command("ls -l"), TypeError, "takes a list"
    yield lambda e: launch.Gin("a.b = 1"), TypeError, "takes a list"
    yield lambda e: e.add(programs.show, launch.Gin(["a b"])), ValueError, "not a gin binding"
    yield lambda e: e.add(programs.show, launch.Gin(files=["no.gin"])), RuntimeError, "no.gin"
    yield lambda e: local(max_parallel=0), ValueError, "positive integer"
    yield lambda e: local(memory="much"), ValueError, "not an amount of memory"
    yield lambda e: local(cores=10_000), ValueError, "cores of this machine"
    yield lambda e: local(max_seconds=-1), ValueError, "above 0"
    yield lambda e: launch.Job(programs.add, executor="slurm"), TypeError, "is not an executor"
    yield lambda e: launch.grid(rate="ab"), TypeError, "pass a list"
    yield lambda e: launch.grid(), ValueError, "at least one parameter"
    yield lambda e: launch.random(0, rate=[1]), ValueError, "positive integer"
    yield lambda e: launch.random(2, rate=1.0), TypeError, "not a range of values"
    yield lambda e: launch.LogUniform(0, 1), ValueError, "above 0"
    yield lambda e: launch.Integers(1.5, 2), ValueError, "must be integers"
    yield lambda e: e.best("loss"), RuntimeError, "no completed work unit"
    yield lambda e: e.best("loss", "least"), ValueError, "'min' or 'max'"


@pytest.mark.parametrize("case", range(len(list(wrong_inputs()))))
def test_wrong_input(tmp_path, case):
    call, kind, words = list(wrong_inputs())[case]
    made = experiment(tmp_path)
    try:
        with pytest.raises(kind, match=words):
            call(made)
        assert not list((tmp_path / "runs").iterdir())
    finally:
        made.close()


def test_a_damaged_folder(tmp_path):
    run_one(tmp_path, programs.add, {"rate": 1.0})
    (tmp_path / "runs" / "0001" / "unit.json").write_text("{")
    with pytest.raises(launch.LaunchError, match=r"unit.json is damaged"):
        experiment(tmp_path)
    (tmp_path / "runs" / "0001" / "unit.json").unlink()
    (tmp_path / "experiment.json").write_text('{"version": 9}')
    with pytest.raises(launch.LaunchError, match="another version"):
        experiment(tmp_path)


SCRIPT = """
import dataclasses
import multiprocessing
from weft.train import launch

@dataclasses.dataclass
class Config:
    rate: float

def double(x):
    return 2 * x

def train(run, config):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return [config.rate, __name__, pool.map(double, [3])]

if __name__ == "__main__":
    with launch.create_experiment("made") as experiment:
        unit = experiment.add(train, Config(0.5))
    print(unit.result)
"""


@pytest.mark.parametrize("command", [["script.py"], ["-m", "script"]])
def test_a_function_of_a_script(tmp_path, command):
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    name = "__mp_main__" if command == ["script.py"] else "script"
    assert done.stdout == f"[0.5, '{name}', [6]]\n", done.stderr


def test_a_function_of_a_prompt(tmp_path):
    code = "def f(run): pass\nfrom weft.train import launch\nlaunch.Function(f).name"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert "typed at a prompt or in a notebook" in done.stderr


class Dying(launch.Executor):
    """Loses its first workers before they begin, as a node of a cluster that dies."""

    lost = 0

    def start(self, task):
        if self.lost < 2:
            self.lost += 1
            return Lost(task.folder)
        return launch.Local().start(task)


class Lost(launch.Handle):
    def poll(self):
        return -9


def test_workers_that_are_lost_before_they_begin(tmp_path):
    unit = run_one(tmp_path / "a", programs.add, {"rate": 1.0}, executor=Dying())
    assert (unit.status.state, unit.status.attempts) == ("completed", 3)
    unit = run_one(tmp_path / "b", programs.add, {"rate": 1.0}, executor=Dying(), restarts=1)
    assert unit.status.state == "interrupted" and "did not start" in unit.status.error


def test_a_training_that_is_killed_ends_with_the_same_bits(tmp_path):
    with experiment(tmp_path, executor=launch.Local(max_parallel=2)) as made:
        whole = made.add(resume_programs.fit, {"steps": 30})
        killed = made.add(resume_programs.fit, {"steps": 30, "die_at": 17})
    assert (killed.status.state, killed.status.attempts) == ("completed", 2)
    assert killed.result["begun"] == 10 and killed.result["bits"] == whole.result["bits"]
    curves = reading.Reader(tmp_path).read()["runs"]
    # steps 11 to 17 are in the file twice, and shown once
    assert curves[0]["curves"] == curves[1]["curves"] and len(curves[0]["curves"][0][0]) == 30
