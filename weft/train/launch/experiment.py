"""Experiments: work units in a folder, started, watched, and taken up again after a crash."""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
import platform
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any

from weft.train.launch import configs, records, runs, worker
from weft.train.launch.executors import Executor, Handle, Local, Task
from weft.train.launch.jobs import Job
from weft.train.launch.worker import LaunchError, LockedError
from weft.train.writers import read_json_lines

_POLL_SECONDS = (0.01, 0.25)


class WorkUnitFailedError(LaunchError):
    """The error when a work unit that someone waited for has failed or was stopped.

    >>> from weft.train import launch
    >>> issubclass(launch.WorkUnitFailedError, Exception)
    True
    """


class WorkUnit:
    """One run of an experiment: a configuration, and the folder that it lives in.

    ``Experiment.add`` makes work units.

    Args:
        experiment: the experiment.
        number: its number in the experiment, from 1.
        job: what it runs.
        args: its configuration.

    Attributes:
        work_unit_id: its number in the experiment, from 1.
        folder: where it lives.
        args: its configuration.
        job: what it runs.

    Example:
        >>> import tempfile
        >>> from weft.train import launch
        >>> with launch.create_experiment(tempfile.mkdtemp(), verbose=False) as experiment:
        ...     unit = experiment.add(launch.Command(["true"]))
        >>> unit.work_unit_id, unit.status.state
        (1, 'completed')
    """

    def __init__(self, experiment: Experiment, number: int, job: Job, args: Any) -> None:
        self.experiment, self.work_unit_id, self.job, self.args = experiment, number, job, args
        self.folder = experiment.folder / "runs" / f"{number:04}"

    def __repr__(self) -> str:
        return f"WorkUnit({self.work_unit_id}, {self.status.state}, {self.args!r})"

    @property
    def status(self) -> runs.Status:
        """How it stands, read from its folder."""
        return runs.status_of(self.folder)

    @property
    def result(self) -> Any:
        """What the function returned, as JSON has it."""
        return self.status.result

    def metric(self, name: str) -> float:
        """The last value of a metric in ``metrics.jsonl``, or of that name in the result.

        Args:
            name: the metric's name.

        Returns:
            The number; NaN if there is none.
        """
        found: Any = None
        path = self.folder / "metrics.jsonl"
        if path.exists():
            for line in read_json_lines(path):
                if line["kind"] == "scalars" and isinstance(line["values"], dict):
                    found = line["values"].get(name, found)
        if found is None and isinstance(self.result, dict):
            found = self.result.get(name)
        try:
            return float(found)
        except (TypeError, ValueError):
            return math.nan

    def wait_until_complete(self) -> WorkUnit:
        """Wait for it, while the others of the experiment go on; a failure raises."""
        self.experiment.wait([self])
        status = self.status
        if status.state != "completed":
            raise WorkUnitFailedError(
                f"work unit {self.work_unit_id} {status.state}: {status.error}. Its output is in"
                f" {self.folder / 'attempts' / str(status.attempts)}"
            )
        return self

    def stop(self) -> None:
        """End it; it stays stopped when the experiment is launched again."""
        self.experiment._stop(self)


@dataclasses.dataclass
class _Active:
    """A worker that was started for a work unit."""

    unit: WorkUnit
    handle: Handle
    after: int
    began: float
    adopted: bool = False


class Experiment:
    """Work units in a folder, which one launcher at a time works on.

    ``create_experiment`` makes it. Used in ``with``, it runs everything at the end of the block.

    Args:
        folder: where it lives.
        title: for people; the folder's name by default.
        executor: where jobs run that name no other; ``Local()`` by default.
        restarts: how often a worker that was killed is started again by one launcher.
        retry_failed: whether work units that failed or were stopped are begun again.
        source: a folder of the git repository whose commit and changes are recorded; the current
            folder by default.
        verbose: whether a line is printed when a work unit ends.

    Attributes:
        folder: the experiment's folder.
        work_units: the work units that were added, by number.

    Example:
        >>> import tempfile
        >>> from weft.train import launch
        >>> with launch.create_experiment(tempfile.mkdtemp(), verbose=False) as experiment:
        ...     _ = experiment.add(launch.Command(["true"]))
        >>> len(experiment.work_units)
        1
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        title: str = "",
        executor: Executor | None = None,
        restarts: int = 2,
        retry_failed: bool = False,
        source: str | os.PathLike[str] | None = None,
        verbose: bool = True,
    ) -> None:
        if not isinstance(restarts, int) or restarts < 0:
            raise ValueError(f"restarts must be a non-negative integer, not {restarts!r}")
        self.folder = pathlib.Path(folder).absolute()
        if executor is not None and not isinstance(executor, Executor):
            raise TypeError(f"{executor!r} is not an executor: pass launch.Local() or another")
        self.executor = executor or Local()
        self.title = title or self.folder.name
        self.work_units: dict[int, WorkUnit] = {}
        self._restarts, self._retry_failed, self._verbose = restarts, retry_failed, verbose
        self._active: dict[int, _Active] = {}
        self._left: dict[int, int] = {}  # by number: restarts that are left
        self._again: set[int] = set()
        self._done: set[int] = set()
        self._launch: pathlib.Path | None = None
        self._source = os.fspath(source) if source is not None else os.getcwd()
        (self.folder / "runs").mkdir(parents=True, exist_ok=True)
        self._lock = self._take_lock()
        try:
            self._known = self._read_units()
            described = worker.read_json(self.folder / "experiment.json")
            if described is None:
                made = {"title": self.title, "created": time.time(), "version": 1}
                worker.write_json(self.folder / "experiment.json", made)
            elif described.get("version") != 1:
                raise LaunchError(f"{self.folder} was created by another version of weft")
        except BaseException:
            self.close()
            raise

    def _take_lock(self) -> int | None:
        path = self.folder / "launcher.lock"
        lock = worker.try_lock(path)
        if lock is None:
            try:
                who = worker.read_json(path) or {}
            except LaunchError:
                who = {}
            raise LockedError(
                f"{self.folder} is in use by another launcher: process {who.get('pid', '?')} on"
                f" {who.get('host', '?')}. Wait for it, stop it, or use another folder"
            )
        os.ftruncate(lock, 0)
        text = worker.json.dumps({"pid": os.getpid(), "host": platform.node()})
        os.write(lock, text.encode())
        return lock

    def _read_units(self) -> dict[str, int]:
        """The numbers of the work units in the folder, by what makes them the same."""
        found: dict[str, int] = {}
        for path in sorted((self.folder / "runs").iterdir()):
            unit = worker.read_json(path / "unit.json") if path.name.isdecimal() else None
            if unit is not None:
                found[str(unit.get("key"))] = int(path.name)
        return found

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, kind: Any, *rest: Any) -> None:
        try:
            if kind is None:
                self.run()
        finally:
            self.close()

    def close(self) -> None:
        """Let other launchers have the folder; workers that still run go on."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def add(
        self, job: Any, args: Any = None, *, identity: str = "", previous: WorkUnit | None = None
    ) -> WorkUnit:
        """Add a work unit; one that the folder has already is taken up again.

        Args:
            job: a ``Job``, or a function for one on this machine.
            args: a dictionary of keyword arguments, a dataclass, or ``Gin``.
            identity: tells apart work units of the same job and arguments.
            previous: a work unit that this one continues; the function finds its folder in
                ``run.previous``.

        Returns:
            The work unit.
        """
        self._check_open()
        job = job if isinstance(job, Job) else Job(job)
        if not isinstance(identity, str):
            raise TypeError(f"identity must be a string, not {identity!r}")
        args = job.merged(args)
        encoded, executable = configs.encode_args(args), job.executable.record()
        job.executable.check(args)
        key = configs.key_of(executable, encoded, identity)
        number = self._known.get(key)
        if number is None:
            number = max(self._known.values(), default=0) + 1
            unit = {
                "id": number,
                "key": key,
                "identity": identity,
                "executable": executable,
                "args": encoded,
                "previous": self._place_of(previous),
                "created": time.time(),
            }
            folder = self.folder / "runs" / f"{number:04}"
            folder.mkdir(exist_ok=True)
            worker.write_json(folder / "unit.json", unit)
            self._known[key] = number
        if number not in self.work_units:
            made = self.work_units[number] = WorkUnit(self, number, job, args)
            self._left[number] = self._restarts
            if self._retry_failed and made.status.state in ("failed", "stopped"):
                self._again.add(number)
        return self.work_units[number]

    def _place_of(self, previous: WorkUnit | None) -> str | None:
        """How a work unit's record names another one's folder: it may be of another experiment."""
        if previous is None:
            return None
        inside = previous.folder.parent == self.folder / "runs"
        return previous.folder.name if inside else str(previous.folder)

    def add_sweep(self, job: Any, sweep: Iterable[Any]) -> list[WorkUnit]:
        """Add a work unit for each configuration of a sweep.

        Args:
            job: a ``Job`` or a function.
            sweep: configurations, as from ``grid``, ``random`` or ``latin``.

        Returns:
            The work units.
        """
        if isinstance(sweep, (Mapping, str)):
            raise TypeError("a sweep is a list of configurations; add takes a single one")
        return [self.add(job, args) for args in sweep]

    def run(self) -> None:
        """Run all work units that are not finished, and wait for them."""
        self.wait(self.work_units.values())
        failed = [u.work_unit_id for u in self.work_units.values() if u.status.state == "failed"]
        if failed:
            self._say(f"{len(failed)} of {len(self.work_units)} failed: {failed[:20]}")

    def wait(self, units: Iterable[WorkUnit]) -> None:
        """Wait until some work units are finished, while all are worked on.

        Args:
            units: the work units.
        """
        self._check_open()
        wanted = {unit.work_unit_id for unit in units}
        pause = _POLL_SECONDS[0]
        try:
            while True:
                changed = self._collect()
                changed |= self._start_ready()
                if wanted <= self._done:
                    return
                pause = _POLL_SECONDS[0] if changed else min(pause * 1.3, _POLL_SECONDS[1])
                time.sleep(pause)
        except BaseException:
            self._abandon()
            raise

    def best(self, metric: str, mode: str = "min") -> WorkUnit:
        """The completed work unit whose metric is best.

        Args:
            metric: the metric's name.
            mode: ``"min"`` or ``"max"``.
        """
        units = [unit for unit in self.work_units.values() if unit.status.state == "completed"]
        scored = ranked(units, metric, mode)
        if not scored or math.isnan(scored[0].metric(metric)):
            raise LaunchError(f"no completed work unit has the metric {metric!r}")
        return scored[0]

    # What the loop does.

    def _check_open(self) -> None:
        if self._lock is None:
            raise LaunchError(f"the experiment in {self.folder} is closed")

    def _executor(self, unit: WorkUnit) -> Executor:
        return unit.job.executor or self.executor

    def _say(self, line: str) -> None:
        if self._verbose:
            print(f"{self.title}: {line}", file=sys.stderr, flush=True)

    def _collect(self) -> bool:
        """Look after the workers that run; whether one has ended."""
        ended = False
        for number, active in list(self._active.items()):
            limit = self._executor(active.unit).timeout
            code = active.handle.poll()
            if code is None and limit and time.monotonic() - active.began > limit:
                active.handle.stop()
                runs.end_as(active.unit.folder, "failed", f"ran longer than {limit:g} seconds")
                code = active.handle.poll()
            if code is not None:
                ended = True
                del self._active[number]
                self._settle(active, code)
        return ended

    def _settle(self, active: _Active, code: int) -> None:
        """Record how a worker ended, and whether its run is to be begun again."""
        unit, number = active.unit, active.unit.work_unit_id
        if not (code == worker.REFUSED or active.adopted):
            runs.record_end(unit.folder, active.after, code)
        elif active.adopted and unit.status.state == "interrupted":
            runs.record_end(unit.folder, active.after, None)
        (unit.folder / "submission.json").unlink(missing_ok=True)
        status = unit.status
        if status.is_finished:
            self._finish(unit, status)
        elif status.state == "interrupted" and not active.adopted:
            self._left[number] -= 1
            if self._left[number] < 0:
                self._say(f"{number:04} was interrupted too often: {status.error}")
                self._done.add(number)

    def _finish(self, unit: WorkUnit, status: runs.Status) -> None:
        self._done.add(unit.work_unit_id)
        took = f" in {status.ended - status.started:.1f} s" if status.ended else ""
        error = f": {status.error}" if status.error else ""
        share = f"[{len(self._done)}/{len(self.work_units)}]"
        self._say(f"{share} {unit.work_unit_id:04} {status.state}{took}{error}")

    def _start_ready(self) -> bool:
        """Start what waits, as far as executors have room; whether anything was."""
        started = False
        running: dict[Executor, int] = {}
        for active in self._active.values():
            place = self._executor(active.unit)
            running[place] = running.get(place, 0) + 1
        for number, unit in self.work_units.items():
            if number in self._active or number in self._done:
                continue
            executor = self._executor(unit)
            room = executor.capacity
            if room is not None and running.get(executor, 0) >= room:
                continue
            if self._start(unit, executor):
                running[executor] = running.get(executor, 0) + 1
                started = True
        return started

    def _start(self, unit: WorkUnit, executor: Executor) -> bool:
        """Start a worker, or find the one that an earlier launcher started."""
        number, status = unit.work_unit_id, unit.status
        if status.is_finished and number not in self._again:
            self._done.add(number)
            return False
        self._again.discard(number)
        submitted = worker.read_json(unit.folder / "submission.json") or {}
        fresh = status.state == "running" or submitted.get("after") == status.attempts
        handle = executor.adopt(unit.folder, submitted.get("handle", {})) if fresh else None
        if handle is not None:
            after = submitted.get("after", status.attempts - 1)
            self._active[number] = _Active(unit, handle, after, time.monotonic(), adopted=True)
            return True
        if status.state == "interrupted":
            runs.record_end(unit.folder, status.attempts - 1, None)
        if self._launch is None:
            self._launch = records.begin_launch(self.folder, self._source)
        task = Task(
            unit.folder,
            self._launch,
            status.attempts,
            os.urandom(8).hex(),
            f"{self.title}-{number:04}",
            unit.job.env_vars,
        )
        handle = executor.start(task)
        if described := handle.record():
            submission = {"after": task.after, "token": task.token, "handle": described}
            worker.write_json(unit.folder / "submission.json", submission)
        self._active[number] = _Active(unit, handle, task.after, time.monotonic())
        return True

    def _stop(self, unit: WorkUnit) -> None:
        self._check_open()
        number = unit.work_unit_id
        active = self._active.pop(number, None)
        if active is not None:
            active.handle.stop()
        runs.end_as(unit.folder, "stopped", "stopped by the launcher")
        self._done.add(number)

    def _abandon(self) -> None:
        """End all workers, so that the next launch takes their runs up again."""
        for active in self._active.values():
            active.handle.stop()
            runs.end_as(active.unit.folder, "interrupted", "the launcher was interrupted")
        self._active.clear()


def ranked(units: Iterable[WorkUnit], metric: str, mode: str) -> list[WorkUnit]:
    """Work units by a metric, best first; those without a number come last."""
    if mode not in ("min", "max"):
        raise ValueError(f"mode must be 'min' or 'max', not {mode!r}")

    def order(unit: WorkUnit) -> tuple[bool, float]:
        value = unit.metric(metric)
        return math.isnan(value), value if mode == "min" else -value

    return sorted(units, key=order)


def create_experiment(
    folder: str | os.PathLike[str],
    *,
    title: str = "",
    executor: Executor | None = None,
    restarts: int = 2,
    retry_failed: bool = False,
    source: str | os.PathLike[str] | None = None,
    verbose: bool = True,
) -> Experiment:
    """Return an experiment in a folder; one that is there already is taken up again.

    Work units that are finished are not run again. Those that were interrupted are begun again
    in the same folder, so that they can go on from their checkpoints.

    Args:
        folder: where it lives.
        title: for people; the folder's name by default.
        executor: where jobs run that name no other; ``Local()`` by default.
        restarts: how often a worker that was killed is started again by one launcher.
        retry_failed: whether work units that failed or were stopped are begun again.
        source: a folder of the git repository whose commit and changes are recorded; the current
            folder by default.
        verbose: whether a line is printed when a work unit ends.

    Returns:
        An ``Experiment``, for use in ``with``.

    Example:
        >>> import tempfile
        >>> from weft.train import launch
        >>> folder = tempfile.mkdtemp()
        >>> with launch.create_experiment(folder, verbose=False) as experiment:
        ...     unit = experiment.add(launch.Command(["echo"]), {"rate": 0.1})
        >>> unit.status.state, (unit.folder / "attempts" / "1" / "stdout.txt").read_text()
        ('completed', '--rate=0.1\\n')
    """
    return Experiment(
        folder,
        title=title,
        executor=executor,
        restarts=restarts,
        retry_failed=retry_failed,
        source=source,
        verbose=verbose,
    )
