"""The functions that NumPy gives as universal functions, as such objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import lax
from weft.api.learning import learning
from weft.core.array import Array
from weft.numpy import parts, reductions, ufuncs
from weft.numpy.broadcasting import full_of
from weft.numpy.indexing import update_index
from weft.numpy.promotion import (
    as_array,
    convert_operand,
    ensure_array,
    promote_dtypes_inexact,
    refuse_out,
)
from weft.numpy.ufunc_class import ufunc

_BOOL, _INT32 = np.dtype(np.bool_), np.dtype(np.int32)


def _updating(scatter: Any) -> Any:
    """The ``at`` of a ufunc for which there is a scatter; booleans go by way of integers."""

    def at(a: Any, indices: Any, b: Any) -> Array:
        x = ensure_array("at", a)
        if x.dtype != np.bool_:
            return update_index(x, indices, b, scatter)
        b = convert_operand(convert_operand(as_array(b), _BOOL), _INT32)
        out = update_index(convert_operand(x, _INT32), indices, b, scatter)
        return as_array(convert_operand(out, _BOOL))

    return at


def _logsumexp(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """The logarithm of the sum of exponentials along axes."""
    refuse_out("logaddexp.reduce", out)
    (x,) = promote_dtypes_inexact(ensure_array("logsumexp", a))
    axes = reductions.canonical_axes(axis, x.ndim)
    high = reductions.max(parts.real(x), axis=axes, keepdims=True, where=where, initial=-np.inf)
    high = lax.stop_gradient(lax.select(lax.is_finite(high), high, full_of(high, 0)))
    shifted = lax.exp(lax.sub(x, convert_operand(high, x.dtype)))
    total = reductions.sum(shifted, axis=axes, keepdims=keepdims, where=where)
    shift = high if keepdims else lax.squeeze(high, axes)
    result = lax.add(lax.log(total), convert_operand(shift, total.dtype))
    return result if initial is None else ufuncs.logaddexp(initial, result)


def _logsumexp2(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """The logarithm to base 2 of the sum of powers of 2 along axes."""
    scale = float(np.log(2))
    start = None if initial is None else ufuncs.multiply(initial, scale)
    scaled = ufuncs.multiply(ensure_array("logsumexp2", a), scale)
    out_scaled = _logsumexp(scaled, axis, dtype, out, keepdims, start, where)
    return ufuncs.true_divide(out_scaled, scale)


def _binary(function: Any, identity: Any, **rules: Any) -> ufunc:
    return ufunc(function, 2, 1, call=learning(function), identity=identity, **rules)


add = _binary(
    ufuncs.add,
    0,
    reduce=reductions.sum,
    accumulate=reductions.cumsum,
    at=_updating(lax.scatter_add),
)
multiply = _binary(
    ufuncs.multiply,
    1,
    reduce=reductions.prod,
    accumulate=reductions.cumprod,
    at=_updating(lax.scatter_mul),
)
subtract = _binary(ufuncs.subtract, None, at=_updating(lax.scatter_sub))
maximum = _binary(ufuncs.maximum, None, reduce=reductions.reduce_max)
minimum = _binary(ufuncs.minimum, None, reduce=reductions.reduce_min)
bitwise_and = _binary(ufuncs.bitwise_and, -1, reduce=reductions.reduce_bitwise_and)
bitwise_or = _binary(ufuncs.bitwise_or, 0, reduce=reductions.reduce_bitwise_or)
bitwise_xor = _binary(ufuncs.bitwise_xor, 0, reduce=reductions.reduce_bitwise_xor)
logical_and = _binary(ufuncs.logical_and, True, reduce=reductions.reduce_logical_and)
logical_or = _binary(ufuncs.logical_or, False, reduce=reductions.reduce_logical_or)
logical_xor = _binary(ufuncs.logical_xor, False, reduce=reductions.reduce_logical_xor)
logaddexp = _binary(ufuncs.logaddexp, -np.inf, reduce=_logsumexp)
logaddexp2 = _binary(ufuncs.logaddexp2, -np.inf, reduce=_logsumexp2)
negative = ufunc(ufuncs.negative, 1, 1, call=learning(ufuncs.negative))
