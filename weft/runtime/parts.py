"""Arrays over several devices of this process: a part in the memory of each, and their client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.mesh_layout import bounds
from weft.runtime import guards
from weft.runtime.array import ArrayImpl, over
from weft.runtime.client import Memory
from weft.runtime.clients import DeviceClient
from weft.runtime.divided import DividedClient
from weft.runtime.places import array_type, on_device


class Parts:
    """Memory of an array over several devices: a buffer on each, in the order of the mesh."""

    __slots__ = ("buffers",)

    def __init__(self, buffers: Sequence[Any]) -> None:
        self.buffers = tuple(buffers)

    @property
    def address(self) -> int:
        raise ValueError(
            "this array is on several devices and has no one address; take that of a part, as with"
            " x.addressable_shards[0].data"
        )


class SpreadMemory(Memory):
    """Memory of arrays that a sharding divides over several devices."""

    def __init__(self, sharding: Any) -> None:
        self.sharding = sharding
        self.clients: list[Any] = [d.client for d in sharding._device_assignment]

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

    def copy(self, owner: Parts) -> Parts:
        """A copy on the devices."""
        rows = zip(self.clients, owner.buffers, strict=True)
        return Parts([client.memory.copy(buffer) for client, buffer in rows])


class SpreadClient(DeviceClient, DividedClient):
    """Several devices, each with memory, that hold the parts of arrays as a sharding says."""

    sharding: Any

    def part(self, x: ArrayImpl, device: Any, index: tuple[slice, ...]) -> ArrayImpl:
        """The part of an array on one of the devices, over its memory."""
        number = list(self.sharding._device_assignment).index(device)
        aval = x.aval.update(shape=self.sharding.shard_shape(tuple(x.shape)))
        return over(x._alias()._owner.buffers[number], array_type(aval, on_device(device)))

    def to_dlpack(self, x: ArrayImpl, *args: Any) -> Any:
        """Other libraries take the parts one by one."""
        raise BufferError(
            f"__dlpack__ of an array over {len(self.clients)} devices: export its parts, as with"
            " [s.data for s in x.addressable_shards]"
        )

    def array_interface(self, x: ArrayImpl) -> dict[str, Any]:
        """Other libraries take the parts one by one."""
        raise AttributeError(
            f"__cuda_array_interface__ of an array over {len(self.clients)} devices: use its parts,"
            " as with [s.data for s in x.addressable_shards]"
        )
