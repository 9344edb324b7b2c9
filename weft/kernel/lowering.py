"""What the lowering of an operation to kernels gives, and small tools to write one with."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.base.record import Record
from weft.kernel.build import Builder
from weft.kernel.kernel import Affine, Buffer, Kernel, in_loops
from weft.kernel.nodes import I64, Value, layout
from weft.kernel.program import Type


class Lowering(Record):
    """Kernels to be run in order, each with the numbers of its buffers: operands first, then
    results, constants and scratch memory."""

    kernels: list[tuple[Kernel, tuple[int, ...]]]
    constants: tuple[np.ndarray, ...] = ()
    scratch: tuple[Buffer, ...] = ()


def buffer_of(kind: Type, role: str) -> Buffer:
    """The memory of an operand or a result."""
    part, n = layout(kind.dtype)
    return Buffer(part, n * prod(kind.shape), role)


def nested(
    name: str, buffers: Sequence[Buffer], axes: Sequence[tuple[str, int]], body: list[Any]
) -> Kernel:
    """A kernel of independent iterations over axes, the first of them the grid."""
    body = in_loops(axes[1:], body)
    return Kernel(name, list(buffers), axes[0] if axes else None, body, serial=True)


def unravelled(k: Builder, number: Value, extents: Sequence[int]) -> list[Value]:
    """The position along each axis of an element that is counted in row-major order."""
    found: list[Value] = []
    for extent in reversed(extents):
        size = k.const(max(1, extent), I64)
        found.insert(0, k.rem(number, size))
        number = k.div(number, size)
    return found


def ravelled(k: Builder, positions: Sequence[Value], strides: Sequence[int]) -> Value:
    """The sum of positions times strides."""
    total: Value | None = None
    for position, stride in zip(positions, strides, strict=True):
        term = position if stride == 1 else k.mul(position, k.const(stride, I64))
        total = term if total is None else k.add(total, term)
    return k.const(0, I64) if total is None else total


def scalar_of(k: Builder, place: Value, n: int, i: int) -> Value:
    """Where one of the n scalars of an element is."""
    return place if n == 1 else k.add(k.mul(place, k.const(n, I64)), k.const(i, I64))


def read(k: Builder, buffer: int, part: Any, place: Value, size: int) -> Value:
    """A scalar at a computed place, which is moved inside."""
    most = k.const(max(0, size - 1), I64)
    inside = k.max(k.min(place, most), k.const(0, I64))
    return k.make("load", (inside,), np.dtype(part), (buffer, Affine(), (0, max(0, size - 1))))
