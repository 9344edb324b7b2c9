"""The loss of sequences whose alignment is not known: connectionist temporal classification."""

from __future__ import annotations

from typing import Any

import weft
import weft.lax as lax
import weft.numpy as jnp
from weft.optim.losses.checks import check_rank, check_same_shape


def ctc_loss_with_forward_probs(
    logits: Any,
    logit_paddings: Any,
    labels: Any,
    label_paddings: Any,
    *,
    blank_id: int = 0,
    log_epsilon: float = -1e5,
) -> tuple[weft.Array, weft.Array, weft.Array]:
    """Return the CTC loss of each sequence, and the log-probabilities of all states.

    The method is that of Graves et al., 2006. A state is "n labels seen, in a blank" (phi, n up to
    the length) or "in the n-th label" (emit).

    Args:
        logits: the scores of the classes in each frame, of shape (batch, frames, classes).
        logit_paddings: 1 for frames that don't count, else 0, of shape (batch, frames).
        labels: the numbers of the labels, of shape (batch, length).
        label_paddings: 1 for labels that don't count, else 0, of shape (batch, length).
        blank_id: the number of the class that stands for a blank.
        log_epsilon: a number that stands for the logarithm of zero.

    Returns:
        The loss, of shape (batch,), and the log-probabilities of the states phi, of shape (frames,
        batch, length + 1), and emit, of shape (frames, batch, length).

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> logits, labels = jnp.zeros((1, 3, 2)), jnp.array([[1]])
        >>> loss, phi, emit = optim.ctc_loss_with_forward_probs(
        ...     logits, jnp.zeros((1, 3)), labels, jnp.zeros((1, 1))
        ... )
        >>> phi.shape, emit.shape
        ((3, 1, 2), (3, 1, 1))
    """
    name = "ctc_loss"
    check_rank(name, 3, logits=logits)
    check_rank(name, 2, labels=labels)
    check_same_shape(name, labels=labels, label_paddings=label_paddings)
    check_same_shape(name, logits=logits[..., 0], logit_paddings=logit_paddings)
    batch, _, classes = logits.shape
    if labels.shape[0] != batch:
        raise ValueError(f"{name}: {batch} sequences of logits, but {labels.shape[0]} of labels")
    length = labels.shape[1]

    log_probs = weft.nn.log_softmax(logits)
    blank = jnp.transpose(log_probs[:, :, blank_id : blank_id + 1], (1, 0, 2))
    hot = weft.nn.one_hot(labels, classes)
    label = jnp.transpose(jnp.einsum("btk,bnk->btn", log_probs, hot), (1, 0, 2))
    # Equal labels after each other need a blank in between.
    repeats = (labels[:, :-1] == labels[:, 1:]).astype(jnp.float32)
    repeats = jnp.pad(repeats, ((0, 0), (0, 1)))

    def enter(phi, score):
        return jnp.concatenate([phi[:, :1], jnp.logaddexp(phi[:, 1:], score)], axis=-1)

    def frame(before, x):
        phi, emit = before
        label_score, blank_score, pad = x
        reached = enter(phi, emit + log_epsilon * repeats)
        new_emit = jnp.logaddexp(reached[:, :-1] + label_score, emit + label_score)
        new_phi = enter(reached + blank_score, emit + blank_score + log_epsilon * (1.0 - repeats))
        pad = pad.reshape((batch, 1))
        after = pad * phi + (1.0 - pad) * new_phi, pad * emit + (1.0 - pad) * new_emit
        return after, after

    start = (
        (jnp.ones((batch, length + 1)) * log_epsilon).at[:, 0].set(0.0),
        jnp.ones((batch, length)) * log_epsilon,
    )
    frames = (label, blank, logit_paddings.transpose((1, 0)))
    _, (phi, emit) = lax.scan(frame, start, frames)
    last = enter(phi[-1], emit[-1])
    phi = phi.at[-1].set(last)
    lengths = length - jnp.sum(label_paddings, axis=1).astype(jnp.int32)
    loss = -jnp.einsum("bn,bn->b", last, weft.nn.one_hot(lengths, length + 1))
    return loss, phi, emit


def ctc_loss(
    logits: Any,
    logit_paddings: Any,
    labels: Any,
    label_paddings: Any,
    *,
    blank_id: int = 0,
    log_epsilon: float = -1e5,
) -> weft.Array:
    """Return the CTC loss of each sequence, over all alignments of labels to frames.

    Args:
        logits: the scores of the classes in each frame, of shape (batch, frames, classes).
        logit_paddings: 1 for frames that don't count, else 0, of shape (batch, frames).
        labels: the numbers of the labels, of shape (batch, length).
        label_paddings: 1 for labels that don't count, else 0, of shape (batch, length).
        blank_id: the number of the class that stands for a blank.
        log_epsilon: a number that stands for the logarithm of zero.

    Returns:
        The loss, of shape (batch,).

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> logits, labels = jnp.zeros((1, 3, 2)), jnp.array([[1]])
        >>> optim.ctc_loss(logits, jnp.zeros((1, 3)), labels, jnp.zeros((1, 1))).round(4)
        Array([0.2877], dtype=float32)
    """
    return ctc_loss_with_forward_probs(
        logits, logit_paddings, labels, label_paddings, blank_id=blank_id, log_epsilon=log_epsilon
    )[0]
