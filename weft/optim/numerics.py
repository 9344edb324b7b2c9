"""Numbers handled with care at zero and at the end of their range."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft
import weft.numpy as jnp
from weft.optim import base


def abs_sq(x):
    """The squared magnitude of each element, real for complex arrays too."""
    if not isinstance(x, (np.ndarray, weft.Array)):
        raise ValueError(f"abs_sq takes an array, got {x!r}; wrap it in weft.numpy.asarray")
    return (x.conj() * x).real if jnp.iscomplexobj(x) else x * x


def safe_norm(
    x: Any, min_norm: base.Numeric, ord: Any = None, axis: Any = None, keepdims: bool = False
) -> weft.Array:
    """Return the norm of ``x``, at least ``min_norm``, with a gradient of zero below that.

    Args:
        x: an array.
        min_norm: the smallest value of the result.
        ord: the order of the norm, as in ``jnp.linalg.norm``.
        axis: the axis or axes of the vectors or matrices. By default all.
        keepdims: keep the reduced axes, with size 1.

    Returns:
        The norm, a float array.

    Example:
        >>> import weft, weft.numpy as jnp, weft.optim as optim
        >>> weft.grad(lambda x: optim.safe_norm(x, 1e-6))(jnp.zeros(2))
        Array([0., 0.], dtype=float32)
    """
    kept = jnp.linalg.norm(x, ord=ord, axis=axis, keepdims=True)
    norm = kept if keepdims else jnp.squeeze(kept, axis=axis)
    # Where the norm is too small its derivative is not finite: take it of ones and drop it.
    safe = jnp.where(kept <= min_norm, jnp.ones_like(x), x)
    return jnp.where(
        norm <= min_norm, min_norm, jnp.linalg.norm(safe, ord=ord, axis=axis, keepdims=keepdims)
    )


def safe_root_mean_squares(x: Any, min_rms: base.Numeric) -> weft.Array:
    """Return the root mean square of ``x``, at least ``min_rms``, with a gradient everywhere.

    Args:
        x: an array.
        min_rms: the smallest value of the result.

    Returns:
        A scalar.

    Example:
        >>> import weft, weft.numpy as jnp, weft.optim as optim
        >>> weft.grad(lambda x: optim.safe_root_mean_squares(x, 1e-6))(jnp.zeros(2))
        Array([0., 0.], dtype=float32)
    """
    rms = jnp.sqrt(jnp.mean(abs_sq(x)))
    safe = jnp.where(rms <= min_rms, jnp.ones_like(x), x)
    return jnp.where(rms <= min_rms, min_rms, jnp.sqrt(jnp.mean(abs_sq(safe))))


def safe_increment(count: Any) -> weft.Array:
    """Return ``count + 1``, staying at the largest value of the dtype instead of wrapping around.

    Args:
        count: an integer or float scalar.

    Returns:
        A scalar of the same dtype.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> int(optim.safe_increment(jnp.array(2**31 - 1)))
        2147483647
    """
    dtype = jnp.asarray(count).dtype
    if jnp.issubdtype(dtype, jnp.integer):
        largest = jnp.iinfo(dtype).max
    elif jnp.issubdtype(dtype, jnp.floating):
        largest = jnp.finfo(dtype).max
    else:
        raise ValueError(f"a count must be of an integer or float dtype, got {dtype}")
    largest = np.array(largest, dtype)
    return jnp.where(count < largest, count + np.array(1, dtype), largest)


def safe_int32_increment(count: Any) -> weft.Array:
    """Return the same as ``safe_increment``; the older name.

    Args:
        count: an integer scalar.

    Returns:
        A scalar of the same dtype.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> int(optim.safe_int32_increment(jnp.array(4)))
        5
    """
    return safe_increment(count)


def canonical_dtype(dtype):
    """The dtype as it exists under the current setting of `enable_x64`; None stays None."""
    return None if dtype is None else weft.dtypes.canonicalize_dtype(dtype)


def canonical_key(key_or_seed):
    """A key, from a key or from a seed."""
    if isinstance(key_or_seed, weft.Array):
        if jnp.issubdtype(key_or_seed.dtype, weft.dtypes.prng_key):
            return key_or_seed
    return weft.random.key(key_or_seed)
