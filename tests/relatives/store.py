"""Recorded calls: a drawn call with JAX's answer, as JSON."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.oracle.harness import Leaf, Outcome

from .run import dtype_of

DATA = Path(__file__).parent / "recorded.json.gz"


def packed(call: dict[str, Any], outcome: Outcome) -> dict[str, Any]:
    """A call and what it gave."""
    if outcome.error:
        return {"call": call, "error": outcome.error}
    leaves = [
        [leaf.text]
        if leaf.array is None
        else [leaf.dtype, leaf.shape, leaf.weak, base64.b64encode(leaf.array.tobytes()).decode()]
        for leaf in outcome.leaves
    ]
    return {"call": call, "structure": outcome.structure, "leaves": leaves}


def unpacked(row: dict[str, Any]) -> Outcome:
    """What a recorded call gave."""
    if "error" in row:
        return Outcome(error=row["error"])
    return Outcome(row["structure"], tuple(_leaf(fields) for fields in row["leaves"]))


def _leaf(fields: list[Any]) -> Leaf:
    if len(fields) == 1:
        return Leaf("py", (), False, None, fields[0])
    name, shape, weak, data = fields
    raw = base64.b64decode(data)
    if name.startswith("key<"):
        return Leaf(name, tuple(shape), weak, np.frombuffer(raw, np.uint32))
    return Leaf(name, tuple(shape), weak, np.frombuffer(raw, dtype_of(name)).reshape(shape))


def read() -> list[dict[str, Any]]:
    """All recorded calls."""
    return json.loads(gzip.decompress(DATA.read_bytes()))
