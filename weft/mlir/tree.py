"""What a module is made of: functions, blocks, operations and their types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.dtypes.kinds import dtype_by_name
from weft.stablehlo.types import ELEMENTS

# Element types by their names; integers without a sign are signed, as StableHLO says.
_NARROW = {
    "int2": "i2", "int4": "i4", "uint2": "ui2", "uint4": "ui4", "float4_e2m1fn": "f4E2M1FN",
    "float6_e2m3fn": "f6E2M3FN", "float6_e3m2fn": "f6E3M2FN",
}  # fmt: skip
NAMES = {**ELEMENTS, **_NARROW}
DTYPES = {name: np.dtype(dtype_by_name[own]) for own, name in NAMES.items() if own in dtype_by_name}


@dataclass(frozen=True, slots=True)
class Tensor:
    """The type of an array; a size that is not known is None."""

    shape: tuple[int | None, ...]
    dtype: Any

    def __str__(self) -> str:
        sizes = "".join(["?x" if n is None else f"{n}x" for n in self.shape])
        return f"tensor<{sizes}{NAMES.get(self.dtype.name, self.dtype.name)}>"


@dataclass(frozen=True, slots=True)
class Other:
    """A type that is no array: of a token, a tuple, a function."""

    name: str
    parts: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return self.name


class Word(str):
    """A bare word among attributes, such as ``LT``."""

    __slots__ = ()


class Symbol(str):
    """The name of a function or mesh."""

    __slots__ = ()


@dataclass(slots=True)
class Raw:
    """An attribute of another dialect, as text: ``#sdy.sharding<...>``."""

    name: str
    text: str


@dataclass(slots=True)
class Block:
    """Operations in order, with the arguments they may use."""

    names: list[str]
    types: list[Any]
    operations: list[Operation] = field(default_factory=list)


@dataclass(slots=True)
class Operation:
    """One operation: its name, operands, attributes, regions and result types."""

    name: str
    results: list[str]
    operands: list[str]
    attributes: dict[str, Any]
    regions: list[Block]
    types: list[Any]
    operand_types: list[Any] | None
    position: int


@dataclass(slots=True)
class Function:
    """A function of a module."""

    name: str
    is_public: bool
    body: Block
    types: list[Any]
    argument_attributes: list[dict[str, Any]]
    result_attributes: list[dict[str, Any]]
    position: int


@dataclass(slots=True)
class Module:
    """A module: functions by name, meshes by name."""

    text: str
    name: str = "module"
    attributes: dict[str, Any] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    meshes: dict[str, Any] = field(default_factory=dict)


def operations_of(block: Block) -> Iterator[Operation]:
    """All operations of a block and of the regions in it."""
    for op in block.operations:
        yield op
        for region in op.regions:
            yield from operations_of(region)
