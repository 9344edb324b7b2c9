"""Axes that run through memory together made one, so that loops are few and long."""

from __future__ import annotations

from typing import Any

from weft.compiler.passes.rewrite import Rewrite, loads, roots
from weft.kernel.build import Builder
from weft.kernel.kernel import Affine, Kernel, Loop, Reduce, Store, affine, statements
from weft.kernel.nodes import walk


def collapse(kernel: Kernel) -> Kernel:
    """The kernel with adjacent axes merged wherever every index allows it."""
    kernel = straighten(kernel)
    grid = kernel.grid
    if grid is None or kernel.axes:
        body, merged = merge(kernel.body)
        return kernel._replace(body=body) if merged else kernel
    (top,), merged = merge([Loop(grid[0], grid[1], kernel.body)])
    return kernel._replace(grid=(top.axis, top.extent), body=top.body) if merged else kernel


def straighten(kernel: Kernel) -> Kernel:
    """The kernel without loops of one iteration, and with neighbouring loops that only write, over
    the same axis, as one: pieces of a joined array are computed side by side."""
    loops = [s for s in statements(kernel.body) if isinstance(s, Loop)]
    if any(s.whole is not None for s in loops) or not any(_once(s) for s in loops):
        return kernel
    body = _Straight().body(kernel.body, frozenset())
    written = {s.buffer for s in statements(body) if isinstance(s, Store)}
    if written.isdisjoint(v.attr[0] for v in loads(body)):
        body = _joined(body)
    return kernel._replace(body=body)


def _once(s: Loop) -> bool:
    return s.extent == 1 and not s.carries and not s.lanes


class _Straight:
    """Statements with axes of one iteration left out."""

    def __init__(self) -> None:
        self.k = Builder()
        self.rewrites: dict[frozenset[str], Rewrite] = {}

    def body(self, body: list[Any], gone: frozenset[str]) -> list[Any]:
        rewrite = self.rewrites.get(gone)
        if rewrite is None:
            rewrite = self.rewrites[gone] = Rewrite(self.k, dict.fromkeys(gone, Affine()))
        found: list[Any] = []
        for s in body:
            if not isinstance(s, Loop):
                found.append(rewrite.statement(s))
            elif _once(s):
                found += self.body(s.body, gone | {s.axis})
            else:
                found.append(s._replace(body=self.body(s.body, gone - {s.axis})))
        return found


def _joined(body: list[Any]) -> list[Any]:
    """Loops over the same axis that follow each other made one."""
    found: list[Any] = []
    for s in body:
        if isinstance(s, Loop) and found and _alike(found[-1], s):
            found[-1] = found[-1]._replace(body=[*found[-1].body, *s.body])
        else:
            found.append(s)
    return [s._replace(body=_joined(s.body)) if isinstance(s, Loop) else s for s in found]


def _alike(one: Any, other: Loop) -> bool:
    if not isinstance(one, Loop) or (one.axis, one.extent) != (other.axis, other.extent):
        return False
    parts = [*statements([one]), *statements([other])]
    return not any(isinstance(s, Reduce) or (isinstance(s, Loop) and s.lanes) for s in parts)


def merge(body: list[Any]) -> tuple[list[Any], bool]:
    """Statements with nests of loops merged, and whether any were."""
    indices, used = _indices(body)
    merged: set[str] = set()
    while True:
        parent = _find(body, indices, used)
        if parent is None:
            break
        merged.add(parent)
        indices = {_drop(i, parent) for i in indices}
        body = _replace(body, parent)
    if not merged:
        return body, False
    rewrite = Rewrite(Builder(), dict.fromkeys(merged, Affine()))
    return rewrite.body(body), True


def _indices(body: list[Any]) -> tuple[set[Affine], set[str]]:
    """All indices of statements, and the axes whose position is used as a value or counts
    pieces."""
    indices = {s.at for s in statements(body) if isinstance(s, Store)}
    used = {s.whole[0] for s in statements(body) if isinstance(s, Loop) and s.whole is not None}
    for v in walk(roots(body)):
        if v.op == "load":
            indices.add(v.attr[1])
        elif v.op == "index":
            used.add(v.attr)
    return indices, used


def _find(body: list[Any], indices: set[Affine], used: set[str]) -> str | None:
    """An axis that can be merged into the one inside it, wherever either of them runs."""
    inside: dict[str, set[str | None]] = {}
    around: dict[str, set[str | None]] = {}
    pairs = []

    def visit(statements: list[Any], parent: Loop | None) -> None:
        for s in statements:
            if isinstance(s, Loop):
                alone = len(s.body) == 1 and isinstance(s.body[0], Loop)
                inside.setdefault(s.axis, set()).add(s.body[0].axis if alone else None)
                alone = parent is not None and len(parent.body) == 1
                around.setdefault(s.axis, set()).add(parent.axis if alone and parent else None)
                if alone and parent is not None:
                    pairs.append((parent, s))
                visit(s.body, s)

    visit(body, None)
    for parent, child in pairs:
        if inside[parent.axis] == {child.axis} and around[child.axis] == {parent.axis}:
            # other loops over the same axes may have other extents
            both = [pair for pair in pairs if pair[0].axis == parent.axis]
            if all(_compatible(*pair, indices, used) for pair in both):
                return parent.axis
    return None


def _compatible(parent: Loop, child: Loop, indices: set[Affine], used: set[str]) -> bool:
    if parent.axis in used or child.axis in used or parent.carries != child.carries:
        return False
    if parent.lanes or child.whole is not None:
        return False
    n = child.extent
    return all(i.coefficient(parent.axis) == n * i.coefficient(child.axis) for i in indices)


def _drop(index: Affine, axis: str) -> Affine:
    return affine(index.const, {a: c for a, c in index.terms if a != axis})


def _replace(body: list[Any], parent: str) -> list[Any]:
    """Loops over an axis replaced by the loop inside, made as long as both."""
    out = []
    for s in body:
        if isinstance(s, Loop) and s.axis == parent:
            (child,) = s.body
            whole = None if s.whole is None else (s.whole[0], s.whole[1] * child.extent)
            longer = child._replace(extent=s.extent * child.extent, whole=whole)
            out.append(longer._replace(body=_replace(longer.body, parent)))
        elif isinstance(s, Loop):
            out.append(s._replace(body=_replace(s.body, parent)))
        else:
            out.append(s)
    return out
