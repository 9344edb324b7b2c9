"""What all sorting starts from: rows of an array, how elements are ordered, lists of tasks."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.backends.llvm.code import Module
from weft.backends.llvm.tasks import Lowered, Place, Task
from weft.base.record import Record
from weft.kernel.kinds import select, static, u32, values

# Elements of a unit of work at least.
MIN_UNIT_ELEMENTS = 1 << 14
# Kinds that the stubs are given.
U: Any = u32
_INFINITIES = {2: 0x7C00, 4: 0x7F800000, 8: 0x7FF0000000000000}


class Order(Record):
    """How elements in memory are ordered: as their bits, as signed numbers or as floats."""

    bits: int  # of an element
    kind: str  # "unsigned", "signed" or "float"
    infinity: int = 0  # as bits

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def nan(self) -> int:
        """The bits of the NaN that stands for all of them."""
        return self.infinity | (self.infinity & -self.infinity) >> 1


def order_of(dtype: np.dtype, parts: bool = False) -> Order | None:
    """How elements of a dtype are ordered, or one part of a complex one; None where unknown."""
    bits = 8 * dtype.itemsize
    if dtype == dtypes.bfloat16:
        return Order(16, "float", 0x7F80)
    if dtype.kind == "c" and parts:
        bits //= 2
        return Order(bits, "float", _INFINITIES[bits // 8])
    if dtype.kind == "f":
        return Order(bits, "float", _INFINITIES[bits // 8])
    kinds = {"i": "signed", "u": "unsigned", "b": "unsigned"}
    return Order(bits, kinds[dtype.kind]) if dtype.kind in kinds else None


def key(
    b: U,
    *,
    FLOAT: static,
    SIGNED: static,
    FLIPPED: static,
    CANONICAL: static,
    SIGN: static,
    TOP: static,
    INFINITY: static,
    NAN: static,
) -> values:
    """The bits of an element as a number in its order."""
    k = b
    if SIGNED:
        k = b ^ SIGN
    if FLOAT:
        k = b ^ (-(b >> TOP) | SIGN)  # all bits of negative ones
        if CANONICAL:
            size = b & (SIGN - 1)
            k = select(size == 0, SIGN, k)
            k = select(size > INFINITY, NAN, k)
    return ~k if FLIPPED else k


def key_names(order: Order, canonical: bool = True, flipped: bool = False) -> dict[str, int]:
    """What the stub of keys is told about an order."""
    return {
        "FLOAT": int(order.kind == "float"),
        "SIGNED": int(order.kind == "signed"),
        "SIGN": order.sign,
        "TOP": order.bits - 1,
        "INFINITY": order.infinity,
        "NAN": order.nan ^ order.sign,
        "USUAL_NAN": order.nan,
        "CANONICAL": int(canonical),
        "FLIPPED": int(flipped),
    }


class Rows(Record):
    """Rows along a dimension: elements of one are ``inner`` apart."""

    count: int
    length: int
    inner: int

    @staticmethod
    def along(shape: tuple[int, ...], dimension: int) -> Rows:
        inner = prod(shape[dimension + 1 :])
        return Rows(prod(shape[:dimension]) * inner, shape[dimension], inner)


class Plan:
    """Tasks and their memory."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.scratch: list[int] = []

    def memory(self, size: int) -> Place:
        self.scratch.append(size)
        return Place("scratch", len(self.scratch) - 1)

    def table(self, *numbers: int) -> Place:
        """Numbers that tasks read, so that one text serves every shape."""
        return Place("numbers", numbers)

    def add(
        self, module: Module, name: str, places: tuple[Place, ...], extent: int, chunk: int
    ) -> None:
        self.tasks.append(Task(module, name, places, extent, chunk))

    def done(self) -> Lowered:
        return Lowered(self.tasks, tuple(self.scratch))
