"""Losses of classes: cross entropies, margins and divergences."""

from __future__ import annotations

from typing import Any

import weft
import weft.numpy as jnp
from weft.extend.source_info_util import warn
from weft.optim.losses.checks import check_floats, check_integers, check_same_shape
from weft.optim.projections import projection_simplex


def sigmoid_binary_cross_entropy(logits: Any, labels: Any) -> weft.Array:
    """Return the cross entropy of yes-or-no labels, element by element.

    Args:
        logits: the scores before the softmax or sigmoid, a float array.
        labels: the probability of yes, between 0 and 1.

    Returns:
        The loss of each element.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.sigmoid_binary_cross_entropy(jnp.array([0.0]), jnp.array([1.0])).round(4)
        Array([0.6931], dtype=float32)
    """
    check_floats("sigmoid_binary_cross_entropy", logits=logits)
    labels = jnp.asarray(labels).astype(logits.dtype)
    yes, no = weft.nn.log_sigmoid(logits), weft.nn.log_sigmoid(-logits)
    return -labels * yes - (1.0 - labels) * no


def sigmoid_focal_loss(
    logits: Any, labels: Any, *, alpha: float | None = None, gamma: float = 2.0
) -> weft.Array:
    """Return a binary cross entropy with less weight on easy elements (Lin et al., 2017).

    Args:
        logits: the scores before the softmax or sigmoid, a float array.
        labels: 0 or 1, or probabilities between.
        alpha: the weight of yes; no has 1 - alpha. None for no weights.
        gamma: how strongly elements that are right lose weight; 0 for not at all.

    Returns:
        The loss of each element.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.sigmoid_focal_loss(jnp.array([0.0]), jnp.array([1.0])).round(4)
        Array([0.1733], dtype=float32)
    """
    check_floats("sigmoid_focal_loss", logits=logits)
    labels = jnp.asarray(labels).astype(logits.dtype)
    # The probability of being wrong, as a logarithm: it may be too small for a float.
    both = jnp.stack([weft.nn.log_sigmoid(logits), weft.nn.log_sigmoid(-logits)], axis=-1)
    wrong = weft.nn.logsumexp(both, axis=-1, b=jnp.stack([1 - labels, labels], axis=-1))
    loss = sigmoid_binary_cross_entropy(logits, labels) * jnp.exp(gamma * wrong)
    if alpha is None:
        return loss
    return (alpha * labels + (1.0 - alpha) * (1.0 - labels)) * loss


def hinge_loss(predictor_outputs: Any, targets: Any) -> weft.Array:
    """Return max(0, 1 - output · target).

    Args:
        predictor_outputs: the outputs of the model.
        targets: the labels, -1 or 1.

    Returns:
        The loss of each element.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.hinge_loss(jnp.array([0.5, 2.0]), jnp.array([1.0, 1.0]))
        Array([0.5, 0. ], dtype=float32)
    """
    return jnp.maximum(0, 1 - predictor_outputs * targets)


def perceptron_loss(predictor_outputs: Any, targets: Any) -> weft.Array:
    """max(0, -output·target), for targets of -1 and 1."""
    check_same_shape("perceptron_loss", predictor_outputs=predictor_outputs, targets=targets)
    return jnp.maximum(0, -predictor_outputs * targets)


def sparsemax_loss(logits: Any, labels: Any) -> weft.Array:
    """The binary sparsemax loss, zero beyond a margin."""
    return weft.nn.sparse_plus(jnp.where(labels, -logits, logits))


@weft.custom_jvp
def _weighted_log_softmax(x, weights):
    """weights·log_softmax(x), zero where the weight is, even at minus infinity."""
    log_probs = weft.nn.log_softmax(x, axis=-1)
    return jnp.where(weights != 0.0, weights * log_probs, jnp.zeros_like(log_probs))


@_weighted_log_softmax.defjvp
def _weighted_log_softmax_jvp(primals, tangents):
    x, weights = primals
    x_dot, weights_dot = tangents
    mean = jnp.sum(x_dot * weft.nn.softmax(x, axis=-1), axis=-1, keepdims=True)
    tangent = weights * x_dot - weights * mean + weights_dot * weft.nn.log_softmax(x, axis=-1)
    return _weighted_log_softmax(x, weights), tangent


def safe_softmax_cross_entropy(logits: Any, labels: Any) -> weft.Array:
    """Return the cross entropy with probabilities as labels, also for logits of minus infinity.

    Args:
        logits: the scores before the softmax or sigmoid, a float array.
        labels: the true probabilities, along the last axis.

    Returns:
        The loss, without the last axis.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.safe_softmax_cross_entropy(jnp.array([0.0, -jnp.inf]), jnp.array([1.0, 0.0]))
        Array(-0., dtype=float32)
    """
    check_floats("safe_softmax_cross_entropy", logits=logits)
    return -jnp.sum(_weighted_log_softmax(logits, labels), axis=-1)


def softmax_cross_entropy(
    logits: Any, labels: Any, axis: Any = -1, where: Any = None
) -> weft.Array:
    """Return the cross entropy with probabilities as labels.

    Args:
        logits: the scores before the softmax or sigmoid, a float array.
        labels: the true probabilities, of the shape of ``logits``.
        axis: the axis or axes of the classes.
        where: a mask that broadcasts to the logits; classes where it is False are left out.

    Returns:
        The loss, without the axes of the classes.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.softmax_cross_entropy(jnp.zeros((1, 2)), jnp.array([[1.0, 0.0]])).round(4)
        Array([0.6931], dtype=float32)
    """
    check_floats("softmax_cross_entropy", logits=logits)
    if where is not None and where.ndim != logits.ndim:
        where = jnp.expand_dims(where, axis)
    return -(labels * weft.nn.log_softmax(logits, axis, where)).sum(axis, where=where)


def softmax_cross_entropy_with_integer_labels(
    logits: Any, labels: Any, axis: Any = -1, where: Any = None
) -> weft.Array:
    """Return the cross entropy with classes as labels.

    Args:
        logits: the scores before the softmax or sigmoid, a float array.
        labels: the number of the true class, an integer array without the axes of the classes.
        axis: the axis of the classes, or several that are taken as one.
        where: a mask that broadcasts to the logits; classes where it is False are left out.

    Returns:
        The loss, of the shape of ``labels``.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> logits = jnp.array([[2.0, 0.0], [0.0, 3.0]])
        >>> optim.softmax_cross_entropy_with_integer_labels(logits, jnp.array([0, 0])).round(4)
        Array([0.1269, 3.0486], dtype=float32)
    """
    name = "softmax_cross_entropy_with_integer_labels"
    check_floats(name, logits=logits)
    check_integers(name, labels=labels)
    if where is not None and where.ndim != logits.ndim:
        where = jnp.expand_dims(where, axis)
    if isinstance(axis, int):
        axis = _from_front(name, axis, logits.ndim)
    elif isinstance(axis, tuple):
        axes = tuple(_from_front(name, a, logits.ndim) for a in axis)
        batch = tuple(a for a in range(logits.ndim) if a not in axes)

        def join(x):
            moved = x.transpose(batch + axes)
            return moved.reshape((*moved.shape[: len(batch)], -1))

        axis, logits = len(batch), join(logits)
        where = None if where is None else join(where)
    else:
        raise ValueError(f"{name}: axis must be an int or a tuple of ints, got {axis!r}")
    chosen = jnp.take_along_axis(logits, jnp.expand_dims(labels, axis), axis=axis)
    loss = weft.nn.logsumexp(logits, axis=axis, where=where) - chosen.take(0, axis=axis)
    return loss if where is None else jnp.where(jnp.any(where, axis), loss, 0.0)


def _from_front(name, axis, ndim):
    if not -ndim <= axis < ndim:
        raise ValueError(f"{name}: there is no axis {axis} in an array of {ndim} dimensions")
    return axis % ndim


def _of_label(scores, labels):
    """One-hot labels, and the score of each label."""
    hot = weft.nn.one_hot(labels, scores.shape[-1])
    return hot, jnp.sum(scores * hot, axis=-1)


def multiclass_hinge_loss(scores: Any, labels: Any) -> weft.Array:
    """How far the label's score fails to be one above all others."""
    hot, chosen = _of_label(scores, labels)
    return jnp.max(scores + 1.0 - hot, axis=-1) - chosen


def multiclass_perceptron_loss(scores: Any, labels: Any) -> weft.Array:
    """How far the label's score is below the largest."""
    return jnp.max(scores, axis=-1) - _of_label(scores, labels)[1]


def multiclass_sparsemax_loss(scores: Any, labels: Any) -> weft.Array:
    """The sparsemax loss (Martins and Astudillo, 2016), one for each row of scores."""

    def loss(scores, label):
        probs = projection_simplex(scores)
        gaps = (scores - scores[label]).at[label].set(0.0)
        return jnp.dot(probs, jnp.where(probs, gaps, 0.0)) + 0.5 * (1.0 - jnp.dot(probs, probs))

    return weft.vmap(loss)(jnp.asarray(scores), labels)


def poly_loss_cross_entropy(
    logits: Any,
    labels: Any,
    *,
    epsilon: float | weft.Array = 2.0,
    axis: Any = -1,
    where: Any = None,
) -> weft.Array:
    """The cross entropy plus `epsilon` times the probability of being wrong (Leng et al., 2022)."""
    check_floats("poly_loss_cross_entropy", logits=logits, labels=labels)
    probs = weft.nn.softmax(logits, axis=axis, where=where)
    wrong = jnp.sum(labels * (1 - probs), axis=axis, where=where)
    return softmax_cross_entropy(logits, labels, axis, where) + epsilon * wrong


def kl_divergence(
    log_predictions: Any, targets: Any, axis: Any = -1, where: Any = None
) -> weft.Array:
    """Return the Kullback-Leibler divergence of probabilities from predicted log-probabilities.

    Args:
        log_predictions: the logarithms of the predicted probabilities.
        targets: the true probabilities.
        axis: the axis or axes of the classes.
        where: a mask that broadcasts to the logits; classes where it is False are left out.

    Returns:
        The divergence, without the axes of the classes.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.kl_divergence(jnp.log(jnp.array([0.5, 0.5])), jnp.array([1.0, 0.0])).round(4)
        Array(0.6931, dtype=float32)
    """
    check_floats("kl_divergence", log_predictions=log_predictions, targets=targets)
    logs = jnp.where(targets == 0, 0, jnp.log(targets))
    return jnp.sum(targets * (logs - log_predictions), axis=axis, where=where)


def kl_divergence_with_log_targets(
    log_predictions: Any, log_targets: Any, axis: Any = -1, where: Any = None
) -> weft.Array:
    """The Kullback-Leibler divergence, both in logarithms."""
    name = "kl_divergence_with_log_targets"
    check_floats(name, log_predictions=log_predictions, log_targets=log_targets)
    loss = jnp.exp(log_targets) * (log_targets - log_predictions)
    return jnp.sum(loss, axis=axis, where=where)


def generalized_kl_divergence(
    log_predictions: Any, targets: Any, axis: Any = -1, where: Any = None
) -> weft.Array:
    """Return the divergence of measures that need not sum to one; convex in both.

    Args:
        log_predictions: the logarithms of the predicted probabilities.
        targets: the true probabilities.
        axis: the axis or axes of the classes.
        where: a mask that broadcasts to the logits; classes where it is False are left out.

    Returns:
        The divergence, without the axes of the classes.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> log_predictions = jnp.log(jnp.array([0.5, 0.5]))
        >>> optim.generalized_kl_divergence(log_predictions, jnp.array([1.0, 0.0])).round(4)
        Array(0.6931, dtype=float32)
    """
    mass = jnp.sum(jnp.exp(log_predictions) - targets, axis=axis, where=where)
    return kl_divergence(log_predictions, targets, axis, where) + mass


def convex_kl_divergence(
    log_predictions: Any, targets: Any, axis: Any = -1, where: Any = None
) -> weft.Array:
    """Return the same as ``generalized_kl_divergence``; the older name.

    Args:
        log_predictions: the logarithms of the predicted probabilities.
        targets: the true probabilities.
        axis: the axis or axes of the classes.
        where: a mask that broadcasts to the logits; classes where it is False are left out.

    Returns:
        The divergence, without the axes of the classes.

    Example:
        >>> import warnings, weft.numpy as jnp, weft.optim as optim
        >>> with warnings.catch_warnings(action="ignore"):
        ...     print(optim.convex_kl_divergence(jnp.log(jnp.array([0.5])), jnp.array([0.5])))
        0.0
    """
    warn("convex_kl_divergence is deprecated, use generalized_kl_divergence", DeprecationWarning)
    return generalized_kl_divergence(log_predictions, targets, axis, where)
