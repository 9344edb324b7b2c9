"""Calls that native code is to answer: how they are recognised, and what runs for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.base.record import Record
from weft.runtime.array import ArrayImpl


class CallPattern(Record):
    """Calls of a function with arguments of the same structure and types as one call has.

    ``call`` marks each argument as static or not: (positional, named), rows of (static, value), the
    named ones by sorted name. ``hoisted`` are references that the function closes over, its first
    arguments; ``written`` says which arguments are references that get the last results. ``given``
    is the number of a leaf that is the result itself; there is no ``out_tree`` then.
    """

    function: Any
    call: Any
    tree: Any
    leaves: Sequence[Any]
    closed: Any  # the program; None where an instance of one in named sizes is known
    out_tree: Any = None
    donated: tuple[bool, ...] = ()
    hoisted: Sequence[Any] = ()
    written: Sequence[bool] = ()
    given: int | None = None

    @property
    def operands(self) -> Sequence[Any]:
        """The arrays and numbers that the program runs on."""
        return self.leaves

    @property
    def has_references(self) -> bool:
        return bool(self.hoisted or self.written)


class OperationPattern(Record):
    """Calls of an operation with arguments of the same kinds.

    ``arguments`` are rows of how native code takes each: ("leaf", value), or an index and what it
    holds. ``options`` has those that are named.
    """

    function: Any
    arguments: Sequence[Any]
    options: dict[str, Any]
    closed: Any
    donated: tuple[bool, ...] = ()
    has_references: bool = False

    @property
    def operands(self) -> Sequence[Any]:
        """The arrays and numbers that the program runs on."""
        return [x for kind, value in self.arguments for x in _operands(kind, value)]


Pattern = CallPattern | OperationPattern


def _operands(kind: str, value: Any) -> list[Any]:
    """The operands of an argument of an operation, which may be an index and what it holds."""
    if kind == "leaf":
        return [value]
    index = value[0]
    parts = index if type(index) is tuple else (index,)
    return [x for x in parts if type(x) in (int, ArrayImpl, np.ndarray)]
