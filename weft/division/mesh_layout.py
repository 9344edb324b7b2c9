"""Which device of a mesh is whose, and which part of an array each process holds.

A process holds each part that its devices need once, one after the other: memory of shape
``(parts, *part)``, or of the part's own shape where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.core import processes
from weft.core.avals import ShapedArray
from weft.core.sharding import axes_of

Key = tuple[tuple[int, int], ...]


def bounds(index: Sequence[slice], shape: Sequence[int]) -> Key:
    """Begin and end of a part along every dimension."""
    return tuple(part.indices(n)[:2] for part, n in zip(index, shape, strict=True))


def parts_of(sharding: Any, shape: Sequence[int], process: int | None = None) -> dict[Key, Any]:
    """The parts that a process holds, in order, each with the first of its devices that has it."""
    process = processes.index if process is None else process
    return parts_where(sharding, shape, lambda device: device.process_index == process)


def parts_where(sharding: Any, shape: Sequence[int], chosen: Any) -> dict[Key, Any]:
    """The parts of some devices, in order, each with the first device that has it."""
    found: dict[Key, Any] = {}
    for device, index in sharding.devices_indices_map(tuple(shape)).items():
        if chosen(device):
            found.setdefault(bounds(index, shape), device)
    return found


def part_aval(aval: Any, spec: Sequence[Any], sizes: dict[Any, int]) -> Any:
    """The type of the part of an array that one device has."""
    shape = list(aval.shape)
    for i, part in enumerate(spec):
        shape[i] //= prod(sizes[name] for name in axes_of(part))
    return ShapedArray(shape, aval.dtype, aval.weak_type)


def whole_aval(aval: Any, spec: Sequence[Any], sizes: dict[Any, int]) -> Any:
    """The type of the array of which each device has a part."""
    shape = list(aval.shape)
    for i, part in enumerate(spec):
        shape[i] *= prod(sizes[name] for name in axes_of(part))
    return ShapedArray(shape, aval.dtype, aval.weak_type)


def local_aval(aval: Any, sharding: Any, layout: Layout | None = None) -> Any:
    """The type of the memory that this process has of an array."""
    parts = parts_of if layout is None else layout.parts
    count = len(parts(sharding, aval.shape))
    shape = sharding.shard_shape(tuple(aval.shape))
    return ShapedArray(shape if count == 1 else (count, *shape), aval.dtype, aval.weak_type)


class Layout:
    """A mesh over several processes, from this one's point of view.

    Devices are numbered in the order of the mesh. ``mine`` are this process's; ``owner`` and
    ``row`` say whose a device is and which of its owner's it is. With ``own``, the number of a
    device, every device is taken for a process of its own, and that one for this.
    """

    def __init__(self, mesh: Any, own: int | None = None) -> None:
        self.mesh = mesh
        flat = list(mesh.devices.flat)
        self.own = processes.index if own is None else own
        self.owner = [d.process_index for d in flat] if own is None else list(range(len(flat)))
        self.rank = dict(zip(flat, self.owner, strict=True))
        of: dict[int, list[int]] = {}
        self.row: list[int] = []
        for number, process in enumerate(self.owner):
            self.row.append(len(of.setdefault(process, [])))
            of[process].append(number)
        self.of = of
        self.ranks = tuple(sorted(of))
        self.mine = of.get(self.own, [])
        self.devices = flat
        self.places = np.indices(mesh.devices.shape).reshape(mesh.devices.ndim, -1).T

    def parts(self, sharding: Any, shape: Sequence[int], rank: int | None = None) -> dict[Key, Any]:
        """The parts that a process holds, in order, as `parts_of` has them."""
        rank = self.own if rank is None else rank
        return parts_where(sharding, shape, lambda device: self.rank[device] == rank)

    def position(self, device: int, names: Sequence[Any]) -> int:
        """Where a device is along axes, the first of them slowest."""
        at = 0
        for name in names:
            axis = self.mesh.axis_names.index(name)
            at = at * self.mesh.devices.shape[axis] + int(self.places[device][axis])
        return at

    def groups(self, names: Sequence[Any], groups: Any = None) -> list[tuple[int, ...]]:
        """For every device, those it speaks with along axes, in order."""
        others = [i for i, n in enumerate(self.mesh.axis_names) if n not in names]
        lines: dict[Any, dict[int, int]] = {}
        for device, place in enumerate(self.places):
            line = lines.setdefault(tuple(place[others]), {})
            line[self.position(device, names)] = device
        found: list[tuple[int, ...]] = [()] * len(self.places)
        for line in lines.values():
            for group in [sorted(line)] if groups is None else groups:
                together = tuple(line[i] for i in group)
                for device in together:
                    found[device] = together
        return found

    def are_shared(self, members: Sequence[tuple[int, ...]]) -> bool:
        """Whether all devices of every process are in one group, as all processes find alike."""
        return all(len({members[d] for d in own}) == 1 for own in self.of.values())

    def owners(self, members: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
        """The processes of the members of this one's groups, in order; None where devices of some
        process speak with different ones, or processes have different numbers of devices."""
        if len({len(own) for own in self.of.values()}) > 1:
            return None
        found = {
            rank: {tuple([self.owner[m] for m in members[d]]) for d in own}
            for rank, own in self.of.items()
        }
        if any(len(each) > 1 for each in found.values()):
            return None
        return found[self.own].pop()

    def together(self, members: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        """The processes that speak with this one, directly or through others."""
        found, waiting = {self.own}, [self.own]
        while waiting:
            for device in self.of[waiting.pop()]:
                for other in members[device]:
                    if self.owner[other] not in found:
                        found.add(self.owner[other])
                        waiting.append(self.owner[other])
        return tuple(sorted(found))
