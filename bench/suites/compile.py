"""How long the first call of a new process takes: with no compiled code on disk, and with it.

Cold is from the Python call to the result with an empty cache, import left out; warm is the same
in a second process with what the first left on disk, for JAX with its persistent cache.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.rows import Program, Row, same
from bench.suites import arrays, compiled, models

# The target is the geometric mean's, over all of these.
GEOMETRIC = 0.35


def _language(layers: int) -> Any:
    def setup(jax: Any) -> Program:
        step = models.adam(jax, models.language_loss(jax))
        return Program(step, models.language_arguments(layers, batch=2))

    return setup


def _first(row: Row, kind: str, target: float | None) -> Row:
    setups = {name: row.setups[name] for name in ("weft", "jax")}
    return replace(
        row, name=f"{kind}: {row.name}", setups=setups, kind=kind, unit="ms", ratio=target,
        tolerance=None, limit=60.0,
    )  # fmt: skip


def _transformer(layers: int, kind: str, target: float) -> Row:
    return Row(
        f"{kind}: transformer of {layers}",
        f"Adam step of {layers} layers, width 256, batch 2",
        same(_language(layers)),
        kind=kind,
        unit="ms",
        clock="wall",
        ratio=target,
        limit=120.0,
    )


# Rows that run without jit have nothing to compile that a user would wait for.
_COMPILED = [row for row in compiled.ROWS if not row.name.startswith(("eager", "two threads"))]

ROWS = [
    _transformer(12, "cold", 0.15),
    _transformer(2, "cold", 0.25),
    _transformer(12, "warm", 0.3),
    _transformer(2, "warm", 0.3),
    *(_first(row, "cold", GEOMETRIC) for row in [*_COMPILED, arrays.TOP_K.row("top-k 64 of 1M")]),
]
