"""Command line: ``python -m bench [SUITE ...] [--rows TEXT] [--quick] [--json FILE]``.

Every round times each row in each library's process in turn, so that a busy moment of the machine
hits all alike; the best of all rounds is shown. ``--publish`` writes docs/benchmarks.md from the
records in bench/history.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import json
import os
import shlex
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

from bench import publish
from bench.broad import run as broad
from bench.compare import disagreement
from bench.peers import Failure, Peer, python_of
from bench.rows import COMPILED_TORCH, OTHER_WEFT, beside_other, names
from bench.sweep_table import sweep_text
from bench.table import CLOCKS, Result, losses, record, save, summary, text

SUITES = (
    "trace",
    "compiled",
    "variants",
    "programs",
    "compile",
    "memory",
    "networks",
    "examples",
    "shapes",
    "optim",
    "image",
    "parallel",
    "data",
    "debugging",
    "cuda",
    "pjrt",
    "sweep",
)
# Left out where no suite is named: one takes as long as all others, two need a GPU.
LONG = ("sweep", "cuda", "pjrt")
BRIEF_ROUNDS, BRIEF_SECONDS = 2, 0.01
SAMPLED = 4  # a quick sweep has one call of so many
SAVED = 50  # brief rows after which the figures so far are written


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}")
    parser.add_argument(
        "--rows", "--row", action="append", help="only rows with this in their name; * and ? match"
    )
    parser.add_argument("--rounds", type=int, help="how often each row is timed in turn (6)")
    parser.add_argument("--seconds", type=float, help="how long a round of a row lasts (0.1)")
    parser.add_argument("--limit", type=float, help="seconds a library may spend on a row")
    parser.add_argument("--quick", action="store_true", help="few rounds, no compiled torch")
    parser.add_argument("--clock", choices=CLOCKS, help="what is shown, instead of each row's own")
    parser.add_argument("--json", type=Path, help="where the figures go as well")
    parser.add_argument("--only", action="append", help="only these libraries")
    parser.add_argument("--beside", type=Path, help="a folder with another version of weft")
    parser.add_argument("--losses", action="store_true", help="the rows over their target, again")
    parser.add_argument("--broad", action="store_true", help="generated programs, by weft and JAX")
    parser.add_argument("--seed", type=int, default=0, help="of generated programs (0)")
    parser.add_argument("--times", type=int, default=1, help="how often each is drawn (1)")
    parser.add_argument("--every", type=int, default=1, help="only one of so many programs (1)")
    parser.add_argument("--worst", type=int, help="print only so many generated programs")
    parser.add_argument(
        "--record",
        type=Path,
        nargs="?",
        const=True,
        help="add the run, or one saved with --json in FILE, to bench/history",
        metavar="FILE",
    )
    parser.add_argument(
        "--publish",
        action="store_true",
        help="write docs/benchmarks.md from bench/history; suites that are named run first",
    )
    parser.add_argument("--list", action="store_true", help="only name the rows")
    options = parser.parse_args()
    unknown = set(options.suites) - set(SUITES)
    if unknown:
        parser.error(f"no suite {', '.join(unknown)}: there are {', '.join(SUITES)}")
    if options.rows and (options.record or options.publish):
        parser.error("only whole suites are recorded and published: leave --rows out")
    if options.beside:
        if not (options.beside / "weft" / "__init__.py").exists():
            parser.error(f"there is no version of weft in {options.beside}")
        os.environ["WEFT_BENCH_OTHER"] = str(options.beside.resolve())
        options.only = ["weft", OTHER_WEFT, *(options.only or [])]
    options.rounds = options.rounds or (2 if options.quick else 6)
    options.seconds = options.seconds or (0.03 if options.quick else 0.1)
    return options


def select(options: argparse.Namespace) -> list[tuple[str, Any]]:
    """The rows asked for, each with its suite."""
    patterns = [f"*{pattern}*" for pattern in options.rows or [""]]
    return [
        (suite, beside_other(row) if options.beside else row)
        for suite in options.suites or [suite for suite in SUITES if suite not in LONG]
        for row in importlib.import_module(names(suite)).ROWS
        if any(fnmatch.fnmatch(row.name, pattern) for pattern in patterns)
        if not (row.brief and options.quick and not options.rows) or _is_sampled(row.name)
    ]


def _is_sampled(name: str) -> bool:
    """Whether a brief row is one of those that stand for all, with all forms of its call."""
    return zlib.crc32(name.rpartition(")")[0].encode()) % SAMPLED == 0


def find_peers(rows: list[tuple[str, Any]], options: argparse.Namespace) -> dict[str, Peer]:
    """The libraries that take part; a process starts when its first row comes."""
    peers = {}
    for library in dict.fromkeys(name for _, row in rows for name in row.libraries):
        left_out = options.only and library not in options.only
        if left_out or (options.quick and library == COMPILED_TORCH):
            continue
        python = python_of(library)
        if python is None:
            print(f"{library} is not installed: see bench/README.md", file=sys.stderr)
        else:
            peers[library] = Peer(library, python)
    return peers


def one_round(
    result: Result,
    peers: dict[str, Peer],
    spent: dict[str, float],
    options: argparse.Namespace,
    folder: Path,
) -> bool:
    """Time the row once in each library that has time left; whether any figure got better."""
    row, better = result.row, False
    limit = options.limit or row.limit
    for library in spent:
        left = limit - spent[library]
        if library in result.failed or (library in result.best and left < limit / 4):
            continue
        compared = row.tolerance is not None and not (row.brief and library == "numpy")
        kept = str(folder / f"{library}.npz") if compared else None
        seconds = min(options.seconds, BRIEF_SECONDS) if row.brief else options.seconds
        start = time.perf_counter()
        try:
            if row.kind == "call":
                peers[library].start(row.devices, row.gpu)
                start = time.perf_counter()  # being imported is not what a row is charged for
            found = peers[library].time(result.suite, row, seconds, left, kept)
        except Failure as failure:
            if library not in result.best:
                result.failed[library] = str(failure)
            continue
        finally:
            spent[library] += time.perf_counter() - start
        found = [figure / row.per for figure in found]
        known = result.best.setdefault(library, found)
        better |= found[result.clock] < 0.97 * known[result.clock]
        result.best[library] = [min(a, b) for a, b in zip(known, found, strict=True)]
    return better


def measure(
    suite: str, row: Any, peers: dict[str, Peer], options: argparse.Namespace, folder: Path
) -> Result:
    """Rounds over the libraries: more of them, up to thrice, while figures still get better."""
    result = Result(suite, row, clock=CLOCKS.index(options.clock or row.clock))
    spent = dict.fromkeys((name for name in row.libraries if name in peers), 0.0)
    least = (
        1
        if row.kind == "peak"
        else (options.rounds if row.kind == "call" else min(options.rounds, 3))
    )
    most = 3 * least if row.kind == "call" else least
    patience = 2
    if row.brief:
        least, most = (1, 1) if options.quick else (BRIEF_ROUNDS, 2 * BRIEF_ROUNDS)
        patience = 1
    number = better = 0
    while number < least or (number < most and better >= number - patience):
        if one_round(result, peers, spent, options, folder):
            better = number
        number += 1
    reference = result.reference()
    for library in result.best:
        if reference in result.best and library != reference:
            said = disagreement(row, folder / f"{library}.npz", folder / f"{reference}.npz")
            if said:
                result.wrong[library] = said
    return result


def command_line() -> str:
    """The command as a reader would repeat it, without where its figures go."""
    words, skipped = [], False
    for word in sys.argv[1:]:
        if not (skipped or word in ("--publish", "--record") or word.startswith("--json")):
            words.append(word)
        skipped = word == "--json"
    return shlex.join(["python", "-m", "bench", *words])


def main() -> None:
    options = arguments()
    if isinstance(options.record, Path):
        publish.record(json.loads(options.record.read_text()))
    elif options.broad:
        broad.compare(options, command_line())
    elif options.suites or not options.publish:
        run(options)
    if options.publish:
        publish.publish()


def run(options: argparse.Namespace) -> None:
    """Measure the rows asked for, show them, and keep them where they are to be kept."""
    rows = select(options)
    if options.list:
        print("\n".join(f"{suite}: {row.name} ({row.about})" for suite, row in rows))
        return
    peers = find_peers(rows, options)
    results = []
    try:
        for suite, row in rows:
            with tempfile.TemporaryDirectory() as folder:
                results.append(measure(suite, row, peers, options, Path(folder)))
            if sys.stderr.isatty():
                print(".", end="", file=sys.stderr, flush=True)
            if options.json and (not row.brief or len(results) % SAVED == 0):
                save(options.json, results, _versions(peers), command_line())
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)  # what has been measured is shown all the same
    finally:
        for peer in peers.values():
            peer.close()
    swept = [result for result in results if result.row.brief]
    others = [result for result in results if not result.row.brief]
    if others:
        print(text(others, list(peers)) + "\n\n" + summary(others))
    if swept:
        print(sweep_text(swept))
    if options.losses and losses(others):
        print("\nover their target, the worst first\n" + text(losses(others), list(peers)))
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    if busy > 0.7:
        print(f"load {busy:.1f} a core: budgets are meant for an idle machine; ratios hold better")
    if options.json:
        save(options.json, results, _versions(peers), command_line())
    if options.record or options.publish:
        publish.record(record(results, _versions(peers), command_line()))


def _versions(peers: dict[str, Peer]) -> dict[str, Any]:
    return {name: peer.about for name, peer in peers.items()}


if __name__ == "__main__":
    main()
