"""Devices that are described and need not be there: a plugin's compiler makes programs for them."""

from __future__ import annotations

import ctypes
from typing import Any

from weft.backends.pjrt import plugins
from weft.backends.pjrt.api import Named, PjrtError, named_values, pointers
from weft.backends.pjrt.device import aliased, name_of, noted_aliases
from weft.backends.pjrt.program import compile_ahead, device_options
from weft.backends.pjrt.story import Study
from weft.core.jaxpr import ClosedJaxpr
from weft.runtime.client import Memory
from weft.runtime.devices import Device
from weft.stablehlo.module import module_text, sharded_text


class NoMemory(Memory):
    """The memory of a device that is described: nothing can be put there."""

    def __init__(self, name: str) -> None:
        self.name = name

    def _refuse(self, *_: Any) -> Any:
        raise RuntimeError(
            f"a device of {self.name} is only a description: weft can compile for it, but cannot "
            "place arrays on it; write weft.ShapeDtypeStruct(shape, dtype, sharding=...) for "
            "arguments"
        )

    put: Any = _refuse
    moved: Any = _refuse
    copy: Any = _refuse
    copy_out: Any = _refuse
    begin_copy_out: Any = _refuse


class Described:
    """What is known of a device that is described."""

    joins_processes = False

    def __init__(self, topology: Topology, handle: int) -> None:
        api, given = topology.api, {"device_description": handle}
        self.topology = topology
        self.id = int(api.call("DeviceDescription_Id", **given).id)
        self.process_index = int(api.call("DeviceDescription_ProcessIndex", **given).process_index)
        self.device_kind = api.text("DeviceDescription_Kind", "device_kind", **given)
        found = api.call("DeviceDescription_Attributes", **given)
        self.attributes = named_values(found.attributes, found.num_attributes)
        self.platform = self.device_prefix = topology.platform
        self.device_name = f"{topology.platform.title().replace('_', '')}Device"
        self.memory, self.dlpack_device = NoMemory(topology.name), (12, self.id)

    def over(self, sharding: Any) -> Described:
        return self

    def memory_stats(self) -> None:
        return None


class Topology:
    """A machine by its name, as ``v5e:2x2``: its devices, and programs compiled for them."""

    def __init__(self, platform: str, name: str, options: dict[str, Any]) -> None:
        self.platform, self.name = platform, name
        self.api = plugins.api_of(plugins.named(platform))
        held, named = ctypes.create_string_buffer(name.encode()), Named(options)
        try:
            made = self.api.call(
                "TopologyDescription_Create",
                topology_name=ctypes.addressof(held),
                topology_name_size=len(name.encode()),
                create_options=named.address,
                num_options=named.count,
            )
        except PjrtError as error:
            advice = "; write v5e:2x2, v4:2x2x1, v5p:2x2x1 or the like" if platform == "tpu" else ""
            raise RuntimeError(
                f"the plugin {platform!r} does not know the machine {name!r}: {error}{advice}"
            ) from None
        self.handle: int = made.topology
        found = self.api.call("TopologyDescription_GetDeviceDescriptions", topology=self.handle)
        every = [Described(self, p) for p in pointers(found.descriptions, found.num_descriptions)]
        self.devices = [Device(d.id, d, d.process_index) for d in every]  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"Topology({self.platform}, {self.name})"

    @property
    def platform_version(self) -> str:
        given = {"topology": self.handle}
        return self.api.text("TopologyDescription_PlatformVersion", "platform_version", **given)

    def compiled(
        self,
        closed: ClosedJaxpr,
        donated: tuple[bool, ...],
        division: Any = None,
        overrides: dict[str, Any] | None = None,
    ) -> Study:
        """A program compiled for the first device, or for those of a mesh that it is divided over:
        ``division`` has the mesh, and the shardings of arguments and results."""
        name, count = name_of(closed), len(closed.in_avals)
        if division is None:
            noted = noted_aliases(aliased(closed, donated), count)
            text, ids = module_text(closed, name, False, noted), [self.devices[0].id]
        else:
            mesh, ins, outs = division
            noted = noted_aliases(aliased(closed, donated, ins, outs), count)
            text = sharded_text(closed, name, mesh, ins, outs, False, noted)
            ids = self._ids(mesh)
        options = device_options(ids, division is not None, overrides, text)
        return Study(closed, compile_ahead(self.api, self.handle, text, options), len(ids))

    def check_count(self, count: int) -> None:
        """Raise ValueError where the machine has fewer devices."""
        if count > len(self.devices):
            raise ValueError(
                f"{self.name} has {len(self.devices)} devices, and the program is sharded over "
                f"{count}; name a larger machine, or use a smaller mesh"
            )

    def _ids(self, mesh: Any) -> list[int]:
        """The devices of a mesh: its own if they are of this machine, else the first ones."""
        self.check_count(mesh.size)
        own = list(mesh.devices.flat) if hasattr(mesh, "devices") else []
        if own and all(d in self.devices for d in own):
            return [d.id for d in own]
        return [d.id for d in self.devices[: mesh.size]]
