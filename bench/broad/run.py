"""Generated programs by weft and by JAX on one device: ``python -m bench cuda --broad``.

Each library has a process of its own, one after the other, so that neither waits for the other's
memory or clock. A time is that of calls that follow each other, waited for at the end, over their
number; the best of three counts. The same process as a module, ``python -m bench.broad.run``, times
one library and writes a line of JSON for each program.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.broad import arrays, layers, science, signals, training
from bench.broad.drawing import PROGRAMS, Draw, loss_of
from bench.machine import about
from bench.publish import record

FILES = (layers, science, arrays, signals, training)
# Seconds that the calls of one measurement take, about, and calls of it at most.
SPAN, MOST_CALLS = 0.02, 500
# Measurements, of which the best counts.
ROUNDS = 4
# Programs that are called for the first time before they are timed: what a library compiles in the
# background ends meanwhile.
TOGETHER = 32
# Seconds of calls before the first program: libraries go on loading after their first call.
WARM = 1.0
# How far means of results may be apart, of their mean magnitude.
APART = {"float32": 0.02, "bfloat16": 0.1}
# The suite that these programs are in the history of figures.
SUITE = "cuda-broad"


def cases(
    seed: int, times: int, wanted: str = "", every: int = 1
) -> Iterator[tuple[str, list[int], bool]]:
    """The name, seed, and whether it is a gradient of each program, in a fixed order; or of one in
    so many."""
    yield from list(_cases(seed, times, wanted))[seed % every :: every]


def _cases(seed: int, times: int, wanted: str) -> Iterator[tuple[str, list[int], bool]]:
    for number, (name, (_, grad, _)) in enumerate(PROGRAMS.items()):
        if wanted in name:
            for turn in range(times):
                yield name, [seed, number, turn], False
                if grad:
                    yield name, [seed, number, turn, 1], True


def made(m: Any, name: str, seed: list[int], grad: bool) -> tuple[Any, Any, Draw]:
    make, _, narrow = PROGRAMS[name]
    draw = Draw(seed, narrow)
    fun, args = make(m, draw)
    return (loss_of(m, fun) if grad else fun), args, draw


def _shapes(args: Any) -> str:
    leaves = [x for a in args for x in (a if isinstance(a, list) else [a])]
    texts = ["×".join(map(str, np.shape(x))) or "()" for x in leaves]
    more = f" … {len(texts)}" if len(texts) > 4 else ""
    return " ".join(texts[:4]) + more


def _summary(out: Any, leaves: Any) -> list[list[float]]:
    found = []
    for x in leaves(out)[:8]:
        a = np.asarray(x).astype(np.float64) if np.asarray(x).dtype.kind != "c" else np.abs(x)
        found.append([float(np.mean(a)), float(np.mean(np.abs(a)))] if a.size else [0.0, 0.0])
    return found


class Program:
    """A program, called for the first time; ``told`` is what is known of it, times in seconds."""

    def __init__(self, m: Any, name: str, seed: list[int], grad: bool) -> None:
        fun, args, draw = made(m, name, seed, grad)
        title = f"{name}, gradient" if grad else name
        self.m, self.args = m, m.tree.map(m.numpy.asarray, args)
        m.block_until_ready(self.args)
        self.run = m.jit(fun)
        began = time.perf_counter()
        out = m.block_until_ready(self.run(*self.args))
        first = time.perf_counter() - began
        told = {"name": title, "dtype": str(draw.dtype), "shapes": _shapes(args), "seed": seed}
        self.told = {**told, "first": first, "values": _summary(out, m.tree.leaves)}
        for _ in range(3):
            m.block_until_ready(self.run(*self.args))

    def timed(self) -> dict[str, Any]:
        """What is known of the program, with the time of a call."""
        best, count = math.inf, 3
        for _ in range(ROUNDS):
            began = time.perf_counter()
            for _ in range(count):
                out = self.run(*self.args)
            self.m.block_until_ready(out)
            took = time.perf_counter() - began
            best = min(best, took / count)
            count = max(3, min(MOST_CALLS, int(SPAN / best)))
        return {**self.told, "seconds": best}


def warm(m: Any) -> None:
    """Call something until the library has all that calls need, whatever is called."""
    run, x = m.jit(lambda x: x + 1), m.numpy.zeros(8)
    began = time.perf_counter()
    while time.perf_counter() - began < WARM:
        m.block_until_ready(run(x))


def work(library: str, seed: int, times: int, wanted: str, every: int, out: Path) -> None:
    """Time all programs of a library; a line for each."""
    m = importlib.import_module(library)
    for name in ("scipy.linalg", "image", "ops"):
        importlib.import_module(f"{library}.{name}")
    warm(m)
    wanted_cases = list(cases(seed, times, wanted, every))
    with out.open("w") as lines:
        for start in range(0, len(wanted_cases), TOGETHER):
            begun = []
            for name, key, grad in wanted_cases[start : start + TOGETHER]:
                begun.append((name, key, _tried(Program, m, name, key, grad)))
            for name, key, program in begun:
                found = program if isinstance(program, str) else _tried(program.timed)
                if isinstance(found, str):  # a program that fails is a row as well
                    found = {"name": name, "seed": key, "error": found}
                lines.write(json.dumps(found) + "\n")
                lines.flush()


def _tried(function: Any, *given: Any) -> Any:
    """The result of a function, or the text of its error."""
    try:
        return function(*given)
    except Exception as error:
        return traceback.format_exception_only(error)[-1].strip()[:300]


# --- both -----------------------------------------------------------------------------------------


def measured(library: str, options: Any) -> list[dict[str, Any]]:
    """What a process of a library measures."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "lines"
        if options.json:  # what a run that is cut off has measured so far
            out = options.json.with_suffix(f".{library}.jsonl")
        environment = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        wanted = [f"--rows={options.rows[0]}"] if options.rows else []
        command = [sys.executable, "-m", "bench.broad.run", library, "--out", str(out)]
        command += [f"--seed={options.seed}", f"--times={options.times}", *wanted]
        command += [f"--every={options.every}"]
        subprocess.run(command, env=environment, check=False)
        return [json.loads(line) for line in out.read_text().splitlines()]


def apart(ours: Any, theirs: Any) -> bool:
    """Whether two programs' results differ by more than rounding."""
    if len(ours["values"]) != len(theirs["values"]):
        return True
    limit = APART[ours["dtype"]]
    for (a, size), (b, other) in zip(ours["values"], theirs["values"], strict=True):
        if not math.isfinite(b):
            continue
        if not math.isfinite(a) or abs(a - b) > limit * max(size, other) + 1e-6:
            return True
    return False


def table(
    ours: list[dict[str, Any]], theirs: list[dict[str, Any]], worst: int | None = None
) -> str:
    """All programs, or so many of them, the slowest beside JAX first, and what they come to."""
    known = {tuple(row["seed"]): row for row in theirs}
    lines, ratios, firsts = [], [], []
    for row in ours:
        other = known.get(tuple(row["seed"]), {})
        name = f"{row['name']} {row.get('shapes', '')} {row.get('dtype', '')}"
        if "error" in row or "error" in other or not other:
            said = row.get("error") or f"JAX: {other.get('error', 'not run')}"
            lines.append((-math.inf, f"| {name} | | | | | {said} |"))
            continue
        ratio, first = row["seconds"] / other["seconds"], row["first"] / other["first"]
        ratios.append(ratio)
        firsts.append(first)
        note = "DIFFERS" if apart(row, other) else ""
        micros = f"{1e6 * row['seconds']:.1f} | {1e6 * other['seconds']:.1f}"
        lines.append((-ratio, f"| {name} | {micros} | {ratio:.2f} | {first:.2f} | {note} |"))
    lines.sort(key=lambda line: line[0])
    head = ["| program | µs | JAX µs | ratio | first calls | |", "|---|---|---|---|---|---|"]
    shown = [text for _, text in lines[:worst]]
    return "\n".join([*head, *shown, "", _summed(ratios, firsts)])


def _summed(ratios: list[float], firsts: list[float]) -> str:
    if not ratios:
        return "No program ran in both libraries."
    mean, first = (math.exp(sum(map(math.log, x)) / len(x)) for x in (ratios, firsts))
    slower, much = (sum(r > limit for r in ratios) for limit in (1.0, 1.1))
    return (
        f"{len(ratios)} programs: geometric mean {mean:.3f} of JAX's time, {slower} slower, {much}"
        f" above 1.1, at most {max(ratios):.2f}; first calls {first:.3f}, at most {max(firsts):.2f}"
    )


def compare(options: Any, command: str) -> None:
    """Time both libraries, or weft beside figures of JAX's that were kept."""
    if options.list:
        wanted = options.rows[0] if options.rows else ""
        for name, key, grad in cases(options.seed, options.times, wanted, options.every):
            print(f"{name}{', gradient' if grad else ''} {key}")
        return
    kept = options.json if options.json and options.json.exists() else None
    theirs = json.loads(kept.read_text())["jax"] if kept else measured("jax", options)
    ours = measured("weft", options)
    saved = {**about(command), "rows": rows_of(ours, theirs)}
    if options.json:
        options.json.write_text(json.dumps({**saved, "weft": ours, "jax": theirs}))
    print(table(ours, theirs, getattr(options, "worst", None)))
    if options.record or options.publish:
        record(saved)


def rows_of(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The programs as rows of the history."""
    known = {tuple(row["seed"]): row for row in theirs}
    rows = []
    for row in ours:
        other = known.get(tuple(row["seed"]), {"error": "not run"})
        name = " ".join(row[key] for key in ("name", "shapes", "dtype") if key in row)
        found: dict[str, Any] = {"suite": SUITE, "name": name, "unit": "us", "figures": {}}
        pairs = (("weft", row), ("jax", other))
        found["failed"] = {library: x["error"] for library, x in pairs if "error" in x}
        if not found["failed"]:
            found["figures"] = {library: 1e6 * x["seconds"] for library, x in pairs}
            found["ratio"] = row["seconds"] / other["seconds"]
            found["first"] = row["first"] / other["first"]
            found["note"] = "DIFFERS" if apart(row, other) else ""
        rows.append(found)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.broad.run", description=__doc__)
    parser.add_argument("library")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--rows", default="")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    chosen = options.seed, options.times, options.rows, options.every
    work(options.library, *chosen, options.out)


if __name__ == "__main__":
    main()
