"""The devices of PJRT plugins as clients, by the plugin's name."""

from __future__ import annotations

from typing import Any

from weft.backends.pjrt import plugins
from weft.backends.pjrt.api import PjrtError
from weft.backends.pjrt.device import Described, PjrtDevice, Runtime
from weft.base.lazy import Late
from weft.core import processes
from weft.runtime.devices import Elsewhere

# loaded where arrays are over several devices, and for machines that are not here
spread = Late("weft.backends.pjrt.spread")
described = Late("weft.backends.pjrt.topology")


def _over(sharding: Any) -> Any:
    return spread.client_over(sharding)


def names() -> list[str]:
    """The platforms that plugins bring."""
    return list(plugins.known())


def clients(name: str) -> list[Any]:
    """A client for each device of a plugin; those of other processes are only known by name."""
    try:
        runtime = Runtime(plugins.named(name))
    except PjrtError as error:
        if name != "tpu" or error.code != "NOT_FOUND":
            raise
        raise RuntimeError(
            f"{error}. To compile for a TPU that isn't here, write"
            " jit(f).lower(x).compile(topology='v5e:2x2')"
        ) from None
    own = [PjrtDevice(runtime, device, _over) for device in runtime.devices()]
    if not own:
        raise RuntimeError(f"the plugin {name!r} finds no device that this process can use")
    found: dict[int, Any] = {client.id: client for client in own}
    if processes.count > 1:
        for device in runtime.all_devices():
            told = Described(runtime.api, device)
            if told.id not in found:
                found[told.id] = there = Elsewhere(own[0], told.id, told.process_index)
                there.device_kind, there.attributes = told.device_kind, told.attributes
    return [found[number] for number in sorted(found)]


def topology(platform: str, name: str, options: dict[str, Any]) -> Any:
    """A machine by its name, for programs that are compiled ahead."""
    return described.Topology(platform, name, options)
