"""The figures of a run as text and as JSON."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.machine import about
from bench.rows import RATES

CLOCKS = ("cpu", "wall")


@dataclass
class Result:
    """What came of one row: best CPU and wall seconds, and what went wrong, for each library."""

    suite: str
    row: Any
    best: dict[str, list[float]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    clock: int = 0

    def seconds(self, library: str) -> float | None:
        found = self.best.get(library)
        return None if found is None else found[self.clock]

    def reference(self) -> str | None:
        """The library that weft is measured by: the first other one."""
        return next((name for name in self.row.libraries if name != "weft"), None)

    def ratio(self) -> float | None:
        mine, reference = self.seconds("weft"), self.reference()
        other = self.seconds(reference) if reference else None
        return mine / other if mine is not None and other else None


def verdict(result: Result) -> str:
    """Whether the row keeps what is allowed to it, and who else is faster."""
    row, mine = result.row, result.seconds("weft")
    notes = []
    if "weft" in result.failed:
        notes.append(f"FAILED ({result.failed['weft']})")
    if mine is not None and row.budget is not None:
        base = (result.seconds(row.beyond) or 0.0) if row.beyond else 0.0
        figure = row.figure(mine - base)
        beyond = f" beyond {row.beyond}" if row.beyond else ""
        kept = figure >= row.budget if row.unit in RATES else figure <= row.budget
        sign = "ok" if kept else "UNDER" if row.unit in RATES else "OVER"
        notes.append(f"{sign} {figure:.3g} of {row.budget:g} {row.unit}{beyond}")
    ratio = result.ratio()
    if ratio is not None and row.ratio is not None:
        notes.append("ok" if ratio <= row.ratio else f"LOSS x{ratio / row.ratio:.2f}")
    notes += [f"{name}: {text}" for name, text in result.wrong.items()]
    for name in row.libraries:
        other = result.seconds(name)
        if name not in ("weft", result.reference()) and mine is not None and other:
            if mine > other * 1.05 and row.budget is None:
                notes.append(f"{name} x{mine / other:.1f} faster")
    notes += [f"{name}: {text}" for name, text in result.failed.items() if name != "weft"]
    return "; ".join(notes)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def text(results: list[Result], libraries: list[str]) -> str:
    """A table with a line for each row, times in the row's unit."""
    lines = [["", "unit", *libraries, "ratio", "target", ""]]
    for result in results:
        row, cells = result.row, [result.row.name, result.row.unit]
        for library in libraries:
            seconds = result.seconds(library)
            if seconds is not None:
                cells.append(_figure(row.figure(seconds)))
            else:
                cells.append("failed" if library in result.failed else "")
        ratio = result.ratio()
        cells.append("" if ratio is None else f"{ratio:.3g}")
        lines.append([*cells, "" if row.ratio is None else f"{row.ratio:g}", verdict(result)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    last = len(widths) - 1
    return "\n".join(
        "  ".join(
            c.ljust(w) if i in (0, 1, last) else c.rjust(w)
            for i, (c, w) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def summary(results: list[Result]) -> str:
    """The geometric mean of the ratios, suite by suite, and how many rows keep theirs."""
    lines = []
    for suite in dict.fromkeys(r.suite for r in results):
        mine = [r for r in results if r.suite == suite]
        for kind in dict.fromkeys(r.row.kind for r in mine):
            ratios = [r.ratio() for r in mine if r.row.kind == kind]
            known = [ratio for ratio in ratios if ratio]
            if known:
                mean = math.exp(sum(map(math.log, known)) / len(known))
                lines.append(f"{suite}, {kind}: geometric mean {mean:.3g} of {len(known)} ratios")
        held = [r for r in mine if r.row.ratio is not None]
        kept = [r for r in held if (ratio := r.ratio()) is not None and ratio <= r.row.ratio]
        lines.append(f"{suite}: {len(kept)} of {len(held)} rows reach their target")
    return "\n".join(lines)


def losses(results: list[Result]) -> list[Result]:
    """Rows over their target or failed, the worst first."""

    def excess(result: Result) -> float:
        ratio = result.ratio()
        if "weft" in result.failed or "weft" in result.wrong:
            return math.inf
        return ratio / result.row.ratio if ratio and result.row.ratio else 0.0

    return sorted((r for r in results if excess(r) > 1.0), key=excess, reverse=True)


def save(path: Path, results: list[Result], libraries: dict[str, Any], command: str) -> None:
    """Write the figures of a run as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record(results, libraries, command), indent=1) + "\n")


def record(results: list[Result], libraries: dict[str, Any], command: str) -> dict[str, Any]:
    """Everything that a run found, and what it is a run of."""
    return {
        **about(command, libraries),
        "load": os.getloadavg(),
        "libraries": libraries,
        "rows": [
            {
                "suite": r.suite,
                "name": r.row.name,
                "about": r.row.about,
                "kind": r.row.kind,
                "clock": CLOCKS[r.clock],
                "seconds": {lib: {"cpu": c, "wall": w} for lib, (c, w) in r.best.items()},
                "ratio": r.ratio(),
                "target": r.row.ratio,
                "unit": r.row.unit,
                "figures": {lib: r.row.figure(found[r.clock]) for lib, found in r.best.items()},
                "budget": r.row.budget,
                "failed": r.failed,
                "wrong": r.wrong,
            }
            for r in results
        ],
    }
