"""Second moments kept as a row and a column of each matrix, as Adafactor does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import weft
import weft.numpy as jnp
from weft.optim import base
from weft.optim.numerics import abs_sq, safe_increment


class FactoredState(NamedTuple):
    """The state of ``scale_by_factored_rms``.

    Args:
        count: how many steps were made.
        v_row: the second moments of rows, for leaves that are factored.
        v_col: the second moments of columns, for leaves that are factored.
        v: the second moments of leaves that are not factored.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.scale_by_factored_rms().init(jnp.zeros(2)).v
        Array([0., 0.], dtype=float32)
    """

    count: weft.Array
    v_row: base.Params
    v_col: base.Params
    v: base.Params


def decay_rate_power(step, exponent=0.8):
    """1 - (step + 1)^-exponent."""
    return 1.0 - jnp.array(step + 1, jnp.float32) ** (-exponent)


def factored_axes(shape, factored, min_dim_size_to_factor):
    """The two largest axes, the smaller first; None if there are not two that are large enough."""
    if not factored or len(shape) < 2:
        return None
    order = np.argsort(shape)
    if shape[order[-2]] < min_dim_size_to_factor:
        return None
    return int(order[-2]), int(order[-1])


def scale_by_factored_rms(
    factored: bool = True,
    decay_rate: float = 0.8,
    step_offset: int = 0,
    min_dim_size_to_factor: int = 128,
    epsilon: float = 1e-30,
    decay_rate_fn: Callable[..., Any] = decay_rate_power,
) -> base.GradientTransformation:
    """Return a transformation that divides by the root of the mean square, as Adafactor does.

    Large matrices keep the mean squares of their rows and columns only, which saves memory.

    Args:
        factored: whether to factor large matrices.
        decay_rate: how fast the weight of old squares grows with the step; see ``decay_rate_fn``.
        step_offset: the number of steps made before, for fine-tuning.
        min_dim_size_to_factor: factor only if the two largest dimensions have at least this size.
        epsilon: a small number added to squares.
        decay_rate_fn: a function of the step and ``decay_rate`` that returns the weight of old
            squares.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.chain(optim.scale_by_factored_rms(), optim.scale(-0.1))
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.9, 2.1], dtype=float32)
    """

    def axes_of(p):
        return factored_axes(p.shape, factored, min_dim_size_to_factor)

    def init_leaf(p):
        one, axes = jnp.zeros((1,), dtype=p.dtype), axes_of(p)
        if axes is None:
            return one, one, jnp.zeros_like(p)
        row, col = (jnp.zeros(np.delete(p.shape, axis), p.dtype) for axis in reversed(axes))
        return row, col, one

    @base.own_leaves
    def init(params):
        leaves, structure = weft.tree.flatten(params)
        parts = [init_leaf(p) for p in leaves]
        rows, cols, full = zip(*parts, strict=True) if parts else ((), (), ())
        return FactoredState(
            jnp.zeros([], jnp.int32), *(structure.unflatten(part) for part in (rows, cols, full))
        )

    def update_leaf(g, row, col, full, p, decay):
        one, axes = jnp.zeros((1,), dtype=p.dtype), axes_of(p)
        squares = abs_sq(g) + epsilon
        if axes is None:
            full = (decay * full + (1.0 - decay) * squares).astype(p.dtype)
            return g * full ** (-0.5), one, one, full
        small, large = axes
        row = decay * row + (1.0 - decay) * jnp.mean(squares, axis=large)
        col = decay * col + (1.0 - decay) * jnp.mean(squares, axis=small)
        row, col = row.astype(p.dtype), col.astype(p.dtype)
        mean = jnp.mean(row, axis=small - 1 if small > large else small, keepdims=True)
        by_row = jnp.expand_dims((row / mean) ** (-0.5), axis=large)
        by_col = jnp.expand_dims(col ** (-0.5), axis=small)
        return g * by_row * by_col, row, col, one

    def update(updates, state, params=None):
        base.check_params("scale_by_factored_rms", updates, params)
        base.check_updates("scale_by_factored_rms", updates, state.v)
        decay = decay_rate_fn(state.count - step_offset, decay_rate)
        trees = (updates, state.v_row, state.v_col, state.v, params)
        structure = weft.tree.structure(updates)
        parts = [
            update_leaf(*leaves, decay)
            for leaves in zip(*(weft.tree.leaves(tree) for tree in trees), strict=True)
        ]
        columns = zip(*parts, strict=True) if parts else ((), (), (), ())
        updates, *moments = (structure.unflatten(column) for column in columns)
        return updates, FactoredState(safe_increment(state.count), *moments)

    return base.GradientTransformation(init, update)
