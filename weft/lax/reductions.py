"""Reductions and cumulative reductions of ``weft.lax``: argument checks around the primitives."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

import numpy as np

from weft import dtypes, tree
from weft.api.placement import result_sharding
from weft.base.functional import weakref_lru_cache
from weft.control.reductions import reduce_p
from weft.core.array import Array, ArrayLike, Neutral
from weft.core.jaxpr import ClosedJaxpr
from weft.core.staging import stage
from weft.core.trace import Tracer, typeof
from weft.lax import elementwise
from weft.prims import cumulative
from weft.prims import reduce as prims
from weft.prims.convert import convert
from weft.prims.families import BOOL, INTEGER, kind_of

T = TypeVar("T")

# --- along axes -----------------------------------------------------------------------------------


def reduce_sum(operand: Any, axes: Sequence[int], *, out_sharding: Any = None) -> Array:
    """Return the sum along axes.

    Args:
        operand: Array to reduce.
        axes: Sequence of axes to reduce, counted from 0 up; negative ones raise an error.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Array without the reduced axes, in the dtype of ``operand``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.reduce_sum(jnp.arange(6).reshape(2, 3), (0,))
        Array([3, 5, 7], dtype=int32)
    """
    where = result_sharding(out_sharding, "reduce_sum")
    return prims.reduce_sum_p.bind(operand, axes=tuple(axes), out_sharding=where)


def reduce_prod(operand: Any, axes: Sequence[int]) -> Array:
    """Return the product along axes.

    Args:
        operand: Array to reduce.
        axes: Sequence of axes to reduce, counted from 0 up; negative ones raise an error.

    Returns:
        Array without the reduced axes, in the dtype of ``operand``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.reduce_prod(jnp.arange(1, 5), (0,))
        Array(24, dtype=int32)
    """
    return prims.reduce_prod_p.bind(operand, axes=tuple(axes))


def reduce_max(operand: Any, axes: Sequence[int]) -> Array:
    """Return the largest element along axes; of none, the least value of the dtype.

    Args:
        operand: Array to reduce.
        axes: Sequence of axes to reduce, counted from 0 up; negative ones raise an error.

    Returns:
        Array without the reduced axes, in the dtype of ``operand``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.reduce_max(jnp.array([[1, 5], [3, 2]]), (0,))
        Array([3, 5], dtype=int32)
    """
    return prims.reduce_max_p.bind(operand, axes=tuple(axes))


def reduce_min(operand: Any, axes: Sequence[int]) -> Array:
    """Return the smallest element along axes; of none, the greatest value of the dtype.

    Args:
        operand: Array to reduce.
        axes: Sequence of axes to reduce, counted from 0 up; negative ones raise an error.

    Returns:
        Array without the reduced axes, in the dtype of ``operand``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.reduce_min(jnp.array([[1, 5], [3, 2]]), (0,))
        Array([1, 2], dtype=int32)
    """
    return prims.reduce_min_p.bind(operand, axes=tuple(axes))


def reduce_and(operand: Any, axes: Sequence[int]) -> Array:
    """Return the logical (of integers: bitwise) and along axes.

    Args:
        operand: Array of booleans or integers.
        axes: Sequence of axes to reduce, counted from 0 up; negative ones raise an error.

    Returns:
        Array without the reduced axes, in the dtype of ``operand``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.reduce_and(jnp.array([[True, True], [False, True]]), (0,))
        Array([False,  True], dtype=bool)
    """
    return prims.reduce_and_p.bind(operand, axes=tuple(axes))


def reduce_or(operand: Any, axes: Sequence[int]) -> Array:
    """Return the logical (of integers: bitwise) or along axes.

    Args:
        operand: Array of booleans or integers.
        axes: Sequence of axes to reduce, counted from 0 up; negative ones raise an error.

    Returns:
        Array without the reduced axes, in the dtype of ``operand``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.reduce_or(jnp.array([1, 2, 8]), (0,))
        Array(11, dtype=int32)
    """
    return prims.reduce_or_p.bind(operand, axes=tuple(axes))


def reduce_xor(operand: Any, axes: Sequence[int]) -> Array:
    """Return the logical (of integers: bitwise) exclusive or along axes.

    Args:
        operand: Array of booleans or integers.
        axes: Sequence of axes to reduce, counted from 0 up; negative ones raise an error.

    Returns:
        Array without the reduced axes, in the dtype of ``operand``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.reduce_xor(jnp.array([3, 1]), (0,))
        Array(2, dtype=int32)
    """
    return prims.reduce_xor_p.bind(operand, axes=tuple(axes))


def argmax(operand: Any, axis: int, index_dtype: Any) -> Array:
    """Return the first position of the largest element along an axis; NaN counts as largest.

    Args:
        operand: Array of real numbers to search.
        axis: Axis to search, counted from 0 up; it must not be empty.
        index_dtype: Integer dtype of the result.

    Returns:
        Array of ``index_dtype`` without the axis.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.argmax(jnp.array([1., 9., 9.]), 0, 'int32')
        Array(1, dtype=int32)
    """
    dtype = dtypes.check_user_dtype(index_dtype, "argmax")
    return prims.argmax_p.bind(operand, axes=(axis,), index_dtype=dtype)


def argmin(operand: Any, axis: int, index_dtype: Any) -> Array:
    """Return the first position of the smallest element along an axis; NaN counts as smallest.

    Args:
        operand: Array of real numbers to search.
        axis: Axis to search, counted from 0 up; it must not be empty.
        index_dtype: Integer dtype of the result.

    Returns:
        Array of ``index_dtype`` without the axis.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.argmin(jnp.array([4., 2., 2.]), 0, 'int32')
        Array(1, dtype=int32)
    """
    dtype = dtypes.check_user_dtype(index_dtype, "argmin")
    return prims.argmin_p.bind(operand, axes=(axis,), index_dtype=dtype)


# --- by a function --------------------------------------------------------------------------------


@overload
def reduce(
    operands: ArrayLike,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> Array: ...
@overload
def reduce(
    operands: T,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> T: ...
def reduce(
    operands: Any,
    init_values: Neutral,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> Any:
    """Return arrays reduced along dimensions by an associative function.

    Args:
        operands: Array, or tree of arrays of one shape, which are reduced together.
        init_values: Identity of ``computation``, a scalar for each operand.
        computation: Associative function of two trees of scalars. ``lax.add``, ``mul``, ``max``,
            ``min`` and the bitwise functions use fast reductions.
        dimensions: Axes to reduce.
        out_sharding: Sharding of the result of a sum, for arrays on meshes with explicit axes.

    Returns:
        Tree like ``operands``, without the reduced axes.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.reduce(jnp.arange(1., 5.), 1., lambda a, b: a * b, (0,))
        Array(24., dtype=float32)
    """
    flat, flat_inits, structure = flatten_operands("reduce", operands, init_values)
    monoid = monoid_of(computation, flat_inits)
    if monoid is not None:
        (operand,), (init,) = flat, flat_inits
        function = _REDUCERS[monoid]
        given = {"out_sharding": out_sharding} if monoid == "add" else {}
        out = function(operand, dimensions, **given)
        weak = typeof(operand).weak_type and typeof(init).weak_type
        return convert(out, typeof(out).dtype, weak)
    closed = reduction_jaxpr(computation, tuple(map(typeof, flat_inits)), structure)
    ndim = np.ndim(flat[0])
    dims = tuple([d + ndim if d < 0 else d for d in dimensions])
    out = reduce_p.bind(*flat, *flat_inits, computation=computation, jaxpr=closed, dimensions=dims)
    return tree.unflatten(structure, out)


_REDUCERS = {
    "add": reduce_sum,
    "mul": reduce_prod,
    "max": reduce_max,
    "min": reduce_min,
    "bitwise_and": reduce_and,
    "bitwise_or": reduce_or,
    "bitwise_xor": reduce_xor,
}


def flatten_operands(name: str, operands: Any, inits: Any) -> tuple[list[Any], list[Any], Any]:
    """Operands and initial values as lists, and their common structure."""
    flat, structure = tree.flatten(operands)
    flat_inits, init_structure = tree.flatten(inits)
    if structure != init_structure:
        raise ValueError(
            f"{name} needs initial values with the structure of the operands, got {structure}"
            f" and {init_structure}"
        )
    if not flat:
        raise ValueError(f"{name} needs at least one operand")
    return flat, flat_inits, structure


def _identity(monoid: str, dtype: Any) -> Any:
    if monoid == "max":
        return prims.max_identity(dtype)
    if monoid == "min":
        return prims.min_identity(dtype)
    if monoid == "bitwise_and":
        return np.array(-1).astype(dtype)
    return np.array(monoid == "mul", dtype)


def monoid_of(computation: Any, inits: Sequence[Any]) -> str | None:
    """The name of the ``lax`` function that ``computation`` is, if ``inits`` is its identity."""
    computation = getattr(computation, "__wrapped__", computation)
    name = getattr(computation, "__name__", "")
    if name not in _REDUCERS or computation is not getattr(elementwise, name) or len(inits) != 1:
        return None
    aval = typeof(inits[0])
    value = inits[0]
    if isinstance(value, Tracer):
        value = value._concrete()
    if value is None or aval.shape:
        return None
    if name.startswith("bitwise") and not kind_of(aval.dtype) & (BOOL | INTEGER):
        return None
    return name if np.asarray(value) == _identity(name, aval.dtype) else None


def _stage_reduction(computation: Any, avals: tuple[Any, ...], structure: Any) -> ClosedJaxpr:
    count = len(avals)

    def flat(*args: Any) -> list[Any]:
        left = tree.unflatten(structure, args[:count])
        right = tree.unflatten(structure, args[count:])
        out, out_structure = tree.flatten(computation(left, right))
        if out_structure != structure:
            raise ValueError(
                "the function of a reduction must return the structure of the operands,"
                f" {structure}, got {out_structure}"
            )
        return out

    closed = stage(flat, [*avals, *avals])
    for given, made in zip(avals, closed.out_avals, strict=True):
        if made.shape != given.shape or made.dtype != given.dtype:
            raise TypeError(
                f"the function of a reduction over {given.str_short()} returned"
                f" {made.str_short()}: it must return the type that it takes"
            )
    if builtins.any(isinstance(c, Tracer) for c in closed.consts):
        raise NotImplementedError(
            "the function of a reduction cannot use traced values from outside; pass them as"
            " further operands"
        )
    return closed


reduction_jaxpr = weakref_lru_cache(_stage_reduction)


# --- cumulative -----------------------------------------------------------------------------------


def cumsum(operand: Any, axis: int = 0, reverse: bool = False) -> Array:
    """Return the running sums along an axis.

    Args:
        operand: Array to accumulate.
        axis: Axis along which to accumulate, from 0 up.
        reverse: If true, start at the end.

    Returns:
        Array with the shape and dtype of ``operand``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.cumsum(jnp.arange(4)), lax.cumsum(jnp.arange(4), reverse=True)
        (Array([0, 1, 3, 6], dtype=int32), Array([6, 6, 5, 3], dtype=int32))
    """
    return cumulative.cumsum_p.bind(operand, axis=int(axis), reverse=bool(reverse))


def cumprod(operand: Any, axis: int = 0, reverse: bool = False) -> Array:
    """Return the running products along an axis.

    Args:
        operand: Array to accumulate.
        axis: Axis along which to accumulate, from 0 up.
        reverse: If true, start at the end.

    Returns:
        Array with the shape and dtype of ``operand``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.cumprod(jnp.arange(1, 5))
        Array([ 1,  2,  6, 24], dtype=int32)
    """
    return cumulative.cumprod_p.bind(operand, axis=int(axis), reverse=bool(reverse))


def cummax(operand: Any, axis: int = 0, reverse: bool = False) -> Array:
    """Return the largest element so far along an axis.

    Args:
        operand: Array to accumulate.
        axis: Axis along which to accumulate, from 0 up.
        reverse: If true, start at the end.

    Returns:
        Array with the shape and dtype of ``operand``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.cummax(jnp.array([1, 3, 2]))
        Array([1, 3, 3], dtype=int32)
    """
    return cumulative.cummax_p.bind(operand, axis=int(axis), reverse=bool(reverse))


def cummin(operand: Any, axis: int = 0, reverse: bool = False) -> Array:
    """Return the smallest element so far along an axis.

    Args:
        operand: Array to accumulate.
        axis: Axis along which to accumulate, from 0 up.
        reverse: If true, start at the end.

    Returns:
        Array with the shape and dtype of ``operand``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.cummin(jnp.array([2, 3, 1]))
        Array([2, 2, 1], dtype=int32)
    """
    return cumulative.cummin_p.bind(operand, axis=int(axis), reverse=bool(reverse))


def cumlogsumexp(operand: Any, axis: int = 0, reverse: bool = False) -> Array:
    """Return the logarithm of running sums of exponentials along an axis.

    Args:
        operand: Floating-point array to accumulate.
        axis: Axis along which to accumulate, from 0 up.
        reverse: If true, start at the end.

    Returns:
        Array with the shape and dtype of ``operand``.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.cumlogsumexp(jnp.zeros(2))
        Array([0.       , 0.6931472], dtype=float32)
    """
    return cumulative.cumlogsumexp_p.bind(operand, axis=int(axis), reverse=bool(reverse))
