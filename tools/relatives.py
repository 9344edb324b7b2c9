"""Random calls of the public interface, on JAX and on weft, with their differences by cause.

    python tools/relatives.py --count 20000 --seed 1        # needs the extra `oracle`
    python tools/relatives.py --call 4711                   # one call, with both answers
    python tools/relatives.py --record 2000 --seed 9        # JAX's answers for the tests

Both libraries run in the same process, on eight host devices; calls are run in chunks, each in a
process of its own, so that a crash costs a chunk and not the run.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
CHUNK = 1000
DATA = ROOT / "tests" / "relatives" / "recorded.json.gz"


def libraries() -> tuple[Any, Any]:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # most of the time is XLA's
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    os.environ.setdefault("WEFT_NUM_CPU_DEVICES", "8")
    from tests.relatives.run import Library

    return Library("jax"), Library("weft")


def compare(seeds: range) -> list[dict[str, Any]]:
    """The differences of some calls."""
    jax, weft = libraries()
    from tests.relatives import draw, run

    found = []
    for seed in seeds:
        call = draw.call(seed)
        want, got = run.result(jax, call), run.result(weft, call)
        kind, text = run.difference(call, want, got)
        row = {"seed": seed, "kind": kind, "text": text, "ok": not want.error}
        if kind:
            row["cause"], row["call"] = run.cause(call, kind, text), call
        found.append(row)
    return found


def one(seed: int) -> None:
    """A call with both answers."""
    jax, weft = libraries()
    from tests.oracle.harness import brief
    from tests.relatives import draw, run

    call = draw.call(seed)
    want, got = run.result(jax, call), run.result(weft, call)
    print(json.dumps(call))
    print("JAX: ", brief(want))
    print("weft:", brief(got))
    print(run.difference(call, want, got))


def chunks(seed: int, count: int) -> Any:
    """Differences by chunks, each found by a process of its own."""
    for first in range(seed * 1_000_000, seed * 1_000_000 + count, CHUNK):
        size = min(CHUNK, seed * 1_000_000 + count - first)
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            command = [sys.executable, __file__, "--chunk", str(first), str(size), file.name]
            done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
            if done.returncode:
                tail = done.stderr.strip().splitlines()[-1:]
                yield [
                    {
                        "seed": first,
                        "kind": "crash",
                        "cause": f"crash {tail}",
                        "text": str(tail),
                        "ok": False,
                        "call": {},
                    }
                ]
                continue
            yield json.loads(Path(file.name).read_text())


def report(rows: list[dict[str, Any]]) -> str:
    """Causes, the most frequent first, each with a call."""
    groups = collections.defaultdict(list)
    for row in rows:
        if row["kind"]:
            groups[row["cause"]].append(row)
    differing = sum(bool(row["kind"]) for row in rows)
    share = 100 * differing / max(1, len(rows))
    computed = sum(r["ok"] for r in rows)
    lines = [
        f"{len(rows)} calls, of which JAX computes {computed}; {differing} differ ({share:.2f} %)"
    ]
    lines.append(f"{len(groups)} causes")
    for name, each in sorted(groups.items(), key=lambda item: -len(item[1])):
        lines.append(f"{len(each):4}  {name}   [--call {each[0]['seed']}]  {each[0]['text'][:140]}")
    return "\n".join(lines)


def record(seed: int, count: int) -> None:
    """Write JAX's answers to calls on which both agree, for the tests."""
    jax, weft = libraries()
    from tests.relatives import draw, run, store

    kept = []
    for number in range(seed * 1_000_000, seed * 1_000_000 + 4 * count):
        call = draw.call(number)
        want = run.result(jax, call)
        if want.error in run.OPEN or run.any_difference(call, want, run.result(weft, call))[0]:
            continue
        size = sum(leaf.array.nbytes for leaf in want.leaves if leaf.array is not None)
        if size <= 1 << 13:
            kept.append(store.packed(call, want))
        if len(kept) == count:
            break
    text = "[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in kept) + "\n]\n"
    DATA.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{len(kept)} calls, {DATA.stat().st_size:,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--call", type=int)
    parser.add_argument("--record", type=int)
    parser.add_argument("--out", help="a file for the differences, as JSON")
    parser.add_argument("--chunk", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.chunk:
        first, size, path = given.chunk
        Path(path).write_text(json.dumps(compare(range(int(first), int(first) + int(size)))))
    elif given.call is not None:
        one(given.call)
    elif given.record:
        record(given.seed, given.record)
    else:
        rows: list[dict[str, Any]] = []
        for each in chunks(given.seed, given.count):
            rows += each
            print(
                f"{len(rows)} calls, {sum(bool(r['kind']) for r in rows)} differ", file=sys.stderr
            )
            if given.out:
                Path(given.out).write_text(json.dumps([r for r in rows if r["kind"]]))
        print(report(rows))


if __name__ == "__main__":
    main()
