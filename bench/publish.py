"""The history of the figures in ``bench/history``, and the page that is written from it.

A file of the history belongs to one suite on one machine and holds its runs, the newest last. The
page shows the newest run of each file, the rows that do worst beside the reference first.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HISTORY = ROOT / "bench" / "history"
PAGE = ROOT / "docs" / "benchmarks.md"
README = ROOT / "README.md"
SHOWN = 50  # rows of a table; the history has all of them
UNITS = {"us": "µs"}

# Suites in the order of the page, each with its title and what its rows are.
TITLES = {
    "compiled": ("Compiled functions", "Calls of compiled functions, after their first call."),
    "variants": (
        "Odd sizes and other dtypes",
        "The array rows at odd sizes, with short inner dimensions, in float64 and bfloat16.",
    ),
    "programs": (
        "Other programs",
        "Option prices, simulations, stencils, recurrent networks, statistics, linear algebra.",
    ),
    "compile": (
        "First calls",
        (
            "The first call in a new process, without the import. *Cold* starts with an empty cache"
            " on disk, *warm* with a filled one."
        ),
    ),
    "shapes": ("Many shapes", "One function called with twenty shapes in a new process."),
    "trace": ("Tracing and import", "What Python costs before anything is compiled."),
    "networks": (
        "Networks",
        "A training step with `weft.linen` and `weft.optim`, against flax and optax on JAX.",
    ),
    "examples": ("Examples", "Training steps of the programs in `examples/`."),
    "debugging": (
        "Finding mistakes",
        "Checks, reports, loops under `vmap` and reproducible bits, on and off.",
    ),
    "optim": ("Optimisers", "Updates of `weft.optim`, against optax on JAX."),
    "image": ("Images", "Functions of `weft.image`, against dm_pix on JAX."),
    "memory": ("Memory", "The peak of resident memory of training steps."),
    "parallel": ("Several devices", "One process that shows its processor as several devices."),
    "mpi": ("Several processes", "`psum` over MPI, against mpi4py's `Allreduce` on NumPy arrays."),
    "data": (
        "Data pipelines",
        "Pipelines of `weft.train.data`, against torch's `DataLoader` and grain.",
    ),
    "cuda": (
        "GPUs",
        (
            "Calls on one GPU: arrays stay on the device, calls follow each other, and the last one"
            " is waited for. Rates count every operand and result once."
        ),
    ),
    "cuda-broad": (
        "Generated programs on a GPU",
        (
            "Layers, losses, optimisers, solvers, samplers, stencils, graphs, transforms, sorts and"
            " indexing, with gradients. A seed draws sizes and dtypes."
        ),
    ),
    "pjrt": (
        "Our compiler against XLA",
        (
            "weft's programs on one GPU, compiled by weft itself and by XLA, as a PJRT plugin: the"
            " same front, another compiler. A ratio is that of weft's compiler to XLA."
        ),
    ),
    "install": ("Installed size", "A wheel, and a virtual environment with weft installed."),
    "sweep": ("Every function once", "Every public function, compiled and outside of `jit`."),
}

# Records that the README shows: how each row is called there, and the file.
FIGURES = (
    ("CPU, compiled functions", "compiled-neoverse-n1-2-cores"),
    ("CPU, compiled functions", "compiled-xeon-emerald-rapids-2-cores"),
    ("CPU, training steps and their memory", "networks-neoverse-n1-2-cores"),
    ("CPU, first calls", "compile-xeon-cascade-lake-2-cores"),
    ("GPU, training steps and kernels", "cuda-nvidia-h200"),
    ("GPU, generated programs", "cuda-broad-nvidia-h200"),
)
INSTALL = "install-x86-64-2-cores"
BEGIN, END = "<!-- figures: written by python -m bench --publish -->", "<!-- figures: end -->"

HEAD = """# Benchmarks

`python -m bench --publish` writes this page from the records in [bench/history](../bench/history);
do not edit it. [bench/README.md](../bench/README.md) says how rows are measured and how to repeat
a run on your machine.

A *ratio* is weft's time over the reference's: below 1, weft is faster. The reference is JAX unless
a table says otherwise. Each library runs in its own process, rows are interleaved, and the best of
several rounds counts. Two runs on a shared machine differ by a quarter and more; compare ratios
rather than times. Tables show the newest run on a machine, with the rows where weft does worst
first. A commit is *unknown* where a run was recorded before records had one.
"""


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def place(machine: dict[str, Any]) -> str:
    """A machine as people would name it."""
    if "gpu" in machine:
        return str(machine["gpu"])
    count = machine.get("cores")
    return f"{machine['processor']}, {count} cores" if count else str(machine["processor"])


def file_of(suite: str, machine: dict[str, Any], folder: Path = HISTORY) -> Path:
    return folder / f"{suite}-{slug(place(machine))}.json"


def add(suite: str, run: dict[str, Any], folder: Path = HISTORY) -> Path:
    """Append a run to the history of its suite and machine."""
    path = file_of(suite, run["machine"], folder)
    runs = json.loads(path.read_text())["runs"] if path.exists() else []
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, suite, [*runs, run])
    return path


def write(path: Path, suite: str, runs: list[dict[str, Any]]) -> None:
    """Write a file of the history, a line a row."""
    blocks = []
    for run in runs:
        fields = {name: value for name, value in run.items() if name != "rows"}
        rows = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in run["rows"])
        body = json.dumps(fields, ensure_ascii=False, indent=1)[:-2]
        blocks.append(f'{body},\n "rows": [\n{rows}\n ]\n}}')
    joined = ",\n".join(blocks)
    path.write_text(f'{{"suite": {json.dumps(suite)}, "runs": [\n{joined}\n]}}\n')


def record(saved: dict[str, Any], folder: Path = HISTORY) -> list[Path]:
    """Add what a run saved with ``--json`` to the history, one run for each suite in it."""
    fields = {k: saved[k] for k in ("date", "commit", "command", "machine", "versions")}
    paths = []
    for suite in dict.fromkeys(row["suite"] for row in saved["rows"]):
        rows = [_row(row) for row in saved["rows"] if row["suite"] == suite]
        machine = dict(saved["machine"])
        if not suite.startswith(("cuda", "pjrt")):
            machine.pop("gpu", None)  # it was idle
        paths.append(add(suite, {**fields, "machine": machine, "rows": rows}, folder))
    return paths


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the history from one of a run: rounded figures, and only the fields it has."""
    notes = [f"{name} failed: {text}" for name, text in row.get("failed", {}).items()]
    notes += [f"{name}: {text}" for name, text in row.get("wrong", {}).items()]
    found = {
        "name": row["name"],
        "unit": row["unit"],
        "figures": {name: _round(x) for name, x in row["figures"].items()},
        "ratio": _round(row.get("ratio")),
        "target": row.get("target"),
        "first": _round(row.get("first")),
        "note": "; ".join(notes) or row.get("note"),
    }
    return {name: value for name, value in found.items() if value not in (None, {}, "")}


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


# --- the page -------------------------------------------------------------------------------------


def page(folder: Path = HISTORY) -> str:
    """The text of the page: a summary of all runs, then a table for each suite and machine."""
    newest = {}
    for path in sorted(folder.glob("*.json")):
        found = json.loads(path.read_text())
        newest.setdefault(found["suite"], []).append((path, found["runs"][-1]))
    summary, sections = [], []
    for suite in [name for name in TITLES if name in newest] + sorted(set(newest) - set(TITLES)):
        title, text = TITLES.get(suite, (suite, ""))
        sections += [f"## {title}", "", text, ""] if text else [f"## {title}", ""]
        for path, run in newest[suite]:
            summary.append(_summary(title, run))
            sections += [*_section(path, run), ""]
    head = "| suite | machine | date | commit | rows | slower | geometric mean | worst |"
    ruler = "|---|---|---|---|---|---|---|---|"
    lines = [HEAD, "## Summary", "", head, ruler, *summary, "", *sections]
    return "\n".join(lines).rstrip() + "\n"


def _of(run: dict[str, Any]) -> dict[str, Any]:
    """Number of rows, of those slower than the reference, geometric mean, worst ratio."""
    ratios = [row["ratio"] for row in run["rows"] if row.get("ratio")]
    found: dict[str, Any] = {"rows": len(run["rows"])}
    if ratios:
        found["slower"] = sum(ratio > 1 for ratio in ratios)
        found["mean"] = math.exp(sum(map(math.log, ratios)) / len(ratios))
        found["worst"] = max(ratios)
    return found | run.get("summary", {})


def _summary(title: str, run: dict[str, Any]) -> str:
    found = _of(run)
    link = f"[{title}](#{re.sub(r'[^a-z0-9 -]', '', title.lower()).replace(' ', '-')})"
    cells = [link, place(run["machine"]), run["date"], run["commit"], str(found["rows"])]
    cells.append(str(found.get("slower", "")))
    cells += [_number(found.get(name)) for name in ("mean", "worst")]
    return f"| {' | '.join(cells)} |"


def _section(path: Path, run: dict[str, Any]) -> list[str]:
    """Heading, source and table of a run."""
    words = [f"{name} {number}" for name, number in run.get("versions", {}).items()]
    lines = [f"### {place(run['machine'])}", ""]
    lines += [f"`{run['command']}`, {run['date']}, commit {run['commit']}"]
    lines[-1] += f", {', '.join(words)}." if words else "."
    if run.get("note"):
        lines.append(run["note"])
    rows = sorted(run["rows"], key=_badness)
    if not rows:
        return lines
    if len(rows) > SHOWN:
        target = f"../bench/history/{path.name}"
        lines.append(f"The worst {SHOWN} of {len(rows)} rows; [the record]({target}) has all.")
    return [*lines, "", *table(rows[:SHOWN])]


def _badness(row: dict[str, Any]) -> tuple[int, float]:
    """Failed rows first, then by ratio; rows without a ratio last, as they came."""
    if "failed" in row.get("note", "") and "ratio" not in row:
        return (0, 0.0)
    return (1, -row["ratio"]) if row.get("ratio") else (2, 0.0)


def table(rows: list[dict[str, Any]]) -> list[str]:
    """A table with only the columns that a row fills."""
    libraries = list(dict.fromkeys(name for row in rows for name in row.get("figures", {})))
    optional = [
        ("unit", "unit", lambda row: UNITS.get(row.get("unit", ""), row.get("unit", ""))),
        *(
            (None, name, lambda row, name=name: _number(row.get("figures", {}).get(name)))
            for name in libraries
        ),
        ("ratio", "ratio", lambda row: _number(row.get("ratio"))),
        ("target", "target", lambda row: _number(row.get("target"))),
        ("first", "first call, ratio", lambda row: _number(row.get("first"))),
        ("note", "", lambda row: row.get("note", "")),
    ]
    columns = [
        (head, cell)
        for key, head, cell in optional
        if key is None or any(row.get(key) is not None for row in rows)
    ]
    lines = ["| row | " + " | ".join(head for head, _ in columns) + " |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for row in rows:
        lines.append(f"| {row['name']} | " + " | ".join(cell(row) for _, cell in columns) + " |")
    return lines


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def figures(folder: Path = HISTORY) -> str:
    """The README's table: a line for each kind of machine, and the installed size."""
    lines = ["| | machine | rows | slower than JAX | mean ratio | commit, date |", "|---" * 6 + "|"]
    for label, name in FIGURES:
        run = json.loads((folder / f"{name}.json").read_text())["runs"][-1]
        found = _of(run)
        cells = [label, place(run["machine"]), str(found["rows"]), str(found.get("slower", ""))]
        cells += [_number(found.get("mean")), f"{run['commit']}, {run['date']}"]
        lines.append(f"| {' | '.join(cells)} |")
    run = json.loads((folder / f"{INSTALL}.json").read_text())["runs"][-1]
    sizes = {row["name"]: _number(row["figures"]["weft"]) for row in run["rows"]}
    text = ", ".join(f"{name} {size} MB" for name, size in sizes.items())
    return "\n".join([*lines, "", f"Installed size: {text} ({run['commit']}, {run['date']})."])


def with_figures(text: str, folder: Path = HISTORY) -> str:
    """The README with its table as the history has it."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the README has no lines {BEGIN} and {END}, between which figures belong")
    return f"{before}{BEGIN}\n{figures(folder)}\n{END}{after}"


def publish(folder: Path = HISTORY, target: Path = PAGE, readme: Path = README) -> None:
    """Write the page and the README's table."""
    target.write_text(page(folder), encoding="utf-8")
    readme.write_text(with_figures(readme.read_text(encoding="utf-8"), folder), encoding="utf-8")
