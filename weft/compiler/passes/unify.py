"""Kernels that differ in sizes alone, as one kernel in named sizes.

A network has the same kernels for arrays of many shapes. Where they differ in nothing but extents,
strides and offsets, these have names in one kernel that all of them are instances of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.base.sizes import LEAST, size_named
from weft.compiler.passes.rewrite import roots
from weft.kernel.kernel import Affine, Kernel, Loop, Store, signature
from weft.kernel.nodes import Value, walk

# Extents and distances in memory below which they are part of what a kernel is.
MIN_EXTENT, MIN_DISTANCE = LEAST, 32


def apart(kernel: Kernel, facts: Sequence[int] = ()) -> tuple[Any, tuple[int, ...]]:
    """What is the same for all kernels that differ in sizes alone, and the sizes of this one.

    ``facts`` are numbers that belong to the kernel; their sizes come last.
    """
    sizes: list[int] = []

    def take(n: int, least: int = MIN_EXTENT) -> Any:
        if n < least:
            return n
        sizes.append(n)
        return None

    key = signature(_with_sizes(kernel, take)), tuple([take(n) for n in facts])
    return key, tuple(sizes)


def named(
    kernel: Kernel, facts: Sequence[int], rows: Sequence[Sequence[int]]
) -> tuple[Kernel, list[Any], list[dict[str, int]]]:
    """A kernel, the first of several alike, and its facts in named sizes; and the values of the
    names for each. ``rows`` are the sizes of all of them."""
    scope: dict[str, int] = {}
    names: dict[tuple[int, ...], Any] = {}
    sizes = []
    for column in zip(*rows, strict=True):
        size: Any = column[0]
        if any(n != size for n in column):
            size = names.get(column)
            if size is None:
                name = f"n{len(names)}"
                scope[name] = column[0]
                size = names[column] = size_named(name, scope)
        sizes.append(size)
    given = iter(sizes)

    def put(n: int, least: int = MIN_EXTENT) -> Any:
        return n if n < least else next(given)

    made = _with_sizes(kernel, put)
    values = [{f"n{j}": n[i] for j, n in enumerate(names)} for i in range(len(rows))]
    return made, [put(n) for n in facts], values


def _with_sizes(kernel: Kernel, put: Callable[..., Any]) -> Kernel:
    """A kernel with other numbers for its sizes, always asked for in the same order."""
    values: dict[int, Value] = {}

    def index(given: Affine) -> Affine:
        terms = tuple([(axis, put(factor, MIN_DISTANCE)) for axis, factor in given.terms])
        return Affine(put(given.const, MIN_DISTANCE), terms)

    def statement(s: Any) -> Any:
        if isinstance(s, Loop):
            whole = None if s.whole is None else (s.whole[0], put(s.whole[1]))
            body = [statement(x) for x in s.body]
            return s._replace(extent=put(s.extent), body=body, whole=whole)
        value = values[s.value.number]
        if not isinstance(s, Store):
            return s._replace(value=value)
        offset = None if s.offset is None else values[s.offset.number]
        reach = (put(s.reach[0]), put(s.reach[1]))
        return s._replace(at=index(s.at), value=value, offset=offset, reach=reach)

    for v in walk(roots(kernel.body)):
        attr, args = v.attr, tuple([values[a.number] for a in v.args])
        if v.op == "load":
            more = [(put(low), put(high)) for low, high in attr[2:]]
            attr = (attr[0], index(attr[1]), *more)
        elif args == v.args:
            values[v.number] = v
            continue
        values[v.number] = Value(v.op, args, v.dtype, attr, v.number)
    return kernel._replace(
        # the size of memory on the stack is to be known
        buffers=[b if b.role == "row" else b._replace(size=put(b.size)) for b in kernel.buffers],
        grid=None if kernel.grid is None else (kernel.grid[0], put(kernel.grid[1])),
        axes=tuple([(axis, put(extent)) for axis, extent in kernel.axes]),
        body=[statement(s) for s in kernel.body],
    )
