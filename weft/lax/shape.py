"""Functions that move data: broadcasting, reshaping, permuting, joining, padding, counting."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np

from weft import dtypes
from weft.api.placement import result_sharding
from weft.base.errors import AxisError
from weft.core.array import Array
from weft.core.dims.dim import Dim, broadcast_sizes, is_constant_shape, whole
from weft.core.trace import Tracer, box, eval_trace, state, typeof
from weft.prims import shape as prims
from weft.prims.families import scalar
from weft.tree.functions import tree_flatten, tree_unflatten

T = TypeVar("T")

_DATA = (np.ndarray, np.generic, bool, int, float, complex)


def canonical_shape(shape: Any) -> tuple[int, ...]:
    """A shape as a tuple of Python integers; a clear TypeError for anything else."""
    if type(shape) is not tuple:
        if isinstance(shape, (int, np.integer, Dim)) or _is_concrete_scalar(shape):
            shape = (shape,)
    try:
        return tuple([n if type(n) is int else whole(n) for n in shape])
    except (TypeError, AttributeError):
        sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        traced = next((n for n in sizes if isinstance(n, Tracer)), None)
        if traced is None:
            raise TypeError(f"shapes must be sequences of integers, got {shape!r}") from None
        raise TypeError(
            f"shapes must be sequences of known integers, got {shape!r}: the size of an array"
            f" cannot depend on a traced value; mark the argument that determines it as static,"
            f' jit(f, static_argnames="n"){traced._origin_msg()}'
        ) from None


def _is_concrete_scalar(x: Any) -> bool:
    """Whether ``x`` is an array of no dimensions whose value is known."""
    return getattr(x, "ndim", None) == 0 and not isinstance(x, Tracer)


def boxed(x: Any) -> Any:
    """Scalars and NumPy data as an array of their own; while tracing, they stay as they are."""
    if isinstance(x, _DATA) and state.trace is eval_trace:
        aval = typeof(x)
        return box(np.array(x, aval.dtype), aval)
    return x


def integer_axis(axis: Any) -> int:
    """An axis as an integer."""
    try:
        return operator.index(axis)
    except TypeError:
        if isinstance(axis, Tracer):
            raise
        raise TypeError(
            f"an axis must be an integer, got {axis!r} of type {type(axis).__name__}"
        ) from None


def canonical_axis(axis: Any, ndim: int) -> int:
    """An axis counted from the front."""
    axis = integer_axis(axis)
    if not -ndim <= axis < ndim:
        raise AxisError(f"axis {axis} is out of bounds for an array of {ndim} dimensions")
    return axis % ndim


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """Return the shape that several shapes broadcast to.

    Args:
        *shapes: Shapes, tuples of integers.

    Returns:
        Tuple of integers. Shapes that don't fit raise an error.

    Example:
        >>> from weft import lax
        >>> lax.broadcast_shapes((3, 1), (4,))
        (3, 4)
    """
    if len(shapes) == 1 and isinstance(shapes[0], int):
        return shapes[0]  # type: ignore[return-value]
    return broadcast_for("", *shapes)


def broadcast_for(name: str, *shapes: Any) -> tuple[int, ...]:
    """The same for the operands of a function, which errors name."""
    try:
        return broadcast_sizes(*shapes)
    except ValueError:
        given = ", ".join(str(tuple(s)) for s in shapes)
        if any(isinstance(n, int) and n < 0 for s in shapes for n in s):
            raise TypeError(f"shapes can't have negative sizes, got {given}") from None
        whose = f" in {name}" if name else ""
        raise ValueError(
            f"Incompatible shapes for broadcasting: {given}{whose}; {_clash(shapes)}"
        ) from None


def _clash(shapes: Sequence[Any]) -> str:
    """Which axis, counted from the end as shapes are aligned there, keeps shapes apart."""
    for axis in range(1, max(map(len, shapes)) + 1):
        sizes: list[Any] = []
        for shape in shapes:
            if len(shape) >= axis and shape[-axis] != 1 and shape[-axis] not in sizes:
                sizes.append(shape[-axis])
        if len(sizes) > 1:
            return f"the sizes of axis -{axis}, {' and '.join(map(str, sizes))}, must be equal or 1"
    return "sizes must be equal or 1"


def broadcast(operand: Any, sizes: Sequence[int], *, out_sharding: Any = None) -> Array:
    """Return an array repeated along new leading dimensions.

    Args:
        operand: Array of any dtype.
        sizes: Sizes of the new dimensions.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Array of shape ``sizes + operand.shape``.

    Example:
        >>> from weft import lax
        >>> lax.broadcast(1.0, (2,))
        Array([1., 1.], dtype=float32, weak_type=True)
    """
    sizes = canonical_shape(tuple(sizes))
    if not sizes and not isinstance(operand, (int, float, complex)):
        return boxed(operand)
    ndim = np.ndim(operand)
    dims = tuple(range(len(sizes), len(sizes) + ndim))
    where = result_sharding(out_sharding, "broadcast")
    return prims.broadcast_in_dim(operand, sizes + np.shape(operand), dims, where)


def broadcast_in_dim(
    operand: Any, shape: Any, broadcast_dimensions: Sequence[int], *, out_sharding: Any = None
) -> Array:
    """Return an array at a larger shape, with its dimensions placed where you say.

    Args:
        operand: Array of any dtype.
        shape: Shape of the result.
        broadcast_dimensions: For each dimension of ``operand``, the dimension of the result it
            becomes, ascending. Sizes are equal, or 1 and repeated.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Array of shape ``shape``.

    Example:
        >>> from weft import lax
        >>> import numpy as np
        >>> lax.broadcast_in_dim(np.ones(2, np.float32), (2, 3), (0,)).shape
        (2, 3)
    """
    shape = canonical_shape(shape)
    dims = tuple(operator.index(d) for d in broadcast_dimensions)
    where = result_sharding(out_sharding, "broadcast_in_dim")
    if np.shape(operand) == shape and dims == tuple(range(len(shape))) and hasattr(operand, "aval"):
        if where is None:
            return operand
    return prims.broadcast_in_dim(operand, shape, dims, where)


def broadcast_to_rank(x: Any, rank: int) -> Array:
    """Return an array with leading dimensions of size 1 added up to a rank.

    Args:
        x: Array of at most ``rank`` dimensions.
        rank: Number of dimensions of the result.

    Returns:
        Array of ``rank`` dimensions.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.broadcast_to_rank(jnp.ones(3), 3).shape
        (1, 1, 3)
    """
    ndim = np.ndim(x)
    return prims.expand_dims(x, tuple(range(rank - ndim))) if rank > ndim else x


def broadcast_like(arr: Any, like_arr: Any) -> Array:
    """Return an array broadcast to the shape of another.

    Args:
        arr: Array whose shape broadcasts to that of ``like_arr``.
        like_arr: Array that gives the shape.

    Returns:
        Array with the shape of ``like_arr`` and the dtype of ``arr``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.broadcast_like(jnp.ones(1), jnp.zeros(2))
        Array([1., 1.], dtype=float32)
    """
    shape = np.shape(like_arr)
    ndim = np.ndim(arr)
    if broadcast_shapes(np.shape(arr), shape) != tuple(shape):
        raise ValueError(f"broadcast_like cannot fit shape {np.shape(arr)} into {tuple(shape)}")
    dims = tuple(range(len(shape) - ndim, len(shape)))
    return broadcast_in_dim(arr, shape, dims)


def broadcasted_iota(dtype: Any, shape: Any, dimension: int, *, out_sharding: Any = None) -> Array:
    """Return the numbers 0, 1, 2, ... along one dimension of a shape.

    Args:
        dtype: Numeric dtype of the result.
        shape: Shape of the result.
        dimension: Dimension along which the numbers count; along the others they repeat.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Array of shape ``shape``.

    Example:
        >>> from weft import lax
        >>> lax.broadcasted_iota(int, (2, 2), 1)
        Array([[0, 1],
               [0, 1]], dtype=int32)
    """
    shape = canonical_shape(shape)
    dtype = dtypes.check_user_dtype(dtype, "lax.iota")
    where = result_sharding(out_sharding, "broadcasted_iota")
    if not 0 <= dimension < len(shape):
        if not dtypes.issubdtype(dtype, np.number):
            raise TypeError(f"iota counts in numbers, got dtype {dtype}")
        error = TypeError if any(type(n) is int and n < 0 for n in shape) else ValueError
        raise error(
            f"iota needs a shape without negative sizes and one of its dimensions, got dimension"
            f" {dimension} of the shape {shape}"
        )
    return prims.iota(dtype, shape, operator.index(dimension), where)


def iota(dtype: Any, size: int) -> Array:
    """Return the vector 0, 1, ..., size - 1.

    Args:
        dtype: Numeric dtype of the result.
        size: Length of the result.

    Returns:
        One-dimensional array.

    Example:
        >>> from weft import lax
        >>> lax.iota(int, 3)
        Array([0, 1, 2], dtype=int32)
    """
    return broadcasted_iota(dtype, (size,), 0)


def reshape(
    operand: Any, new_sizes: Any, dimensions: Any = None, *, out_sharding: Any = None
) -> Array:
    """Return the elements of an array, in row-major order, with another shape.

    Args:
        operand: Array with as many elements as ``new_sizes``.
        new_sizes: Shape of the result; unlike in ``weft.numpy.reshape`` no size may be -1.
        dimensions: Order in which the dimensions of ``operand`` are read; None reads them as they
            are.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Array of shape ``new_sizes``.

    Example:
        >>> from weft import lax
        >>> import numpy as np
        >>> lax.reshape(np.arange(6), (2, 3)).shape
        (2, 3)
    """
    new_sizes, shape = canonical_shape(new_sizes), typeof(operand).shape
    if dimensions is not None:
        dimensions = tuple(operator.index(d) for d in dimensions)
        if dimensions == tuple(range(len(shape))):
            dimensions = None
    # As in JAX, a scalar is reshaped even to its own shape.
    same = bool(new_sizes) and shape == new_sizes
    where = result_sharding(out_sharding, "reshape")
    if same and dimensions is None and hasattr(operand, "aval") and where is None:
        return operand
    return prims.reshape_p.bind(operand, new_sizes=new_sizes, dimensions=dimensions, sharding=where)


def transpose(operand: Any, permutation: Any) -> Array:
    """Return an array with its dimensions permuted.

    Args:
        operand: Array of any dtype.
        permutation: For each dimension of the result, the dimension of ``operand`` it comes from.

    Returns:
        Array with permuted dimensions.

    Example:
        >>> from weft import lax
        >>> import numpy as np
        >>> lax.transpose(np.ones((2, 3)), (1, 0)).shape
        (3, 2)
    """
    permutation = tuple(map(operator.index, permutation))
    if permutation == tuple(range(len(typeof(operand).shape))) and hasattr(operand, "aval"):
        return operand
    return prims.transpose_p.bind(operand, permutation=permutation)


def squeeze(array: Any, dimensions: Sequence[int]) -> Array:
    """Return an array without some of its dimensions of size 1.

    Args:
        array: Array of any dtype.
        dimensions: Dimensions to remove; negative ones count from the end.

    Returns:
        Array with fewer dimensions.

    Example:
        >>> from weft import lax
        >>> import numpy as np
        >>> lax.squeeze(np.ones((1, 3)), (0,)).shape
        (3,)
    """
    ndim = typeof(array).ndim
    dims = tuple(sorted([canonical_axis(d, ndim) for d in dimensions]))
    if len(set(dims)) != len(dims):
        raise ValueError(f"squeeze needs distinct dimensions, got {tuple(dimensions)}")
    if not dims and hasattr(array, "aval"):
        return array
    return prims.squeeze_p.bind(array, dimensions=dims)


def expand_dims(array: Any, dimensions: Sequence[int]) -> Array:
    """Return an array with new dimensions of size 1.

    Args:
        array: Array of any dtype.
        dimensions: Positions of the new dimensions in the result.

    Returns:
        Array with more dimensions.

    Example:
        >>> from weft import lax
        >>> import numpy as np
        >>> lax.expand_dims(np.ones(3), (0,)).shape
        (1, 3)
    """
    dims = tuple(dimensions)
    ndim = typeof(array).ndim + len(dims)
    places = sorted([canonical_axis(d, ndim) for d in dims])
    if len(set(places)) != len(places):
        raise ValueError(f"repeated axis in expand_dims: {dims}")
    return boxed(prims.expand_dims(array, tuple(places)))


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Return an array with a range of its dimensions merged into one.

    Args:
        operand: Array of any dtype.
        start_dimension: First dimension of the range.
        stop_dimension: End of the range, which is not included; None for all that follow.

    Returns:
        Array with fewer dimensions.

    Example:
        >>> from weft import lax
        >>> import numpy as np
        >>> lax.collapse(np.ones((2, 3, 4)), 1).shape
        (2, 12)
    """
    shape = np.shape(operand)
    low, high, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    if high < low:
        raise ValueError(f"collapse got dimensions {start_dimension} to {stop_dimension}")
    merged = (*shape[:low], prod(shape[low:high]), *shape[high:])
    return reshape(operand, merged)


def rev(operand: Any, dimensions: Sequence[int]) -> Array:
    """Return an array with its elements reversed along some dimensions.

    Args:
        operand: Array of any dtype.
        dimensions: Dimensions to reverse, counted from 0 up.

    Returns:
        Array with the shape and dtype of ``operand``.

    Example:
        >>> from weft import lax
        >>> lax.rev(lax.iota(int, 3), (0,))
        Array([2, 1, 0], dtype=int32)
    """
    return prims.rev_p.bind(operand, dimensions=tuple(operator.index(d) for d in dimensions))


def concatenate(operands: Any, dimension: int) -> Array:
    """Return arrays joined along an existing dimension.

    Args:
        operands: Sequence of arrays of one dtype, whose shapes agree except along ``dimension``.
        dimension: Dimension to join along.

    Returns:
        Array whose size along ``dimension`` is the sum of the operands' sizes.

    Example:
        >>> from weft import lax
        >>> lax.concatenate([lax.iota(int, 2), lax.iota(int, 1)], 0)
        Array([0, 1, 0], dtype=int32)
    """
    if not len(operands):
        raise ValueError("concatenate needs at least one operand")
    if len(operands) == 1 and hasattr(operands[0], "aval"):
        return operands[0]
    return prims.concatenate_p.bind(*operands, dimension=operator.index(dimension))


def stack(operands: Any, axis: int = 0) -> Array:
    """Return arrays of one shape joined along a new dimension.

    Args:
        operands: Sequence of arrays of one shape and dtype.
        axis: Position of the new dimension in the result.

    Returns:
        Array with one dimension more.

    Example:
        >>> from weft import lax
        >>> lax.stack([lax.iota(int, 2), lax.iota(int, 2)]).shape
        (2, 2)
    """
    operands = list(operands)
    if not operands:
        raise ValueError("stack needs at least one operand")
    return prims.stack_p.bind(*operands, axis=canonical_axis(axis, np.ndim(operands[0]) + 1))


def unstack(x: Any, axis: int = 0) -> tuple[Array, ...]:
    """Return the slices of an array along a dimension, as a tuple.

    Args:
        x: Array of at least one dimension.
        axis: Dimension to take apart; it is missing in the slices.

    Returns:
        Tuple of ``x.shape[axis]`` arrays.

    Example:
        >>> from weft import lax
        >>> len(lax.unstack(lax.iota(int, 3)))
        3
    """
    axis = canonical_axis(axis, typeof(x).ndim)
    if type(typeof(x).shape[axis]) is Dim:
        raise NotImplementedError(
            f"the number of slices along axis {axis} of {typeof(x).shape} is symbolic; use"
            " lax.scan or vmap over them"
        )
    return tuple(prims.unstack_p.bind(x, axis=axis))


def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """Return an array cut into pieces of given sizes along a dimension.

    Args:
        operand: Array of any dtype.
        sizes: Sizes of the pieces, which add up to the size of the dimension.
        axis: Dimension to cut.

    Returns:
        List of arrays.

    Example:
        >>> from weft import lax
        >>> [x.shape for x in lax.split(lax.iota(int, 3), (1, 2))]
        [(1,), (2,)]
    """
    sizes = canonical_shape(tuple(sizes))
    axis = canonical_axis(axis, np.ndim(operand))
    return prims.split_p.bind(operand, sizes=sizes, axis=axis)


def pad(operand: Any, padding_value: Any, padding_config: Any) -> Array:
    """Return an array padded in every dimension, between its elements too.

    Args:
        operand: Array of any dtype.
        padding_value: Scalar of the dtype of ``operand`` to pad with.
        padding_config: For each dimension (low, high, interior): how many elements to add before,
            after, and between neighbours. Negative low and high crop.

    Returns:
        Array in the dtype of ``operand``.

    Example:
        >>> from weft import lax
        >>> lax.pad(lax.iota(int, 2), 9, [(1, 1, 0)])
        Array([9, 0, 1, 9], dtype=int32)
    """
    config = tuple(tuple([whole(n) for n in entry]) for entry in padding_config)
    if any(len(entry) != 3 for entry in config):
        raise ValueError(
            f"pad needs (low, high, interior) for every dimension, got {padding_config}"
        )
    return prims.pad_p.bind(operand, padding_value, padding_config=config)


def tile(operand: Any, reps: Sequence[int]) -> Array:
    """Return an array repeated along each of its dimensions.

    Args:
        operand: Array of any dtype.
        reps: Number of repetitions for each dimension of ``operand``.

    Returns:
        Array with each size multiplied by its number of repetitions.

    Example:
        >>> from weft import lax
        >>> lax.tile(lax.iota(int, 2), (2,))
        Array([0, 1, 0, 1], dtype=int32)
    """
    return prims.tile_p.bind(operand, reps=canonical_shape(tuple(reps)))


def empty(shape: Any, dtype: Any, *, out_sharding: Any = None) -> Array:
    """Return an array whose values you must not rely on.

    Args:
        shape: Shape of the result.
        dtype: Dtype of the result.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Array of shape ``shape``. It holds zeros.

    Example:
        >>> from weft import lax
        >>> lax.empty((2, 3), 'float32').shape
        (2, 3)
    """
    dtype = dtypes.check_user_dtype(dtype, "lax.empty")
    where = result_sharding(out_sharding, "empty")
    return prims.empty_p.bind(shape=canonical_shape(shape), dtype=dtype, out_sharding=where)


def shape_as_value(shape: Any) -> Array | np.ndarray:
    """Return a shape as an array of integers.

    Args:
        shape: Tuple of integers.

    Returns:
        Integer vector.

    Example:
        >>> from weft import lax
        >>> lax.shape_as_value((2, 3))
        array([2, 3], dtype=int32)
    """
    if is_constant_shape(shape):
        return np.asarray(shape, np.int32)
    return concatenate([broadcast(scalar(np.dtype(np.int32), n), (1,)) for n in shape], 0)


def optimization_barrier(operand: T, /) -> T:
    """Return a tree of arrays unchanged, across which the compiler moves and merges nothing.

    Args:
        operand: Array or tree of arrays.

    Returns:
        The same tree; none of its arrays is ready before all are.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.optimization_barrier(jnp.arange(2))
        Array([0, 1], dtype=int32)
    """
    leaves, tree = tree_flatten(operand)
    return tree_unflatten(tree, prims.optimization_barrier_p.bind(*leaves))
