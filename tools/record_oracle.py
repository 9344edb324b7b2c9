"""Make the recorded answers of JAX anew (needs the ``oracle`` extra).

``python tools/record_oracle.py [--family lax_unary]`` writes ``tests/oracle/data``.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.oracle import harness
from tests.oracle.table import FAMILIES, Case

# What JAX leaves open or its CPU backend lacks binds nobody: such modes are not recorded.
OPEN = ("NotImplementedError", "JaxRuntimeError", "XlaRuntimeError", "AssertionError", "KeyError")
# Errors from inside, not about what was given; the class of a refusal is then left open.
ACCIDENTS = ("AttributeError", "UnboundLocalError", "RecursionError", "OverflowError")
OPENED = harness.Outcome(error=harness.OPEN)


def record_case(runner: harness.Runner, case: Case, verbose: bool, have: dict) -> dict | None:
    """All modes of one case, or nothing where the case itself is not as declared."""
    modes = {}
    runner.asked.seen.clear()
    for mode in harness.expand_modes(case):
        if mode == "jit" and not has_arrays(modes["value"]):
            continue
        outcome = have.get(mode) or runner.run(case, mode)
        if outcome.error and mode == "value" and not case.error:
            print(f"  {case.id}: unexpected {outcome.error}: {outcome.message[:300]}")
            return None
        if mode == "value" and case.error is True and not outcome.error:
            print(f"  {case.id}: should be an error, returned {harness.brief(outcome)[:200]}")
            return None
        if outcome.error in ACCIDENTS and case.error == "maybe":
            outcome = replace(outcome, error=harness.REFUSED)
        if outcome.error in OPEN and case.error is not True:
            if mode == "value" and case.error == "maybe":
                return {"crc": case.crc(), "uses": [], "modes": {mode: OPENED}}
            if mode == "value":
                print(f"  {case.id}: left out, {outcome.error} {outcome.message[:200]}")
                return None
            if verbose:
                print(f"  {case.id} [{mode}]: left out, {outcome.error} {outcome.message[:200]}")
            continue
        if outcome.error and mode != "value" and verbose:
            print(f"  {case.id} [{mode}]: {outcome.error} {outcome.message[:200]}")
        modes[mode] = outcome
        if outcome.error and mode == "value":
            break
    names = harness.about(case, runner.asked.seen)
    return {"crc": case.crc(), "uses": names, "modes": modes}


def has_arrays(value: harness.Outcome) -> bool:
    """Whether a program has anything to compute: texts and numbers of Python are not staged."""
    return any(leaf.array is not None for leaf in value.leaves)


def stored(record: harness.Record, case: Case) -> dict | None:
    """What an earlier run recorded for the same arguments."""
    entry = record.entry(case)
    if entry is None or entry["crc"] != case.crc():
        return None
    modes = {mode: record.outcome(row) for mode, row in entry.items() if mode not in harness.NOTES}
    return {"crc": entry["crc"], "uses": entry["uses"], "modes": modes}


def record_family(runner: harness.Runner, name: str, options: argparse.Namespace) -> int:
    start = time.perf_counter()
    cases, outcomes = FAMILIES[name].cases(), {}
    record = harness.Record(name)
    for number, case in enumerate(cases):
        if number % 600 == 599:
            runner.J.clear_caches()
        keep = options.missing or (options.case and not case.id.startswith(options.case))
        have = (stored(record, case) if keep else None) or {}
        entry = record_case(runner, case, options.verbose, have.get("modes", {}))
        if entry is not None:
            entry["uses"] = have.get("uses", entry["uses"])
            outcomes[case.id] = entry
    size = harness.store(name, outcomes)
    seconds = time.perf_counter() - start
    print(
        f"{name}: {len(outcomes)} of {len(cases)} cases, {size / 1024:.0f} kB, {seconds:.0f} s",
        flush=True,
    )
    return len(cases) - len(outcomes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", action="append", help="a family's name or prefix")
    parser.add_argument("--verbose", action="store_true", help="also print the modes left out")
    parser.add_argument("--missing", action="store_true", help="keep what is there and not stale")
    parser.add_argument("--case", help="record anew only the cases whose name starts so")
    options = parser.parse_args()
    harness.environment()
    runner = harness.Runner("jax")
    wanted = [options.case.partition("/")[0]] if options.case else options.family
    names = harness.select(wanted)
    return 1 if sum(record_family(runner, name, options) for name in names) else 0


if __name__ == "__main__":
    sys.exit(main())
