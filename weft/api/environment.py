"""What is installed and what is alive: the environment as text, arrays in memory."""

from __future__ import annotations

import contextlib
import gc
import os
import platform as system
import sys
from typing import Any

import numpy as np

from weft.base import disk
from weft.runtime.array import ArrayImpl
from weft.runtime.devices import devices, process_count

_INTERFACE = "0.10.2"


def live_arrays(platform: str | None = None) -> list[Any]:
    """Return all arrays that the program still holds.

    Args:
        platform: Name of a platform, which must exist; arrays of all platforms are returned.

    Returns:
        List of arrays that aren't deleted.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> x = jnp.ones(3)
        >>> any(y is x for y in weft.live_arrays())
        True
    """
    devices(platform)
    found = [x for x in gc.get_objects() if type(x) is ArrayImpl]
    return [x for x in found if not x.is_deleted()]


def _cache() -> str:
    """Where compiled code is kept, and how much."""
    where = disk.folder()
    if where is None:
        return "off"
    count = size = 0
    with contextlib.suppress(OSError), os.scandir(where) as entries:
        for entry in entries:
            count, size = count + 1, size + entry.stat().st_size
    amount = f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size / 2**10:.0f} KiB"
    return f"{where}, {count} entries, {amount}"


def print_environment_info(return_string: bool = False) -> str | None:
    """Print versions, machine and devices, for a bug report.

    Args:
        return_string: If true, return the text instead of printing it.

    Returns:
        The text, or None if it was printed.

    Example:
        >>> import weft
        >>> weft.print_environment_info(return_string=True).splitlines()[0].split(':')[0]
        'weft'
    """
    machine = system.uname()
    lines = [
        f"weft:   {sys.modules['weft'].__version__}",
        f"jax:    {_INTERFACE} (the interface that weft has)",
        f"numpy:  {np.__version__}",
        f"python: {sys.version}",
        f"device info: {devices()[0].device_kind}-{len(devices())}, {len(devices())} local devices",
        f"process_count: {process_count()}",
        f"platform: {machine.system} {machine.release} {machine.machine}",
    ]
    clients = dict.fromkeys([d.client for d in [*devices("cpu"), *devices()]])
    for client in clients:
        lines += [f"{name}: {told}" for name, told in client.about().items()]
    lines.append(f"disk cache: {_cache()}")
    text = "\n".join(lines)
    if return_string:
        return text
    print(text)
    return None
