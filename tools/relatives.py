"""Random calls of the public interface, on JAX and on weft, with their differences by cause.

    python tools/relatives.py --count 20000 --seed 1        # needs the extra `oracle`
    python tools/relatives.py --call 4711                   # one call, with both answers
    python tools/relatives.py --add 4711 4712               # and JAX's answers for the tests
    python tools/relatives.py --seed 9 --record 2000        # and answers for the tests, up to 2,000

Both libraries run in the same process, on eight host devices. Calls run in chunks, each in a
process of its own; if one ends the process, that call runs again alone and the chunk goes on
after it. JAX's compiler takes most of the time, so it optimises little and keeps what it compiled.
"""

from __future__ import annotations

import argparse
import collections
import functools
import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
CHUNK = 500
QUICK = "--xla_cpu_use_fusion_emitters=false"  # a third of the time; aborts on 1- and 4-bit dtypes
MAX_RECORDED_BYTES = 1 << 13
DATA = ROOT / "tests" / "relatives" / "recorded.json.gz"


def libraries(flags: str = "", cache: str = "") -> tuple[Any, Any]:
    """JAX and weft; `cache` is a folder for what JAX compiles."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    os.environ.setdefault("XLA_FLAGS", f"--xla_force_host_platform_device_count=8 {flags}")
    os.environ.setdefault("WEFT_NUM_CPU_DEVICES", "8")
    if cache:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = cache
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    from jax._src.interpreters import mlir

    from tests.relatives.run import Library

    mlir.make_ir_context = functools.cache(mlir.make_ir_context)  # each takes 7 ms
    return Library("jax"), Library("weft")


def compare(seeds: range, path: str, flags: str, cache: str) -> None:
    """Append the difference of each call to a file, a line each; JAX's answer where they agree."""
    jax, weft = libraries(flags, cache)
    from tests.relatives import draw, run, store

    with open(path, "a") as file:
        for seed in seeds:
            call = draw.call(seed)
            want, got = run.result(jax, call), run.result(weft, call)
            kind, text = run.difference(call, want, got)
            row = {"seed": seed, "kind": kind, "text": text, "ok": not want.error}
            if kind:
                row["cause"], row["call"] = run.cause(call, kind, text), call
            elif want.error not in run.OPEN and not run.any_difference(call, want, got)[0]:
                size = sum(leaf.array.nbytes for leaf in want.leaves if leaf.array is not None)
                if size <= MAX_RECORDED_BYTES:
                    row["answer"] = store.packed(call, want)
            print(json.dumps(row), file=file, flush=True)


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


def chunk(seeds: range, flags: str, cache: str) -> tuple[list[dict[str, Any]], str]:
    """The rows of some calls, found by a process of its own, and the error that ended it."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, __file__, "--chunk", str(seeds.start), str(len(seeds))]
        command += [file.name, cache, flags.lstrip("-")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
        rows = [json.loads(line) for line in Path(file.name).read_text().splitlines()]
    tail = done.stderr.strip().splitlines()[-1:] or [""]
    return rows, f"{done.returncode} {tail[0]}" if done.returncode else ""


def crash(seed: int, text: str) -> dict[str, Any]:
    return {"seed": seed, "kind": "crash", "cause": "crash", "text": text, "ok": False, "call": {}}


def chunks(seed: int, count: int) -> Iterator[list[dict[str, Any]]]:
    """The rows of all calls, chunk by chunk."""
    start, stop = seed * 1_000_000, seed * 1_000_000 + count
    with tempfile.TemporaryDirectory() as cache:
        while start < stop:
            rows, error = chunk(range(start, min(start + CHUNK, stop)), QUICK, cache)
            start += len(rows)
            if error:
                alone, again = chunk(range(start, start + 1), "", "")
                rows += alone or [crash(start, again)]
                start += 1
            yield rows


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


def record(answers: list[Any], count: int) -> None:
    """Add JAX's answers to those of the tests, up to a number."""
    from tests.relatives import store

    kept = [*store.read(), *answers][:count]
    text = ",\n".join(json.dumps(row, separators=(",", ":")) for row in kept)
    DATA.write_bytes(gzip.compress(f"[\n{text}\n]\n".encode(), 9, mtime=0))
    print(f"{len(kept)} calls recorded, {DATA.stat().st_size:,} bytes", file=sys.stderr)


def add(seeds: list[int]) -> None:
    """Add JAX's answers to some calls to those of the tests, where both libraries agree."""
    jax, weft = libraries()
    from tests.relatives import draw, run, store

    known = {json.dumps(row["call"]) for row in store.read()}
    answers = []
    for call in map(draw.call, seeds):
        want, got = run.result(jax, call), run.result(weft, call)
        same = want.error not in run.OPEN and not run.any_difference(call, want, got)[0]
        if same and json.dumps(call) not in known:
            answers.append(store.packed(call, want))
    record(answers, len(known) + len(answers))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--call", type=int)
    parser.add_argument("--record", type=int, help="add answers to those of the tests, up to this")
    parser.add_argument("--add", type=int, nargs="+", help="calls to add to those of the tests")
    parser.add_argument("--out", help="a file for the differences, as JSON")
    parser.add_argument("--chunk", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.chunk:
        first, size, path, cache, flags = given.chunk
        flags = f"--{flags}" if flags else ""
        compare(range(int(first), int(first) + int(size)), path, flags, cache)
    elif given.call is not None:
        one(given.call)
    elif given.add:
        add(given.add)
    else:
        rows: list[dict[str, Any]] = []
        for each in chunks(given.seed, given.count):
            answers = [row.pop("answer") for row in each if "answer" in row]
            rows += each
            print(
                f"{len(rows)} calls, {sum(bool(r['kind']) for r in rows)} differ", file=sys.stderr
            )
            if given.out:
                Path(given.out).write_text(json.dumps([r for r in rows if r["kind"]]))
            if given.record:
                record(answers, given.record)
        print(report(rows))


if __name__ == "__main__":
    main()
