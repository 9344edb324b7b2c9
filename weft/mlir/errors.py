"""The error for modules that cannot be read."""

from __future__ import annotations

BYTECODE = b"ML\xefR"  # how MLIR's binary form begins
SHOWN_CHARACTERS = 120  # of the line that an error shows


class StableHLOError(ValueError):
    """A StableHLO module that weft cannot read or run.

    ``line`` and ``column`` say where in the module's text, from 1; 0 where no place is known.

    >>> from weft import export
    >>> try:
    ...     export.from_stablehlo("module { nonsense }")
    ... except export.StableHLOError:
    ...     print("not a module")
    not a module
    """

    def __init__(self, message: str, line: int = 0, column: int = 0, source: str = "") -> None:
        self.line, self.column = line, column
        place = f"line {line}, column {column}: " if line else ""
        shown = source.strip()
        if len(shown) > SHOWN_CHARACTERS:
            shown = shown[: SHOWN_CHARACTERS - 3] + "..."
        super().__init__(place + message + (f"\n    {shown}" if shown else ""))


class Unread(Exception):
    """What is wrong with an operation; where it stands is added by the one who runs it."""


def error_at(text: str, position: int, message: str) -> StableHLOError:
    """The error for a place in a text."""
    position = min(position, len(text))
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    source = text[start : len(text) if end < 0 else end]
    return StableHLOError(message, text.count("\n", 0, position) + 1, position - start + 1, source)
