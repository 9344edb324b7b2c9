"""Costly values that several passes over a row need: computed once, kept in a buffer of the row."""

from __future__ import annotations

from typing import Any

from weft.kernel.build import Builder
from weft.kernel.kernel import Affine, Buffer, Store
from weft.kernel.nodes import Value, walk

# Row buffers lie on the stack; beyond this, values are computed again.
MAX_ROW_BUFFER_BYTES = 1 << 18
# The same where rows are in registers or in memory that threads share.
MAX_ROW_BYTES_ON_CHIP = 1 << 15


def keep(
    k: Builder,
    passes: list[list[Any]],
    costly: dict[int, Value],
    position: Affine,
    size: int,
    place: int,
    limit: int = MAX_ROW_BUFFER_BYTES,
) -> tuple[list[list[Any]], list[Buffer]]:
    """Passes in which a costly value is stored where it is first met and read from then on.

    ``position`` counts the ``size`` elements of a row; new buffers are numbered from ``place``.
    """
    first, again = _met(passes, costly)
    kept = [n for n in costly if n in again]
    buffers = [Buffer(costly[n].dtype, size, "row") for n in kept]
    if not kept or sum(b.size * b.dtype.itemsize for b in buffers) > limit:
        return passes, []
    places = {n: place + i for i, n in enumerate(kept)}
    result = []
    for i, statements in enumerate(passes):
        loads = {n: k.load(places[n], costly[n].dtype, position) for n in kept if first[n] < i}
        changed = [s._replace(value=replaced(k, s.value, loads)) for s in statements]
        changed += [
            Store(places[n], position, replaced(k, costly[n], loads)) for n in kept if first[n] == i
        ]
        result.append(changed)
    return result, buffers


def _met(passes: list[list[Any]], costly: dict[int, Value]) -> tuple[dict[int, int], set[int]]:
    """The pass that first computes each costly value, and those that a later pass needs too."""
    first: dict[int, int] = {}
    again: set[int] = set()
    for i, statements in enumerate(passes):
        stack = [v for s in statements for v in s.operands]
        seen: set[int] = set()
        while stack:
            value = stack.pop()
            if value.number in seen:
                continue
            seen.add(value.number)
            if value.number in first:
                again.add(value.number)
            else:
                stack.extend(value.args)
        first.update((n, i) for n in seen if n in costly and n not in first)
    return first, again


def replaced(k: Builder, root: Value, known: dict[int, Value]) -> Value:
    """A value with some of those it is made of replaced."""
    if not known:
        return root
    found = dict(known)
    for v in walk([root]):
        if v.number not in found:
            args = tuple(found[a.number] for a in v.args)
            found[v.number] = v if args == v.args else k.make(v.op, args, v.dtype, v.attr)
    return found[root.number]
