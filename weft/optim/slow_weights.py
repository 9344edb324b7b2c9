"""Slow parameters that follow fast ones every few steps."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import weft
import weft.numpy as jnp
from weft.optim import base


class LookaheadState(NamedTuple):
    """The state of ``lookahead``.

    Args:
        fast_state: the state of the fast optimiser.
        steps_since_sync: how many steps were made since slow and fast parameters were equal.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.lookahead(optim.sgd(1.0), sync_period=2, slow_step_size=0.5)
        >>> int(opt.init(optim.LookaheadParams.init_synced(jnp.array(0.0))).steps_since_sync)
        0
    """

    fast_state: base.OptState
    steps_since_sync: weft.Array


class LookaheadParams(NamedTuple):
    """The parameters of ``lookahead``; ``init_synced`` makes them from ordinary ones.

    Args:
        fast: the parameters that every step changes.
        slow: the parameters that follow them.

    Example:
        >>> import weft.optim as optim
        >>> optim.LookaheadParams.init_synced(1.0)
        LookaheadParams(fast=1.0, slow=1.0)
    """

    fast: base.Params
    slow: base.Params

    @classmethod
    def init_synced(cls, params: Any) -> LookaheadParams:
        """Both equal."""
        return cls(fast=params, slow=params)


def lookahead(
    fast_optimizer: base.GradientTransformation,
    sync_period: int,
    slow_step_size: float,
    reset_state: bool = False,
) -> base.GradientTransformation:
    """Return an optimiser of slow parameters that move towards fast ones every few steps.

    Parameters and updates are ``LookaheadParams``; gradients are those of the fast parameters.
    After each move the fast parameters start again from the slow ones.

    Args:
        fast_optimizer: the optimiser of the fast parameters.
        sync_period: the number of steps between moves.
        slow_step_size: how far the slow parameters move, as a fraction.
        reset_state: start the fast optimiser's state anew after each move.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.lookahead(optim.sgd(1.0), sync_period=2, slow_step_size=0.5)
        >>> params = optim.LookaheadParams.init_synced(jnp.array(0.0))
        >>> state = opt.init(params)
        >>> for _ in range(2):
        ...     updates, state = opt.update(jnp.array(1.0), state, params)
        ...     params = optim.apply_updates(params, updates)
        >>> float(params.fast), float(params.slow)
        (-1.0, -1.0)
    """
    if sync_period < 1:
        raise ValueError(f"lookahead: sync_period must be 1 or more, got {sync_period}")

    def init(params):
        fast = getattr(params, "fast", None)
        if fast is None:
            logging.getLogger(__name__).warning(
                "lookahead: init takes LookaheadParams; using the given parameters as the fast ones"
            )
            fast = params
        return LookaheadState(fast_optimizer.init(fast), jnp.zeros([], jnp.int32))

    def update(updates, state, params=None):
        if not isinstance(params, LookaheadParams):
            raise ValueError(
                "lookahead: update takes LookaheadParams as params; make them with "
                f"LookaheadParams.init_synced(params), not {type(params).__name__}"
            )
        updates, fast_state = fast_optimizer.update(updates, state.fast_state, params.fast)
        sync = state.steps_since_sync == sync_period - 1
        apart = weft.tree.map(lambda f, u, s: f + u - s, params.fast, updates, params.slow)
        slow = weft.tree.map(lambda d: slow_step_size * sync * d, apart)
        fast = weft.tree.map(lambda u, d: u - sync * (1 - slow_step_size) * d, updates, apart)
        if reset_state:
            fast_state = weft.tree.map(
                lambda now, first: (1 - sync) * now + sync * first,
                fast_state,
                fast_optimizer.init(params.fast),
            )
        steps = (state.steps_since_sync + 1) % sync_period
        return LookaheadParams(fast, slow), LookaheadState(fast_state, steps)

    return base.GradientTransformation(init, update)
