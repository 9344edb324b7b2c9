"""A launcher of 20 short runs, as a script: tests kill it and start it again."""

import sys

from tests.train.launch_programs import stepwise
from weft.train import launch

if __name__ == "__main__":
    executor = launch.Local(max_parallel=4)
    with launch.create_experiment(sys.argv[1], executor=executor, restarts=5) as experiment:
        numbers, seconds = list(range(int(sys.argv[2]))), [float(sys.argv[3])]
        experiment.add_sweep(stepwise, launch.grid(number=numbers, seconds=seconds))
