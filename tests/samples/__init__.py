"""Samples of every primitive: operands and parameters on which the laws are checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

FLOATS = ("float32", "float64", "float16", "bfloat16")


@dataclass
class Sample:
    """One call of a primitive: how its operands are made, its parameters, what it supports."""

    name: str
    prim: str
    args: list[Callable[[np.random.Generator], Any]]
    params: dict[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ("float32",)
    differentiable: bool = True
    tol: float = 4.0
    order: int = 2
    notes: str = ""
