"""Views of the primitives' rules that read and write like dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from weft.core.registry import load_declared, primitives


class RuleTable:
    """One rule of all primitives: setting an item gives that primitive the rule."""

    def __init__(self, attribute: str, give: Callable[[Any, Any], None]) -> None:
        self._attribute = attribute
        self._give = give

    def __setitem__(self, primitive: Any, rule: Any) -> None:
        self._give(primitive, rule)

    def __getitem__(self, primitive: Any) -> Any:
        rule = getattr(primitive, self._attribute, None)
        if rule is None:
            raise KeyError(primitive)
        return rule

    def __contains__(self, primitive: Any) -> bool:
        return getattr(primitive, self._attribute, None) is not None

    def get(self, primitive: Any, default: Any = None) -> Any:
        return self[primitive] if primitive in self else default

    def __iter__(self) -> Iterator[Any]:
        load_declared()
        return (p for p in [*primitives.values()] if p in self)
