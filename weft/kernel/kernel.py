"""Kernels: loops over axes, with stores and reductions of scalar values inside.

An index is affine in the kernel's axes: a constant plus coefficients, in elements of the buffer.
Extents are numbers here; a backend is free to run the grid axis in any order and in parallel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from weft.kernel.nodes import Value


class Affine(NamedTuple):
    """``const + sum(coefficient * axis)``, in elements."""

    const: int = 0
    terms: tuple[tuple[str, int], ...] = ()

    def coefficient(self, axis: str | None) -> int:
        for name, factor in self.terms:
            if name == axis:
                return factor
        return 0

    def scaled(self, factor: int, offset: int) -> Affine:
        """``factor * self + offset``."""
        terms = tuple((a, c * factor) for a, c in self.terms if c * factor)
        return Affine(self.const * factor + offset, terms)

    def plus(self, other: Affine) -> Affine:
        """The sum of two indices."""
        terms = dict(self.terms)
        for axis, c in other.terms:
            terms[axis] = terms.get(axis, 0) + c
        return affine(self.const + other.const, terms)

    def __str__(self) -> str:
        parts = [f"{c}*{a}" if c != 1 else a for a, c in self.terms]
        if self.const or not parts:
            parts.append(str(self.const))
        return " + ".join(parts)


def affine(const: int, terms: dict[str, int]) -> Affine:
    """An affine index without zero terms, its axes in order of name."""
    return Affine(const, tuple(sorted((a, c) for a, c in terms.items() if c)))


class Buffer(NamedTuple):
    """Memory that a kernel reads or writes."""

    dtype: np.dtype
    size: int
    role: str  # "in", "out" or "row": scratch of one iteration of the grid


class Store(NamedTuple):
    """One element written."""

    buffer: int
    at: Affine
    value: Value


class Reduce(NamedTuple):
    """A value combined over the iterations of a loop; read afterwards as ``acc`` of its symbol."""

    symbol: int
    op: str  # add, mul, min, max, and, or, xor
    value: Value
    dtype: np.dtype
    initial: Any


class Loop(NamedTuple):
    """Iterations of an axis: inner loops, stores and reductions."""

    axis: str
    extent: int
    body: list[Any]
    carries: tuple[int, ...] = ()  # reductions inside that go on from iteration to iteration
    lanes: bool = False  # neighbouring iterations run side by side, loops inside one by one


class Kernel(NamedTuple):
    """A grid of independent iterations over one axis, or a single one where ``grid`` is None."""

    name: str
    buffers: list[Buffer]
    grid: tuple[str, int] | None
    body: list[Any]


def statements(body: list[Any]) -> Iterator[Any]:
    """All statements of a kernel's body, loops before what they hold."""
    for statement in body:
        yield statement
        if isinstance(statement, Loop):
            yield from statements(statement.body)


def show(kernel: Kernel) -> str:
    """A kernel as readable text."""
    lines = [f"kernel {kernel.name}("]
    for i, b in enumerate(kernel.buffers):
        lines.append(f"    {b.role} b{i}: {b.dtype.name}[{b.size}]")
    grid = "" if kernel.grid is None else f" grid {kernel.grid[0]} < {kernel.grid[1]}"
    lines.append(f"){grid}:")
    _show(kernel.body, lines, 1)
    return "\n".join(lines)


def _show(body: list[Any], lines: list[str], depth: int) -> None:
    pad = "    " * depth
    for s in body:
        if isinstance(s, Loop):
            lines.append(f"{pad}for {s.axis} < {s.extent}{' in lanes' if s.lanes else ''}:")
            _show(s.body, lines, depth + 1)
        elif isinstance(s, Store):
            lines.append(f"{pad}b{s.buffer}[{s.at}] = {expression(s.value)}")
        else:
            lines.append(f"{pad}s{s.symbol} {s.op}= {expression(s.value)}")


def expression(value: Value, depth: int = 6) -> str:
    """A value as nested text, cut off below a depth."""
    if value.op == "const":
        return str(np.frombuffer(value.attr, value.dtype)[0])
    if value.op == "load":
        return f"b{value.attr[0]}[{value.attr[1]}]"
    if value.op == "index":
        return str(value.attr)
    if value.op == "acc":
        return f"s{value.attr}"
    if depth == 0:
        return "..."
    inner = ", ".join(expression(a, depth - 1) for a in value.args)
    return f"{value.op}({inner})"
