"""Changing shapes: reshaping, permuting, joining, splitting, tiling, flipping."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, overload

import numpy as np

from weft import lax
from weft.api.batching import vmap
from weft.api.placement import resharded, result_sharding
from weft.base.errors import InconclusiveDimensionOperation, located
from weft.core.array import Array
from weft.core.dims.dim import is_constant_shape, whole
from weft.core.trace import loosely
from weft.lax.shape import canonical_axis, canonical_shape, integer_axis
from weft.numpy.creation import array, asarray
from weft.numpy.promotion import (
    as_array,
    check_arraylike,
    concrete,
    ensure_array,
    ensure_arrays,
    promote_dtypes,
    refuse_out,
)

_ARRAYS = (Array, np.ndarray)


def axis_tuple(axis: Any) -> tuple[int, ...]:
    """One axis or several as a tuple of integers."""
    if isinstance(axis, Iterable) and np.ndim(axis):
        return tuple(integer_axis(i) for i in axis)
    return (integer_axis(axis),)


# --- sizes ----------------------------------------------------------------------------------------


def _described(name: str, a: Any) -> Any:
    check_arraylike(name, a, emit_warning=True)
    return a.__jax_array__() if hasattr(a, "__jax_array__") else a


def shape(a: Any) -> tuple[int, ...]:
    """Return the shape of an array as a tuple of integers.

    Args:
        a: Array, scalar or nested sequence of numbers; traced arrays have a shape too.

    Returns:
        Tuple with the size of each axis; ``()`` for a scalar.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.shape(jnp.ones((2, 3)))
        (2, 3)
    """
    return a.shape if hasattr(a, "shape") else np.shape(_described("shape", a))


def ndim(a: Any) -> int:
    """Return the number of dimensions of an array.

    Args:
        a: Array, scalar or nested sequence of numbers.

    Returns:
        Python integer; 0 for a scalar.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.ndim(jnp.ones((2, 3)))
        2
    """
    return a.ndim if hasattr(a, "ndim") else np.ndim(_described("ndim", a))


def size(a: Any, axis: Any = None) -> int:
    """Return the number of elements of an array, in all or along some axes.

    Args:
        a: Array, scalar or nested sequence of numbers.
        axis: Axis or tuple of axes to count along; by default all.

    Returns:
        Python integer: the product of the sizes of these axes.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.size(jnp.ones((2, 3)))
        6
    """
    sizes = shape(a)
    if axis is None:
        return prod(sizes)
    places = [canonical_axis(i, len(sizes)) for i in axis_tuple(axis)]
    if len(set(places)) != len(places):
        raise ValueError(f"duplicate value in axis: {axis}")
    return prod(sizes[i] for i in places)


# --- reshaping ------------------------------------------------------------------------------------


def resolve_sizes(have: tuple[int, ...], wanted: Any) -> tuple[int, ...]:
    """A shape for as many elements, with one -1 replaced by the size that fits."""
    sizes = canonical_shape(wanted)
    total = prod(have)
    unknown = sizes.count(-1)
    if unknown > 1:
        raise TypeError(f"reshape can infer one size only, got {sizes}")
    rest = prod(n for n in sizes if n != -1)
    if unknown:
        if rest and total % rest == 0:
            return tuple(total // rest if n == -1 else n for n in sizes)
        if rest == 0 and total == 0:
            return tuple(0 if n == -1 else n for n in sizes)
    elif rest == total:
        return sizes
    message = (
        f"cannot reshape an array of shape {have} ({total} elements) into {sizes} ({rest} elements)"
    )
    if unknown and not is_constant_shape((total, rest)):
        raise InconclusiveDimensionOperation(
            located(f"{message} for all values of the dimensions", "Make the size a multiple.")
        )
    raise TypeError(message)


def reshape(
    a: Any, shape: Any, order: str = "C", *, copy: bool | None = None, out_sharding: Any = None
) -> Array:
    """Return the elements of an array with another shape.

    Args:
        a: Array with as many elements as ``shape`` has.
        shape: New shape, an integer or a tuple of integers; one of them may be -1 and is computed
            from the others.
        order: "C" reads and writes elements in row-major order, "F" in column-major order. "A" is
            not supported.
        copy: Ignored; arrays are immutable, so whether memory is shared can't be seen.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Array of shape ``shape`` in the dtype of ``a``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.reshape(jnp.arange(6), (2, -1)).shape
        (2, 3)
    """
    x = ensure_array("reshape", a)
    sizes = resolve_sizes(x.shape, shape)
    if order == "C":
        return lax.reshape(x, sizes, out_sharding=out_sharding)
    if order == "F":
        if out_sharding is not None:
            where = result_sharding(out_sharding, "reshape")
            with loosely():
                found = reshape(x, sizes, order)
            return found if where is None else resharded(found, where)
        flipped = lax.reshape(x, sizes[::-1], range(x.ndim)[::-1])
        return lax.transpose(flipped, range(len(sizes))[::-1])
    if order == "A":
        raise NotImplementedError("order='A' is not supported; write order='C' or order='F'")
    raise ValueError(f"order must be 'C' or 'F', got {order!r}")


def ravel(a: Any, order: str = "C", *, out_sharding: Any = None) -> Array:
    """Return the elements of an array as a one-dimensional array.

    Args:
        a: Array of any shape.
        order: "C" reads elements in row-major order, "F" in column-major order. "K" and "A" are not
            supported.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Array of shape ``(a.size,)``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.ravel(jnp.ones((2, 3))).shape
        (6,)
    """
    x = ensure_array("ravel", a)
    if order == "K":
        raise NotImplementedError("order='K' is not supported; write order='C' or order='F'")
    return reshape(x, (x.size,), order, out_sharding=out_sharding)


def expand_dims(a: Any, axis: Any) -> Array:
    """Return an array with new axes of size 1.

    Args:
        a: Array of any shape.
        axis: Position or positions of the new axes in the result; negative positions count from its
            end.

    Returns:
        Array with the elements of ``a`` and one dimension more for each new axis.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.expand_dims(jnp.ones(3), 0).shape
        (1, 3)
    """
    return lax.expand_dims(ensure_array("expand_dims", a), axis_tuple(axis))


def squeeze(a: Any, axis: Any = None) -> Array:
    """Return an array without its axes of size 1, or without some of them.

    Args:
        a: Array of any shape.
        axis: Axis or tuple of axes to remove, each of size 1; by default all axes of size 1.

    Returns:
        Array with the elements of ``a`` and fewer dimensions.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.squeeze(jnp.ones((1, 3))).shape
        (3,)
    """
    x = ensure_array("squeeze", a)
    if axis is None:
        if not is_constant_shape(x.shape):
            raise ValueError(
                f"squeeze without an axis depends on which sizes of {x.shape} are 1; name the "
                "axes to remove"
            )
        return lax.squeeze(x, tuple(i for i, n in enumerate(x.shape) if n == 1))
    return lax.squeeze(x, axis_tuple(axis))


# --- permuting ------------------------------------------------------------------------------------


def transpose(a: Any, axes: Any = None) -> Array:
    """Return an array with its axes permuted, by default reversed.

    Args:
        a: Array of any shape.
        axes: For each axis of the result, the axis of ``a`` it comes from; None reverses all.

    Returns:
        Array of shape ``tuple(a.shape[i] for i in axes)``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.transpose(jnp.ones((2, 3))).shape
        (3, 2)
    """
    x = ensure_array("transpose", a)
    n = x.ndim
    if axes is None:
        return lax.transpose(x, range(n)[::-1])
    return lax.transpose(x, [canonical_axis(i, n) for i in axes])


def permute_dims(a: Any, /, axes: tuple[int, ...]) -> Array:
    """Return an array with its axes permuted.

    Args:
        a: Array of any shape.
        axes: For each axis of the result, the axis of ``a`` it comes from.

    Returns:
        Array of shape ``tuple(a.shape[i] for i in axes)``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.permute_dims(jnp.ones((2, 3)), (1, 0)).shape
        (3, 2)
    """
    return lax.transpose(ensure_array("permute_dims", a), axes)


def matrix_transpose(x: Any, /) -> Array:
    """Return an array with its last two axes swapped.

    Args:
        x: Array of at least two dimensions, a stack of matrices.

    Returns:
        Array of shape ``(..., n, m)`` for ``x`` of shape ``(..., m, n)``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.matrix_transpose(jnp.ones((4, 2, 3))).shape
        (4, 3, 2)
    """
    x = ensure_array("matrix_transpose", x)
    n = x.ndim
    if n < 2:
        raise ValueError(f"matrix_transpose needs at least two dimensions, got shape {x.shape}")
    return lax.transpose(x, (*range(n - 2), n - 1, n - 2))


def swapaxes(a: Any, axis1: int, axis2: int) -> Array:
    """Return an array with two axes swapped.

    Args:
        a: Array of any shape.
        axis1: First axis; negative axes count from the end.
        axis2: Second axis.

    Returns:
        Array with the elements of ``a``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.swapaxes(jnp.ones((2, 3, 4)), 0, 2).shape
        (4, 3, 2)
    """
    x = ensure_array("swapaxes", a)
    order = list(range(x.ndim))
    i, j = canonical_axis(axis1, x.ndim), canonical_axis(axis2, x.ndim)
    order[i], order[j] = j, i
    return lax.transpose(x, order)


def moveaxis(a: Any, source: Any, destination: Any) -> Array:
    """Return an array with some axes moved to new positions, the others in their order.

    Args:
        a: Array of any shape.
        source: Axis or sequence of axes to move.
        destination: Where each of them goes in the result; as many as ``source``.

    Returns:
        Array with the elements of ``a``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.moveaxis(jnp.ones((2, 3, 4)), 0, -1).shape
        (3, 4, 2)
    """
    x = ensure_array("moveaxis", a)
    sources = [canonical_axis(i, x.ndim) for i in axis_tuple(source)]
    places = [canonical_axis(i, x.ndim) for i in axis_tuple(destination)]
    if len(sources) != len(places):
        raise ValueError(
            f"moveaxis needs as many sources as destinations, got {source} and {destination}"
        )
    order = [i for i in range(x.ndim) if i not in sources]
    for place, i in sorted(zip(places, sources, strict=True)):
        order.insert(place, i)
    return lax.transpose(x, order)


def rollaxis(a: Any, axis: int, start: int = 0) -> Array:
    """Return an array with one axis moved in front of another position.

    Args:
        a: Array of any shape.
        axis: Axis to move.
        start: The axis goes before the axis that is at this position; ``a.ndim`` moves it to the
            end.

    Returns:
        Array with the elements of ``a``. ``moveaxis`` is easier to read.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.rollaxis(jnp.ones((2, 3, 4)), 2).shape
        (4, 2, 3)
    """
    x = ensure_array("rollaxis", a)
    n = x.ndim
    axis = canonical_axis(axis, n)
    start = operator.index(start)
    if not -n <= start <= n:
        raise ValueError(f"start must lie between {-n} and {n}, got {start}")
    start = start + n if start < 0 else start
    return moveaxis(x, axis, start - 1 if start > axis else start)


def flip(m: Any, axis: Any = None) -> Array:
    """Return an array with its elements reversed along some axes.

    Args:
        m: Array of any shape.
        axis: Axis or tuple of axes to reverse; by default all.

    Returns:
        Array with the shape and dtype of ``m``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.flip(jnp.arange(3))
        Array([2, 1, 0], dtype=int32)
    """
    x = ensure_array("flip", m)
    axes = range(x.ndim) if axis is None else axis_tuple(axis)
    return lax.rev(x, [canonical_axis(i, x.ndim) for i in axes])


def fliplr(m: Any) -> Array:
    """Return an array with its columns in reverse order.

    Args:
        m: Array of at least two dimensions; axis 1 is reversed.

    Returns:
        Array with the shape and dtype of ``m``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.fliplr(jnp.array([[1, 2]]))
        Array([[2, 1]], dtype=int32)
    """
    return flip(m, 1)


def flipud(m: Any) -> Array:
    """Return an array with its rows in reverse order.

    Args:
        m: Array of at least one dimension; axis 0 is reversed.

    Returns:
        Array with the shape and dtype of ``m``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.flipud(jnp.arange(2))
        Array([1, 0], dtype=int32)
    """
    return flip(m, 0)


def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Return an array rotated by multiples of 90 degrees in the plane of two axes.

    Args:
        m: Array of at least two dimensions.
        k: Number of quarter turns, counter-clockwise; negative turns clockwise.
        axes: The two axes of the plane; the rotation goes from the first towards the second.

    Returns:
        Array with the elements of ``m``; the two axes are swapped for odd ``k``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.rot90(jnp.array([[1, 2], [3, 4]]))
        Array([[2, 4],
               [1, 3]], dtype=int32)
    """
    x = ensure_array("rot90", m)
    if x.ndim < 2:
        raise ValueError(f"rot90 needs an array of at least two dimensions, got shape {x.shape}")
    first, second = (canonical_axis(i, x.ndim) for i in axes)
    if first == second:
        raise ValueError(f"rot90 needs two different axes, got {axes}")
    turns = operator.index(k) % 4
    if turns == 0:
        return x
    if turns == 2:
        return flip(flip(x, first), second)
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    if turns == 1:
        return lax.transpose(flip(x, second), order)
    return flip(lax.transpose(x, order), second)


# --- joining --------------------------------------------------------------------------------------


def _same_dtypes(arrays: Sequence[Any], dtype: Any) -> list[Any]:
    if dtype is None:
        return [as_array(x) for x in promote_dtypes(*arrays)]
    return [asarray(x, dtype) for x in arrays]


def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Array:
    """Return arrays joined along an existing axis.

    Args:
        arrays: Sequence of arrays whose shapes agree except along ``axis``, or one array, whose
            slices along the first axis are joined.
        axis: Existing axis to join along; None joins the flattened arrays.
        dtype: Dtype of the result; by default the one that all arrays promote to.

    Returns:
        Array whose size along ``axis`` is the sum of the arrays' sizes.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.concatenate([jnp.arange(2), jnp.arange(1)])
        Array([0, 1, 0], dtype=int32)
    """
    if isinstance(arrays, _ARRAYS):
        return _concatenate_rows(asarray(arrays, dtype), axis)
    parts = ensure_arrays("concatenate", *arrays)
    if not parts:
        raise ValueError("concatenate needs at least one array")
    if axis is None:
        return concatenate([ravel(x) for x in parts], 0, dtype)
    if parts[0].ndim == 0:
        raise ValueError("zero-dimensional arrays cannot be concatenated; use jnp.stack")
    place = canonical_axis(axis, parts[0].ndim)
    return lax.concatenate(_same_dtypes(parts, dtype), place)


def _concatenate_rows(x: Any, axis: int | None) -> Any:
    """The slices of one array along its first axis, joined along another: a reshape."""
    if x.ndim == 0:
        raise ValueError("concatenate takes a sequence of arrays, got one array without axes")
    if x.shape[0] == 0:
        raise ValueError("concatenate needs at least one array")
    if axis is None:
        return lax.reshape(x, (x.size,))
    if x.ndim == 1:
        raise ValueError("zero-dimensional arrays cannot be concatenated; use jnp.stack")
    place = canonical_axis(axis, x.ndim - 1)
    sizes = x.shape
    merged = (*sizes[1 : place + 1], sizes[0] * sizes[place + 1], *sizes[place + 2 :])
    order = (*range(1, place + 1), 0, *range(place + 1, x.ndim))
    return lax.reshape(x, merged, order)


def concat(arrays: Any, /, *, axis: int | None = 0) -> Array:
    """Return arrays joined along an existing axis, in the dtype they promote to.

    Args:
        arrays: Sequence of arrays whose shapes agree except along ``axis``, or one array, whose
            slices along the first axis are joined.
        axis: Existing axis to join along; None joins the flattened arrays.

    Returns:
        Array whose size along ``axis`` is the sum of the arrays' sizes.

    The name from the array API standard for ``concatenate``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.concat([jnp.arange(2), jnp.arange(1)])
        Array([0, 1, 0], dtype=int32)
    """
    if getattr(arrays, "ndim", None) == 0:
        raise TypeError("concat takes a sequence of arrays, got one array without axes")
    return concatenate(arrays, axis)


def stack(arrays: Any, axis: int = 0, out: None = None, dtype: Any = None) -> Array:
    """Return arrays of one shape joined along a new axis.

    Args:
        arrays: Sequence of arrays of the same shape, or one array, whose slices along the first
            axis are stacked.
        axis: Position of the new axis in the result.
        out: Must be None; arrays are immutable.
        dtype: Dtype of the result; by default the one that all arrays promote to.

    Returns:
        Array with one dimension more than each of ``arrays``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.stack([jnp.arange(2), jnp.arange(2)])
        Array([[0, 1],
               [0, 1]], dtype=int32)
    """
    if not len(arrays):
        raise ValueError("stack needs at least one array")
    refuse_out("stack", out)
    if isinstance(arrays, _ARRAYS):
        x = as_array(arrays)
        place = canonical_axis(axis, x.ndim)
        return concatenate(expand_dims(x, place + 1), place, dtype)
    parts = ensure_arrays("stack", *arrays)
    shapes = [x.shape for x in parts]
    if len(set(shapes)) > 1:
        raise ValueError(f"stack needs arrays of one shape, got {', '.join(map(str, shapes))}")
    return lax.stack(_same_dtypes(parts, dtype), canonical_axis(axis, parts[0].ndim + 1))


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Return the slices of an array along an axis, as a tuple.

    Args:
        x: Array of at least one dimension.
        axis: Axis to take apart; it is missing in the slices.

    Returns:
        Tuple of ``x.shape[axis]`` arrays.

    Example:
        >>> import weft.numpy as jnp
        >>> len(jnp.unstack(jnp.arange(3)))
        3
    """
    x = ensure_array("unstack", x)
    if x.ndim == 0:
        raise ValueError("unstack needs an array of at least one dimension")
    return tuple(lax.unstack(x, axis))


@overload
def atleast_1d(ary: Any, /) -> Array: ...
@overload
def atleast_1d(*arys: Any) -> list[Array]: ...
def atleast_1d(*arys: Any) -> Array | list[Array]:
    """Return arrays with at least one dimension; scalars get shape (1,).

    Args:
        *arys: Arrays or scalars.

    Returns:
        One array for one argument, else a list of arrays.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.atleast_1d(1.0).shape
        (1,)
    """
    return _at_least("atleast_1d", arys, lambda x: array(x, copy=False, ndmin=1))


@overload
def atleast_2d(ary: Any, /) -> Array: ...
@overload
def atleast_2d(*arys: Any) -> list[Array]: ...
def atleast_2d(*arys: Any) -> Array | list[Array]:
    """Return arrays with at least two dimensions, with new axes in front.

    Args:
        *arys: Arrays or scalars.

    Returns:
        One array for one argument, else a list of arrays.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.atleast_2d(jnp.ones(3)).shape
        (1, 3)
    """
    return _at_least("atleast_2d", arys, lambda x: array(x, copy=False, ndmin=2))


@overload
def atleast_3d(ary: Any, /) -> Array: ...
@overload
def atleast_3d(*arys: Any) -> list[Array]: ...
def atleast_3d(*arys: Any) -> Array | list[Array]:
    """Return arrays with at least three dimensions.

    Args:
        *arys: Arrays or scalars.

    Returns:
        One array for one argument, else a list of arrays.

    A vector of size n becomes (1, n, 1), a matrix (m, n) becomes (m, n, 1).

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.atleast_3d(jnp.ones(3)).shape
        (1, 3, 1)
    """
    places = {0: (0, 1, 2), 1: (0, 2), 2: (2,)}

    def lift(x: Any) -> Any:
        return x if x.ndim >= 3 else lax.expand_dims(x, places[x.ndim])

    return _at_least("atleast_3d", arys, lift)


def _at_least(name: str, arrays: Any, lift: Any) -> Any:
    lifted = [lift(x) for x in ensure_arrays(name, *arrays)]
    return lifted[0] if len(lifted) == 1 else lifted


def _lifted(name: str, tup: Any, lift: Callable[[Any], Any]) -> tuple[Any, int]:
    """The arrays of a sequence, or the slices of one array, with their rank raised; that rank."""
    if isinstance(tup, _ARRAYS):
        x = vmap(lift)(as_array(tup))
        return x, x.ndim - 1
    parts = [lift(x) for x in ensure_arrays(name, *tup)]
    return parts, parts[0].ndim if parts else 0


def vstack(tup: Any, dtype: Any = None) -> Array:
    """Return arrays joined along the first axis, vectors as rows.

    Args:
        tup: Sequence of arrays, or one array, whose slices along the first axis are joined.
        dtype: Dtype of the result; by default the one that all arrays promote to.

    Returns:
        Array of at least two dimensions.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.vstack([jnp.arange(2), jnp.arange(2)]).shape
        (2, 2)
    """
    return concatenate(_lifted("vstack", tup, atleast_2d)[0], 0, dtype)


def hstack(tup: Any, dtype: Any = None) -> Array:
    """Return arrays joined along the second axis; vectors along their only axis.

    Args:
        tup: Sequence of arrays, or one array, whose slices along the first axis are joined.
        dtype: Dtype of the result; by default the one that all arrays promote to.

    Returns:
        Array of at least one dimension.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.hstack([jnp.arange(2), jnp.arange(2)]).shape
        (4,)
    """
    parts, rank = _lifted("hstack", tup, atleast_1d)
    return concatenate(parts, 0 if rank == 1 else 1, dtype)


def dstack(tup: Any, dtype: Any = None) -> Array:
    """Return arrays joined along the third axis.

    Args:
        tup: Sequence of arrays, or one array, whose slices along the first axis are joined.
        dtype: Dtype of the result; by default the one that all arrays promote to.

    Returns:
        Array of at least three dimensions.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.dstack([jnp.arange(2), jnp.arange(2)]).shape
        (1, 2, 2)
    """
    return concatenate(_lifted("dstack", tup, atleast_3d)[0], 2, dtype)


def column_stack(tup: Any) -> Array:
    """Return a matrix with the given vectors as columns.

    Args:
        tup: Sequence of vectors, which become columns, and of matrices with as many rows.

    Returns:
        Array of two dimensions.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.column_stack([jnp.arange(3), jnp.arange(3)]).shape
        (3, 2)
    """

    def column(x: Any) -> Any:
        return x if x.ndim >= 2 else transpose(atleast_2d(x))

    return concatenate(_lifted("column_stack", tup, column)[0], 1)


def block(arrays: Any) -> Array:
    """Return an array assembled from nested lists of blocks.

    Args:
        arrays: Array, or nested lists of arrays: the innermost lists are joined along the last
            axis, the next along the one before it, and so on. Only lists may nest, not tuples.

    Returns:
        Array in the dtype that all blocks promote to.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.block([[jnp.ones((1, 1)), jnp.zeros((1, 2))], [jnp.zeros((1, 3))]]).shape
        (2, 3)
    """
    return _block(arrays)[0]


def _block(blocks: Any) -> tuple[Any, int]:
    """The array of a nested list, and the axis from the end that its parent joins along."""
    if isinstance(blocks, tuple):
        raise ValueError(f"block takes nested lists, not tuples: {blocks}")
    if not isinstance(blocks, list):
        return asarray(blocks), 1
    if not blocks:
        raise ValueError("block does not take empty lists")
    parts, depths = zip(*(_block(b) for b in blocks), strict=True)
    if len(set(depths)) > 1:
        raise ValueError("block needs lists nested to one depth")
    rank = max(depths[0], *(x.ndim for x in parts))
    lifted = [lax.broadcast(x, (1,) * (rank - x.ndim)) if x.ndim < rank else x for x in parts]
    return concatenate(lifted, -depths[0]), depths[0] + 1


def append(arr: Any, values: Any, axis: int | None = None) -> Array:
    """Return an array with values joined to its end.

    Args:
        arr: Array to append to.
        values: Array to append; its shape must fit that of ``arr`` if ``axis`` is given.
        axis: Axis to join along; None flattens both.

    Returns:
        New array; ``arr`` is not changed.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.append(jnp.arange(2), 7)
        Array([0, 1, 7], dtype=int32)
    """
    if axis is None:
        return concatenate([ravel(arr), ravel(values)], 0)
    return concatenate([arr, values], axis)


# --- splitting and repeating ----------------------------------------------------------------------


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Return a list of the parts of an array: equal parts, or cut at given indices.

    Args:
        ary: Array to cut.
        indices_or_sections: Number of parts, which must divide the size of the axis, or a sequence
            of indices at which to cut. Must be static.
        axis: Axis to cut.

    Returns:
        List of arrays, which together hold the elements of ``ary``.

    Example:
        >>> import weft.numpy as jnp
        >>> [x.shape for x in jnp.split(jnp.arange(6), 3)]
        [(2,), (2,), (2,)]
    """
    return _split("split", ary, indices_or_sections, axis)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Return a list of the parts of an array, of sizes that differ by at most one.

    Args:
        ary: Array to cut.
        indices_or_sections: Number of parts (the first ones are longer if it doesn't divide the
            size), or a sequence of indices at which to cut. Must be static.
        axis: Axis to cut.

    Returns:
        List of arrays, which together hold the elements of ``ary``.

    Example:
        >>> import weft.numpy as jnp
        >>> [x.shape for x in jnp.array_split(jnp.arange(5), 2)]
        [(3,), (2,)]
    """
    return _split("array_split", ary, indices_or_sections, axis)


def _split(name: str, ary: Any, places: Any, axis: int) -> list[Array]:
    x = ensure_array(name, ary)
    axis = canonical_axis(concrete(axis, f"{name} needs a concrete axis"), x.ndim)
    total = x.shape[axis]
    if np.ndim(places):
        why = f"{name} needs concrete places to split at"
        ends = [whole(concrete(i, why)) for i in concrete(places, why)]
        bounds = [0, *ends, total]
        sizes = [high - low for low, high in itertools.pairwise(bounds)]
        return list(lax.split(x, sizes, axis))
    parts = int(concrete(places, f"{name} needs a concrete number of sections"))
    each, extra = divmod(total, parts)
    if extra and name != "array_split":
        raise ValueError(
            f"{name} cannot split an axis of size {total} into {parts} equal parts; use array_split"
        )
    return list(lax.split(x, [each + 1] * extra + [each] * (parts - extra), axis))


def hsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """Return the parts of an array cut along the second axis; vectors along their only axis.

    Args:
        ary: Array to cut.
        indices_or_sections: Number of equal parts, or a sequence of indices at which to cut. Must
            be static.

    Returns:
        List of arrays, which together hold the elements of ``ary``.

    Example:
        >>> import weft.numpy as jnp
        >>> len(jnp.hsplit(jnp.ones((2, 4)), 2))
        2
    """
    x = ensure_array("hsplit", ary)
    return _split("hsplit", x, indices_or_sections, 0 if x.ndim == 1 else 1)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """Return the parts of an array cut along the first axis.

    Args:
        ary: Array to cut.
        indices_or_sections: Number of equal parts, or a sequence of indices at which to cut. Must
            be static.

    Returns:
        List of arrays, which together hold the elements of ``ary``.

    Example:
        >>> import weft.numpy as jnp
        >>> len(jnp.vsplit(jnp.ones((2, 4)), 2))
        2
    """
    return _split("vsplit", ary, indices_or_sections, 0)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """Return the parts of an array cut along the third axis.

    Args:
        ary: Array to cut.
        indices_or_sections: Number of equal parts, or a sequence of indices at which to cut. Must
            be static.

    Returns:
        List of arrays, which together hold the elements of ``ary``.

    Example:
        >>> import weft.numpy as jnp
        >>> len(jnp.dsplit(jnp.ones((1, 2, 4)), 2))
        2
    """
    return _split("dsplit", ary, indices_or_sections, 2)


def tile(A: Any, reps: Any) -> Array:
    """Return an array repeated along its axes.

    Args:
        A: Array or scalar to repeat.
        reps: Number of repetitions for each axis, aligned at the last; the shorter of ``reps`` and
            ``A.shape`` is extended with 1 in front. Must be static.

    Returns:
        Array with each size multiplied by its number of repetitions.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.tile(jnp.arange(2), 2)
        Array([0, 1, 0, 1], dtype=int32)
    """
    x = ensure_array("tile", A)
    counts = canonical_shape(reps)
    counts = (1,) * (x.ndim - len(counts)) + counts
    if len(counts) > x.ndim:
        x = lax.expand_dims(x, range(len(counts) - x.ndim))
    return lax.tile(x, counts)


def resize(a: Any, new_shape: Any) -> Array:
    """Return an array of another shape, filled with the elements of ``a`` over and over.

    Args:
        a: Array whose elements are read in row-major order.
        new_shape: Shape of the result, an integer or a tuple of integers.

    Returns:
        Array of shape ``new_shape``; zeros if ``a`` is empty.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.resize(jnp.arange(2), (3,))
        Array([0, 1, 0], dtype=int32)
    """
    x = ravel(ensure_array("resize", a))
    sizes = axis_tuple(new_shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"resize needs non-negative sizes, got {sizes}")
    total = prod(sizes)
    if x.size == 0 or total == 0:
        return lax.full(sizes, 0, x.dtype)
    repeated = tile(x, -(-total // x.size))
    return reshape(lax.slice(repeated, (0,), (total,)), sizes)
