"""Axes that run through memory together made one, so that loops are few and long."""

from __future__ import annotations

from typing import Any

from weft.kernel.build import Builder
from weft.kernel.kernel import Affine, Kernel, Loop, Reduce, Store, affine, statements
from weft.kernel.nodes import Value, walk


def collapse(kernel: Kernel) -> Kernel:
    """The kernel with adjacent axes merged wherever every index allows it."""
    outer = kernel.body
    grid = kernel.grid
    nested = [Loop(grid[0], grid[1], outer)] if grid is not None else outer
    indices, used = _indices(kernel)
    merged: dict[str, str] = {}
    while True:
        pair = _find(nested, indices, used)
        if pair is None:
            break
        parent, child = pair
        merged[parent.axis] = child.axis
        indices = {_drop(i, parent.axis) for i in indices}
        nested = _replace(nested, parent, child)
    if not merged:
        return kernel
    rewrite = _Rewrite(set(merged))
    body = [rewrite.statement(s) for s in nested]
    if grid is not None:
        (top,) = body
        return Kernel(kernel.name, kernel.buffers, (top.axis, top.extent), top.body)
    return Kernel(kernel.name, kernel.buffers, None, body)


def _roots(kernel: Kernel) -> list[Value]:
    return [s.value for s in statements(kernel.body) if not isinstance(s, Loop)]


def _indices(kernel: Kernel) -> tuple[set[Affine], set[str]]:
    """All indices of a kernel, and the axes whose position is used as a value."""
    indices = {s.at for s in statements(kernel.body) if isinstance(s, Store)}
    used: set[str] = set()
    for v in walk(_roots(kernel)):
        if v.op == "load":
            indices.add(v.attr[1])
        elif v.op == "index":
            used.add(v.attr)
    return indices, used


def _find(body: list[Any], indices: set[Affine], used: set[str]) -> tuple[Loop, Loop] | None:
    for s in body:
        if not isinstance(s, Loop):
            continue
        if len(s.body) == 1 and isinstance(s.body[0], Loop):
            child = s.body[0]
            if _compatible(s, child, indices, used):
                return s, child
        found = _find(s.body, indices, used)
        if found is not None:
            return found
    return None


def _compatible(parent: Loop, child: Loop, indices: set[Affine], used: set[str]) -> bool:
    if parent.axis in used or child.axis in used or parent.carries != child.carries:
        return False
    if parent.lanes:
        return False
    n = child.extent
    return all(i.coefficient(parent.axis) == n * i.coefficient(child.axis) for i in indices)


def _drop(index: Affine, axis: str) -> Affine:
    return affine(index.const, {a: c for a, c in index.terms if a != axis})


def _replace(body: list[Any], parent: Loop, child: Loop) -> list[Any]:
    out = []
    for s in body:
        if s is parent:
            out.append(child._replace(extent=parent.extent * child.extent))
        elif isinstance(s, Loop):
            out.append(s._replace(body=_replace(s.body, parent, child)))
        else:
            out.append(s)
    return out


class _Rewrite:
    """Statements and values with some axes dropped from their indices."""

    def __init__(self, axes: set[str]) -> None:
        self.axes = axes
        self.k = Builder()
        self.known: dict[int, Value] = {}

    def index(self, index: Affine) -> Affine:
        return affine(index.const, {a: c for a, c in index.terms if a not in self.axes})

    def value(self, root: Value) -> Value:
        for v in walk([root]):
            if v.number in self.known:
                continue
            attr = v.attr
            if v.op == "load":
                attr = (attr[0], self.index(attr[1]))
            args = tuple(self.known[a.number] for a in v.args)
            self.known[v.number] = self.k.make(v.op, args, v.dtype, attr)
        return self.known[root.number]

    def statement(self, s: Any) -> Any:
        if isinstance(s, Loop):
            return s._replace(body=[self.statement(x) for x in s.body])
        if isinstance(s, Store):
            return Store(s.buffer, self.index(s.at), self.value(s.value))
        return Reduce(s.symbol, s.op, self.value(s.value), s.dtype, s.initial)
