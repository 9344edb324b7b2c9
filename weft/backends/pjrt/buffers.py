"""Arrays in a plugin's memory: copies to it and from it, and waiting for what is computed."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from weft.backends.pjrt import header
from weft.backends.pjrt.api import Api, PjrtError, pointers
from weft.backends.pjrt.header import ARGS

# Functions that tell where a buffer is.
POINTERS = ("Buffer_UnsafePointer", "Buffer_OpaqueDeviceMemoryDataPointer")
_NAMES = {number: name for name, number in header.TYPES.items()}


class Arrival:
    """Values on their way to the host, and the event of their arrival."""

    def __init__(self, api: Api, value: np.ndarray, event: int) -> None:
        self.api, self.value, self.event = api, value, event

    def __del__(self) -> None:
        if self.event:
            self.api.destroy("Event_Destroy", event=self.event)

    def wait(self) -> np.ndarray:
        """The values, once they are there."""
        event, self.event = self.event, 0
        if event:
            self.api.wait(event)
        return self.value


class _Held:
    """What destroys a buffer: a field of the buffer, which is referred to weakly.

    Weak references still find an object while its __del__ runs, so that another thread could wait
    for a buffer that is being destroyed. They no longer do when its fields are given up.
    """

    __slots__ = ("api", "handle")

    def __init__(self, api: Api, handle: int) -> None:
        self.api, self.handle = api, handle

    def __del__(self) -> None:
        self.api.destroy("Buffer_Destroy", buffer=self.handle)


class Fields:
    """The fields of a buffer; ``host`` is a copy of it that is on its way to the host."""

    __slots__ = ("api", "handle", "held", "host", "__weakref__")

    api: Api
    handle: int
    held: _Held
    host: Arrival | None


class Buffer(Fields):
    """A buffer of a plugin, destroyed with this object.

    Native code makes owners of its own, with the same fields and methods.
    """

    __slots__ = ()

    def __init__(self, api: Api, handle: int) -> None:
        self.api, self.handle, self.host = api, handle, None
        self.held = _Held(api, handle)

    def wait(self) -> None:
        """Wait for the values; raises what went wrong while they were computed."""
        self.api.wait(self.api.call("Buffer_ReadyEvent", buffer=self.handle).event)

    def is_ready(self) -> bool:
        """Whether the values are computed."""
        return self.api.is_ready(self.api.call("Buffer_ReadyEvent", buffer=self.handle).event)

    @property
    def address(self) -> int:
        """Where it is in the device's memory; PjrtError where the plugin does not tell."""
        api = self.api
        if api.has(POINTERS[0]):
            try:
                return api.call(POINTERS[0], buffer=self.handle).buffer_pointer or 0
            except PjrtError as error:
                if error.code != "UNIMPLEMENTED":
                    raise
        # needs an external reference
        return api.call(POINTERS[1], buffer=self.handle).device_memory_ptr or 0

    def size(self) -> int:
        """The bytes that it takes on the device, with padding."""
        found = self.api.call("Buffer_OnDeviceSizeInBytes", buffer=self.handle)
        return int(found.on_device_size_in_bytes)

    def layout(self) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        """How elements lie on the device: dimensions from the fastest on, and sizes of tiles."""
        kind = ARGS["Buffer_GetMemoryLayout"]
        found = self.api.call("Buffer_GetMemoryLayout", buffer=self.handle)
        if found.type != 0:
            raise PjrtError("UNIMPLEMENTED", f"a layout by strides in {kind.__name__}")
        order = _numbers(found.minor_to_major, found.minor_to_major_size)
        ranks = pointers(found.tile_dim_sizes, found.num_tiles)
        sizes, tiles = iter(_numbers(found.tile_dims, sum(ranks))), []
        for rank in ranks:
            tiles.append(tuple(next(sizes) for _ in range(rank)))
        return order, tuple(tiles)


class View(Buffer):
    """A buffer over memory that another library owns: no result may take it."""

    __slots__ = ()


def _numbers(address: int | None, count: int) -> tuple[int, ...]:
    return tuple((ctypes.c_int64 * count).from_address(address)) if address and count else ()


def put(api: Api, client: int, device: int, value: np.ndarray) -> Buffer:
    """Values of the host's on a device; they may change when this returns."""
    value = words(np.asarray(value, order="C"))
    kind = header.TYPES.get(value.dtype.name)
    if kind is None:
        raise PjrtError("UNIMPLEMENTED", f"PJRT has no arrays of dtype {value.dtype}")
    dims = (ctypes.c_int64 * value.ndim)(*value.shape)
    found = api.call(
        "Client_BufferFromHostBuffer",
        client=client,
        data=value.ctypes.data,
        type=kind,
        dims=ctypes.addressof(dims),
        num_dims=value.ndim,
        host_buffer_semantics=header.ONLY_DURING_CALL,
        device=device,
    )
    if found.done_with_host_buffer:
        api.call("Event_Destroy", event=found.done_with_host_buffer)
    return Buffer(api, found.buffer)


def words(value: np.ndarray) -> np.ndarray:
    """Random keys as the words that they are made of, along one more dimension; elements without
    bytes as bytes; all others as they are."""
    if value.dtype.itemsize == 0:
        return np.zeros(value.shape, np.uint8)
    if value.dtype.kind != "V" or value.dtype.name in header.TYPES:
        return value
    return value.reshape(*value.shape, 1).view(np.uint32)


def begin_copy_out(buffer: Buffer, dtype: Any, shape: tuple[int, ...]) -> Arrival:
    """Begin to copy values to the host."""
    found = np.empty(shape, dtype)
    there = words(found)
    order = (ctypes.c_int64 * there.ndim)(*reversed(range(there.ndim)))
    layout = layout_of(order, there.ndim)
    sent = buffer.api.call(
        "Buffer_ToHostBuffer",
        src=buffer.handle,
        host_layout=ctypes.addressof(layout),
        dst=there.ctypes.data,
        dst_size=there.nbytes,
    )
    return Arrival(buffer.api, found, sent.event)


def layout_of(order: Any, rank: int) -> Any:
    """A layout without tiles, by an array of dimensions from the fastest on."""
    return header.Layout(
        struct_size=header.Layout.SIZE,
        body_size=header.LAYOUT_BODY_SIZE,
        minor_to_major=ctypes.addressof(order),
        minor_to_major_size=rank,
    )


def copy_out(buffer: Buffer, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The values on the host; waits for them."""
    begun, buffer.host = buffer.host, None
    if begun is not None and (begun.value.dtype != dtype or begun.value.shape != shape):
        begun.wait()
        begun = None
    found = (begun or begin_copy_out(buffer, dtype, shape)).wait()
    found.flags.writeable = False
    return found


def moved(buffer: Buffer, device: int) -> Buffer:
    """A copy on another device of the same plugin."""
    found = buffer.api.call("Buffer_CopyToDevice", buffer=buffer.handle, dst_device=device)
    return Buffer(buffer.api, found.dst_buffer)


def copied(buffer: Buffer, client: int, device: int) -> Buffer:
    """A copy on the same device, which goes through the host: plugins refuse to copy to where a
    buffer is."""
    api = buffer.api
    kind = api.call("Buffer_ElementType", buffer=buffer.handle).type
    dims = api.call("Buffer_Dimensions", buffer=buffer.handle)
    shape = _numbers(dims.dims, dims.num_dims)
    return put(api, client, device, copy_out(buffer, np.dtype(_NAMES[kind]), shape))
