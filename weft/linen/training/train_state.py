"""Parameters, optimiser and its state, in one pytree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

from weft import numpy as jnp
from weft import tree_util
from weft.linen import struct
from weft.linen.fp8_ops import OVERWRITE_WITH_GRADIENT


def _add(params, updates):
    """Parameters plus updates, in the dtype of the parameters; None changes nothing."""
    is_none = lambda x: x is None
    one = lambda p, u: None if p is None else p if u is None else jnp.asarray(p + u).astype(p.dtype)
    return tree_util.tree_map(one, params, updates, is_leaf=is_none)


class TrainState(struct.PyTreeNode):
    """A step counter, the function to apply, parameters, and an optimiser with its state.

    The optimiser is any pair of ``init(params)`` and ``update(grads, state, params)``, as those
    of ``weft.optim`` and optax.

    Args:
        step: how many steps were made.
        apply_fn: the function of variables and inputs, such as ``model.apply``.
        params: the parameters.
        tx: the optimiser.
        opt_state: the state of the optimiser.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> params = {"w": jnp.array([1.0])}
        >>> state = TrainState.create(apply_fn=None, params=params, tx=optim.sgd(0.5))
        >>> state = state.apply_gradients(grads={"w": jnp.array([1.0])})
        >>> int(state.step), state.params["w"]
        (1, Array([0.5], dtype=float32))
    """

    step: Any
    apply_fn: Callable = struct.field(pytree_node=False)
    params: Any = struct.field(pytree_node=True)
    tx: Any = struct.field(pytree_node=False)
    opt_state: Any = struct.field(pytree_node=True)

    def apply_gradients(self, *, grads: Any, **kwargs: Any) -> Self:
        """The state after one step; further fields are replaced by keyword."""
        special = isinstance(grads, Mapping) and OVERWRITE_WITH_GRADIENT in grads
        ours, theirs = (self.params["params"], grads["params"]) if special else (self.params, grads)
        updates, opt_state = self.tx.update(theirs, self.opt_state, ours)
        params = _add(ours, updates)
        if special:
            kept = grads[OVERWRITE_WITH_GRADIENT]
            params = {"params": params, OVERWRITE_WITH_GRADIENT: kept}
        return self.replace(step=self.step + 1, params=params, opt_state=opt_state, **kwargs)

    @classmethod
    def create(
        cls, *, apply_fn: Callable[..., Any] | None, params: Any, tx: Any, **kwargs: Any
    ) -> Self:
        """A state at step 0, with the optimiser's state for these parameters."""
        special = isinstance(params, Mapping) and OVERWRITE_WITH_GRADIENT in params
        opt_state = tx.init(params["params"] if special else params)
        return cls(step=0, apply_fn=apply_fn, params=params, tx=tx, opt_state=opt_state, **kwargs)
