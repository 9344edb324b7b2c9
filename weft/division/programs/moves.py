"""What moves between devices: collectives between two ways to divide an array, with their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.base import source
from weft.base.record import Record
from weft.core.ad import filled
from weft.core.interpret import storage_dtype
from weft.core.jaxpr import jaxprs_in_params
from weft.core.registry import lookup
from weft.core.trace import typeof
from weft.division.factors import Division, Factors, Spec, count
from weft.prims.collective import member_index
from weft.prims.families import along, broadcast_in_dim, converted, positions_along

Sizes = dict[Any, int]


class Move(Record):
    """One collective: what it is, over which mesh axes, and the bytes that each device receives.

    ``operand`` is the type of a device's part, ``primitive`` the operation that needs it, ``times``
    how often it runs (0 where nobody knows), ``why`` says more where there is more to say.
    """

    kind: str
    axes: tuple[Any, ...]
    bytes: int
    operand: str
    primitive: str
    source: Any
    why: str
    times: int

    @property
    def line(self) -> str:
        """The user's line."""
        return "" if self.source is None else source.summarize(self.source)

    def __str__(self) -> str:
        axes = ", ".join(map(str, self.axes))
        times = "" if self.times == 1 else f" × {self.times or 'each round'}"
        text = f"{self.kind} of {self.operand} over {axes}: {self.bytes:,} bytes{times}"
        reason = self.why or f"for {self.primitive}"
        return f"{text}, {reason} — {self.line}"


# --- bytes ----------------------------------------------------------------------------------------


def bytes_of(aval: Any, spec: Spec, mesh: Sizes) -> float:
    """The size of a part."""
    parts = prod(count(axes, mesh) for axes in spec)
    return prod(aval.shape) * storage_dtype(aval.dtype).itemsize / parts


def received(kind: str, size: float, n: int) -> float:
    """Bytes that one of ``n`` devices receives in a collective on parts of ``size`` bytes."""
    if kind == "all-gather":
        return size * (n - 1)
    if kind in ("reduce-scatter", "all-to-all"):
        return size * (n - 1) / n
    if kind == "all-reduce":
        return 2 * size * (n - 1) / n
    return size


class Step(Record):
    """One step between two specs."""

    kind: str  # slice, all-gather, all-to-all
    axes: tuple[Any, ...]
    dim: int  # the dimension that is cut, or joined
    other: int = -1  # of an all-to-all: the dimension that is cut


def steps_between(old: Spec, new: Spec) -> list[Step]:
    """Slices, all-to-alls and all-gathers from one spec to another, cheap ones first."""
    now = [list(axes) for axes in old]
    steps: list[Step] = []

    def common(d: int) -> int:
        n = 0
        while n < min(len(now[d]), len(new[d])) and now[d][n] == new[d][n]:
            n += 1
        return n

    def missing(d: int) -> tuple[Any, ...]:
        """Axes that a dimension still lacks, if nothing has to go first."""
        return new[d][len(now[d]) :] if common(d) == len(now[d]) else ()

    while [tuple(axes) for axes in now] != list(new):
        used = {a for axes in now for a in axes}
        done = False
        for d in range(len(now)):
            free: list[Any] = []
            for axis in missing(d):
                if axis in used:
                    break
                free.append(axis)
            if free:
                steps.append(Step("slice", tuple(free), d))
                now[d] += free
                done = True
                break
        if done:
            continue
        for d in range(len(now)):
            if not now[d] or common(d) == len(now[d]):
                continue
            last = now[d][-1]
            target = [e for e in range(len(now)) if e != d and missing(e)[:1] == (last,)]
            if target:
                steps.append(Step("all-to-all", (last,), d, target[0]))
                now[d].pop()
                now[target[0]].append(last)
                done = True
                break
        if done:
            continue
        # axes that no other dimension waits for go at once
        d = max(
            (d for d in range(len(now)) if common(d) < len(now[d])),
            key=lambda d: now[d][-1] not in {a for axes in new for a in axes},
        )
        gone = now[d][common(d) :]
        steps.append(Step("all-gather", tuple(gone), d))
        del now[d][len(now[d]) - len(gone) :]
    return steps


def bytes_between(aval: Any, old: Spec, new: Spec, mesh: Sizes) -> float:
    """Bytes that a device receives between one spec and another."""
    if old == new:
        return 0.0
    size, total = bytes_of(aval, old, mesh), 0.0
    for step in steps_between(old, new):
        n = count(step.axes, mesh)
        if step.kind == "slice":
            size /= n
            continue
        total += received(step.kind, size, n)
        if step.kind == "all-gather":
            size *= n
    return total


def with_axis(spec: Spec, dim: int, axis: Any) -> Spec:
    """A spec with one more axis for a dimension."""
    return tuple((*axes, axis) if d == dim else axes for d, axes in enumerate(spec))


def scattered(
    spec: Spec, want: Spec, partial: Sequence[Any], shape: Sequence[int], mesh: Sizes
) -> tuple[list[tuple[int, Any]], list[Any]]:
    """Of axes to sum over: those by which a wanted spec divides a dimension further, and others."""
    rest = list(partial)
    found: list[tuple[int, Any]] = []
    for d, (have, axes) in enumerate(zip(spec, want, strict=True)):
        if axes[: len(have)] != have:
            continue
        parts = count(have, mesh)
        for axis in axes[len(have) :]:
            parts *= mesh[axis]
            if axis not in rest or shape[d] % parts:
                break
            rest.remove(axis)
            found.append((d, axis))
    return found, rest


def written(eqn: Any, mesh: Sizes) -> Move | None:
    """What a collective that a user wrote moves; None for what is no collective."""
    kind = KINDS.get(eqn.primitive.name)
    if kind is None:
        return None
    axes = tuple(a for a in eqn.primitive.axis_names(eqn.params) if a in mesh)
    aval = eqn.invars[0].aval
    size = received(kind, bytes_of(aval, ((),) * len(aval.shape), mesh), count(axes, mesh))
    text = aval.str_short(short_dtypes=True)
    name = eqn.primitive.name
    return Move(kind, axes, int(size), text, name, eqn.source_info, "written by hand", 1)


def collect(jaxpr: Any, marks: dict[Any, Move], mesh: Sizes, times: int = 1) -> list[Move]:
    """The collectives of a program and of those inside of it, in order."""
    found: list[Move] = []
    for eqn in jaxpr.eqns:
        move = marks.get(eqn.outvars[0]) if eqn.outvars else None
        move = move or written(eqn, mesh)
        if move is not None and any(mesh[a] > 1 for a in move.axes):
            found.append(move._replace(times=times))
        rounds = {"scan": eqn.params.get("length"), "while": 0}.get(eqn.primitive.name, 1)
        for inner in jaxprs_in_params(eqn.params):
            found += collect(inner, marks, mesh, times * rounds)
    return found


KINDS = {
    "psum": "all-reduce",
    "pmax": "all-reduce",
    "pmin": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "all_to_all": "all-to-all",
    "ppermute": "permute",
    "pbroadcast": "broadcast",
    "ragged_all_to_all": "all-to-all",
}


# --- collectives ----------------------------------------------------------------------------------


def dynamic_part(x: Any, dim: int, start: Any, size: int) -> Any:
    """``size`` elements along a dimension, from a start that is computed."""
    shape = typeof(x).shape
    starts = [start if d == dim else np.int32(0) for d in range(len(shape))]
    sizes = tuple(size if d == dim else n for d, n in enumerate(shape))
    return lookup("dynamic_slice").bind(x, *starts, slice_sizes=sizes)


class Reshard:
    """Writes the collectives between two specs, and lists them."""

    def __init__(self, walker: Any, why: str) -> None:
        self.walker = walker
        self.mesh: Sizes = walker.sizes
        self.why = why

    def send(self, name: str, over: Sequence[Any], x: Any, **params: Any) -> Any:
        """Bind a collective, and list it."""
        kind, aval = KINDS[name], typeof(x)
        size = bytes_of(aval, ((),) * len(aval.shape), self.mesh)
        n = count(over, self.mesh)
        found = lookup(name).bind(x, **params)
        self.walker.note(found, kind, over, received(kind, size, n), aval, self.why)
        return found

    def apply(self, x: Any, old: Spec, new: Spec) -> Any:
        for step in steps_between(old, new):
            if step.kind == "slice":
                x = self.cut(x, step.dim, step.axes)
            elif step.kind == "all-gather":
                x = self.gather(x, step.dim, step.axes)
            else:
                x = self.send(
                    "all_to_all",
                    step.axes,
                    x,
                    axis_name=step.axes,
                    split_axis=step.other,
                    concat_axis=step.dim,
                    axis_index_groups=None,
                    tiled=True,
                )
        return x

    def cut(self, x: Any, dim: int, axes: Sequence[Any]) -> Any:
        """A device's part of what all have; nothing moves."""
        n = count(axes, self.mesh)
        if n == 1:
            return x
        size = typeof(x).shape[dim] // n
        start = lookup("mul").bind(member_index(tuple(axes)), np.int32(size))
        return dynamic_part(x, dim, start, size)

    def gather(self, x: Any, dim: int, axes: Sequence[Any], tiled: bool = True) -> Any:
        return self.send(
            "all_gather",
            axes,
            x,
            all_gather_dimension=dim,
            axis_name=tuple(axes),
            axis_index_groups=None,
            axis_size=count(axes, self.mesh),
            tiled=tiled,
        )

    def all_reduce(self, x: Any, axes: Sequence[Any], name: str) -> Any:
        return self.send(name, axes, x, axes=tuple(axes), axis_index_groups=None)

    def combine(
        self, x: Any, spec: Spec, how: str, axes: Sequence[Any], want: Spec
    ) -> tuple[Any, Spec]:
        """Results of devices put together over axes."""
        rest = list(axes)
        if how == "add":
            shape = [n * count(a, self.mesh) for n, a in zip(typeof(x).shape, spec, strict=True)]
            scatters, rest = scattered(spec, want, axes, shape, self.mesh)
            for dim, axis in scatters:
                x = self.send(
                    "reduce_scatter",
                    (axis,),
                    x,
                    scatter_dimension=dim,
                    axis_name=(axis,),
                    axis_index_groups=None,
                    axis_size=self.mesh[axis],
                    tiled=True,
                )
                spec = with_axis(spec, dim, axis)
        if not rest:
            return x, spec
        name = {"add": "psum", "max": "pmax", "min": "pmin"}.get(how)
        dtype = typeof(x).dtype
        if name is not None:
            return self.all_reduce(x, rest, name), spec
        if how in ("and", "or") and dtype == np.bool_:
            wide = converted(x, np.dtype(np.int32))
            found = self.all_reduce(wide, rest, "pmin" if how == "and" else "pmax")
            return converted(found, dtype), spec
        every = self.gather(x, 0, rest, tiled=False)
        names = {"mul": "reduce_prod", "and": "reduce_and", "or": "reduce_or", "xor": "reduce_xor"}
        return lookup(names[how]).bind(every, axes=(0,), out_sharding=None), spec


class Part:
    """What ``local`` of a primitive knows of the division that it computes a part of."""

    def __init__(
        self, walker: Any, f: Factors, division: Division, shapes: list[Any], avals: Any
    ) -> None:
        self.walker = walker
        self.factors = f
        self.division = division
        self.outs = shapes  # shapes of a device's results
        self.avals = avals  # types of the whole operands
        self.mesh: Sizes = walker.sizes

    def axes(self, labels: Sequence[int]) -> tuple[Any, ...]:
        """The mesh axes of a dimension with these factors."""
        return tuple(a for x in labels for a in self.division.get(x, ()))

    def count(self, labels: Sequence[int]) -> int:
        """Into how many parts such a dimension is divided."""
        return count(self.axes(labels), self.mesh)

    def index(self, labels: Sequence[int]) -> Any:
        """The number of the device's part."""
        return member_index(self.axes(labels))

    def start(self, labels: Sequence[int], size: int) -> Any:
        """The first position of the device's part, where each has ``size`` elements."""
        return lookup("mul").bind(self.index(labels), np.int32(size))

    def gather(self, x: Any, dim: int, labels: Sequence[int], tiled: bool = True) -> Any:
        """The parts of all devices along a dimension."""
        return Reshard(self.walker, "").gather(x, dim, self.axes(labels), tiled)

    def shifted(self, x: Any, labels: Sequence[int], by: int) -> Any:
        """What the device ``by`` places before has; zeros where there is none."""
        n = self.count(labels)
        if abs(by) >= n:
            return filled(0, typeof(x))
        pairs = [(i, i + by) for i in range(n) if 0 <= i + by < n]
        return self.permuted(x, labels, pairs, "its neighbour's edge")

    def permuted(
        self, x: Any, labels: Sequence[int], pairs: Sequence[tuple[int, int]], why: str = ""
    ) -> Any:
        axes = self.axes(labels)
        send = Reshard(self.walker, why).send
        return send("ppermute", axes, x, axis_name=axes, perm=tuple(pairs))

    def halo(
        self, x: Any, dim: int, labels: Sequence[int], low: int, high: int, fill: Any = 0
    ) -> Any:
        """A part with ``low`` elements before and ``high`` after it, of its neighbours.

        Negative numbers crop; outside of the whole array there is ``fill``.
        """
        size = typeof(x).shape[dim]
        n = self.count(labels)
        pieces = []
        for hops in range(-(-max(low, 0) // size), 0, -1):
            take = min(size, low - (hops - 1) * size)
            edge = along(x, dim, size - take, size)
            pieces.append(self.shifted(edge, labels, hops))
        pieces.append(along(x, dim, max(-low, 0), size - max(-high, 0)))
        for hops in range(1, -(-max(high, 0) // size) + 1):
            take = min(size, high - (hops - 1) * size)
            edge = along(x, dim, 0, take)
            pieces.append(self.shifted(edge, labels, -hops))
        found = pieces[0]
        if len(pieces) > 1:
            found = lookup("concatenate").bind(*pieces, dimension=dim)
        if np.all(np.asarray(fill) == 0):
            return found
        shape = typeof(found).shape
        at = positions_along(shape, dim)
        first = lookup("sub").bind(self.start(labels, size), np.int32(low))
        at = lookup("add").bind(at, broadcast_in_dim(first, shape))
        inside = lookup("and").bind(
            lookup("ge").bind(at, broadcast_in_dim(np.int32(0), shape)),
            lookup("lt").bind(at, broadcast_in_dim(np.int32(size * n), shape)),
        )
        value = broadcast_in_dim(np.asarray(fill, typeof(x).dtype), shape)
        return lookup("select_n").bind(inside, value, found)
