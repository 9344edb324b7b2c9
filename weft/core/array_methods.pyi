"""Operators and methods of arrays as type checkers and editors see them.

Nothing here runs: ``weft.core.array.Array`` has this class as its base for type checkers only. What
the methods do is in ``weft.numpy``, which puts them on arrays when they are first used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from weft.core.array import Array

Operand: TypeAlias = "Array | np.ndarray | np.generic | bool | int | float | complex"
Axis: TypeAlias = int | Sequence[int] | None

class Methods:
    """What every array can do."""

    def __add__(self, other: Operand, /) -> Array: ...
    def __radd__(self, other: Operand, /) -> Array: ...
    def __sub__(self, other: Operand, /) -> Array: ...
    def __rsub__(self, other: Operand, /) -> Array: ...
    def __mul__(self, other: Operand, /) -> Array: ...
    def __rmul__(self, other: Operand, /) -> Array: ...
    def __truediv__(self, other: Operand, /) -> Array: ...
    def __rtruediv__(self, other: Operand, /) -> Array: ...
    def __floordiv__(self, other: Operand, /) -> Array: ...
    def __rfloordiv__(self, other: Operand, /) -> Array: ...
    def __mod__(self, other: Operand, /) -> Array: ...
    def __rmod__(self, other: Operand, /) -> Array: ...
    def __pow__(self, other: Operand, /) -> Array: ...
    def __rpow__(self, other: Operand, /) -> Array: ...
    def __matmul__(self, other: Operand, /) -> Array: ...
    def __rmatmul__(self, other: Operand, /) -> Array: ...
    def __and__(self, other: Operand, /) -> Array: ...
    def __rand__(self, other: Operand, /) -> Array: ...
    def __or__(self, other: Operand, /) -> Array: ...
    def __ror__(self, other: Operand, /) -> Array: ...
    def __xor__(self, other: Operand, /) -> Array: ...
    def __rxor__(self, other: Operand, /) -> Array: ...
    def __lshift__(self, other: Operand, /) -> Array: ...
    def __rlshift__(self, other: Operand, /) -> Array: ...
    def __rshift__(self, other: Operand, /) -> Array: ...
    def __rrshift__(self, other: Operand, /) -> Array: ...
    def __divmod__(self, other: Operand, /) -> tuple[Array, Array]: ...
    def __rdivmod__(self, other: Operand, /) -> tuple[Array, Array]: ...
    def __eq__(self, other: Any, /) -> Array: ...  # type: ignore[override]
    def __ne__(self, other: Any, /) -> Array: ...  # type: ignore[override]
    def __lt__(self, other: Operand, /) -> Array: ...
    def __le__(self, other: Operand, /) -> Array: ...
    def __gt__(self, other: Operand, /) -> Array: ...
    def __ge__(self, other: Operand, /) -> Array: ...
    def __abs__(self) -> Array: ...
    def __neg__(self) -> Array: ...
    def __pos__(self) -> Array: ...
    def __invert__(self) -> Array: ...
    def __round__(self, ndigits: int | None = None, /) -> Array: ...
    def __bool__(self) -> bool: ...
    def __int__(self) -> int: ...
    def __float__(self) -> float: ...
    def __complex__(self) -> complex: ...
    def __index__(self) -> int: ...
    def __contains__(self, value: Any, /) -> bool: ...
    def __iter__(self) -> Iterator[Array]: ...
    def __getitem__(self, index: Any, /) -> Array: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray: ...
    def __dlpack__(self, **options: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __array_namespace__(self, api_version: str | None = None) -> Any: ...
    @property
    def T(self) -> Array:
        """The array with its axes reversed."""
    @property
    def mT(self) -> Array:
        """The array with its last two axes swapped."""
    @property
    def real(self) -> Array:
        """The real part of the elements."""
    @property
    def imag(self) -> Array:
        """The imaginary part of the elements; zero for real numbers."""
    @property
    def flat(self) -> Any:
        """The elements as a one-dimensional array."""
    @property
    def at(self) -> At:
        """Updates of parts on a copy: ``x.at[index].set(y)`` and the like."""
    @property
    def format(self) -> Any:
        """How the array is laid out in memory and divided over devices."""
    @property
    def sharding(self) -> Any:
        """How the array is divided over devices."""
    @property
    def device(self) -> Any:
        """Device that holds the array; its sharding if there are several."""
    @property
    def committed(self) -> bool:
        """Whether the array was placed on its device on purpose, so that computations follow it."""
    @property
    def is_fully_addressable(self) -> bool:
        """Whether devices of this process hold all of the array."""
    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds all of the array."""
    @property
    def addressable_shards(self) -> list[Any]:
        """Parts of the array that this process's devices hold, a list of ``Shard``."""
    @property
    def global_shards(self) -> list[Any]:
        """Parts of the array on all devices; those of other processes are without data."""
    def addressable_data(self, index: int) -> Array:
        """Return the part of the array on one of this process's devices.

        Args:
            index: Number of the device, in the order of ``addressable_shards``.

        Returns:
            Array on that device.
        """
    def devices(self) -> set[Any]:
        """Return the devices that hold the array.

        Returns:
            Set of ``Device``.
        """
    def block_until_ready(self) -> Array:
        """Return the array once its values are computed.

        Returns:
            The array itself. Calls on the CPU are synchronous, calls on GPUs are not.
        """
    def copy_to_host_async(self) -> None:
        """Start copying the values to the host; on the CPU they are there already."""
    def delete(self) -> None:
        """Free the memory now; later uses of the array raise RuntimeError."""
    def is_deleted(self) -> bool:
        """Return whether the array was deleted or donated, so that its values are gone.

        Returns:
            Python bool.
        """
    def is_ready(self) -> bool:
        """Return whether the values are computed, without waiting for them.

        Returns:
            Python bool.
        """
    def on_device_size_in_bytes(self) -> int:
        """Return how many bytes the array takes on its devices.

        Returns:
            Python integer.
        """
    def item(self, *args: int) -> Any:
        """Return one element as a Python scalar.

        Args:
            *args: Index of the element, one integer for each axis or one for the flattened array;
                may be left out if there is only one element.

        Returns:
            Python bool, int, float or complex.
        """
    def tolist(self) -> Any:
        """Return the values as nested lists of Python scalars.

        Returns:
            List, or a scalar for an array without dimensions.
        """
    def tobytes(self, order: str = "C") -> bytes:
        """Return the values as bytes.

        Args:
            order: "C" for row-major, "F" for column-major order.

        Returns:
            Bytes object.
        """
    def all(
        self, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: Any = None
    ) -> Array:
        """Return whether all elements are true, over all or some axes.

        Args:
            axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end.
                A string names an axis mapped by ``vmap`` or ``shard_map``.
            out: Must be None; arrays are immutable.
            keepdims: If true, reduced axes stay with size 1, so that the result broadcasts against
                the array.
            where: Boolean mask that broadcasts against the array; elements where it is false are
                left out.

        Returns:
            Boolean array without the reduced axes.
        """
    def any(
        self, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: Any = None
    ) -> Array:
        """Return whether any element is true, over all or some axes.

        Args:
            axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end.
                A string names an axis mapped by ``vmap`` or ``shard_map``.
            out: Must be None; arrays are immutable.
            keepdims: If true, reduced axes stay with size 1, so that the result broadcasts against
                the array.
            where: Boolean mask that broadcasts against the array; elements where it is false are
                left out.

        Returns:
            Boolean array without the reduced axes.
        """
    def argmax(
        self, axis: int | None = None, out: None = None, keepdims: bool | None = None
    ) -> Array:
        """Return the index of the largest element; the first of equal ones.

        Args:
            axis: Axis to search, a static integer; by default the flattened array.
            out: Must be None; arrays are immutable.
            keepdims: If true, the searched axis (with ``axis=None`` every axis) stays with size 1.

        Returns:
            Integer array (int32, or int64 with ``enable_x64``) without the searched axis. NaN
            counts as extreme.
        """
    def argmin(
        self, axis: int | None = None, out: None = None, keepdims: bool | None = None
    ) -> Array:
        """Return the index of the smallest element; the first of equal ones.

        Args:
            axis: Axis to search, a static integer; by default the flattened array.
            out: Must be None; arrays are immutable.
            keepdims: If true, the searched axis (with ``axis=None`` every axis) stays with size 1.

        Returns:
            Integer array (int32, or int64 with ``enable_x64``) without the searched axis. NaN
            counts as extreme.
        """
    def argpartition(self, kth: int, axis: int = -1) -> Array:
        """Return the indices that partition an array around position ``kth``.

        Args:
            kth: Index of the element that comes to its sorted position. A static integer.
            axis: Axis to partition along.

        Returns:
            Integer array with the same shape.
        """
    def argsort(
        self,
        axis: int | None = -1,
        *,
        kind: None = None,
        order: None = None,
        stable: bool = True,
        descending: bool = False,
        dtype: Any = None,
    ) -> Array:
        """Return the indices that sort an array.

        Args:
            axis: Axis to sort along; None sorts the flattened array.
            kind: Must be None: choose with ``stable``.
            order: Must be None: there are no structured arrays.
            stable: If true, equal elements keep their order.
            descending: If true, sort from large to small.
            dtype: Integer dtype of the indices; by default the default integer type.

        Returns:
            Integer array with the same shape, for ``take_along_axis``.
        """
    def astype(self, dtype: Any, copy: bool = False, device: Any = None) -> Array:
        """Return the array converted to another dtype.

        Args:
            dtype: Dtype of the result; None is the default float type. Floats are truncated towards
                zero when converted to integers.
            copy: If true, the result is a new array even if the dtype stays.
            device: Device or sharding to put the result on.

        Returns:
            Array with the same shape.
        """
    def byteswap(self) -> Array:
        """Return the array with the bytes of each element in reverse order.

        Returns:
            Array with the same shape and dtype.
        """
    def choose(self, choices: Any, out: None = None, mode: str = "raise") -> Array:
        """Return, at each position, the element of the array that an index chooses.

        Args:
            choices: Sequence of arrays that broadcast against the array.
            out: Must be None; arrays are immutable.
            mode: For other indices: "raise" (which needs concrete values), "wrap" or "clip".

        Returns:
            Array of the broadcast shape, in the dtype that the choices promote to.
        """
    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Array:
        """Return the elements limited to the range from ``min`` to ``max``.

        Args:
            min: Lower bound, which broadcasts against the array; None for no bound.
            max: Upper bound, which broadcasts against the array; None for no bound. Where
                ``min > max``, the result is ``max``.

        Returns:
            Array of the broadcast shape, in the dtype that the arguments promote to.
        """
    def compress(
        self,
        condition: Any,
        axis: int | None = None,
        *,
        out: None = None,
        size: int | None = None,
        fill_value: Operand = 0,
    ) -> Array:
        """Return the slices along an axis at which a condition holds.

        Args:
            condition: Boolean vector, at most as long as the axis.
            axis: Axis to select along; None selects from the flattened array.
            out: Must be None; arrays are immutable.
            size: Static number of slices, needed under ``jit``: more are cut off, missing ones
                filled.
            fill_value: What fills missing slices.

        Returns:
            Array with fewer elements, or ``size``, along ``axis``.
        """
    def conj(self) -> Array:
        """Return the complex conjugate; real numbers are returned unchanged.

        Returns:
            Array with the same shape and dtype.
        """
    def conjugate(self) -> Array:
        """Return the complex conjugate; real numbers are returned unchanged.

        Returns:
            Array with the same shape and dtype.
        """
    def copy(self) -> Array:
        """Return a copy of the array.

        Returns:
            New array with the same shape and dtype.
        """
    def cumprod(self, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
        """Return the running products along an axis.

        Args:
            axis: Axis along which to accumulate; by default the flattened array.
            dtype: Dtype to accumulate in and to return. By default that of the array, with booleans
                and narrow integers widened to the default integer.
            out: Must be None; arrays are immutable.

        Returns:
            Array with the same shape, or one-dimensional with ``axis=None``.
        """
    def cumsum(self, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
        """Return the running sums along an axis.

        Args:
            axis: Axis along which to accumulate; by default the flattened array.
            dtype: Dtype to accumulate in and to return. By default that of the array, with booleans
                and narrow integers widened to the default integer.
            out: Must be None; arrays are immutable.

        Returns:
            Array with the same shape, or one-dimensional with ``axis=None``.
        """
    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        """Return a diagonal of a matrix, or of each matrix in the plane of two axes.

        Args:
            offset: Diagonal: 0 is the main one, positive ones lie above, negative ones below.
            axis1: Axis of the rows.
            axis2: Axis of the columns.

        Returns:
            Array without these two axes, with the diagonals along a new last axis.
        """
    def dot(
        self,
        b: Operand,
        *,
        precision: Any = None,
        preferred_element_type: Any = None,
        out_sharding: Any = None,
    ) -> Array:
        """Return the dot product: over the last axis of the array and the second-to-last of ``b``.

        Args:
            b: Array; of a vector the only axis is summed over.
            precision: Precision of the product on accelerators: None, a ``lax.Precision`` or its
                name, or a pair of them for the two operands.
            preferred_element_type: Dtype to accumulate in and to return; by default the promoted
                dtype of the operands.
            out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

        Returns:
            Array of shape ``a.shape[:-1] + b.shape[:-2] + b.shape[-1:]``.
        """
    def flatten(self, order: str = "C", *, out_sharding: Any = None) -> Array:
        """Return the elements of an array as a one-dimensional array.

        Args:
            order: "C" reads elements in row-major order, "F" in column-major order. "K" and "A" are
                not supported.
            out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

        Returns:
            Array of shape ``(a.size,)``.
        """
    def max(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: Operand | None = None,
        where: Any = None,
    ) -> Array:
        """Return the largest element, over all or some axes; NaN if an element is NaN.

        Args:
            axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end.
                A string names an axis mapped by ``vmap`` or ``shard_map``.
            out: Must be None; arrays are immutable.
            keepdims: If true, reduced axes stay with size 1, so that the result broadcasts against
                the array.
            initial: Scalar that takes part in the comparison; required for an empty array and with
                ``where``.
            where: Boolean mask that broadcasts against the array; elements where it is false are
                left out.

        Returns:
            Array without the reduced axes, in the dtype of the array.
        """
    def mean(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        *,
        where: Any = None,
    ) -> Array:
        """Return the arithmetic mean of the elements, over all or some axes.

        Args:
            axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end.
                A string names an axis mapped by ``vmap`` or ``shard_map``.
            dtype: Dtype to compute in and to return. By default that of the array, the default
                float type for integers; float16 and bfloat16 accumulate in float32.
            out: Must be None; arrays are immutable.
            keepdims: If true, reduced axes stay with size 1, so that the result broadcasts against
                the array.
            where: Boolean mask that broadcasts against the array; elements where it is false are
                left out.

        Returns:
            Array without the reduced axes; NaN where there are no elements.
        """
    def min(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: Operand | None = None,
        where: Any = None,
    ) -> Array:
        """Return the smallest element, over all or some axes; NaN if an element is NaN.

        Args:
            axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end.
                A string names an axis mapped by ``vmap`` or ``shard_map``.
            out: Must be None; arrays are immutable.
            keepdims: If true, reduced axes stay with size 1, so that the result broadcasts against
                the array.
            initial: Scalar that takes part in the comparison; required for an empty array and with
                ``where``.
            where: Boolean mask that broadcasts against the array; elements where it is false are
                left out.

        Returns:
            Array without the reduced axes, in the dtype of the array.
        """
    def nonzero(self, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
        """Return the positions of the elements that are not zero.

        Args:
            size: Static number of positions, needed under ``jit``: more are cut off, missing ones
                filled.
            fill_value: Position that fills missing ones, a scalar or one for each axis; 0 by
                default.

        Returns:
            Tuple of integer vectors, one for each axis, in row-major order. ``a[nonzero(a)]`` are
            the elements.
        """
    def prod(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Operand | None = None,
        where: Any = None,
        promote_integers: bool = True,
    ) -> Array:
        """Return the product of the elements, over all or some axes.

        Args:
            axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end.
                A string names an axis mapped by ``vmap`` or ``shard_map``.
            dtype: Dtype to accumulate in and to return. By default that of the array, with booleans
                and narrow integers widened (see ``promote_integers``); float16 and bfloat16
                accumulate in float32.
            out: Must be None; arrays are immutable.
            keepdims: If true, reduced axes stay with size 1, so that the result broadcasts against
                the array.
            initial: Scalar to start from, combined with the result.
            where: Boolean mask that broadcasts against the array; elements where it is false are
                left out.
            promote_integers: If true, booleans and integers narrower than the default integer are
                multiplied in the default width (int32, or int64 with ``enable_x64``); if false, in
                their own dtype.

        Returns:
            Array without the reduced axes; 1 where there are no elements.
        """
    def ptp(self, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
        """Return the range of the elements: the largest minus the smallest.

        Args:
            axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end.
                A string names an axis mapped by ``vmap`` or ``shard_map``.
            out: Must be None; arrays are immutable.
            keepdims: If true, reduced axes stay with size 1, so that the result broadcasts against
                the array.

        Returns:
            Array without the reduced axes, in the dtype of the array.
        """
    def ravel(self, order: str = "C", *, out_sharding: Any = None) -> Array:
        """Return the elements of an array as a one-dimensional array.

        Args:
            order: "C" reads elements in row-major order, "F" in column-major order. "K" and "A" are
                not supported.
            out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

        Returns:
            Array of shape ``(a.size,)``.
        """
    def repeat(
        self,
        repeats: Any,
        axis: int | None = None,
        *,
        total_repeat_length: int | None = None,
        out_sharding: Any = None,
    ) -> Array:
        """Return an array with each element repeated.

        Args:
            repeats: Number of repetitions: one for all, or one for each element along the axis.
            axis: Axis to repeat along; None repeats the elements of the flattened array.
            total_repeat_length: Static sum of the repetitions, needed if ``repeats`` is traced: the
                result is cut or padded with its last element to it.
            out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

        Returns:
            Array that is longer along ``axis``.
        """
    def reshape(self, *args: Any, order: str = "C", out_sharding: Any = None) -> Array:
        """Return the elements of the array with another shape.

        Args:
            *args: New shape, as integers or as one tuple; one size may be -1 and is computed from
                the others.
            order: "C" reads and writes elements in row-major order, "F" in column-major order.
            out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

        Returns:
            Array in the same dtype.
        """
    def round(self, decimals: int = 0, out: None = None) -> Array:
        """Return each element rounded to a number of decimals, ties to the even digit.

        Args:
            decimals: Number of digits after the decimal point; negative numbers round floats to
                tens, hundreds and so on. A static integer.
            out: Must be None.

        Returns:
            Array with the same shape and dtype.
        """
    def searchsorted(
        self, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan"
    ) -> Array:
        """Return where values belong in a sorted array to keep it sorted.

        Args:
            v: Array of values to place.
            side: Among equal elements "left" gives the first position, "right" the one after the
                last.
            sorter: Indices that sort the array, if it isn't sorted.
            method: "scan" (binary search in a loop), "scan_unrolled" (without a loop), "sort"
                (sorts both together) or "compare_all" (compares every pair).

        Returns:
            Integer array with the shape of ``v``, from 0 to ``len(a)``.
        """
    def sort(
        self,
        axis: int | None = -1,
        *,
        kind: None = None,
        order: None = None,
        stable: bool = True,
        descending: bool = False,
    ) -> Array:
        """Return a sorted copy of an array.

        Args:
            axis: Axis to sort along; None sorts the flattened array.
            kind: Must be None: choose with ``stable``.
            order: Must be None: there are no structured arrays.
            stable: If true, equal elements keep their order.
            descending: If true, sort from large to small.

        Returns:
            Array with the same shape and dtype.
        """
    def squeeze(self, axis: Axis = None) -> Array:
        """Return an array without its axes of size 1, or without some of them.

        Args:
            axis: Axis or tuple of axes to remove, each of size 1; by default all axes of size 1.

        Returns:
            Array with the elements of the array and fewer dimensions.
        """
    def std(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        ddof: int = 0,
        keepdims: bool = False,
        *,
        where: Any = None,
        mean: Any = None,
        correction: Any = None,
    ) -> Array:
        """Return the standard deviation of the elements, over all or some axes.

        Args:
            axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end.
                A string names an axis mapped by ``vmap`` or ``shard_map``.
            dtype: Dtype to compute in and to return. By default that of the array, the default
                float type for integers; float16 and bfloat16 accumulate in float32.
            out: Must be None; arrays are immutable.
            ddof: Delta degrees of freedom: the sum of squares is divided by the number of elements
                minus ``ddof``.
            keepdims: If true, reduced axes stay with size 1, so that the result broadcasts against
                the array.
            where: Boolean mask that broadcasts against the array; elements where it is false are
                left out.
            mean: Mean to use instead of computing it, with the shape that ``keepdims=True`` gives.
            correction: Another name of ``ddof`` from the array API standard; give only one of them.

        Returns:
            Real array without the reduced axes: the square root of ``var``.
        """
    def sum(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Operand | None = None,
        where: Any = None,
        promote_integers: bool = True,
    ) -> Array:
        """Return the sum of the elements, over all or some axes.

        Args:
            axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end.
                A string names an axis mapped by ``vmap`` or ``shard_map``.
            dtype: Dtype to accumulate in and to return. By default that of the array, with booleans
                and narrow integers widened (see ``promote_integers``); float16 and bfloat16
                accumulate in float32.
            out: Must be None; arrays are immutable.
            keepdims: If true, reduced axes stay with size 1, so that the result broadcasts against
                the array.
            initial: Scalar to start from, combined with the result.
            where: Boolean mask that broadcasts against the array; elements where it is false are
                left out.
            promote_integers: If true, booleans and integers narrower than the default integer are
                summed in the default width (int32, or int64 with ``enable_x64``); if false, in
                their own dtype.

        Returns:
            Array without the reduced axes; 0 where there are no elements.
        """
    def swapaxes(self, axis1: int, axis2: int) -> Array:
        """Return an array with two axes swapped.

        Args:
            axis1: First axis; negative axes count from the end.
            axis2: Second axis.

        Returns:
            Array with the elements of the array.
        """
    def take(
        self,
        indices: Any,
        axis: int | None = None,
        out: None = None,
        mode: str | None = None,
        unique_indices: bool = False,
        indices_are_sorted: bool = False,
        fill_value: Operand | None = None,
    ) -> Array:
        """Return the elements of an array at given indices along an axis.

        Args:
            indices: Array of integers of any shape; negative ones count from the end.
            axis: Axis to index; None takes from the flattened array.
            out: Must be None; arrays are immutable.
            mode: What an index out of bounds gives: "fill" (the default) ``fill_value``, "clip" the
                nearest element, "wrap" the index modulo the size.
            unique_indices: Your promise that no index occurs twice, which can speed up gradients.
            indices_are_sorted: Your promise that indices ascend.
            fill_value: Value for indices out of bounds with "fill"; by default NaN, the smallest
                signed or largest unsigned integer, or True.

        Returns:
            Array of shape ``a.shape[:axis] + indices.shape + a.shape[axis + 1:]``.
        """
    def to_device(self, device: Any, *, stream: Any = None) -> Array:
        """Return the array on another device.

        Args:
            device: Device or sharding.
            stream: Must be None.

        Returns:
            Array with the same values.
        """
    def trace(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None
    ) -> Array:
        """Return the sum of a diagonal.

        Args:
            offset: Diagonal: 0 is the main one, positive ones lie above, negative ones below. It
                may be traced.
            axis1: Axis of the rows.
            axis2: Axis of the columns.
            dtype: Dtype to sum in and to return; by default that of the array, with narrow integers
                widened.
            out: Must be None.

        Returns:
            Array without these two axes.
        """
    def transpose(self, *args: Any) -> Array:
        """Return the array with its axes permuted, by default reversed.

        Args:
            *args: For each axis of the result, the axis it comes from, as integers or as one tuple.

        Returns:
            Array with permuted axes.
        """
    def var(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        ddof: int = 0,
        keepdims: bool = False,
        *,
        where: Any = None,
        mean: Any = None,
        correction: Any = None,
    ) -> Array:
        """Return the variance of the elements, over all or some axes.

        Args:
            axis: Axis or tuple of axes to reduce; by default all. Negative axes count from the end.
                A string names an axis mapped by ``vmap`` or ``shard_map``.
            dtype: Dtype to compute in and to return. By default that of the array, the default
                float type for integers; float16 and bfloat16 accumulate in float32.
            out: Must be None; arrays are immutable.
            ddof: Delta degrees of freedom: the sum of squares is divided by the number of elements
                minus ``ddof``.
            keepdims: If true, reduced axes stay with size 1, so that the result broadcasts against
                the array.
            where: Boolean mask that broadcasts against the array; elements where it is false are
                left out.
            mean: Mean to use instead of computing it, with the shape that ``keepdims=True`` gives.
            correction: Another name of ``ddof`` from the array API standard; give only one of them.

        Returns:
            Real array without the reduced axes; of complex numbers, the mean of the squared
            distances.
        """
    def view(self, dtype: Any = None, type: None = None) -> Array:
        """Return the bits of the array read as another dtype.

        Args:
            dtype: Dtype of the result. If its width differs, the last axis grows or shrinks
                accordingly.
            type: Must be None.

        Returns:
            Array with the same bits.
        """

class At:
    """``x.at``: indexed, it gives updated copies of an array."""

    def __getitem__(self, index: Any, /) -> Updates: ...

class Updates:
    """``x.at[index]``."""

    def set(
        self,
        values: Operand,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Return a copy with ``values`` written at the index.

        Args:
            values: Array or scalar that broadcasts to the shape of ``x[index]``.
            indices_are_sorted: Your promise that indices ascend.
            unique_indices: Your promise that no element is named twice, which allows faster code.
            mode: "drop" (the default) ignores elements out of bounds, "clip" takes the nearest
                ones, "promise_in_bounds" says that all are inside.
            out_sharding: Sharding of the result, for arrays on meshes with explicit axes.
            wrap_negative_indices: Whether negative indices count from the end.

        Returns:
            Array with the shape and dtype of ``x``, which is not changed.
        """
    def add(
        self,
        values: Operand,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Return a copy with ``values`` added at the index.

        Args:
            values: Array or scalar that broadcasts to the shape of ``x[index]``.
            indices_are_sorted: Your promise that indices ascend.
            unique_indices: Your promise that no element is named twice, which allows faster code.
            mode: "drop" (the default) ignores elements out of bounds, "clip" takes the nearest
                ones, "promise_in_bounds" says that all are inside.
            out_sharding: Sharding of the result, for arrays on meshes with explicit axes.
            wrap_negative_indices: Whether negative indices count from the end.

        Returns:
            Array with the shape and dtype of ``x``, which is not changed.
        """
    def subtract(
        self,
        values: Operand,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Return a copy with ``values`` subtracted at the index.

        Args:
            values: Array or scalar that broadcasts to the shape of ``x[index]``.
            indices_are_sorted: Your promise that indices ascend.
            unique_indices: Your promise that no element is named twice, which allows faster code.
            mode: "drop" (the default) ignores elements out of bounds, "clip" takes the nearest
                ones, "promise_in_bounds" says that all are inside.
            out_sharding: Sharding of the result, for arrays on meshes with explicit axes.
            wrap_negative_indices: Whether negative indices count from the end.

        Returns:
            Array with the shape and dtype of ``x``, which is not changed.
        """
    def multiply(
        self,
        values: Operand,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Return a copy multiplied by ``values`` at the index.

        Args:
            values: Array or scalar that broadcasts to the shape of ``x[index]``.
            indices_are_sorted: Your promise that indices ascend.
            unique_indices: Your promise that no element is named twice, which allows faster code.
            mode: "drop" (the default) ignores elements out of bounds, "clip" takes the nearest
                ones, "promise_in_bounds" says that all are inside.
            out_sharding: Sharding of the result, for arrays on meshes with explicit axes.
            wrap_negative_indices: Whether negative indices count from the end.

        Returns:
            Array with the shape and dtype of ``x``, which is not changed.
        """
    def mul(
        self,
        values: Operand,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Return a copy multiplied by ``values`` at the index.

        Args:
            values: Array or scalar that broadcasts to the shape of ``x[index]``.
            indices_are_sorted: Your promise that indices ascend.
            unique_indices: Your promise that no element is named twice, which allows faster code.
            mode: "drop" (the default) ignores elements out of bounds, "clip" takes the nearest
                ones, "promise_in_bounds" says that all are inside.
            out_sharding: Sharding of the result, for arrays on meshes with explicit axes.
            wrap_negative_indices: Whether negative indices count from the end.

        Returns:
            Array with the shape and dtype of ``x``, which is not changed.
        """
    def divide(
        self,
        values: Operand,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Return a copy divided by ``values`` at the index.

        Args:
            values: Array or scalar that broadcasts to the shape of ``x[index]``.
            indices_are_sorted: Your promise that indices ascend.
            unique_indices: Your promise that no element is named twice, which allows faster code.
            mode: "drop" (the default) ignores elements out of bounds, "clip" takes the nearest
                ones, "promise_in_bounds" says that all are inside.
            out_sharding: Sharding of the result, for arrays on meshes with explicit axes.
            wrap_negative_indices: Whether negative indices count from the end.

        Returns:
            Array with the shape and dtype of ``x``, which is not changed.
        """
    def power(
        self,
        values: Operand,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Return a copy raised to the power ``values`` at the index.

        Args:
            values: Array or scalar that broadcasts to the shape of ``x[index]``.
            indices_are_sorted: Your promise that indices ascend.
            unique_indices: Your promise that no element is named twice, which allows faster code.
            mode: "drop" (the default) ignores elements out of bounds, "clip" takes the nearest
                ones, "promise_in_bounds" says that all are inside.
            out_sharding: Sharding of the result, for arrays on meshes with explicit axes.
            wrap_negative_indices: Whether negative indices count from the end.

        Returns:
            Array with the shape and dtype of ``x``, which is not changed.
        """
    def min(
        self,
        values: Operand,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Return a copy with the smaller of old value and ``values`` at the index.

        Args:
            values: Array or scalar that broadcasts to the shape of ``x[index]``.
            indices_are_sorted: Your promise that indices ascend.
            unique_indices: Your promise that no element is named twice, which allows faster code.
            mode: "drop" (the default) ignores elements out of bounds, "clip" takes the nearest
                ones, "promise_in_bounds" says that all are inside.
            out_sharding: Sharding of the result, for arrays on meshes with explicit axes.
            wrap_negative_indices: Whether negative indices count from the end.

        Returns:
            Array with the shape and dtype of ``x``, which is not changed.
        """
    def max(
        self,
        values: Operand,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Return a copy with the larger of old value and ``values`` at the index.

        Args:
            values: Array or scalar that broadcasts to the shape of ``x[index]``.
            indices_are_sorted: Your promise that indices ascend.
            unique_indices: Your promise that no element is named twice, which allows faster code.
            mode: "drop" (the default) ignores elements out of bounds, "clip" takes the nearest
                ones, "promise_in_bounds" says that all are inside.
            out_sharding: Sharding of the result, for arrays on meshes with explicit axes.
            wrap_negative_indices: Whether negative indices count from the end.

        Returns:
            Array with the shape and dtype of ``x``, which is not changed.
        """
    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        fill_value: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Return the elements ``x[index]``, with a choice of what happens out of bounds.

        Args:
            indices_are_sorted: Your promise that indices ascend.
            unique_indices: Your promise that no element is named twice.
            mode: "fill" returns ``fill_value`` out of bounds, "clip" the nearest element,
                "promise_in_bounds" (the default) says that all are inside.
            fill_value: Value for "fill"; by default NaN, the smallest signed or largest unsigned
                integer, or True.
            out_sharding: Sharding of the result, for arrays on meshes with explicit axes.
            wrap_negative_indices: Whether negative indices count from the end.

        Returns:
            Array of the elements.
        """
    def apply(
        self,
        func: Callable[[Any], Any],
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Return a copy with a function applied to the elements at the index.

        Args:
            func: Function of an array, applied elementwise; to an element that is named twice,
                twice.
            indices_are_sorted: Your promise that indices ascend.
            unique_indices: Your promise that no element is named twice.
            mode: "drop" (the default) ignores elements out of bounds, "clip" takes the nearest
                ones, "promise_in_bounds" says that all are inside.
            wrap_negative_indices: Whether negative indices count from the end.

        Returns:
            Array with the shape and dtype of ``x``. It can't be differentiated.
        """
