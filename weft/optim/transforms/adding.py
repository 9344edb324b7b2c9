"""Weight decay and noise, added to updates."""

from __future__ import annotations

from typing import Any, NamedTuple

import weft
import weft.numpy as jnp
from weft.extend.source_info_util import warn
from weft.optim import base, tree
from weft.optim.numerics import canonical_key, safe_increment
from weft.optim.transforms.masking import masked
from weft.optim.tree_utils.arithmetic import map_unless_none


class WeightDecaySchedule(NamedTuple):
    """The step of a scheduled weight decay."""

    count: weft.Array


class AddNoiseState(NamedTuple):
    """The state of ``add_noise``.

    Args:
        count: how many steps were made.
        rng_key: the key of the next noise.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.add_noise(0.1, 0.5, key=0).init(jnp.zeros(2)).count
        Array(0, dtype=int32)
    """

    count: weft.Array
    rng_key: weft.Array


def add_decayed_weights(
    weight_decay: base.ScalarOrSchedule = 0.0, mask: base.MaskOrFn = None
) -> base.GradientTransformation:
    """Return a transformation that adds a multiple of the parameters to the updates.

    Args:
        weight_decay: the factor of the parameters, a number or a function of the step.
        mask: which parameters decay: a tree of booleans, or a function of the parameters that
            returns one. By default all.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.chain(optim.add_decayed_weights(0.1), optim.sgd(1.0))
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.4, 2.3], dtype=float32)
    """
    scheduled = callable(weight_decay)
    if not scheduled:
        base.check_numbers("add_decayed_weights", weight_decay=weight_decay)

    def init(params):
        if scheduled:
            return WeightDecaySchedule(jnp.zeros([], jnp.int32))
        return base.EmptyState()

    def update(updates, state, params=None):
        base.check_given("add_decayed_weights", params)
        base.check_updates("add_decayed_weights", updates, params, without=lambda g, p: g is None)
        decay, new_state = weight_decay, state
        if scheduled:
            decay = weight_decay(state.count)
            new_state = WeightDecaySchedule(safe_increment(state.count))
        elif isinstance(decay, (int, float)) and decay == 0:
            return updates, state
        return map_unless_none(lambda g, p: g + decay * p, updates, params), new_state

    tx = base.GradientTransformation(init, update)
    return tx if mask is None else masked(tx, mask)


def add_noise(
    eta: float, gamma: float, key: Any = None, *, seed: int | None = None
) -> base.GradientTransformation:
    """Return a transformation that adds Gaussian noise of variance eta / step^gamma.

    Args:
        eta: the variance of the noise at the first step.
        gamma: how fast the noise fades.
        key: a random key, or an integer to make one from.
        seed: the older name of ``key``, an integer.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.chain(optim.add_noise(0.0, 0.55, key=0), optim.sgd(1.0))
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.5, 2.5], dtype=float32)
    """
    base.check_numbers("add_noise", eta=eta, gamma=gamma)
    if seed is not None:
        warn("add_noise: seed is deprecated, use key", DeprecationWarning)
        if key is not None:
            raise ValueError("add_noise takes key or seed, not both")
        key = seed
    if key is None:
        warn("add_noise without a key gives the same noise in every run")
        key = 0

    def init(params):
        return AddNoiseState(jnp.zeros([], jnp.int32), canonical_key(key))

    def update(updates, state, params=None):
        count = safe_increment(state.count)
        deviation = jnp.sqrt(eta / count**gamma)
        rng_key, sample_key = weft.random.split(state.rng_key)
        noise = tree.random_like(sample_key, updates)
        return tree.add_scale(updates, deviation, noise), AddNoiseState(count, rng_key)

    return base.GradientTransformation(init, update)
