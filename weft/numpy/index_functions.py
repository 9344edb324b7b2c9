"""NumPy's functions that select by indices and conditions: take, put, choose, select and kin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.base import errors
from weft.core.array import Array, Setting, Whole
from weft.core.dims.dim import exceeds, min_dim
from weft.core.trace import Tracer
from weft.lax.shape import broadcast_for, canonical_axis
from weft.numpy.index_plan import chosen, index_dtype
from weft.numpy.indexing import getitem, update_index
from weft.numpy.positions import (
    boxed,
    clipped_to,
    flattened,
    full,
    nonzero,
    to_shape,
    unravel_index,
)
from weft.numpy.promotion import beside, concrete, convert_operand, ensure_array
from weft.prims.convert import convert
from weft.prims.families import const
from weft.prims.index import gather as _gather
from weft.prims.index_dims import GatherDimensionNumbers, GatherScatterMode

Mode = str | GatherScatterMode | None
# Choices up to which all are read to take one.
_FEW = 8


# --- taking and putting ---------------------------------------------------------------------------


def take(
    a: Any,
    indices: Whole,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Setting = None,
) -> Array:
    """Return the elements of an array at given indices along an axis.

    Args:
        a: Array to take from.
        indices: Array of integers of any shape; negative ones count from the end.
        axis: Axis to index; None takes from the flattened array.
        out: Must be None; arrays are immutable.
        mode: What an index out of bounds gives: "fill" (the default) ``fill_value``, "clip" the
            nearest element, "wrap" the index modulo the size.
        unique_indices: Your promise that no index occurs twice, which can speed up gradients.
        indices_are_sorted: Your promise that indices ascend.
        fill_value: Value for indices out of bounds with "fill"; by default NaN, the smallest signed
            or largest unsigned integer, or True.

    Returns:
        Array of shape ``a.shape[:axis] + indices.shape + a.shape[axis + 1:]``.

    Differs from NumPy: an index out of bounds gives no error; ``mode="raise"`` is not supported.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.take(jnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), jnp.array([2, 0]), axis=1)
        Array([[3., 1.],
               [6., 4.]], dtype=float32)
    """
    _refuse_out("take", out)
    a, indices = ensure_array("take", a), ensure_array("take", indices)
    if axis is None:
        a, axis = flattened(a), 0
    axis = canonical_axis(axis, a.ndim)
    size = a.shape[axis]
    gather_mode = "fill" if mode is None else mode
    if gather_mode == "fill":
        if indices.dtype == np.bool_:
            indices = convert(indices, dtypes.default_int_dtype())
        indices = lax.select(
            lax.lt(indices, const(indices, 0)), lax.add(indices, const(indices, size)), indices
        )
    elif gather_mode == "wrap":
        indices, gather_mode = indices % size, "promise_in_bounds"
    elif gather_mode == "raise":
        raise NotImplementedError(
            "take cannot raise for indices out of bounds; use mode='fill', 'clip' or 'wrap'"
        )
    elif gather_mode != "clip":
        raise ValueError(f"Invalid mode {mode!r} for take; choose 'fill', 'clip' or 'wrap'")
    if not size:
        if indices.size:
            raise IndexError("take cannot select from an axis of size 0")
        return a
    if not indices.size:
        shape = a.shape[:axis] + indices.shape + a.shape[axis + 1 :]
        return convert_operand(full(shape, 0, a.dtype), a.dtype, a.weak_type)
    after = range(axis + indices.ndim, a.ndim + indices.ndim - 1)
    numbers = GatherDimensionNumbers((*range(axis), *after), (axis,), (axis,))
    return _gather(
        a,
        lax.expand_dims(indices, (indices.ndim,)),
        numbers,
        (*a.shape[:axis], 1, *a.shape[axis + 1 :]),
        mode=gather_mode if mode is None else GatherScatterMode.asked(gather_mode),
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
        fill_value=fill_value,
    )


def take_along_axis(
    arr: Any,
    indices: Any,
    axis: int | None = -1,
    mode: Mode = None,
    fill_value: Setting = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Array:
    """Return, at each position of the other axes, the elements at that position's own indices.

    Args:
        arr: Array to take from.
        indices: Array of integers with as many dimensions as ``arr``, such as from ``argsort``; the
            other axes broadcast.
        axis: Axis to index; None indexes the flattened array.
        mode: As for ``take``; also "promise_in_bounds" and "one_hot", which multiplies with a
            one-hot matrix.
        fill_value: Value for indices out of bounds; by default as for ``take``.
        wrap_negative_indices: Whether negative indices count from the end; by default yes, but for
            "promise_in_bounds".

    Returns:
        Array of the shape of ``indices``, broadcast along the other axes.

    Example:
        >>> import weft.numpy as jnp
        >>> x = jnp.array([[5, 3, 4], [2, 7, 6]])
        >>> jnp.take_along_axis(x, jnp.array([[1], [0]]), axis=1)
        Array([[3],
               [2]], dtype=int32)
    """
    a, indices = ensure_array("take_along_axis", arr), ensure_array("take_along_axis", indices)
    if not dtypes.issubdtype(indices.dtype, np.integer):
        raise TypeError(
            f"take_along_axis needs indices of an integer dtype, got {indices.aval.str_short()}"
        )
    if axis is None:
        if indices.ndim != 1:
            raise ValueError(
                f"take_along_axis with axis=None needs a vector of indices, got {indices.shape}"
            )
        a, axis = flattened(a), 0
    if a.ndim != indices.ndim:
        raise ValueError(
            "take_along_axis needs an array and indices with the same number of axes, got shapes "
            f"{a.shape} and {indices.shape}"
        )
    axis = canonical_axis(axis, a.ndim)
    size = a.shape[axis]
    others = (*a.shape[:axis], 1, *a.shape[axis + 1 :])
    out_shape = broadcast_for("take_along_axis", indices.shape, others)
    if not size:
        return full(out_shape, 0, a.dtype)
    if wrap_negative_indices is None:
        wrap_negative_indices = mode != "promise_in_bounds"
    indices = convert(indices, _wide_enough(indices.dtype, size, wrap_negative_indices))
    if wrap_negative_indices and dtypes.issubdtype(indices.dtype, np.signedinteger):
        negative = lax.lt(indices, const(indices, 0))
        indices = lax.select(negative, lax.add(indices, const(indices, size)), indices)
    if mode in ("one_hot", GatherScatterMode.ONE_HOT):
        return _one_hot_take(a, indices, axis)
    return _gather_along(a, indices, axis, out_shape, mode, fill_value)


def _gather_along(
    a: Array, indices: Array, axis: int, out_shape: tuple[int, ...], mode: Any, fill_value: Any
) -> Array:
    offset_dims, batching, indices_batching = [], [], []
    squeezed, sizes, index_shape = [], [], []
    position = 0  # of the axis that is indexed, after squeezing
    for d, (n, m) in enumerate(zip(a.shape, indices.shape)):
        if d == axis:
            position = len(sizes)
            sizes.append(1)
        elif m == 1:
            # One index for the whole axis: take all of it.
            offset_dims.append(d)
            sizes.append(n)
            continue
        elif n == 1:
            squeezed.append(d)
        else:
            batching.append(len(sizes))
            indices_batching.append(len(index_shape))
            sizes.append(min_dim(n, 1))
        index_shape.append(out_shape[d])
    numbers = GatherDimensionNumbers(
        tuple(offset_dims), (position,), (position,), tuple(batching), tuple(indices_batching)
    )
    vectors = lax.reshape(indices, (*index_shape, 1))
    if squeezed:
        a = lax.squeeze(a, squeezed)
    mode = "fill" if mode is None else GatherScatterMode.asked(mode)
    return _gather(a, vectors, numbers, sizes, mode=mode, fill_value=fill_value)


def _one_hot_take(a: Array, indices: Array, axis: int) -> Array:
    """The same by a product with one-hot vectors, for hardware that is slow at gathers."""
    last = a.ndim
    positions = lax.broadcasted_iota(indices.dtype, (*indices.shape, a.shape[axis]), last)
    hot = lax.eq(lax.expand_dims(indices, (last,)), positions)
    moved = [d for d in range(last) if d != axis]
    rows = lax.expand_dims(lax.transpose(a, (*moved, axis)), (axis,))
    shape = broadcast_for("take_along_axis", hot.shape, rows.shape)
    every = tuple(range(last + 1))
    picked = lax.select(
        lax.broadcast_in_dim(hot, shape, every),
        lax.broadcast_in_dim(rows, shape, every),
        full(shape, 0, a.dtype),
    )
    return lax.reduce_sum(picked, (last,))


def put_along_axis(
    arr: Any,
    indices: Any,
    values: Any,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: str | None = None,
) -> Array:
    """Return a copy of an array with values written at indices along an axis.

    Args:
        arr: Array to copy.
        indices: Array of integers with as many dimensions as ``arr``.
        values: Values, which broadcast to the shape of ``indices``.
        axis: Axis to index; None indexes the flattened array.
        inplace: Must be False: arrays are immutable, the result is a new array.
        mode: What happens to indices out of bounds, as for ``x.at[...].set``: "drop" (the default)
            or "clip".

    Returns:
        Array with the shape and dtype of ``arr``.

    Example:
        >>> import weft.numpy as jnp
        >>> x = jnp.array([[10, 30, 20], [60, 40, 50]])
        >>> jnp.put_along_axis(x, jnp.array([[1], [0]]), 99, axis=1, inplace=False)
        Array([[10, 99, 20],
               [99, 40, 50]], dtype=int32)
    """
    _refuse_in_place("put_along_axis", inplace)
    a, indices = ensure_array("put_along_axis", arr), ensure_array("put_along_axis", indices)
    shape = a.shape
    if axis is None:
        a, axis = flattened(a), 0
    if a.ndim != indices.ndim:
        raise ValueError(
            "put_along_axis needs an array and indices with the same number of axes, got shapes "
            f"{a.shape} and {indices.shape}"
        )
    if broadcast_for("put_along_axis", np.shape(values), indices.shape) != indices.shape:
        raise ValueError(
            "put_along_axis needs values that can be broadcast to the indices, got shapes "
            f"{np.shape(values)} and {indices.shape}"
        )
    values = to_shape(values, indices.shape)
    index = [_steps(a.shape, d) for d in range(a.ndim)]
    index[canonical_axis(axis, a.ndim)] = indices
    out = update_index(a, tuple(index), values, lax.scatter, mode=mode)
    return lax.reshape(out, shape) if out.shape != shape else out


def put(a: Any, ind: Any, v: Any, mode: str | None = None, *, inplace: bool = True) -> Array:
    """Return a copy of an array with values written at indices of the flattened array.

    Args:
        a: Array to copy.
        ind: Integers, which count in row-major order.
        v: Values, repeated as needed.
        mode: "clip" or "wrap" for indices out of bounds; with None negative indices count from the
            end, and others are clipped.
        inplace: Must be False: arrays are immutable, the result is a new array.

    Returns:
        Array with the shape and dtype of ``a``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.put(jnp.zeros(5), jnp.array([0, 2]), jnp.array([10.0, 20.0]), inplace=False)
        Array([10.,  0., 20.,  0.,  0.], dtype=float32)
    """
    _refuse_in_place("put", inplace)
    a, ind = ensure_array("put", a), flattened(ensure_array("put", ind))
    v = flattened(v if _is_scalar(v) else ensure_array("put", v))
    if not (a.size and ind.size and v.size):
        return a
    if mode == "clip":
        ind = clipped_to(ind, a.size - 1)
    elif mode == "wrap":
        ind = ind % a.size
    elif mode == "raise":
        raise NotImplementedError(
            "put cannot raise for indices out of bounds; use mode=None, 'clip' or 'wrap'"
        )
    elif mode is not None:
        raise ValueError(f"mode must be None, 'clip' or 'wrap', got {mode!r}")
    values = _tiled(v, ind.size)
    return update_index(
        a,
        unravel_index(ind, a.shape),
        values,
        lax.scatter,
        mode=None if mode is None else "promise_in_bounds",
    )


def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = True) -> Array:
    """Return a copy of an array with values written, in turn, where a mask is true.

    Args:
        arr: Array to copy.
        mask: Boolean array with as many elements as ``arr``.
        vals: Values, used in order and repeated as needed; must not be empty.
        inplace: Must be False: arrays are immutable, the result is a new array.

    Returns:
        Array with the shape and dtype of ``arr``.

    Example:
        >>> import weft.numpy as jnp
        >>> x = jnp.arange(5)
        >>> jnp.place(x, x > 1, jnp.array([-1, -2]), inplace=False)
        Array([ 0,  1, -1, -2, -1], dtype=int32)
    """
    a, mask, vals = (
        ensure_array("place", arr),
        ensure_array("place", mask),
        flattened(ensure_array("place", vals)),
    )
    _refuse_in_place("place", inplace)
    if a.size != mask.size:
        raise ValueError(
            f"place needs a mask with as many elements as the array, got {mask.shape} and {a.shape}"
        )
    if not vals.size:
        raise ValueError("place cannot take values from an empty array")
    if not a.size:
        return a
    where = nonzero(flattened(mask), size=mask.size, fill_value=mask.size)[0]
    out = update_index(flattened(a), where, _tiled(vals, mask.size), lax.scatter, mode="drop")
    return lax.reshape(out, a.shape)


# --- choosing -------------------------------------------------------------------------------------


def choose(a: Any, choices: Any, out: None = None, mode: str = "raise") -> Array:
    """Return, at each position, the element of the array that an index chooses.

    Args:
        a: Array of integers from 0 to ``len(choices) - 1``.
        choices: Sequence of arrays that broadcast against ``a``.
        out: Must be None; arrays are immutable.
        mode: For other indices: "raise" (which needs concrete values), "wrap" or "clip".

    Returns:
        Array of the broadcast shape, in the dtype that the choices promote to.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.choose(jnp.array([1, 0]), [jnp.array([1, 2]), jnp.array([3, 4])])
        Array([3, 2], dtype=int32)
    """
    _refuse_out("choose", out)
    a = ensure_array("choose", a)
    arrays = [ensure_array("choose", c) for c in choices]
    if not dtypes.issubdtype(a.dtype, np.integer):
        raise ValueError(f"choose needs an integer array, got {a.aval.str_short()}")
    count = len(arrays)
    if mode == "raise":
        known = np.asarray(concrete(a, "choose checks its indices unless mode is 'wrap' or 'clip'"))
        if ((known < 0) | (known >= count)).any():
            raise ValueError(f"choose got an index outside of its {count} choices")
    elif mode == "wrap":
        a = a % count
    elif mode == "clip":
        a = clipped_to(a, count - 1)
    else:
        raise ValueError(f"mode must be 'raise', 'wrap' or 'clip', got {mode!r}")
    shape = broadcast_for("choose", a.shape, *(c.shape for c in arrays))
    dtype, _ = dtypes.lattice_result_type(*arrays)
    cases = [to_shape(convert(c, dtype), shape) for c in arrays]
    if 1 < count <= _FEW:
        return lax.select_n(to_shape(convert(a, np.int32), shape), *cases)
    table = lax.concatenate([lax.expand_dims(c, (0,)) for c in cases], 0)
    steps = [_steps(shape, d) for d in range(len(shape))]
    return getitem(table, (to_shape(a, shape), *steps))


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Array:
    """Return, at each position, the choice of the first condition that holds.

    Args:
        condlist: Sequence of boolean arrays.
        choicelist: Sequence of as many arrays, which broadcast.
        default: Value where no condition holds.

    Returns:
        Array of the broadcast shape, in the dtype that choices and default promote to.

    Example:
        >>> import weft.numpy as jnp
        >>> x = jnp.arange(4)
        >>> jnp.select([x < 1, x < 3], [-x - 1, 10 * x], 7)
        Array([-1, 10, 20,  7], dtype=int32)
    """
    if len(condlist) != len(choicelist):
        raise ValueError(
            f"select needs as many conditions as choices, got {len(condlist)} and {len(choicelist)}"
        )
    if not len(condlist):
        raise ValueError("select needs at least one condition")
    conditions = [ensure_array("select", c) for c in condlist]
    choices = [c if _is_scalar(c) else ensure_array("select", c) for c in (default, *choicelist)]
    dtype, weak_type = dtypes.lattice_result_type(*choices)
    shape = broadcast_for("select", *(np.shape(c) for c in (*conditions, *choices)))
    found, *cases = [to_shape(convert_operand(c, dtype, weak_type), shape) for c in choices]
    for condition, case in zip(reversed(conditions), reversed(cases), strict=True):
        holds = to_shape(convert(condition, np.dtype(np.bool_)), shape)
        found = lax.select_n(holds, found, case)
    return found


def compress(
    condition: Any,
    a: Any,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: Any = 0,
    out: None = None,
) -> Array:
    """Return the slices of an array along an axis where a condition holds.

    Args:
        condition: Boolean vector, at most as long as the axis.
        a: Array to take from.
        axis: Axis to select along; None selects from the flattened array.
        size: Static number of elements of the result, needed under ``jit``: more are cut off,
            missing ones filled.
        fill_value: What fills missing slices.
        out: Must be None; arrays are immutable.

    Returns:
        Array with fewer elements, or ``size``, along ``axis``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.compress(jnp.array([True, False, True]), jnp.arange(6).reshape(2, 3), axis=1)
        Array([[0, 2],
               [3, 5]], dtype=int32)
    """
    _refuse_out("compress", out)
    mask, a = ensure_array("compress", condition), ensure_array("compress", a)
    if mask.ndim != 1:
        raise ValueError(f"compress needs a condition with one axis, got shape {mask.shape}")
    if axis is None:
        a, axis = flattened(a), 0
    axis = canonical_axis(axis, a.ndim)
    length = min(mask.size, a.shape[axis])
    if mask.dtype != np.bool_:
        mask = lax.ne(mask, const(mask, 0))
    before = (slice(None),) * axis
    if size is None:
        known = mask._concrete() if isinstance(mask, Tracer) else mask
        if known is None:
            raise errors.TracerBoolConversionError(mask)
        known = np.asarray(known)
        if known[length:].any():
            raise ValueError("compress got a condition that is True beyond the end of the axis")
        if not isinstance(a, Tracer) and not a.aval.weak_type:
            value = np.asarray(a)
            if value.ndim == 1:
                return beside(boxed(chosen(known[:length], value[:length])), a)
            return beside(boxed(np.compress(known, value, axis)), a)
        return getitem(a, (*before, np.nonzero(known)[0]))
    if not 0 <= size <= length:
        raise ValueError(
            f"compress needs a size between 0 and {length}, as many elements as the axis and the"
            f" condition have, got {size}"
        )
    where = nonzero(getitem(mask, slice(0, length)), size=size, fill_value=a.shape[axis])[0]
    return take(a, where, axis, mode="fill", fill_value=np.asarray(fill_value).item())


def extract(condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = 0) -> Array:
    """Return the elements of an array where a condition holds, in order.

    Args:
        condition: Boolean array with the shape of ``arr``.
        arr: Array to take from.
        size: Static number of elements of the result, needed under ``jit``: more are cut off,
            missing ones filled.
        fill_value: What fills missing elements.

    Returns:
        One-dimensional array.

    Example:
        >>> import weft.numpy as jnp
        >>> x = jnp.arange(5)
        >>> jnp.extract(x % 2 == 0, x)
        Array([0, 2, 4], dtype=int32)
    """
    mask, a = flattened(ensure_array("extract", condition)), flattened(ensure_array("extract", arr))
    return compress(mask, a, size=size, fill_value=fill_value)


# --- arguments ------------------------------------------------------------------------------------


def _steps(shape: tuple[int, ...], axis: int) -> Any:
    """0, 1, 2, ... along one axis, of size 1 along the others."""
    spread = tuple(n if d == axis else 1 for d, n in enumerate(shape))
    return lax.broadcast_in_dim(lax.iota(index_dtype(shape), shape[axis]), spread, (axis,))


def _tiled(x: Any, size: int) -> Any:
    """A vector repeated, or cut, to a size."""
    if x.size < size:
        x = lax.tile(x, (-(-size // x.size),))
    return x if x.size == size else lax.slice(x, (0,), (size,))


def _is_scalar(x: Any) -> bool:
    return dtypes.is_python_scalar(x) or isinstance(x, np.generic)


def _wide_enough(dtype: Any, size: int, wrap: bool) -> Any:
    """A dtype for indices along an axis: signed if they wrap, wide enough for the size."""
    limits = dtypes.iinfo(dtype)
    if wrap and not limits.min:
        return index_dtype((size,))
    return index_dtype((size,)) if exceeds(size, limits.max) else dtype


def _refuse_out(name: str, out: Any) -> None:
    if out is not None:
        raise NotImplementedError(
            f"{name} has no argument 'out': arrays are immutable; use the result"
        )


def _refuse_in_place(name: str, inplace: bool) -> None:
    if inplace:
        raise ValueError(
            f"{name} cannot change an array in place: arrays are immutable; pass inplace=False "
            "and use the result"
        )
