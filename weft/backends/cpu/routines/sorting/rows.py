"""What all sorting starts from: rows of an array, how elements are ordered, lists of tasks."""

from __future__ import annotations

from math import prod

import numpy as np

from weft import dtypes
from weft.backends.cpu.routines.writer import Function
from weft.base.record import Record
from weft.kernel.program import Lowered, Place, Task

# Elements of a unit of work at least.
MIN_UNIT_ELEMENTS = 1 << 14
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
    def ones(self) -> int:
        return (1 << self.bits) - 1

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


def key_text(
    f: Function, order: Order, kind: str, x: str, canonical: bool = True
) -> tuple[str, str | None]:
    """Bits of elements as unsigned keys, and where a key does not say all about its element.

    Of floats in canonical order, all zeros are one and all NaNs are one, beyond all numbers.
    """
    sign = _splat(order, kind, order.sign)
    if order.kind == "unsigned":
        return x, None
    if order.kind == "signed":
        return f.emit(f"xor {kind} {x}, {sign}"), None
    bit = _mask_of(kind)
    minus = f.emit(f"ashr {kind} {x}, {_splat(order, kind, order.bits - 1)}")
    key = f.emit(f"xor {kind} {x}, {f.emit(f'or {kind} {minus}, {sign}')}")
    if not canonical:
        return key, None
    size = f.emit(f"and {kind} {x}, {_splat(order, kind, order.sign - 1)}")
    zero = f.emit(f"icmp eq {kind} {size}, {_splat(order, kind, 0)}")
    nan = f.emit(f"icmp ugt {kind} {size}, {_splat(order, kind, order.infinity)}")
    key = f.emit(f"select {bit} {zero}, {kind} {sign}, {kind} {key}")
    last = _splat(order, kind, order.nan ^ order.sign)
    key = f.emit(f"select {bit} {nan}, {kind} {last}, {kind} {key}")
    below = f.emit(f"icmp eq {kind} {x}, {sign}")
    usual = f.emit(f"icmp eq {kind} {x}, {_splat(order, kind, order.nan)}")
    odd = f.emit(f"select {bit} {usual}, {bit} {_splat_bit(kind)}, {bit} {nan}")
    return key, f.emit(f"or {bit} {odd}, {below}")


def element_text(f: Function, order: Order, kind: str, key: str) -> str:
    """The bits of elements that keys stand for."""
    sign = _splat(order, kind, order.sign)
    if order.kind == "unsigned":
        return key
    if order.kind == "signed":
        return f.emit(f"xor {kind} {key}, {sign}")
    negative = f.emit(f"icmp sge {kind} {key}, {_splat(order, kind, 0)}")
    ones = _splat(order, kind, order.ones)
    flip = f.emit(f"select {_mask_of(kind)} {negative}, {kind} {ones}, {kind} {sign}")
    return f.emit(f"xor {kind} {key}, {flip}")


def _splat(order: Order, kind: str, number: int) -> str:
    return f"splat (i{order.bits} {number})" if kind.startswith("<") else str(number)


def _splat_bit(kind: str) -> str:
    return "zeroinitializer" if kind.startswith("<") else "false"


def _mask_of(kind: str) -> str:
    return f"{kind[: kind.index('x')]}x i1>" if kind.startswith("<") else "i1"


def resized(f: Function, have: str, want: str, x: str, word: str) -> str:
    """Numbers of one type as another by an instruction, if types differ."""
    return x if have == want else f.emit(f"{word} {have} {x} to {want}")


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

    def add(self, text: str, name: str, places: tuple[Place, ...], extent: int, chunk: int) -> None:
        self.tasks.append(Task(text, name, places, extent, chunk))

    def done(self) -> Lowered:
        return Lowered(self.tasks, tuple(self.scratch))
