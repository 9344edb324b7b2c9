"""What the distributions check and share: dtypes, shapes, placement, unpacking of keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.api.placement import resharded, result_sharding
from weft.core.trace import typeof
from weft.lax.shape import broadcast_for, canonical_shape
from weft.prims.families import const as const
from weft.prims.families import scalar
from weft.prims.random import layout, random_bits_p

_KINDS = {
    np.floating: "a float",
    np.inexact: "a float or complex",
    np.integer: "an integer",
    np.unsignedinteger: "an unsigned integer",
}


def check_dtype(
    name: str, dtype: Any, kind: Any = np.floating, error: type[Exception] = ValueError
) -> np.dtype:
    """The dtype of a result, of a kind; the default one of that kind if none is given."""
    if dtype is None:
        dtype = int if kind is np.integer else float
    checked = dtypes.check_user_dtype(dtype, name)
    if not dtypes.issubdtype(checked, kind):
        raise error(f"{name} returns {_KINDS[kind]} dtype, not {checked}: choose another dtype=")
    return checked


def check_shape(name: str, shape: Any, *params: Any) -> tuple[int, ...]:
    """The shape of a result, into which the shapes of the parameters must broadcast."""
    given = canonical_shape(shape)
    if any(n < 0 for n in given):
        raise TypeError(f"{name} got the shape {given}: sizes cannot be negative")
    if params:
        check_fits(name, given, *map(np.shape, params))
    return given


def check_fits(name: str, shape: tuple[int, ...], *shapes: tuple[int, ...]) -> None:
    """Raise ValueError unless shapes of parameters broadcast to ``shape``."""
    if not any(shapes):
        return
    together = broadcast_for(name, shape, *shapes)
    if together != shape:
        given = ", ".join(map(str, shapes))
        raise ValueError(
            f"{name} got shape={shape}, to which parameters of shapes {given} do not broadcast:"
            f" shape={together} would fit them"
        )


def broadcast_shape(name: str, shape: Any, *params: Any) -> tuple[int, ...]:
    """``check_shape``, or the shape of the parameters together if none is given."""
    if shape is None:
        return broadcast_for(name, *map(np.shape, params))
    return check_shape(name, shape, *params)


def check_cast(name: str, dtype: Any, *params: Any) -> None:
    """Raise TypePromotionError for parameters whose dtype does not fit into the result's."""
    for x in params:
        if not dtypes.safe_to_cast(x, dtype):
            raise dtypes.TypePromotionError(
                f"{name} cannot safely cast a parameter of dtype {typeof(x).dtype} to {dtype};"
                " convert it, or ask for a wider dtype="
            )


def placed(x: Any, out_sharding: Any) -> Any:
    """``x`` with the sharding that was asked for."""
    if out_sharding is None:
        return x
    mesh = getattr(out_sharding, "mesh", None)
    if mesh is not None and not mesh.explicit_axes:
        return lax.with_sharding_constraint(x, out_sharding)
    where = result_sharding(out_sharding, "a random function")
    return x if where is None else resharded(x, where)


def random_bits(key: Any, bit_width: int, shape: tuple[int, ...]) -> Any:
    """Random integers of a width, of one typed key."""
    return random_bits_p.bind(key, bit_width=bit_width, shape=shape, **layout())


def unpack(x: Any) -> list[Any]:
    """The slices of an array along its first axis."""
    n, *rest = np.shape(x)
    zeros, ones = [0] * len(rest), (1,) * (len(rest) + 1)
    return [lax.squeeze(lax.slice(x, (i, *zeros), (i + 1, *rest), ones), (0,)) for i in range(n)]


def broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    """``x`` at a larger shape, by the rules of NumPy."""
    have = np.shape(x)
    if have == shape:
        return x
    first = len(shape) - len(have)
    return lax.broadcast_in_dim(x, shape, tuple(range(first, len(shape))))


def converted(x: Any, dtype: Any) -> Any:
    """``x`` in a dtype; numbers of Python at once, also while something is traced."""
    if isinstance(x, (bool, int, float, complex)):
        return scalar(dtype, x)
    return lax.convert_element_type(x, dtype)
