"""Shardings as plain data: meshes, partition specs, and where an array lives."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np


class AxisType(enum.Enum):
    """How a mesh axis is treated: by the compiler, in the types, or by hand."""

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


class PartitionSpec(tuple[Any, ...]):
    """How the dimensions of an array are divided over the axes of a mesh.

    >>> PartitionSpec('data', None)
    PartitionSpec('data', None)
    """

    UNCONSTRAINED = object()

    def __new__(
        cls, *partitions: Any, unreduced: Any = frozenset(), reduced: Any = frozenset()
    ) -> PartitionSpec:
        normal = (tuple(p) if isinstance(p, list) else p for p in partitions)
        return super().__new__(cls, normal)

    def __repr__(self) -> str:
        return f"PartitionSpec({', '.join(map(repr, self))})"

    def __reduce__(self) -> Any:
        return PartitionSpec, tuple(self)


class Mesh:
    """Devices arranged in a grid whose axes have names."""

    def __init__(
        self, devices: Any, axis_names: Any, axis_types: Sequence[AxisType] | None = None
    ) -> None:
        self.devices = np.asarray(devices, dtype=object)
        self.axis_names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        if self.devices.ndim != len(self.axis_names):
            raise ValueError(
                f"a mesh of {self.devices.ndim} dimensions needs as many axis names, got"
                f" {self.axis_names}"
            )
        if len(set(self.axis_names)) != len(self.axis_names):
            raise ValueError(f"mesh axis names must differ, got {self.axis_names}")
        self.axis_types = tuple(axis_types or (AxisType.Auto,) * self.devices.ndim)

    @property
    def shape(self) -> dict[Any, int]:
        return dict(zip(self.axis_names, self.devices.shape, strict=True))

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        return self.devices.shape

    @property
    def size(self) -> int:
        return prod(self.devices.shape)

    @property
    def empty(self) -> bool:
        return self.devices.ndim == 0

    @property
    def device_ids(self) -> np.ndarray:
        return np.vectorize(lambda d: d.id, otypes=[int])(self.devices)

    def _key(self) -> Any:
        return (self.axis_names, self.devices.shape, tuple(self.devices.flat), self.axis_types)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self.axis_names, self.devices.shape))

    def __repr__(self) -> str:
        axes = ", ".join(f"{n!r}: {s}" for n, s in self.shape.items())
        return f"Mesh({axes})"


class Sharding:
    """Where the elements of an array live."""

    @property
    def device_set(self) -> set[Any]:
        raise TypeError(f"{type(self).__name__} names no devices")

    @property
    def is_fully_replicated(self) -> bool:
        return True

    @property
    def is_fully_addressable(self) -> bool:
        return True

    @property
    def num_devices(self) -> int:
        return len(self.device_set)

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the part of an array that one device holds."""
        return tuple(global_shape)


class SingleDeviceSharding(Sharding):
    """All of an array on one device."""

    __slots__ = ("_device", "memory_kind")

    def __init__(self, device: Any, *, memory_kind: str | None = None) -> None:
        self._device = device
        self.memory_kind = memory_kind

    @property
    def device_set(self) -> set[Any]:
        return {self._device}

    def __eq__(self, other: object) -> bool:
        return type(other) is SingleDeviceSharding and other._device is self._device

    def __hash__(self) -> int:
        return hash((SingleDeviceSharding, id(self._device)))

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r})"


class NamedSharding(Sharding):
    """An array divided over a mesh as a partition spec says."""

    def __init__(self, mesh: Mesh, spec: PartitionSpec, *, memory_kind: str | None = None) -> None:
        self.mesh = mesh
        self.spec = spec
        self.memory_kind = memory_kind
        for name in self._names():
            if name not in mesh.shape:
                raise ValueError(
                    f"{spec} names axis {name!r}, but the mesh has axes {mesh.axis_names}"
                )

    def _names(self) -> list[Any]:
        names: list[Any] = []
        for part in self.spec:
            if part is None or part is PartitionSpec.UNCONSTRAINED:
                continue
            names.extend(part if isinstance(part, tuple) else (part,))
        return names

    @property
    def device_set(self) -> set[Any]:
        return set(self.mesh.devices.flat)

    @property
    def is_fully_replicated(self) -> bool:
        return all(self.mesh.shape[name] == 1 for name in self._names())

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        sizes = list(global_shape)
        for i, part in enumerate(self.spec):
            if part is None or part is PartitionSpec.UNCONSTRAINED:
                continue
            names = part if isinstance(part, tuple) else (part,)
            parts = prod(self.mesh.shape[n] for n in names)
            if sizes[i] % parts:
                raise ValueError(
                    f"dimension {i} of shape {tuple(global_shape)} cannot be divided into {parts}"
                    f" equal parts as {self.spec} asks"
                )
            sizes[i] //= parts
        return tuple(sizes)

    def __eq__(self, other: object) -> bool:
        return type(other) is NamedSharding and self.mesh == other.mesh and self.spec == other.spec

    def __hash__(self) -> int:
        return hash((self.mesh, tuple(self.spec)))

    def __repr__(self) -> str:
        return f"NamedSharding(mesh={self.mesh}, spec={self.spec})"


class UnspecifiedValue:
    """The mark of a sharding that was not given."""

    def __repr__(self) -> str:
        return "UnspecifiedValue"


UNSPECIFIED = UnspecifiedValue()
