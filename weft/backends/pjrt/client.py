"""The devices of PJRT plugins as clients, by the plugin's name."""

from __future__ import annotations

from typing import Any

from weft.backends.pjrt import plugins
from weft.backends.pjrt.device import PjrtDevice, Runtime
from weft.base.lazy import Late

# loaded where arrays are over several devices, and for machines that are not here
spread = Late("weft.backends.pjrt.spread")
described = Late("weft.backends.pjrt.topology")


def _over(sharding: Any) -> Any:
    return spread.client_over(sharding)


def names() -> list[str]:
    """The platforms that plugins bring."""
    return list(plugins.known())


def clients(name: str) -> list[PjrtDevice]:
    """A client for each device of a plugin that this process can use."""
    runtime = Runtime(plugins.named(name))
    found = [PjrtDevice(runtime, device, _over) for device in runtime.devices()]
    if not found:
        raise RuntimeError(f"the plugin {name!r} knows no device that this process can use")
    return sorted(found, key=lambda client: client.id)


def topology(platform: str, name: str, options: dict[str, Any]) -> Any:
    """A machine by its name, for programs that are compiled ahead."""
    return described.Topology(platform, name, options)
