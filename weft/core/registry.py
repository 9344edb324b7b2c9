"""All primitives by name: how rules refer to primitives of files they do not import."""

from __future__ import annotations

from typing import Any

primitives: dict[str, Any] = {}


def lookup(name: str) -> Any:
    """The primitive of that name."""
    return primitives[name]
