"""Promotion of operands: dtypes by the lattice, ranks by leading dimensions of size 1."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.base import knobs
from weft.core.array import Array
from weft.prims.convert import convert_element_type_p
from weft.prims.families import scalar
from weft.prims.shape import broadcast_in_dim

_PYTHON_SCALARS = (bool, int, float, complex)


def check_arraylike(name: str, *args: Any, emit_warning: bool = False) -> None:
    """Raise TypeError unless all arguments are arrays or scalars."""
    for i, x in enumerate(args):
        kind = type(x)
        if isinstance(x, Array) or kind in _PYTHON_SCALARS:
            continue
        if isinstance(x, (np.ndarray, np.generic)) or hasattr(x, "__jax_array__"):
            continue
        if isinstance(x, _PYTHON_SCALARS):
            continue
        hint = "; wrap it in jnp.array(...)" if isinstance(x, (list, tuple)) else ""
        raise TypeError(
            f"{name} requires ndarray or scalar arguments, got {kind.__name__} at position"
            f" {i}{hint}"
        )


def convert_operand(x: Any, dtype: Any, weak: bool) -> Any:
    """``x`` at a dtype and weak type; values outside of traces are converted at once."""
    if isinstance(x, Array):
        aval = x.aval
        if aval.dtype == dtype and aval.weak_type == weak:
            return x
        return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak, sharding=None)
    if isinstance(x, np.ndarray) and x.ndim:
        return x if x.dtype == dtype else x.astype(dtype)
    if hasattr(x, "__jax_array__"):
        return convert_operand(x.__jax_array__(), dtype, weak)
    if type(x) in _PYTHON_SCALARS:
        if weak:
            return dtypes.scalar_type_of(dtype)(x) if not _has_kind(x, dtype) else x
        return scalar(dtype, x)
    value = np.asarray(x)
    if weak:
        return dtypes.scalar_type_of(dtype)(value.item())
    return value.astype(dtype)[()]


def _has_kind(x: Any, dtype: Any) -> bool:
    return type(x) is dtypes.scalar_type_of(dtype)


def promote_dtypes(*args: Any) -> list[Any]:
    """Arguments converted to the dtype that the promotion lattice gives them together."""
    if len(args) == 2:
        x, y = args
        if isinstance(x, Array) and isinstance(y, Array) and not x.aval.weak_type:
            if x.aval.dtype == y.aval.dtype and not y.aval.weak_type:
                return [x, y]
    dtype, weak = dtypes.lattice_result_type(*args)
    return [convert_operand(x, dtype, weak) for x in args]


def promote_dtypes_inexact(*args: Any) -> list[Any]:
    """Like ``promote_dtypes``, to an inexact dtype."""
    dtype, weak = dtypes.lattice_result_type(*args)
    inexact = dtypes.to_inexact_dtype(dtype)
    return [convert_operand(x, inexact, weak) for x in args]


def promote_dtypes_numeric(*args: Any) -> list[Any]:
    """Like ``promote_dtypes``, with booleans as integers."""
    dtype, weak = dtypes.lattice_result_type(*args)
    numeric = dtypes.to_numeric_dtype(dtype)
    return [convert_operand(x, numeric, weak) for x in args]


def promote_dtypes_complex(*args: Any) -> list[Any]:
    """Like ``promote_dtypes``, to a complex dtype."""
    dtype, weak = dtypes.lattice_result_type(*args)
    wide = dtypes.to_complex_dtype(dtype)
    return [convert_operand(x, wide, weak) for x in args]


def promote_shapes(name: str, *args: Any) -> list[Any]:
    """Arguments of equal rank: dimensions of size 1 in front, scalars as they are."""
    if len(args) < 2:
        return list(args)
    shapes = [np.shape(x) for x in args]
    if all(len(shapes[0]) == len(s) for s in shapes[1:]):
        return list(args)
    ranks = {len(s) for s in shapes if s}
    if len(ranks) < 2:
        return list(args)
    if knobs.thread.numpy_rank_promotion != "allow":
        _rank_promotion(name, shapes)
    rank = max(ranks)
    return [_raise_rank(x, s, rank) for x, s in zip(args, shapes, strict=True)]


def _raise_rank(x: Any, shape: tuple[int, ...], rank: int) -> Any:
    if not shape or len(shape) == rank:
        return x
    lead = rank - len(shape)
    return broadcast_in_dim(x, (1,) * lead + shape, tuple(range(lead, rank)))


def _rank_promotion(name: str, shapes: Sequence[tuple[int, ...]]) -> None:
    given = " ".join(map(str, shapes))
    message = (
        f"operands of {name} have different ranks (shapes {given}) and numpy_rank_promotion is"
        f" '{knobs.thread.numpy_rank_promotion}'; reshape them to equal ranks"
    )
    if knobs.thread.numpy_rank_promotion == "raise":
        raise ValueError(message)
    warnings.warn(message, stacklevel=4)


def promote_args(name: str, *args: Any) -> list[Any]:
    """Arguments checked, of one dtype and of equal rank."""
    check_arraylike(name, *args)
    return _checked_shapes(name, promote_dtypes(*args))


def promote_args_numeric(name: str, *args: Any) -> list[Any]:
    check_arraylike(name, *args)
    return _checked_shapes(name, promote_dtypes_numeric(*args))


def promote_args_inexact(name: str, *args: Any) -> list[Any]:
    """Arguments checked, of one inexact dtype and of equal rank."""
    check_arraylike(name, *args)
    return _checked_shapes(name, promote_dtypes_inexact(*args))


def _checked_shapes(name: str, args: list[Any]) -> list[Any]:
    if len(args) < 2:
        return args
    return promote_shapes(name, *args)


def ensure_array(name: str, x: Any) -> Any:
    """``x`` checked to be an array or scalar; its own value otherwise."""
    check_arraylike(name, x)
    return x.__jax_array__() if hasattr(x, "__jax_array__") else x
