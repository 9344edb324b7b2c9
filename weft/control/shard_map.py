"""``shard_map``: a program for one device, run by all devices of a mesh on their parts of arrays.

The program is staged once, on the types of the parts, with collectives as primitives. Host devices
share their memory, so what they do together is one program over all parts: each mesh axis becomes a
mapped axis, and a collective becomes an operation along it. Differentiation and batching from
outside act on that program.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from weft.control.jit import jit_p, jit_parameters, numpy_consts
from weft.core.ad import Zero
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, broadcast_axis, moveaxis
from weft.core.caches import ProgramCache, per_program
from weft.core.effects import NamedAxisEffect
from weft.core.interpret import run
from weft.core.jaxpr import ClosedJaxpr, jaxpr_as_fun
from weft.core.primitive import Primitive
from weft.core.registry import lookup
from weft.core.sharding import Mesh, NamedSharding, PartitionSpec, axes_of
from weft.core.staging import stage
from weft.core.trace import extend_axis_env, loosely, typeof
from weft.division.mesh_layout import whole_aval
from weft.division.plain import plain
from weft.division.programs.process_program import process_program
from weft.prims.families import element
from weft.transforms.vmap import batch


def _with_types(aval: Any, inner: Any, spec: Sequence[Any], mesh: Any) -> Any:
    """The type of a result that is divided by hand and, over other axes, as inside."""
    ndim = len(aval.shape)
    parts = [axes_of(p) for p in (*spec, *(None,) * (ndim - len(spec)))]
    if inner.divided is not None:
        parts = [(*a, *axes_of(b)) for a, b in zip(parts, inner.divided.spec, strict=True)]
    marks = spec.marks() if isinstance(spec, PartitionSpec) else {}
    return aval.update(sharding=NamedSharding(mesh, PartitionSpec(*parts, **marks)))


# Programs over all parts, by mesh, specs and manual axes.
_whole: ProgramCache[Any, ClosedJaxpr] = ProgramCache("whole")
_process_program = per_program(process_program)


class ShardMap(Primitive):
    """A program run by every device of a mesh on its part of the arguments."""

    name = "shard_map"
    multiple_results = True

    def shape(self, *avals: Any, jaxpr: Any, mesh: Any, out_specs: Any, **params: Any) -> list[Any]:
        sizes = dict(mesh.shape)
        manual = params["manual_axes"]
        found = [whole_aval(a, s, sizes) for a, s in zip(jaxpr.out_avals, out_specs, strict=True)]
        outer = [a.mat.varying - manual for a in jaxpr.out_avals]
        found = [a.varying(v) if v else a for a, v in zip(found, outer, strict=True)]
        if not mesh.explicit_axes:
            return found
        given = zip(found, jaxpr.out_avals, out_specs, strict=True)
        return [_with_types(a, inner, spec, mesh) for a, inner, spec in given]

    def eqn_effects(self, avals: Any, params: Any) -> Any:
        bound = {NamedAxisEffect(name) for name in params["manual_axes"]}
        return params["jaxpr"].effects - bound

    def callee(self, params: dict[str, Any]) -> ClosedJaxpr:
        """The program over all parts; its equation is left to whoever stages it."""
        closed = params["jaxpr"]
        specs = (params["in_specs"], params["out_specs"])
        key = (params["mesh"], *specs, params["manual_axes"])
        make = _sums_program if has_marks(params) else _whole_program
        return _whole.made(closed, key, lambda: make(closed, params))

    def per_process(self, params: dict[str, Any]) -> tuple[ClosedJaxpr, list[Any], list[Any]]:
        """The program of this process, where a mesh spans several; how its arguments and results
        are divided."""
        closed, mesh = params["jaxpr"], params["mesh"]
        ins, outs = params["in_specs"], params["out_specs"]
        program = _process_program(closed, mesh, ins, outs, params["manual_axes"])
        shardings = lambda specs: [NamedSharding(mesh, spec) for spec in specs]
        return program, shardings(ins), shardings(outs)

    def ref(self, *args: Any, **params: Any) -> list[Any]:
        whole = self.callee(params)
        return run(whole.jaxpr, numpy_consts(whole), args)

    def shardings(self, params: dict[str, Any]) -> list[Any]:
        """Where the results are."""
        mesh = params["mesh"]
        there = isinstance(mesh, Mesh)
        return [NamedSharding(mesh, spec) if there else None for spec in params["out_specs"]]

    def _call(self, params: dict[str, Any]) -> dict[str, Any]:
        return jit_parameters(self.callee(params), "shard_map")

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        outs, out_tangents = jit_p.jvp(primals, tangents, **self._call(params))
        if not params["mesh"].explicit_axes:
            return outs, out_tangents
        avals = self.shape(*map(typeof, primals), **params)
        return _typed(outs, avals), _typed(out_tangents, avals)

    def transpose(self, cts: Any, *args: Any, **params: Any) -> list[Any]:
        return jit_p.transpose(cts, *args, **self._call(params))

    def batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, Any]:
        return jit_p.batch(axis, args, dims, **self._call(params))

    def axis_names(self, params: dict[str, Any]) -> tuple[Any, ...]:
        """The names of axes outside that the program speaks to."""
        effects = self.eqn_effects((), params)
        return tuple(e.name for e in effects if isinstance(e, NamedAxisEffect))


def _typed(xs: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
    """Results of the program over all parts, whose types do not say how they are divided, with
    types that do."""
    return [
        x
        if aval.divided is None or type(x) is Zero
        else lookup("reshard").bind(x, dst_sharding=aval.divided)
        for x, aval in zip(xs, avals, strict=True)
    ]


def has_marks(params: dict[str, Any]) -> bool:
    """Whether arguments or results are unreduced or reduced over axes."""
    return any(s.unreduced or s.reduced for s in (*params["in_specs"], *params["out_specs"]))


# --- sums that are left to be made ----------------------------------------------------------------


def _marked_axes(spec: PartitionSpec, mesh: Any) -> tuple[Any, ...]:
    return tuple(n for n in mesh.axis_names if n in spec.unreduced | spec.reduced)


def _sums_program(closed: ClosedJaxpr, params: dict[str, Any]) -> ClosedJaxpr:
    """The program between arrays that are unreduced or reduced: each device has a part along one
    more dimension for each of these axes."""
    mesh = params["mesh"]
    sizes = dict(mesh.shape)
    ins, outs = params["in_specs"], params["out_specs"]
    in_axes, out_axes = ([_marked_axes(s, mesh) for s in specs] for specs in (ins, outs))

    def stacked(specs: Any, avals: Any) -> tuple[PartitionSpec, ...]:
        return tuple(
            PartitionSpec(*s, *(None,) * (len(a.shape) - len(s)), *_marked_axes(s, mesh))
            for s, a in zip(specs, avals, strict=True)
        )

    def local(*xs: Any) -> list[Any]:
        given = [_reshaped(x, a.shape) for x, a in zip(xs, closed.in_avals, strict=True)]
        found = jaxpr_as_fun(plain(closed))(*given)
        return [
            _reshaped(y, (*typeof(y).shape, *(1,) * len(axes)))
            for y, axes in zip(found, out_axes, strict=True)
        ]

    parts = [
        ShapedArray((*a.shape, *(1,) * len(axes)), a.dtype, a.weak_type)
        for a, axes in zip(closed.in_avals, in_axes, strict=True)
    ]
    with extend_axis_env([(n, s) for n, s in sizes.items() if n in params["manual_axes"]]):
        body = stage(local, parts, closed.debug_info)
    inner = {
        **params,
        "jaxpr": body,
        "in_specs": stacked(ins, closed.in_avals),
        "out_specs": stacked(outs, closed.out_avals),
        "check_vma": False,
    }

    def whole(*args: Any) -> list[Any]:
        given = zip(args, ins, in_axes, strict=True)
        found = shard_map_p.bind(*[_apart(x, s, axes, mesh) for x, s, axes in given], **inner)
        return [
            _together(y, s, axes, mesh) for y, s, axes in zip(found, outs, out_axes, strict=True)
        ]

    avals = [whole_aval(a, s, sizes) for a, s in zip(closed.in_avals, ins, strict=True)]
    typed = [
        a.update(sharding=NamedSharding(mesh.abstract_mesh, s))
        for a, s in zip(avals, ins, strict=True)
    ]
    with loosely():
        return stage(whole, typed, closed.debug_info)


def _apart(x: Any, spec: PartitionSpec, axes: tuple[Any, ...], mesh: Any) -> Any:
    """What each device has of an argument that is unreduced or reduced."""
    return _converted(x, spec, axes, mesh, "sum_to_parts", "shared_to_parts")


def _together(y: Any, spec: PartitionSpec, axes: tuple[Any, ...], mesh: Any) -> Any:
    """The result of which each device has a part, or all."""
    return _converted(y, spec, axes, mesh, "parts_to_sum", "parts_to_shared")


def _converted(
    x: Any, spec: PartitionSpec, axes: tuple[Any, ...], mesh: Any, of_sum: str, of_shared: str
) -> Any:
    if not axes:
        return x
    if spec.unreduced and spec.reduced:
        raise NotImplementedError(
            f"shard_map takes and returns arrays that are unreduced or reduced, not both: {spec}"
        )
    change = lookup(of_sum if spec.unreduced else of_shared)
    return change.bind(x, axes=axes, mesh=mesh.abstract_mesh)


# --- one program over all parts -------------------------------------------------------------------


def _whole_program(closed: ClosedJaxpr, params: dict[str, Any]) -> ClosedJaxpr:
    mesh, in_specs, out_specs = params["mesh"], params["in_specs"], params["out_specs"]
    sizes = dict(mesh.shape)
    names = tuple(n for n in mesh.axis_names if n in params["manual_axes"])
    local = jaxpr_as_fun(plain(closed))

    def whole(*args: Any) -> list[Any]:
        placed = [put(x, NamedSharding(mesh, s)) for x, s in zip(args, in_specs, strict=True)]
        parts = [cut(x, spec, names, sizes) for x, spec in zip(placed, in_specs, strict=True)]
        axes = [(name, sizes[name]) for name in names]
        found = _mapped(local, axes, [x for x, _ in parts], [held for _, held in parts])
        outs = [
            join(y, held, spec, names, sizes)
            for (y, held), spec in zip(found, out_specs, strict=True)
        ]
        return [put(y, NamedSharding(mesh, s)) for y, s in zip(outs, out_specs, strict=True)]

    def put(x: Any, sharding: Any) -> Any:
        # the transpose of this is where cotangents are put
        if not isinstance(mesh, Mesh):
            return x
        return lookup("sharding_constraint").bind(x, sharding=sharding)

    avals = [whole_aval(a, spec, sizes) for a, spec in zip(closed.in_avals, in_specs, strict=True)]
    return stage(whole, avals, closed.debug_info)


def _mapped(
    local: Any, axes: list[tuple[Any, int]], args: list[Any], held: list[tuple[Any, ...]]
) -> list[tuple[Any, tuple[Any, ...]]]:
    """Results of a function mapped over named axes, and which of them each result has in front."""
    if not axes:
        return [(y, ()) for y in local(*args)]
    (name, size), *rest = axes
    deeper: list[tuple[Any, ...]] = []

    def inner(*xs: Any) -> list[Any]:
        found = _mapped(local, rest, list(xs), [tuple(h for h in hs if h != name) for hs in held])
        deeper[:] = [hs for _, hs in found]
        return [y for y, _ in found]

    dims = [0 if name in hs else None for hs in held]
    outs, out_dims = batch(inner, AxisData(name, size, spread=True), args, dims)
    return [
        (y, hs) if d is None else (moveaxis(y, d, 0), (name, *hs))
        for y, d, hs in zip(outs, out_dims, deeper, strict=True)
    ]


def _transposed(x: Any, order: Sequence[int]) -> Any:
    if list(order) == list(range(len(order))):
        return x
    return lookup("transpose").bind(x, permutation=tuple(order))


def _reshaped(x: Any, shape: Sequence[int]) -> Any:
    if tuple(shape) == tuple(typeof(x).shape):
        return x
    return lookup("reshape").bind(x, new_sizes=tuple(shape), dimensions=None, sharding=None)


def cut(
    x: Any, spec: Sequence[Any], names: Sequence[Any], sizes: dict[Any, int]
) -> tuple[Any, tuple[Any, ...]]:
    """An array as its parts: an axis in front for each name of the spec, in the order of names."""
    shape: list[int] = []
    place: dict[Any, int] = {}
    kept: list[int] = []
    for i, n in enumerate(typeof(x).shape):
        for name in axes_of(spec[i] if i < len(spec) else None):
            place[name] = len(shape)
            shape.append(sizes[name])
            n //= sizes[name]
        kept.append(len(shape))
        shape.append(n)
    held = tuple(name for name in names if name in place)
    return _transposed(_reshaped(x, shape), [*(place[name] for name in held), *kept]), held


def join(
    y: Any, held: tuple[Any, ...], spec: Sequence[Any], names: Sequence[Any], sizes: dict[Any, int]
) -> Any:
    """The array that parts are of; where all devices have the same, that of the first."""
    wanted = [name for part in spec for name in axes_of(part)]
    for name in reversed(names):
        if name in held and name not in wanted:
            at = held.index(name)
            y = element(y, at, 0)
            held = held[:at] + held[at + 1 :]
        elif name in wanted and name not in held:
            y, held = broadcast_axis(y, sizes[name], 0), (name, *held)
    local = typeof(y).shape[len(held) :]
    order: list[int] = []
    shape: list[int] = []
    for i, n in enumerate(local):
        parts = axes_of(spec[i] if i < len(spec) else None)
        order += [*(held.index(name) for name in parts), len(held) + i]
        shape.append(n * prod(sizes[name] for name in parts))
    return _reshaped(_transposed(y, order), shape)


shard_map_p = ShardMap()
