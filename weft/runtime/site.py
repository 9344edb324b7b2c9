"""Where a computation runs: the client that runs it, and the places of its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from weft.base import errors, knobs
from weft.base.lazy import Late
from weft.core import processes
from weft.core.avals import ShapedArray
from weft.core.caches import per_program
from weft.core.jaxpr import ClosedJaxpr
from weft.core.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec
from weft.core.trace import state, typeof
from weft.runtime import observed
from weft.runtime.array import ArrayImpl
from weft.runtime.client import Client, Runner, host
from weft.runtime.places import (
    HOME,
    Incompatible,
    Placement,
    common,
    default_placement,
    described,
    placement,
)

# loaded when arrays are divided over devices
spread = Late("weft.runtime.spread")

# closed program -> whether it leaves sums to be made; the same program on their parts; and
# (program, mesh, shardings of arguments, of results) -> the programs of the mesh's devices, and how
# arguments and results are divided; all filled by ``weft.api.placement``
has_sums: Callable[[Any], bool]
on_parts: Callable[[Any], Any]
divide: Callable[..., Any]


def set_sums(has: Callable[[Any], bool], make: Callable[[Any], Any]) -> None:
    """Say how programs become programs on the parts of sums."""
    global has_sums, on_parts
    has_sums, on_parts = has, make


def set_divider(function: Callable[..., Any]) -> None:
    """Say how programs are divided over devices with memory of their own."""
    global divide
    divide = function


class Site(NamedTuple):
    """Who runs a computation, and where its results belong; ``places`` is None where all of them
    are where most arrays are."""

    client: Runner
    places: tuple[Placement, ...] | None = None


def of_program(closed: Any, args: Sequence[Any], name: str) -> Site:
    """Where a program runs on arguments."""
    places = _places(name, args, lambda: closed)
    return Site(_client(args, places), places)


def client_of(closed: Any, args: Sequence[Any]) -> Client:
    """Who runs a program on arguments, undivided."""
    return _client(args, _places("a program", args, lambda: closed))


def is_home(primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether an operation runs on the host, and its results are where most arrays are."""
    for x in args:
        if type(x) is ArrayImpl and x._type.placement is not HOME:
            return False
    thread = knobs.thread
    if thread.default_device is not None or thread.mesh is not None:
        return False
    if primitive.shardings is not None:
        return False
    callee = primitive.callee(params)
    return callee is None or not says_where(callee)


def of_operation(
    primitive: Any, args: Sequence[Any], params: dict[str, Any], program: Callable[[], Any]
) -> Site | None:
    """Where an operation runs that is not one of most; None where it moves arrays only.

    ``program`` gives it as a program.
    """
    if primitive.relocates and all(type(typeof(x)) is ShapedArray for x in args):
        return None
    name, places = params.get("name", primitive.name), None
    if primitive.destination is not None:
        places = _resharded(primitive.destination(params), args)
    if places is None:
        places = _places(name, args, program)
        if places and primitive.per_process is not None:
            if params["manual_axes"] == frozenset(params["mesh"].axis_names):
                places = _as_written(places, primitive.shardings(params))
    client = host() if is_watched() or state.axis_env else _client(args, places)
    return Site(client, places)


def is_watched() -> bool:
    """Whether calls must come by Python, to be checked or to have their random keys watched."""
    thread = knobs.thread
    return thread.debug_nans or thread.debug_infs or thread.debug_key_reuse


def is_away(x: Any) -> bool:
    """Whether an operand is an array in another memory than the host's."""
    return type(x) is ArrayImpl and not x._type.placement.memory.is_host


def are_away(args: Sequence[Any]) -> bool:
    """Whether some operands, or new arrays, are in another memory than the host's."""
    if any(map(is_away, args)):
        return True
    return knobs.thread.default_device is not None and not default_placement().memory.is_host


def _client(args: Sequence[Any], places: Any) -> Client:
    """Who runs a computation on arrays, for results at places."""
    if places is None:
        return host()
    if places:
        return places[0].client
    return next((x._type.placement.client for x in args if is_away(x)), None) or host()


def _places(name: str, args: Any, program: Callable[[], Any]) -> Any:
    """The placements of the results of a computation, which ``program`` gives as one; None where
    they are where most arrays are."""
    for x in args:
        if type(x) is ArrayImpl and x._type.placement is not HOME:
            break
    else:
        thread = knobs.thread
        if thread.default_device is None and thread.mesh is None and not says_where(program()):
            return None
    where = _where(name, args, program())
    if where is HOME:
        if not any(map(is_away, args)):
            return None  # else what is elsewhere is brought here
    elif where.is_spread or isinstance(where.sharding, NamedSharding):
        return spread.results(program(), where, args)
    return (where,) * len(program().out_avals)


def _where(name: str, args: Any, program: Any) -> Placement:
    """Where a program runs, by its arguments and by what it says itself."""
    given = [x._type.placement if type(x) is ArrayImpl else HOME for x in args]
    said = says_where(program)
    try:
        where = common([*given, said] if said else given)
    except Incompatible as error:
        raise _apart(name, args, error) from None
    if where is HOME or not isinstance(where.sharding, NamedSharding):
        return where
    return _on_mesh_said(program, _on_current_mesh(where))


def as_observed(primitive: Any, args: Any, params: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a call, with a program that says how values that it shows are divided."""
    closed = primitive.callee(params)
    if closed is None or processes.count > 1 or not observed.looks(closed):
        return params
    where = _where(params.get("name", primitive.name), args, closed)
    if where is HOME or not isinstance(where.sharding, NamedSharding):
        return params
    return {**params, "jaxpr": observed.observed(closed, where.sharding.mesh, args)}


def _on_mesh_said(closed: Any, where: Placement) -> Placement:
    """A placement on the mesh without devices that a program speaks of, of the same devices."""
    said = _prescription(closed)
    if not isinstance(said, NamedSharding) or not said.mesh.are_all_axes_auto:
        return where
    own, mesh = where.sharding, said.mesh
    if not isinstance(own, NamedSharding) or own.mesh.shape == mesh.shape:
        return where
    devices = own._device_assignment
    if len(devices) != mesh.size:
        return where
    grid = np.array(devices, dtype=object).reshape(mesh.axis_sizes)
    there = NamedSharding(Mesh(grid, mesh.axis_names, mesh.axis_types), PartitionSpec())
    return placement(there, where.committed)


def _on_current_mesh(where: Placement) -> Placement:
    """A placement on the mesh that is set, where that has the same devices."""
    current = knobs.thread.mesh
    if current is None or current[0] is None or not isinstance(where.sharding, NamedSharding):
        return where
    concrete, abstract = current
    if concrete.axis_names != where.sharding.mesh.axis_names:
        return where
    if concrete.axis_types != abstract.axis_types and concrete.axis_names == abstract.axis_names:
        concrete = concrete.update(axis_types=abstract.axis_types)
    same = tuple(concrete.devices.flat) == where.sharding._device_assignment
    if concrete == where.sharding.mesh or not same:
        return where
    return placement(NamedSharding(concrete, where.sharding.spec), True)


def _apart(name: str, args: Any, error: Incompatible) -> ValueError:
    """The error for arrays that are committed to different devices."""
    found: dict[Placement, str] = {}
    for i, x in enumerate(args):
        if type(x) is ArrayImpl and x._type.placement in (error.first, error.second):
            found.setdefault(x._type.placement, f"operand {i}, {x.aval.str_short()}")
    both = (error.first, error.second)
    parts = [f"{found.get(p, 'what is computed with')}, on {described(p)}" for p in both]
    message = f"{name} got arrays that are committed to different devices: {'; '.join(parts)}"
    advice = "Move one of them first: weft.device_put(x, y.sharding)."
    return ValueError(errors.located(message, advice))


def says_where(closed: Any) -> Any:
    """The placement that a program prescribes for some of its values; None if it says nothing."""
    found = _prescription(closed)
    if found is not None and not isinstance(found, Placement):  # over a mesh without devices
        current = knobs.thread.mesh
        if current is None or current[0] is None or current[0].shape != found.mesh.shape:
            return None
        return placement(NamedSharding(current[0], found.spec), True)
    return found


@per_program
def _prescription(closed: ClosedJaxpr) -> Any:
    """The placement itself, or a sharding over a mesh without devices."""
    every = list(_prescribed(closed))
    concrete = [pair for pair in every if not is_abstract(pair[0])]
    if not concrete:
        return every[0][0] if every else None
    first, one = concrete[0]
    for sharding, eqn in concrete:
        if sharding._device_assignment != first._device_assignment:
            raise _conflict(first, one, sharding, eqn)
    return placement(first, True)


def is_abstract(sharding: Any) -> bool:
    """Whether a sharding is over a mesh without devices."""
    return isinstance(getattr(sharding, "mesh", None), AbstractMesh)


def _conflict(first: Any, one: Any, second: Any, other: Any) -> ValueError:
    """The error for a program that is to run on different devices."""
    pairs = [(first, one), (second, other)]
    places = [described(placement(s, True)) for s, _ in pairs]
    parts = [f"{eqn.primitive.name} on {p}" for (_, eqn), p in zip(pairs, places, strict=True)]
    message = f"one program cannot run on different devices: {' and '.join(parts)}"
    advice = "Have the shardings of arguments, results and constraints over the same devices."
    return ValueError(errors.located(message, advice))


def _prescribed(closed: Any) -> Any:
    """The shardings that equations of a program prescribe, with those, or its types."""
    for eqn in closed.eqns:
        rule = eqn.primitive.shardings
        if rule is not None:
            yield from [(s, eqn) for s in rule(eqn.params) if s is not None]
            continue
        for part in [x for p in eqn.params.values() for x in (p if type(p) is tuple else (p,))]:
            if type(part) is ClosedJaxpr:
                yield from _prescribed(part)
    divided = [getattr(a, "divided", None) for a in closed.out_avals]
    yield from [(s, None) for s in divided if s is not None]


def _as_written(places: Any, shardings: Any) -> Any:
    """Placements with the specs that were given for results, word for word."""
    found = zip(places, shardings, strict=True)
    return tuple([p if s is None else placement(s, p.committed) for p, s in found])


def _resharded(sharding: Any, args: Any) -> Any:
    """The placement of an array that is moved; None where its mesh names no devices."""
    if isinstance(sharding.mesh, AbstractMesh):
        current, own = knobs.thread.mesh, getattr(args[0], "sharding", None)
        known = [] if current is None or current[0] is None else [current[0]]
        known += [own.mesh] if isinstance(own, NamedSharding) else []
        mesh = next((m for m in known if m.shape == sharding.mesh.shape), None)
        if mesh is None:
            return None
        sharding = NamedSharding(mesh.update(axis_types=sharding.mesh.axis_types), sharding.spec)
    return (placement(sharding, True),)
