"""Which machine, which commit and which versions a run of the benchmarks is of."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Names of Arm's processors by the part number in /proc/cpuinfo.
ARM_PARTS = {"0xd0c": "Neoverse-N1", "0xd40": "Neoverse-V1", "0xd49": "Neoverse-N2"}
OWN = ("numpy", "llvmlite")
PEERS = ("jax", "flax", "optax", "torch")  # of this Python, where one Python has them all


def machine() -> dict[str, Any]:
    """The processor, the cores of this process and, where there is one, the GPU."""
    found: dict[str, Any] = {"processor": processor(), "cores": cores()}
    name = gpu()
    return {**found, "gpu": name} if name else found


def cores() -> int:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def processor() -> str:
    """The model of the processor."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    named = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    part = re.search(r"^CPU part\s*:\s*(\w+)$", text, re.MULTILINE)
    if named:
        return re.sub(r"\s+", " ", re.sub(r"\((R|TM)\)|CPU|@.*", "", named[1])).strip()
    return ARM_PARTS.get(part[1], f"Arm part {part[1]}") if part else platform.machine()


@cache
def gpu() -> str | None:
    """The first NVIDIA GPU, if the driver's command shows one."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return (done.stdout.strip().splitlines() or [""])[0] or None


@cache
def commit() -> str:
    """The commit that is checked out, with a mark if files differ from it."""
    if "WEFT_BENCH_COMMIT" in os.environ:
        return os.environ["WEFT_BENCH_COMMIT"]
    try:
        name = _git("rev-parse", "--short=7", "HEAD")
        return f"{name} with changes" if _git("status", "--porcelain", "weft") else name
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def versions(libraries: dict[str, Any] | None = None) -> dict[str, str]:
    """Versions of Python, of weft's packages, and of its peers, as their workers report them."""
    found = {"python": platform.python_version()}
    for name in OWN if libraries is not None else OWN + PEERS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    for name, about in (libraries or {}).items():
        if about and about.get("version") and name != "weft":
            found[name] = about["version"]
    return found


def about(command: str, libraries: dict[str, Any] | None = None) -> dict[str, Any]:
    """What a record says of its run, rows aside."""
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": commit(),
        "command": command,
        "machine": machine(),
        "versions": versions(libraries),
    }
