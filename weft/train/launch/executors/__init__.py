"""Where workers run: processes here, under ``mpiexec``, as jobs of Slurm, or on a Ray cluster."""

from weft.train.launch.executors.base import Executor as Executor
from weft.train.launch.executors.base import Handle as Handle
from weft.train.launch.executors.base import Task as Task
from weft.train.launch.executors.local import Local as Local
from weft.train.launch.executors.mpi import Mpi as Mpi
from weft.train.launch.executors.ray import Ray as Ray
from weft.train.launch.executors.slurm import Slurm as Slurm
