"""What a sweep over all functions says: how many calls are slower than a peer's, and the worst."""

from __future__ import annotations

import statistics

from bench.table import Result

WORST = 20
# The form of a call, the peer, the most it may take of the peer's time.
QUESTIONS = (
    ("compiled", "jax", 1.2),
    ("compiled", "numpy", 1.0),
    ("eager", "jax", 1.0),
    ("eager", "numpy", 1.0),
    ("eager, ten elements", "jax", 1.0),
)


def ratios(results: list[Result], form: str, peer: str) -> list[tuple[float, Result]]:
    """weft's time as a part of a peer's for the calls of one form, the worst first."""
    found = []
    for result in results:
        mine, other = result.seconds("weft"), result.seconds(peer)
        if result.row.name.endswith(f") {form}") and mine and other:
            found.append((mine / other, result))
    return sorted(found, key=lambda pair: -pair[0])


def sweep_text(results: list[Result]) -> str:
    """A line and the worst calls for every question; what failed or differed below."""
    lines = []
    for form, peer, allowed in QUESTIONS:
        found = ratios(results, form, peer)
        if not found:
            continue
        over = sum(ratio > allowed for ratio, _ in found)
        middle = statistics.median(ratio for ratio, _ in found)
        lines.append(
            f"{form} against {peer}: {over} of {len(found)} calls above {allowed} of its time,"
            f" median {middle:.2f}"
        )
        for ratio, result in found[:WORST]:
            call = result.row.name.removesuffix(f" {form}")
            mine, other = result.seconds("weft"), result.seconds(peer)
            lines.append(f"  {ratio:7.2f}  {mine * 1e6:11,.1f} µs {other * 1e6:11,.1f}  {call}")
        lines.append("")
    for result in results:
        said = [f"{name}: {text}" for name, text in {**result.failed, **result.wrong}.items()]
        if said:
            lines.append(f"{result.row.name}: {'; '.join(said)}")
    return "\n".join(lines)
