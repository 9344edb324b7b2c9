"""The program of one process, from the program of one device of a mesh over several processes.

Devices of one process share memory, so they are one mapped axis; a collective becomes operations
along it and messages between processes (``prims/processes.py``). A process with one device runs the
program of that device as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.core.batching import AxisData, broadcast_axis, moveaxis
from weft.core.effects import NamedAxisEffect
from weft.core.jaxpr import ClosedJaxpr, jaxpr_as_fun, with_programs
from weft.core.primitive import Primitive
from weft.core.registry import lookup
from weft.core.sharding import NamedSharding
from weft.core.staging import stage
from weft.core.trace import typeof
from weft.division.mesh_layout import Layout, bounds, local_aval, whole_aval
from weft.division.plain import plain
from weft.prims.collective import (
    Collective,
    as_names,
    cut_axis,
    fold_axes,
    named_axes,
    reshape,
    take_rows,
)
from weft.prims.exchange import exchange_rows
from weft.prims.families import along, converted
from weft.prims.processes import (
    Site,
    process_all_gather_p,
    process_all_to_all_p,
    process_permute_p,
)
from weft.transforms.vmap import batch

# Bytes up to which a sum is made of everything that was gathered: one message instead of two.
SMALL_SUM = 1 << 12
# Processes up to which each row of a sum is added on its own.
FEW_PROCESSES = 8


class _Local:
    """The name of the axis of a process's own devices."""

    def __repr__(self) -> str:
        return "devices of this process"


LOCAL = _Local()


class MeshCollective(Primitive):
    """A collective along axes of a mesh over several processes, until it is made for one."""

    name = "mesh_collective"
    holes = {
        "jvp": "the compiler adds it after this step",
        "transpose": "the compiler adds it after this step",
        "ref": "it is never evaluated",
    }

    def shape(self, *avals: Any, of: Any, params: Any, layout: Any) -> Any:
        return of.shape(*avals, **dict(params))

    def axis_names(self, params: Any) -> Any:
        return (LOCAL,)

    def eqn_effects(self, avals: Any, params: Any) -> Any:
        return frozenset([NamedAxisEffect(LOCAL)])

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, of: Any, params: Any, layout: Layout
    ) -> Any:
        if axis.size > 1 and of.name in _SHARED and dims[0] is None:
            shared = _SHARED[of.name](layout, of, args[0], **dict(params))
            if shared is not None:
                return shared, None
        rows = [
            _row(x) if d is None and axis.size == 1 else
            broadcast_axis(x, axis.size, 0) if d is None else moveaxis(x, d, 0)
            for x, d in zip(args, dims, strict=True)
        ]  # fmt: skip
        found, dim = _RULES[of.name](layout, of, *rows, **dict(params))
        if dim == 0 and axis.size == 1:
            return _reshaped(found, np.shape(found)[1:]), None
        return found, dim


mesh_collective_p = MeshCollective()


def process_program(
    closed: ClosedJaxpr,
    mesh: Any,
    in_specs: Sequence[Any],
    out_specs: Sequence[Any],
    manual: Any,
    own: int | None = None,
) -> ClosedJaxpr:
    """What this process computes, on its memory of the arguments, for its memory of the results.

    With ``own``, what that device of the mesh computes, where each has memory of its own.
    """
    layout = Layout(mesh, own)
    local = jaxpr_as_fun(_addressed(plain(closed), layout, frozenset(manual)))
    sizes = dict(mesh.shape)
    ins = [NamedSharding(mesh, s) for s in in_specs]
    outs = [NamedSharding(mesh, s) for s in out_specs]
    wholes = [whole_aval(a, s, sizes) for a, s in zip(closed.in_avals, in_specs, strict=True)]
    results = [whole_aval(a, s, sizes) for a, s in zip(closed.out_avals, out_specs, strict=True)]

    def program(*args: Any) -> list[Any]:
        given = [_spread(layout, *row) for row in zip(args, ins, wholes, strict=True)]
        found, dims = batch(
            lambda *xs: local(*xs),
            AxisData(LOCAL, len(layout.mine), spread=True),
            [x for x, _ in given],
            [d for _, d in given],
        )
        rows = zip(found, dims, outs, results, strict=True)
        return [_kept(y, d, _table(layout, s, a)) for y, d, s, a in rows]

    avals = [local_aval(a, s, layout) for a, s in zip(wholes, ins, strict=True)]
    return stage(program, avals, closed.debug_info)


def _table(layout: Layout, sharding: Any, aval: Any) -> list[int]:
    """Which of the parts that the process holds each of its devices has."""
    parts = list(layout.parts(sharding, aval.shape))
    indices = sharding.devices_indices_map(tuple(aval.shape))
    return [parts.index(bounds(indices[layout.devices[i]], aval.shape)) for i in layout.mine]


def _spread(layout: Layout, x: Any, sharding: Any, aval: Any) -> tuple[Any, int | None]:
    """The parts of a process as those of its devices; all processes find the same dimension."""
    table = _table(layout, sharding, aval)
    if all(len(layout.parts(sharding, aval.shape, r)) == 1 for r in layout.ranks):
        return x, None
    return _rows(x if max(table) else _row(x), table), 0


def _kept(y: Any, dim: int | None, table: list[int]) -> Any:
    """What devices have, as the parts that their process keeps."""
    count = max(table) + 1
    if dim is None:
        return y if count == 1 else broadcast_axis(y, count, 0)
    y = _rows(moveaxis(y, dim, 0), [table.index(i) for i in range(count)])
    return _reshaped(y, np.shape(y)[1:]) if count == 1 else y


def _rows(x: Any, rows: Sequence[int]) -> Any:
    """Rows of an array; a slice where they are neighbours."""
    rows = list(rows)
    count, shape = len(rows), np.shape(x)
    if rows == list(range(shape[0])):
        return x
    if rows == list(range(rows[0], rows[0] + count)):
        return along(x, 0, rows[0], rows[0] + count)
    return take_rows(x, rows, 0)


def _reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    return x if np.shape(x) == shape else reshape(x, shape)


def _row(x: Any) -> Any:
    return _reshaped(x, (1, *np.shape(x)))


# --- collectives by the mesh ----------------------------------------------------------------------


def _addressed(closed: ClosedJaxpr, layout: Layout, manual: frozenset[Any]) -> ClosedJaxpr:
    """A program whose collectives know the mesh."""

    def effects(given: Any) -> Any:
        own = {e for e in given if isinstance(e, NamedAxisEffect) and e.name in manual}
        return (given - own) | {NamedAxisEffect(LOCAL)} if own else given

    def program(closed: ClosedJaxpr) -> ClosedJaxpr:
        jaxpr, eqns = closed.jaxpr, []
        for eqn in jaxpr.eqns:
            speaks = isinstance(eqn.primitive, Collective)
            if speaks and manual.intersection(eqn.primitive.axis_names(eqn.params)):
                params = {"of": eqn.primitive, "params": tuple(eqn.params.items())}
                eqn = eqn.replace(primitive=mesh_collective_p, params=params | {"layout": layout})
            else:
                eqn = eqn.replace(params=with_programs(eqn.params, program))
            eqns.append(eqn.replace(effects=effects(eqn.effects)))
        made = jaxpr.replace(eqns=eqns, effects=effects(jaxpr.effects))
        return ClosedJaxpr(made, closed.consts)

    return program(closed)


def _site(of: Any, names: Any) -> Site:
    listed = ", ".join(map(repr, names))
    return Site(f"{of.name} over {listed if len(names) == 1 else f'({listed})'}")


def _same_size(of: Any, members: Sequence[tuple[int, ...]]) -> int:
    sizes = {len(m) for m in members}
    if len(sizes) > 1:
        raise ValueError(
            f"{of.name} needs axis_index_groups of one size, got sizes {sorted(sizes)}"
        )
    return sizes.pop()


def _spoken(layout: Layout, of: Any, axis_name: Any, axis_index_groups: Any, **_: Any) -> Any:
    """The members of each device's group, how many they are, and the site of what they say."""
    names = as_names(axis_name)
    members = layout.groups(names, axis_index_groups)
    return members, _same_size(of, members), _site(of, names)


def _gathered(layout: Layout, x: Any, members: Any, site: Site) -> tuple[Any, int | None]:
    """What the members of each device's group have: (group, ...), or (device, group, ...)."""
    ranks = layout.together(members)
    most = max(len(layout.of[r]) for r in ranks)
    if most > np.shape(x)[0]:
        x = _padded(x, most)
    if len(ranks) > 1:
        x = _of_all(x, ranks, (len(ranks) * most, *np.shape(x)[1:]), site)
    at = {d: ranks.index(layout.owner[d]) * most + layout.row[d] for m in members for d in m
          if layout.owner[d] in ranks}  # fmt: skip
    tables = [[at[d] for d in members[i]] for i in layout.mine]
    if layout.are_shared(members):
        return _rows(x, tables[0]), None
    found = _rows(x, [row for table in tables for row in table])
    return cut_axis(found, 0, (len(tables), len(tables[0]))), 0


def _padded(x: Any, rows: int) -> Any:
    shape = np.shape(x)
    config = ((0, rows - shape[0], 0), *[(0, 0, 0)] * (len(shape) - 1))
    zero = np.zeros((), typeof(x).dtype)
    return lookup("pad").bind(x, zero, padding_config=config)


def _exchanged(layout: Layout, x: Any, members: Any, site: Site) -> Any:
    """Element [i, j] goes to the j-th of the group of device i; those that arrive, alike."""
    ranks = layout.together(members)
    group = np.shape(x)[1]

    def pieces(sender: int, receiver: int) -> list[tuple[int, int]]:
        return [
            (d, other)
            for d in layout.of[sender]
            for other in members[d]
            if layout.owner[other] == receiver
        ]

    most = max(len(pieces(a, b)) for a in ranks for b in ranks)
    own = layout.own
    sends: list[int] = []
    for rank in ranks:
        rows = [layout.row[d] * group + members[d].index(other) for d, other in pieces(own, rank)]
        sends += rows + [0] * (most - len(rows))
    x = _rows(fold_axes(x, 0), sends)
    if len(ranks) > 1:
        x = cut_axis(x, 0, (len(ranks), most))
        x = fold_axes(process_all_to_all_p.bind(x, ranks=ranks, own=True, site=site), 0)
    arrived = {
        pair: number * most + i
        for number, rank in enumerate(ranks)
        for i, pair in enumerate(pieces(rank, own))
    }
    rows = [arrived[other, d] for d in layout.mine for other in members[d]]
    return cut_axis(_rows(x, rows), 0, (len(layout.mine), group))


# --- rules: (layout, primitive, operands with a row for each device) -> result, its dimension -----


def _reduce(
    layout: Layout, of: Any, x: Any, *, axes: Any, axis_index_groups: Any
) -> tuple[Any, int | None]:
    places = tuple(a + 1 for a in axes if isinstance(a, int))
    reduce = lookup(of.along)
    if places:
        x = reduce.bind(x, axes=places, out_sharding=None)
    names = named_axes(axes)
    members = layout.groups(names, axis_index_groups)
    site = _site(of, names)
    shape = np.shape(x)[1:]
    ranks = layout.together(members)
    groups = list(dict.fromkeys(members[i] for i in layout.mine))
    own = [[layout.row[d] for d in g if layout.owner[d] == layout.own] for g in groups]
    spoken = [Counter(members[d] for d in layout.of[r]) for r in ranks]
    if any(s.keys() != spoken[0].keys() or len({*s.values()}) > 1 for s in spoken):
        _same_size(of, [members[d] for r in ranks for d in layout.of[r]])
        found, dim = _gathered(layout, x, members, site)
        return reduce.bind(found, axes=(0 if dim is None else 1,), out_sharding=None), dim
    x = cut_axis(_rows(x, [row for rows in own for row in rows]), 0, (len(groups), len(own[0])))
    x = reduce.bind(x, axes=(1,), out_sharding=None) if len(own[0]) > 1 else fold_axes(x, 0)
    if len(ranks) > 1:
        x = _reduced(x, reduce, ranks, shape if len(groups) == 1 else np.shape(x), site, layout.own)
    if layout.are_shared(members):
        return _reshaped(x, shape), None
    return _rows(x, [groups.index(members[i]) for i in layout.mine]), 0


def _reduce_shared(
    layout: Layout, of: Any, x: Any, *, axes: Any, axis_index_groups: Any
) -> Any | None:
    """The same of a value that the devices of a process share: it is sent once."""
    names = named_axes(axes)
    owners = layout.owners(layout.groups(names, axis_index_groups))
    counts = Counter(owners or ())
    if owners is None or len({*counts.values()}) > 1:
        return None
    reduce, places = lookup(of.along), tuple(a for a in axes if isinstance(a, int))
    if places:
        x = reduce.bind(x, axes=places, out_sharding=None)
    ranks = tuple(sorted(counts))
    x = of.of_equals(x, len(owners) // len(ranks))
    if len(ranks) == 1:
        return x
    return _reduced(x, reduce, ranks, np.shape(x), _site(of, names), layout.own)


def _reduced(
    x: Any, reduce: Any, ranks: tuple[int, ...], final: tuple[int, ...], site: Site, own: int
) -> Any:
    """A reduction over processes: each makes a part of it from what the others send."""
    shape, aval = np.shape(x), typeof(x)
    count, parts = prod(shape), len(ranks)
    if count * aval.dtype.itemsize <= SMALL_SUM or count < parts:
        every = _of_all(x, ranks, (parts, *shape), site)
        return _reshaped(reduce.bind(every, axes=(0,), out_sharding=None), final)
    width = -(-count // parts)
    flat = _reshaped(x, (count,))
    if width * parts > count:
        flat = _padded(flat, width * parts)
    rows = _reshaped(flat, (parts, width))
    few = parts <= FEW_PROCESSES
    arrived = process_all_to_all_p.bind(rows, ranks=ranks, own=not few, site=site)
    if few:
        part = _in_turn(reduce, rows, arrived, ranks, own)
    else:
        part = reduce.bind(arrived, axes=(0,), out_sharding=None)
    if width * parts == count:
        return _of_all(part, ranks, final, site)
    whole = _of_all(part, ranks, (width * parts,), site)
    return _reshaped(_rows(whole, range(count)), final)


def _in_turn(reduce: Any, rows: Any, arrived: Any, ranks: tuple[int, ...], own: int) -> Any:
    """A reduction of rows in order, this process's own from where it is."""
    kind = typeof(rows).dtype
    wide = np.dtype(np.float32) if dtypes.issubdtype(kind, np.floating) else kind
    wide = wide if kind.itemsize < wide.itemsize else kind

    def cast(x: Any, dtype: Any) -> Any:
        return x if typeof(x).dtype == dtype else converted(x, dtype)

    combine = lookup({"reduce_sum": "add", "reduce_max": "max", "reduce_min": "min"}[reduce.name])
    total: Any = None
    for i, rank in enumerate(ranks):
        row = _rows(rows if rank == own else arrived, [i])
        row = cast(_reshaped(row, np.shape(row)[1:]), wide)
        total = row if total is None else combine.bind(total, row)
    return cast(total, kind)


def _of_all(x: Any, ranks: tuple[int, ...], sizes: tuple[int, ...], site: Site) -> Any:
    return process_all_gather_p.bind(x, ranks=ranks, sizes=sizes, site=site)


def _all_gather(layout: Layout, of: Any, x: Any, **params: Any) -> tuple[Any, int | None]:
    members, _, site = _spoken(layout, of, **params)
    found, dim = _gathered(layout, x, members, site)
    at = 0 if dim is None else 1
    to = at + params["all_gather_dimension"]
    found = moveaxis(found, at, to)
    return (fold_axes(found, to) if params["tiled"] else found), dim


def _all_gather_shared(layout: Layout, of: Any, x: Any, **params: Any) -> Any | None:
    """The same of a value that the devices of a process share: it is sent once."""
    names = as_names(params["axis_name"])
    owners = layout.owners(layout.groups(names, params["axis_index_groups"]))
    if owners is None:
        return None
    ranks, to = tuple(sorted({*owners})), params["all_gather_dimension"]
    rows = _row(x)
    if len(ranks) > 1:
        rows = _of_all(x, ranks, (len(ranks), *np.shape(x)), _site(of, names))
    found = moveaxis(_rows(rows, [ranks.index(r) for r in owners]), 0, to)
    return fold_axes(found, to) if params["tiled"] else found


def _reduce_scatter(layout: Layout, of: Any, x: Any, **params: Any) -> tuple[Any, int | None]:
    members, size, site = _spoken(layout, of, **params)
    at = params["scatter_dimension"] + 1
    x = cut_axis(x, at, (size, np.shape(x)[at] // size)) if params["tiled"] else x
    found = _exchanged(layout, moveaxis(x, at, 1), members, site)
    return lookup("reduce_sum").bind(found, axes=(1,), out_sharding=None), 0


def _all_to_all(layout: Layout, of: Any, x: Any, **params: Any) -> tuple[Any, int | None]:
    members, size, site = _spoken(layout, of, **params)
    at = params["split_axis"] + 1
    x = moveaxis(cut_axis(x, at, (size, np.shape(x)[at] // size)), at, 1)
    found = _exchanged(layout, x, members, site)
    to = params["concat_axis"] + 1
    return fold_axes(moveaxis(found, 1, to), to), 0


def _moved(layout: Layout, x: Any, sources: Sequence[int | None], site: Site) -> Any:
    """For every device, what its source has; zeros where it has none."""
    moves = [
        (layout.owner[source], layout.row[source], layout.owner[device], layout.row[device])
        for device, source in enumerate(sources)
        if source is not None
    ]
    if all(a == b for a, _, b, _ in moves):
        local = [sources[d] for d in layout.mine]
        if None not in local:
            return _rows(x, [layout.row[s] for s in local if s is not None])
    own = tuple(m for m in moves if layout.own in (m[0], m[2]))
    return process_permute_p.bind(x, ranks=layout.ranks, moves=own, site=site)


def _ppermute(
    layout: Layout, of: Any, x: Any, *, axis_name: Any, perm: Any
) -> tuple[Any, int | None]:
    names = as_names(axis_name)
    members = layout.groups(names)
    to = {target: source for source, target in perm}
    sources = [
        members[d][to[at]] if (at := layout.position(d, names)) in to else None
        for d in range(len(members))
    ]
    return _moved(layout, x, sources, _site(of, names)), 0


def _pbroadcast(
    layout: Layout, of: Any, x: Any, *, axis_name: Any, source: int
) -> tuple[Any, int | None]:
    names = as_names(axis_name)
    members = layout.groups(names)
    return _moved(layout, x, [m[source] for m in members], _site(of, names)), 0


def _axis_index(layout: Layout, of: Any, *, axis_name: Any) -> tuple[Any, int | None]:
    # data, not a number in the code: processes share what they compile
    return np.array([layout.position(d, (axis_name,)) for d in layout.mine], np.int32), 0


def _ragged(layout: Layout, of: Any, *rows: Any, **params: Any) -> tuple[Any, int | None]:
    members, _, site = _spoken(layout, of, **params)
    every = [_gathered(layout, x, members, site) for x in rows]
    outs = []
    for i, device in enumerate(layout.mine):
        own = [x if d is None else _reshaped(_rows(x, [i]), np.shape(x)[1:]) for x, d in every]
        outs.append(_rows(exchange_rows(*own), [members[device].index(device)]))
    return outs[0] if len(outs) == 1 else lookup("concatenate").bind(*outs, dimension=0), 0


# Of values that all devices of a process share.
_SHARED = {
    "psum": _reduce_shared,
    "pmax": _reduce_shared,
    "pmin": _reduce_shared,
    "all_gather": _all_gather_shared,
}
_RULES: dict[str, Any] = {
    "psum": _reduce,
    "pmax": _reduce,
    "pmin": _reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "ppermute": _ppermute,
    "pbroadcast": _pbroadcast,
    "axis_index": _axis_index,
    "ragged_all_to_all": _ragged,
}
