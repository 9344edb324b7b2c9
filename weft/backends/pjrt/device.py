"""A device of a plugin as a place for arrays, and programs that run there.

Calls return before their results are computed; who asks for values waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from time import perf_counter
from typing import Any

import numpy as np

from weft.backends.llvm.calls import entries
from weft.backends.pjrt import buffers, sharing
from weft.backends.pjrt.api import Api, Named, PjrtError, named_values, pointers
from weft.backends.pjrt.buffers import Buffer
from weft.backends.pjrt.exchange import Exchange
from weft.backends.pjrt.plugins import Plugin, api_of
from weft.backends.pjrt.program import Executable, compile_for, device_options
from weft.backends.pjrt.story import Study
from weft.base.errors import HostFallbackWarning
from weft.base.functional import WeakMembers
from weft.base.lazy import Late
from weft.base.source import warn
from weft.core import processes
from weft.core.jaxpr import ClosedJaxpr
from weft.runtime import guards, programs
from weft.runtime.array import ArrayImpl, over
from weft.runtime.client import Memory, Told
from weft.runtime.clients import DeviceClient
from weft.runtime.code import CodeKey
from weft.runtime.devices import devices
from weft.runtime.patterns import Pattern
from weft.runtime.places import array_type, on_device
from weft.stablehlo.module import Unlowered, module_text

# loaded when calls come again
calls = Late("weft.backends.pjrt.calls")

# Sets of placements that results of an executable have types for.
MAX_TYPES = 64
_STATS = "bytes_in_use peak_bytes_in_use num_allocs largest_alloc_size bytes_limit bytes_reserved"
_STATS += " peak_bytes_reserved bytes_reservable_limit largest_free_block_bytes pool_bytes"
_STATS += " peak_pool_bytes"


class Runtime:
    """A plugin's client: what its devices share."""

    def __init__(self, plugin: Plugin) -> None:
        self.api: Api = api_of(plugin)
        self.name = plugin.name
        given = dict(plugin.options or {})
        self.exchange = Exchange(processes.transport.store) if processes.count > 1 else None
        if self.exchange is not None:
            given = {"node_id": processes.index, "num_nodes": processes.count} | given
        options = Named(given)
        made = self.api.call(
            "Client_Create",
            create_options=options.address,
            num_options=options.count,
            **({} if self.exchange is None else self.exchange.fields),
        )
        self.handle: int = made.client
        text = self.api.text
        self.platform_name = text("Client_PlatformName", "platform_name", client=self.handle)
        self.version = text("Client_PlatformVersion", "platform_version", client=self.handle)

    def devices(self) -> list[int]:
        """The devices that this process can use."""
        found = self.api.call("Client_AddressableDevices", client=self.handle)
        return pointers(found.addressable_devices, found.num_addressable_devices)

    def all_devices(self) -> list[int]:
        """The devices of all processes."""
        found = self.api.call("Client_Devices", client=self.handle)
        return pointers(found.devices, found.num_devices)


class Described:
    """What a plugin tells of a device."""

    def __init__(self, api: Api, handle: int) -> None:
        described = api.call("Device_GetDescription", device=handle).device_description
        given = {"device_description": described}
        self.id = int(api.call("DeviceDescription_Id", **given).id)
        self.process_index = int(api.call("DeviceDescription_ProcessIndex", **given).process_index)
        self.device_kind = api.text("DeviceDescription_Kind", "device_kind", **given)
        found = api.call("DeviceDescription_Attributes", **given)
        self.attributes = named_values(found.attributes, found.num_attributes)


class PluginMemory(Memory):
    """Memory of a device: what arrays there own are buffers of the plugin."""

    def __init__(self, client: PjrtDevice) -> None:
        self.client = client

    def copy_out(self, owner: Buffer, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
        guards.to_host(dtype, shape)
        return buffers.copy_out(owner, dtype, shape)

    def begin_copy_out(self, owner: Buffer, dtype: Any, shape: tuple[int, ...]) -> None:
        if owner.host is None:
            owner.host = buffers.begin_copy_out(owner, dtype, shape)

    def copy(self, owner: Buffer) -> Buffer:
        client = self.client
        return buffers.copied(owner, client.runtime.handle, client.handle)

    def layout(self, owner: Buffer) -> Any:
        try:
            return owner.layout()
        except PjrtError as error:
            if error.code != "UNIMPLEMENTED":
                raise
            return None

    def put(self, value: np.ndarray) -> Buffer:
        client = self.client
        return buffers.put(client.api, client.runtime.handle, client.handle, value)

    def moved(self, x: ArrayImpl) -> Buffer:
        """The values of an array that is elsewhere: from a device of this plugin without the host,
        where it can."""
        owner, where = x._alias()._owner, x._type.placement.client
        if isinstance(where, PjrtDevice) and where.runtime is self.client.runtime:
            try:
                return buffers.moved(owner, self.client.handle)
            except PjrtError as error:
                if error.code != "UNIMPLEMENTED":
                    raise
        return self.put(x._value.reshape(x.aval.shape))


class PjrtDevice(DeviceClient):
    """A device of a plugin that holds arrays and runs programs."""

    joins_processes = True

    def __init__(self, runtime: Runtime, handle: int, spread: Callable[[Any], Any]) -> None:
        """``spread`` gives the client of arrays that a sharding divides over several devices."""
        self.runtime, self.handle, self._over = runtime, handle, spread
        self.api = api = runtime.api
        told = Described(api, handle)
        self.id, self.process_index = told.id, told.process_index
        self.device_kind, self.attributes = told.device_kind, told.attributes
        self.platform = self.device_prefix = runtime.name
        self.device_name = f"{runtime.name.title().replace('_', '')}Device"
        self.platform_version, self.runtime_type = runtime.version, "pjrt"
        number = api.call("Device_LocalHardwareId", device=handle).local_hardware_id
        self.dlpack_device = sharing.device_of(api, runtime.platform_name, number)
        self.memory = PluginMemory(self)
        self._pending = WeakMembers()
        self._shelf: Any = None

    # --- waiting ----------------------------------------------------------------------------------

    def expect(self, results: Sequence[Buffer]) -> None:
        """Remember results, for those who wait for all that is being computed."""
        for buffer in results:
            self._pending.add(buffer)

    def wait(self) -> None:
        for buffer in self._results():
            buffer.wait()

    def is_idle(self) -> bool:
        return all(buffer.is_ready() for buffer in self._results())

    def _results(self) -> list[Any]:
        """What may still be computed."""
        return [*self._pending, *([] if self._shelf is None else self._shelf.blocks())]

    def shelf(self) -> Any:
        """The table of this device for native code."""
        if self._shelf is None:
            self._shelf = calls.Shelf(self.api, self.runtime.handle, self.handle)
        return self._shelf

    def raised(self, error: int, *_: int) -> None:
        """Raise an error that the plugin has given native code."""
        raise self.api.error(error)

    def memory_stats(self) -> dict[str, Any] | None:
        """Bytes in use and in all, as far as the plugin tells them; None where it does not."""
        try:
            found = self.api.call("Device_MemoryStats", device=self.handle)
        except PjrtError as error:
            if error.code == "UNIMPLEMENTED":
                return None
            raise
        said = [name for name in _STATS.split() if getattr(found, f"{name}_is_set", True)]
        return {name: getattr(found, name) for name in said}

    # --- programs ---------------------------------------------------------------------------------

    def executable(self, closed: ClosedJaxpr, donated: tuple[bool, ...] = ()) -> Executable | None:
        """A program compiled by the plugin; None where StableHLO has no form for it."""
        donated = donated if any(donated) else ()

        def make(source: ClosedJaxpr) -> Executable | bool:
            aliases = aliased(source, donated)
            noted = noted_aliases(aliases, len(source.in_avals))
            try:
                text = module_text(source, name_of(source), False, noted)
            except Unlowered as error:
                warn_of(self, error)
                return False
            options = device_options([self.id])
            runtime = self.runtime
            handle, _ = compile_for(self.api, runtime.handle, text, options, runtime.version)
            counts = len(source.in_avals), len(source.out_avals)
            return Executable(self.api, handle, 1, *counts, aliases)

        return programs.compiled(closed, CodeKey(self, donated), make)

    def run(
        self, closed: ClosedJaxpr, args: Any, places: Any, donated: tuple[bool, ...] = ()
    ) -> list[Any] | None:
        executable = self.executable(closed, tuple(donated))
        if executable is None:
            return None
        lost, kept = [], []
        for i in executable.taken:
            if self._is_alone(args[i]):
                lost.append(args[i])
            else:
                kept.append(i)
        given = [self.owner_of(x, a) for x, a in zip(args, closed.in_avals, strict=True)]
        try:
            (found,) = executable.run([given], kept)
        finally:
            for x in lost:
                x.delete()
        self.expect(found)
        types = executable.types.get(places)
        if types is None:
            if len(executable.types) >= MAX_TYPES:
                executable.types.clear()
            avals = zip(closed.out_avals, places, strict=True)
            types = executable.types[places] = [array_type(a, where) for a, where in avals]
        return [over(b, t) for b, t in zip(found, types, strict=True)]

    def _is_alone(self, x: Any) -> bool:
        """Whether an array is the only one that can see its memory, which is this device's."""
        if type(x) is not ArrayImpl or x._type.placement.client is not self:
            return False
        if x._owner is None or type(x._owner) is buffers.View:
            return False
        # a reference from the array, and one of the question itself
        return getrefcount(x._owner) == 2

    def study(self, closed: ClosedJaxpr, donated: tuple[bool, ...] = ()) -> Study:
        """What became of a program here."""
        found = self.executable(closed, tuple(donated))
        return Study(closed, None if found is None else found.code)

    def told(
        self, closed: ClosedJaxpr, name: str, traced: float, args: Sequence[Any] | None = None
    ) -> Told:
        begin = perf_counter()
        study = self.study(closed)
        seconds = {"trace": traced, "compile": perf_counter() - begin}
        return study.told(
            f"{name}: {{}} operations on {self}, compiled by {self.runtime.name}: ", seconds
        )

    def native_program(
        self, closed: ClosedJaxpr, donated: tuple[bool, ...], places: Any, leaves: Any
    ) -> Any:
        """What native code runs for arguments like these, and on which devices; None for Python."""
        arrays = [x for x in leaves if type(x) is ArrayImpl]
        if any(x._type.placement.client is not self for x in arrays):
            return None
        found = self.executable(closed, donated)
        return None if found is None else ([self], found)

    def remember(self, pattern: Pattern, places: Any = None) -> bool:
        return entries.remember(pattern, lambda: calls.call(self, pattern, places))

    # --- arrays -----------------------------------------------------------------------------------

    def part(self, x: ArrayImpl, device: Any, index: tuple[slice, ...]) -> ArrayImpl:
        return x  # there is no other

    def over(self, sharding: Any) -> Any:
        return self._over(sharding)

    def home(self) -> Any:
        return on_device(next(d for d in devices(self.platform) if d.client is self))

    def to_dlpack(
        self, x: ArrayImpl, stream: Any, max_version: Any, dl_device: Any, copy: bool | None
    ) -> Any:
        """An array's memory as a capsule; a copy on the host where the plugin lends none."""
        return sharing.export(self, x, stream, max_version, dl_device, copy)

    def from_dlpack(self, x: Any, copy: bool | None) -> ArrayImpl:
        """An array over memory that another library exports."""
        buffer, aval = sharing.take(self, x, copy)
        return over(buffer, array_type(aval, self.home()))

    def array_interface(self, x: ArrayImpl) -> dict[str, Any]:
        raise AttributeError(
            f"__cuda_array_interface__: this array is on {self.platform}; move it to the host first"
        )


def name_of(closed: ClosedJaxpr) -> str:
    """What a program's module is called."""
    info = closed.debug_info
    return "program" if info is None or info.function is None else info.func_name


def aliased(
    closed: ClosedJaxpr, donated: tuple[bool, ...], ins: Any = None, outs: Any = None
) -> dict[int, int]:
    """Which result takes the memory of which donated argument: one of the same type, divided in
    the same way."""

    def kinds(avals: Any, shardings: Any) -> list[Any]:
        types = [(getattr(a, "shape", None), getattr(a, "dtype", None)) for a in avals]
        return list(zip(types, shardings or [None] * len(types), strict=True))

    free = dict(enumerate(kinds(closed.out_avals, outs)))
    found = {}
    for i, (kind, gone) in enumerate(zip(kinds(closed.in_avals, ins), donated, strict=False)):
        at = next((k for k, other in free.items() if other == kind), None) if gone else None
        if at is not None:
            del free[at]
            found[i] = at
    return found


def noted_aliases(aliases: dict[int, int], count: int) -> list[str]:
    """Attributes of arguments whose memory results take; none where there are none."""
    if not aliases:
        return []
    found = [aliases.get(i) for i in range(count)]
    return ["" if k is None else f"tf.aliasing_output = {k} : i32" for k in found]


def warn_of(client: Any, error: Unlowered) -> None:
    """Warn that a program runs on the host: StableHLO has no form for it."""
    warn(f"{error}; the host computes the program, not {client.platform}", HostFallbackWarning)
