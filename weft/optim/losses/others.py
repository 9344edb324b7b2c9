"""Losses of segmentations, rankings, embeddings and structured outputs; smoothed labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
import weft.lax as lax
import weft.numpy as jnp
from weft.optim.losses.checks import check_floats, check_rank, check_same_shape
from weft.optim.losses.regression import cosine_similarity


def smooth_labels(labels: Any, alpha: float, *, axis: Any = -1, where: Any = None) -> weft.Array:
    """Return labels mixed with the uniform distribution.

    Args:
        labels: probabilities, such as rows of ``nn.one_hot``.
        alpha: the weight of the uniform distribution, between 0 and 1.
        axis: the axis or axes of the classes.
        where: a mask that broadcasts to the labels; classes where it is False are left out.

    Returns:
        An array of the shape of ``labels``.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.smooth_labels(jnp.array([1.0, 0.0]), 0.1)
        Array([0.95, 0.05], dtype=float32)
    """
    check_floats("smooth_labels", labels=labels)
    classes = jnp.size(labels, axis) if where is None else jnp.sum(where, axis, keepdims=True)
    return (1.0 - alpha) * labels + alpha / classes


def make_fenchel_young_loss(max_fun: Callable[..., Any]) -> Callable[..., weft.Array]:
    """The loss max_fun(scores) - ⟨targets, scores⟩ (Blondel et al., 2020).

    >>> import weft, weft.numpy as jnp, weft.optim as optim
    >>> loss = optim.losses.make_fenchel_young_loss(weft.nn.logsumexp)
    >>> loss(jnp.array([0.0, 0.0]), jnp.array([1.0, 0.0])).round(4)
    Array(0.6931, dtype=float32)
    """
    over_rows = jnp.vectorize(max_fun, signature="(n)->()")
    products = jnp.vectorize(jnp.vdot, signature="(n),(n)->()")

    def fenchel_young_loss(scores, targets, *args, **kwargs):
        return over_rows(scores, *args, **kwargs) - products(targets, scores)

    return fenchel_young_loss


def dice_loss(
    predictions: Any,
    targets: Any,
    *,
    class_weights: Any = None,
    smooth: float | weft.Array = 1.0,
    alpha: float | weft.Array = 0.5,
    beta: float | weft.Array = 0.5,
    apply_softmax: bool = True,
    reduction: str = "mean",
    ignore_background: bool = False,
    axis: Any = None,
) -> weft.Array:
    """One minus the Dice coefficient of segmentations, by class; the classes are the last axis.

    `alpha` and `beta` weigh false positives and false negatives. The coefficient is taken over
    `axis`, by default all but the first and the last.
    """
    if predictions.ndim == targets.ndim - 1:
        predictions = predictions[..., None]
    if targets.ndim == predictions.ndim - 1:
        targets = targets[..., None]
    check_same_shape("dice_loss", predictions=predictions, targets=targets)
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"dice_loss: reduction must be mean, sum or none, got {reduction!r}")
    probs = predictions
    if apply_softmax:
        single = predictions.shape[-1] == 1
        probs = weft.nn.sigmoid(predictions) if single else weft.nn.softmax(predictions, axis=-1)
    else:
        _check_probabilities(predictions)
    axis = tuple(range(1, probs.ndim - 1)) if axis is None else axis
    both = jnp.sum(probs * targets, axis=axis)
    only_predicted = jnp.sum(probs, axis=axis) - both
    only_true = jnp.sum(targets, axis=axis) - both
    loss = 1.0 - (both + smooth) / (both + alpha * only_predicted + beta * only_true + smooth)
    if class_weights is not None:
        check_rank("dice_loss", 1, class_weights=class_weights)
        loss = loss * class_weights
    if ignore_background and probs.shape[-1] > 1:
        loss = loss[..., 1:]
    if reduction == "none":
        return loss
    return jnp.mean(loss, axis=-1) if reduction == "mean" else jnp.sum(loss, axis=-1)


def _check_probabilities(predictions):
    """Refuse what does not sum to one, where the values are known."""
    sums = jnp.sum(predictions, axis=-1)
    if isinstance(sums, weft.core.Tracer):
        return
    if not jnp.allclose(sums, 1.0, rtol=1e-5):
        raise ValueError(
            "dice_loss: with apply_softmax=False the predictions must be probabilities that sum to "
            f"1 over the last axis, but they sum to between {float(sums.min())} and "
            f"{float(sums.max())}"
        )


def multiclass_generalized_dice_loss(
    predictions: Any,
    targets: Any,
    *,
    smooth: float | weft.Array = 1.0,
    apply_softmax: bool = True,
    ignore_background: bool = False,
) -> weft.Array:
    """The Dice loss with classes weighted by the inverse square of their size."""
    name = "multiclass_generalized_dice_loss"
    check_same_shape(name, predictions=predictions, targets=targets)
    sizes = jnp.sum(targets, axis=tuple(range(targets.ndim - 1)))
    weights = 1.0 / (sizes**2 + 1e-7)
    weights = weights / jnp.sum(weights) * len(weights)
    loss = dice_loss(
        predictions,
        targets,
        class_weights=weights,
        smooth=smooth,
        apply_softmax=apply_softmax,
        reduction="none",
        ignore_background=ignore_background,
    )
    return jnp.mean(loss)


def binary_dice_loss(
    predictions: Any, targets: Any, *, smooth: float | weft.Array = 1.0, apply_sigmoid: bool = True
) -> weft.Array:
    """The Dice loss of one class."""
    if predictions.ndim == targets.ndim and predictions.shape[-1] != 1:
        predictions, targets = predictions[..., None], targets[..., None]
    return dice_loss(predictions, targets, smooth=smooth, apply_softmax=apply_sigmoid)


def ranking_softmax_loss(
    logits: Any, labels: Any, *, where: Any = None, weights: Any = None, reduce_fn: Any = jnp.mean
) -> weft.Array:
    """The cross entropy of items in a list with their relevance, reduced over lists.

    `where` says which items are there.
    """
    check_floats("ranking_softmax_loss", logits=logits)
    labels = labels.astype(logits.dtype)
    if where is not None:
        labels = jnp.where(where, labels, jnp.zeros_like(labels))
        logits = jnp.where(where, logits, -jnp.inf)
    if weights is not None:
        labels = labels * weights
    loss = -jnp.sum(labels * weft.nn.log_softmax(logits, axis=-1), axis=-1, where=where)
    present = None if where is None else jnp.any(where, axis=-1)
    if reduce_fn is None:
        return loss if present is None else jnp.where(present, loss, 0.0)
    reduced = reduce_fn(loss, where=present)
    if reduce_fn is jnp.mean:  # the mean of no lists is zero
        empty = jnp.isnan(reduced) & ~jnp.any(jnp.isnan(loss))
        reduced = jnp.where(empty, 0.0, reduced)
    return reduced


def ntxent(embeddings: weft.Array, labels: weft.Array, temperature: float = 0.07) -> weft.Array:
    """Return the contrastive loss of embeddings, of which those with equal labels belong together.

    Args:
        embeddings: the vectors, of shape (batch, features).
        labels: the label of each, of shape (batch,).
        temperature: the divisor of the similarities; smaller makes the loss sharper.

    Returns:
        A scalar: the mean over all pairs of equal label.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> vectors = jnp.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
        >>> bool(optim.ntxent(vectors, jnp.array([0, 0, 1, 1])) < 0.01)
        True
    """
    check_floats("ntxent", embeddings=embeddings)
    if labels.shape[0] != embeddings.shape[0]:
        raise ValueError(f"ntxent: {embeddings.shape[0]} embeddings, but {labels.shape[0]} labels")
    eps = jnp.finfo(embeddings.dtype).eps
    similar = cosine_similarity(embeddings[None, :, :], embeddings[:, None, :], epsilon=eps)
    similar = similar / temperature
    equal = labels[:, None] == labels[None, :]
    partners = equal & ~jnp.eye(labels.shape[0], dtype=bool)
    others = jnp.where(equal, -jnp.inf, similar)
    matches = jnp.where(partners, similar, -jnp.inf)
    largest = jnp.maximum(others.max(1, keepdims=True), matches.max(1, keepdims=True))
    largest = lax.stop_gradient(largest)
    rest = jnp.sum(jnp.exp(others - largest), axis=1, keepdims=True)
    log_probs = matches - largest - jnp.log(rest + jnp.exp(matches - largest))
    return -jnp.where(partners, log_probs, 0.0).sum() / partners.sum()


def triplet_margin_loss(
    anchors: Any,
    positives: Any,
    negatives: Any,
    axis: Any = -1,
    norm_degree: Any = 2,
    margin: float | weft.Array = 1.0,
    eps: float | weft.Array = 1e-06,
) -> weft.Array:
    """How far anchors fail to be nearer to positives than to negatives, by a margin."""
    check_floats("triplet_margin_loss", anchors=anchors, positives=positives, negatives=negatives)

    def distance(others):
        powers = jnp.power(anchors - others, norm_degree).sum(axis)
        return jnp.power(powers + eps, 1 / norm_degree)

    return jnp.maximum(distance(positives) - distance(negatives) + margin, 0)
