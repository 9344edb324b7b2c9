"""Experiments under ``mpiexec``, and as jobs of Slurm by a stand-in that runs its scripts."""

import json
import os
import pathlib
import shlex
import shutil
import sys

import pytest

from tests.train import launch_programs as programs
from weft.train import launch
from weft.train.launch.executors import slurm

STAND_IN = pathlib.Path(__file__).with_name("slurm_stand_in.py")
MPIEXEC = shutil.which("mpiexec", path=os.path.dirname(sys.executable)) or shutil.which("mpiexec")
needs_mpi = pytest.mark.skipif(MPIEXEC is None, reason="needs mpiexec: pip install '.[mpi]'")


def experiment(folder, **options):
    return launch.create_experiment(folder, verbose=False, **options)


@needs_mpi
def test_mpi(tmp_path, monkeypatch):
    # Open MPI refuses root, who owns containers, and more processes than there are cores
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("OMPI_MCA_rmaps_base_oversubscribe", "1")
    with experiment(tmp_path, executor=launch.Mpi(3)) as made:
        fine = made.add(programs.ranks)
        fails = made.add(programs.ranks, {"how": "raise"})
        killed = made.add(programs.ranks, {"how": "kill once"})
    assert (fine.status.state, fine.result) == ("completed", {"size": 3, "first": True})
    assert sorted(path.name for path in fine.folder.glob("was_here_*"))[-1] == "was_here_2"
    attempt = fine.folder / "attempts" / "1"
    assert (attempt / "stdout.txt").read_text() == "rank 0 of 3\n"
    assert (attempt / "stdout.2.txt").read_text() == "rank 2 of 3\n"
    assert (fails.status.state, fails.status.attempts) == ("failed", 1)
    assert fails.status.error == "rank 1: ValueError: rank 1 is unhappy"
    assert (killed.status.state, killed.status.attempts) == ("completed", 2)


def test_mpi_that_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError), experiment(tmp_path) as made:
        made.add(launch.Job(programs.ranks, launch.Mpi(2, mpiexec=str(tmp_path / "no"))))


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Slurm's commands on the path, and where they keep their jobs."""
    commands, state = tmp_path / "bin", tmp_path / "slurm"
    commands.mkdir()
    state.mkdir()
    for name in ("sbatch", "squeue", "scancel", "srun"):
        start = shlex.join(["exec", sys.executable, str(STAND_IN), name])
        (commands / name).write_text(f'#!/bin/sh\n{start} "$@"\n')
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_STAND_IN", str(state))
    monkeypatch.setattr(slurm, "_queue", slurm._Queue())
    return state


def executor(**options):
    return launch.Slurm(poll_seconds=0.1, settle_seconds=0.3, **options)


def submitted(cluster):
    return sorted(int(path.stem) for path in cluster.glob("*.script"))


def test_slurm_runs_scripts(cluster, tmp_path):
    options = {"gres": "gpu:1", "exclusive": "", "comment": "a b; c"}
    wanted = executor(
        cpus_per_task=2, memory="4GiB", time="1:00:00", partition="short", options=options,
        setup=["export SEEN='by setup'"],
    )  # fmt: skip
    job = launch.Job(programs.about, wanted, env_vars={"SHOWN": "it's; $HOME"})
    with experiment(tmp_path / "100% of it", title="a sweep!") as made:
        about = made.add(job)
        fails = made.add(launch.Job(programs.fail, wanted), {"how": "raise"})
        again = made.add(launch.Job(programs.fail, wanted), {"how": "kill once"})
        pair = made.add(launch.Job(programs.ranks, executor(tasks=2)))
    assert about.result["variable"] == "it's; $HOME" and about.status.state == "completed"
    assert fails.status.state == "failed" and "a <bad> thing" in fails.status.error
    assert (again.status.state, again.status.attempts) == ("completed", 2)
    assert pair.result == {"size": 2, "first": True} and submitted(cluster) == [1, 2, 3, 4, 5]
    lines = (about.folder / "job.sh").read_text().splitlines()
    assert lines[:2] == ["#!/bin/bash", "#SBATCH --job-name=a-sweep--0001"]
    assert {"#SBATCH --mem=4096M", "#SBATCH --gres=gpu:1", "#SBATCH --exclusive"} <= set(lines)
    assert '#SBATCH --comment="a b; c"' in lines and lines[-1].startswith("exec ")


def test_slurm_jobs_outlive_the_launcher(cluster, tmp_path):
    (cluster / "hold").touch()
    for _ in range(3):  # while they wait in the queue, launchers come and go
        made = experiment(tmp_path / "a", executor=executor())
        units = made.add_sweep(programs.stepwise, launch.grid(number=[0, 1, 2]))
        made.wait([])
        made.close()
    assert submitted(cluster) == [1, 2, 3] and {u.status.state for u in units} == {"pending"}
    (cluster / "hold").unlink()
    with experiment(tmp_path / "a", executor=executor()) as made:
        units = made.add_sweep(programs.stepwise, launch.grid(number=[0, 1, 2]))
    assert submitted(cluster) == [1, 2, 3]
    assert all((unit.status.state, unit.status.attempts) == ("completed", 1) for unit in units)
    assert not any((unit.folder / "doubled").exists() for unit in units)


def test_slurm_jobs_that_are_cancelled(cluster, tmp_path):
    with experiment(tmp_path / "a", executor=executor()) as made:
        slow = made.add(programs.fail, {"how": "sleep"})
        made.wait([])
        slow.stop()
    assert slow.status.state == "stopped"
    (cluster / "hold").touch()
    made = experiment(tmp_path / "b", executor=executor())
    unit = made.add(programs.add, {"rate": 1.0})
    made.wait([])
    made.close()
    (job,) = [json.loads((unit.folder / "submission.json").read_text())["handle"]["job"]]
    slurm._call("scancel", job)  # by someone else, while nobody launches
    (cluster / "hold").unlink()
    with experiment(tmp_path / "b", executor=executor()) as made:
        unit = made.add(programs.add, {"rate": 1.0})
    assert unit.status.state == "completed" and len(submitted(cluster)) == 3


def test_slurm_that_does_not_answer(cluster, tmp_path):
    made = experiment(tmp_path / "a", executor=executor())
    unit = made.add(programs.add, {"rate": 1.0})
    made.wait([])
    (cluster / "down").touch()
    for _ in range(4):
        made._collect()
    assert 1 in made._active  # no answer does not mean that the job is gone
    (cluster / "down").unlink()
    made.run()
    made.close()
    assert unit.status.state == "completed" and submitted(cluster) == [1]


def test_wrong_slurm_input(cluster, tmp_path, monkeypatch):
    with pytest.raises(launch.LaunchError, match=r"sbatch .*failed.*invalid option.*partition"):
        with experiment(tmp_path / "a", executor=executor(partition="none")) as made:
            made.add(programs.add, {"rate": 1.0})
    with pytest.raises(ValueError, match="not an option of sbatch"):
        launch.Slurm(options={"gres=gpu:1 --wrap": ""})
    with pytest.raises(TypeError, match="must be a string"):
        launch.Slurm(options={"nodes": 2})
    with pytest.raises(ValueError, match="cannot hold"):
        launch.Slurm(partition="a\nrm -rf b").lines("name", tmp_path)
    with pytest.raises(TypeError, match="list of strings"):
        launch.Slurm(setup="module load cuda")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(launch.LaunchError, match="sbatch is not on this machine"):
        with experiment(tmp_path / "b", executor=executor()) as made:
            made.add(programs.add, {"rate": 1.0})


def test_ray_that_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(launch.LaunchError, match="pip install ray"):
        with experiment(tmp_path, executor=launch.Ray()) as made:
            made.add(programs.add, {"rate": 1.0})
