"""Kernels taken apart and put together: parallel axes around a body, and substitution in both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.base.functional import lru
from weft.base.record import Record
from weft.kernel.build import Builder
from weft.kernel.kernel import Affine, Kernel, Loop, Reduce, Store, affine, statements
from weft.kernel.nodes import Value, walk


class Nest(Record):
    """A kernel as the axes whose iterations are independent, outermost first, and what they run."""

    axes: list[tuple[str, int]]
    body: list[Any]
    lanes: bool = False  # the last axis runs side by side, loops inside one by one


def peel(kernel: Kernel) -> Nest:
    """The independent axes of a kernel, and the statements inside them all."""
    axes = [kernel.grid] if kernel.grid is not None else []
    body = kernel.body
    while len(body) == 1 and isinstance(body[0], Loop) and not body[0].carries:
        (s,) = body
        if s.whole is not None:
            break
        axes.append((s.axis, s.extent))
        body = s.body
        if s.lanes:
            return Nest(axes, body, True)
    return Nest(axes, body)


def roots(body: list[Any]) -> list[Value]:
    """All values that statements need."""
    return [v for s in statements(body) if not isinstance(s, Loop) for v in s.operands]


def loads(body: list[Any]) -> list[Value]:
    """All loads of a body."""
    return _loads(tuple(roots(body)))


@lru(16)  # asked for again and again, of a few kernels
def _loads(found: tuple[Value, ...]) -> list[Value]:
    return [v for v in walk(found) if v.op == "load"]


def position(axes: list[tuple[str, int]]) -> Affine:
    """How many iterations of some axes come before one, the last axis fastest."""
    terms, stride = {}, 1
    for axis, extent in reversed(axes):
        terms[axis] = stride
        stride *= extent
    return affine(0, terms)


class Rewrite:
    """Statements with axes substituted, buffers renumbered and some values replaced.

    ``axes`` gives what stands for an axis; ``buffers`` the new number of a buffer and an index to
    add to its own; ``instead`` the replacement of a value, or None.
    """

    def __init__(
        self,
        k: Builder,
        axes: dict[str, Affine],
        buffers: Callable[[int], tuple[int, Affine]] = lambda i: (i, Affine()),
        instead: Callable[[Value], Value | None] = lambda v: None,
    ) -> None:
        self.k = k
        self.axes = axes
        self.buffers = buffers
        self.instead = instead
        self.known: dict[int, Value] = {}

    def index(self, index: Affine) -> Affine:
        total = Affine(index.const)
        for axis, factor in index.terms:
            total = total.plus(self.axes.get(axis, Affine(0, ((axis, 1),))).scaled(factor, 0))
        return total

    def place(self, buffer: int, index: Affine) -> tuple[int, Affine]:
        number, more = self.buffers(buffer)
        return number, self.index(index).plus(more)

    def value(self, root: Value) -> Value:
        for v in walk([root]):
            if v.number not in self.known:
                self.known[v.number] = self.instead(v) or self.copied(v)
        return self.known[root.number]

    def copied(self, v: Value) -> Value:
        if v.op == "load":
            args = tuple(self.known[a.number] for a in v.args)
            return self.k.make("load", args, v.dtype, (*self.place(*v.attr[:2]), *v.attr[2:]))
        if v.op == "index" and v.attr in self.axes:
            return self.k.position(self.axes[v.attr], v.dtype)
        args = tuple(self.known[a.number] for a in v.args)
        return self.k.make(v.op, args, v.dtype, v.attr)

    def statement(self, s: Any) -> Any:
        if isinstance(s, Loop):
            return s._replace(body=[self.statement(x) for x in s.body])
        if isinstance(s, Store):
            place = self.place(s.buffer, s.at)
            offset = None if s.offset is None else self.value(s.offset)
            return Store(*place, self.value(s.value), offset, s.reach, s.marks)
        return Reduce(s.symbol, s.op, self.value(s.value), s.dtype, s.initial)

    def body(self, body: list[Any]) -> list[Any]:
        return [self.statement(s) for s in body]
