"""Runs programs under NVIDIA's compute-sanitizer: `./weft-test --cuda --sanitize`.

Samples of the laws and generated programs (`tests/backends/cuda/sanitized.py`) run once for each of
its tools: accesses outside of memory, races in shared memory, barriers that threads miss, and reads
of memory that nothing has written. The last one doesn't see what kernels of libraries write by the
copy engines of Hopper GPUs, so programs with such kernels are left out there. What it finds is
listed by kernel. Kernels of NVIDIA's libraries are counted apart: they aren't ours to mend.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
# Kernels of weft end in digits of their text.
_OURS = re.compile(r"_[0-9a-f]{8}$")
_LINE = re.compile(r"^=+ ?(.*)$")
_HEAD = re.compile(
    r"^(Invalid|Uninitialized|Barrier error|Error: |Warning: |Race reported|Potential|Program hit|"
    r"Leaked|Unused|Divergent|Missing wait)"
)
_AT = re.compile(r"\bat (?:0x[0-9a-f]+ in )?(?:void )?([A-Za-z_]\w*)(?:\(|<|\+0x| in |$)")
_TOLD = ("--print-limit", "20000", "--show-backtrace", "no")
# Libraries whose programs are left out: initcheck doesn't see what copy engines write, and others
# take many minutes to load cuFFT.
_WITHOUT = {
    "memcheck": ("cufft",),
    "racecheck": (),
    "synccheck": ("cufft",),
    "initcheck": ("cublas", "cudnn", "cusolver", "cufft", "cusparse"),
}
_NUMBERS = re.compile(r"\b(?:0x[0-9a-f]+|\d+)\b")


def findings(text: str) -> Counter[tuple[str, str]]:
    """What a log says was wrong: the kernel and the kind of fault, and how often."""
    found: Counter[tuple[str, str]] = Counter()
    kind, kernel = "", ""
    for line in [*text.splitlines(), "========="]:
        match = _LINE.match(line)
        said = match[1].strip() if match else ""
        if match and _HEAD.match(said):
            if kind:
                found[kernel or "?", kind] += 1
            kind, kernel = _kind(said), ""
            said = said[said.find(" at ") :] if " at " in said else ""
        place = _AT.search(said) if kind and not kernel else None
        if place:
            kernel = place[1]
        if match and not match[1].strip() and kind:
            found[kernel or "?", kind] += 1
            kind, kernel = "", ""
    return found


def _kind(said: str) -> str:
    """A fault without its numbers, the same for all threads."""
    return _NUMBERS.sub("n", said.partition(" at ")[0]).rstrip(". ")[:80]


def report(tool: str, found: Counter[tuple[str, str]]) -> tuple[str, int]:
    """Lines about what a tool found, and how many faults are in kernels of ours."""
    lines, ours, theirs = [], 0, 0
    for (kernel, kind), count in found.most_common():
        if _OURS.search(kernel) or kernel == "?":
            ours += count
            lines.append(f"  {kernel}: {kind}, {count} times")
        else:
            theirs += count
    head = f"{tool}: {ours} faults in {len(lines)} kinds" if ours else f"{tool}: no faults"
    rest = f" ({theirs} in kernels of libraries)" if theirs else ""
    return "\n".join([head + rest, *lines]), ours


def sanitizer() -> str | None:
    """Where compute-sanitizer is: on the path, or in the toolkit that CUDA_HOME names."""
    found = Path(os.environ.get("CUDA_HOME", ""), "bin", "compute-sanitizer")
    return shutil.which("compute-sanitizer") or (str(found) if found.exists() else None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=TOOLS)
    parser.add_argument("--samples", default="200", help="samples of the laws (200)")
    parser.add_argument("--programs", default="250", help="generated programs (250)")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--seconds", default="1800", help="that each tool's programs may take")
    parser.add_argument("--logs", type=Path, help="where to keep what the sanitizer said")
    options = parser.parse_args()
    command = sanitizer()
    if command is None:
        print("sanitize: skipped, compute-sanitizer is not installed (it comes with CUDA)")
        return 0
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        logs = options.logs or Path(folder)
        logs.mkdir(parents=True, exist_ok=True)
        for tool in options.tools:
            log = logs / f"{tool}.log"
            child = [sys.executable, "-m", "tests.backends.cuda.sanitized"]
            for name in ("samples", "programs", "seed", "seconds"):
                child += [f"--{name}", getattr(options, name)]
            told = ["--tool", tool, "--log-file", str(log), *_TOLD]
            if tool == "memcheck":  # libraries ask the driver for things that may not be there
                told += ["--report-api-errors", "no"]
            child += ["--without", *_WITHOUT[tool]]
            done = subprocess.run([command, *told, *child], cwd=ROOT, check=False)
            text, ours = report(tool, findings(log.read_text() if log.exists() else ""))
            print(text, flush=True)
            wrong += ours
            if not log.exists():
                print(f"{tool}: no log, ended with {done.returncode}")
                wrong += 1
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
