"""Gradients that need less memory: of parts of a batch, and with values computed again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft
from weft import checkpoint_policies, lax, tree_util
from weft import numpy as jnp

_KEPT = {
    "nothing": checkpoint_policies.nothing_saveable,
    "dots": checkpoint_policies.dots_saveable,
    "weights": checkpoint_policies.dots_with_no_batch_dims_saveable,
    "everything": checkpoint_policies.everything_saveable,
}


def remat(
    fun: Callable[..., Any], keep: str | Sequence[str] = "nothing", **options: Any
) -> Callable[..., Any]:
    """A function whose inner values are computed again for its gradient, not kept for it.

    Args:
        fun: the function, such as a layer.
        keep: what is kept all the same: ``"nothing"``; ``"dots"``, all matrix products;
            ``"weights"``, products without a batch axis; ``"everything"``; or the names that
            ``weft.ad_checkpoint.checkpoint_name`` gave to values.
        **options: further ones of ``weft.checkpoint``.

    Returns:
        A function with the same values and gradients.

    Example:
        >>> layer = remat(lambda w, x: jnp.sin(w @ x).sum(), keep="dots")
        >>> weft.grad(layer)(jnp.zeros((1, 2)), jnp.ones(2))
        Array([[1., 1.]], dtype=float32)
    """
    if isinstance(keep, str):
        if keep not in _KEPT:
            raise ValueError(f"keep={keep!r}: write one of {', '.join(_KEPT)}, or a list of names")
        policy = _KEPT[keep]
    else:
        policy = checkpoint_policies.save_only_these_names(*keep)
    return weft.checkpoint(fun, policy=policy, **options)


def split_batch(batch: Any, parts: int) -> Any:
    """Return a batch as microbatches along a new first axis.

    Each takes every ``parts``-th example, so that on a mesh no example changes its device.

    Args:
        batch: a tree of arrays with examples along the first axis.
        parts: how many microbatches.

    Returns:
        A tree of arrays of shape (parts, examples / parts, ...).

    Example:
        >>> split_batch(jnp.arange(6), 2)
        Array([[0, 2, 4],
               [1, 3, 5]], dtype=int32...)
    """

    def split(x: Any) -> Any:
        size = jnp.shape(x)[0] if jnp.ndim(x) else 0
        if not size or size % parts:
            raise ValueError(f"a batch of shape {jnp.shape(x)} cannot be split into {parts} parts")
        return jnp.swapaxes(jnp.reshape(x, (size // parts, parts, *jnp.shape(x)[1:])), 0, 1)

    return tree_util.tree_map(split, batch)


def accumulated_value_and_grad(
    fun: Callable[..., Any], parts: int, has_aux: bool = False, keep_dtypes: bool = True
) -> Callable[..., Any]:
    """As ``weft.value_and_grad`` of a mean loss, computed for one part of the batch at a time.

    Args:
        fun: ``fun(params, batch, *args)`` gives the mean loss over a batch, and with ``has_aux``
            also a tree of arrays, whose mean over the parts is returned.
        parts: how many parts; the batch must be divisible by it.
        has_aux: whether the function returns a pair.
        keep_dtypes: whether the mean has the dtypes of the parts, or float32 where these are
            narrower, as gradients of a scaled loss need it.

    Returns:
        A function of the same arguments that returns the loss and the gradient by ``params``, which
        are summed in float32.

    Example:
        >>> loss = lambda w, x: ((x - w) ** 2).mean()
        >>> value, grad = accumulated_value_and_grad(loss, 2)(1.0, jnp.array([1.0, 2.0, 3.0, 4.0]))
        >>> float(value), float(grad)
        (3.5, -3.0)
    """
    differentiate = weft.value_and_grad(fun, has_aux=has_aux)
    if parts == 1:
        return differentiate

    def widened(tree: Any) -> Any:
        return tree_util.tree_map(lambda x: x.astype(jnp.promote_types(x.dtype, jnp.float32)), tree)

    def call(params: Any, batch: Any, *args: Any) -> Any:
        batches = split_batch(batch, parts)
        first = tree_util.tree_map(lambda x: x[0], batches)
        rest = tree_util.tree_map(lambda x: x[1:], batches)

        def body(total: Any, part: Any) -> Any:
            added = widened(differentiate(params, part, *args))
            return tree_util.tree_map(jnp.add, total, added), None

        start = differentiate(params, first, *args)
        total, _ = lax.scan(body, widened(start), rest)
        mean = lambda x, like: (x / parts).astype(like.dtype if keep_dtypes else x.dtype)
        return tree_util.tree_map(mean, total, start)

    return call
