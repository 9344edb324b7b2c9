"""Statistics of samples for ``scipy.stats``: the mode, ranks and the standard error."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import weft.numpy as jnp
from weft import dtypes, lax
from weft.core.array import Array
from weft.lax.shape import canonical_axis
from weft.numpy.promotion import check_arraylike, mixes_inside


class ModeResult(NamedTuple):
    """The most frequent values and how often they come."""

    mode: Array
    count: Array


def _only_propagate(name: str, nan_policy: str) -> None:
    """Refuse what would need to look at the data, or is no policy at all."""
    if nan_policy not in ("propagate", "omit", "raise"):
        raise ValueError(f"{name}: nan_policy {nan_policy!r} is not 'propagate', 'omit' or 'raise'")
    if nan_policy != "propagate":
        raise NotImplementedError(
            f"{name} has no nan_policy {nan_policy!r}, which depends on the data; check for NaN "
            "before the call"
        )


@mixes_inside
def mode(
    a: Any, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """Return the most frequent values along an axis, and their counts.

    Args:
        a: the sample.
        axis: the axis along which to look; None for the flattened array.
        nan_policy: what to do about NaN; must be ``'propagate'``.
        keepdims: keep the axis, with size 1.

    Returns:
        A named tuple ``(mode, count)``; of several most frequent values the smallest.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.stats import mode
        >>> mode(jnp.array([1, 2, 2, 3]))
        ModeResult(mode=Array(2, dtype=int32), count=Array(2, dtype=int32))
    """
    check_arraylike("mode", a)
    _only_propagate("mode", nan_policy)
    x = jnp.atleast_1d(a)
    if axis is None:
        kept = (1,) * x.ndim
        x, axis = x.ravel(), 0
    else:
        axis = canonical_axis(axis, x.ndim)
        kept = x.shape[:axis] + (1,) + x.shape[axis + 1 :]
    if x.shape[axis] == 0:
        shape = kept if keepdims else x.shape[:axis] + x.shape[axis + 1 :]
        kind = dtypes.default_float_dtype()
        return ModeResult(jnp.full(shape, np.nan, kind), jnp.zeros(shape, kind))
    x = jnp.sort(jnp.moveaxis(x, axis, -1), axis=-1)
    count = _run_lengths(x)
    best = jnp.argmax(count, axis=-1, keepdims=True)
    found = ModeResult(
        jnp.take_along_axis(x, best, axis=-1)[..., 0],
        jnp.take_along_axis(count, best, axis=-1)[..., 0],
    )
    if not keepdims:
        return found
    return ModeResult(found.mode.reshape(kept), found.count.reshape(kept))


def _starts_of_runs(x: Array) -> Array:
    """Where a sorted last axis begins a run of equal values; NaN is equal to NaN."""
    same = x[..., 1:] == x[..., :-1]
    if dtypes.issubdtype(x.dtype, np.inexact):
        same |= jnp.isnan(x[..., 1:]) & jnp.isnan(x[..., :-1])
    return jnp.concatenate([jnp.ones_like(x[..., :1], bool), ~same], axis=-1)


def _run_lengths(x: Array) -> Array:
    """At the start of each run of a sorted last axis its length, and less elsewhere."""
    index = jnp.arange(x.shape[-1])
    starts = _starts_of_runs(x)
    # the next start, looked up from the end
    later = jnp.where(starts, index, x.shape[-1])
    following = lax.cummin(later, axis=x.ndim - 1, reverse=True)
    end = jnp.full_like(following[..., :1], x.shape[-1])
    following = jnp.concatenate([following[..., 1:], end], axis=-1)
    return jnp.where(starts, following - index, 0)


def rankdata(
    a: Any, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Array:
    """Return the ranks of values, from 1.

    Args:
        a: the sample.
        method: what equal values get: the ``'average'``, ``'min'`` or ``'max'`` of their ranks, the
            same rank without gaps (``'dense'``), or ranks in order of position (``'ordinal'``).
        axis: the axis along which to rank; None for the flattened array.
        nan_policy: what to do about NaN; must be ``'propagate'``.

    Returns:
        An array of ranks, of the shape of ``a``, flattened if ``axis`` is None.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.stats import rankdata
        >>> rankdata(jnp.array([10, 30, 30, 20]))
        Array([1. , 3.5, 3.5, 2. ], dtype=float32)
    """
    check_arraylike("rankdata", a)
    _only_propagate("rankdata", nan_policy)
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise ValueError(f"rankdata has no method {method!r}")
    x = jnp.asarray(a)
    if axis is None:
        return _ranks(x.ravel(), method)
    axis = canonical_axis(axis, x.ndim)
    return jnp.moveaxis(_ranks(jnp.moveaxis(x, axis, -1), method), -1, axis)


def _ranks(x: Array, method: str) -> Array:
    kind = dtypes.default_float_dtype()
    if not x.size:
        return jnp.zeros(x.shape, kind)
    n, last = x.shape[-1], x.ndim - 1
    order = jnp.argsort(x, axis=-1)
    place = jnp.argsort(order, axis=-1)  # of each value among the sorted ones
    if method == "ordinal":
        ranks = (place + 1).astype(kind)
    else:
        starts = _starts_of_runs(jnp.take_along_axis(x, order, axis=-1))
        index = jnp.arange(n)
        first = lax.cummax(jnp.where(starts, index, 0), axis=last)
        end = jnp.concatenate([starts[..., 1:], jnp.ones_like(starts[..., :1])], axis=-1)
        last_of_run = lax.cummin(jnp.where(end, index, n), axis=last, reverse=True)
        by_place = {
            "min": first + 1,
            "max": last_of_run + 1,
            "average": (first + last_of_run + 2).astype(kind) / 2,
            "dense": jnp.cumsum(starts, axis=-1),
        }[method]
        ranks = jnp.take_along_axis(by_place, place, axis=-1).astype(kind)
    if not dtypes.issubdtype(x.dtype, np.inexact):
        return ranks
    return jnp.where(jnp.isnan(x).any(axis=-1, keepdims=True), np.nan, ranks)


def sem(
    a: Any,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """Return the standard error of the mean: the standard deviation over the root of the count.

    Args:
        a: the sample.
        axis: the axis along which to look; None for the flattened array.
        ddof: the degrees of freedom to subtract from the count in the variance.
        nan_policy: what to do about NaN; must be ``'propagate'``.
        keepdims: keep the axis, with size 1.

    Returns:
        A float array of the reduced shape.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.stats import sem
        >>> round(float(sem(jnp.array([1.0, 2.0, 4.0]))), 4)
        0.8819
    """
    check_arraylike("sem", a)
    x = jnp.asarray(a)
    if nan_policy == "propagate":
        count = x.size if axis is None else x.shape[axis]
        result = jnp.std(x, axis=axis, ddof=ddof, keepdims=keepdims) / math.sqrt(count)
        return result.astype(x.dtype) if jnp.iscomplexobj(x) else result
    if nan_policy != "omit":
        raise ValueError(f"sem supports nan_policy 'propagate' and 'omit', not {nan_policy!r}")
    deviation = jnp.nanstd(x, axis=axis, ddof=ddof, keepdims=keepdims)
    present = (~jnp.isnan(x)).sum(axis=axis, keepdims=keepdims)
    return deviation / jnp.sqrt(present.astype(deviation.dtype))
