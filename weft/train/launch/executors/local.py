"""Workers as processes of this machine."""

import contextlib
import dataclasses
import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Sequence

from weft.train.launch.executors import base

_taken: set[int] = set()  # cores that workers of this launcher are bound to


class ProcessHandle(base.Handle):
    """A worker that is a child of the launcher, in a process group of its own."""

    def __init__(
        self, folder: pathlib.Path, process: subprocess.Popen, cores: Sequence[int] = ()
    ) -> None:
        super().__init__(folder)
        self._process, self._cores = process, tuple(cores)

    def poll(self) -> int | None:
        """The exit code; None while the worker lives."""
        if self._process.returncode is None:
            flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
            with contextlib.suppress(ChildProcessError):
                if os.waitid(os.P_PID, self._process.pid, flags) is None:
                    return None
            # Its children go with it. Not reaped yet, it still keeps its number from being reused.
            base.kill_group(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        _taken.difference_update(self._cores)
        return code

    def stop(self) -> None:
        """End the worker: politely, and a few seconds later not."""
        if self.poll() is not None:
            return
        base.kill_group(self._process.pid)
        end = time.monotonic() + base.GRACE_SECONDS
        while self.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        base.kill_group(self._process.pid, signal.SIGKILL)
        while self.poll() is None:
            time.sleep(0.02)


def available_cores() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def spawn(command: list[str], task: base.Task, added: dict[str, str]) -> subprocess.Popen:
    """Start a command in a process group of its own, with its first words in ``launch.log``."""
    with open(task.folder / "launch.log", "ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=os.environ | added | dict(task.env_vars),
            start_new_session=True,
        )


@dataclasses.dataclass(frozen=True)
class Local(base.Executor):
    """Processes of this machine.

    Args:
        max_parallel: how many run at once; by default as many as the cores allow, one for each
            if ``cores`` is not given.
        cores: to how many cores each is bound.
        memory: how much memory each may allocate, as ``"4GB"`` or in bytes; an allocation beyond
            it fails.
        max_seconds: after how long a run is ended as failed.

    Example:
        >>> Local(max_parallel=4, memory="2GB").capacity
        4
    """

    max_parallel: int | None = None
    cores: int | None = None
    memory: int | str | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        base.positive("max_parallel", self.max_parallel)
        base.positive("cores", self.cores)
        base.bytes_of(self.memory)
        if self.max_seconds is not None and not self.max_seconds > 0:
            raise ValueError(f"max_seconds must be above 0, not {self.max_seconds!r}")
        there = len(available_cores())
        if self.cores and self.cores * (self.max_parallel or 1) > there:
            raise ValueError(
                f"{self.max_parallel or 1} runs of {self.cores} cores each need more than the"
                f" {there} cores of this machine"
            )

    @property
    def capacity(self) -> int:
        """How many workers run at once."""
        return self.max_parallel or max(1, len(available_cores()) // (self.cores or 1))

    @property
    def timeout(self) -> float | None:
        """After how many seconds a worker is ended."""
        return self.max_seconds

    def start(self, task: base.Task) -> base.Handle:
        """Start a worker."""
        options, added, taken = [], {}, []
        memory = base.bytes_of(self.memory)
        if memory:
            options.append(f"--memory={memory}")
        if self.cores:
            free = [core for core in available_cores() if core not in _taken]
            taken = free[: self.cores]
            _taken.update(taken)
            options.append("--cores=" + ",".join(map(str, taken)))
            count = str(self.cores)
            added = {"OMP_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count}
        return ProcessHandle(task.folder, spawn(task.command(*options), task, added), taken)
