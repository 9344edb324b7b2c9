"""Vector quantization: ``weft.scipy.cluster.vq``."""

from __future__ import annotations

import sys as _sys
from typing import Any

import weft.numpy as jnp
from weft.base.traceback import expose as _expose
from weft.core.array import Array
from weft.numpy import promotion

__all__ = ["vq"]


def vq(obs: Any, code_book: Any, check_finite: bool = True) -> tuple[Array, Array]:
    """Return for every observation the index of the nearest code, and the distance to it.

    Args:
        obs: the observations, of shape (observations, features).
        code_book: the codes, of shape (codes, features).
        check_finite: accepted for SciPy, no effect: values are not looked at.

    Returns:
        Two arrays of shape (observations,): the indices, and the Euclidean distances.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.cluster.vq import vq
        >>> vq(jnp.array([[0.0, 1.0], [4.0, 4.0]]), jnp.array([[0.0, 0.0], [4.0, 3.0]]))
        (Array([0, 1], dtype=int32), Array([1., 1.], dtype=float32))
    """
    promotion.check_arraylike("vq", obs, code_book)
    points, codes = map(jnp.asarray, promotion.promote_dtypes_inexact(obs, code_book))
    if points.ndim != codes.ndim:
        raise ValueError(f"vq got operands of ranks {points.ndim} and {codes.ndim}")
    if points.ndim == 1:
        points, codes = points[:, None], codes[:, None]
    if points.ndim != 2:
        raise ValueError(f"vq takes vectors or matrices, got rank {points.ndim}")
    if points.shape[1] != codes.shape[1]:
        raise TypeError(f"vq got observations {points.shape} and codes {codes.shape}")
    apart = jnp.abs(points[:, None, :] - codes[None, :, :])
    squares = (apart * apart).sum(axis=-1)
    return jnp.argmin(squares, axis=1), jnp.sqrt(squares.min(axis=1))


_expose(_sys.modules[__name__])
