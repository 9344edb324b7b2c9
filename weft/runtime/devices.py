"""The devices of all processes.

A device belongs to a client, which has its memory. Host devices, as many as the knob says, share
the memory of their process; other platforms come from the registry, with memory of their own.
"""

from __future__ import annotations

import os
import re
from typing import Any

from weft.base import knobs
from weft.base.record import Record
from weft.base.source import warn
from weft.core import processes
from weft.core.sharding import MEMORY_KINDS
from weft.runtime.client import Client, host
from weft.runtime.registry import CLIENTS, PLUGINS


class Elsewhere:
    """What another process has a device of: only its names are known here."""

    attributes: dict[str, Any] = {}
    joins_processes = False

    def __init__(self, like: Any, id: int = -1, process_index: int = 0) -> None:
        """``id`` is that of a plugin's device, which plugins number over all processes."""
        self.id, self.process_index = id, process_index
        self.platform, self.memory = like.platform, like.memory
        self.device_name, self.device_prefix = like.device_name, like.device_prefix
        self.device_kind = like.device_kind
        self.dlpack_device = like.dlpack_device

    def over(self, sharding: Any) -> Elsewhere:
        return self


class Memory(Record):
    """A kind of memory that a device reaches; on CPUs all kinds are the host's."""

    device: Any
    kind: str

    @property
    def platform(self) -> str:
        return self.device.platform

    @property
    def process_index(self) -> int:
        return self.device.process_index

    def addressable_by_devices(self) -> list[Any]:
        """The devices that reach it."""
        return [self.device]


class Device:
    """A place where arrays live and programs run, as ``weft.devices()`` lists them.

    Attributes: ``platform`` ("cpu", "gpu"), ``device_kind``, ``id``, ``process_index`` and
    ``client``.

    Example:
        >>> import weft
        >>> weft.devices("cpu")[0].id
        0
    """

    def __init__(
        self,
        id: int,
        client: Client | Elsewhere | None = None,
        process_index: int = 0,
        number: int = -1,
    ) -> None:
        """``client`` runs what is computed there; the host's devices have that of the knobs."""
        self.id = id
        self._client = client
        self.is_host = not client
        self.platform = client.platform if client else Client.platform
        self.device_kind = client.device_kind if client else Client.device_kind
        self.process_index = self.host_id = process_index
        self.local_hardware_id = id if number < 0 else number

    @property
    def client(self) -> Any:
        """Who runs what is computed there."""
        return self._client or host()

    def __repr__(self) -> str:
        return f"{self.client.device_name}(id={self.id})"

    def __str__(self) -> str:
        return f"{self.client.device_prefix}:{self.id}"

    def __lt__(self, other: Device) -> bool:
        return self.id < other.id

    def __getattr__(self, name: str) -> Any:
        """What a plugin tells of a device, as the ``coords`` of a TPU."""
        found = getattr(self.__dict__.get("_client"), "attributes", {})
        if name not in found:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return tuple(found[name]) if isinstance(found[name], list) else found[name]

    def memory_stats(self) -> dict[str, Any] | None:
        """Bytes of memory in use, at most so far, and in all, by JAX's names; None on the host."""
        return self.client.memory_stats()

    def addressable_memories(self) -> list[Memory]:
        """The kinds of memory that programs on this device reach."""
        return [Memory(self, kind) for kind in MEMORY_KINDS]

    def memory(self, kind: str) -> Memory:
        """The memory of a kind."""
        if kind not in MEMORY_KINDS:
            raise ValueError(
                f"{self} has no memory of kind {kind!r}; the kinds are {', '.join(MEMORY_KINDS)}"
            )
        return Memory(self, kind)

    def default_memory(self) -> Memory:
        """The memory that new arrays are in."""
        return Memory(self, MEMORY_KINDS[0])

    def __reduce__(self) -> Any:
        return _device, (self.id, self.platform)


def _device(id: int, platform: str = "cpu") -> Device:
    return next(d for d in devices(platform) if d.id == id)


# Platforms in the host's memory, those with memory of their own and the files that exist where they
# may be usable, and all by their other names. Any other platform is a plugin's.
_HOST = {"cpu", *(name for name, platform in CLIENTS.items() if platform.on_host)}
_APART = {name: platform.mark for name, platform in CLIENTS.items() if not platform.on_host}
_NAMES = {other: name for name, platform in CLIENTS.items() for other in platform.names}
_devices: list[Device] = []  # of the host
_others: dict[str, list[Device]] = {}  # by platform


def _refuse_late_change(count: int) -> None:
    if _devices and count != knobs.num_cpu_devices.value:
        raise RuntimeError(
            f"num_cpu_devices cannot become {count}: the devices are already in use; set it before"
            " the first computation, or in the environment: WEFT_NUM_CPU_DEVICES"
        )


knobs.num_cpu_devices.on_update.append(_refuse_late_change)


def _count() -> int:
    """How many devices the host is divided into: by the knob, else by JAX's flag for XLA."""
    count = knobs.num_cpu_devices.value
    if count is not None and count > 0:
        return int(count)
    flag = r"--xla_force_host_platform_device_count=(\d+)"
    found = re.findall(flag, os.environ.get("XLA_FLAGS", ""))
    return max(1, int(found[-1])) if found else 1


def host_devices() -> list[Device]:
    """All devices that hosts are divided into."""
    if not _devices:
        for process, count in enumerate(processes.counts or (_count(),)):
            first = len(_devices)
            _devices.extend(Device(first + i, None, process, i) for i in range(count))
    return list(_devices)


def devices(backend: str | None = None) -> list[Device]:
    """Return all devices of a platform, those of other processes too.

    Args:
        backend: Platform, such as "cpu" or "gpu"; by default the default one.

    Returns:
        List of ``Device``.

    Example:
        >>> devices("cpu")[0].platform
        'cpu'
    """
    name = default_backend() if backend is None else backend
    name = _NAMES.get(name, name)
    if name in _HOST:
        return host_devices()
    if (name in _APART or name in PLUGINS.names()) and name in _wanted(name):
        return list(_found(name))
    known = ", ".join(["cpu", *(p for p in _others if _others.get(p))])
    raise RuntimeError(
        f"Unknown backend {backend!r}: failed to initialize it; this machine has: {known}"
    )


def _wanted(known: str = "", named: str = "") -> list[str]:
    """The platforms that the knobs name, or what is asked for where they name none."""
    named = named or knobs.platforms.value or knobs.platform_name.value or known
    return [_NAMES.get(p.strip(), p.strip()) for p in named.split(",") if p.strip()]


def _found(platform: str) -> list[Device]:
    """The devices of a platform with memory of its own; RuntimeError where it can't be used."""
    if platform not in _others:
        try:
            plugin = _is_plugins(platform)
            clients = PLUGINS.clients(platform) if plugin else CLIENTS[platform].module.clients()
        except Exception as error:
            raise RuntimeError(f"the platform {platform!r} can't be used: {error}") from None
        _others[platform] = _of_all_processes(platform, clients)
    return _others[platform]


def _of_all_processes(platform: str, clients: list[Any]) -> list[Device]:
    """The devices of a platform: all that there are, or one for each of several processes."""
    if processes.count == 1:
        return [Device(i, client) for i, client in enumerate(clients)]
    if processes.platform != platform:
        raise RuntimeError(f"not every process has a device of the platform {platform!r}")
    if _is_plugins(platform):
        return [Device(c.id, c, c.process_index) for c in clients]
    own = clients[processes.place % len(clients)]
    every = [own if i == processes.index else Elsewhere(own) for i in range(processes.count)]
    return [Device(i, client, i) for i, client in enumerate(every)]


def _is_plugins(platform: str) -> bool:
    return platform not in _HOST and platform not in _APART


def _may_be_usable(platform: str) -> bool:
    return os.path.exists(_APART[platform])


def wanted_plugin() -> str | None:
    """The plugin whose devices are to be the default ones; None for other platforms."""
    chosen = knobs.thread.default_device
    if not isinstance(chosen, str):
        return None
    chosen = _NAMES.get(chosen, chosen)
    return chosen if _is_plugins(chosen) else None


def platform_of(name: str) -> str:
    """A platform by any of its names."""
    return _NAMES.get(name, name)


def choose_platform(named: str | None = None) -> None:
    """Make the devices of another platform the default where one is wanted, or may be there.

    A platform of the host's memory, such as ``reference``, becomes the backend that runs programs.
    """
    current = knobs.default_device.value
    if current == "cpu" or not isinstance(current, str | None):
        return
    wanted = _wanted(named=named or "")[:1]
    wanted = wanted or [*filter(_may_be_usable, _APART)]
    first = wanted[0] if wanted else "cpu"
    if first in _HOST and first != "cpu":
        knobs.config.update("backend", first)
    chosen = first if first not in _HOST and knobs.backend.value == "native" else None
    if chosen != knobs.default_device.value:
        knobs.config.update("default_device", chosen)


def _settle() -> str | None:
    """The platform of the default device, once it is known that it can be used."""
    chosen = knobs.thread.default_device
    if chosen is None or not isinstance(chosen, str):
        return None if chosen is None else chosen.platform
    chosen = _NAMES.get(chosen, chosen)
    if chosen in _HOST or chosen in _others:
        return chosen
    try:
        _found(chosen)
    except RuntimeError as error:
        if _wanted() or knobs.default_device.value != chosen:
            raise
        warn(f"{error}; arrays are on the CPU")
        knobs.config.update("default_device", None)
        return None
    return chosen


for _knob in (knobs.platforms, knobs.platform_name):
    _knob.on_update.append(choose_platform)
choose_platform()


def topology(name: str, platform: str = "tpu", **options: Any) -> Any:
    """A machine that need not be here, as ``v5e:2x2``: its devices, and a compiler for them."""
    return PLUGINS.topology(platform, name, options)


def described(device: Any) -> Any:
    """The machine that a described device is of; None for devices that are here."""
    return getattr(getattr(device, "_client", None), "topology", None)


def dlpack_client(kind: int, number: int) -> Any:
    """The client of a device as DLPack numbers it; BufferError where there is none."""
    plugins = [*filter(_is_plugins, _others)]
    here = [p for p in _APART if _others.get(p) or _may_be_usable(p)]
    for platform in [*plugins, *here]:
        for device in _found(platform):
            if device.client.dlpack_device == (kind, number):
                return device.client
    raise BufferError(f"from_dlpack: there is no device number {number} of kind {kind} here")


def host_device_count() -> int:
    """How many devices this process divides its host into."""
    return _count()


def are_in_use() -> bool:
    """Whether anybody has asked for devices."""
    return bool(_devices)


def forget() -> None:
    """Make the devices anew when they are next asked for: the processes have changed."""
    _devices.clear()
    _others.clear()


def local_devices(
    process_index: int | None = None, backend: str | None = None, host_id: int | None = None
) -> list[Device]:
    """Return the devices of one process, by default this one.

    Args:
        process_index: Number of the process.
        backend: Platform, such as "cpu" or "gpu"; by default the default one.
        host_id: Older name of ``process_index``.

    Returns:
        List of ``Device``.

    Example:
        >>> import weft
        >>> weft.local_devices(backend="cpu")[0].platform
        'cpu'
    """
    process_index = host_id if process_index is None else process_index
    if process_index is None:
        process_index = processes.index
    if not 0 <= process_index < processes.count:
        raise ValueError(
            f"unknown process_index {process_index}; the processes are numbered from 0 to"
            f" {processes.count - 1}"
        )
    return [d for d in devices(backend) if d.process_index == process_index]


def device_count(backend: str | None = None) -> int:
    """Return how many devices all processes have together.

    Args:
        backend: Platform, such as "cpu" or "gpu"; by default the default one.

    Returns:
        Python integer.

    Example:
        >>> import weft
        >>> weft.device_count() >= weft.local_device_count()
        True
    """
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """Return how many devices this process has.

    Args:
        backend: Platform, such as "cpu" or "gpu"; by default the default one.

    Returns:
        Python integer.

    Example:
        >>> import weft
        >>> weft.local_device_count("cpu") >= 1
        True
    """
    return len(local_devices(backend=backend))


def process_index(backend: str | None = None) -> int:
    """Return the number of this process among all; 0 for a single process.

    Args:
        backend: Platform, such as "cpu" or "gpu"; by default the default one.

    Returns:
        Python integer.

    Example:
        >>> import weft
        >>> weft.process_index() < weft.process_count()
        True
    """
    devices(backend)  # which knows the backends
    return processes.index


def process_count(backend: str | None = None) -> int:
    """Return how many processes take part; 1 unless ``weft.distributed`` is initialised.

    Args:
        backend: Platform, such as "cpu" or "gpu"; by default the default one.

    Returns:
        Python integer.

    Example:
        >>> import weft
        >>> weft.process_count() >= 1
        True
    """
    devices(backend)  # which knows the backends
    return processes.count


def process_indices(backend: str | None = None) -> list[int]:
    """Return the numbers of all processes.

    Args:
        backend: Platform, such as "cpu" or "gpu"; by default the default one.

    Returns:
        List of Python integers.

    Example:
        >>> import weft
        >>> len(weft.process_indices()) == weft.process_count()
        True
    """
    devices(backend)  # which knows the backends
    return list(range(processes.count))


def default_backend() -> str:
    """Return the platform that is used unless another one is named.

    Returns:
        "cpu" or "gpu".

    Example:
        >>> import weft
        >>> weft.default_backend() in ("cpu", "gpu")
        True
    """
    found = _settle()
    name = "cpu" if found is None else found
    return {platform: other for other, platform in _NAMES.items()}.get(name, name)


def default_device() -> Device:
    """The device on which uncommitted work runs."""
    chosen = knobs.default_device.value
    if isinstance(chosen, Device):
        return chosen
    return local_devices(backend=_settle())[0]
