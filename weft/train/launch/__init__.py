"""Experiments: a function and configurations, run by processes, MPI, Slurm or Ray, and recorded.

The words are XManager's: an experiment has work units, a job is an executable with its executor.
"""

from weft.train.launch.configs import Gin as Gin
from weft.train.launch.executors import Executor as Executor
from weft.train.launch.executors import Handle as Handle
from weft.train.launch.executors import Local as Local
from weft.train.launch.executors import Mpi as Mpi
from weft.train.launch.executors import Ray as Ray
from weft.train.launch.executors import Slurm as Slurm
from weft.train.launch.executors import Task as Task
from weft.train.launch.experiment import Experiment as Experiment
from weft.train.launch.experiment import WorkUnit as WorkUnit
from weft.train.launch.experiment import WorkUnitFailedError as WorkUnitFailedError
from weft.train.launch.experiment import create_experiment as create_experiment
from weft.train.launch.halving import successive_halving as successive_halving
from weft.train.launch.jobs import Command as Command
from weft.train.launch.jobs import Function as Function
from weft.train.launch.jobs import Job as Job
from weft.train.launch.runs import Status as Status
from weft.train.launch.runs import status_of as status_of
from weft.train.launch.sweeps import Choice as Choice
from weft.train.launch.sweeps import Integers as Integers
from weft.train.launch.sweeps import LogUniform as LogUniform
from weft.train.launch.sweeps import Uniform as Uniform
from weft.train.launch.sweeps import grid as grid
from weft.train.launch.sweeps import latin as latin
from weft.train.launch.sweeps import random as random
from weft.train.launch.worker import LaunchError as LaunchError
from weft.train.launch.worker import LockedError as LockedError
from weft.train.launch.worker import Run as Run
