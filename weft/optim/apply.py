"""Updates put into effect: parameters changed by them, or moved towards others."""

from __future__ import annotations

from typing import Any, TypeVar

import weft
import weft.lax as lax
import weft.numpy as jnp
from weft.optim import base
from weft.optim.tree_utils.arithmetic import map_unless_none

T = TypeVar("T")


def apply_updates(params: T, updates: base.Updates) -> T:
    """Return ``params + updates``, in the dtypes of the parameters.

    Args:
        params: the parameters, an array or a tree of arrays. None stays None.
        updates: the updates, with the same structure.

    Returns:
        The new parameters.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.apply_updates({"w": jnp.array([1.0, 2.0])}, {"w": jnp.array([0.5, 0.5])})
        {'w': Array([1.5, 2.5], dtype=float32)}

        A parameter that is None stays None.
    """
    base.check_updates("apply_updates", updates, params, without=lambda u, p: p is None)

    def add(p, u):
        return None if p is None else jnp.asarray(p + u).astype(jnp.asarray(p).dtype)

    return weft.tree.map(add, params, updates, is_leaf=lambda x: x is None)


def incremental_update(new_tensors: T, old_tensors: T, step_size: base.Numeric) -> T:
    """Return a mean of new and old tensors, as Polyak averaging and target networks use it.

    Args:
        new_tensors: the tensors to move to, a tree of arrays.
        old_tensors: the tensors to move from, with the same structure.
        step_size: how far to move: 0 gives the old tensors, 1 the new ones.

    Returns:
        A tree of the same structure.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.incremental_update(jnp.array([4.0]), jnp.array([0.0]), 0.25)
        Array([1.], dtype=float32)
    """
    return map_unless_none(
        lambda new, old: step_size * new + (1.0 - step_size) * old, new_tensors, old_tensors
    )


def periodic_update(new_tensors: T, old_tensors: T, steps: Any, update_period: int) -> T:
    """Return the new tensors every ``update_period`` steps, else the old ones.

    Args:
        new_tensors: a tree of arrays.
        old_tensors: a tree of arrays with the same structure.
        steps: the number of the step.
        update_period: the number of steps between changes.

    Returns:
        One of both trees.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> [float(optim.periodic_update(jnp.array(1.0), jnp.array(0.0), s, 2)) for s in (1, 2)]
        [0.0, 1.0]
    """
    return lax.cond(jnp.mod(steps, update_period) == 0, lambda: new_tensors, lambda: old_tensors)
