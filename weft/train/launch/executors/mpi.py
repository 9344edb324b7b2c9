"""Workers of several processes each, under ``mpiexec``."""

import dataclasses
import os
import shutil
import sys
from collections.abc import Sequence

from weft.train.launch.executors import base, local
from weft.train.launch.worker import LaunchError


@dataclasses.dataclass(frozen=True)
class Mpi(base.Executor):
    """Runs of several processes each, which ``mpiexec`` starts.

    Every process calls the function; ``run.rank`` and ``run.size`` tell them apart. A run has
    completed when all its processes have.

    Args:
        processes: how many processes a run has.
        max_parallel: how many runs there are at once.
        options: further options of ``mpiexec``, as ``["--hostfile", "hosts"]``.
        mpiexec: the program; the one beside this Python, or else on the path, by default.
        max_seconds: after how long a run is ended as failed.

    Example:
        >>> Mpi(4, options=["--bind-to", "core"]).capacity
        1
    """

    processes: int
    max_parallel: int = 1
    options: Sequence[str] = ()
    mpiexec: str | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        base.positive("processes", self.processes)
        base.positive("max_parallel", self.max_parallel)
        object.__setattr__(self, "options", base.words("options", self.options))

    @property
    def capacity(self) -> int:
        """How many runs there are at once."""
        return self.max_parallel

    @property
    def timeout(self) -> float | None:
        """After how many seconds a run is ended."""
        return self.max_seconds

    def start(self, task: base.Task) -> base.Handle:
        """Start a run's processes."""
        beside = os.path.dirname(sys.executable)
        program = self.mpiexec or shutil.which("mpiexec", path=beside) or shutil.which("mpiexec")
        if program is None:
            raise LaunchError("mpiexec is not on this machine: pip install 'weft[mpi]'")
        count = str(self.processes)
        worker = task.command(f"--ranks={count}")
        command = [program, *self.options, "-n", count, *worker]
        return local.ProcessHandle(task.folder, local.spawn(command, task, {}))
