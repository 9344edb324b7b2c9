"""Updates scaled by a rate, a schedule, a norm or a sign."""

from __future__ import annotations

from typing import NamedTuple

import weft
import weft.numpy as jnp
from weft.optim import base, tree
from weft.optim.numerics import safe_increment, safe_norm, safe_root_mean_squares


class ScaleByScheduleState(NamedTuple):
    """The state of ``scale_by_schedule``.

    Args:
        count: how many steps were made.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.scale_by_schedule(lambda step: 1.0).init(jnp.zeros(2))
        ScaleByScheduleState(count=Array(0, dtype=int32))
    """

    count: weft.Array


class ApplyEvery(NamedTuple):
    """The state of ``apply_every``.

    Args:
        count: how many steps were made since updates were last let through.
        grad_acc: the sum of the updates since then.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.apply_every(4).init(jnp.array(0.0))
        ApplyEvery(count=Array(0, dtype=int32), grad_acc=Array(0., dtype=float32, weak_type=True))
    """

    count: weft.Array
    grad_acc: base.Updates


def scale(step_size: base.Numeric) -> base.GradientTransformation:
    """Return a transformation that multiplies updates by a number.

    Args:
        step_size: the number.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.optim as optim
        >>> halve = optim.scale(0.5)
        >>> halve.update({"w": 3.0}, halve.init({"w": 0.0}))[0]
        {'w': 1.5}
    """
    base.check_numbers("scale", step_size=step_size)
    return base.stateless(lambda updates, params: tree.scale(step_size, updates))


def scale_by_learning_rate(
    learning_rate: base.ScalarOrSchedule | None = None, *, flip_sign: bool = True
) -> base.GradientTransformation:
    """Return a transformation that multiplies updates by minus the learning rate.

    Args:
        learning_rate: the learning rate, a number or a function of the step. None stands for 1.
        flip_sign: change the sign, so that the parameters move against the gradient.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_learning_rate(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([0.95, 2.05], dtype=float32)
    """
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


def scale_by_schedule(step_size_fn: base.Schedule) -> base.GradientTransformation:
    """Return a transformation that multiplies updates by a function of the step.

    Args:
        step_size_fn: the function; steps count from 0.

    Returns:
        A gradient transformation.

    Example:
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


def scale_by_sign() -> base.GradientTransformation:
    """Return a transformation that replaces every update with its sign.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_sign()
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([2., 1.], dtype=float32)
    """
    return base.stateless(lambda updates, params: weft.tree.map(jnp.sign, updates))


def scale_by_param_block_norm(min_scale: float = 1e-3) -> base.GradientTransformation:
    """Return a transformation that multiplies each leaf by the norm of its parameter.

    Args:
        min_scale: the smallest factor.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_param_block_norm()
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([2.118, 0.882], dtype=float32)
    """
    return _by_param("scale_by_param_block_norm", lambda g, p: g * safe_norm(p, min_scale))


def scale_by_param_block_rms(min_scale: float = 1e-3) -> base.GradientTransformation:
    """Return a transformation that multiplies each leaf by the root mean square of its parameter.

    Args:
        min_scale: the smallest factor.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_param_block_rms()
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([1.791, 1.209], dtype=float32)
    """
    return _by_param(
        "scale_by_param_block_rms", lambda g, p: g * safe_root_mean_squares(p, min_scale)
    )


def scale_by_trust_ratio(
    min_norm: float = 0.0, trust_coefficient: float = 1.0, eps: float = 0.0
) -> base.GradientTransformation:
    """Return a transformation that scales each leaf to the norm of its parameter, as in LARS.

    Args:
        min_norm: the smallest norm of parameters and updates.
        trust_coefficient: the factor of the ratio.
        eps: a small number added to the divisor.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_trust_ratio()
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([2.581, 0.419], dtype=float32)
    """

    def rescale(g, p):
        p_norm, g_norm = safe_norm(p, min_norm), safe_norm(g, min_norm)
        ratio = trust_coefficient * p_norm / (g_norm + eps)
        undefined = jnp.logical_or(p_norm == 0.0, g_norm == 0.0)
        return g * jnp.where(undefined, jnp.array(1.0, dtype=p.dtype), ratio)

    return _by_param("scale_by_trust_ratio", rescale)


def normalize_by_update_norm(
    scale_factor: float = 1.0, eps: float = 1e-6
) -> base.GradientTransformation:
    """Return a transformation that divides updates by the norm of all of them.

    Args:
        scale_factor: the norm that updates get.
        eps: a small number added to the divisor.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.normalize_by_update_norm()
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([1.707, 1.293], dtype=float32)
    """

    def rescale(updates, params):
        norm = (tree.norm(updates) + eps) / scale_factor
        return weft.tree.map(lambda g: g / norm, updates)

    return base.stateless(rescale)


def centralize() -> base.GradientTransformation:
    """Return a transformation that subtracts the mean of each leaf over all axes but the first.

    Leaves with fewer than two dimensions stay as they are.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.centralize().update(jnp.array([[1.0, 2.0], [3.0, 6.0]]), optim.EmptyState())[0]
        Array([[-0.5,  0.5],
               [-1.5,  1.5]], dtype=float32)
    """

    def subtract_mean(g):
        if g.ndim < 2:
            return g
        return g - g.mean(tuple(range(1, g.ndim)), keepdims=True)

    return base.stateless(lambda updates, params: weft.tree.map(subtract_mean, updates))


def apply_every(k: int = 1) -> base.GradientTransformation:
    """Return a transformation that lets the sum of ``k`` updates through every ``k`` steps.

    In between it gives zeros.

    Args:
        k: the number of steps.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.apply_every(2)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([1., 2.], dtype=float32)
    """
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


def scale_by_polyak(
    f_min: float = 0.0, max_learning_rate: float = 1.0, eps: float = 0.0, variant: str = "sps"
) -> base.GradientTransformationExtraArgs:
    """Return a transformation that scales updates by the Polyak step size.

    ``update`` takes the loss as ``value=``. The step is (value - f_min) / (‖updates‖² + eps).

    Args:
        f_min: the smallest value that the loss can have.
        max_learning_rate: the largest step.
        eps: a small number added to the divisor.
        variant: ``'sps'``, or ``'sps+'`` to take no step where the loss is below ``f_min``.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_polyak()
        >>> opt.update(jnp.array([1.0, 3.0]), opt.init(jnp.zeros(2)), value=2.0)[0]
        Array([0.2, 0.6], dtype=float32)
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
