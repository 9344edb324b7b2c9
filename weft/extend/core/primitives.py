"""All primitives by name: ``primitives.add_p``."""

from __future__ import annotations

from typing import Any

from weft.core.registry import primitives as _registry


def __getattr__(name: str) -> Any:
    found = _registry.get(name.removesuffix("_p"))
    if found is None or not name.endswith("_p"):
        raise AttributeError(f"there is no primitive {name!r}")
    return found


def __dir__() -> list[str]:
    return sorted(f"{name}_p" for name in _registry)
