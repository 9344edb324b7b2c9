"""What an executor is: it starts workers somewhere, and says whether they live."""

from __future__ import annotations

import abc
import dataclasses
import os
import pathlib
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from weft.train.launch import worker

GRACE_SECONDS = 5.0  # from a polite signal to the other one


@dataclasses.dataclass(frozen=True)
class Task:
    """One attempt at a run, for an executor to start.

    Args:
        folder: the run's folder.
        launch: the folder with the launch's record.
        after: how many attempts there were before.
        token: names this attempt.
        name: for queues of jobs.
        env_vars: variables of the environment.

    Example:
        >>> import pathlib
        >>> folder = pathlib.Path("runs/1")
        >>> Task(folder, folder / "launch", 0, "a1", "sweep-1", {}).after
        0
    """

    folder: pathlib.Path
    launch: pathlib.Path
    after: int
    token: str
    name: str
    env_vars: Mapping[str, str]

    def command(self, *options: str, python: str | None = None) -> list[str]:
        """The command that runs a worker."""
        return [
            python or sys.executable,
            os.path.abspath(worker.__file__),
            str(self.folder),
            f"--launch={self.launch}",
            f"--after={self.after}",
            f"--token={self.token}",
            *options,
        ]


class Handle:
    """A worker that was started; this one is known only by the lock that it holds.

    Args:
        folder: the run's folder.

    Example:
        >>> import pathlib, tempfile
        >>> Handle(pathlib.Path(tempfile.mkdtemp())).folder.is_dir()
        True
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    def record(self) -> dict[str, Any]:
        """What another launcher needs to find the worker again."""
        return {}

    def poll(self) -> int | None:
        """The exit code; None while the worker lives."""
        return None if worker.is_locked(self.folder / "lock") else 0

    def stop(self) -> None:
        """End the worker."""
        path = self.folder / "lock"
        if worker.is_locked(path):
            holder = worker.read_json(path) or {}
            if holder.get("host") == worker.platform.node() and isinstance(holder["pid"], int):
                kill_group(holder["pid"])
                end = time.monotonic() + GRACE_SECONDS
                while worker.is_locked(path) and time.monotonic() < end:
                    time.sleep(0.02)
                if worker.is_locked(path):
                    kill_group(holder["pid"], worker.signal.SIGKILL)


class Executor(abc.ABC):
    """What starts workers; ``Local``, ``Mpi``, ``Slurm`` and ``Ray`` are executors.

    >>> from weft.train import launch
    >>> isinstance(launch.Local(), launch.Executor)
    True
    """

    @property
    def capacity(self) -> int | None:
        """How many workers it runs at once; None if others decide."""
        return None

    @property
    def timeout(self) -> float | None:
        """After how many seconds the launcher ends a worker."""
        return None

    @abc.abstractmethod
    def start(self, task: Task) -> Handle:
        """Start a worker.

        Args:
            task: what it is to run.
        """

    def adopt(self, folder: pathlib.Path, record: Mapping[str, Any]) -> Handle | None:
        """The worker that an earlier launcher started, if it still waits or runs.

        Args:
            folder: the run's folder.
            record: what the worker's handle had recorded.
        """
        return Handle(folder) if worker.is_locked(folder / "lock") else None


def kill_group(pid: int, number: int = worker.signal.SIGTERM) -> None:
    """Send a signal to a worker and to the processes that it has started."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def bytes_of(amount: int | str | None) -> int | None:
    """An amount of memory in bytes.

    >>> bytes_of("2GiB"), bytes_of("500M"), bytes_of(None)
    (2147483648, 500000000, None)
    """
    if amount is None or (isinstance(amount, int) and amount > 0):
        return amount
    units = {"": 1, "B": 1}
    for power, letter in enumerate("KMGT", 1):
        units |= {letter: 1000**power, letter + "B": 1000**power, letter + "IB": 1024**power}
    text = str(amount).strip().upper()
    number = text.rstrip("BIKMGT ")
    try:
        size = int(float(number) * units[text[len(number) :].strip()])
    except (KeyError, ValueError):
        size = 0
    if size <= 0:
        raise ValueError(f"{amount!r} is not an amount of memory: write 4_000_000_000 or '4GB'")
    return size


def positive(name: str, value: int | None) -> int | None:
    """A whole number above 0, or None."""
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise ValueError(f"{name} must be a positive integer, not {value!r}")
    return value


def words(name: str, values: Sequence[str]) -> tuple[str, ...]:
    """A list of text as a tuple.

    >>> words("options", ["--bind-to", "core"])
    ('--bind-to', 'core')
    """
    if isinstance(values, (str, bytes)) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"{name} must be a list of strings, not {values!r}")
    return tuple(values)
