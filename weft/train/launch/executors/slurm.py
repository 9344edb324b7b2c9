"""Workers as jobs of Slurm."""

import dataclasses
import os
import pathlib
import re
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from weft.train.launch import worker
from weft.train.launch.executors import base
from weft.train.launch.worker import LaunchError

# States that squeue still lists for a while after the end.
_ENDED = (
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED"
    " TIMEOUT"
).split()


def _call(*command: str) -> str:
    """What a command of Slurm prints."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise LaunchError(
            f"{command[0]} is not on this machine; launch on a machine with Slurm"
        ) from None
    if done.returncode:
        raise LaunchError(f"{shlex.join(command)} failed: {done.stderr.strip()[-1000:]}")
    return done.stdout


class _Queue:
    """The user's jobs, asked for at most every few seconds."""

    def __init__(self) -> None:
        self._asked, self._jobs = -float("inf"), frozenset[str]()

    def jobs(self, seconds: float) -> frozenset[str]:
        now = time.monotonic()
        if now - self._asked >= seconds:
            lines = _call("squeue", "--me", "--noheader", "--format=%i %T").splitlines()
            pairs = [line.split() for line in lines if line.strip()]
            self._jobs = frozenset(pair[0] for pair in pairs if pair[-1] not in _ENDED)
            self._asked = time.monotonic()
        return self._jobs

    def forget(self) -> None:
        """Ask again at the next look: a job was added or cancelled."""
        self._asked = -float("inf")


_queue = _Queue()


class SlurmHandle(base.Handle):
    """A job of Slurm, by its number."""

    def __init__(self, folder: pathlib.Path, job: str, poll: float, settle: float) -> None:
        super().__init__(folder)
        self.job, self._poll, self._settle = job, poll, settle
        self._gone: float | None = None

    def record(self) -> dict[str, Any]:
        """The job's number, by which another launcher finds it."""
        return {"job": self.job}

    def poll(self) -> int | None:
        """0 when the job is gone and its files have had time to arrive; None before."""
        try:
            there = self.job in _queue.jobs(self._poll)
        except LaunchError:  # the controller does not answer: ask later
            there = True
        if there:
            self._gone = None
            return None
        self._gone = self._gone or time.monotonic()
        late = time.monotonic() - self._gone < self._settle
        attempts = worker.attempt_folders(self.folder)
        if late and not (attempts and (attempts[-1] / "exit.json").exists()):
            return None
        return 0

    def stop(self) -> None:
        """Cancel the job."""
        _call("scancel", self.job)
        _queue.forget()
        end = time.monotonic() + 60
        while self.poll() is None and time.monotonic() < end:
            time.sleep(0.05)


@dataclasses.dataclass(frozen=True)
class Slurm(base.Executor):
    """Jobs of Slurm: a script for ``sbatch`` each, in the run's folder as ``job.sh``.

    The experiment's folder, and this Python, have to be on a file system that nodes share. Jobs go
    on if the launcher ends; the next launcher finds them again.

    Args:
        tasks: how many processes a run has; from two up, ``srun`` starts them.
        cpus_per_task: cores for each process.
        memory: memory of a node for the run, as ``"16GB"``.
        time: the limit, in Slurm's form, as ``"12:00:00"``.
        partition: the partition.
        options: further options of ``sbatch``, as ``{"gres": "gpu:1", "exclusive": ""}``.
        setup: lines of bash before the worker, as ``["module load cuda"]``.
        python: the interpreter on the nodes; this one by default.
        max_parallel: how many jobs may wait or run at once.
        poll_seconds: how often ``squeue`` is asked.
        settle_seconds: how long files may take from a node to the launcher.

    Example:
        >>> options = {"gres": "gpu:1"}
        >>> executor = Slurm(cpus_per_task=4, memory="16GB", time="2:00:00", options=options)
        >>> print("\\n".join(executor.lines("sweep-0001", pathlib.Path("runs/0001"))))
        #SBATCH --job-name=sweep-0001
        #SBATCH --output=runs/0001/launch.log
        #SBATCH --open-mode=append
        #SBATCH --ntasks=1
        #SBATCH --cpus-per-task=4
        #SBATCH --mem=15259M
        #SBATCH --time=2:00:00
        #SBATCH --gres=gpu:1
    """

    tasks: int = 1
    cpus_per_task: int | None = None
    memory: int | str | None = None
    time: str | None = None
    partition: str | None = None
    options: Mapping[str, str] | Sequence[tuple[str, str]] = ()
    setup: Sequence[str] = ()
    python: str | None = None
    max_parallel: int | None = None
    poll_seconds: float = 2.0
    settle_seconds: float = 10.0

    def __post_init__(self) -> None:
        base.positive("tasks", self.tasks)
        base.positive("cpus_per_task", self.cpus_per_task)
        base.positive("max_parallel", self.max_parallel)
        base.bytes_of(self.memory)
        given = dict(self.options)
        for name, value in given.items():
            if not re.fullmatch("[a-z][a-z-]*", str(name)):
                raise ValueError(f"{name!r} is not an option of sbatch: write its long name")
            if not isinstance(value, str):
                raise TypeError(f"the option {name} of sbatch must be a string, not {value!r}")
        object.__setattr__(self, "options", tuple(given.items()))
        object.__setattr__(self, "setup", base.words("setup", self.setup))

    @property
    def capacity(self) -> int | None:
        """How many jobs may wait or run at once."""
        return self.max_parallel

    def lines(self, name: str, folder: pathlib.Path) -> list[str]:
        """The lines by which ``sbatch`` knows what a job needs.

        Args:
            name: the job's name.
            folder: the run's folder.
        """
        memory = base.bytes_of(self.memory)
        log = str(folder / "launch.log").replace("\\", "\\\\").replace("%", "%%")
        wanted = {
            "job-name": re.sub(r"[^\w.+-]+", "-", name),
            "output": log,
            "open-mode": "append",
            "ntasks": str(self.tasks),
            "cpus-per-task": str(self.cpus_per_task) if self.cpus_per_task else None,
            "mem": f"{-(-memory // 2**20)}M" if memory else None,
            "time": self.time,
            "partition": self.partition,
        } | dict(self.options)
        made = []
        for option, value in wanted.items():
            if value is None:
                continue
            if "\n" in value or '"' in value:
                raise ValueError(f"the option {option} of sbatch cannot hold {value!r}")
            quoted = f'"{value}"' if re.search(r"[\s#;&|<>()$`']", value) else value
            made.append(f"#SBATCH --{option}={quoted}" if value else f"#SBATCH --{option}")
        return made

    def script(self, task: base.Task) -> str:
        """The script of a job."""
        command = task.command(f"--ranks={self.tasks}", python=self.python)
        start = ["srun", "--kill-on-bad-exit=1"] if self.tasks > 1 else []
        exports = [f"export {name}={shlex.quote(value)}" for name, value in task.env_vars.items()]
        lines = ["#!/bin/bash", *self.lines(task.name, task.folder), "", *self.setup, *exports]
        return "\n".join([*lines, "exec " + shlex.join([*start, *command]), ""])

    def start(self, task: base.Task) -> base.Handle:
        """Submit a job."""
        path = task.folder / "job.sh"
        path.write_text(self.script(task), encoding="utf-8")
        printed = _call("sbatch", "--parsable", os.fspath(path)).strip()
        job = printed.partition(";")[0]
        if not job.isdecimal():
            raise LaunchError(f"sbatch printed {printed!r} instead of a job number")
        _queue.forget()
        return SlurmHandle(task.folder, job, self.poll_seconds, self.settle_seconds)

    def adopt(self, folder: pathlib.Path, record: Mapping[str, Any]) -> base.Handle | None:
        """The job that an earlier launcher submitted, if it still waits or runs."""
        job = record.get("job")
        if isinstance(job, str) and job in _queue.jobs(self.poll_seconds):
            return SlurmHandle(folder, job, self.poll_seconds, self.settle_seconds)
        return super().adopt(folder, record)
