"""Shardings as plain data: meshes, partition specs, and where an array lives."""

from __future__ import annotations

import enum
import threading
from collections.abc import Sequence
from functools import partial, wraps
from math import prod
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from weft.base import knobs
from weft.base.forks import across_forks
from weft.base.functional import kept_property
from weft.core import processes


class AxisType(enum.Enum):
    """How a mesh axis is treated: by the compiler, in the types, or by hand.

    >>> import weft
    >>> list(weft.sharding.AxisType)
    [Auto, Explicit, Manual]
    """

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


# Whether there has been a mesh with explicit axes: without any, types carry no shardings. And
# whether a spec has left a sum to be made, over axes that it calls unreduced, or reduced. And
# whether a type has named the mesh of its arrays.
explicit_ones = False
named_ones = False
sums_left = False


def _note(axis_types: Any) -> None:
    global explicit_ones
    explicit_ones = explicit_ones or AxisType.Explicit in axis_types


class IndivisibleError(ValueError):
    """A dimension that cannot be cut into equal parts."""


class DuplicateSpecError(Exception):
    """A mesh axis that a spec names for two dimensions."""


class ShardingTypeError(Exception):
    """An operation on arrays whose types do not say how its result is divided."""


class Unconstrained:
    """The mark of a dimension that the compiler may divide as it likes."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "UNCONSTRAINED"


UNCONSTRAINED = Unconstrained()


class PartitionSpec(tuple[Any, ...]):
    """How the dimensions of an array are divided over the axes of a mesh.

    A dimension is whole (None), divided over one axis, or over several together, outermost first.

    Args:
        *partitions: for each dimension None (whole), the name of an axis, or a tuple of names,
            outermost first.
        unreduced: the axes over which the values are parts of a sum.
        reduced: the axes over which gradients are parts of a sum.

    Example:
        >>> PartitionSpec('data', None)
        P('data', None)
    """

    unreduced: frozenset[Any]
    reduced: frozenset[Any]

    UNCONSTRAINED = UNCONSTRAINED

    def __new__(
        cls, *partitions: Any, unreduced: Any = frozenset(), reduced: Any = frozenset()
    ) -> PartitionSpec:
        parts = tuple([_canonical(p) for p in partitions])
        if unreduced or reduced:
            _check_sets(unreduced=unreduced, reduced=reduced)
        plain = all(_is_plain(p) for p in (*parts, *unreduced, *reduced))
        key = (parts, frozenset(unreduced), frozenset(reduced)) if plain else None
        found = _specs.get(key)
        if found is not None:
            return found
        spec = super().__new__(cls, parts)
        spec.unreduced, spec.reduced = frozenset(unreduced), frozenset(reduced)
        if unreduced or reduced:
            _check_marks(spec)
        if key is None:
            return spec
        if len(_specs) >= MAX_SPECS:
            _specs.clear()
        return _specs.setdefault(key, spec)

    def __init_subclass__(cls) -> None:
        raise TypeError("PartitionSpec has no subclasses; write a function that makes one")

    def __repr__(self) -> str:
        text = repr(tuple(self))
        for name, axes in (("unreduced", self.unreduced), ("reduced", self.reduced)):
            if axes:
                listed = f"{name}={{{', '.join(sorted(map(repr, axes)))}}}"
                gap = "" if text == "()" else " " if text[-2] == "," else ", "
                text = f"{text[:-1]}{gap}{listed})"
        return f"P{text}"

    @property
    def partitions(self) -> tuple[Any, ...]:
        return tuple(self)

    def names(self) -> list[Any]:
        """The mesh axes that it names, in order."""
        return [name for part in self for name in axes_of(part)]

    def update(self, **changes: Any) -> PartitionSpec:
        """The spec with other partitions.

        >>> PartitionSpec('data').update(partitions=(None, 'data'))
        P(None, 'data')
        """
        marks = {k: changes.get(k, getattr(self, k)) for k in ("unreduced", "reduced")}
        return PartitionSpec(*changes.get("partitions", self), **marks)

    def marks(self) -> dict[str, frozenset[Any]]:
        """Over which axes arrays are parts of sums, and over which their gradients are."""
        return {"unreduced": self.unreduced, "reduced": self.reduced}

    def __add__(self, other: Any) -> Any:
        """The dimensions of both.

        >>> PartitionSpec('data') + (None,)
        P('data', None)
        """
        marks = other if isinstance(other, PartitionSpec) else PartitionSpec()
        return PartitionSpec(
            *tuple(self),
            *other,
            unreduced=self.unreduced | marks.unreduced,
            reduced=self.reduced | marks.reduced,
        )

    def __radd__(self, other: Any) -> Any:
        return self.update(partitions=(*other, *self))

    def _key(self) -> Any:
        return tuple(self), self.unreduced, self.reduced

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSpec) and self._key() == other._key()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> Any:
        return _spec, self._key()


# Equal specs are one object, as in JAX. Dropping the table is safe: specs compare by their parts.
MAX_SPECS = 1 << 12
_specs: dict[Any, PartitionSpec] = {}


def _is_plain(part: Any) -> bool:
    """Whether a part is one of the usual: numbers as names of axes would compare across types."""
    if part is None or type(part) is str or part is UNCONSTRAINED:
        return True
    return type(part) is tuple and all(type(axis) is str for axis in part)


def _spec(partitions: Any, unreduced: Any, reduced: Any) -> PartitionSpec:
    return PartitionSpec(*partitions, unreduced=unreduced, reduced=reduced)


def check_rank(spec: PartitionSpec, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless arrays of a shape have a dimension for each that a spec divides."""
    if len(spec) > len(shape):
        raise ValueError(
            f"{spec} has entries for {len(spec)} dimensions, but an array of shape"
            f" {tuple(shape)} has {len(shape)}"
        )


def _canonical(part: Any) -> Any:
    """One dimension of a spec: an axis alone for a tuple of one, None for an empty one."""
    if isinstance(part, PartitionSpec) or not isinstance(part, (tuple, list)):
        return part
    if any(isinstance(axis, (tuple, list)) for axis in part):
        raise ValueError(
            f"a dimension is sharded over one axis or a tuple of axes, got {part!r}, which has a"
            " tuple inside; name all axes in one tuple"
        )
    return None if not part else part[0] if len(part) == 1 else tuple(part)


def _check_sets(**marks: Any) -> None:
    for name, axes in marks.items():
        if not isinstance(axes, (set, frozenset)):
            raise TypeError(f"{name} is a set of axes, got {axes!r} of type {type(axes).__name__}")
        if None in axes:
            raise ValueError(f"{name} names mesh axes, and None isn't one: {axes}")


def _check_marks(spec: PartitionSpec) -> None:
    twice = [n for n in spec.names() if n in spec.unreduced | spec.reduced]
    twice += spec.unreduced & spec.reduced
    if twice:
        raise ValueError(
            f"{spec} uses the axis {twice[0]!r} twice: an axis shards a dimension, or is "
            "unreduced, or reduced"
        )


def axes_of(part: Any) -> tuple[Any, ...]:
    """The mesh axes of one dimension of a spec."""
    if part is None or part is UNCONSTRAINED:
        return ()
    return part if isinstance(part, tuple) else (part,)


class AbstractDevice:
    """A kind of device, without saying which one.

    Args:
        device_kind: the name of the kind.
        num_cores: the number of cores, if known.
        platform: the platform, such as ``'cpu'`` or ``'cuda'``.

    Example:
        >>> AbstractDevice('cpu', None, 'cpu')
        AbstractDevice(device_kind=cpu, num_cores=None, platform=cpu)
    """

    __slots__ = ("device_kind", "num_cores", "platform")

    def __init__(self, device_kind: str, num_cores: int | None, platform: str) -> None:
        self.device_kind = device_kind
        self.num_cores = num_cores
        self.platform = platform

    def _key(self) -> Any:
        return self.device_kind, self.num_cores, self.platform

    def __eq__(self, other: object) -> bool:
        return type(other) is AbstractDevice and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"AbstractDevice({_device_text(self)})"


def _device_text(device: AbstractDevice) -> str:
    return (
        f"device_kind={device.device_kind}, num_cores={device.num_cores},"
        f" platform={device.platform}"
    )


_meshes: WeakValueDictionary[Any, Any] = WeakValueDictionary()
_meshes_lock = across_forks(threading.RLock())


class MeshAxes:
    """The axes of a mesh: their sizes, names and types. Equal meshes are one object."""

    axis_sizes: tuple[int, ...]
    axis_names: tuple[Any, ...]
    axis_types: tuple[AxisType, ...]

    @classmethod
    def _interned(cls, key: Any, sizes: Any, names: Any, types: Any, **fields: Any) -> Any:
        """The mesh of a class with these axes, which ``key`` tells apart from all others."""
        if len(sizes) != len(names):
            raise ValueError(
                f"a mesh needs a name for each axis, got the sizes {sizes} and the names {names}"
            )
        if None in names or len(set(names)) != len(names):
            raise ValueError(
                f"the axes of a mesh need different names, and None isn't a name: {names}"
            )
        if isinstance(types, AxisType):
            types = (types,) * len(sizes)
        types = tuple(types or (AxisType.Auto,) * len(sizes))
        if not all(isinstance(t, AxisType) for t in types):
            raise TypeError(f"the types of a mesh's axes are AxisTypes, got {types}")
        if len(types) != len(sizes):
            raise ValueError(f"a mesh needs a type for each of its axes, got {types}")
        whole = (cls, sizes, names, types, key)
        found = _meshes.get(whole)
        if found is None:
            _note(types)
            made = object.__new__(cls)
            axes = {"axis_sizes": sizes, "axis_names": names, "axis_types": types}
            made.__dict__.update(axes, **fields)
            with _meshes_lock:  # threads that meet here get one object
                found = _meshes.setdefault(whole, made)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a mesh is immutable; write mesh.update({name}=...)")

    @property
    def shape(self) -> dict[Any, int]:
        return dict(self.shape_tuple)

    @property
    def shape_tuple(self) -> tuple[tuple[Any, int], ...]:
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def size(self) -> int:
        return prod(self.axis_sizes)

    @property
    def empty(self) -> bool:
        return not self.axis_sizes

    def _of_type(self, kind: AxisType) -> tuple[Any, ...]:
        return tuple(n for n, t in zip(self.axis_names, self.axis_types, strict=True) if t is kind)

    @property
    def auto_axes(self) -> tuple[Any, ...]:
        return self._of_type(AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple[Any, ...]:
        return self._of_type(AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple[Any, ...]:
        return self._of_type(AxisType.Manual)

    def _are_all(self, kind: AxisType) -> bool:
        return bool(self.axis_types) and all(t is kind for t in self.axis_types)

    @property
    def are_all_axes_auto(self) -> bool:
        return self._are_all(AxisType.Auto)

    @property
    def are_all_axes_explicit(self) -> bool:
        return self._are_all(AxisType.Explicit)

    @property
    def are_all_axes_manual(self) -> bool:
        return self._are_all(AxisType.Manual)

    def _text(self) -> str:
        axes = ", ".join(f"{n!r}: {s}" for n, s in self.shape_tuple) or "()"
        return f"{axes}, axis_types={self.axis_types}"


def _names(axis_names: Any) -> tuple[Any, ...]:
    return (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)


class AbstractMesh(MeshAxes):
    """The sizes and names of a mesh's axes, without devices.

    Args:
        axis_sizes: the size of each axis.
        axis_names: the name of each axis.
        axis_types: an ``AxisType`` for each axis. By default ``Auto``.
        abstract_device: the kind of the devices, if known.

    Example:
        >>> AbstractMesh((2, 4), ('x', 'y')).shape
        {'x': 2, 'y': 4}
    """

    abstract_device: AbstractDevice | None

    def __new__(
        cls,
        axis_sizes: Sequence[int],
        axis_names: Any,
        axis_types: Any = None,
        *,
        abstract_device: AbstractDevice | None = None,
    ) -> AbstractMesh:
        device = abstract_device
        sizes, names = tuple(axis_sizes), _names(axis_names)
        made: AbstractMesh = cls._interned(device, sizes, names, axis_types, abstract_device=device)
        return made

    @property
    def abstract_mesh(self) -> AbstractMesh:
        return self

    def update(self, **changes: Any) -> AbstractMesh:
        """The mesh with other sizes, names, types or kind of device."""
        given = {name: changes.get(name, getattr(self, name)) for name in _MESH_FIELDS}
        return AbstractMesh(**given)

    def update_axis_types(self, name_to_type: dict[Any, AxisType]) -> AbstractMesh:
        """The mesh with other types of the axes that are named; of axes that it lacks, none.

        >>> AbstractMesh((2,), 'x').update_axis_types({'x': AxisType.Explicit})
        AbstractMesh('x': 2, axis_types=(Explicit,))
        """
        pairs = zip(self.axis_names, self.axis_types, strict=True)
        return self.update(axis_types=tuple(name_to_type.get(n, t) for n, t in pairs))

    def __reduce__(self) -> Any:
        return _abstract_mesh, tuple(getattr(self, name) for name in _MESH_FIELDS)

    def __repr__(self) -> str:
        device = "" if self.abstract_device is None else f", {_device_text(self.abstract_device)}"
        return f"AbstractMesh({self._text()}{device})"


def _abstract_mesh(sizes: Any, names: Any, types: Any, device: Any) -> AbstractMesh:
    return AbstractMesh(sizes, names, types, abstract_device=device)


_MESH_FIELDS = ("axis_sizes", "axis_names", "axis_types", "abstract_device")
NO_AXES = AbstractMesh((), ())


class ManualAxisType:
    """How values inside of ``shard_map`` depend on its axes.

    Args:
        varying: the axes over which the values vary.
        unreduced: the axes over which they are parts of a sum.
        reduced: the axes over which they are equal, and their gradients parts of a sum.

    Example:
        >>> ManualAxisType(varying={'x'}).varying
        frozenset({'x'})
    """

    __slots__ = ("varying", "unreduced", "reduced")

    varying: frozenset[Any]
    unreduced: frozenset[Any]
    reduced: frozenset[Any]

    def __init__(
        self,
        *,
        varying: Any = frozenset(),
        unreduced: Any = frozenset(),
        reduced: Any = frozenset(),
    ) -> None:
        given = {"varying": varying, "unreduced": unreduced, "reduced": reduced}
        for name, axes in given.items():
            object.__setattr__(self, name, frozenset(axes))
        twice = self.varying & (self.unreduced | self.reduced)
        if twice:
            raise ValueError(
                f"{self!r} uses the axes {set(twice)} twice: values vary over an axis, or"
                " are unreduced, or reduced"
            )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a ManualAxisType is immutable; write mat.update({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a ManualAxisType does not change")

    def update(self, **changes: Any) -> ManualAxisType:
        """The same but for some of its sets of axes.

        >>> ManualAxisType(varying={'x'}).update(varying=frozenset())
        ManualAxisType(varying=frozenset(), unreduced=frozenset(), reduced=frozenset())
        """
        names = ("varying", "unreduced", "reduced")
        return ManualAxisType(**{n: getattr(self, n) for n in names} | changes)

    @property
    def empty(self) -> bool:
        return not (self.varying or self.unreduced or self.reduced)

    def _key(self) -> Any:
        return self.varying, self.unreduced, self.reduced

    def __reduce__(self) -> Any:
        return _manual, self._key()

    def __eq__(self, other: object) -> bool:
        return type(other) is ManualAxisType and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (
            f"ManualAxisType(varying={self.varying}, unreduced={self.unreduced},"
            f" reduced={self.reduced})"
        )


def _manual(varying: Any, unreduced: Any, reduced: Any) -> ManualAxisType:
    return ManualAxisType(varying=varying, unreduced=unreduced, reduced=reduced)


# Of values outside of shard_map, and of those that all devices share.
SHARED = ManualAxisType()


class _Entered(threading.local):
    """The scopes of the meshes whose ``with`` blocks a thread is in."""

    def __init__(self) -> None:
        self.scopes: list[Any] = []


_entered = _Entered()


class Mesh(MeshAxes):
    """Devices arranged in a grid whose axes have names.

    Args:
        devices: an array of devices.
        axis_names: the name of each axis of the array.
        axis_types: an ``AxisType`` for each axis. By default ``Auto``.

    Example:
        >>> import numpy as np, weft
        >>> weft.sharding.Mesh(np.array(weft.devices()[:1]), ("data",)).shape
        {'data': 1}
    """

    devices: np.ndarray

    def __new__(cls, devices: Any, axis_names: Any, axis_types: Any = None) -> Mesh:
        grid = np.array(devices, dtype=object)
        grid.flags.writeable = False
        key, names = tuple(grid.flat), _names(axis_names)
        made: Mesh = cls._interned(key, grid.shape, names, axis_types, devices=grid)
        return made

    def __enter__(self) -> Mesh:
        scope = knobs.entered_mesh(self)
        scope.__enter__()
        _entered.scopes.append(scope)
        return self

    def __exit__(self, *_: Any) -> None:
        _entered.scopes.pop().__exit__()

    def __call__(self, function: Any) -> Any:
        """A function that runs in the ``with`` block of this mesh."""

        @wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inside

    @kept_property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh without its devices."""
        first = next(iter(self.devices.flat), None)
        kind = None if first is None else AbstractDevice(first.device_kind, None, first.platform)
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types, abstract_device=kind)

    @property
    def local_devices(self) -> list[Any]:
        """The devices of this process."""
        return [d for d in self.devices.flat if d.process_index == processes.index]

    @property
    def local_mesh(self) -> Mesh:
        """The part of the mesh whose devices are of this process."""
        if processes.count == 1:
            return self
        mine = np.vectorize(lambda d: d.process_index == processes.index, otypes=[bool])
        found = np.argwhere(mine(self.devices))
        if not len(found):
            raise ValueError(f"process {processes.index} has no device of {self}")
        box = tuple(slice(a, b + 1) for a, b in zip(found.min(0), found.max(0), strict=True))
        part = self.devices[box]
        if part.size != len(found):
            raise ValueError(
                f"the devices of process {processes.index} are not a rectangle of {self}, so it "
                "has no local mesh; create the mesh with weft.make_mesh, which keeps them together"
            )
        return Mesh(part, self.axis_names, self.axis_types)

    @property
    def is_scalar(self) -> bool:
        return not self.axis_names

    @property
    def is_multi_process(self) -> bool:
        return len({device.process_index for device in self.devices.flat}) > 1

    @property
    def device_ids(self) -> np.ndarray:
        return np.vectorize(lambda d: d.id, otypes=[int])(self.devices)

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        """The mesh with other devices, names or types."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def __reduce__(self) -> Any:
        return Mesh, (self.devices, self.axis_names, self.axis_types)

    def __str__(self) -> str:
        return "Mesh()" if self.empty else f"Mesh({self._text()})"

    def __repr__(self) -> str:
        if self.empty:
            return "Mesh(axis_sizes=(), axis_names=())"
        return (
            f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names},"
            f" axis_types={self.axis_types})"
        )


MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")


class Sharding:
    """Where the elements of an array live; the base of all shardings.

    >>> import weft, weft.numpy as jnp
    >>> isinstance(jnp.ones(2).sharding, weft.sharding.Sharding)
    True
    """

    @property
    def device_set(self) -> set[Any]:
        raise TypeError(f"{type(self).__name__} names no devices")

    @property
    def is_fully_replicated(self) -> bool:
        return True

    @property
    def is_fully_addressable(self) -> bool:
        if processes.count == 1:
            return True
        return all(d.process_index == processes.index for d in self.device_set)

    @property
    def num_devices(self) -> int:
        return len(self.device_set)

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the part of an array that one device holds."""
        return tuple(global_shape)

    def devices_indices_map(self, global_shape: tuple[int, ...]) -> dict[Any, tuple[slice, ...]]:
        """For every device, the part of an array of this shape that it holds."""
        return dict.fromkeys(self.device_set, (slice(None),) * len(global_shape))

    def addressable_devices_indices_map(
        self, global_shape: tuple[int, ...]
    ) -> dict[Any, tuple[slice, ...]]:
        """The same for the devices of this process."""
        every = self.devices_indices_map(global_shape)
        if processes.count == 1:
            return every
        return {d: index for d, index in every.items() if d.process_index == processes.index}

    @property
    def addressable_devices(self) -> set[Any]:
        return {d for d in self.device_set if d.process_index == processes.index}

    _memory_kind: str | None

    def _set(self, memory_kind: str | None, **fields: Any) -> None:
        if memory_kind is not None and memory_kind not in MEMORY_KINDS:
            raise ValueError(
                f"{type(self).__name__} got memory_kind={memory_kind!r}; the kinds of memory are"
                f" {', '.join(MEMORY_KINDS)}"
            )
        self.__dict__.update(fields, _memory_kind=memory_kind)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a sharding is immutable; create one with another {name}")

    @property
    def memory_kind(self) -> str | None:
        """The kind of memory that arrays are in; on CPUs it is only a name."""
        return self._memory_kind or "device"

    @property
    def has_addressable_devices(self) -> bool:
        return bool(self.addressable_devices)

    def check_compatible_aval(self, aval_shape: tuple[int, ...]) -> None:
        """Raise ValueError unless an array of a shape can have this sharding."""

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether another sharding puts the same parts of arrays of a rank on the same devices."""
        return self.memory_kind == other.memory_kind and _same_parts(self, other, ndim)

    @property
    def _device_assignment(self) -> tuple[Any, ...]:
        """The devices in order, under the name by which libraries ask for them."""
        return tuple(sorted(self.device_set, key=lambda device: device.id))

    @property
    def _addressable_device_assignment(self) -> tuple[Any, ...]:
        return tuple(d for d in self._device_assignment if d.process_index == processes.index)


def _same_parts(a: Sharding, b: Sharding, ndim: int) -> bool:
    if _sums(a) != _sums(b):
        return False
    if _is_abstract(a) and _is_abstract(b):
        if a.is_fully_replicated or b.is_fully_replicated:
            return a.is_fully_replicated and b.is_fully_replicated
        if a.num_devices != b.num_devices:
            return False
    elif a._device_assignment != b._device_assignment:
        return False
    if not isinstance(a, NamedSharding) or not isinstance(b, NamedSharding):
        return a.is_fully_replicated and b.is_fully_replicated
    if len(a.mesh.axis_names) == 0 or len(b.mesh.axis_names) == 0:
        return a.is_fully_replicated and b.is_fully_replicated
    # an array with as many elements along each dimension as there are devices tells all
    shape = (a.mesh.size * b.mesh.size,) * ndim
    long = [s for s in (a, b) if any(axes_of(p) for p in s.spec[ndim:])]
    if long:
        return False
    first, second = (NamedSharding(s.mesh, PartitionSpec(*s.spec[:ndim])) for s in (a, b))
    numbers = np.arange(a.mesh.size, dtype=object)
    return first._indices(numbers, shape) == second._indices(numbers, shape)


def _is_abstract(sharding: Sharding) -> bool:
    return isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh)


def _sums(sharding: Sharding) -> set[Any]:
    """The axes over which arrays of a sharding are sums that are left to be made."""
    if not isinstance(sharding, NamedSharding):
        return set()
    return {n for n in sharding.spec.unreduced if sharding.mesh.shape[n] > 1}


class SingleDeviceSharding(Sharding):
    """The sharding of an array that lives on one device.

    Args:
        device: the device.
        memory_kind: the memory on the device, such as ``'device'`` or ``'pinned_host'``. By default
            the device's own.

    Example:
        >>> import weft
        >>> weft.sharding.SingleDeviceSharding(weft.devices()[0]).num_devices
        1
    """

    _device: Any

    def __init__(self, device: Any, *, memory_kind: str | None = None) -> None:
        if device is None:
            raise TypeError("SingleDeviceSharding takes a device, got None")
        self._set(memory_kind, _device=device)

    def with_memory_kind(self, kind: str) -> SingleDeviceSharding:
        """The sharding with another kind of memory."""
        return SingleDeviceSharding(self._device, memory_kind=kind)

    @property
    def device_set(self) -> set[Any]:
        return {self._device}

    def __eq__(self, other: object) -> bool:
        if type(other) is not SingleDeviceSharding or other._device is not self._device:
            return False
        return self.memory_kind == other.memory_kind

    def __hash__(self) -> int:
        return hash((SingleDeviceSharding, id(self._device), self.memory_kind))

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r}, memory_kind={self.memory_kind})"

    def __reduce__(self) -> Any:
        return partial(SingleDeviceSharding, memory_kind=self._memory_kind), (self._device,)


class NamedSharding(Sharding):
    """The sharding of an array divided over a mesh.

    Args:
        mesh: the mesh.
        spec: how the dimensions are divided, a ``PartitionSpec``.
        memory_kind: the memory on the device, such as ``'device'`` or ``'pinned_host'``. By default
            the device's own.

    Example:
        >>> import weft
        >>> mesh = weft.make_mesh((1,), ("data",))
        >>> weft.sharding.NamedSharding(mesh, weft.P("data")).spec
        P('data',)
    """

    mesh: Any
    spec: PartitionSpec
    as_given = False  # whether results that have it keep its spec as the user wrote it

    def __init__(self, mesh: Any, spec: PartitionSpec, *, memory_kind: str | None = None) -> None:
        if not isinstance(mesh, (Mesh, AbstractMesh)) or not isinstance(spec, PartitionSpec):
            kind = TypeError if mesh is None or spec is None else AttributeError
            raise kind(
                "NamedSharding takes a Mesh and a PartitionSpec, got"
                f" {type(mesh).__name__} {mesh!r} and {type(spec).__name__} {spec!r}; write"
                " NamedSharding(mesh, P('x', None))"
            )
        self._set(memory_kind, mesh=mesh, spec=spec)
        check_spec(spec, mesh)

    @property
    def replicated_axes(self) -> frozenset[Any]:
        """The mesh axes along which devices hold the same."""
        spec = self.spec
        return frozenset(self.mesh.axis_names) - {*spec.names(), *spec.unreduced, *spec.reduced}

    @property
    def memory_kind(self) -> str | None:
        return self._memory_kind if isinstance(self.mesh, AbstractMesh) else super().memory_kind

    def with_memory_kind(self, kind: str) -> NamedSharding:
        """The sharding with another kind of memory."""
        return self.update(memory_kind=kind)

    def update(self, **changes: Any) -> NamedSharding:
        """The sharding with another mesh, spec or kind of memory."""
        given = {"mesh": self.mesh, "spec": self.spec, "memory_kind": self._memory_kind} | changes
        spec = given["spec"]
        if not isinstance(spec, PartitionSpec):
            spec = PartitionSpec(*spec)
        return NamedSharding(given["mesh"], spec, memory_kind=given["memory_kind"])

    @property
    def device_set(self) -> set[Any]:
        return set(self._device_assignment)

    @property
    def num_devices(self) -> int:
        return self.mesh.size

    @property
    def _device_assignment(self) -> tuple[Any, ...]:
        if isinstance(self.mesh, AbstractMesh):
            raise ValueError(f"{self} has no devices: its mesh is an AbstractMesh")
        return tuple(self.mesh.devices.flat)

    @property
    def is_fully_replicated(self) -> bool:
        names = [*self.spec.names(), *self.spec.unreduced]
        return all(self.mesh.shape[name] == 1 for name in names)

    @property
    def is_fully_addressable(self) -> bool:
        return isinstance(self.mesh, AbstractMesh) or all(
            d.process_index == processes.index for d in self.mesh.devices.flat
        )

    def check_compatible_aval(self, aval_shape: tuple[int, ...]) -> None:
        """Raise ValueError unless arrays of a shape have a dimension for each that is divided.

        >>> mesh = AbstractMesh((2,), 'x')
        >>> NamedSharding(mesh, PartitionSpec('x')).check_compatible_aval((4, 3))
        """
        check_rank(self.spec, aval_shape)

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        sizes = list(global_shape)
        self.check_compatible_aval(global_shape)
        for i, part in enumerate(self.spec):
            parts = prod(self.mesh.shape[n] for n in axes_of(part))
            if sizes[i] % parts:
                raise IndivisibleError(
                    f"dimension {i} of shape {tuple(global_shape)} cannot be divided into {parts}"
                    f" equal parts as {self.spec} asks; pad it to a multiple of {parts}, or write "
                    "None to replicate it"
                )
            sizes[i] //= parts
        return tuple(sizes)

    def devices_indices_map(self, global_shape: tuple[int, ...]) -> dict[Any, tuple[slice, ...]]:
        return self._indices(np.array(self._device_assignment, dtype=object), global_shape)

    def _indices(self, devices: np.ndarray, global_shape: Any) -> dict[Any, tuple[slice, ...]]:
        """What each of some devices holds, which are in the order of the mesh."""
        part = self.shard_shape(global_shape)
        places = dict(zip(self.mesh.axis_names, np.indices(self.mesh.axis_sizes), strict=True))
        found: dict[Any, tuple[slice, ...]] = {}
        for at, device in np.ndenumerate(devices.reshape(self.mesh.axis_sizes)):
            found[device] = tuple(
                self._slice(i, size, part[i], {name: int(places[name][at]) for name in places})
                for i, size in enumerate(global_shape)
            )
        return found

    def _slice(self, dimension: int, size: int, part: int, place: dict[Any, int]) -> slice:
        """What a device at a place of the mesh holds along a dimension."""
        names = axes_of(self.spec[dimension] if dimension < len(self.spec) else None)
        if part == size or not names:
            return slice(None)
        number = 0
        for name in names:
            number = number * self.mesh.shape[name] + place[name]
        return slice(number * part, (number + 1) * part)

    def __eq__(self, other: object) -> bool:
        return type(other) is NamedSharding and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> Any:
        return self.mesh, self.spec, self.memory_kind

    def __repr__(self) -> str:
        kind = "" if self.memory_kind is None else f", memory_kind={self.memory_kind}"
        return f"NamedSharding(mesh={self.mesh}, spec={self.spec}{kind})"

    def with_spec(self, spec: Any) -> NamedSharding:
        """The sharding with another spec."""
        return self.update(spec=spec)

    def with_parts(self, parts: Any) -> NamedSharding:
        """The sharding of arrays with other dimensions, which are sums over the same axes."""
        return self.update(spec=PartitionSpec(*parts, **self.spec.marks()))


def as_given(sharding: Any) -> Any:
    """A sharding whose spec the results that have it keep as it is written."""
    if not isinstance(sharding, NamedSharding):
        return sharding
    made = sharding.update()
    made.__dict__["as_given"] = True
    return made


def check_spec(spec: PartitionSpec, mesh: Any) -> None:
    """Raise unless every axis that a spec names is one of the mesh, and named once."""
    global sums_left
    seen = set()
    if spec.unreduced or spec.reduced:
        sums_left = True
        _check_kinds(spec, mesh)
    for name in spec.names():
        if name not in mesh.axis_names:
            raise ValueError(
                f"{spec} names the axis {name!r}, and the mesh has the axes {mesh.axis_names}"
            )
        if name in seen:
            raise DuplicateSpecError(
                f"{spec} shards two dimensions over the axis {name!r}; an axis can shard only "
                "one: write None for the other"
            )
        seen.add(name)


def _check_kinds(spec: PartitionSpec, mesh: Any) -> None:
    """Raise ValueError unless axes that are unreduced or reduced are explicit ones of the mesh."""
    kinds = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    for name in [*spec.unreduced, *spec.reduced]:
        if name not in kinds:
            raise ValueError(
                f"{spec} names the axis {name!r}, and the mesh has the axes {mesh.axis_names}"
            )
        if kinds[name] is not AxisType.Explicit:
            raise ValueError(
                f"{spec} marks the axis {name!r} as unreduced or reduced, but its type is"
                f" {kinds[name]!r}; only axes of type Explicit can be, as with"
                " make_mesh(shape, names)"
            )


def in_types(spec: PartitionSpec, mesh: Any) -> PartitionSpec:
    """A spec without the axes that types leave out: those of size 1, if that is asked for."""
    if not knobs.thread.remove_size_one_mesh_axis_from_type:
        return spec
    small = {name for name in mesh.axis_names if mesh.shape[name] == 1}
    parts = [tuple(n for n in axes_of(p) if n not in small) or None for p in spec]
    return PartitionSpec(*parts, **{kind: axes - small for kind, axes in spec.marks().items()})


def full_spec(sharding: Any, ndim: int) -> tuple[Any, ...]:
    """The spec of a sharding with one entry for each dimension."""
    spec = tuple(sharding.spec)
    return (*spec, *(None,) * (ndim - len(spec)))


def explicit_part(sharding: Any, ndim: int) -> NamedSharding | None:
    """What types say of a sharding: how it divides over explicit axes; None if not at all."""
    if not isinstance(sharding, NamedSharding):
        return None
    mesh = sharding.mesh
    explicit = set(mesh.explicit_axes)
    if explicit and knobs.thread.remove_size_one_mesh_axis_from_type:
        explicit = {name for name in explicit if mesh.shape[name] != 1}
    if not explicit:
        return None
    parts = [
        tuple(name for name in axes_of(part) if name in explicit)
        for part in full_spec(sharding, ndim)
    ]
    marks = {kind: axes & explicit for kind, axes in sharding.spec.marks().items()}
    if not any(parts) and not any(marks.values()):
        return None
    return NamedSharding(mesh.abstract_mesh, PartitionSpec(*parts, **marks))


class UnspecifiedValue:
    """The mark of a sharding that was not given."""

    def __repr__(self) -> str:
        return "UnspecifiedValue"


UNSPECIFIED = UnspecifiedValue()
