"""The concrete array: memory with a type, immutable, at a place.

Its layout is fixed by ``__slots__`` and read off the slots' member descriptors by native code:
``aval`` (interned), ``_type`` (it and the placement, interned), ``_owner`` (the object that holds
the memory: a native block or a NumPy array; None once deleted) and ``_view`` (a read-only NumPy
view, None until asked for). Host devices share memory: an array that is divided over several of
them is one piece of it. On a device with memory of its own the owner is a piece of that, and the
view a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from weft import dtypes
from weft.base import checking, errors, knobs
from weft.base.lazy import Late
from weft.base.record import Record
from weft.base.traceback import api_boundary
from weft.core import processes
from weft.core.array import Array
from weft.core.avals import ShapedArray
from weft.core.interpret import storage_dtype
from weft.core.sharding import PartitionSpec, full_spec
from weft.core.trace import check_integer_conversion, check_scalar_conversion
from weft.runtime.client import host
from weft.runtime.export import install
from weft.runtime.places import (
    HOME,
    ArrayType,
    Placement,
    array_type,
    default_placement,
    on_device,
    placement,
    type_at_home,
)

# needed where arrays are divided over devices
mesh_layout = Late("weft.division.mesh_layout")
# needed for sums that are left to be made
marks = Late("weft.division.marks")
# how they look, and the parts of extended dtypes
printed = Late("weft.runtime.printed")


class Shard(Record):
    """The part of an array that one device holds, as ``x.addressable_shards`` lists them.

    Args:
        device: Device that holds it.
        index: Slices of the whole array that it covers.
        replica_id: Number of this copy among devices that hold the same part.
        data: The part, an array on that device.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.arange(3).addressable_shards[0].data
        Array([0, 1, 2], dtype=int32)
    """

    device: Any
    index: tuple[slice, ...]  # type: ignore[assignment]
    replica_id: int
    data: Any

    def __repr__(self) -> str:
        fields = f"device={self.device!r}, index={self.index}, replica_id={self.replica_id}"
        return f"Shard({fields}, data={self.data})"


class ArrayImpl(Array):
    """An array in memory. Made by ``weft.numpy.array`` and by every operation."""

    __slots__ = (
        "aval",
        "_type",
        "_owner",
        "_view",
        "__weakref__",
    )

    aval: ShapedArray
    _type: ArrayType
    _owner: Any
    _view: np.ndarray | None

    # --- memory -----------------------------------------------------------------------------------

    @property
    def _value(self) -> np.ndarray:
        """The values as a read-only NumPy array."""
        view = self._view
        return self._make_view() if view is None else view

    def _make_view(self) -> np.ndarray:
        owner, aval = self._owner, self.aval
        if owner is None:
            raise RuntimeError(
                f"array has been deleted: {aval.str_short()} was donated to a computation or"
                " freed with delete()"
            )
        dtype = storage_dtype(aval.dtype)
        if aval.divided is not None and aval.divided.spec.unreduced:
            raise NotImplementedError(
                f"{aval.str_short()} is an unreduced sum: each device has a part of it; compute "
                "the sum with weft.reshard(x, P()), or use x.addressable_shards"
            )
        if self._type.placement.spans:
            return self._whole_view()
        if aval.size == 0 or dtype.itemsize == 0:
            view = np.zeros(aval.shape, dtype)
            view.flags.writeable = False
        else:
            view = self._memory().copy_out(owner, dtype, aval.shape)
        self._view = view
        return view

    def _whole_view(self) -> np.ndarray:
        """The values of an array over several processes, where this one has all of them."""
        if not self.is_fully_replicated:
            raise RuntimeError(
                f"the values of {self.aval.str_short()} are sharded over several processes, and "
                f"this one, {processes.index}, has only its own part: {self.sharding}. Use "
                "weft.experimental.multihost_utils.process_allgather(x, tiled=True) to gather all "
                "of them, or x.addressable_shards for the part of this process"
            )
        rows = self._rows()
        if not len(rows):
            raise RuntimeError(
                f"this process, {processes.index}, has no device of {self.sharding}, where"
                f" {self.aval.str_short()} is"
            )
        return rows[0, ...]

    @property
    def _is_sum(self) -> bool:
        """Whether it is a sum that is left to be made, of which each device has a part."""
        divided = self.aval.divided
        return divided is not None and bool(divided.spec.unreduced)

    def _parts(self) -> ArrayImpl:
        """The parts of a sum, over the same memory: behind the dimensions of the array there is one
        for each axis that it is to be summed over."""
        if self._owner is None:
            self._make_view()  # which says so
        axes, where = marks.axes_of_sum(self.aval), self._type.placement.sharding
        spec = PartitionSpec(*full_spec(where, self.ndim), *axes)
        place = placement(where.with_spec(spec), True)
        return over(self._owner, array_type(marks.stored_aval(self.aval), place))

    def _rows(self) -> np.ndarray:
        """The parts that this process has of an array over several, one after the other."""
        if self._owner is None:
            self._make_view()  # which says so
        aval = self.aval
        count = len(mesh_layout.parts_of(self.sharding, aval.shape))
        shape = (count, *self.sharding.shard_shape(aval.shape))
        dtype = storage_dtype(aval.dtype)
        if 0 in shape or dtype.itemsize == 0:
            return np.zeros(shape, dtype)
        rows = self._memory().copy_out(self._owner, dtype, shape)
        rows.flags.writeable = False
        return rows

    def _device_layout(self) -> Any:
        """How the device lays it out, where that is its own choice."""
        where = self._type.placement.memory
        return None if where.is_host else where.layout(self._alias()._owner)

    def _memory(self) -> Any:
        """The memory that the owner is a piece of."""
        return self._type.placement.memory

    @api_boundary
    def __array__(self, dtype: Any = None, context: Any = None, copy: bool | None = None) -> Any:
        value = self._value
        kind = self.aval.dtype
        if isinstance(kind, dtypes.ExtendedDType):
            use = "weft.random.key_data(x)"
            if isinstance(kind, dtypes.PrimalTangentDType):
                use = f'weft.lax.convert_element_type(x, "{kind.primal_dtype}")'
            raise TypeError(f"an array x of dtype {kind} cannot be converted to NumPy; use {use}")
        if dtype is not None and np.dtype(dtype) != value.dtype:
            return value.astype(dtype)
        return value.copy() if copy else value

    def __buffer__(self, flags: int) -> memoryview:
        checking.settle(again=True)  # NumPy looks elsewhere where this raises
        return memoryview(self.__array__())

    def unsafe_buffer_pointer(self) -> int:
        """Return the address of the first element, in the memory of its device.

        Returns:
            Python integer. The array must stay alive while you use it.

        Example:
            >>> import weft.numpy as jnp
            >>> jnp.ones(2).unsafe_buffer_pointer() > 0
            True
        """
        if not self._type.placement.memory.is_host:
            return self._alias()._owner.address
        return self._value.__array_interface__["data"][0]

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: bool | None = None,
    ) -> Any:
        where = self._type.placement
        client = where.client
        to_host = dl_device is not None and dl_device[0] == 1
        if to_host and (where.is_spread or client.dlpack_device[0] != 1):
            if copy is False and not where.memory.is_host:
                raise BufferError(
                    f"__dlpack__ with copy=False: the array is on {client.platform}, not in the"
                    " host's memory; leave copy out to get a copy there"
                )
            client = host()
        return client.to_dlpack(self._alias(), stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._type.placement.client.dlpack_device

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Where the array is in a GPU's memory; there is no such attribute elsewhere."""
        return self._type.placement.client.array_interface(self._alias())

    def is_deleted(self) -> bool:
        """Return whether the array was deleted or donated, so that its values are gone.

        Returns:
            Python bool.

        Example:
            >>> import weft.numpy as jnp
            >>> jnp.ones(2).is_deleted()
            False
        """
        return self._owner is None

    def delete(self) -> None:
        """Free the memory now; later uses of the array raise RuntimeError.

        Example:
            >>> import weft.numpy as jnp
            >>> x = jnp.ones(2)
            >>> x.delete()
            >>> x.is_deleted()
            True
        """
        self._view = self._owner = None

    # --- conversion -------------------------------------------------------------------------------

    @api_boundary
    def item(self, *args: Any) -> Any:
        """Return one element as a Python scalar.

        Args:
            *args: Index of the element, one integer for each axis or one for the flattened array;
                may be left out if there is only one element.

        Returns:
            Python bool, int, float or complex.

        Example:
            >>> import weft.numpy as jnp
            >>> jnp.arange(4).item(2)
            2
        """
        return self.__array__().item(*args)

    @api_boundary
    def tolist(self) -> Any:
        """Return the values as nested lists of Python scalars.

        Returns:
            List, or a scalar for an array without dimensions.

        Example:
            >>> import weft.numpy as jnp
            >>> jnp.arange(3).tolist()
            [0, 1, 2]
        """
        return self.__array__().tolist()

    @api_boundary
    def tobytes(self, order: str = "C") -> bytes:
        """Return the values as bytes.

        Args:
            order: "C" for row-major, "F" for column-major order.

        Returns:
            Bytes object.

        Example:
            >>> import weft.numpy as jnp
            >>> jnp.array([1], dtype="uint8").tobytes() == bytes([1])
            True
        """
        return self._value.tobytes(order)  # type: ignore[arg-type]

    @api_boundary
    def __bool__(self) -> bool:
        check_scalar_conversion(self, "bool")
        return bool(self._value)

    @api_boundary
    def __int__(self) -> int:
        check_scalar_conversion(self, "int")
        return int(self._value)

    @api_boundary
    def __float__(self) -> float:
        check_scalar_conversion(self, "float")
        return float(self._value)

    @api_boundary
    def __complex__(self) -> complex:
        check_scalar_conversion(self, "complex")
        return complex(self._value)

    @api_boundary
    def __index__(self) -> int:
        check_integer_conversion(self)
        return int(self._value)

    def __hex__(self) -> str:
        return hex(self.__index__())

    def __oct__(self) -> str:
        return oct(self.__index__())

    def __format__(self, spec: str) -> str:
        if self._is_sum:
            return repr(self)
        if isinstance(self.aval.dtype, dtypes.ExtendedDType):
            return format(repr(self), spec)
        return format(self._value[()] if self.ndim == 0 else self._value, spec)

    @api_boundary
    def __iter__(self) -> Iterator[Any]:
        if not self.aval.shape:
            raise TypeError("iteration over a 0-d array")
        inner = ShapedArray(self.aval.shape[1:], self.aval.dtype, self.aval.weak_type)
        value = self._value
        where = self._type.placement
        if where.is_spread and not where.sharding.is_fully_replicated:
            where = on_device(where.sharding._device_assignment[0], False)
        return (box(value[i, ...], inner, where) for i in range(len(value)))

    @api_boundary
    def __reduce__(self) -> Any:
        if isinstance(self.aval.dtype, dtypes.ExtendedDType):
            return _unpickle_extended, (printed.elements(self), self.aval)
        return _unpickle, (np.asarray(self), self.aval.weak_type)

    def __copy__(self) -> ArrayImpl:
        where = self._type.placement
        if self._is_sum:
            return as_sum(self._parts().__copy__(), self.aval)
        if where.spans:
            return self.clone()
        if not where.memory.is_host:
            return over(where.memory.copy(self._alias()._owner), self._type)
        return box(self._value.copy(), self.aval, where)

    def __deepcopy__(self, memo: Any) -> ArrayImpl:
        return self.__copy__()

    @api_boundary
    def __repr__(self) -> str:
        return printed.full(self)

    @api_boundary
    def __str__(self) -> str:
        return printed.short(self)

    def _repr_html_(self) -> str:
        return printed.html(self)

    # --- place ------------------------------------------------------------------------------------

    @property
    def sharding(self) -> Any:
        """How the array is divided over devices."""
        return self._type.placement.sharding

    @property
    def device(self) -> Any:
        """Device that holds the array; its sharding if there are several."""
        sharding = self.sharding
        return sharding if sharding.num_devices > 1 else next(iter(sharding.device_set))

    def devices(self) -> set[Any]:
        """Return the devices that hold the array.

        Returns:
            Set of ``Device``.

        Example:
            >>> import weft.numpy as jnp
            >>> len(jnp.ones(2).devices())
            1
        """
        if self._owner is None:
            self._refuse()
        return set(self.sharding.device_set)

    @property
    def committed(self) -> bool:
        """Whether the array was placed on its device on purpose, so that computations follow it."""
        return self._type.placement.committed

    @property
    def is_fully_addressable(self) -> bool:
        """Whether devices of this process hold all of the array."""
        return self.sharding.is_fully_addressable

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds all of the array."""
        return self.sharding.is_fully_replicated

    @api_boundary
    def addressable_data(self, index: int) -> ArrayImpl:
        """Return the part of the array on one of this process's devices.

        Args:
            index: Number of the device, in the order of ``addressable_shards``.

        Returns:
            Array on that device.

        Example:
            >>> import weft.numpy as jnp
            >>> jnp.ones(2).addressable_data(0)
            Array([1., 1.], dtype=float32)
        """
        if self._is_sum:
            return self.addressable_shards[index].data
        indices = list(self.sharding.addressable_devices_indices_map(self.shape).items())
        if not -len(indices) <= index < len(indices):
            raise IndexError(f"this array has {len(indices)} shards, asked for shard {index}")
        if self.sharding.is_fully_replicated:
            index = 0
        return self._part(*indices[index])

    def _part(self, device: Any, index: tuple[slice, ...]) -> ArrayImpl:
        if not self._type.placement.is_spread:
            return self
        if not self._type.placement.spans or self._type.placement.joined:
            return self._type.placement.client.part(self, device, index)
        parts = list(mesh_layout.parts_of(self.sharding, self.shape))
        value = self._rows()[parts.index(mesh_layout.bounds(index, self.shape)), ...]
        return box(value, self.aval.update(shape=value.shape), on_device(device))

    @property
    def addressable_shards(self) -> list[Shard]:
        """Parts of the array that this process's devices hold, a list of ``Shard``."""
        return [s for s in self.global_shards if s.device.process_index == processes.index]

    @property
    def global_shards(self) -> list[Shard]:
        """Parts of the array on all devices; those of other processes are without data."""
        seen: dict[Any, int] = {}
        shards = []
        if self._is_sum:
            parts = self._parts()
            for s in parts.global_shards:
                part = None if s.data is None else _squeezed(s.data, self.ndim)
                shards.append(Shard(s.device, s.index[: self.ndim], s.replica_id, part))
            return shards
        for device, index in self.sharding.devices_indices_map(self.shape).items():
            key = tuple([(part.start, part.stop) for part in index])
            replica = seen[key] = seen.get(key, -1) + 1
            here = device.process_index == processes.index
            data = self._part(device, index) if here else None
            shards.append(Shard(device, index, replica, data))
        return shards

    def clone(self) -> ArrayImpl:
        """Return another array with the same values; deleting one leaves the other.

        Returns:
            Array with the same shape, dtype and sharding.

        Example:
            >>> import weft.numpy as jnp
            >>> jnp.ones(2).clone()
            Array([1., 1.], dtype=float32)
        """
        if self._type.placement.spans:
            return spanning(self._rows().copy(), self.aval, self._type.placement)
        if not self._type.placement.memory.is_host or self._is_sum:
            return self._alias()
        return box(self._value, self.aval, self._type.placement)

    def _alias(self) -> ArrayImpl:
        """Another array with the same memory: either may be deleted without the other."""
        owner = self._owner
        if owner is None:
            self._make_view()  # which says so
        x = _new(ArrayImpl)
        x.aval = self.aval
        x._type = self._type
        x._owner = owner
        x._view = owner if self._view is owner else None
        return x

    def _at(self, where: Placement) -> ArrayImpl:
        """Another array at another placement: with the same memory, unless it is moved."""
        x = self._alias()
        x._type = array_type(self.aval, where)
        x.aval = x._type.aval
        if self._type.placement.memory is not where.memory:
            x._owner = where.memory.moved(self)
            x._view = x._owner if where.memory.is_host else None
        return x

    def block_until_ready(self) -> ArrayImpl:
        """Return the array once its values are computed.

        Returns:
            The array itself. Calls on the CPU are synchronous, calls on GPUs are not.

        Example:
            >>> import weft.numpy as jnp
            >>> jnp.ones(2).block_until_ready()
            Array([1., 1.], dtype=float32)
        """
        if self._owner is None:
            raise errors.JaxRuntimeError(
                f"array has been deleted: {self.aval.str_short()} was donated to a computation or"
                " freed with delete(), and there is nothing to wait for"
            )
        self._type.placement.client.wait()
        return self

    @api_boundary
    def _refuse(self) -> Any:
        """Raise, as the array has been deleted."""
        return self._make_view()

    def is_ready(self) -> bool:
        """Return whether the values are computed, without waiting for them.

        Returns:
            Python bool.

        Example:
            >>> import weft.numpy as jnp
            >>> jnp.ones(2).block_until_ready().is_ready()
            True
        """
        return self._type.placement.client.is_idle()

    def copy_to_host_async(self) -> None:
        """Start copying the values to the host; on the CPU they are there already.

        Example:
            >>> import weft.numpy as jnp
            >>> jnp.ones(2).copy_to_host_async()
        """
        if self._view is None and self.aval.size:
            owner = self._alias()._owner
            self._memory().begin_copy_out(owner, storage_dtype(self.aval.dtype), self.aval.shape)

    def on_device_size_in_bytes(self) -> int:
        """Return how many bytes the array takes on its devices.

        Returns:
            Python integer.

        Example:
            >>> import weft.numpy as jnp
            >>> jnp.ones(2, "float32").on_device_size_in_bytes()
            8
        """
        if self._is_sum:
            return self._parts().on_device_size_in_bytes()
        if not self._type.placement.memory.is_host:
            return self.aval.size * storage_dtype(self.aval.dtype).itemsize
        return self._rows().nbytes if self._type.placement.spans else self._value.nbytes

    def platform(self) -> str:
        """Return the platform that holds the array.

        Returns:
            "cpu" or "gpu".

        Example:
            >>> import weft, weft.numpy as jnp
            >>> jnp.ones(2).platform() == weft.default_backend()
            True
        """
        return self.sharding._device_assignment[0].platform

    @property
    def traceback(self) -> None:
        """Always None: weft does not record where arrays were made."""
        return None


def _squeezed(x: ArrayImpl, ndim: int) -> ArrayImpl:
    """One part of a sum, without the dimensions that parts lie along."""
    aval = ShapedArray(x.shape[:ndim], x.dtype, x.aval.weak_type)
    return over(x._owner, array_type(aval, x._type.placement))


def as_sum(parts: ArrayImpl, aval: ShapedArray) -> ArrayImpl:
    """The sum, left to be made, that parts are of."""
    count = len(aval.shape)
    assert aval.divided is not None
    where = parts._type.placement.sharding
    spec = PartitionSpec(*full_spec(where, len(parts.shape))[:count], **aval.divided.spec.marks())
    return over(parts._owner, array_type(aval, placement(where.with_spec(spec), True)))


def as_placed(x: ArrayImpl, where: Placement) -> ArrayImpl:
    """An array at a placement that is another way to write its own."""
    made = x._alias()
    made._type = array_type(x.aval, where)
    made.aval = made._type.aval
    return made


def _unpickle(value: np.ndarray, weak_type: bool) -> ArrayImpl:
    dtype = dtypes.canonicalize_dtype(value.dtype, True)
    return box(value.astype(dtype, copy=False), ShapedArray(value.shape, dtype, weak_type))


def _unpickle_extended(elements: np.ndarray, aval: ShapedArray) -> ArrayImpl:
    storage = storage_dtype(aval.dtype)
    return box(np.frombuffer(elements.tobytes(), storage).reshape(aval.shape), aval)


_new = object.__new__


def box(value: np.ndarray, aval: ShapedArray, where: Placement = HOME) -> ArrayImpl:
    """An array over NumPy memory that nobody else will change."""
    flags = value.flags
    if not flags.c_contiguous:
        value = np.ascontiguousarray(value).reshape(aval.shape)
        flags = value.flags
    made = own(value, aval) if flags.writeable else _over(value, aval)
    if not where.memory.is_host:
        return made._at(where)
    if where is not HOME:
        made._type = array_type(aval, where)
        made.aval = made._type.aval
    return made


def own(value: np.ndarray, aval: ShapedArray) -> ArrayImpl:
    """An array over contiguous memory that has just been made for it."""
    view = value.view()  # what it is a view of can be written, so that it can be donated
    view.setflags(write=False)
    return _over(view, aval)


def _over(view: np.ndarray, aval: ShapedArray) -> ArrayImpl:
    x = _new(ArrayImpl)
    x.aval = aval
    x._type = aval._home or type_at_home(aval)
    x._view = x._owner = view
    return x


def put(value: np.ndarray, aval: ShapedArray, where: Placement) -> ArrayImpl:
    """An array in the memory of a device, of values that are the caller's."""
    value = np.asarray(value, storage_dtype(aval.dtype), order="C")
    return over(where.memory.put(value), array_type(aval, where))


def over(owner: Any, kind: ArrayType) -> ArrayImpl:
    """An array over memory of its device."""
    x = _new(ArrayImpl)
    x.aval, x._type = kind.aval, kind
    x._owner, x._view = owner, None
    return x


def spanning(rows: np.ndarray, aval: ShapedArray, where: Placement) -> ArrayImpl:
    """An array over several processes, of the parts that this one has."""
    x = _new(ArrayImpl)
    x._type = array_type(aval, where)
    x.aval = x._type.aval
    if where.memory.is_host:
        x._owner = own(np.ascontiguousarray(rows).reshape(-1).view(np.uint8), aval)._owner
    else:
        x._owner = where.memory.put(rows)
    x._view = None
    return x


def from_numpy(value: np.ndarray, dtype: Any = None, weak_type: bool = False) -> ArrayImpl:
    """An array with a copy of NumPy data."""
    dtype = dtypes.canonicalize_dtype(value.dtype if dtype is None else dtype)
    if knobs.thread.default_device is not None:
        where = default_placement()
        if not where.memory.is_host:
            return put(value, ShapedArray(value.shape, dtype, weak_type), where)
    copied = value.astype(storage_dtype(dtype), "C", "unsafe", False)
    made = own(copied, ShapedArray(copied.shape, dtype, weak_type))
    thread = knobs.thread
    if thread.default_device is None and thread.mesh is None:
        return made
    return made._at(default_placement())


install(ArrayImpl)
