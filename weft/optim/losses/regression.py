"""Losses of numbers: distances between predictions and targets."""

from __future__ import annotations

from typing import Any

import weft
import weft.numpy as jnp
from weft.optim.losses.checks import check_floats, check_same_shape


def _errors(predictions, targets):
    return predictions if targets is None else predictions - targets


def squared_error(predictions: Any, targets: Any = None) -> weft.Array:
    """Return (predictions - targets)², element by element.

    Args:
        predictions: the outputs of the model, a float array.
        targets: what they should be; zeros if None.

    Returns:
        The loss of each element.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.squared_error(jnp.array([1.0, 2.0]), jnp.array([1.0, 4.0]))
        Array([0., 4.], dtype=float32)
    """
    check_floats("squared_error", predictions=predictions)
    if targets is not None:
        check_same_shape("squared_error", predictions=predictions, targets=targets)
    return _errors(predictions, targets) ** 2


def l2_loss(predictions: Any, targets: Any = None) -> weft.Array:
    """Return half of ``squared_error``.

    Args:
        predictions: the outputs of the model, a float array.
        targets: what they should be; zeros if None.

    Returns:
        The loss of each element.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.l2_loss(jnp.array([1.0, 2.0]), jnp.array([1.0, 4.0]))
        Array([0., 2.], dtype=float32)
    """
    return 0.5 * squared_error(jnp.asarray(predictions), targets)


def huber_loss(predictions: Any, targets: Any = None, *, delta: float = 1.0) -> weft.Array:
    """Return half the squared error up to ``delta``, linear beyond.

    Args:
        predictions: the outputs of the model, a float array.
        targets: what they should be; zeros if None.
        delta: the error at which the loss becomes linear.

    Returns:
        The loss of each element.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.huber_loss(jnp.array([0.5, 3.0]))
        Array([0.125, 2.5  ], dtype=float32)
    """
    check_floats("huber_loss", predictions=predictions)
    size = jnp.abs(_errors(predictions, targets))
    small = jnp.minimum(size, delta)
    return 0.5 * small**2 + delta * (size - small)


def log_cosh(predictions: Any, targets: Any = None) -> weft.Array:
    """Return log(cosh(predictions - targets)), smooth everywhere.

    Args:
        predictions: the outputs of the model, a float array.
        targets: what they should be; zeros if None.

    Returns:
        The loss of each element.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.log_cosh(jnp.array([0.0, 1.0])).round(4)
        Array([0.    , 0.4338], dtype=float32)
    """
    check_floats("log_cosh", predictions=predictions)
    errors = _errors(predictions, targets)
    return jnp.logaddexp(errors, -errors) - jnp.log(2.0).astype(errors.dtype)


def cosine_similarity(
    predictions: Any, targets: Any, *, epsilon: float = 0.0, axis: Any = -1, where: Any = None
) -> weft.Array:
    """Return the cosine of the angle between vectors.

    Args:
        predictions: the outputs of the model, a float array.
        targets: the vectors to compare with.
        epsilon: the smallest squared norm of a vector.
        axis: the axis or axes of the vectors.
        where: a mask that broadcasts to the vectors; elements where it is False are left out.

    Returns:
        The cosine, without the axes of the vectors.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.cosine_similarity(jnp.array([1.0, 0.0]), jnp.array([0.6, 0.8])).round(4)
        Array(0.6, dtype=float32)
    """
    check_floats("cosine_similarity", predictions=predictions, targets=targets)

    def unit(x):
        squares = jnp.square(x).sum(axis=axis, where=where, keepdims=True)
        return x / jnp.sqrt(jnp.clip(squares, epsilon))

    return (unit(predictions) * unit(targets)).sum(axis=axis, where=where)


def cosine_distance(
    predictions: Any, targets: Any, *, epsilon: float = 0.0, axis: Any = -1, where: Any = None
) -> weft.Array:
    """Return one minus the cosine similarity.

    Args:
        predictions: the outputs of the model, a float array.
        targets: the vectors to compare with.
        epsilon: the smallest squared norm of a vector.
        axis: the axis or axes of the vectors.
        where: a mask that broadcasts to the vectors; elements where it is False are left out.

    Returns:
        The distance, without the axes of the vectors.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.cosine_distance(jnp.array([1.0, 0.0]), jnp.array([0.6, 0.8])).round(4)
        Array(0.4, dtype=float32)
    """
    return 1.0 - cosine_similarity(predictions, targets, epsilon=epsilon, axis=axis, where=where)
