"""The devices of this process, and the memory that arrays on them own.

A device belongs to a client, which has its memory. Host devices, as many as the knob says, share
the memory of the process.
"""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np

from weft.base import knobs


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
        return f"{self.platform}:{self.id}"

    def __lt__(self, other: Device) -> bool:
        return self.id < other.id

    def memory_stats(self) -> dict[str, Any] | None:
        return None

    def addressable_memories(self) -> list[Any]:
        return []


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
        _devices.extend(Device(i, _cpu) for i in range(_count()))
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
