"""Second moments kept as a row and a column of each matrix, as Adafactor does."""

from typing import NamedTuple

import numpy as np

import weft
import weft.numpy as jnp
from weft.optim import base
from weft.optim.numerics import abs_sq, safe_increment


class FactoredState(NamedTuple):
    """The step, the second moments of rows and columns, and those that are not factored."""

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
    factored=True,
    decay_rate=0.8,
    step_offset=0,
    min_dim_size_to_factor=128,
    epsilon=1e-30,
    decay_rate_fn=decay_rate_power,
):
    """Divide by the root of the mean square, of which large matrices keep only rows and columns."""

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
