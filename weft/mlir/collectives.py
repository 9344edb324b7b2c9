"""Readers of shardings and of operations between devices.

A ``manual_computation`` runs over the axes of a mesh. Given a mesh, it is a ``shard_map``; without
one, a single device runs all parts at once, by ``vmap`` over axes of the mesh's names.
"""

from __future__ import annotations

import re
from math import prod
from typing import Any

import numpy as np

from weft import lax
from weft.api.batching import vmap
from weft.base.source import warn
from weft.core.sharding import NamedSharding, PartitionSpec
from weft.mlir.custom_calls import target
from weft.mlir.errors import Unread
from weft.mlir.patterns import monoid
from weft.mlir.reading import Reading, Scope, reader
from weft.mlir.regions import REDUCTIONS
from weft.mlir.tree import Operation, Raw
from weft.parallel.shard_map import shard_map

_SHARDING = re.compile(r"<\s*(?:@([\w$.\-]+|\"[^\"]*\")|mesh<([^>]*)>)\s*,\s*\[(.*?)\]")
_AXIS = re.compile(r'"([^"]*)"\s*=\s*(\d{1,9})')
Spec = list[list[str]]


# --- meshes and shardings -------------------------------------------------------------------------


def mesh_axes(r: Reading, name: str) -> dict[str, int]:
    """The axes of a mesh and their sizes."""
    found = r.module.meshes.get(name)
    if not isinstance(found, Raw):
        raise Unread(f"the module has no mesh @{name}")
    return axes_in(found.text)


def axes_in(text: str) -> dict[str, int]:
    """The axes that the text of a mesh names, and their sizes."""
    return {axis: int(size) for axis, size in _AXIS.findall(text)}


def shardings(r: Reading, text: str) -> list[tuple[dict[str, int], Spec]]:
    """The meshes that shardings in a text are over, and the axes of each dimension."""
    found = []
    for name, inline, dims in _SHARDING.findall(text):
        axes = mesh_axes(r, name.strip('"')) if name else axes_in(inline)
        if '":(' in dims.replace(" ", ""):
            raise Unread("weft does not support shardings over part of an axis")
        spec = [re.findall(r'"([^"]*)"', part) for part in re.findall(r"\{([^}]*)\}", dims)]
        found.append((axes, spec))
    return found


def constrained(r: Reading, x: Any, text: str) -> Any:
    """An array with a sharding over the mesh at hand; without one, as it is."""
    if r.mesh is None or r.axes:
        if '"' in text:
            ignore(r)
        return x
    ((axes, spec),) = shardings(r, text)
    if not axes:
        return x
    if any(axis not in r.mesh.axis_names for part in spec for axis in part):
        raise Unread(
            f"the mesh has the axes {r.mesh.axis_names}, the sharding has others: {text[:60]}"
        )
    dims = [tuple(part) if len(part) > 1 else part[0] if part else None for part in spec]
    return lax.with_sharding_constraint(x, NamedSharding(r.mesh, PartitionSpec(*dims)))


def ignore(r: Reading) -> None:
    """Warn, once for a module, that its shardings have no effect."""
    if not r.ignored and not r.axes:
        warn(
            f"the shardings of the StableHLO module {r.module.name} are ignored; pass mesh= to"
            " from_stablehlo to keep them",
            UserWarning,
        )
    r.ignored.add("sharding")


@reader("sdy.sharding_constraint", "sdy.reshard")
def _constraint(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (x,) = ins
    given = op.attributes.get("sharding", op.attributes.get("value"))
    text = f"<{given.text}>" if isinstance(given, Raw) else ""
    return constrained(r, x, text) if _SHARDING.match(text) else x


@target("Sharding", "xla.sdy.FuncResultSharding", "annotate_device_placement")
def _annotation(r: Reading, op: Operation, ins: list[Any]) -> Any:
    ignore(r)
    return ins


@target("SPMDFullToShardShape", "SPMDShardToFullShape")
def _shard_shape(r: Reading, op: Operation, ins: list[Any]) -> Any:
    raise Unread("weft reads manual computations in Shardy's form; set jax_use_shardy_partitioner")


# --- manual computations --------------------------------------------------------------------------


@reader("sdy.manual_computation")
def _manual(r: Reading, op: Operation, ins: list[Any], scope: Scope) -> Any:
    given = op.attributes
    texts = [_raw_text(given, name) for name in ("in_shardings", "out_shardings")]
    takes, gives = [shardings(r, text) for text in texts]
    axes = (takes or gives or [({}, [])])[0][0]
    wanted = re.findall(r'"([^"]*)"', _raw_text(given, "manual_axes"))
    manual = {name: size for name, size in axes.items() if name in wanted}
    if len(takes) != len(ins) or len(gives) != len(op.types):
        raise Unread("it has a sharding for each operand and each result")
    outer, r.axes, r.all_axes = (r.axes, r.all_axes), manual, axes
    try:
        body = r.region(op.regions[0], scope)
        specs = [[[a for a in part if a in manual] for part in spec] for _, spec in takes]
        outs = [[[a for a in part if a in manual] for part in spec] for _, spec in gives]
        if r.mesh is not None:
            return _over_mesh(r, body, ins, specs, outs)
        return _by_vmap(manual, body, ins, specs, outs)
    finally:
        r.axes, r.all_axes = outer


def _raw_text(given: dict[str, Any], name: str) -> str:
    value = given.get(name)
    if isinstance(value, Raw):
        return f"<{value.text}>" if "sharding" in value.name and "." in value.name else value.text
    return ""


def _over_mesh(r: Reading, body: Any, ins: list[Any], specs: Any, outs: Any) -> list[Any]:
    as_spec = lambda spec: PartitionSpec(*[tuple(part) or None for part in spec])
    return list(
        shard_map(
            lambda *xs: tuple(body(*xs)),
            mesh=r.mesh,
            in_specs=tuple([as_spec(spec) for spec in specs]),
            out_specs=tuple([as_spec(spec) for spec in outs]),
            axis_names=frozenset(r.axes),
            check_vma=False,
        )(*ins)
    )


def _by_vmap(axes: dict[str, int], body: Any, ins: list[Any], specs: Any, outs: Any) -> list[Any]:
    """All parts on one device."""
    fun: Any = lambda *xs: tuple(body(*xs))
    used = [{axis for part in spec for axis in part} for spec in specs]
    for axis, size in reversed(axes.items()):
        dims = tuple([0 if axis in names else None for names in used])
        fun = vmap(fun, in_axes=dims or 0, out_axes=0, axis_name=axis, axis_size=size)
    found = fun(*[_parts(x, spec, axes) for x, spec in zip(ins, specs, strict=True)])
    return [_whole(x, spec, axes) for x, spec in zip(found, outs, strict=True)]


def _parts(x: Any, spec: Spec, axes: dict[str, int]) -> Any:
    """An array with its parts along leading axes, in the order of the mesh."""
    shape: list[int] = []
    places: dict[str, int] = {}
    if len(spec) != np.ndim(x):
        raise Unread("a sharding has a list of axes for each dimension")
    for n, part in zip(np.shape(x), spec, strict=True):
        count = prod([axes[axis] for axis in part])
        if n % count:
            raise Unread(f"a dimension of size {n} cannot be split into {count} equal parts")
        for axis in part:
            places[axis] = len(shape)
            shape.append(axes[axis])
        shape.append(n // count)
    front = [places[axis] for axis in axes if axis in places]
    order = front + [i for i in range(len(shape)) if i not in front]
    return lax.transpose(lax.reshape(x, shape), order)


def _whole(x: Any, spec: Spec, axes: dict[str, int]) -> Any:
    """The array of parts along leading axes; of axes that it is not divided over, the first."""
    names = list(axes)
    used = {axis for part in spec for axis in part}
    for i in reversed(range(len(names))):
        if names[i] not in used:
            x = lax.index_in_dim(x, 0, i, keepdims=False)
    names = [name for name in names if name in used]
    order, shape, at = [], [], len(names)
    if np.ndim(x) != at + len(spec):
        raise Unread("a sharding has a list of axes for each dimension")
    for part in spec:
        order += [names.index(axis) for axis in part] + [at]
        shape.append(prod([axes[axis] for axis in part]) * np.shape(x)[at])
        at += 1
    return lax.reshape(lax.transpose(x, order), shape)


# --- collectives ----------------------------------------------------------------------------------


def _members(r: Reading, op: Operation) -> tuple[Any, Any]:
    """The axes that groups of devices are along, or all axes and the groups among them."""
    groups = op.attributes.get("replica_groups")
    rows = np.asarray(groups) if isinstance(groups, np.ndarray) else np.zeros((0, 0), np.int64)
    sizes = r.all_axes
    total = prod(sizes.values())
    if not sizes:
        if rows.size <= 1:
            return (), None
        raise Unread("it is run by several devices; call per_device with one entry for each device")
    if not rows.size:
        rows = np.arange(total).reshape(1, total)
    grid = np.arange(total).reshape(tuple(sizes.values()))
    names = list(sizes)
    for mask in range(1, 1 << len(names)):
        along = [i for i in range(len(names)) if mask >> i & 1]
        rest = [i for i in range(len(names)) if i not in along]
        expected = grid.transpose(*rest, *along).reshape(-1, prod([grid.shape[i] for i in along]))
        if expected.shape == rows.shape and (expected == rows).all():
            chosen = tuple([names[i] for i in along])
            if all(name in r.axes for name in chosen):
                return chosen, None
    if rows.min() < 0 or sorted(rows.reshape(-1).tolist()) != list(range(total)):
        raise Unread("replica_groups name every device once")
    if set(r.axes) != set(names):
        raise Unread("its groups of devices lie across axes that are not manual")
    return tuple(names), [row.tolist() for row in rows]


def _over(axes: Any) -> Any:
    return axes[0] if len(axes) == 1 else axes


def _reduced(r: Reading, op: Operation, x: Any, scope: Scope) -> Any:
    axes, groups = _members(r, op)
    if not axes:
        return x
    name = monoid(op.regions[0])
    known = {"add": lax.psum, "max": lax.pmax, "min": lax.pmin}
    if name in known and x.dtype != np.bool_:
        return known[name](x, _over(axes), axis_index_groups=groups)
    if name is None:
        raise Unread("it combines numbers by one operation, such as add or maximum")
    rows = lax.all_gather(x, _over(axes), axis_index_groups=groups)
    return REDUCTIONS[name](rows, (0,))


@reader("all_reduce")
def _all_reduce(r: Reading, op: Operation, ins: list[Any], scope: Scope) -> Any:
    return [_reduced(r, op, x, scope) for x in ins]


@reader("reduce_scatter")
def _reduce_scatter(r: Reading, op: Operation, ins: list[Any], scope: Scope) -> Any:
    (x,), axis = ins, int(op.attributes["scatter_dimension"])
    axes, groups = _members(r, op)
    if not axes:
        return x
    if monoid(op.regions[0]) == "add" and x.dtype != np.bool_:
        return lax.psum_scatter(
            x, _over(axes), scatter_dimension=axis, axis_index_groups=groups, tiled=True
        )
    if groups is not None:
        raise Unread("it adds numbers, or runs over whole axes of a mesh")
    whole, count = _reduced(r, op, x, scope), prod([r.axes[name] for name in axes])
    size = np.shape(x)[axis] // count
    start = lax.mul(lax.axis_index(_over(axes)), np.int32(size))
    return lax.dynamic_slice_in_dim(whole, start, size, axis)


@reader("all_gather")
def _all_gather(r: Reading, op: Operation, ins: list[Any]) -> Any:
    axes, groups = _members(r, op)
    if not axes:
        return ins
    at = int(op.attributes["all_gather_dim"])
    return [
        lax.all_gather(x, _over(axes), axis=at, axis_index_groups=groups, tiled=True) for x in ins
    ]


@reader("all_to_all")
def _all_to_all(r: Reading, op: Operation, ins: list[Any]) -> Any:
    axes, groups = _members(r, op)
    if not axes:
        return ins
    split, joined = int(op.attributes["split_dimension"]), int(op.attributes["concat_dimension"])
    return [
        lax.all_to_all(x, _over(axes), split, joined, axis_index_groups=groups, tiled=True)
        for x in ins
    ]


def _device(r: Reading) -> Any:
    """The number of the device, counted over all axes of the mesh."""
    number: Any = np.asarray(0, np.int32)
    stride = 1
    for name, size in reversed(r.all_axes.items()):
        if name in r.axes:
            number = lax.add(number, lax.mul(lax.axis_index(name), np.asarray(stride, np.int32)))
        stride *= size
    return number


@reader("partition_id", "replica_id")
def _partition_id(r: Reading, op: Operation, ins: list[Any]) -> Any:
    is_other = r.device_kind and not op.name.endswith(r.device_kind)
    if not r.axes or is_other:
        return np.asarray(0, np.uint32)
    return lax.convert_element_type(_device(r), np.uint32)


@reader("collective_permute")
def _permute(r: Reading, op: Operation, ins: list[Any]) -> Any:
    if not r.axes:
        return ins
    pairs = np.asarray(op.attributes["source_target_pairs"]).reshape(-1, 2)
    grid = tuple(r.all_axes.values())
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < prod(grid):
        raise Unread("source_target_pairs name devices that do not exist")
    names = [name for name in r.all_axes if name in r.axes]
    manual = tuple([r.all_axes[name] for name in names])
    kept: set[Any] = set()
    for source, goal in pairs:
        ends = []
        for device in (source, goal):
            at = np.unravel_index(device, grid)
            own = [i for i, name in zip(at, r.all_axes, strict=True) if name in r.axes]
            ends.append(int(np.ravel_multi_index(own, manual)))
        kept.add(tuple(ends))
    return [lax.ppermute(x, _over(tuple(names)), sorted(kept)) for x in ins]


@reader("collective_broadcast")
def _broadcast(r: Reading, op: Operation, ins: list[Any]) -> Any:
    axes, groups = _members(r, op)
    if not axes:
        return ins
    gathered = [lax.all_gather(x, _over(axes), axis_index_groups=groups) for x in ins]
    return [lax.index_in_dim(x, 0, 0, keepdims=False) for x in gathered]
