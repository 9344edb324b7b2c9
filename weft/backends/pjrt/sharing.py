"""Memory that plugins and other libraries share by the DLPack protocol, without copies.

A plugin lends a buffer while its external reference count says so, and makes a buffer over memory
that it does not own. What it has no functions for is copied through the host, or an error.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.backends.pjrt import buffers, header
from weft.backends.pjrt.api import Api, PjrtError
from weft.backends.pjrt.buffers import Buffer
from weft.base.lasting import lasting
from weft.core.avals import ShapedArray
from weft.runtime import capsules

if TYPE_CHECKING:
    from weft.backends.pjrt.device import PjrtDevice

# What DLPack calls the memory of platforms; other memory has no readers.
KINDS = {
    "cpu": capsules.CPU,
    "host": capsules.CPU,
    "cuda": capsules.CUDA,
    "rocm": capsules.ROCM,
}
HOST = (capsules.CPU, 0)
_LENDING = ("Buffer_IncreaseExternalReferenceCount", "Buffer_DecreaseExternalReferenceCount")
# Errors of plugins that do not take memory as it is.
_REFUSED = ("UNIMPLEMENTED", "INVALID_ARGUMENT")
_STREAM_AT = 24  # of the function that names a stream, in the extension for streams

_Stream = header.plain("Get_Stream_Args", "struct_size:z device:p stream:l")
_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_CALL = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)

_numbers = itertools.count(1)
# What plugins have buffers over, by number.
_viewed: dict[int, capsules.Borrowed] = lasting({})


@lasting
@_RELEASE
def _release(_: int, number: int, is_ending: Any = sys.is_finalizing) -> None:
    if not is_ending():
        _viewed.pop(number, None)


def device_of(api: Api, platform_name: str, number: int) -> tuple[int, int]:
    """What DLPack calls a device's memory: the host's, where the plugin lends none."""
    kind = KINDS.get(platform_name.lower())
    if kind is None or not _lends(api):
        return HOST
    return (kind, 0 if kind == capsules.CPU else number)


def _lends(api: Api) -> bool:
    """Whether a plugin has what lends buffers."""
    return all(map(api.has, _LENDING)) and any(map(api.has, buffers.POINTERS))


def _kind(client: PjrtDevice) -> int | None:
    """What DLPack calls the device's own memory; None where it has no name for it."""
    return KINDS.get(client.runtime.platform_name.lower())


class _Reference:
    """An external reference to a buffer: its memory stays while there is one."""

    def __init__(self, owner: Buffer) -> None:
        self.owner, self.api = owner, owner.api
        self.api.call(_LENDING[0], buffer=owner.handle)

    def __del__(self) -> None:
        self.api.destroy(_LENDING[1], buffer=self.owner.handle)


def _is_plain(owner: Buffer, rank: int) -> bool:
    """Whether elements lie in row-major order, one after the other."""
    try:
        order, tiles = owner.layout()
    except PjrtError:  # a plugin that does not tell
        return True
    return not tiles and order == tuple(reversed(range(rank)))


def export(
    client: PjrtDevice, x: Any, stream: Any, version: Any, dl_device: Any, copy: bool | None
) -> Any:
    """A capsule over an array's memory; a copy on the host where the plugin lends none."""
    own = client.dlpack_device
    wanted = own if dl_device is None else tuple(map(int, dl_device))
    if wanted == own and own[0] == _kind(client) and _lends(client.api):
        owner = client.memory.copy(x._owner) if copy else x._owner
        if _is_plain(owner, len(x.aval.shape)):
            capsules.type_code(x.aval.dtype)
            # what reads it knows nothing of the plugin's streams
            owner.wait()
            held = _Reference(owner)
            return capsules.lend(held, owner.address, own, x.aval, version, bool(copy))
        if own != HOST:
            raise BufferError(
                f"__dlpack__: the plugin {client.platform!r} lays this array out in its own way,"
                f" {owner.layout()}; move it first: weft.device_put(x, weft.devices('cpu')[0])"
            )
    if wanted != HOST:
        raise BufferError(
            f"__dlpack__ to the device {wanted}: the array is on {client.platform}, whose memory"
            f" is {own}; move it first: weft.device_put(x, weft.devices('cpu')[0])"
        )
    if copy is False:
        raise BufferError(
            f"__dlpack__ with copy=False: the plugin {client.platform!r} does not share its memory;"
            " leave copy out to get a copy on the host"
        )
    value = np.array(x._value)
    if version is None or version[0] < 1:
        return value.__dlpack__()
    return value.__dlpack__(max_version=version, copy=True)


def take(client: PjrtDevice, x: Any, copy: bool | None) -> tuple[Buffer, ShapedArray]:
    """A buffer over memory that another library exports, and the type of its array."""
    kind = client.dlpack_device[0]
    if kind != _kind(client) or not client.api.has("Client_CreateViewOfDeviceBuffer"):
        return _copied(client, x, copy)
    held, address, size, aval = capsules.take(x, _stream(client) if kind != capsules.CPU else None)
    if not size:
        return client.memory.put(np.zeros(aval.shape, aval.dtype)), aval
    try:
        found = _view(client, held, address, aval)
    except PjrtError as error:
        if error.code not in _REFUSED or kind != capsules.CPU:
            raise
        if copy is False:
            raise BufferError(f"from_dlpack with copy=False: {error}; leave copy out") from None
        data: Any = (ctypes.c_char * size).from_address(address)
        value = np.frombuffer(data, aval.dtype).reshape(aval.shape)
        return client.memory.put(value), aval
    return (client.memory.copy(found) if copy else found), aval


def _copied(client: PjrtDevice, x: Any, copy: bool | None) -> tuple[Buffer, ShapedArray]:
    if client.dlpack_device[0] != capsules.CPU or copy is False:
        raise BufferError(
            f"from_dlpack: the plugin {client.platform!r} has no arrays over memory of other"
            " libraries; copy it through the host: weft.device_put(numpy_array, device)"
        )
    value = np.from_dlpack(x)
    return client.memory.put(value), ShapedArray(value.shape, value.dtype)


def _view(client: PjrtDevice, held: capsules.Borrowed, address: int, aval: Any) -> Buffer:
    """A buffer over borrowed memory. The plugin says when it is done with it."""
    element = header.TYPES.get(aval.dtype.name)
    if element is None:
        raise BufferError(f"from_dlpack: PJRT has no arrays of dtype {aval.dtype}")
    rank = len(aval.shape)
    dims = (ctypes.c_int64 * max(rank, 1))(*aval.shape)
    order = (ctypes.c_int64 * max(rank, 1))(*reversed(range(rank)))
    layout = buffers.layout_of(order, rank)
    number = next(_numbers)
    _viewed[number] = held
    try:
        made = client.api.call(
            "Client_CreateViewOfDeviceBuffer",
            client=client.runtime.handle,
            device_buffer_ptr=address,
            dims=ctypes.addressof(dims),
            num_dims=rank,
            element_type=element,
            layout=ctypes.addressof(layout),
            device=client.handle,
            on_delete_callback=ctypes.cast(_release, ctypes.c_void_p).value,
            on_delete_callback_arg=number,
            stream=_stream(client) or 0,
        )
    except PjrtError:
        _viewed.pop(number, None)
        raise
    return buffers.View(client.api, made.buffer)


def _stream(client: PjrtDevice) -> int | None:
    """The stream on which the device waits for memory of others; None where it names none."""
    found = client.api.extensions().get("Stream")
    function = ctypes.c_size_t.from_address(found + _STREAM_AT).value if found else 0
    if not function:
        return None
    args = _Stream(struct_size=_Stream.SIZE, device=client.handle)
    error = _CALL(function)(ctypes.addressof(args))
    if error:
        raise client.api.error(error)
    return args.stream or None
