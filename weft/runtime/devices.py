"""The devices of all processes, and the memory that arrays on them own.

A device belongs to a client, which has its memory. Host devices, as many as the knob says, share
the memory of their process.
"""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np

from weft.base import knobs
from weft.core import processes


class HostMemory:
    """Memory of the process: what arrays on host devices own are NumPy arrays and native blocks.

    A client with memory of its own says the same four things of it.
    """

    is_host = True

    @staticmethod
    def alloc(size: int) -> Any:
        """An owner of fresh memory."""
        return np.empty(size, np.uint8)

    @staticmethod
    def free(owner: Any) -> None:
        """Give memory back at once; on the host that happens when the last reference goes."""

    @staticmethod
    def copy_in(owner: Any, value: np.ndarray) -> None:
        """Copy values from the host."""
        np.frombuffer(owner, np.uint8)[:] = np.frombuffer(value, np.uint8)

    @staticmethod
    def copy_out(owner: Any, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
        """The values on the host: here a view, elsewhere a copy."""
        return np.frombuffer(owner, dtype).reshape(shape)


class Client:
    """The backend a device belongs to, and its memory."""

    def __init__(self, platform: str, memory: Any) -> None:
        self.platform = platform
        self.memory = memory
        self.platform_version = "weft"
        self.runtime_type = "weft"

    def __repr__(self) -> str:
        return f"Client({self.platform})"


class Device:
    """A place where arrays live and programs run."""

    def __init__(self, id: int, client: Client, process_index: int = 0, number: int = -1) -> None:
        self.id = id
        self.client = client
        self.platform = client.platform
        self.device_kind = client.platform
        self.process_index = self.host_id = process_index
        self.local_hardware_id = id if number < 0 else number

    def __repr__(self) -> str:
        return f"CpuDevice(id={self.id})"

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"

    def __lt__(self, other: Device) -> bool:
        return self.id < other.id

    def memory_stats(self) -> dict[str, Any] | None:
        return None

    def addressable_memories(self) -> list[Any]:
        return []

    def __reduce__(self) -> Any:
        return _device, (self.id,)


def _device(id: int) -> Device:
    return next(d for d in devices() if d.id == id)


_cpu = Client("cpu", HostMemory)
_devices: list[Device] = []


def _refuse_late_change(count: int) -> None:
    if _devices and count != knobs.num_cpu_devices.value:
        raise RuntimeError(
            f"num_cpu_devices cannot become {count}: the devices are in use already; set it before"
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


def devices(backend: str | None = None) -> list[Device]:
    """All devices of a backend.

    >>> devices()[0].platform
    'cpu'
    """
    if not _devices:
        for process, count in enumerate(processes.counts or (_count(),)):
            first = len(_devices)
            _devices.extend(Device(first + i, _cpu, process, i) for i in range(count))
    if backend not in (None, "cpu"):
        raise RuntimeError(
            f"Unknown backend {backend!r}: failed to initialize it; this machine has: cpu"
        )
    return list(_devices)


def host_device_count() -> int:
    """How many devices this process divides its host into."""
    return _count()


def are_in_use() -> bool:
    """Whether anybody has asked for devices."""
    return bool(_devices)


def forget() -> None:
    """Make the devices anew when they are next asked for: the processes have changed."""
    _devices.clear()


def local_devices(
    process_index: int | None = None, backend: str | None = None, host_id: int | None = None
) -> list[Device]:
    """The devices of one process, this one by default."""
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
    """How many devices all processes have."""
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """How many devices this process has."""
    return len(local_devices(backend=backend))


def process_index(backend: str | None = None) -> int:
    """The number of this process among all."""
    devices(backend)  # which knows the backends
    return processes.index


def process_count(backend: str | None = None) -> int:
    """How many processes take part."""
    devices(backend)  # which knows the backends
    return processes.count


def process_indices(backend: str | None = None) -> list[int]:
    """The numbers of all processes."""
    devices(backend)  # which knows the backends
    return list(range(processes.count))


def default_backend() -> str:
    """The platform that is used unless another is asked for."""
    return "cpu"


def default_device() -> Device:
    """The device on which uncommitted work runs."""
    chosen = knobs.default_device.value
    if isinstance(chosen, Device):
        return chosen
    return local_devices()[0]
