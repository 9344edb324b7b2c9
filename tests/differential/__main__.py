"""Compare weft with NumPy and SciPy and print what disagrees.

``python -m tests.differential`` runs all cases, ``--only TEXT`` those with a text in their names,
``--covered`` prints how many cases use each public function.
"""

import argparse
import collections
import time

import weft
from tests.differential.coverage import UNCOVERED, all_cases, public_functions, used
from tests.differential.harness import check, doubled, groups


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with this in the name")
    parser.add_argument("--wide", action="store_true", help="with arguments of 64 bits")
    parser.add_argument("--covered", action="store_true", help="print the table of functions")
    options = parser.parse_args()
    cases = [case for case in all_cases() if options.only in case.id]
    if options.covered:
        counts = collections.Counter(f"{c.module}.{name}" for c in cases for name in used(c))
        for name in public_functions():
            print(f"{name:40} {counts[name] or UNCOVERED.get(name, 'NOT COVERED')}")
        return 0
    start, faults = time.process_time(), 0
    if options.wide:
        cases = doubled(cases)
    with weft.enable_x64(options.wide):
        for group in groups(cases):
            for case, how, wrong in check(group):
                faults += 1
                print(f"{case.id} {how}: {wrong}", flush=True)
    runs = len(cases) + sum(case.jit for case in cases)
    seconds = time.process_time() - start
    print(f"{len(cases)} cases, {runs} runs, {faults} disagree, {seconds:.0f} s of processor time")
    return int(faults > 0)


if __name__ == "__main__":
    raise SystemExit(main())
