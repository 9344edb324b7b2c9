"""Losses of numbers: distances between predictions and targets."""

import weft.numpy as jnp
from weft.optim.losses.checks import check_floats, check_same_shape


def _errors(predictions, targets):
    return predictions if targets is None else predictions - targets


def squared_error(predictions, targets=None):
    """(predictions - targets)², element by element.

    >>> import weft.numpy as jnp, weft.optim as optim
    >>> optim.squared_error(jnp.array([1.0, 2.0]), jnp.array([1.0, 4.0]))
    Array([0., 4.], dtype=float32)
    """
    check_floats("squared_error", predictions=predictions)
    if targets is not None:
        check_same_shape("squared_error", predictions=predictions, targets=targets)
    return _errors(predictions, targets) ** 2


def l2_loss(predictions, targets=None):
    """Half of `squared_error`."""
    return 0.5 * squared_error(jnp.asarray(predictions), targets)


def huber_loss(predictions, targets=None, *, delta=1.0):
    """Half the squared error up to `delta`, linear beyond."""
    check_floats("huber_loss", predictions=predictions)
    size = jnp.abs(_errors(predictions, targets))
    small = jnp.minimum(size, delta)
    return 0.5 * small**2 + delta * (size - small)


def log_cosh(predictions, targets=None):
    """log(cosh(predictions - targets)), smooth everywhere."""
    check_floats("log_cosh", predictions=predictions)
    errors = _errors(predictions, targets)
    return jnp.logaddexp(errors, -errors) - jnp.log(2.0).astype(errors.dtype)


def cosine_similarity(predictions, targets, *, epsilon=0.0, axis=-1, where=None):
    """The cosine of the angle between vectors; `epsilon` is the least squared norm."""
    check_floats("cosine_similarity", predictions=predictions, targets=targets)

    def unit(x):
        squares = jnp.square(x).sum(axis=axis, where=where, keepdims=True)
        return x / jnp.sqrt(jnp.clip(squares, epsilon))

    return (unit(predictions) * unit(targets)).sum(axis=axis, where=where)


def cosine_distance(predictions, targets, *, epsilon=0.0, axis=-1, where=None):
    """One minus the cosine similarity."""
    return 1.0 - cosine_similarity(predictions, targets, epsilon=epsilon, axis=axis, where=where)
