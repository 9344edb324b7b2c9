"""All primitives by name: how rules refer to primitives of files they do not import.

The rooms that have primitives declare which file has which, so that a file is loaded when one of
its primitives is first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.base.lazy import load

# those of the files that are loaded
primitives: dict[str, Any] = {}

_homes: dict[str, str] = {}


def declare(room: str, files: Mapping[str, str]) -> None:
    """Say in which files of a room primitives are: their names, by file."""
    for file, names in files.items():
        _homes.update(dict.fromkeys(names.split(), f"{room}.{file}"))


def lookup(name: str) -> Any:
    """The primitive of that name."""
    try:
        return primitives[name]
    except KeyError:
        if name not in _homes:
            raise
    load(_homes[name])
    return primitives[name]


def load_declared() -> dict[str, str]:
    """Load every primitive that is declared; gives their modules by name."""
    for home in dict.fromkeys(_homes.values()):
        load(home)
    return dict(_homes)
