"""Command line: ``python -m bench [SUITE ...] [--row TEXT] [--rounds N] [--json FILE]``.

Every round times each row in each library's process in turn, so that a busy moment of the machine
hits all alike; the best of all rounds is shown.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

from bench.peers import Peer, python_of
from bench.rows import SCALE, names

SUITES = ("trace",)
RESULTS = Path(__file__).resolve().parent / "results"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}")
    parser.add_argument("--row", action="append", help="only rows with this in their name")
    parser.add_argument("--rounds", type=int, default=7, help="how often each row is timed")
    parser.add_argument("--clock", choices=("cpu", "wall"), default="cpu", help="what is shown")
    parser.add_argument("--json", type=Path, help="where the figures go (bench/results/...)")
    parser.add_argument("--only", action="append", help="only these libraries")
    options = parser.parse_args()
    unknown = set(options.suites) - set(SUITES)
    if unknown:
        parser.error(f"no suite {', '.join(unknown)}: there are {', '.join(SUITES)}")
    return options


def select(options: argparse.Namespace) -> list[tuple[str, Any]]:
    """The rows asked for, each with its suite."""
    found = []
    for suite in options.suites or SUITES:
        for row in importlib.import_module(names(suite)).ROWS:
            if not options.row or any(text in row.name for text in options.row):
                found.append((suite, row))
    return found


def open_peers(rows: list[tuple[str, Any]], only: list[str] | None) -> dict[str, Peer]:
    wanted = dict.fromkeys(library for _, row in rows for library in row.libraries)
    peers = {}
    for library in wanted:
        if only and library not in only:
            continue
        python = python_of(library)
        if python is None:
            print(f"{library} is not installed: see bench/README.md")
        else:
            peers[library] = Peer(library, python)
    return peers


def measure(rows: list[tuple[str, Any]], peers: dict[str, Peer], rounds: int) -> list[Any]:
    """For each row, the best CPU and wall seconds (per unit of work) of each library."""
    results = []
    for suite, row in rows:
        best: dict[str, list[float]] = {}
        for _ in range(rounds):
            for library in row.libraries:
                if library in peers:
                    times = peers[library].time(suite, row, 1)
                    least = [min(column) / row.per for column in zip(*times, strict=True)]
                    known = best.setdefault(library, least)
                    best[library] = [min(a, b) for a, b in zip(known, least, strict=True)]
        results.append(best)
        print(".", end="", flush=True)
    print()
    return results


def verdict(row: Any, best: dict[str, list[float]], clock: int) -> str:
    """Whether the row keeps what is allowed to it."""
    if "weft" not in best:
        return ""
    mine, notes = best["weft"][clock], []
    if row.budget is not None:
        base = best.get(row.beyond, [0.0, 0.0])[clock] if row.beyond else 0.0
        figure = (mine - base) * SCALE[row.unit]
        sign = "<=" if figure <= row.budget else "OVER"
        beyond = f" beyond {row.beyond}" if row.beyond else ""
        notes.append(f"{figure:.3g} {sign} {row.budget:g} {row.unit}{beyond}")
    peer = next((p for p in row.libraries if p != "weft" and p in best), None)
    if row.ratio is not None and peer:
        figure = mine / best[peer][clock]
        sign = "<=" if figure <= row.ratio else "OVER"
        notes.append(f"{figure:.2f} {sign} {row.ratio:g} of {peer}")
    return "; ".join(notes)


def table(rows: list[tuple[str, Any]], results: list[Any], peers: Any, clock: int) -> str:
    """The figures as text."""
    libraries = list(peers)
    others = [p for p in libraries if p != "weft"]
    header = ["", *libraries, *(f"weft/{p}" for p in others if "weft" in peers), "allowed"]
    lines = [header]
    for (_, row), best in zip(rows, results, strict=True):
        cells = [row.name]
        for library in libraries:
            seconds = best.get(library)
            shown = "" if seconds is None else f"{seconds[clock] * SCALE[row.unit]:.3g} {row.unit}"
            cells.append(shown)
        for other in others if "weft" in peers else []:
            known = other in best and "weft" in best
            ratio = best["weft"][clock] / best[other][clock] if known else None
            cells.append("" if ratio is None else f"{ratio:.2f}")
        lines.append([*cells, verdict(row, best, clock)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths)))
        for line in lines
    )


def save(path: Path, rows: Any, results: Any, peers: dict[str, Peer]) -> None:
    record = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S"),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "libraries": {name: peer.about for name, peer in peers.items()},
        "rows": [
            {
                "suite": suite,
                "name": row.name,
                "about": row.about,
                "seconds": {lib: {"cpu": c, "wall": w} for lib, (c, w) in best.items()},
            }
            for (suite, row), best in zip(rows, results, strict=True)
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")


def main() -> None:
    options = arguments()
    rows = select(options)
    peers = open_peers(rows, options.only)
    try:
        results = measure(rows, peers, options.rounds)
    finally:
        for peer in peers.values():
            peer.close()
    print(table(rows, results, peers, ("cpu", "wall").index(options.clock)))
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    if busy > 0.7:
        print(f"load {busy:.1f} a core: budgets are meant for an idle machine; ratios hold better")
    stamp = time.strftime("%Y%m%d-%H%M%S")
    save(options.json or RESULTS / f"{stamp}.json", rows, results, peers)


if __name__ == "__main__":
    main()
