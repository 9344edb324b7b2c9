"""The processes that measurements run in: one for each library, and new ones for whole runs."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def python_of(library: str) -> str | None:
    """The Python that has a library, or None.

    JAX lives in an environment of its own: ``WEFT_BENCH_PEER`` names its Python, else
    ``.venv-oracle`` at the root of the project is looked for, else this Python.
    """
    if library != "jax":
        return sys.executable
    named = os.environ.get("WEFT_BENCH_PEER")
    if named:
        return named
    usual = ROOT / ".venv-oracle" / "bin" / "python"
    if usual.exists():
        return str(usual)
    return sys.executable if importlib.util.find_spec("jax") else None


def environment() -> dict[str, str]:
    """The same for all: the CPU, no messages, byte code kept as Python does by itself."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    settings = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
    return {**kept, **settings, "PYTHONPATH": str(ROOT)}


class Peer:
    """A process that has one library loaded and times rows."""

    def __init__(self, library: str, python: str) -> None:
        self.library = library
        self.python = python
        self.process = subprocess.Popen(
            [python, "-m", "bench.worker", library],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.about = self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self.library} ({self.python}) ended")
        return json.loads(line)

    def time(self, suite: str, row: Any, repeats: int) -> list[list[float]]:
        if row.kind == "process":
            return [run_once(self.python, row.setups[self.library]) for _ in range(repeats)]
        assert self.process.stdin is not None
        request = {"suite": suite, "name": row.name, "repeats": repeats}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def run_once(python: str, text: str) -> list[float]:
    """CPU and wall seconds of a new process that runs a Python text."""
    start = time.perf_counter()
    process = subprocess.Popen([python, "-c", text], cwd=ROOT, env=environment())
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{python} -c {text!r} failed")
    return [usage.ru_utime + usage.ru_stime, wall]
