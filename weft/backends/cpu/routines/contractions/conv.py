"""Convolutions as contractions: dilated inputs are taken apart into plain convolutions, borders are
copied, and what is left is sums of products with affine indices, tile by tile."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.routines.contractions.contraction import Plan, packed, unknown
from weft.backends.cpu.routines.contractions.conv_moves import Copied, parts_module
from weft.backends.cpu.routines.contractions.conv_text import (
    Border,
    Contraction,
    Dim,
    Unit,
    collapsed,
    is_long,
)
from weft.backends.cpu.routines.contractions.decisions import decide
from weft.backends.cpu.routines.contractions.lines import Line, lines
from weft.backends.cpu.routines.contractions.tiles import (
    KERNEL,
    Block,
    Grid,
    Role,
    Split,
    Tiling,
    choose,
    chunk_cycles,
    grid_of,
    kernel_bytes,
)
from weft.backends.cpu.routines.products.product import (
    Operand,
    Product,
    Result,
    joined,
    reads_far_again,
    swapped,
)
from weft.backends.cpu.routines.registry import FINISHING, LOWERINGS
from weft.backends.llvm.native.processor import registers
from weft.backends.llvm.tasks import Lowered, Place
from weft.base import knobs
from weft.base.record import Record
from weft.base.sizes import Size, is_one, is_writing, plain
from weft.kernel.nodes import BF16, F16, F32, is_float
from weft.kernel.program import Finish, Type, contiguous

COMPUTED = frozenset([BF16, F16, *map(np.dtype, "f4 f8 c8 c16 i1 i2 i4 i8 u1 u2 u4 u8".split())])
# Fewer pieces of work than this are not enough to share.
OWN = 16
# Bytes of a copy that a function may have on its stack, and elements that units may copy more than
# once for each cycle of all sums.
MAX_STACK_COPY_BYTES = 1 << 18
MORE = 0.4
# Rows and columns from which a convolution without windows is done as products are.
MIN_PRODUCT_SIDE = 16
# What sizes of images are taken for at most where forms are to serve all.
TYPICAL_SIZE = 16


class Edge(Record):
    """An axis of the left operand: what is read of it, which may begin before and end after it."""

    name: str
    size: int
    stride: int
    low: int
    high: int

    @property
    def padded(self) -> bool:
        return self.low < 0 or self.high > self.size


def real_of(dtype: np.dtype) -> np.dtype:
    """The dtype of a number's parts."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def working(*dtypes: np.dtype) -> np.dtype | None:
    """The dtype of products and sums, or that of parts of complex ones, for operands and a result;
    None where the reference does it."""
    out = dtypes[-1]
    if any(d not in COMPUTED or (d.kind == "c") != (out.kind == "c") for d in dtypes):
        return None
    floats = [real_of(d) for d in dtypes if d.kind == "c" or is_float(d)]
    if not floats:
        return out
    return max(F32, *floats, key=lambda d: d.itemsize) if real_of(out) in floats else None


def _strides(spec: list[int], sizes: list[int], times: int) -> list[int]:
    """The strides of dimensions that lie along these axes."""
    shape = [n for _, n in sorted(zip(spec, sizes, strict=True), key=lambda both: both[0])]
    return [times * contiguous(tuple(shape))[i] for i in spec]


class Convolution(Plan):
    """The roles of a convolution's dimensions, and the tasks that come of them."""

    def __init__(self, left: Type, right: Type, out: Type, work: np.dtype, params: Any) -> None:
        super().__init__(work, "conv")
        self.left, self.right, self.out = left, right, out
        self.finish: Finish | None = None
        self.chosen: dict[Any, Tiling] = {}
        lhs, rhs, result = map(list, params["dimension_numbers"])
        self.named = next((n for t in (left, right, out) for n in t.shape if type(n) is Size), None)
        self.complex = left.dtype.kind == "c"
        self.parted = 1 + self.complex  # parts of a number, which lie next to each other
        self.kernel = Place("in", 1)
        features, self.batch_groups = params["feature_group_count"], params["batch_group_count"]
        self.groups = self.read(features * self.batch_groups, 0)
        # of one group
        self.batch = self.read(out.shape[result[0]], 1)
        self.features = self.read(right.shape[rhs[1]], 2)
        self.outputs = self.read(right.shape[rhs[0]] // (features * self.batch_groups), 3)
        rank = len(lhs) - 2
        self.space, self.window, sizes = (
            [self.read(t.shape[spec[2 + i]], 4 + 3 * i + j) for i in range(rank)]
            for j, (t, spec) in enumerate(((left, lhs), (right, rhs), (out, result)))
        )
        every = [self.groups * n for n in (self.batch, self.features, self.outputs)]
        if self.batch_groups > 1:
            every[1] = self.features
        else:
            every[0] = self.batch
        self.left_strides = _strides(lhs, [every[0], every[1], *self.space], self.parted)
        self.right_strides = _strides(rhs, [every[2], self.features, *self.window], 1)
        self.out_strides = _strides(result, [self.batch, every[2], *sizes], self.parted)
        lows = [low for low, _ in params["padding"]]
        self.parts = list(
            product(
                *map(
                    lines,
                    sizes,
                    self.window,
                    params["window_strides"],
                    lows,
                    params["lhs_dilation"],
                    params["rhs_dilation"],
                )
            )
        )
        self.edges = self.all_edges()
        self.extents = {e.name: max(1, e.high - e.low) for e in self.edges}

    # --- dimensions -------------------------------------------------------------------------------

    def read(self, n: int, place: int) -> int:
        """A number as one that native code reads, where sizes have names: texts are the same then
        whichever of them have, and are equal."""
        if self.named is None or n < 2:
            return int(n)
        return unknown(n, place, self.named)

    def all_edges(self) -> list[Edge]:
        """The axes of the left operand, groups apart."""
        n, f, *space = self.left_strides
        edges = []
        if not is_one(self.groups):
            stride = n * self.batch if self.batch_groups > 1 else f * self.features
            edges.append(Edge("g", self.groups, stride, 0, self.groups))
        edges.append(Edge("n", self.batch, n, 0, self.batch))
        edges.append(Edge("c", self.features, f, 0, self.features))
        for i, stride in enumerate(space):
            used = [part[i] for part in self.parts if part[i].taps]
            low = min([line.start for line in used], default=0)
            high = max(
                [
                    line.start + (line.size - 1) * line.stride + (line.taps - 1) * line.dilation + 1
                    for line in used
                ],
                default=0,
            )
            edges.append(Edge(f"s{i}", self.space[i], stride, low, high))
        if self.complex:
            edges.append(Edge("z", 2, 1, 0, 2))
        return edges

    def roles(self, part: Sequence[Line]) -> list[Role]:
        """The dimensions of a plain convolution; those without a stride in the result are summed
        over."""
        k, c, *window = self.right_strides
        n, f, *space = self.out_strides
        roles = []
        if not is_one(self.groups):
            roles.append(Role("g", self.groups, "g", 1, k * self.outputs, f * self.outputs))
        roles.append(Role("n", self.batch, "n", 1, 0, n))
        for i, (line, stride) in enumerate(zip(part, space, strict=True)):
            roles.append(Role(f"o{i}", line.size, f"s{i}", line.stride, 0, stride * line.step))
        roles.append(Role("k", self.outputs, "", 0, k, f))
        roles.append(Role("c", self.features, "c", 1, c, 0))
        for i, (line, stride) in enumerate(zip(part, window, strict=True)):
            taps = Role(f"t{i}", line.taps, f"s{i}", line.dilation, stride * line.tap_step, 0)
            roles.append(taps)
        if self.complex:  # the kernel's four parts are apart: see ``spread_text``
            size = prod(self.right.shape)
            roles.append(Role("z", 2, "z", 1, 2 * size, 0))
            roles.append(Role("y", 2, "", 0, size, 1))
        return roles

    # --- tasks ------------------------------------------------------------------------------------

    def layout(self, vector: str) -> dict[str, int] | None:
        """Strides of a copy of the left operand, or None where it is read where it lies, in vectors
        along an axis."""
        near = all(e.stride == 1 for e in self.edges if e.name == vector)
        same = real_of(self.left.dtype) == self.work
        if same and near and not any(e.padded for e in self.edges):
            return None
        order = sorted(self.edges, key=lambda e: (e.name == vector, -plain(e.stride)))
        return self.strides(order, self.extents)

    def strides(self, order: list[Edge], sizes: dict[str, int]) -> dict[str, int]:
        """Strides of a copy with axes in this order, outermost first; its size has no name."""
        found, total = {}, 1
        for e in reversed(order):
            found[e.name] = total
            total *= sizes[e.name]
        return {**found, "": total}

    def as_product(self) -> Lowered | None:
        """The tasks of a convolution whose windows do not overlap, by tiles of products; None where
        some do, or sides of tiles would be short."""
        part, *others = self.parts
        if others or self.named is not None or self.complex or any(e.padded for e in self.edges):
            return None
        roles = [r for r in self.placed(self.roles(part), None) if r.size > 1]
        axes = [r.axis for r in roles if r.axis]
        inner = [r for r in roles if r.out == 1]
        if len({*axes}) < len(axes) or not inner or (inner[0].times and inner[0].right):
            return None
        if any(line.start or not line.taps for line in part):
            return None
        left, right = (
            Operand(Place("in", i), t.dtype, t.shape) for i, t in enumerate((self.left, self.right))
        )
        plan = Product(self.work, left, right, Result(Place("out", 0), self.out.dtype, self.finish))
        dims, side = [Dim(r.size, r.times, r.right, r.out) for r in roles], "left"
        if inner[0].times:
            plan.left, plan.right, dims, side = right, left, swapped(dims), "right"
        for copied in (False, True):
            if copied:  # what is apart comes to lie side by side
                dims = plan.beside(sorted(dims, key=lambda d: -getattr(d, side)), side)
            problem = joined(dims)
            if problem and not copied and reads_far_again(problem, self.work.itemsize):
                continue
            if problem and min(problem.rows.size, problem.columns.size) >= MIN_PRODUCT_SIDE:
                lowered = plan.run(problem, prod(self.out.shape))
                if lowered is None:
                    raise _Apart
                return lowered
        return None

    def run(self) -> Lowered:
        """The tasks: copies, contractions, sums."""
        size = prod(self.right.shape)
        if self.complex and size:
            self.kernel = self.memory(4 * size * self.work.itemsize)
            places = (Place("in", 1), self.kernel, Place("numbers", (size,)))
            self.task(parts_module(self.work, self.name), places, size, 1 << 12)
        # One with taps, if there is any: without them a line has no stride.
        heaviest = max(self.parts, key=lambda part: plain(prod(x.size * x.taps for x in part)))
        options = []
        for role in self.candidates(self.roles(heaviest)):
            strides = self.layout(role.axis)
            tiling = self.choose(self.placed(self.roles(heaviest), strides), role.name)
            options.append((tiling.cost + self.copying(role.axis), role, strides))
        _, vector, strides = min(options, key=lambda option: option[0])
        source = Place("in", 0)
        if strides is not None and len(self.parts) > 1:
            source = self.copy_left(strides)
        for part in self.parts:
            self.part_tasks(part, vector.name, strides, source)
        return self.lowered()

    def candidates(self, roles: list[Role]) -> list[Role]:
        """Dimensions that may lie in vectors; few where the obvious ones fill them."""
        found = [r for r in roles if r.out and r.times in (0, 1)]
        found = [r for r in found if r.size > 1 or r.name == "k"]
        near = {e.name: e.stride for e in self.edges}
        found.sort(key=lambda r: plain(near.get(r.axis, 0)))
        obvious = [r for r in found if r.name == "k" or r.out == 1]
        return obvious if any(plain(r.size) >= self.lanes for r in obvious) else found

    def choose(self, placed: list[Role], vector: str) -> Tiling:
        """The cheapest tile for the sizes at hand; those of images count up to a typical one where
        they have names, so that few forms serve all."""
        known = tuple([Role(*map(plain, r)) for r in placed])
        if self.named is not None:
            widest = {vector: 4 * self.lanes}
            known = tuple(
                r._replace(size=min(r.size, widest.get(r.name, TYPICAL_SIZE)))
                if r.name[0] in "no"
                else r
                for r in known
            )
        if (known, vector) not in self.chosen:
            found = choose(list(known), vector, self.lanes, self.work.itemsize)
            self.chosen[known, vector] = found
        return self.chosen[known, vector]

    def copying(self, vector: str) -> float:
        """What the copy for a vector axis costs, in cycles."""
        strides = self.layout(vector)
        if strides is None:
            return 0
        sizes = {name: plain(n) for name, n in self.extents.items()}
        if self.named is not None:
            sizes |= {e: min(n, TYPICAL_SIZE) for e, n in sizes.items() if e[0] in "ns"}
        size = prod(sizes.values())
        inner = [e for e in self.edges if e.stride == 1]
        turns = vector and not any(e.name == vector for e in inner)
        return size * (1.0 if turns else 4.0 / self.lanes)

    def placed(self, roles: list[Role], strides: dict[str, int] | None) -> list[Role]:
        """Roles with their strides in the left operand, or in its copy, for ``times``."""
        where = strides or {e.name: e.stride for e in self.edges}
        return [r._replace(times=r.times * where[r.axis] if r.axis else 0) for r in roles]

    def borders(
        self, strides: dict[str, int], sizes: dict[str, int], shifted: str = ""
    ) -> tuple[Copied, ...]:
        """The axes of a copy of the left operand, of which one is shifted."""
        dims = []
        for i, e in enumerate(sorted(self.edges, key=lambda e: -plain(strides[e.name]))):
            low = -e.low if self.named is None else unknown(-e.low, -4 - i, self.named)
            inside = (0, -1) if (e.low, e.high) == (0, e.size) else (low, e.size)
            axis = Copied(sizes[e.name], e.stride, strides[e.name], *inside)
            dims.append(axis._replace(shifted=e.name == shifted))
        return tuple(dims)

    def copy_left(self, strides: dict[str, int]) -> Place:
        """A task that copies the left operand, and where to."""
        types, dims = (real_of(self.left.dtype), self.work), self.borders(strides, self.extents)
        return self.copied(Place("in", 0), dims, types, strides[""])

    def block(self, part: Sequence[Line], tiling: Tiling, strides: dict[str, int]) -> Block | None:
        """How units of tiles copy what they read of the left operand, or None where there would be
        too few of them, or each would walk over a large right one."""
        sizes = self.extents
        whole, wanted = strides[""], min(OWN, tiling.cost / chunk_cycles())
        each = {r.name: n for r, n in tiling.box}.get("n", 1)
        batch = self.batch
        if tiling.split is not None:
            if tiling.split.name != "c":  # neighbours in space read the same elements
                return None
            count, sizes = tiling.split.count, {**sizes, "c": tiling.split.size}
            options = [(count, sizes, {"c": 1})]
            if count < wanted and each > 1 and tiling.vector != "n":
                units = count * -(-batch // each)
                options = [(units, {**sizes, "n": each}, {"c": 1, "n": each})]
        elif tiling.vector == "n" or kernel_bytes(self.roles(part), self.work.itemsize) > KERNEL:
            return None
        else:
            options = [(-(-batch // each), {**sizes, "n": each}, {"n": each})]
            options += self.rows(part, tiling, strides, options[0])
        order = sorted(self.edges, key=lambda e: -plain(strides[e.name]))
        blocks = [
            Block(kept, self.strides(order, kept), apart, count)
            for count, kept, apart in options
            if count >= wanted
        ]
        for block in blocks:
            size, more = block.strides[""], block.count * block.strides[""] - whole
            fits = size * self.work.itemsize <= MAX_STACK_COPY_BYTES
            if fits and more <= max(whole, MORE * tiling.cost):
                return block
        return blocks[0] if blocks and blocks[0].apart == options[0][2] else None

    def rows(self, part: Sequence[Line], tiling: Tiling, strides: Any, whole: Any) -> list[Any]:
        """Units as ``whole`` ones of all rows, with ever fewer rows: of the outermost axis in space
        whose elements are not neighbours in the copy."""
        free = [i for i, line in enumerate(part) if f"o{i}" != tiling.vector and line.taps]
        i = max(free, key=lambda i: strides[f"s{i}"], default=-1)
        if i < 0 or strides[f"s{i}"] == 1:
            return []
        count, sizes, apart = whole
        line, name = part[i], f"o{i}"
        step = {r.name: n for r, n in tiling.box}.get(name, 1)
        tiles = -(-line.size // step)
        found = []
        for some in sorted({-(-tiles // n) for n in range(2, tiles + 1)}, reverse=True):
            rows = min(some * step, line.size)
            read = (rows - 1) * line.stride + (line.taps - 1) * line.dilation + 1
            units = count * -(-line.size // rows)
            found.append((units, {**sizes, f"s{i}": read}, {**apart, name: rows}))
        return found

    def border(self, part: Sequence[Line], block: Block, grid: Grid, split: Split | None) -> Border:
        """The copies of units."""
        edges = {e.name: e for e in self.edges}
        axes = {r.name: r.axis for r in self.roles(part)}
        units, shifted = [], ""
        for name, axis in grid.units:
            edge = edges[axes[name]]
            if name[0] == "o":
                shifted = edge.name
                units.append(Unit(axis, 0, part[int(name[1:])].stride))
            else:
                size = split.size if split is not None and split.name == name else 1
                units.append(Unit(axis, edge.stride * size))
        dims = self.borders(block.strides, block.sizes, shifted)
        size = block.strides[""]
        kept = size * self.work.itemsize > MAX_STACK_COPY_BYTES
        return Border(tuple(units), dims, real_of(self.left.dtype), self.lanes, size, kept)

    def part_tasks(self, part: Sequence[Line], vector: str, strides: Any, source: Place) -> None:
        """The tasks of one plain convolution."""
        placed = self.placed(self.roles(part), strides)
        chosen = self.choose(placed, vector)
        decided = decide(placed, vector, self.lanes, self.work.itemsize, tiling=chosen)
        tiling, block = decided.tiling, None
        if len(self.parts) > 1:
            tiling = tiling._replace(split=None)
        if strides is not None and len(self.parts) == 1:
            block = None if is_writing() else self.block(part, tiling, strides)
            if block is None:
                source = self.copy_left(strides)
            else:
                strides = block.strides
                placed = self.placed(self.roles(part), strides)
                tiling = tiling.along(placed)
        where = strides or {e.name: e.stride for e in self.edges}
        lows = {e.name: e.low if strides else 0 for e in self.edges}
        start = sum(
            (line.start - lows[f"s{i}"]) * where[f"s{i}"]
            for i, line in enumerate(part)
            if line.taps
        )
        first = sum(
            line.first * stride for line, stride in zip(part, self.out_strides[2:], strict=True)
        )
        tap = sum(
            line.tap * stride for line, stride in zip(part, self.right_strides[2:], strict=True)
        )
        if self.named is not None and len(self.parts) > 1:
            start, first, tap = (
                unknown(n, -1 - i, self.named) for i, n in enumerate((start, first, tap))
            )
        summed = self.summands(placed, part)
        kernel, right, panels, tap = self.copy_right(placed, tiling, tap, decided.packed[1])
        reduced = [Dim(r.size, r.times, right[r.name]) for r in summed]
        split = tiling.split
        if split is not None:
            i = next(i for i, r in enumerate(summed) if r.name == split.name)
            reduced[i] = reduced[i]._replace(size=split.size)
        out, target = real_of(self.out.dtype), Place("out", 0)
        whole = self.parted * prod(self.out.shape)
        if split is not None:
            target, out = self.memory(whole * split.count * self.work.itemsize), self.work
        strides = {r.name: r.times for r in placed}, right
        grid = grid_of(placed, tiling, strides, (0, panels), whole, block)
        border = None if block is None else self.border(part, block, grid, split)
        if self.finish is not None and (split is not None or grid.vector[2] != 1):
            raise _Apart
        places: tuple[Place, ...] = (source, kernel, target)
        if border is not None and border.kept:
            places = (*places, self.memory(border.size * grid.extent * self.work.itemsize))
        plan = Contraction(
            self.work,
            out,
            grid.axes,
            tuple(Dim(n, r.times, right[r.name], r.out) for r, n in tiling.box),
            Dim(tiling.width, *grid.vector),
            tiling.pieces(self.lanes),
            collapsed(reduced),
            start,
            tap,
            first,
            registers(),
            is_long(grid.cycles),
            border,
            self.finish is not None,
        )
        self.contract(plan, places, grid.extent, grid.chunk, self.finish, tiling.width)
        if split is not None:
            types = (self.work, real_of(self.out.dtype))
            self.summed(target, types, whole, split.count, Place("out", 0))

    def summands(self, placed: list[Role], part: Sequence[Line]) -> list[Role]:
        """The dimensions that are summed over, outermost first: as memory is read, or in the order
        of the left operand itself where neither vectors nor the batch may change the order."""
        times = {r.name: r.times for r in placed}
        if knobs.thread.reproducible:
            times = {r.name: r.times for r in self.placed(self.roles(part), None)}
        return sorted((r for r in placed if not r.out), key=lambda r: -times[r.name])

    def copy_right(
        self, placed: list[Role], tiling: Tiling, tap: int, pack: bool
    ) -> tuple[Place, dict[str, int], int, int]:
        """Where the right operand is, its strides, the distance of its panels, and its start."""
        right = {r.name: r.right for r in placed}
        vector = next(r for r in placed if r.name == tiling.vector)
        size = prod(r.size for r in placed if r.right)
        have = self.work if self.complex else self.right.dtype
        if (have == self.work and not pack) or not size:
            return self.kernel, right, 0, tap
        found = packed(placed, "right", tiling.vector, tiling.width)
        types, rows = (have, self.work), vector.right == 1
        target = self.copied(self.kernel, found.dims, types, found.size, tap, careless=rows)
        panels = found.panel if vector.right and not is_one(tiling.count) else 0
        return target, right | found.strides, panels, 0


class _Apart(Exception):
    """Tiles of a result that no kernel can go on with."""


def convolution(
    ins: list[Type], outs: list[Type], params: dict[str, Any], finish: Finish | None = None
) -> Lowered | None:
    """Tasks of ``conv_general_dilated``; with a kernel that goes on with the result, None where
    neighbours in the result are not in one tile."""
    (left, right), (out,) = ins, outs
    work = working(left.dtype, out.dtype)
    if work is None or not left.dtype == right.dtype:
        return None
    if not prod(out.shape):
        return Lowered([])
    made = Convolution(left, right, out, work, params)
    if finish is not None:
        if made.complex:
            return None
        made.finish = finish
    try:
        return made.as_product() or made.run()
    except _Apart:
        return None


LOWERINGS["conv_general_dilated"] = convolution
FINISHING["conv_general_dilated"] = convolution
