"""Kinds of trees, as type checkers tell them apart. Nothing here runs."""

from __future__ import annotations

from dataclasses import Field
from typing import Any, ClassVar, Protocol, TypeAlias

class Typed(Protocol):
    """What has a shape and a dtype: arrays, and what stands for them."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> Any: ...

class Named(Protocol):
    """A named tuple: another of its class may have other leaves."""

    def _asdict(self) -> dict[str, Any]: ...

class Dataclass(Protocol):
    """The same as a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

Leaf: TypeAlias = Typed | complex
