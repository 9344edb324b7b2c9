"""Devices as a description, to compile programs for a machine without running them on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.sharding import AxisType, Mesh
from weft.experimental.mesh_utils import create_device_mesh
from weft.runtime.devices import default_backend, devices, topology

__all__ = ["TopologyDescription", "get_attached_topology", "get_topology_desc", "make_mesh"]


class TopologyDescription:
    """The devices of a machine."""

    def __init__(self, devices: Sequence[Any], machine: Any = None) -> None:
        """``machine`` is what compiles for devices that are not here."""
        self.devices, self.machine = list(devices), machine

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
    """The devices of a machine by its name, such as ``v5e:2x2``, which need not be here.

    Without a name they are those that are attached. The platform is that of a PJRT plugin, whose
    compiler makes programs for them: ``tpu`` unless another is named, from ``weft[tpu]``.

    >>> get_topology_desc(platform="cpu").devices[0].platform
    'cpu'
    """
    wanted = platform or "tpu"  # as in JAX
    if not topology_name and not options and wanted in {default_backend(), "cpu"}:
        return get_attached_topology(wanted)
    found = topology(topology_name, wanted, **options)
    return TopologyDescription(found.devices, found)


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
