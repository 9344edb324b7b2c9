"""All primitives by name: ``primitives.add_p``."""

from __future__ import annotations

from typing import Any

from weft.core import registry as _registry
from weft.extend.core.calls import call_p as call_p
from weft.extend.core.calls import closed_call_p as closed_call_p


def __getattr__(name: str) -> Any:
    if name.endswith("_p"):
        try:
            return _registry.lookup(name.removesuffix("_p"))
        except KeyError:
            pass
    raise AttributeError(f"there is no primitive {name!r}")


def __dir__() -> list[str]:
    _registry.load_declared()
    return sorted({"call_p", "closed_call_p", *(f"{name}_p" for name in _registry.primitives)})
