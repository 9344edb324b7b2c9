"""Which function lowers which primitive to native tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.backends.llvm.tasks import Lowered
from weft.kernel.program import Type

# (operand types, result types, parameters) -> tasks, or None where the reference does it
Lowering = Callable[[list[Type], list[Type], dict[str, Any]], Lowered | None]

LOWERINGS: dict[str, Lowering] = {}

# The same for a kernel that goes on with the result, given as a fourth argument: None where that
# cannot be done block by block.
FINISHING: dict[str, Callable[..., Lowered | None]] = {}

# Lowerings of what has few elements, to code that does for all shapes of few: None for others.
SMALL: dict[str, Lowering] = {}
