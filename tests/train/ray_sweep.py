"""A sweep on a Ray cluster of two nodes, whose driver and workers are killed twice.

Run ``python -m tests.train.ray_sweep FOLDER`` where ray is installed.
"""

import os
import pathlib
import subprocess
import sys

from ray.cluster_utils import Cluster

from tests.train import test_launch_kill as kill
from tests.train.launch_programs import stepwise
from weft.train import launch

WAIT = 400  # seconds, on a busy machine


def drive(folder: str, address: str, count: int) -> None:
    """A launcher, which is a driver of Ray."""
    executor = launch.Ray(address=address)
    with launch.create_experiment(folder, executor=executor, restarts=5) as experiment:
        experiment.add_sweep(stepwise, launch.grid(number=list(range(count)), seconds=[0.2]))


def start(folder: pathlib.Path, address: str, count: int) -> subprocess.Popen:
    command = [sys.executable, "-m", "tests.train.ray_sweep", str(folder), address, str(count)]
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(kill.ROOT)}, cwd=kill.ROOT)


def sweep(folder: pathlib.Path, count: int = 20) -> int:
    """Kill the launcher and its workers twice; how many runs were resumed from a checkpoint."""
    (folder / "runs").mkdir(parents=True)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    cluster.add_node(num_cpus=2)
    try:
        first = start(folder, cluster.address, count)
        kill.wait_for(folder, count // 5, first, WAIT)
        kill.wait_for_a_run_under_way(folder, first, WAIT)
        first.kill()  # Ray ends the workers of a driver that is gone
        first.wait()
        second = start(folder, cluster.address, count)
        kill.wait_for(folder, count // 2, second, WAIT)
        kill.wait_for_a_run_under_way(folder, second, WAIT)
        assert kill.kill_workers(folder)  # the launcher starts them again
        kill.wait_for(folder, count * 3 // 5, second, WAIT)
        kill.wait_for_a_run_under_way(folder, second, WAIT)
        kill.kill_workers(folder)
        second.kill()
        second.wait()
        third = start(folder, cluster.address, count)
        assert third.wait(WAIT) == 0
    finally:
        cluster.shutdown()
    return kill.check_all(folder, count)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        resumed = sweep(pathlib.Path(sys.argv[1]))
        print(f"20 runs completed once each; {resumed} went on from a checkpoint")
    else:
        drive(sys.argv[1], sys.argv[2], int(sys.argv[3]))
