"""Programs over several devices: shardings as annotations, and collectives in manual regions.

A module is the program of all partitions, whose numbers are the places of devices in the order of
its first mesh. XLA's partitioner divides what is not in a manual region, as ``shard_map`` is. It is
Shardy or GSPMD; both have forms for shardings and manual regions, and the same collectives.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.base.knobs import thread
from weft.core.sharding import NamedSharding, PartitionSpec, axes_of
from weft.stablehlo.elementwise import compare, convert, select
from weft.stablehlo.emitter import Emitter, Typed, module_text, rule
from weft.stablehlo.shardy import Meshes, manual_axes
from weft.stablehlo.structure import dynamic_slice, reduced
from weft.stablehlo.types import Unlowered, physical

REPLICATED, MANUAL = "{replicated}", "{manual}"


class Partitions:
    """The partitions of a module: devices in order."""

    def __init__(self, mesh: Any, with_shardy: bool = False) -> None:
        self.mesh, self.count = mesh, int(mesh.size)
        self.shardy = Meshes(self.grid) if with_shardy else None
        self.devices = list(mesh.devices.flat) if hasattr(mesh, "devices") else None
        self.manual: Any = None  # the mesh of the manual region that is being written
        self.manual_axes: frozenset[Any] = frozenset()  # and those of its axes that are manual
        self.channels = 0

    def grid(self, mesh: Any) -> np.ndarray:
        """The partitions of a mesh of the same devices, in its shape."""
        sizes = tuple(dict(mesh.shape).values())
        if prod(sizes) != self.count:
            raise Unlowered(f"a mesh of {prod(sizes)} devices in a program on {self.count}")
        if self.devices is None or not hasattr(mesh, "devices"):
            return np.arange(self.count).reshape(sizes)
        try:
            return np.array([self.devices.index(d) for d in mesh.devices.flat]).reshape(sizes)
        except ValueError:
            raise Unlowered("a program cannot use meshes with different devices") from None

    def text(self, sharding: Any, rank: int) -> str:
        """A sharding as XLA writes it.

        >>> from weft.core.sharding import AbstractMesh
        >>> mesh = AbstractMesh((2, 4), ("a", "b"))
        >>> parts = Partitions(mesh)
        >>> parts.text(NamedSharding(mesh, PartitionSpec("b")), 2)
        '{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}'
        >>> parts.text(NamedSharding(mesh, PartitionSpec(("a", "b"), None)), 2)
        '{devices=[8,1]<=[8]}'
        """
        if not isinstance(sharding, NamedSharding):
            return REPLICATED
        return self._tiles(sharding.mesh, _dims(sharding.spec, rank), ())

    def attribute(self, sharding: Any, rank: int) -> str:
        """A sharding as an attribute of an argument or result."""
        if self.shardy is None:
            return f'mhlo.sharding = "{self.text(sharding, rank)}"'
        is_named = isinstance(sharding, NamedSharding)
        mesh, spec = (sharding.mesh, sharding.spec) if is_named else (self.mesh, ())
        return f"sdy.sharding = #sdy.sharding{self.shardy.sharding(mesh, spec, rank)}"

    def declared(self) -> list[str]:
        """What the module says before its functions."""
        return self.shardy.declared() if self.shardy is not None else []

    def part_text(self, mesh: Any, spec: Any, rank: int) -> str:
        """How values of a manual region are divided along axes that are not manual there."""
        axes = tuple(n for n in mesh.axis_names if n in self.manual_axes)
        return self._tiles(mesh, _dims(spec, rank), axes)

    def manual_text(self, mesh: Any, manual: Any, rank: int) -> str:
        """What values of a manual region are: parts along the manual axes."""
        if set(mesh.axis_names) == set(manual):
            return MANUAL
        axes = tuple(n for n in mesh.axis_names if n in manual)
        return self._tiles(mesh, [()] * rank, axes)

    def _tiles(self, mesh: Any, dims: list[tuple[Any, ...]], manual: tuple[Any, ...]) -> str:
        sizes, names = dict(mesh.shape), list(mesh.axis_names)
        tiles = [prod(sizes[n] for n in part) for part in dims]
        if prod(tiles) == 1 and not manual:
            return REPLICATED
        used = [n for part in dims for n in part]
        rest = [n for n in names if n not in used and n not in manual]
        left = prod(sizes[n] for n in rest)
        kinds = (["manual"] if manual else []) + (["replicated"] if left > 1 else [])
        tiles += [prod(sizes[n] for n in manual)] * bool(manual) + [left] * (left > 1)
        order = [names.index(n) for n in [*used, *manual, *rest]]
        tail = ""
        if manual:
            tail = f" last_tile_dims={{{', '.join(kinds)}}}"
        elif left > 1:
            tail = " last_tile_dim_replicate"
        return f"{{devices=[{_listed(tiles)}]{_order(self.grid(mesh), order)}{tail}}}"

    def groups(self, axes: Sequence[Any], within: Any = None) -> list[list[int]]:
        """The partitions that speak to each other along axes of the manual mesh."""
        mesh = self.manual
        names = list(mesh.axis_names)
        order = [i for i, n in enumerate(names) if n not in axes] + [names.index(n) for n in axes]
        count = prod(dict(mesh.shape)[n] for n in axes)
        rows = self.grid(mesh).transpose(order).reshape(-1, count).tolist()
        if within is None:
            return rows
        return [[row[i] for i in members] for row in rows for members in within]

    def places(self, axes: Sequence[Any]) -> list[int]:
        """Which member of its group along axes each partition is."""
        found = [0] * self.count
        for row in self.groups(axes):
            for place, partition in enumerate(row):
                found[partition] = place
        return found

    def channel(self) -> str:
        self.channels += 1
        return f"channel_handle = #stablehlo.channel_handle<handle = {self.channels}, type = 1>"


def _dims(spec: Any, rank: int) -> list[tuple[Any, ...]]:
    dims = [_names(part) for part in spec[:rank]]
    return dims + [()] * (rank - len(dims))


def _names(part: Any) -> tuple[Any, ...]:
    return () if part is PartitionSpec.UNCONSTRAINED else axes_of(part)


def _listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _order(grid: np.ndarray, order: list[int]) -> str:
    """The devices of tiles: numbers in order, transposed, or a list."""
    if (grid.reshape(-1) != np.arange(grid.size)).any():
        return _listed(grid.transpose(order).reshape(-1).tolist())
    moved = [i for i in order if grid.shape[i] > 1]
    if moved == sorted(moved):
        return f"<=[{grid.size}]"
    return f"<=[{_listed(grid.shape)}]T({_listed(order)})"


def sharded_text(
    closed: Any,
    name: str,
    mesh: Any,
    ins: Sequence[Any],
    outs: Sequence[Any],
    debug_info: bool = False,
    of_arguments: Sequence[str] = (),
) -> str:
    """A program as a module for all devices of a mesh: arguments and results say how they are
    divided, where that is known, and so do values in between where the user has."""
    parts = Partitions(mesh, thread.use_shardy_partitioner)

    def noted(shardings: Sequence[Any], avals: Sequence[Any], more: Sequence[str]) -> list[str]:
        found = []
        for sharding, aval, other in zip(shardings, avals, more, strict=True):
            told = [other] if other else []
            if sharding is not None:
                told.insert(0, parts.attribute(sharding, len(physical(aval)[0])))
            found.append(", ".join(told))
        return found

    given = noted(ins, closed.in_avals, of_arguments or [""] * len(ins))
    gives = noted(outs, closed.out_avals, [""] * len(outs))
    return module_text(closed, name, debug_info, given, gives, parts)


# --- rules ----------------------------------------------------------------------------------------


def _custom(
    e: Emitter, target: str, x: Typed, shape: Any, sharding: str, config: str = ""
) -> Typed:
    text = f'call_target_name = "{target}"' + (f', backend_config = "{config}"' if config else "")
    noted = f'mhlo.sharding = "{sharding}"'
    return e.op("custom_call", [x], [(shape, x.dtype)], text, (), noted)[0]


@rule("sharding_constraint", "reshard")
def _constraint(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    (x,) = ins
    sharding = eqn.primitive.shardings(eqn.params)[0]
    if e.partitions is None or e.partitions.manual or not isinstance(sharding, NamedSharding):
        return [x]
    if (shardy := e.partitions.shardy) is not None:
        told = shardy.sharding(sharding.mesh, sharding.spec, len(x.shape))
        return [
            e.one(
                "sdy.sharding_constraint", [x], x.shape, x.dtype, f"sharding = #sdy.sharding{told}"
            )
        ]
    free = [i for i, p in enumerate(sharding.spec) if p is PartitionSpec.UNCONSTRAINED]
    config = f"unspecified_dims=[{_listed(free)}]" if free else ""
    text = e.partitions.text(sharding, len(x.shape))
    return [_custom(e, "Sharding", x, x.shape, text, config)]


@rule("shard_map")
def _shard_map(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    p, parts = eqn.params, e.partitions
    if parts is None:
        return e.call(eqn.primitive.callee(p), ins, "shard_map")
    closed, mesh, outer = p["jaxpr"], p["mesh"], parts.manual_axes
    if parts.manual is not None:
        if dict(mesh.shape) != dict(parts.manual.shape):
            raise Unlowered(
                "weft can't write a shard_map inside another over a different mesh as StableHLO"
            )
        mesh = parts.manual  # which knows the devices
    if any(s.unreduced or s.reduced for s in (*p["in_specs"], *p["out_specs"])):
        raise Unlowered("weft can't write a shard_map of unreduced sums as StableHLO")
    manual = frozenset(p["manual_axes"]) | outer
    if parts.shardy is not None:
        return _manual_computation(e, eqn, ins, mesh, manual)
    partly = set(mesh.axis_names) != manual

    def config(rank: int) -> str:
        return f"unspecified_dims=[{_listed(range(rank))}]" if partly else ""

    given = []
    for x, spec, aval in zip(ins, p["in_specs"], closed.in_avals, strict=True):
        shape = physical(aval)[0]
        rank = len(x.shape)
        x = _custom(e, "Sharding", x, x.shape, parts.part_text(mesh, spec, rank), config(rank))
        inside = parts.manual_text(mesh, manual, rank)
        given.append(_custom(e, "SPMDFullToShardShape", x, shape, inside, config(rank)))
    before = parts.manual, parts.manual_axes
    parts.manual, parts.manual_axes = mesh, manual
    try:
        found = e.program(closed.jaxpr, closed.consts, given)
    finally:
        parts.manual, parts.manual_axes = before
    outs = []
    for y, spec, v in zip(found, p["out_specs"], eqn.outvars, strict=True):
        rank = len(y.shape)
        inside = parts.manual_text(mesh, manual, rank)
        y = _custom(e, "Sharding", y, y.shape, inside, config(rank))
        text = parts.part_text(mesh, spec, rank)
        shape = physical(v.aval)[0]
        outs.append(_custom(e, "SPMDShardToFullShape", y, shape, text, config(rank)))
    return outs


def _manual_computation(e: Emitter, eqn: Any, ins: Any, mesh: Any, manual: Any) -> list[Any]:
    """A ``shard_map`` as Shardy has it: a region whose values are parts along the manual axes."""
    p, parts = eqn.params, e.partitions
    closed, partly = p["jaxpr"], set(mesh.axis_names) != manual
    outs = [physical(v.aval) for v in eqn.outvars]
    takes = parts.shardy.per_value(mesh, p["in_specs"], [len(x.shape) for x in ins], partly)
    gives = parts.shardy.per_value(mesh, p["out_specs"], [len(s) for s, _ in outs], partly)
    own = [name for name in mesh.axis_names if name in manual - parts.manual_axes]
    before = parts.manual, parts.manual_axes
    parts.manual, parts.manual_axes = mesh, manual
    try:
        body = lambda *given: e.program(closed.jaxpr, closed.consts, given)
        region = e.block([physical(a) for a in closed.in_avals], body, "sdy.return")
    finally:
        parts.manual, parts.manual_axes = before
    told = f"in_shardings = {takes}, manual_axes = {manual_axes(own)}, out_shardings = {gives}"
    return e.op("sdy.manual_computation", ins, outs, told, [region])


def _region(e: Emitter, eqn: Any) -> Any:
    """The partitions, inside of a manual region."""
    if e.partitions is None or e.partitions.manual is None:
        raise Unlowered(
            f"the program holds {eqn.primitive} outside of shard_map, which weft can't write as "
            "StableHLO"
        )
    return e.partitions


def _groups(rows: list[list[int]]) -> str:
    text = ", ".join(f"[{', '.join(map(str, row))}]" for row in rows)
    return f"replica_groups = dense<[{text}]> : tensor<{len(rows)}x{len(rows[0])}xi64>"


def _talk(parts: Any, axes: Any, within: Any) -> str:
    return f"{_groups(parts.groups(axes, within))}, {parts.channel()}, use_global_device_ids"


def _as_names(axis: Any) -> tuple[Any, ...]:
    return tuple(axis) if isinstance(axis, tuple | list) else (axis,)


_SUMS = {"psum": ("add", "sum"), "pmax": ("maximum", "max"), "pmin": ("minimum", "min")}


@rule(*_SUMS)
def _all_reduce(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    (x,), p = ins, eqn.params
    operation, along = _SUMS[eqn.primitive.name]
    own = [a for a in p["axes"] if isinstance(a, int)]
    names = [a for a in p["axes"] if not isinstance(a, int)]
    if own:
        rest = [n for i, n in enumerate(x.shape) if i not in own]
        x = reduced(e, x, along, own, rest)
    return [_reduced_over(e, eqn, x, operation, names, p["axis_index_groups"])]


def _reduced_over(
    e: Emitter, eqn: Any, x: Typed, operation: str, names: Any, within: Any = None
) -> Typed:
    if not names:
        return x
    text = _talk(_region(e, eqn), names, within)
    return e.op("all_reduce", [x], [(x.shape, x.dtype)], text, [_by(e, x, operation)])[0]


def _by(e: Emitter, x: Typed, operation: str) -> str:
    two = [((), x.dtype)] * 2
    return e.block(two, lambda a, b: [e.one(operation, [a, b], (), x.dtype)])


@rule("pvary", "pcast", "pshared")
def _same(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    return list(ins)


@rule("axis_index")
def _axis_index(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    return [_member(e, eqn, _as_names(eqn.params["axis_name"]))]


def _member(e: Emitter, eqn: Any, names: Any) -> Typed:
    """Which member of its group this partition is."""
    table = e.constant(np.array(_region(e, eqn).places(names), np.int32))
    number = convert(e, e.one("partition_id", [], (), np.uint32), np.int32)
    return e.one("reshape", [dynamic_slice(e, table, [number], (1,))], (), np.int32)


@rule("pbroadcast")
def _broadcast(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    (x,), names = ins, _as_names(eqn.params["axis_name"])
    source = e.constant(np.int32(eqn.params["source"]))
    own = e.broadcast(compare(e, "EQ", _member(e, eqn, names), source), x.shape)
    zero = e.broadcast(e.constant(np.zeros((), x.dtype)), x.shape)
    return [_reduced_over(e, eqn, select(e, own, x, zero), "add", names)]


@rule("ppermute")
def _permute(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    (x,), parts = ins, _region(e, eqn)
    rows = parts.groups(_as_names(eqn.params["axis_name"]))
    pairs = [[row[a], row[b]] for row in rows for a, b in eqn.params["perm"]]
    if not pairs:
        return [e.broadcast(e.constant(np.zeros((), x.dtype)), x.shape)]
    text = ", ".join(f"[{a}, {b}]" for a, b in pairs)
    told = f"source_target_pairs = dense<[{text}]> : tensor<{len(pairs)}x2xi64>, {parts.channel()}"
    return [e.one("collective_permute", [x], x.shape, x.dtype, told)]


@rule("all_gather")
def _all_gather(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    (x,), p, at = ins, eqn.params, eqn.params["all_gather_dimension"]
    if not p["tiled"]:
        x = e.one("reshape", [x], (*x.shape[:at], 1, *x.shape[at:]), x.dtype)
    told = f"all_gather_dim = {at} : i64, "
    told += _talk(_region(e, eqn), _as_names(p["axis_name"]), p["axis_index_groups"])
    return [e.one("all_gather", [x], *physical(eqn.outvars[0].aval), told)]


@rule("reduce_scatter")
def _reduce_scatter(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    (x,), p, at = ins, eqn.params, eqn.params["scatter_dimension"]
    told = f"scatter_dimension = {at} : i64, "
    told += _talk(_region(e, eqn), _as_names(p["axis_name"]), p["axis_index_groups"])
    shape, dtype = physical(eqn.outvars[0].aval)
    part = shape if p["tiled"] else (*shape[:at], 1, *shape[at:])
    found = e.op("reduce_scatter", [x], [(part, dtype)], told, [_by(e, x, "add")])[0]
    return [found if p["tiled"] else e.one("reshape", [found], shape, dtype)]


@rule("all_to_all")
def _all_to_all(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    (x,), p, parts = ins, eqn.params, _region(e, eqn)
    split, concat = p["split_axis"], p["concat_axis"]
    rows = parts.groups(_as_names(p["axis_name"]), p["axis_index_groups"])
    count = len(rows[0])

    def exchanged(x: Typed, split: int, concat: int) -> Typed:
        shape = list(x.shape)
        shape[split] //= count
        shape[concat] *= count
        told = f"split_dimension = {split} : i64, concat_dimension = {concat} : i64,"
        told += f" split_count = {count} : i64, {_groups(rows)}, {parts.channel()}"
        return e.one("all_to_all", [x], shape, x.dtype, told)

    if p["tiled"]:
        return [exchanged(x, split, concat)]
    rank = len(x.shape)
    first = [split, *[i for i in range(rank) if i != split]]
    moved = _moved(e, x, first)
    back = list(range(1, rank))
    back.insert(concat, 0)
    return [_moved(e, exchanged(moved, 0, 0), back)]


def _moved(e: Emitter, x: Typed, order: list[int]) -> Typed:
    shape = [x.shape[i] for i in order]
    told = f"permutation = array<i64: {', '.join(map(str, order))}>"
    return e.one("transpose", [x], shape, x.dtype, told)
