"""Shardings: meshes of devices, partition specs, and where arrays live."""

import math

import numpy as np

from weft.api.placement import device_put
from weft.base import knobs as _knobs
from weft.core.array import Array as _Array
from weft.core.sharding import NO_AXES
from weft.core.sharding import AbstractDevice as AbstractDevice
from weft.core.sharding import AbstractMesh as AbstractMesh
from weft.core.sharding import AxisType as AxisType
from weft.core.sharding import ManualAxisType as ManualAxisType
from weft.core.sharding import Mesh as Mesh
from weft.core.sharding import NamedSharding as NamedSharding
from weft.core.sharding import PartitionSpec as PartitionSpec
from weft.core.sharding import Sharding as Sharding
from weft.core.sharding import SingleDeviceSharding as SingleDeviceSharding
from weft.numpy.creation import asarray
from weft.runtime.devices import devices as _devices
from weft.tree.functions import tree_map

__all__ = [
    "AbstractDevice", "AbstractMesh", "AxisType", "ManualAxisType", "Mesh", "NamedSharding",
    "PartitionSpec", "Sharding", "SingleDeviceSharding", "get_abstract_mesh", "get_mesh",
    "make_single_device_sharding", "reshard", "set_mesh", "use_abstract_mesh",
]  # fmt: skip

_NO_MESH = Mesh(np.empty((), object), ())


def make_single_device_sharding(device, *, memory_kind=None):
    """A sharding that puts all of an array on one device."""
    return SingleDeviceSharding(device, memory_kind=memory_kind)


def make_mesh(axis_shapes, axis_names, axis_types=None, *, devices=None):
    """A mesh of this shape over the first devices there are.

    >>> import weft
    >>> weft.make_mesh((1, 1), ('data', 'model')).shape
    {'data': 1, 'model': 1}
    """
    shape = tuple(axis_shapes)
    names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
    available = list(_devices() if devices is None else devices)
    needed = math.prod(shape)
    if needed > len(available):
        raise ValueError(
            f"a mesh of shape {shape} needs {needed} devices, there are {len(available)};"
            " WEFT_NUM_CPU_DEVICES sets how many the CPU is divided into"
        )
    grid = np.array(available[:needed], dtype=object).reshape(shape)
    return Mesh(grid, names, axis_types or (AxisType.Explicit,) * len(shape))


class _MeshScope:
    """A mesh that holds from now on, and until its ``with`` block ends."""

    def __init__(self, concrete, abstract):
        self._mesh = concrete
        self._setting = _knobs.mesh((concrete, abstract))
        self._setting.__enter__()

    def __enter__(self):
        return self._mesh

    def __exit__(self, *_):
        self._setting.__exit__()


def set_mesh(mesh):
    """Make a mesh the current one, from now on or for a ``with`` block.

    >>> import weft
    >>> with weft.set_mesh(weft.make_mesh((1,), 'x')):
    ...     weft.sharding.get_mesh().axis_names
    ('x',)
    """
    if not isinstance(mesh, Mesh):
        raise ValueError(f"set_mesh takes a Mesh, got {mesh!r}")
    return _MeshScope(mesh, mesh.abstract_mesh)


def use_abstract_mesh(mesh):
    """Make a mesh without devices the current one for a ``with`` block.

    >>> import weft
    >>> from weft.sharding import AbstractMesh, get_abstract_mesh, use_abstract_mesh
    >>> with use_abstract_mesh(AbstractMesh((8,), ('x',))):
    ...     get_abstract_mesh().size
    8
    """
    if not isinstance(mesh, AbstractMesh):
        raise ValueError(f"use_abstract_mesh takes an AbstractMesh, got {mesh!r}")
    current = _knobs.thread.mesh
    return _knobs.mesh((current and current[0], mesh))


def get_mesh():
    """The current mesh, with no axes if none is set.

    >>> import weft
    >>> weft.sharding.get_mesh().empty
    True
    """
    current = _knobs.thread.mesh
    return _NO_MESH if current is None or current[0] is None else current[0]


def get_abstract_mesh():
    """The current mesh without its devices.

    >>> import weft
    >>> weft.sharding.get_abstract_mesh()
    AbstractMesh((), axis_types=())
    """
    current = _knobs.thread.mesh
    return NO_AXES if current is None else current[1]


def reshard(xs, out_shardings):
    """A tree of arrays, placed as shardings say; a partition spec is of the current mesh.

    >>> import weft, weft.numpy as jnp
    >>> with weft.set_mesh(weft.make_mesh((1,), 'x')):
    ...     weft.reshard(jnp.ones(4), weft.P('x'))
    Array([1., 1., 1., 1.], dtype=float32)
    """

    def full(sharding):
        return NamedSharding(get_mesh(), sharding) if type(sharding) is PartitionSpec else sharding

    shardings = tree_map(full, out_shardings, is_leaf=lambda s: isinstance(s, PartitionSpec))
    return device_put(xs, shardings)


def make_array_from_callback(shape, sharding, data_callback, dtype=None):
    """An array whose parts a function gives: it is asked for one index of the whole at a time.

    >>> import weft, numpy as np
    >>> whole = np.arange(6.0).reshape(2, 3)
    >>> mesh = weft.make_mesh((1,), 'x')
    >>> weft.make_array_from_callback((2, 3), weft.NamedSharding(mesh, weft.P('x')),
    ...                               lambda index: whole[index]).shape
    (2, 3)
    """
    shape = tuple(shape)
    whole = None
    for index in sharding.addressable_devices_indices_map(shape).values():
        part = np.asarray(data_callback(index))
        if whole is None:
            whole = np.empty(shape, part.dtype if dtype is None else dtype)
        if part.shape != whole[index].shape:
            raise ValueError(
                f"data_callback gave an array of shape {part.shape} for the index {index}, which"
                f" has shape {whole[index].shape} in an array of shape {shape}"
            )
        whole[index] = part
    return device_put(asarray(whole), sharding)


def make_array_from_process_local_data(sharding, local_data, global_shape=None):
    """An array from the part of it that this process has; there is one process, so all of it.

    >>> import weft, numpy as np
    >>> sharding = weft.NamedSharding(weft.make_mesh((1,), 'x'), weft.P('x'))
    >>> weft.make_array_from_process_local_data(sharding, np.ones(3)).shape
    (3,)
    """

    def make(data):
        data = np.asarray(data)
        if global_shape is not None and tuple(global_shape) != data.shape:
            raise ValueError(
                f"one process holds all of an array of shape {tuple(global_shape)}; the local data"
                f" has shape {data.shape}"
            )
        return device_put(asarray(data), sharding)

    return tree_map(make, local_data)


def make_array_from_single_device_arrays(shape, sharding, arrays, *, dtype=None):
    """An array of the parts that devices hold, one array for each device of the sharding.

    >>> import weft, weft.numpy as jnp
    >>> sharding = weft.NamedSharding(weft.make_mesh((1,), 'x'), weft.P('x'))
    >>> weft.make_array_from_single_device_arrays((2,), sharding, [jnp.ones(2)])
    Array([1., 1.], dtype=float32)
    """
    indices = sharding.addressable_devices_indices_map(tuple(shape))
    if len(arrays) != len(indices):
        raise ValueError(f"{len(indices)} devices need as many arrays, got {len(arrays)}")
    if not all(isinstance(array, _Array) for array in arrays):
        raise TypeError(f"the parts must be arrays, got {[type(a).__name__ for a in arrays]}")
    parts = {str(index): array for index, array in zip(indices.values(), arrays, strict=True)}
    return make_array_from_callback(shape, sharding, lambda index: parts[str(index)], dtype)
