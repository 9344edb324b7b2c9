"""The processes that measurements run in: one for each library, and new ones for whole runs."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pkgutil
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.rows import COMPILED_TORCH, JAX_CUDNN, OTHER_WEFT, XLA

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = {
    "jax": ("jax", "WEFT_BENCH_PEER", ".venv-oracle"),
    JAX_CUDNN: ("jax", "WEFT_BENCH_PEER", ".venv-oracle"),
    "torch": ("torch", "WEFT_BENCH_TORCH", ".venv-torch"),
    COMPILED_TORCH: ("torch", "WEFT_BENCH_TORCH", ".venv-torch"),
    "DataLoader": ("torch", "WEFT_BENCH_TORCH", ".venv-torch"),
    "grain": ("grain", "WEFT_BENCH_GRAIN", ".venv-grain"),
}
START = 120.0  # seconds that a library may take to be imported


def python_of(library: str) -> str | None:
    """The Python that has a library, or None.

    JAX, torch and grain live in environments of their own: ``WEFT_BENCH_PEER``,
    ``WEFT_BENCH_TORCH`` and ``WEFT_BENCH_GRAIN`` name their Pythons, else ``.venv-oracle``,
    ``.venv-torch`` and ``.venv-grain`` at the root of the project are looked for, else this Python.
    """
    if library == XLA:
        return sys.executable if plugin() else None
    if library not in PYTHONS:
        return sys.executable
    module, variable, folder = PYTHONS[library]
    named = os.environ.get(variable)
    if named:
        return named
    usual = ROOT / folder / "bin" / "python"
    if usual.exists():
        return str(usual)
    return sys.executable if importlib.util.find_spec(module) else None


def plugin() -> str | None:
    """The PJRT plugin that is XLA: ``WEFT_BENCH_PLUGIN``, else an installed one for GPUs."""
    named = os.environ.get("WEFT_BENCH_PLUGIN")
    if named:
        return named
    spec = importlib.util.find_spec("jax_plugins")
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    found = [module.name for module in pkgutil.iter_modules(places)]
    return next((name for name in sorted(found, reverse=True) if "cuda" in name), None)


def environment(cache: str | None = None, devices: int = 1, gpu: bool = False) -> dict[str, str]:
    """The same for all: the CPU, no messages, byte code kept as Python does by itself.

    ``cache`` is a folder for the caches on disk of weft and JAX; by default JAX has none.
    ``devices`` is how many the processor is shown as. With ``gpu`` it is the GPU that computes,
    whose memory JAX takes as it needs it, so that all libraries fit.
    """
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    settings = {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}
    settings["WEFT_BACKEND"] = os.environ.get("WEFT_BACKEND", "native")
    if gpu:
        for name in ("JAX_PLATFORMS", "WEFT_BACKEND"):
            settings.pop(name)
            kept.pop(name, None)
        settings["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    if devices > 1:
        settings["WEFT_NUM_CPU_DEVICES"] = str(devices)
        settings["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    if cache is not None:
        settings |= {
            "WEFT_CACHE": cache,
            "JAX_COMPILATION_CACHE_DIR": cache,
            "TORCHINDUCTOR_CACHE_DIR": os.path.join(cache, "inductor"),
            "TRITON_CACHE_DIR": os.path.join(cache, "triton"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
    return {**kept, **settings}


class Failure(Exception):
    """A library did not finish a row: the text says why."""


class Peer:
    """A process that has one library loaded and times rows; a new one follows one that died."""

    def __init__(self, library: str, python: str) -> None:
        self.library = library
        self.python = python
        self.process: subprocess.Popen[bytes] | None = None
        self.about: Any = None
        self.messages: Any = None
        self.kind: Any = None

    def environment(self, *settings: Any) -> dict[str, str]:
        """The environment of a process with the library."""
        more = {"WEFT_PLATFORMS": plugin() or ""} if self.library == XLA else {}
        return environment(*settings) | more

    def start(self, devices: int = 1, gpu: bool = False) -> subprocess.Popen[bytes]:
        """Begin the process, if there is none that shows so many devices, or the GPU."""
        if self.process is not None and (devices, gpu) != self.kind:
            self.close()
        if self.process is None:
            self.kind = (devices, gpu)
            self.messages = tempfile.TemporaryFile()
            self.process = subprocess.Popen(
                [self.python, "-m", "bench.worker", self.library],
                cwd=ROOT,
                env=self.environment(None, devices, gpu),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.messages,
            )
            self.about = self._answer(START)
        return self.process

    def _answer(self, limit: float) -> Any:
        process = self.process
        assert process is not None and process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], max(limit, 0.1))
        if not ready:
            self._end(process)
            raise Failure(f"over {limit:.0f} s")
        line = process.stdout.readline()
        if not line:
            said = self._last_message()
            self._end(process)
            raise Failure(f"the process ended with {process.returncode}: {said}")
        answer = json.loads(line)
        if "error" in answer:
            raise Failure(answer["error"])
        return answer

    def _last_message(self) -> str:
        self.messages.seek(0)
        lines = self.messages.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else ""

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, self.messages):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.process = None

    def time(self, suite: str, row: Any, seconds: float, limit: float, result: str | None) -> Any:
        """The best CPU and wall seconds of some calls."""
        if row.kind == "process":
            other = os.environ["WEFT_BENCH_OTHER"] if self.library == OTHER_WEFT else None
            return run_once(self.python, row.setups[self.library], other)
        if row.kind != "call":
            return first_call(self, suite, row, limit)
        process = self.start(row.devices, row.gpu)
        assert process.stdin is not None
        request = {"suite": suite, "name": row.name, "seconds": seconds, "result": result}
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        return self._answer(limit)["best"]

    def close(self) -> None:
        process = self.process
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            self._end(process)


def run_once(python: str, text: str, folder: str | None = None) -> list[float]:
    """CPU and wall seconds of a new process that runs a Python text, with weft of a folder."""
    root = folder or str(ROOT)
    start = time.perf_counter()
    process = subprocess.Popen(
        [python, "-c", text], cwd=root, env={**environment(), "PYTHONPATH": root}
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{python} -c {text!r} failed")
    return [usage.ru_utime + usage.ru_stime, wall]


def first_call(peer: Peer, suite: str, row: Any, limit: float) -> list[float]:
    """What a new process took for a row: seconds of the first call, or bytes at the peak."""

    def run(calls: int) -> Any:
        command = [peer.python, "-m", "bench.fresh", peer.library, suite, row.name, str(calls)]
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=peer.environment(cache, row.devices, row.gpu),
                capture_output=True,
                timeout=limit,
            )
        except subprocess.TimeoutExpired:
            raise Failure(f"over {limit:.0f} s") from None
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines() or [""]
            raise Failure(f"ended with {done.returncode}: {said[-1]}"[:200])
        return json.loads(done.stdout)

    with tempfile.TemporaryDirectory() as cache:
        if row.kind == "warm":
            run(0)
        found = run(3 if row.kind == "peak" else 0)
    return [float(found["peak"]), float(found["later"])] if row.kind == "peak" else found["first"]
