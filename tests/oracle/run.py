"""Command line: run families or one case against the record and print what disagrees.

``python -m tests.oracle.run --family lax_unary --first 5`` or ``--case 'lax_unary/sin/f32'``.
"""

import argparse
import subprocess
import sys
import time

from . import harness
from .table import FAMILIES


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", default="weft", help="weft, or jax for a self-check")
    parser.add_argument("--family", action="append", help="a family's name or prefix; repeatable")
    parser.add_argument("--case", help="run this case alone, or all that start so, with details")
    parser.add_argument("--first", type=int, default=5, help="failures to print per family")
    parser.add_argument("--every", type=int, default=1, help="run each Nth case only")
    parser.add_argument("--jobs", type=int, default=1, help="families to run at the same time")
    parser.add_argument("--list", action="store_true", help="print the families and their counts")
    return parser.parse_args()


def run_family(checker: harness.Checker, name: str, first: int, every: int = 1) -> tuple[int, int]:
    start, shown, bad = time.perf_counter(), 0, 0
    missing: set[str] = set()
    cases = FAMILIES[name].cases()[::every]
    for case in cases:
        failures = checker.check(case)
        bad += bool(failures)
        missing.update(f.missing for f in failures if f.missing)
        if failures and shown < first and not failures[0].missing:
            print(failures[0])
            shown += 1
    seconds = time.perf_counter() - start
    if missing:
        print(f"{name}: missing public names: {', '.join(sorted(missing))}")
    print(f"{name}: {len(cases) - bad}/{len(cases)} agree, {bad} fail, {seconds:.1f} s", flush=True)
    return len(cases), bad


def run_one(checker: harness.Checker, ident: str) -> int:
    bad = count = 0
    for case in FAMILIES[ident.partition("/")[0]].cases():
        if case.id != ident and not case.id.startswith(ident + "/"):
            continue
        count += 1
        entry = checker.record(case).entry(case) or {}
        for mode, row in entry.items():
            if mode not in harness.NOTES:
                record = checker.record(case)
                print(f"{case.id} [{mode}]")
                print("    want:", harness.brief(record.outcome(row)))
                print("    got: ", harness.brief(checker.runner.run(case, mode)))
        failures = checker.check(case)
        bad += bool(failures)
        for failure in failures:
            print("FAIL", failure)
    print(f"{count - bad}/{count} agree")
    return 1 if bad or not count else 0


def run_parallel(names: list[str], options: argparse.Namespace) -> int:
    waiting, running, status = list(names), [], 0
    while waiting or running:
        while waiting and len(running) < options.jobs:
            command = [sys.executable, "-m", "tests.oracle.run", "--library", options.library]
            command += ["--family", waiting.pop(0), "--first", str(options.first)]
            command += ["--every", str(options.every)]
            running.append(subprocess.Popen(command))
        done = [p for p in running if p.poll() is not None]
        status |= any(p.returncode for p in done)
        running = [p for p in running if p not in done]
        time.sleep(0.05)
    return int(status)


def main() -> int:
    options = arguments()
    harness.environment()
    names = harness.select(options.family)
    if options.list:
        counts = {name: len(FAMILIES[name].cases()) for name in names}
        for name, count in counts.items():
            print(f"{name:28} {count:6}  {FAMILIES[name].about.splitlines()[0:1]}")
        print(f"{'total':28} {sum(counts.values()):6}")
        return 0
    if options.jobs > 1 and len(names) > 1:
        return run_parallel(names, options)
    checker = harness.Checker(options.library)
    if options.case:
        return run_one(checker, options.case)
    totals = [run_family(checker, name, options.first, options.every) for name in names]
    total, bad = sum(t[0] for t in totals), sum(t[1] for t in totals)
    print(f"all: {total - bad}/{total} agree")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
