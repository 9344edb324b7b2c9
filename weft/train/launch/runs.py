"""The state of a run, read from its folder; launchers, reports and you read the same files."""

from __future__ import annotations

import dataclasses
import pathlib
import time
from typing import Any

from weft.train.launch import worker

FINISHED = ("completed", "failed", "stopped")


@dataclasses.dataclass(frozen=True)
class Status:
    """The status of a run.

    Args:
        state: ``pending``, ``running``, ``completed``, ``failed``, ``interrupted`` or ``stopped``.
        attempts: how often it was begun.
        code: the exit code of the last attempt.
        error: what went wrong.
        result: what the function returned.
        started: when the first attempt began, in seconds since 1970.
        ended: when the last attempt ended.

    Example:
        >>> Status("failed", attempts=1).is_finished
        True
    """

    state: str
    attempts: int = 0
    code: int | None = None
    error: str | None = None
    result: Any = None
    started: float | None = None
    ended: float | None = None

    @property
    def is_finished(self) -> bool:
        """Whether a launcher leaves it as it is."""
        return self.state in FINISHED


def status_of(folder: pathlib.Path) -> Status:
    """Return the status of the run in a folder.

    Args:
        folder: the run's folder.

    Returns:
        A ``Status``.

    Example:
        >>> import tempfile
        >>> status_of(pathlib.Path(tempfile.mkdtemp())).state
        'pending'
    """
    attempts = worker.attempt_folders(folder)
    if not attempts:
        return Status("pending")
    begun = [worker.read_json(path / "attempt.json") for path in attempts]
    started = next((one["started"] for one in begun if one and "started" in one), None)
    # looked at before exit.json: a worker that ends in between has written it by then
    alive = worker.is_locked(folder / "lock")
    ended = worker.read_json(attempts[-1] / "exit.json")
    if ended is None:
        state = "running" if alive else "interrupted"
        return Status(state, len(attempts), started=started)
    return Status(
        str(ended.get("state")),
        len(attempts),
        ended.get("code"),
        ended.get("error"),
        ended.get("result"),
        started,
        ended.get("ended"),
    )


def record_end(folder: pathlib.Path, after: int, code: int | None) -> None:
    """Write how an attempt ended that could not do so itself; no worker is alive."""
    with worker.holding(folder) as held:
        if not held:
            return
        attempts = worker.attempt_folders(folder)
        if len(attempts) == after:  # the worker did not even begin
            attempt = _unbegun(folder, after)
            # killed, as with its node, it can be begun again; what cannot start would fail again
            state = "interrupted" if code is not None and code < 0 else "failed"
            message = "the worker did not start"
            log = folder / "launch.log"
            if log.exists():
                message += ": " + log.read_text(errors="replace").strip()[-1000:]
        elif (attempts[-1] / "exit.json").exists():
            return
        else:
            attempt = attempts[-1]
            state, message = _lost_end(attempt, code)
        ended = {"state": state, "code": code, "error": message, "ended": time.time()}
        worker.write_json(attempt / "exit.json", ended)


def _unbegun(folder: pathlib.Path, after: int) -> pathlib.Path:
    """An attempt that no worker has begun, so that its end can be recorded."""
    attempt = folder / "attempts" / str(after + 1)
    attempt.mkdir(parents=True)
    begun = {"token": "", "started": time.time(), "environment": {}}
    worker.write_json(attempt / "attempt.json", begun)
    return attempt


def _lost_end(attempt: pathlib.Path, code: int | None) -> tuple[str, str]:
    """What happened to an attempt whose worker is gone: one of its ranks may have failed."""
    for path in sorted(attempt.glob("rank_*.json")):
        found = worker.read_json(path) or {}
        if found.get("state") == "failed":
            rank = path.stem.partition("_")[2]
            return "failed", f"rank {rank}: {found.get('error')}"
    if code is not None and code < 0:
        return "interrupted", f"killed by signal {-code}"
    return "interrupted", "the worker is gone and left no record"


def end_as(folder: pathlib.Path, state: str, error: str) -> None:
    """Write how the last attempt ended, in the launcher's words."""
    with worker.holding(folder) as held:
        if not held:
            return
        attempts = worker.attempt_folders(folder) or [_unbegun(folder, 0)]
        if not (attempts[-1] / "exit.json").exists():
            ended = {"state": state, "code": None, "error": error, "ended": time.time()}
            worker.write_json(attempts[-1] / "exit.json", ended)
