"""Experiments on a Ray cluster of two nodes, where Ray is installed."""

import pathlib

import pytest

ray = pytest.importorskip("ray", reason="needs Ray: pip install ray")

from tests.train import launch_programs as programs
from tests.train import ray_sweep
from weft.train import launch

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


def test_a_sweep_that_is_killed_twice(tmp_path: pathlib.Path) -> None:
    assert ray_sweep.sweep(tmp_path / "sweep", 10) >= 1


def test_failures_and_lost_workers(tmp_path: pathlib.Path) -> None:
    cluster = ray_sweep.Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    try:
        executor = launch.Ray(address=cluster.address, memory="100MB")
        with launch.create_experiment(tmp_path, executor=executor, verbose=False) as made:
            fine = made.add(programs.add, {"rate": 1.0})
            fails = made.add(programs.fail, {"how": "raise"})
            again = made.add(programs.fail, {"how": "kill once"})
            slow = made.add(programs.fail, {"how": "sleep"})
            made.wait([fine, fails, again])
            slow.stop()
        assert (fine.status.state, fails.status.state) == ("completed", "failed")
        assert (again.status.state, again.status.attempts) == ("completed", 2)
        assert slow.status.state == "stopped"
    finally:
        ray.shutdown()
        cluster.shutdown()
