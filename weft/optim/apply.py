"""Updates put into effect: parameters changed by them, or moved towards others."""

import weft
import weft.lax as lax
import weft.numpy as jnp
from weft.optim import base
from weft.optim.tree_utils.arithmetic import map_unless_none


def apply_updates(params, updates):
    """`params + updates`, in the dtypes of the parameters.

    >>> import weft.numpy as jnp, weft.optim as optim
    >>> optim.apply_updates({"w": jnp.array([1.0, 2.0])}, {"w": jnp.array([0.5, 0.5])})
    {'w': Array([1.5, 2.5], dtype=float32)}

    A parameter that is None stays None.
    """
    base.check_updates("apply_updates", updates, params, without=lambda u, p: p is None)

    def add(p, u):
        return None if p is None else jnp.asarray(p + u).astype(jnp.asarray(p).dtype)

    return weft.tree.map(add, params, updates, is_leaf=lambda x: x is None)


def incremental_update(new_tensors, old_tensors, step_size):
    """Move from old to new by a fraction, as Polyak averaging and target networks do."""
    return map_unless_none(
        lambda new, old: step_size * new + (1.0 - step_size) * old, new_tensors, old_tensors
    )


def periodic_update(new_tensors, old_tensors, steps, update_period):
    """The new tensors every `update_period` steps, else the old ones."""
    return lax.cond(jnp.mod(steps, update_period) == 0, lambda: new_tensors, lambda: old_tensors)
