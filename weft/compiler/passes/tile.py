"""Tiles for kernels that read along one axis and write along another: through small buffers that
stay in the first cache."""

from __future__ import annotations

from collections import Counter
from typing import Any

from weft.base.sizes import at_most, plain
from weft.compiler.passes.rewrite import Rewrite, loads, peel
from weft.kernel.build import Builder
from weft.kernel.kernel import Affine, Buffer, Kernel, Loop, Store, affine, in_loops
from weft.kernel.nodes import Value

# Elements of a tile's side, and bytes of all tiles of a kernel.
_SIDE, _BYTES = 64, 1 << 15
# Distances between neighbours up to which a few vectors hold them all.
_MAX_NEAR_STRIDE = 4
# Extents below which a tile is not worth it.
_MIN_TILE_EXTENT = 8


def tile(kernel: Kernel) -> Kernel:
    """The kernel over tiles of two axes, where its reads and writes follow different ones."""
    nest = peel(kernel)
    if not nest.axes or not all(isinstance(s, Store) and s.offset is None for s in nest.body):
        return kernel
    extents = dict(nest.axes)
    last = nest.axes[-1][0]
    if plain(extents[last]) < _MIN_TILE_EXTENT:
        return kernel
    if any(s.at.coefficient(last) != 1 for s in nest.body):
        return kernel
    across: Counter[str] = Counter()
    turned: dict[str, list[Value]] = {}
    for v in loads(nest.body):
        if v.args or abs(plain(v.attr[1].coefficient(last))) <= _MAX_NEAR_STRIDE:
            continue
        for axis, factor in v.attr[1].terms:
            if factor == 1 and plain(extents[axis]) >= _MIN_TILE_EXTENT:
                across[axis] += v.dtype.itemsize
                turned.setdefault(axis, []).append(v)
    if not across:
        return kernel
    other = max(across, key=lambda axis: across[axis])
    return _tiled(kernel, nest.axes, nest.body, other, turned[other])


def _tiled(
    kernel: Kernel,
    axes: list[tuple[str, int]],
    body: list[Any],
    other: str,
    turned: list[Value],
) -> Kernel:
    last, extents = axes[-1][0], dict(axes)
    side = _SIDE
    while side > 16 and side * side * sum(v.dtype.itemsize for v in turned) > _BYTES:
        side //= 2
    sides = {axis: at_most(extents[axis], side) for axis in (other, last)}
    counts = {axis: -(-extents[axis] // sides[axis]) for axis in sides}
    k = Builder()
    moved = {axis: affine(0, {f"{axis}o": sides[axis], axis: 1}) for axis in sides}

    def nested(statements: list[Any]) -> Loop:
        inner = Loop(last, sides[last], statements, whole=(f"{last}o", extents[last]))
        return Loop(other, sides[other], [inner], whole=(f"{other}o", extents[other]))

    rewrite = Rewrite(k, moved)
    at = affine(0, {other: sides[last], last: 1})
    rows: list[Buffer] = []
    result: list[Any] = []
    held: dict[int, Value] = {}
    if not all(s.value in turned for s in body):
        places: dict[tuple[int, Affine], int] = {}
        for v in turned:
            place = places.setdefault(v.attr, len(kernel.buffers) + len(places))
            if place - len(kernel.buffers) == len(rows):
                rows.append(Buffer(v.dtype, sides[other] * sides[last], "row"))
                result.append(nested([Store(place, at, rewrite.value(v))]))
            held[v.number] = k.load(place, v.dtype, at)
    main = Rewrite(k, moved, instead=lambda v: held.get(v.number))
    result += [nested([s]) for s in main.body(body)] if not held else [nested(main.body(body))]
    outer = [(axis, n) for axis, n in axes if axis not in sides]
    grid = [*outer, (f"{other}o", counts[other]), (f"{last}o", counts[last])]
    return Kernel(kernel.name, [*kernel.buffers, *rows], None, in_loops(grid, result))
