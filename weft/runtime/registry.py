"""The backends by name: the one place that names them, each loaded when it is first used."""

from __future__ import annotations

from typing import NamedTuple

from weft.base.lazy import Late


class Platform(NamedTuple):
    """A backend: the module whose ``clients()`` gives a client for each of its devices."""

    module: Late
    on_host: bool = False  # whether its arrays are in the memory of the process
    names: tuple[str, ...] = ()  # other names
    mark: str = ""  # a file that exists where the platform may be usable


CLIENTS = {
    "native": Platform(Late("weft.backends.cpu.client"), on_host=True),
    "reference": Platform(Late("weft.backends.reference.client"), on_host=True),
    "checked": Platform(Late("weft.runtime.checked"), on_host=True),
    "cuda": Platform(Late("weft.backends.cuda.client"), names=("gpu",), mark="/dev/nvidiactl"),
}

# Platforms that PJRT plugins bring: ``names()`` of them, and ``clients(name)``.
PLUGINS = Late("weft.backends.pjrt.client")
