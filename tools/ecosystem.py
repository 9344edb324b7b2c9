"""Libraries written for JAX, run on weft and on JAX: what they compute and how long it takes.

    python tools/ecosystem.py --python ENVIRONMENT/bin/python [LIBRARY ...]
    python tools/ecosystem.py --python ENVIRONMENT/bin/python --shipped [LIBRARY ...]

The environment has JAX and the libraries. The first form runs the programs of
`tools/ecosystem_programs`, the second the tests that libraries ship in their wheels, under the
plugin `weft.as_jax.pytest`. `--markdown FILE` writes tables.
"""

import argparse
import importlib
import inspect
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from ecosystem_shipped import SHIPPED, run_library, table

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "tools" / "ecosystem_programs"
SIDES = ("weft", "jax")
REPEATS = 40  # calls after the first, unless they take more than so many seconds in all
LONGEST = 3
# Largest difference that counts as rounding, relative to the largest value of an array.
TOLERANCE = 2e-4


# What the modules of programs are about, where their names do not say it.
TOPICS = {
    "diffrax": "diffrax, lineax, optimistix",
    "optimisers": "jaxopt, ott, mctx",
    "others": "chex, jmp, jaxtyping, dm_pix, rlax, distrax, penzai, orbax",
    "flax_linen": "flax.linen with optax",
    "flax_nnx": "flax.nnx with optax",
    "haiku": "haiku with optax",
    "equinox": "equinox with optax",
    "keras": "Keras 3",
    "e3nn": "e3nn-jax",
    "jax_md": "jax-md",
}


# --- in the process of one side -------------------------------------------------------------------


def leaves_of(tree):
    """The numbers of a result, as float64 arrays."""
    import jax

    found = []
    for leaf in jax.tree.leaves(tree):
        if hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        value = np.asarray(leaf)
        found.append(value.astype(complex if value.dtype.kind == "c" else float))
    return found


def programs_in(module):
    """The programs of a module: functions without parameters that it defines."""
    for name, function in list(vars(module).items()):
        if inspect.isfunction(function) and function.__module__ == module.__name__:
            if not inspect.signature(function).parameters and not name.startswith("_"):
                if name not in getattr(module, "HELPERS", ("data",)):
                    yield name, function


def worker(library, only, out):
    """Run the programs of a library here; results and seconds of CPU go to a folder."""
    sys.path.insert(0, str(PROGRAMS.parent))
    import jax

    module = importlib.import_module(f"ecosystem_programs.{library}")
    rows = {}
    for name, make in programs_in(module):
        if only and name not in only:
            continue
        try:
            began = time.process_time()
            run = make()
            values = leaves_of(run())
            first = time.process_time() - began
            steady = []
            for _ in range(REPEATS):
                began = time.process_time()
                jax.block_until_ready(run())
                steady.append(time.process_time() - began)
                if sum(steady) > LONGEST:
                    break
            np.savez(Path(out) / f"{name}.npz", *values)
            rows[name] = {"first": first, "second": steady[0], "steady": min(steady)}
        except Exception as error:
            rows[name] = {"error": f"{type(error).__name__}: {error}"[:400]}
        print(name, rows[name], file=sys.stderr, flush=True)
    (Path(out) / "rows.json").write_text(json.dumps(rows))


# --- in the process that compares -----------------------------------------------------------------


def run_side(python, side, library, only, folder):
    """The rows of one side, and where its values lie."""
    out = Path(folder) / side / library
    out.mkdir(parents=True)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    env["WEFT_CACHE_DIR"] = str(Path(folder) / "cache")  # empty: first calls compile
    command = [python, *(["-m", "weft.as_jax"] if side == "weft" else []), __file__]
    command += ["--worker", library, "--out", str(out), *only]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    rows = out / "rows.json"
    if not rows.exists():
        return {"(import)": {"error": done.stderr.strip().splitlines()[-1][:400]}}, out
    return json.loads(rows.read_text()), out


def difference(name, folders):
    """The largest difference of two results, relative to their size; None where shapes differ."""
    sides = [np.load(folder / f"{name}.npz") for folder in folders]
    if len(sides[0].files) != len(sides[1].files):
        return None
    worst = 0.0
    for key in sides[0].files:
        a, b = sides[0][key], sides[1][key]
        if a.shape != b.shape:
            return None
        if a.size:
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            scale = max(1e-3, float(np.abs(b[np.isfinite(b)]).max(initial=0.0)))
            worst = max(worst, float(np.where(same, 0.0, np.abs(a - b)).max()) / scale)
    return worst


def compare(python, libraries, only):
    """A row for every program of some libraries."""
    table = []
    for library in libraries:
        with tempfile.TemporaryDirectory() as folder:
            found = {side: run_side(python, side, library, only, folder) for side in SIDES}
            (ours, ours_at), (theirs, theirs_at) = found["weft"], found["jax"]
            for name in {**theirs, **ours}:
                row = {"library": library.rstrip("_"), "program": name}
                row |= {"weft": ours.get(name, {}), "jax": theirs.get(name, {})}
                if "error" not in row["weft"] and "error" not in row["jax"]:
                    row["difference"] = difference(name, (ours_at, theirs_at))
                table.append(row)
                print(describe(row), flush=True)
    return table


def describe(row):
    """A row as a line of a table."""
    ours, theirs = row["weft"], row["jax"]
    if "error" in ours or "error" in theirs:
        text = f"weft: {ours['error']}" if "error" in ours else "works"
        text += f"; jax: {theirs['error']}" if "error" in theirs else ""
        return f"| {row['library']} | {row['program']} | {text.replace('|', '/')} | | | | |"
    gap = row["difference"]
    equal = "shapes differ" if gap is None else f"{gap:.0e}" if gap else "0"
    verdict = equal if gap is not None and gap <= TOLERANCE else f"**{equal}**"
    return (
        f"| {row['library']} | {row['program']} | {verdict} | {ours['first']:.2f} |"
        f" {theirs['first']:.2f} | {1e3 * ours['steady']:.2f} | {1e3 * theirs['steady']:.2f} |"
    )


def geomean(ratios):
    """The geometric mean of some ratios."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else float("nan")


def ratio(rows, part):
    """The geometric mean of weft's seconds over JAX's."""
    floor = lambda x: max(x, 1e-5)  # below it a clock tells nothing
    rows = [row for row in rows if part in row["weft"]]
    return geomean([floor(r["weft"][part]) / floor(r["jax"][part]) for r in rows])


def markdown(table):
    """The rows as the tables of `docs/ecosystem.md`."""
    lines = ["| libraries | programs | agree | largest difference | first call | steady |"]
    lines.append("|---|---|---|---|---|---|")
    for library in dict.fromkeys(row["library"] for row in table):
        rows = [row for row in table if row["library"] == library]
        good = [row for row in rows if row.get("difference") is not None]
        equal = [row for row in good if row["difference"] <= TOLERANCE]
        worst = max((row["difference"] for row in good), default=float("nan"))
        ratios = " | ".join(f"{ratio(good, part):.2f}" for part in ("first", "steady"))
        name = TOPICS.get(library, library)
        lines.append(f"| {name} | {len(rows)} | {len(equal)} | {worst:.0e} | {ratios} |")
    every = "Every program: difference, seconds of the first call and milliseconds of a later one"
    lines += ["", f"<details><summary>{every}</summary>", ""]
    times = "first, weft | first, JAX | steady, weft | steady, JAX"
    lines.append(f"| library | program | difference | {times} |")
    lines += ["|---|---|---|---|---|---|---|", *map(describe, table), "", "</details>"]
    return "\n".join([summary(table), "", *lines])


def summary(table):
    """How many programs agree, and how fast they are beside JAX's."""
    good = [row for row in table if row.get("difference") is not None]
    equal = [row for row in good if row["difference"] <= TOLERANCE]
    rest = [row for row in table if "error" in row["weft"] and "error" not in row["jax"]]
    ratios = {part: ratio(good, part) for part in ("first", "steady")}
    return (
        f"{len(table)} programs; {len(good)} run on both, {len(equal)} agree within"
        f" {TOLERANCE:g}, {len(rest)} fail on weft alone. CPU seconds, weft over JAX, geometric"
        f" means: first call {ratios['first']:.2f}, steady {ratios['steady']:.2f}."
    )


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument(
        "--only", nargs="*", default=[], help="programs, or files of tests, by name"
    )
    parser.add_argument("--shipped", action="store_true")
    parser.add_argument("--results", type=Path, default=Path("shipped"), help="outcomes of tests")
    parser.add_argument("--side", choices=SIDES, action="append")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--json", type=Path, help="where the rows of programs go")
    parser.add_argument("--rows", type=Path, nargs="*", help="rows of earlier runs, not run again")
    parser.add_argument("--worker")
    parser.add_argument("--out")
    given = parser.parse_args()
    if given.worker:
        worker(given.worker, given.names, given.out)
        return
    if given.shipped:
        libraries = given.names or list(SHIPPED)
        for side in given.side or SIDES:
            for library in libraries:
                run_library(given.python, library, side, given.results, given.only)
        text = table(libraries, given.results)
    else:
        known = sorted(p.stem for p in PROGRAMS.glob("*.py") if p.stem != "__init__")
        known = [] if given.rows else known
        found = [row for path in given.rows or () for row in json.loads(path.read_text())]
        found += compare(given.python, given.names or known, given.only)
        text = markdown(found)
    print(text if given.shipped else summary(found))
    if given.json and not given.shipped:
        given.json.write_text(json.dumps(found, indent=1))
    if given.markdown:
        given.markdown.write_text(text + "\n")


if __name__ == "__main__":
    main()
