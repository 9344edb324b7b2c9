"""Gradients made private: each example's is limited, and noise is added to their sum."""

from __future__ import annotations

from typing import Any, NamedTuple

import weft
from weft.extend.source_info_util import warn
from weft.optim import base
from weft.optim.numerics import canonical_key
from weft.optim.scaling import scale_by_learning_rate
from weft.optim.transforms import chain, per_example_global_norm_clip, trace


class DifferentiallyPrivateAggregateState(NamedTuple):
    """The state of ``differentially_private_aggregate``.

    Args:
        rng_key: the key of the next noise.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> tx = optim.contrib.differentially_private_aggregate(1.0, 0.1, key=0)
        >>> tx.init(jnp.zeros(1))._fields
        ('rng_key',)
    """

    rng_key: weft.Array


def differentially_private_aggregate(
    l2_norm_clip: float, noise_multiplier: float, key: Any = None, *, seed: int | None = None
) -> base.GradientTransformation:
    """Return a transformation that averages clipped per-example gradients and adds Gaussian noise.

    Updates have the examples along their first axis, as `weft.vmap(weft.grad(loss), ...)` gives.

    Args:
        l2_norm_clip: the largest norm of the gradient of an example.
        noise_multiplier: the standard deviation of the noise, as a multiple of ``l2_norm_clip``.
        key: a random key, or an integer to make one from.
        seed: the older name of ``key``, an integer.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> tx = optim.contrib.differentially_private_aggregate(1.0, 0.0, key=0)
        >>> tx.update(jnp.array([[3.0], [0.5]]), tx.init(jnp.zeros(1)))[0]
        Array([0.75], dtype=float32)
    """
    name = "differentially_private_aggregate"
    if seed is not None:
        warn(f"{name}: seed is deprecated, use key", DeprecationWarning)
        if key is not None:
            raise ValueError(f"{name} takes key or seed, not both")
        key = seed
    if key is None:
        warn(f"{name} without a key gives the same noise in every run")
        key = 0
    deviation = l2_norm_clip * noise_multiplier

    def init(params):
        return DifferentiallyPrivateAggregateState(canonical_key(key))

    def update(updates, state, params=None):
        leaves, structure = weft.tree.flatten(updates)
        summed, _ = per_example_global_norm_clip(leaves, l2_norm_clip)
        new_key, *keys = weft.random.split(state.rng_key, len(leaves) + 1)
        examples = leaves[0].shape[0]
        noisy = [
            (g + deviation * weft.random.normal(key, g.shape, g.dtype)) / examples
            for g, key in zip(summed, keys, strict=True)
        ]
        return structure.unflatten(noisy), DifferentiallyPrivateAggregateState(new_key)

    return base.GradientTransformation(init, update)


def dpsgd(
    learning_rate: base.ScalarOrSchedule,
    l2_norm_clip: float,
    noise_multiplier: float,
    seed: int,
    momentum: float | None = None,
    nesterov: bool = False,
) -> base.GradientTransformationExtraArgs:
    """Return differentially private gradient descent (Abadi et al., 2016).

    Args:
        learning_rate: the learning rate, a number or a function of the step.
        l2_norm_clip: the largest norm of the gradient of an example.
        noise_multiplier: the standard deviation of the noise, as a multiple of ``l2_norm_clip``.
        seed: the integer from which the key of the noise is made.
        momentum: the decay of the momentum; None for none.
        nesterov: use Nesterov's momentum.

    Returns:
        A gradient transformation, of updates with the examples along their first axis.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.dpsgd(0.1, l2_norm_clip=1.0, noise_multiplier=0.0, seed=0)
        >>> opt.update(jnp.array([[3.0], [0.5]]), opt.init(jnp.zeros(1)))[0]
        Array([-0.075], dtype=float32)
    """
    return chain(
        differentially_private_aggregate(l2_norm_clip, noise_multiplier, key=seed),
        base.identity() if momentum is None else trace(momentum, nesterov),
        scale_by_learning_rate(learning_rate),
    )
