"""All primitives by name: ``primitives.add_p``."""

from __future__ import annotations

from typing import Any

from weft import ad_checkpoint as _ad_checkpoint
from weft import custom_batching as _custom_batching
from weft import custom_derivatives as _custom_derivatives
from weft import debug as _debug
from weft import random as _random
from weft.core.registry import primitives as _registry
from weft.lax import linalg as _linalg

# Rooms with primitives of their own that weft itself loads late.
_LATE = (_ad_checkpoint, _custom_batching, _custom_derivatives, _debug, _random, _linalg)


def __getattr__(name: str) -> Any:
    found = _registry.get(name.removesuffix("_p"))
    if found is None or not name.endswith("_p"):
        raise AttributeError(f"there is no primitive {name!r}")
    return found


def __dir__() -> list[str]:
    return sorted(f"{name}_p" for name in _registry)
