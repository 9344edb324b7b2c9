"""The options of every example, and its last lines: whether the target was reached."""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

_START = time.perf_counter()


def options(doc, **more):
    """The command line of an example: --short, --seed and --out, and the numbers of ``more``."""
    parser = argparse.ArgumentParser(description=doc.split("\n\n")[0])
    parser.add_argument("--short", action="store_true", help="a small version, for tests")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="where metrics, checkpoints and pictures go")
    for name, value in more.items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    chosen = parser.parse_args()
    if chosen.out is None:
        chosen.out = Path(tempfile.mkdtemp(prefix=f"weft-{Path(sys.argv[0]).stem}-"))
    chosen.out.mkdir(parents=True, exist_ok=True)
    return chosen


def finish(
    chosen, measure, value, target, source, *, short=None, least=True, beside=None, curve=None
):
    """Print the result beside its target, keep it in result.json, and exit: 1 if it was missed.

    Args:
        measure: what ``value`` is, in a few words.
        source: where the target comes from: literature, or a baseline computed here.
        short: the target of the short version.
        least: whether ``value`` has to be at least the target; at most, if False.
        beside: numbers to compare with, by name.
        curve: the name of the metric that shows how the training went.
    """
    seconds, processor = time.perf_counter() - _START, sum(os.times()[:4])
    if chosen.short and short is not None:
        target, source = short, "short version"
    value, target = float(value), float(target)
    reached = value >= target if least else value <= target
    beside = {name: float(number) for name, number in (beside or {}).items()}
    for name, number in beside.items():
        print(f"beside it: {name} {number:.4g}")
    sign, word = "≥" if least else "≤", "reached" if reached else "NOT REACHED"
    print(f"{measure} {value:.4g}; target {sign} {target:.4g} ({source}): {word}")
    print(f"{seconds:.1f} s, {processor:.1f} s of CPU; metrics and pictures are in {chosen.out}")
    record = {
        "measure": measure,
        "value": value,
        "target": target,
        "least": least,
        "source": source,
        "beside": beside,
        "reached": reached,
        "seconds": seconds,
        "processor_seconds": processor,
        "curve": curve,
        "short": chosen.short,
    }
    (chosen.out / "result.json").write_text(json.dumps(record, indent=1, ensure_ascii=False))
    sys.exit(not reached)
