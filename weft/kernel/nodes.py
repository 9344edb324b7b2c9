"""Scalar values of the kernel IR: a closed set of operations, hash-consed, with checked types.

A value is what one element of a kernel computes; the tile pass decides over which elements, and a
backend renders each operation for a whole vector of them. Signedness is in the dtype: ``lt`` of
two ``uint32`` values is an unsigned comparison.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.base.record import Record

BOOL = np.dtype(np.bool_)
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
F16, BF16 = np.dtype(np.float16), np.dtype(dtypes.bfloat16)
I32, I64 = np.dtype(np.int32), np.dtype(np.int64)
U8, U32, U64 = np.dtype(np.uint8), np.dtype(np.uint32), np.dtype(np.uint64)
FLOATS = frozenset([F16, BF16, F32, F64])
NARROW = frozenset([F16, BF16])  # computed in float32 and rounded

# Operations by the types of their operands and result.
SAME = frozenset("add sub mul div rem min max and or xor shl lshr ashr copysign pow2i".split())
UNARY = frozenset("neg abs not sqrt floor ceil rint trunc popcount clz".split())
COMPARE = frozenset("eq ne lt le gt ge".split())
OTHER = frozenset("const size load index fma select cast bitcast mulhi isnan".split())
OPS = SAME | UNARY | COMPARE | OTHER

# Neighbouring iterations of a grid whose values may be combined.
NEIGHBOURS = 32

FLOAT_ONLY = frozenset("sqrt floor ceil rint trunc copysign fma isnan".split())
INTEGER_ONLY = frozenset("shl lshr ashr popcount clz mulhi".split())


class Value:
    """One operation on scalars; equal operations are one object within a builder."""

    __slots__ = ("args", "attr", "axes", "below", "dtype", "number", "op")

    def __init__(
        self, op: str, args: tuple[Value, ...], dtype: np.dtype, attr: Any, number: int
    ) -> None:
        self.axes = _axes(op, args, attr)  # those it varies along
        self.op = op
        self.args = args
        self.dtype = dtype
        self.attr = attr
        self.number = number  # position in the builder: operands come before their users
        self.below: list[Value] | None = None  # what ``walk`` has found

    def __repr__(self) -> str:
        inputs = ", ".join(f"%{a.number}" for a in self.args)
        attr = "" if self.attr is None else f" [{self.attr}]"
        return f"%{self.number}:{self.dtype.name} = {self.op}({inputs}){attr}"


REDUCED = "acc"  # stands among the axes of a value for the results of reductions
_NOWHERE: frozenset[str] = frozenset()


def _axes(op: str, args: tuple[Value, ...], attr: Any) -> frozenset[str]:
    if not args:
        if op == "index":
            return frozenset([attr])
        if op == "load":
            return frozenset([axis for axis, _ in getattr(attr[1], "terms", ())])
        return frozenset([REDUCED]) if op == "acc" else _NOWHERE
    first = args[0].axes
    for a in args[1:]:
        if not a.axes <= first:
            first = first | a.axes
    if op == "load":
        first = first.union(axis for axis, _ in attr[1].terms)
    return first


class Across(Record):
    """What is said of a value ``across`` neighbours, which are as many neighbouring iterations of
    the grid as a warp has threads: an operation that combines what they have, or "get", which reads
    what the one of a number has. All of them come there together."""

    op: str  # add, mul, min, max, and, or, xor, get


class Parts(Record):
    """An element that is several scalars in memory: a complex number, a random key."""

    dtype: Any
    parts: tuple[Value, ...]


# Dtypes whose elements are bytes in kernels (kernel/tiny.py says what of them).
TINY = frozenset("float8_e4m3fn float8_e5m2 int2 uint2 int4 uint4".split())


def tiny(dtype: Any) -> bool:
    """Whether an element is a byte that has to be decoded."""
    return dtype.itemsize == 1 and dtype.name in TINY


def layout(dtype: Any) -> tuple[np.dtype, int]:
    """The scalars that an element of a dtype is made of, and how many they are."""
    physical = getattr(dtype, "physical_dtype", None)
    if physical is not None:
        part, n = layout(physical)
        return part, n * prod(dtype.physical_shape)
    if dtype.kind == "c":
        return (F32 if dtype.itemsize == 8 else F64), 2
    return U8 if tiny(dtype) else dtype, 1


def walk(roots: Any) -> list[Value]:
    """The values that ``roots`` depend on and the roots themselves, operands first."""
    stack = list(roots)
    root = stack[0] if len(stack) == 1 else None
    if root is not None and root.below is not None:
        return [*root.below, root]
    seen: dict[int, Value] = {}
    while stack:
        value = stack.pop()
        number = value.number
        if number not in seen:
            seen[number] = value
            stack += value.args
    found = [seen[number] for number in sorted(seen)]
    if root is not None and len(found) > 1:
        root.below = found[:-1]  # passes look at a kernel again and again
    return found


def is_float(dtype: np.dtype) -> bool:
    return dtype in FLOATS


def is_integer(dtype: np.dtype) -> bool:
    return dtype.kind in "iu"
