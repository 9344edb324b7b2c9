"""Weight decay and noise, added to updates."""

from typing import NamedTuple

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
    """The step and the key of the next noise."""

    count: weft.Array
    rng_key: weft.Array


def add_decayed_weights(weight_decay=0.0, mask=None):
    """Add `weight_decay` (a number or a schedule) times the parameters, where the mask is true."""
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


def add_noise(eta, gamma, key=None, *, seed=None):
    """Add Gaussian noise of variance eta / step^gamma."""
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
