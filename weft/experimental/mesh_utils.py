"""Arrangements of devices for meshes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.runtime.devices import devices as _devices

__all__ = ["create_device_mesh", "create_hybrid_device_mesh", "device_kind_handler_dict"]

# A device kind, and the function that arranges devices of that kind; CPUs need none.
device_kind_handler_dict: dict = {}


def create_device_mesh(
    mesh_shape: Sequence[int],
    devices: Any = None,
    *,
    contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:
    """Return devices as an array of a given shape, to make a mesh of.

    Args:
        mesh_shape: the shape; its product is the number of devices.
        devices: the devices; all by default.
        contiguous_submeshes: accepted for JAX, no effect.
        allow_split_physical_axes: accepted for JAX, no effect.

    Returns:
        An array of devices.

    Example:
        >>> from weft.experimental.mesh_utils import create_device_mesh
        >>> create_device_mesh((1, 1)).shape
        (1, 1)
    """
    available = list(_devices() if devices is None else devices)
    if math.prod(mesh_shape) != len(available):
        raise ValueError(
            f"a mesh of shape {tuple(mesh_shape)} takes {math.prod(mesh_shape)} devices, there are"
            f" {len(available)}"
        )
    handler = device_kind_handler_dict.get(available[-1].device_kind)
    if handler is not None:
        found = handler(mesh_shape, available, contiguous_submeshes=contiguous_submeshes)
        if found is not None:
            return found
    return np.array(available, dtype=object).reshape(tuple(mesh_shape))


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int],
    dcn_mesh_shape: Sequence[int],
    devices: Any = None,
    *,
    process_is_granule: bool = False,
    should_sort_granules_by_key: bool = True,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:
    """Return devices as an array: slow links between groups of them, fast ones within a group.

    A group is a process, or where the devices say so a slice of the machine.

    Args:
        mesh_shape: the shape of the devices of a group.
        dcn_mesh_shape: the shape of the groups.
        devices: the devices; all by default.
        process_is_granule: take each process as a group.
        should_sort_granules_by_key: order groups by their number.
        allow_split_physical_axes: accepted for JAX, no effect.

    Returns:
        An array of devices, of the product of both shapes.

    Example:
        >>> from weft.experimental.mesh_utils import create_hybrid_device_mesh
        >>> create_hybrid_device_mesh((1, 1), (1, 1)).shape
        (1, 1)
    """
    available = list(_devices() if devices is None else devices)
    attribute = "process_index" if process_is_granule else "slice_index"
    groups: dict = {}
    for device in available:
        groups.setdefault(getattr(device, attribute, device.process_index), []).append(device)
    keys = sorted(groups) if should_sort_granules_by_key else list(groups)
    if math.prod(dcn_mesh_shape) != len(keys):
        raise ValueError(
            f"dcn_mesh_shape {tuple(dcn_mesh_shape)} takes {math.prod(dcn_mesh_shape)} groups of"
            f" devices, there are {len(keys)}"
        )
    blocks = np.empty(len(keys), dtype=object)
    for i, key in enumerate(keys):
        blocks[i] = create_device_mesh(
            mesh_shape, groups[key], allow_split_physical_axes=allow_split_physical_axes
        )
    return np.block(blocks.reshape(tuple(dcn_mesh_shape)).tolist())
