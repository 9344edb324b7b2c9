"""Arrays over several devices of this process: a part in the memory of each, and their client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core import processes
from weft.division.mesh_layout import bounds, parts_of
from weft.runtime import guards
from weft.runtime.array import ArrayImpl, over
from weft.runtime.client import Memory, Told
from weft.runtime.clients import DeviceClient
from weft.runtime.patterns import Pattern
from weft.runtime.places import array_type, on_device
from weft.runtime.spanning import rows_of, sizes_of_parts


class Parts:
    """Memory of an array over several devices: a buffer on each, in the order of the mesh."""

    __slots__ = ("buffers",)

    def __init__(self, buffers: Sequence[Any]) -> None:
        self.buffers = tuple(buffers)

    @property
    def address(self) -> int:
        raise ValueError(
            "this array is on several devices and has no single address; use the address of a "
            "shard, as with"
            " x.addressable_shards[0].data"
        )


class SpreadMemory(Memory):
    """Memory of arrays that a sharding divides over several devices."""

    def __init__(self, sharding: Any) -> None:
        self.sharding, self.own = sharding, self._devices(sharding)
        self.clients: list[Any] = [d.client for d in self.own]

    def _devices(self, sharding: Any) -> list[Any]:
        """The devices with parts here, in the order of the mesh."""
        return list(sharding._device_assignment)

    def _slices(self, shape: tuple[int, ...]) -> list[tuple[slice, ...]]:
        found = self.sharding.devices_indices_map(tuple(shape))
        return [found[d] for d in self.sharding._device_assignment]

    def put(self, value: np.ndarray) -> Parts:
        """Values of the host's, which may change when this returns."""
        rows = zip(self.clients, self._slices(value.shape), strict=True)
        return Parts([client.memory.put(value[index]) for client, index in rows])

    def moved(self, x: ArrayImpl) -> Parts:
        """The values of an array that is elsewhere."""
        return self.put(x._value)

    def copy_out(self, owner: Parts, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
        """The values, copied to the host once they are computed; each part once."""
        found = np.empty(shape, dtype)
        seen = set()
        rows = zip(self.clients, owner.buffers, self._slices(shape), strict=True)
        with guards.gathering(dtype, shape):
            for client, buffer, index in rows:
                key = bounds(index, shape)
                if key not in seen:
                    seen.add(key)
                    part = tuple(stop - start for start, stop in key)
                    found[index] = client.memory.copy_out(buffer, dtype, part)
        found.flags.writeable = False
        return found

    def begin_copy_out(self, owner: Parts, dtype: Any, shape: tuple[int, ...]) -> None:
        """Begin to copy values to the host, for ``copy_out`` to find."""
        part = self.sharding.shard_shape(tuple(shape))
        for client, buffer in zip(self.clients, owner.buffers, strict=True):
            client.memory.begin_copy_out(buffer, dtype, part)

    def layout(self, owner: Parts) -> Any:
        """How the first device lays its part out."""
        return self.clients[0].memory.layout(owner.buffers[0])

    def copy(self, owner: Parts) -> Parts:
        """A copy on the devices."""
        rows = zip(self.clients, owner.buffers, strict=True)
        return Parts([client.memory.copy(buffer) for client, buffer in rows])


class SpannedMemory(SpreadMemory):
    """The same where some devices are other processes': this one has the parts of its own.

    What goes in and comes out are rows, each part of this process once (``mesh_layout``).
    """

    def _devices(self, sharding: Any) -> list[Any]:
        return [d for d in sharding._device_assignment if d.process_index == processes.index]

    def _numbers(self, rank: int) -> list[int]:
        """The row that each device has, of arrays with so many dimensions."""
        sizes = sizes_of_parts(self.sharding, rank)
        where = self.sharding.devices_indices_map(tuple(sizes))
        keys = list(parts_of(self.sharding, sizes))
        return [keys.index(bounds(where[d], sizes)) for d in self.own]

    def put(self, value: np.ndarray) -> Parts:
        numbers = self._numbers(value.ndim - 1)
        rows = zip(self.clients, numbers, strict=True)
        return Parts([client.memory.put(value[number, ...]) for client, number in rows])

    def copy_out(self, owner: Parts, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
        found = np.empty(shape, dtype)
        rows = zip(self._numbers(len(shape) - 1), self.clients, owner.buffers, strict=True)
        with guards.gathering(dtype, shape):
            for number, (client, buffer) in {n: rest for n, *rest in rows}.items():
                found[number, ...] = client.memory.copy_out(buffer, dtype, shape[1:])
        return found

    def moved(self, x: ArrayImpl) -> Parts:
        return self.put(rows_of(x._value, self.sharding))


class SpreadClient(DeviceClient):
    """Several devices, each with memory, that hold the parts of arrays as a sharding says."""

    sharding: Any
    memory: SpreadMemory
    clients: Sequence[Any] = ()  # of the devices, which run the parts of a program

    def wait(self) -> None:
        for client in self.clients:
            client.wait()

    def is_idle(self) -> bool:
        return all(client.is_idle() for client in self.clients)

    def memory_stats(self) -> dict[str, Any] | None:
        return self.clients[0].memory_stats()  # type: ignore[no-any-return]

    def home(self) -> Any:
        return self.clients[0].home()

    def executable(self, closed: Any, donated: tuple[bool, ...] = ()) -> Any:
        """A program compiled for the first of them, undivided."""
        return self.clients[0].executable(closed, donated)

    def study(self, closed: Any, donated: tuple[bool, ...] = ()) -> Any:
        return self.clients[0].study(closed, donated)

    def told(
        self, closed: Any, name: str, traced: float, args: Sequence[Any] | None = None
    ) -> Told:
        """The story of the undivided program on the first of them."""
        if args is not None:
            args = [x._value if type(x) is ArrayImpl else x for x in args]
        return self.clients[0].told(closed, name, traced, args)  # type: ignore[no-any-return]

    def remember(self, pattern: Pattern, places: Any = None) -> bool:
        """Nothing becomes native: what divides a call is Python's."""
        return True

    def part(self, x: ArrayImpl, device: Any, index: tuple[slice, ...]) -> ArrayImpl:
        """The part of an array on one of the devices, over its memory."""
        number = self.memory.own.index(device)
        aval = x.aval.update(shape=self.sharding.shard_shape(tuple(x.shape)))
        return over(x._alias()._owner.buffers[number], array_type(aval, on_device(device)))

    def to_dlpack(self, x: ArrayImpl, *args: Any) -> Any:
        """Other libraries take the parts one by one."""
        raise BufferError(
            f"__dlpack__ of an array over {len(self.clients)} devices: export its shards, as with"
            " [s.data for s in x.addressable_shards]"
        )

    def array_interface(self, x: ArrayImpl) -> dict[str, Any]:
        """Other libraries take the parts one by one."""
        raise AttributeError(
            f"__cuda_array_interface__ of an array over {len(self.clients)} devices: use its "
            "shards, as with [s.data for s in x.addressable_shards]"
        )
