"""Broadcasting arrays to shapes and to each other, and the three-way ``where`` built on it."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from weft import dtypes, lax
from weft.api.placement import divided_alike, resharded, result_sharding
from weft.base import knobs
from weft.core import sharding as meshes
from weft.core.array import Array, Number
from weft.core.dims.dim import Dim
from weft.core.trace import typeof
from weft.lax.shape import broadcast_for, canonical_shape
from weft.numpy.positions import nonzero
from weft.numpy.promotion import (
    as_array,
    check_arraylike,
    constant,
    convert_staged,
    ensure_array,
    ensure_arrays,
    unwrapped,
)
from weft.prims.families import const, scalar
from weft.prims.selection import select_n_p
from weft.prims.shape import broadcast_in_dim


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """Return the shape that several shapes broadcast to.

    Args:
        *shapes: Shapes, tuples of integers or single integers.

    Returns:
        Tuple of integers. Shapes that don't fit raise ValueError.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.broadcast_shapes((3, 1), (4,))
        (3, 4)
    """
    if not shapes:
        return ()
    one = [type(s) is Dim or np.ndim(s) == 0 for s in shapes]
    return lax.broadcast_shapes(*[(s,) if o else tuple(s) for s, o in zip(shapes, one)])


def expand_to(x: Any, shape: tuple[int, ...]) -> Any:
    """``x`` broadcast to a shape that it is known to fit."""
    have = typeof(x).shape
    if have == shape:
        return x
    return broadcast_in_dim(x, shape, tuple(range(len(shape) - len(have), len(shape))))


def broadcast_to(array: Any, shape: Any, *, out_sharding: Any = None) -> Array:
    """Return an array repeated to fill a shape.

    Args:
        array: Array or scalar whose shape broadcasts to ``shape``.
        shape: Shape of the result.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Array of shape ``shape`` in the dtype of ``array``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.broadcast_to(jnp.arange(2), (2, 2))
        Array([[0, 1],
               [0, 1]], dtype=int32)
    """
    x = ensure_array("broadcast_to", array)
    sizes = canonical_shape(shape)
    if out_sharding is not None:
        where = result_sharding(out_sharding, "broadcast_to")
        x = broadcast_to(x, sizes)
        return x if where is None else resharded(x, where)
    have = x.shape
    lead = len(sizes) - len(have)
    fits = lead >= 0
    for n, m in zip(have, sizes[max(lead, 0) :], strict=False):
        fits = fits and n in (1, m)
    if not fits:
        raise ValueError(
            f"Incompatible shapes for broadcasting: {have} and requested shape {sizes}"
        )
    return expand_to(x, sizes)


def broadcast_arrays(*args: Any) -> list[Array]:
    """Return arrays repeated to their common shape.

    Args:
        *args: Arrays or scalars that broadcast against each other.

    Returns:
        List of arrays of one shape, each in its own dtype.

    Example:
        >>> import weft.numpy as jnp
        >>> [x.shape for x in jnp.broadcast_arrays(jnp.ones((2, 1)), jnp.ones(3))]
        [(2, 3), (2, 3)]
    """
    arrays = ensure_arrays("broadcast_arrays", *args)
    common = broadcast_for("broadcast_arrays", *(x.shape for x in arrays))
    return [expand_to(x, common) for x in arrays]


def filled(shape: tuple[int, ...], value: Any) -> Any:
    """An array of one scalar; the scalar itself for the empty shape."""
    return broadcast_in_dim(value, shape, ()) if shape else as_array(value)


def full_of(x: Any, value: Any) -> Any:
    """An array of one value with the shape, dtype and weak type of ``x``."""
    shape, scalar_value = np.shape(x), const(x, value)
    divided = getattr(typeof(x), "divided", None)
    return broadcast_in_dim(scalar_value, shape, (), divided) if shape else scalar_value


def _spread(x: Any, shape: tuple[int, ...]) -> Any:
    """``x`` at a shape; where NaNs are looked for, a constant is nobody's result."""
    checked = knobs.thread.debug_nans or knobs.thread.debug_infs
    if checked and not isinstance(x, Array) and np.ndim(x) == 0:
        aval = typeof(x)
        return constant(np.full(shape, x, aval.dtype), aval.update(shape=shape))
    return expand_to(x, shape)


def choose_where(condition: Any, x: Any, y: Any, primitive: Any = select_n_p) -> Any:
    """``x`` where the condition holds, ``y`` elsewhere; dtypes are promoted, shapes broadcast."""
    if x is None or y is None:
        raise TypeError(f"where needs both x and y, or neither; got {x} and {y}")
    check_arraylike("where", condition, x, y)
    condition, x, y = unwrapped(condition), unwrapped(x), unwrapped(y)
    kind = typeof(condition).dtype
    if kind != np.bool_:
        condition = lax.ne(condition, scalar(kind, 0))
    dtype, weak = dtypes.lattice_result_type(x, y)
    x, y = convert_staged(x, dtype, weak), convert_staged(y, dtype, weak)
    given, shape = (x, y), typeof(condition).shape
    common = broadcast_for("where", shape, typeof(x).shape, typeof(y).shape)
    if shape:
        condition = expand_to(condition, common)
    x, y = _spread(x, common), _spread(y, common)
    if 0 in common:
        return as_array(x)
    if meshes.explicit_ones:
        condition, *spread = divided_alike("where", condition, x, y)
        # what was broadcast is divided as the rest; two arrays of the result's shape are not moved
        x, y = (a if a is b else c for a, b, c in zip((x, y), given, spread, strict=True))
    return primitive.bind(condition, y, x)


@overload
def where(
    condition: Any, /, *, size: int | None = None, fill_value: Any = None
) -> tuple[Array, ...]: ...
@overload
def where(condition: Any, x: Any, y: Any, /) -> Array: ...
def where(
    condition: Any,
    x: Number = None,
    y: Number = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Array | tuple[Array, ...]:
    """Return elements of ``x`` where a condition holds and of ``y`` elsewhere.

    Args:
        condition: Boolean array; other numbers count as true if they are not zero.
        x: Values where the condition holds; broadcasts with ``condition`` and ``y``. Give ``x`` and
            ``y``, or neither.
        y: Values where it does not.
        size: Only without ``x`` and ``y``: static number of indices, needed under ``jit``.
        fill_value: Only without ``x`` and ``y``: index for the missing ones if there are fewer than
            ``size``.

    Returns:
        Array of the broadcast shape, in the dtype that ``x`` and ``y`` promote to. Without them,
        the indices where the condition holds, as by ``nonzero``.

    Both ``x`` and ``y`` are computed, and gradients flow through both: if one is NaN or infinite
    where it isn't chosen, guard its argument with another ``where``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.where(jnp.array([True, False]), 1.0, jnp.zeros(2))
        Array([1., 0.], dtype=float32)
    """
    if x is None and y is None:
        check_arraylike("where", condition)
        return nonzero(condition, size=size, fill_value=fill_value)
    if size is not None or fill_value is not None:
        raise ValueError("where with x and y takes neither size nor fill_value")
    return choose_where(condition, x, y)
