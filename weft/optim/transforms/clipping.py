"""Updates limited in size, by element, by leaf, all together, or for each example."""

from __future__ import annotations

from typing import Any

import weft
import weft.lax as lax
import weft.numpy as jnp
from weft.optim import base, tree
from weft.optim.numerics import abs_sq


def clip(max_delta: base.Numeric) -> base.GradientTransformation:
    """Return a transformation that limits every element to [-max_delta, max_delta].

    Args:
        max_delta: the bound.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.clip(1.0).update(jnp.array([-3.0, 0.5]), optim.EmptyState())[0]
        Array([-1. ,  0.5], dtype=float32)
    """
    base.check_numbers("clip", max_delta=max_delta)
    return base.stateless(lambda updates, params: tree.clip(updates, -max_delta, max_delta))


def clip_by_block_rms(threshold: base.Numeric) -> base.GradientTransformation:
    """Return a transformation that limits the root mean square of each leaf.

    Args:
        threshold: the bound.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.clip_by_block_rms(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([1.1, 1.9], dtype=float32)
    """
    base.check_numbers("clip_by_block_rms", threshold=threshold)

    def limit(g):
        return g / jnp.maximum(1.0, jnp.sqrt(jnp.mean(abs_sq(g))) / threshold)

    return base.stateless(lambda updates, params: weft.tree.map(limit, updates))


def clip_by_global_norm(max_norm: base.Numeric) -> base.GradientTransformation:
    """Return a transformation that limits the norm of all updates and keeps their direction.

    Args:
        max_norm: the largest norm.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.clip_by_global_norm(1.0).update(jnp.array([3.0, 4.0]), optim.EmptyState())[0]
        Array([0.6, 0.8], dtype=float32)
    """
    base.check_numbers("clip_by_global_norm", max_norm=max_norm)

    def limit(updates, params):
        norm = tree.norm(updates)
        small = jnp.squeeze(norm < max_norm)
        if small.ndim:
            raise ValueError(f"clip_by_global_norm: max_norm must be a scalar, got {max_norm}")
        return weft.tree.map(
            lambda g: lax.select(small, g, (g / norm.astype(g.dtype) * max_norm).astype(g.dtype)),
            updates,
        )

    return base.stateless(limit)


def _check_batched(name, grads):
    shapes = [jnp.shape(g) for g in weft.tree.leaves(grads)]
    if not shapes or not all(shape and shape[0] == shapes[0][:1][0] for shape in shapes):
        raise ValueError(
            f"{name} expects a gradient for each example, with the examples along the first axis "
            f"of every leaf, as weft.vmap(weft.grad(loss), ...) gives; got the shapes {shapes}"
        )


def per_example_global_norm_clip(grads: Any, l2_norm_clip: float) -> tuple[Any, weft.Array]:
    """Return the sum of gradients of single examples, each limited in its norm.

    Args:
        grads: gradients with the examples along their first axis.
        l2_norm_clip: the largest norm of the gradient of an example.

    Returns:
        A pair: the sum of the gradients, and how many were cut.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> total, cut = optim.per_example_global_norm_clip(jnp.array([[3.0], [0.5]]), 1.0)
        >>> total, int(cut)
        (Array([1.5], dtype=float32), 1)
    """
    _check_batched("per_example_global_norm_clip", grads)
    norms = weft.vmap(tree.norm)(grads)
    factors = jnp.nan_to_num(jnp.minimum(l2_norm_clip / norms, 1.0), nan=1.0)
    summed = weft.tree.map(lambda g: jnp.tensordot(factors, g, axes=1), grads)
    return summed, jnp.sum(factors < 1.0)


def per_example_layer_norm_clip(
    grads: Any, global_l2_norm_clip: float, uniform: bool = True
) -> tuple[Any, Any]:
    """Return the sum of gradients of single examples, each leaf limited in its norm.

    Args:
        grads: gradients with the examples along their first axis.
        global_l2_norm_clip: the largest norm of the gradient of an example, divided among leaves.
        uniform: give each leaf the same part of the bound; False divides it by the number of
            elements.

    Returns:
        A pair: the sum of the gradients, and for each leaf how many were cut.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> total, cut = optim.per_example_layer_norm_clip({"w": jnp.array([[3.0], [0.5]])}, 1.0)
        >>> total["w"], int(cut["w"])
        (Array([1.5], dtype=float32), 1)
    """
    _check_batched("per_example_layer_norm_clip", grads)
    leaves, structure = weft.tree.flatten(grads)
    sizes = [1.0 if uniform else g[0].size for g in leaves]
    results = [
        per_example_global_norm_clip(g, global_l2_norm_clip * (size / sum(sizes)) ** 0.5)
        for g, size in zip(leaves, sizes, strict=True)
    ]
    summed, counts = zip(*results, strict=True)
    return structure.unflatten(summed), structure.unflatten(counts)


def unitwise_norm(x: Any, axis: Any = None) -> weft.Array:
    """The norm over all that leads to one output unit, broadcast to the shape of `x`."""
    if axis is None and jnp.squeeze(x).ndim > 1:
        axes = {2: 0, 3: 0, 4: (0, 1, 2), 5: (0, 1, 2, 3)}
        if x.ndim not in axes:
            raise ValueError(
                "unitwise_norm chooses axes for up to 5 dimensions only, got the shape "
                f"{x.shape}; pass axis="
            )
        axis = axes[x.ndim]
    squares = jnp.sum(abs_sq(x), axis=axis, keepdims=True)
    return jnp.broadcast_to(jnp.sqrt(squares), x.shape)


def unitwise_clip(
    g_norm: Any, max_norm: Any, grad: Any, div_eps: base.Numeric = 1e-06
) -> weft.Array:
    """The gradient scaled down to `max_norm` where its norm is above."""
    shapes = jnp.shape(g_norm), jnp.shape(max_norm), jnp.shape(grad)
    if len(set(shapes)) > 1:
        raise ValueError(f"unitwise_clip takes three arrays of one shape, got {shapes}")
    return jnp.where(g_norm < max_norm, grad, grad * (max_norm / jnp.maximum(g_norm, div_eps)))


def adaptive_grad_clip(
    clipping: float, eps: float = 1e-3, axis: int | tuple[int, ...] | None = None
) -> base.GradientTransformation:
    """Return a transformation that limits updates relative to the norm of each unit's parameters.

    Args:
        clipping: the largest ratio of the norms.
        eps: the smallest norm of parameters.
        axis: the axes over which norms are taken. By default all but the last.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.adaptive_grad_clip(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([1.158, 1.842], dtype=float32)
    """
    base.check_numbers("adaptive_grad_clip", clipping=clipping, eps=eps)

    def limit(g, p):
        max_norm = clipping * jnp.maximum(unitwise_norm(p, axis), eps)
        return unitwise_clip(unitwise_norm(g, axis), max_norm, g)

    def update(updates, state, params=None):
        base.check_params("adaptive_grad_clip", updates, params)
        return weft.tree.map(limit, updates, params), state

    return base.GradientTransformation(base.init_empty_state, update)
