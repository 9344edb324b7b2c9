"""Placement: where an array lives and whether it must stay there, as a part of its type.

An array's type is one interned object for each pair of an abstract value and a placement, so that
the guards of compiled calls compare a single pointer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.base import knobs
from weft.core import processes
from weft.core.avals import INTERN_LIMIT, ShapedArray, without_axes
from weft.core.sharding import (
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    explicit_part,
)
from weft.runtime.client import HOST_MEMORY, Client, Memory, host
from weft.runtime.devices import Device, default_backend, local_devices

# Kinds of memory that are the host's.
HOST_KINDS = frozenset(["pinned_host", "unpinned_host"])


class Placement:
    """A sharding, and whether the array is committed to it; one object for each distinct pair."""

    __slots__ = (
        "_sharding",
        "committed",
        "spans",
        "joined",
        "explicit",
        "mesh",
        "in_host",
        "memory",
        "_client",
        "_types",
        "__weakref__",
    )

    _sharding: Any
    committed: bool
    spans: bool  # whether some of its devices are another process's
    joined: bool  # whether they are, and their client runs programs over all of them itself
    explicit: bool  # whether types of arrays there carry their sharding
    mesh: Any  # the mesh that types of arrays there name, without devices; None for none
    in_host: bool  # whether arrays there are in the host's memory by the user's wish
    memory: Memory  # what arrays there own pieces of
    _client: Any  # who has it, where it is not the host's
    _types: dict[ShapedArray, ArrayType]

    @property
    def client(self) -> Client:
        """Who runs programs on arrays there."""
        return host() if self.memory.is_host else self._client

    @property
    def sharding(self) -> Any:
        sharding = self._sharding
        if sharding is None:  # the first device is not made before somebody asks for it
            sharding = self._sharding = SingleDeviceSharding(local_devices(backend="cpu")[0])
        return sharding

    @property
    def is_spread(self) -> bool:
        """Whether it names several devices."""
        return self._sharding is not None and self._sharding.num_devices > 1

    def __repr__(self) -> str:
        return f"Placement({self.sharding}, committed={self.committed})"

    def __reduce__(self) -> Any:
        return placement, (self.sharding, self.committed)


class ArrayType:
    """The type of arrays in memory: an abstract value and a placement."""

    __slots__ = ("aval", "placement")

    aval: ShapedArray
    placement: Placement

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    def __repr__(self) -> str:
        return f"ArrayType({self.aval}, {self.placement})"


def _new(sharding: Any, committed: bool) -> Placement:
    made = object.__new__(Placement)
    made._sharding, made.committed, made._types = sharding, committed, {}
    made.spans = processes.count > 1 and sharding is not None and not sharding.is_fully_addressable
    made._client = client = _client(sharding) if sharding else None
    made.memory = client.memory if client else HOST_MEMORY
    made.joined = bool(made.spans and client and client.joins_processes)
    made.mesh = sharding.mesh.abstract_mesh if isinstance(sharding, NamedSharding) else None
    made.in_host = sharding is not None and sharding.memory_kind in HOST_KINDS
    made.explicit = explicit_part(sharding, 0 if sharding is None else _rank(sharding)) is not None
    return made


def _client(sharding: Any) -> Any:
    """Who has the memory that arrays of a sharding are in; None for the host's."""
    every = sharding._device_assignment
    if every[0].is_host:
        return None
    own = dict.fromkeys(d.client for d in every if d.process_index == processes.index)
    client = next(iter(own), every[0].client)
    joins = client.joins_processes and not sharding.is_fully_addressable
    return client.over(sharding) if len(own) > 1 or joins else client


def _rank(sharding: Any) -> int:
    return len(getattr(sharding, "spec", ()))


# Uncommitted, on the first device: where new arrays are unless something else is asked for.
HOME = _new(None, False)
_placements: dict[Any, Placement] = {}


def placement(sharding: Sharding, committed: bool) -> Placement:
    """The placement of a sharding."""
    if not committed and sharding == HOME.sharding:
        return HOME
    key = (sharding, committed)
    found = _placements.get(key)
    if found is None:
        if len(_placements) >= INTERN_LIMIT:
            _placements.clear()
        found = _placements.setdefault(key, _new(sharding, committed))
    return found


def on_device(device: Device, committed: bool = True) -> Placement:
    """The placement of arrays on one device."""
    return placement(SingleDeviceSharding(device), committed)


def default_placement() -> Placement:
    """Where arrays are made that depend on no committed one."""
    chosen = knobs.thread.default_device
    if chosen is None:
        mesh = knobs.thread.mesh
        if mesh is None or mesh[0] is None or mesh[0].empty:
            return HOME
        return placement(NamedSharding(mesh[0], PartitionSpec()), True)
    if isinstance(chosen, str):
        if default_backend() == "cpu":
            return HOME
        chosen = local_devices()[0]
    return on_device(chosen, False)


def type_at_home(aval: Any) -> ArrayType:
    """The type of uncommitted arrays on the first device."""
    plain = without_axes(aval)
    made = object.__new__(ArrayType)
    made.aval, made.placement = plain, HOME
    aval._home = made
    return made


def array_type(aval: Any, where: Placement) -> ArrayType:
    """The type of arrays at a placement."""
    if where is HOME:
        return aval._home or type_at_home(aval)
    if where.explicit:
        aval = ShapedArray(aval.shape, aval.dtype, aval.weak_type, sharding=where._sharding)
    elif aval.divided is not None:
        aval = without_axes(aval)
    labelled = where.mesh is not None or where.in_host  # which comparing types does not tell
    if labelled and (found := where._types.get(aval)) is not None:
        return found
    if aval.named is not where.mesh or aval.in_host is not where.in_host:
        aval = aval.on_mesh(where.mesh).in_space(where.in_host)
    found = where._types.get(aval)
    if found is None or found.aval is not aval:
        found = object.__new__(ArrayType)
        found.aval, found.placement = aval, where
        if len(where._types) >= INTERN_LIMIT:
            where._types.clear()
        where._types[aval] = found
    return found


def described(where: Placement) -> str:
    """The devices of a placement, in a few words."""
    ids = [d.id for d in where.sharding._device_assignment]
    return f"device {ids[0]}" if len(ids) == 1 else f"devices {ids}"


def common(places: Iterable[Placement]) -> Placement:
    """Where a computation on arrays at these placements runs; ValueError where they disagree.

    Uncommitted arrays go where committed ones are, and to the default device without any.
    """
    found = None
    for where in places:
        if not where.committed or where is found:
            continue
        if found is None:
            found = where
        elif found.sharding._device_assignment != where.sharding._device_assignment:
            raise Incompatible(found, where)
        elif found.sharding.is_fully_replicated and not where.sharding.is_fully_replicated:
            found = where
    return default_placement() if found is None else found


class Incompatible(Exception):
    """Two placements that no computation can have together."""

    def __init__(self, first: Placement, second: Placement) -> None:
        super().__init__(f"{described(first)} and {described(second)}")
        self.first = first
        self.second = second
