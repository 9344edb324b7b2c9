"""What a launch records: the state of the source, and the launcher's own environment."""

import importlib.metadata
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

from weft.train.launch import configs, worker

MAX_DIFF_BYTES = 10_000_000


def _git(folder: str, *arguments: str) -> bytes | None:
    try:
        done = subprocess.run(
            ["git", "-C", folder, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
            env=os.environ | {"GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def git_state(folder: str) -> tuple[dict[str, Any] | None, bytes]:
    """Commit and branch of a folder's repository, and how the files differ from the commit.

    >>> import tempfile
    >>> git_state(tempfile.mkdtemp())
    (None, b'')
    """
    top = _git(folder, "rev-parse", "--show-toplevel")
    commit = _git(folder, "rev-parse", "HEAD")
    if top is None or commit is None:
        return None, b""
    root = os.fsdecode(top).rstrip("\n")
    branch = _git(root, "rev-parse", "--abbrev-ref", "HEAD") or b""
    diff = _git(root, "diff", "--no-ext-diff", "--no-color", "--binary", "HEAD") or b""
    others = _git(root, "ls-files", "--others", "--exclude-standard", "-z") or b""
    untracked = [os.fsdecode(name) for name in others.split(b"\0") if name]
    state = {
        "commit": commit.decode().strip(),
        "branch": branch.decode(errors="replace").strip(),
        "changed": bool(diff),
        "diff_bytes": len(diff),
        "untracked": [name.encode("utf-8", "replace").decode() for name in untracked[:1000]],
    }
    return state, diff[:MAX_DIFF_BYTES]


def installed_versions() -> dict[str, str]:
    """The installed packages and their versions."""
    found = {}
    for one in importlib.metadata.distributions():
        name = one.metadata["Name"] if one.metadata else None
        if name:
            found[str(name)] = str(one.version)
    return dict(sorted(found.items()))


def begin_launch(folder: pathlib.Path, source: str) -> pathlib.Path:
    """Record a launch of an experiment in a folder of its own; the launcher's lock is held."""
    launches = folder / "launches"
    launches.mkdir(exist_ok=True)
    numbers = [int(path.name) for path in launches.iterdir() if path.name.isdecimal()]
    made = launches / str(max(numbers, default=0) + 1)
    made.mkdir()
    git, diff = git_state(source)
    if diff:
        (made / "diff.patch").write_bytes(diff)
        assert git is not None
        git["diff"] = f"launches/{made.name}/diff.patch"
    record = {
        "started": time.time(),
        "pid": os.getpid(),
        "argv": [arg.encode("utf-8", "replace").decode() for arg in sys.argv],
        "sys_path": [os.path.abspath(path) for path in sys.path],
        "main_file": configs.main_file(),
        "git": git,
        "environment": worker.environment(),
        "installed": installed_versions(),
    }
    worker.write_json(made / "launch.json", record)
    return made
