"""Shardings: meshes of devices, partition specs, and where arrays live."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from typing import overload as _overload

import numpy as np

from weft import dtypes as _dtypes
from weft.api.placement import check_fits as _check_fits
from weft.api.placement import current_mesh as _current_mesh
from weft.api.placement import device_put
from weft.api.placement import resharded as _resharded
from weft.api.placement import result_sharding as _result_sharding
from weft.base import knobs as _knobs
from weft.base.errors import UnexpectedTracerError as _UnexpectedTracerError
from weft.base.functional import wraps as _wraps
from weft.base.traceback import api_boundary as _api_boundary
from weft.core.array import Array as _Array
from weft.core.array import ArrayData as _ArrayData
from weft.core.avals import ShapedArray as _ShapedArray
from weft.core.interpret import storage_dtype as _storage_dtype
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
from weft.core.trace import Tracer as _Tracer
from weft.core.trace import typeof as _typeof
from weft.numpy.creation import asarray
from weft.prims.transfer import reshard_p as _reshard_p
from weft.runtime.array import box as _box
from weft.runtime.array import spanning as _spanning
from weft.runtime.devices import Device as _Device
from weft.runtime.devices import devices as _devices
from weft.runtime.places import placement as _placement
from weft.runtime.spanning import of_process as _of_process
from weft.tree.compare import broadcast_prefix as _broadcast_prefix
from weft.tree.functions import tree_flatten, tree_map, tree_unflatten

__all__ = [
    "AbstractDevice", "AbstractMesh", "AxisType", "ManualAxisType", "Mesh", "NamedSharding",
    "PartitionSpec", "Sharding", "SingleDeviceSharding", "auto_axes", "explicit_axes",
    "get_abstract_mesh", "get_mesh",
    "make_single_device_sharding", "reshard", "set_mesh", "use_abstract_mesh",
]  # fmt: skip

_NO_MESH = Mesh(np.empty((), object), ())

_T = TypeVar("_T")


def make_single_device_sharding(
    device: Any, *, memory_kind: str | None = None
) -> SingleDeviceSharding:
    """Return a sharding that puts all of an array on one device.

    Args:
        device: the device.
        memory_kind: the memory on the device. By default the device's own.

    Returns:
        A ``SingleDeviceSharding``.

    Example:
        >>> import weft
        >>> weft.sharding.make_single_device_sharding(weft.devices()[0]).num_devices
        1
    """
    return SingleDeviceSharding(device, memory_kind=memory_kind)


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Any,
    axis_types: Any = None,
    *,
    devices: Sequence[Any] | None = None,
) -> Mesh:
    """Return a mesh of devices with named axes.

    Args:
        axis_shapes: Size of each axis.
        axis_names: Name of each axis; a string for one axis.
        axis_types: An ``AxisType`` for each axis; explicit by default. The compiler divides over
            ``Auto`` axes, types show ``Explicit`` ones, ``shard_map`` makes ``Manual`` ones.
        devices: Devices to use, in row-major order; by default the first ones there are.

    Returns:
        A ``Mesh``.

    Example:
        >>> import weft
        >>> weft.make_mesh((1, 1), ('data', 'model')).shape
        {'data': 1, 'model': 1}
    """
    shape = tuple(axis_shapes)
    if not all(isinstance(n, (int, np.integer)) and n > 0 for n in shape):
        raise ValueError(f"make_mesh takes a shape of positive integers, got {axis_shapes!r}")
    names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
    available = list(_devices() if devices is None else devices)
    if not all(hasattr(device, "platform") for device in available):
        raise TypeError(f"make_mesh takes devices, as weft.devices() returns them, got {devices!r}")
    needed = math.prod(shape)
    if needed > len(available):
        raise ValueError(
            f"a mesh of shape {shape} needs {needed} devices, there are {len(available)};"
            " WEFT_NUM_CPU_DEVICES sets the number of CPU devices"
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


def set_mesh(mesh: Any) -> _MeshScope:
    """Make a mesh the current one, from now on or for a ``with`` block.

    Args:
        mesh: the mesh; None for none.

    Returns:
        A context manager, whose end restores the mesh before.

    Example:
        >>> import weft
        >>> with weft.set_mesh(weft.make_mesh((1,), 'x')):
        ...     weft.sharding.get_mesh().axis_names
        ('x',)
    """
    if mesh is None:
        mesh = _NO_MESH
    if not isinstance(mesh, Mesh):
        raise ValueError(f"set_mesh takes a Mesh or None, got {mesh!r}")
    return _MeshScope(mesh, mesh.abstract_mesh)


def use_abstract_mesh(mesh: AbstractMesh) -> Any:
    """Make a mesh without devices the current one for a ``with`` block.

    Args:
        mesh: the mesh.

    Returns:
        A context manager.

    Example:
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


def get_mesh() -> Mesh:
    """Return the current mesh, with no axes if none is set.

    Returns:
        The mesh.

    Example:
        >>> import weft
        >>> weft.sharding.get_mesh().empty
        True
    """
    current = _knobs.thread.mesh
    return _NO_MESH if current is None or current[0] is None else current[0]


def get_abstract_mesh() -> AbstractMesh:
    """Return the current mesh without its devices.

    Returns:
        The mesh, with no axes if none is set.

    Example:
        >>> import weft
        >>> weft.sharding.get_abstract_mesh()
        AbstractMesh((), axis_types=())
    """
    current = _knobs.thread.mesh
    return NO_AXES if current is None else current[1]


@_api_boundary
def reshard(xs: _T, out_shardings: Any) -> _T:
    """Return a tree of arrays, divided over explicit mesh axes.

    Args:
        xs: the arrays.
        out_shardings: how they are divided: shardings, or partition specs over the current mesh, as
            a tree that may be a prefix.

    Returns:
        The arrays.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> with weft.set_mesh(weft.make_mesh((1,), 'x')):
        ...     weft.typeof(weft.reshard(jnp.ones(4), weft.P('x')))
        ShapedArray(float32[4@x])
    """
    leaves, tree = tree_flatten(xs)
    try:
        wanted = _broadcast_prefix(out_shardings, xs, is_leaf=_is_sharding)
    except ValueError as error:
        raise ValueError(f"the shardings of reshard do not fit its argument: {error}") from None
    return tree_unflatten(tree, [_moved(x, s) for x, s in zip(leaves, wanted, strict=True)])


def _is_sharding(x):
    return x is None or isinstance(x, (Sharding, PartitionSpec))


def _moved(x, sharding):
    if sharding is None:
        raise ValueError("reshard needs a sharding, got None")
    where = _result_sharding(sharding, "reshard", same_mesh=False)
    if where is None:
        raise ValueError(f"reshard needs a mesh with axes, got {sharding}")
    return _resharded(x, where)


def auto_axes(f: Any = None, /, *, axes: Any = None, out_sharding: Any = None) -> Any:
    """Return a function with some explicit axes of the current mesh left to the compiler.

    Inside, types say nothing of these axes, and the compiler finds how values are divided.

    Args:
        f: the function. Without it the result is a decorator.
        axes: the names of the axes; all explicit ones by default.
        out_sharding: how the results are divided. It can be given in the call instead.

    Returns:
        A function of the same arguments.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> with weft.set_mesh(weft.make_mesh((1,), 'x')):
        ...     x = weft.reshard(jnp.arange(4.0), weft.P('x'))
        ...     f = auto_axes(lambda x: x[::-1] + x, out_sharding=weft.P('x'))
        ...     weft.typeof(f(x))
        ShapedArray(float32[4@x])
    """
    if f is None:
        return lambda g: auto_axes(g, axes=axes, out_sharding=out_sharding)

    @_wraps(f)
    @_api_boundary
    def automatic(*args, **kwargs):
        wanted = kwargs.pop("out_sharding", None) if out_sharding is None else out_sharding
        if wanted is None:
            raise TypeError("auto_axes needs the sharding of the results; pass out_sharding")
        changed = _with_types(axes, AxisType.Auto, "auto_axes", wanted)
        if changed is None:
            return f(*args, **kwargs)
        with _knobs.mesh(changed):
            out = f(*tree_map(lambda x: _cast(x, changed), args), **kwargs)
        return reshard(out, wanted)

    return automatic


def explicit_axes(f: Any = None, /, *, axes: Any = None, in_sharding: Any = None) -> Any:
    """Return a function with types that say how values are divided over axes of the current mesh.

    Args:
        f: the function. Without it the result is a decorator.
        axes: the names of the axes; all by default.
        in_sharding: how the arguments are divided. It can be given in the call instead.

    Returns:
        A function of the same arguments.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft.sharding import AxisType
        >>> def f(x):
        ...     print(weft.typeof(x))
        ...     return x * 2
        >>> mesh = weft.make_mesh((1,), 'x', axis_types=(AxisType.Auto,))
        >>> with weft.set_mesh(mesh):
        ...     y = explicit_axes(f, in_sharding=weft.P('x'))(jnp.ones(4))
        float32[4@x]
    """
    if f is None:
        return lambda g: explicit_axes(g, axes=axes, in_sharding=in_sharding)

    @_wraps(f)
    @_api_boundary
    def explicit(*args, **kwargs):
        wanted = kwargs.pop("in_sharding", None) if in_sharding is None else in_sharding
        if wanted is None:
            raise TypeError("explicit_axes needs the sharding of the arguments; pass in_sharding")
        if get_abstract_mesh().empty:
            raise ValueError("explicit_axes needs a mesh: set one with weft.set_mesh(mesh)")
        before = _knobs.thread.mesh
        changed = _with_types(axes, AxisType.Explicit, "explicit_axes") or before
        with _knobs.mesh(changed):
            out = f(*reshard(args, wanted), **kwargs)
        return tree_map(lambda x: _cast(x, before), out)

    return explicit


def _with_types(axes, kind, name, shardings=None):
    """The current meshes with axes of another type; None where nothing would change."""
    concrete, abstract = _knobs.thread.mesh or (None, NO_AXES)
    if abstract.empty and shardings is not None:  # the mesh of what the results are said to be
        leaves = tree_flatten(shardings, is_leaf=_is_sharding)[0]
        given = [s.mesh for s in leaves if isinstance(s, NamedSharding)]
        if given:
            concrete = given[0] if isinstance(given[0], Mesh) else None
            abstract = given[0].abstract_mesh
    if abstract.empty:
        return None
    wanted = abstract.axis_names if axes is None else axes
    wanted = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    unknown = [axis for axis in wanted if axis not in abstract.axis_names]
    if unknown:
        raise ValueError(
            f"{name} got the axes {wanted}, and the mesh has the axes {abstract.axis_names}"
        )
    types = dict(zip(abstract.axis_names, abstract.axis_types, strict=True))
    if any(types[axis] is AxisType.Manual for axis in wanted):
        raise NotImplementedError(
            f"{name} cannot change the manual axes of shard_map: {wanted} of {abstract}"
        )
    if all(types[axis] is kind for axis in wanted):
        return None
    changed = tuple(kind if axis in wanted else t for axis, t in types.items())
    placed = None if concrete is None else concrete.update(axis_types=changed)
    return placed, abstract.update(axis_types=changed)


def _cast(x, meshes):
    """A value where it is, on a mesh whose axes have other types."""
    aval = _typeof(x)
    if not isinstance(aval, _ShapedArray):
        return x
    mesh = meshes[1] if meshes[0] is None else meshes[0]
    own = getattr(x, "sharding", None)
    known = isinstance(own, NamedSharding) and set(own.spec.names()) <= set(mesh.axis_names)
    spec = own.spec if known else aval.sharding.spec
    return _reshard_p.bind(x, dst_sharding=NamedSharding(mesh, spec))


def make_array_from_callback(
    shape: Sequence[int], sharding: Any, data_callback: Callable[..., Any], dtype: Any = None
) -> _Array:
    """Return an array whose parts a function provides, one for each device.

    Args:
        shape: Shape of the whole array.
        sharding: How it is divided.
        data_callback: Function of an index of the whole array (a tuple of slices) that returns that
            part.
        dtype: Dtype of the array; needed only if this process has no part of it.

    Returns:
        Array of shape ``shape``. Each process provides its own parts only.

    Example:
        >>> import weft, numpy as np
        >>> whole = np.arange(6.0).reshape(2, 3)
        >>> mesh = weft.make_mesh((1,), 'x')
        >>> weft.make_array_from_callback((2, 3), weft.NamedSharding(mesh, weft.P('x')),
        ...                               lambda index: whole[index]).shape
        (2, 3)
    """
    return _assembled("make_array_from_callback", shape, sharding, data_callback, dtype)


def _assembled(name, shape, sharding, data_callback, dtype):
    """An array of parts, which may be random keys; NumPy's are cut to the dtypes of arrays."""
    shape = tuple(shape)
    if not isinstance(sharding, Sharding):
        raise TypeError(
            f"{name} takes a sharding, got {sharding!r} of type {type(sharding).__name__}; write"
            " NamedSharding(mesh, P('x'))"
        )
    _check_fits(sharding, shape, name)
    spans = not sharding.is_fully_addressable
    whole = found = None
    asked = {}  # a part that several devices hold is asked for once
    for index in sharding.addressable_devices_indices_map(shape).values():
        key = str(index)
        if key in asked:
            continue
        part = data_callback(index)
        if isinstance(part, _Tracer):
            raise _UnexpectedTracerError(
                f"{name} needs concrete values, but one of its parts is a traced array of type"
                f" {part.aval.str_short()}; call it outside of jit and other transformations"
            )
        if isinstance(part, _Array):
            kind, part = part.dtype, part._value
        else:
            part = np.asarray(part)
            kind = _dtypes.canonicalize_dtype(part.dtype)
        found = kind if found is None else found
        if kind != found or (dtype is not None and kind != dtype):
            raise ValueError(
                f"{name} has a part of dtype {kind} for an array of dtype"
                f" {found if dtype is None else np.dtype(dtype)}; convert the parts"
            )
        wanted = sharding.shard_shape(shape)
        if part.shape != wanted:
            raise ValueError(
                f"data_callback gave an array of shape {part.shape} for the index {index}, which"
                f" has shape {wanted} in an array of shape {shape}"
            )
        asked[key] = part.astype(_storage_dtype(kind), copy=False)
        if spans:
            continue
        if whole is None:
            whole = np.empty(shape, _storage_dtype(kind))
        whole[index] = part
    if not spans:
        return device_put(_box(whole, _ShapedArray(shape, found)), sharding)
    if found is None:
        if dtype is None:
            raise ValueError(f"{name}: this process has no device of the sharding; pass dtype=")
        found = _dtypes.canonicalize_dtype(dtype)
    rows = np.empty((len(asked), *sharding.shard_shape(shape)), _storage_dtype(found))
    for i, part in enumerate(asked.values()):
        rows[i, ...] = part
    return _spanning(rows, _ShapedArray(shape, found), _placement(sharding, True))


@_overload
def make_array_from_process_local_data(
    sharding: Any, local_data: _ArrayData, global_shape: Sequence[int] | None = None
) -> _Array: ...
@_overload
def make_array_from_process_local_data(
    sharding: Any, local_data: _T, global_shape: Sequence[int] | None = None
) -> _T: ...
def make_array_from_process_local_data(
    sharding: Any, local_data: Any, global_shape: Sequence[int] | None = None
) -> Any:
    """Return an array made from the part of it that each process has, such as its rows of a batch.

    Args:
        sharding: How the whole array is divided: a sharding, a partition spec of the current mesh,
            or a device.
        local_data: NumPy array, or tree of them, with this process's part.
        global_shape: Shape of the whole array, or a tree of shapes; by default dimensions that are
            divided over processes are as much longer.

    Returns:
        Array, or tree of arrays.

    Example:
        >>> import weft, numpy as np
        >>> sharding = weft.NamedSharding(weft.make_mesh((1,), 'x'), weft.P('x'))
        >>> weft.make_array_from_process_local_data(sharding, np.ones(3)).shape
        (3,)
    """
    if isinstance(sharding, _Device):
        sharding = SingleDeviceSharding(sharding)
    elif isinstance(sharding, PartitionSpec):
        sharding = NamedSharding(_current_mesh(), sharding)

    def make(data, shape):
        if not sharding.is_fully_addressable:
            return _of_process(np.asarray(data), sharding, shape)
        data = asarray(data)
        if shape is not None and tuple(shape) != data.shape:
            raise ValueError(
                f"a single process holds the whole array, of shape {tuple(shape)}, but the local "
                f"data has shape {data.shape}"
            )
        return device_put(data, sharding)

    leaves, tree = tree_flatten(local_data)
    shapes = [global_shape] * len(leaves)
    if global_shape is not None and not _is_shape(global_shape):
        shapes, shapes_tree = tree_flatten(global_shape, is_leaf=_is_shape)
        if shapes_tree != tree:
            raise ValueError(
                f"the local data has the structure {tree}, but the shapes have {shapes_tree}"
            )
    return tree_unflatten(tree, [make(*row) for row in zip(leaves, shapes, strict=True)])


def _is_shape(x):
    sizes = isinstance(x, (tuple, list)) and all(isinstance(n, (int, np.integer)) for n in x)
    return x is None or sizes


def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Any, arrays: Sequence[_Array], *, dtype: Any = None
) -> _Array:
    """Return an array made from arrays that devices already hold.

    Args:
        shape: Shape of the whole array.
        sharding: How it is divided.
        arrays: List with one array on each device of the sharding that this process has, in any
            order.
        dtype: Dtype of the array; needed only if this process has no part of it.

    Returns:
        Array of shape ``shape``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> sharding = weft.NamedSharding(weft.make_mesh((1,), 'x'), weft.P('x'))
        >>> weft.make_array_from_single_device_arrays((2,), sharding, [jnp.ones(2)])
        Array([1., 1.], dtype=float32)
    """
    name = "make_array_from_single_device_arrays"
    if not isinstance(arrays, (list, tuple)):
        raise TypeError(f"{name} takes a list of arrays, got {type(arrays).__name__}")
    if any(isinstance(array, _Tracer) for array in arrays):
        raise ValueError(
            f"{name} takes arrays with values, and one of them is traced; call it outside of jit"
            " and other transformations"
        )
    _check_fits(sharding, tuple(shape), name)
    indices = sharding.addressable_devices_indices_map(tuple(shape))
    if len(arrays) != len(indices):
        raise ValueError(f"{len(indices)} devices need one array each, got {len(arrays)}")
    if not all(isinstance(array, _Array) for array in arrays):
        raise TypeError(f"the parts must be arrays, got {[type(a).__name__ for a in arrays]}")
    parts = {}
    for array in arrays:
        (device, *others) = array.devices()
        if others or device in parts or device not in indices:
            ids = [sorted(d.id for d in a.devices()) for a in arrays]
            raise ValueError(
                f"{name} takes one array on each device of the sharding, got arrays on the devices"
                f" {ids}; put each part on its device with device_put"
            )
        parts[device] = array
    part_shape = sharding.shard_shape(tuple(shape))
    wrong = [a.shape for a in arrays if a.shape != part_shape]
    if wrong:
        raise ValueError(
            f"{name} got a part of shape {wrong[0]}; the parts of an array of shape {tuple(shape)}"
            f" by {sharding} have shape {part_shape}"
        )
    by_index: dict[str, Any] = {}
    for device, index in indices.items():
        by_index.setdefault(str(index), parts[device])
    return _assembled(name, shape, sharding, lambda index: by_index[str(index)], dtype)
