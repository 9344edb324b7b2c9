"""How many threads compiled code may use: a knob, else what affinity and control groups allow."""

from __future__ import annotations

import os

from weft.base.functional import lru
from weft.base.knobs import thread

MAX_THREADS = 1024


def threads() -> int:
    """The number of threads that hold here: the knob ``num_threads``, else the usable cores."""
    wanted = thread.num_threads
    return usable_cores() if wanted is None else max(1, min(wanted, MAX_THREADS))


@lru(1)
def usable_cores() -> int:
    """Cores this process may run on at once, by its affinity and its control groups."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, min(cores, group_limit(), MAX_THREADS))


def group_limit(groups: str = "/proc/self/cgroup", root: str = "/sys/fs/cgroup") -> int:
    """Cores that the control groups of this process allow, rounded up; many where none says."""
    limit = float(MAX_THREADS)
    for line in _read(groups).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        if controllers:
            mounts = [f"{root}/{controllers}", f"{root}/cpu"]
        else:
            mounts = [root, f"{root}/unified"]
        for mount in mounts:
            for folder in _upwards(path):
                limit = min(limit, _quota(f"{mount}{folder}"))
    return max(1, -int(-limit // 1))


def _upwards(path: str) -> list[str]:
    """A group and the groups around it: inside a container only the last may be visible."""
    parts = [p for p in path.split("/") if p]
    return ["".join(f"/{p}" for p in parts[:n]) for n in range(len(parts), -1, -1)]


def _quota(folder: str) -> float:
    """Processor time over wall time that one group may use."""
    given = _read(f"{folder}/cpu.max").split()
    if not given:
        given = _read(f"{folder}/cpu.cfs_quota_us").split()
        given += _read(f"{folder}/cpu.cfs_period_us").split()
    try:
        quota, period = (int(word) for word in given)
    except ValueError:  # no file, or "max"
        return float(MAX_THREADS)
    return quota / period if quota > 0 and period > 0 else float(MAX_THREADS)


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read(65536)
    except OSError:
        return ""
