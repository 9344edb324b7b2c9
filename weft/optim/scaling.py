"""Updates scaled by a rate, a schedule, a norm or a sign."""

from typing import NamedTuple

import weft
import weft.numpy as jnp
from weft.optim import base, tree
from weft.optim.numerics import safe_increment, safe_norm, safe_root_mean_squares


class ScaleByScheduleState(NamedTuple):
    """How many steps have been made."""

    count: weft.Array


class ApplyEvery(NamedTuple):
    """The steps since updates were last let through, and their sum."""

    count: weft.Array
    grad_acc: base.Updates


def scale(step_size):
    """Multiply updates with a number.

    >>> import weft.optim as optim
    >>> halve = optim.scale(0.5)
    >>> halve.update({"w": 3.0}, halve.init({"w": 0.0}))[0]
    {'w': 1.5}
    """
    base.check_numbers("scale", step_size=step_size)
    return base.stateless(lambda updates, params: tree.scale(step_size, updates))


def scale_by_learning_rate(learning_rate=None, *, flip_sign=True):
    """Multiply updates with the learning rate, a number or a schedule, and turn them downhill."""
    if learning_rate is None:
        return base.identity()
    sign = -1 if flip_sign else 1
    if callable(learning_rate):
        return scale_by_schedule(lambda count: sign * learning_rate(count))
    if not isinstance(learning_rate, (int, float)) and not hasattr(learning_rate, "dtype"):
        raise TypeError(
            "learning_rate must be a number, an array or a schedule, a function of the step; "
            f"got {learning_rate!r}"
        )
    return scale(sign * learning_rate)


def scale_by_schedule(step_size_fn):
    """Multiply updates with a function of the step.

    >>> import weft.numpy as jnp, weft.optim as optim
    >>> opt = optim.scale_by_schedule(lambda step: 1.0 / (step + 1))
    >>> state = opt.init(jnp.array(0.0))
    >>> for _ in range(3):
    ...     update, state = opt.update(jnp.array(6.0), state)
    >>> float(update), int(state.count)
    (2.0, 3)
    """
    if not callable(step_size_fn):
        raise TypeError(f"scale_by_schedule takes a function of the step, got {step_size_fn!r}")

    def init(params):
        return ScaleByScheduleState(jnp.zeros([], jnp.int32))

    def update(updates, state, params=None):
        step_size = step_size_fn(state.count)
        updates = weft.tree.map(lambda g: jnp.asarray(step_size, dtype=g.dtype) * g, updates)
        return updates, ScaleByScheduleState(safe_increment(state.count))

    return base.GradientTransformation(init, update)


def scale_by_sign():
    """Replace every update with its sign."""
    return base.stateless(lambda updates, params: weft.tree.map(jnp.sign, updates))


def scale_by_param_block_norm(min_scale=1e-3):
    """Multiply each leaf with the norm of its parameter."""
    return _by_param("scale_by_param_block_norm", lambda g, p: g * safe_norm(p, min_scale))


def scale_by_param_block_rms(min_scale=1e-3):
    """Multiply each leaf with the root mean square of its parameter."""
    return _by_param(
        "scale_by_param_block_rms", lambda g, p: g * safe_root_mean_squares(p, min_scale)
    )


def scale_by_trust_ratio(min_norm=0.0, trust_coefficient=1.0, eps=0.0):
    """Scale each leaf to the norm of its parameter, as LARS and LAMB do."""

    def rescale(g, p):
        p_norm, g_norm = safe_norm(p, min_norm), safe_norm(g, min_norm)
        ratio = trust_coefficient * p_norm / (g_norm + eps)
        undefined = jnp.logical_or(p_norm == 0.0, g_norm == 0.0)
        return g * jnp.where(undefined, jnp.array(1.0, dtype=p.dtype), ratio)

    return _by_param("scale_by_trust_ratio", rescale)


def normalize_by_update_norm(scale_factor=1.0, eps=1e-6):
    """Divide updates by the norm of all of them."""

    def rescale(updates, params):
        norm = (tree.norm(updates) + eps) / scale_factor
        return weft.tree.map(lambda g: g / norm, updates)

    return base.stateless(rescale)


def centralize():
    """Subtract from each matrix of updates the mean of its rows."""

    def subtract_mean(g):
        if g.ndim < 2:
            return g
        return g - g.mean(tuple(range(1, g.ndim)), keepdims=True)

    return base.stateless(lambda updates, params: weft.tree.map(subtract_mean, updates))


def apply_every(k=1):
    """Add up updates and let their sum through every `k` steps; zeros in between."""
    base.check_numbers("apply_every", k=k)

    def init(params):
        return ApplyEvery(jnp.zeros([], jnp.int32), tree.zeros_like(params))

    def update(updates, state, params=None):
        base.check_updates("apply_every", updates, state.grad_acc)
        position = state.count % k
        keep, emit = position != 0, position == k - 1
        total = weft.tree.map(lambda g, acc: keep * acc + g, updates, state.grad_acc)
        updates = weft.tree.map(lambda acc: emit * acc, total)
        return updates, ApplyEvery(safe_increment(state.count) % k, total)

    return base.GradientTransformation(init, update)


def scale_by_polyak(f_min=0.0, max_learning_rate=1.0, eps=0.0, variant="sps"):
    """Scale updates with the Polyak step size, from the loss given as `value=` to `update`.

    The step is (value - f_min) / (‖updates‖² + eps), at most `max_learning_rate`; the variant
    "sps+" takes no steps uphill where the value is below `f_min`.
    """
    if variant not in ("sps", "sps+"):
        raise ValueError(f"scale_by_polyak: variant must be 'sps' or 'sps+', got {variant!r}")

    def update(updates, state, params=None, *, value, **extra_args):
        squares = tree.norm(updates, squared=True)
        gap = jnp.asarray(value - f_min).astype(squares.dtype)
        if variant == "sps+":
            gap = weft.nn.relu(gap)
        step = jnp.where(
            squares + eps <= jnp.finfo(float).eps,
            jnp.array(0.0),
            jnp.minimum(gap / (squares + eps), max_learning_rate),
        )
        return tree.scale(step, updates), state

    return base.GradientTransformationExtraArgs(base.init_empty_state, update)


def _by_param(name, f):
    """A transformation without a state that maps `f(update, param)` over the leaves."""

    def update(updates, state, params=None):
        base.check_params(name, updates, params)
        return weft.tree.map(f, updates, params), state

    return base.GradientTransformation(base.init_empty_state, update)
