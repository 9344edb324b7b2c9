"""Devices as a description, to compile programs for a machine without running them on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.sharding import AxisType, Mesh
from weft.experimental.mesh_utils import create_device_mesh
from weft.runtime.devices import default_backend, devices

__all__ = ["TopologyDescription", "get_attached_topology", "get_topology_desc", "make_mesh"]


class TopologyDescription:
    """The devices of a machine."""

    def __init__(self, devices: Sequence[Any]) -> None:
        self.devices = list(devices)

    def __repr__(self) -> str:
        return f"TopologyDescription({self.devices})"


def get_attached_topology(platform: str | None = None) -> TopologyDescription:
    """The devices of this process.

    >>> get_attached_topology("cpu").devices[0].platform
    'cpu'
    """
    return TopologyDescription(devices(platform))


def get_topology_desc(
    topology_name: str = "", platform: str | None = None, **options: Any
) -> TopologyDescription:
    """The devices of a platform; of those that are attached, as weft compiles for no others.

    >>> get_topology_desc(platform="cpu").devices[0].platform
    'cpu'
    """
    wanted = platform or "tpu"  # as in JAX
    if topology_name or options or wanted not in {default_backend(), "cpu"}:
        raise RuntimeError(
            f"weft knows attached devices only and cannot describe"
            f" {topology_name or wanted!r}; get_attached_topology() describes them"
        )
    return get_attached_topology(wanted)


def make_mesh(
    topo: TopologyDescription,
    mesh_shape: Sequence[int],
    axis_names: tuple[str, ...],
    *,
    contiguous_submeshes: bool = False,
) -> Mesh:
    """A mesh of the devices of a description.

    >>> from weft.experimental import topologies
    >>> here = topologies.get_attached_topology()
    >>> topologies.make_mesh(here, (len(here.devices),), ("x",)).axis_names
    ('x',)
    """
    grid = create_device_mesh(mesh_shape, topo.devices, contiguous_submeshes=contiguous_submeshes)
    return Mesh(grid, axis_names, axis_types=(AxisType.Auto,) * len(axis_names))
