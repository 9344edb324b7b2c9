"""The devices of this process: host CPUs, as many as the knob says."""

from __future__ import annotations

from typing import Any

from weft.base import knobs


class Client:
    """The backend a device belongs to."""

    def __init__(self, platform: str) -> None:
        self.platform = platform
        self.platform_version = "weft"
        self.runtime_type = "weft"

    def __repr__(self) -> str:
        return f"Client({self.platform})"


class Device:
    """A place where arrays live and programs run."""

    def __init__(self, id: int, client: Client) -> None:
        self.id = id
        self.client = client
        self.platform = client.platform
        self.device_kind = client.platform
        self.process_index = 0
        self.local_hardware_id = id
        self.host_id = 0

    def __repr__(self) -> str:
        return f"CpuDevice(id={self.id})"

    def __str__(self) -> str:
        return f"TFRT_{self.platform.upper()}_{self.id}"

    def __lt__(self, other: Device) -> bool:
        return self.id < other.id

    def memory_stats(self) -> dict[str, Any] | None:
        return None

    def addressable_memories(self) -> list[Any]:
        return []


_cpu = Client("cpu")
_devices: list[Device] = []


def _refuse_late_change(count: int) -> None:
    if _devices and count != knobs.num_cpu_devices.value:
        raise RuntimeError(
            f"num_cpu_devices cannot become {count}: the devices are in use already; set it before"
            " the first computation, or in the environment: WEFT_NUM_CPU_DEVICES"
        )


knobs.num_cpu_devices.on_update.append(_refuse_late_change)


def devices(backend: str | None = None) -> list[Device]:
    """All devices of a backend.

    >>> devices()[0].platform
    'cpu'
    """
    if not _devices:
        count = knobs.find("num_cpu_devices").value or 1
        _devices.extend(Device(i, _cpu) for i in range(max(1, int(count))))
    if backend not in (None, "cpu"):
        raise RuntimeError(
            f"Unknown backend {backend!r}: failed to initialize it; this machine has: cpu"
        )
    return list(_devices)


def local_devices(
    process_index: int | None = None, backend: str | None = None, host_id: int | None = None
) -> list[Device]:
    """The devices of one process, this one by default."""
    process_index = host_id if process_index is None else process_index
    if process_index not in (None, 0):
        raise ValueError(f"unknown process_index {process_index}; there is one process")
    return devices(backend)


def device_count(backend: str | None = None) -> int:
    """How many devices there are."""
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """How many devices this process has."""
    return len(devices(backend))


def process_index(backend: str | None = None) -> int:
    """The number of this process among all."""
    devices(backend)  # which knows the backends
    return 0


def process_count(backend: str | None = None) -> int:
    """How many processes take part."""
    devices(backend)  # which knows the backends
    return 1


def process_indices(backend: str | None = None) -> list[int]:
    """The numbers of all processes."""
    devices(backend)  # which knows the backends
    return [0]


def default_backend() -> str:
    """The platform that is used unless another is asked for."""
    return "cpu"


def default_device() -> Device:
    """The device on which uncommitted work runs."""
    chosen = knobs.default_device.value
    if isinstance(chosen, Device):
        return chosen
    return devices()[0]
