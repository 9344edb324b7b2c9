"""Updates that keep parameters in a range or free of NaN, and updates made one vector."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import weft
import weft.numpy as jnp
from weft.optim import base

NonNegativeParamsState = base.EmptyState


class ZeroNansState(NamedTuple):
    """The state of ``zero_nans``.

    Args:
        found_nan: for each leaf, whether its last update had a NaN.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.zero_nans().init(jnp.zeros(2))
        ZeroNansState(found_nan=Array(False, dtype=bool))
    """

    found_nan: Any


def keep_params_nonnegative() -> base.GradientTransformation:
    """Return a transformation that cuts updates short where they would make a parameter negative.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.keep_params_nonnegative()
        >>> params = jnp.array([1.0, 2.0])
        >>> opt.update(jnp.array([-3.0, -0.5]), opt.init(params), params)[0]
        Array([-1. , -0.5], dtype=float32)
    """

    def update(updates, state, params=None):
        base.check_params("keep_params_nonnegative", updates, params)
        return weft.tree.map(lambda g, p: jnp.where(p + g < 0.0, -p, g), updates, params), state

    return base.GradientTransformation(base.init_empty_state, update)


def zero_nans() -> base.GradientTransformation:
    """Return a transformation that replaces NaN with zero, and records where there was one.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.zero_nans()
        >>> updates, state = opt.update(jnp.array([1.0, jnp.nan]), opt.init(jnp.zeros(2)))
        >>> updates, bool(state.found_nan)
        (Array([1., 0.], dtype=float32), True)
    """

    def init(params):
        return ZeroNansState(weft.tree.map(lambda p: jnp.array(False), params))

    def update(updates, state, params=None):
        found = weft.tree.map(lambda g: jnp.any(jnp.isnan(g)), updates)
        updates = weft.tree.map(lambda g: jnp.where(jnp.isnan(g), jnp.zeros_like(g), g), updates)
        return updates, ZeroNansState(found)

    return base.GradientTransformation(init, update)


def flatten(inner: base.GradientTransformation) -> base.GradientTransformationExtraArgs:
    """Return a transformation that gives ``inner`` all parameters as one vector.

    Args:
        inner: the transformation of the vector.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.flatten(optim.sgd(0.1))
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.95, 2.05], dtype=float32)
    """
    inner = base.with_extra_args_support(inner)

    def join(leaves):
        return jnp.concatenate([jnp.reshape(leaf, [-1]) for leaf in weft.tree.leaves(leaves)])

    def init(params):
        return inner.init(join(params))

    def update(updates, state, params=None, **extra_args):
        flat, state = inner.update(
            join(updates), state, None if params is None else join(params), **extra_args
        )
        leaves, structure = weft.tree.flatten(updates)
        ends = np.cumsum([np.size(leaf) for leaf in leaves])[:-1]
        parts = jnp.split(flat, ends)
        shaped = [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)]
        return structure.unflatten(shaped), state

    return base.GradientTransformationExtraArgs(init, update)
