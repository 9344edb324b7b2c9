"""Updates that keep parameters in a range or free of NaN, and updates made one vector."""

from typing import Any, NamedTuple

import numpy as np

import weft
import weft.numpy as jnp
from weft.optim import base

NonNegativeParamsState = base.EmptyState


class ZeroNansState(NamedTuple):
    """For each leaf, whether it had a NaN."""

    found_nan: Any


def keep_params_nonnegative():
    """Cut updates short where they would make a parameter negative."""

    def update(updates, state, params=None):
        base.check_params("keep_params_nonnegative", updates, params)
        return weft.tree.map(lambda g, p: jnp.where(p + g < 0.0, -p, g), updates, params), state

    return base.GradientTransformation(base.init_empty_state, update)


def zero_nans():
    """Replace NaN with zero, and record where there was one."""

    def init(params):
        return ZeroNansState(weft.tree.map(lambda p: jnp.array(False), params))

    def update(updates, state, params=None):
        found = weft.tree.map(lambda g: jnp.any(jnp.isnan(g)), updates)
        updates = weft.tree.map(lambda g: jnp.where(jnp.isnan(g), jnp.zeros_like(g), g), updates)
        return updates, ZeroNansState(found)

    return base.GradientTransformation(init, update)


def flatten(inner):
    """Give `inner` all parameters as one vector."""
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
