"""Updates scaled by sums and averages of squared gradients, by signs and by earlier gradients."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import weft
import weft.lax as lax
import weft.numpy as jnp
from weft.optim import base, tree
from weft.optim.moments import zero_count
from weft.optim.numerics import abs_sq, safe_increment


class ScaleByRssState(NamedTuple):
    """The state of ``scale_by_rss``.

    Args:
        sum_of_squares: the sum of all squared gradients.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.scale_by_rss().init(jnp.array(0.0))
        ScaleByRssState(sum_of_squares=Array(0.1, dtype=float32, weak_type=True))
    """

    sum_of_squares: base.Updates


class ScaleByRmsState(NamedTuple):
    """The state of ``scale_by_rms``.

    Args:
        nu: the moving average of squared gradients.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.scale_by_rms().init(jnp.array(0.0))
        ScaleByRmsState(nu=Array(0., dtype=float32, weak_type=True))
    """

    nu: base.Updates


class ScaleByRmsWithCountState(NamedTuple):
    """The moving average of squared gradients, and the step."""

    count: weft.Array
    nu: base.Updates


class ScaleByRStdDevState(NamedTuple):
    """The state of ``scale_by_stddev``.

    Args:
        mu: the moving average of gradients.
        nu: the moving average of squared gradients.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.scale_by_stddev().init(jnp.array(0.0))
        ScaleByRStdDevState(mu=Array(0., dtype=float32, weak_type=True), nu=Array(0.,
         dtype=float32, weak_type=True))
    """

    mu: base.Updates
    nu: base.Updates


class ScaleByRStdDevWithCountState(NamedTuple):
    """Moving averages of gradients and of their squares, and the step."""

    count: weft.Array
    mu: base.Updates
    nu: base.Updates


class ScaleByAdaDeltaState(NamedTuple):
    """The state of ``scale_by_adadelta``.

    Args:
        e_g: the moving average of squared gradients.
        e_x: the moving average of squared updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.scale_by_adadelta().init(jnp.array(0.0))
        ScaleByAdaDeltaState(e_g=Array(0., dtype=float32, weak_type=True), e_x=Array(0.,
         dtype=float32, weak_type=True))
    """

    e_g: base.Updates
    e_x: base.Updates


class ScaleByRpropState(NamedTuple):
    """The state of ``scale_by_rprop``.

    Args:
        step_sizes: the step size of each element.
        prev_updates: the last update.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.scale_by_rprop(0.1).init(jnp.array(0.0))
        ScaleByRpropState(step_sizes=Array(0.1, dtype=float32, weak_type=True),
         prev_updates=Array(0., dtype=float32, weak_type=True))
    """

    step_sizes: base.Updates
    prev_updates: base.Updates


class ScaleBySM3State(NamedTuple):
    """The state of ``scale_by_sm3``.

    Args:
        mu: the largest accumulators along each axis.
        nu: the momentum.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.scale_by_sm3().init(jnp.zeros(1))
        ScaleBySM3State(mu=[Array([0.], dtype=float32)], nu=Array([0.], dtype=float32))
    """

    mu: base.Updates
    nu: base.Updates


class ScaleByOptimisticGradientState(NamedTuple):
    """Whether this is the first step, and the last gradient."""

    is_initial_step: weft.Array
    previous_gradient: base.Updates


class ScaleByDistanceOverGradientsState(NamedTuple):
    """The largest distance from the start, the sum of squared gradients, and the start."""

    max_dist: base.OptState
    grad_sum_of_squares: base.OptState
    init_params: base.OptState


def scale_by_rss(
    initial_accumulator_value: float = 0.1, eps: float = 1e-7
) -> base.GradientTransformation:
    """Return Adagrad's scaling: one over the root of the sum of all squared gradients.

    Args:
        initial_accumulator_value: the value at which the sum starts.
        eps: a small number that keeps the divisor away from 0.

    Returns:
        A gradient transformation. It does not change the sign of the updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_rss()
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([1.845, 1.155], dtype=float32)
    """
    base.check_numbers("scale_by_rss", eps=eps)

    def init(params):
        return ScaleByRssState(tree.full_like(params, initial_accumulator_value))

    def update(updates, state, params=None):
        base.check_updates("scale_by_rss", updates, state.sum_of_squares)
        sums = weft.tree.map(lambda g, s: abs_sq(g) + s, updates, state.sum_of_squares)
        return weft.tree.map(_over_root(eps), updates, sums), ScaleByRssState(sums)

    return base.GradientTransformation(init, update)


def _over_root(eps):
    """g / √(s + eps), and zero where s is."""
    return lambda g, s: jnp.where(s > 0, lax.rsqrt(s + eps), 0.0) * g


def scale_by_rms(
    decay: float = 0.9,
    eps: float = 1e-8,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> base.GradientTransformation:
    """Return a transformation that divides by the root of the moving average of squared gradients.

    Args:
        decay: the weight of the past in the moving averages.
        eps: a small number that keeps the divisor away from 0.
        initial_scale: the value at which the averages of squares start.
        eps_in_sqrt: add ``eps`` inside of the root, not outside.
        bias_correction: correct the averages for their start at zero.

    Returns:
        A gradient transformation. It does not change the sign of the updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_rms()
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([ 4.162, -1.162], dtype=float32)
    """
    base.check_numbers("scale_by_rms", decay=decay, eps=eps, initial_scale=initial_scale)

    def init(params):
        nu = tree.full_like(params, initial_scale)
        if bias_correction:
            return ScaleByRmsWithCountState(zero_count(), nu)
        return ScaleByRmsState(nu)

    def update(updates, state, params=None):
        base.check_updates("scale_by_rms", updates, state.nu)
        nu = nu_hat = tree.update_moment_per_elem_norm(updates, state.nu, decay, 2)
        new_state = ScaleByRmsState(nu)
        if bias_correction:
            count = safe_increment(state.count)
            nu_hat = tree.bias_correction(nu, decay, count)
            new_state = ScaleByRmsWithCountState(count, nu)
        updates = weft.tree.map(
            lambda g, v: _inverse_root(v, eps, eps_in_sqrt) * g, updates, nu_hat
        )
        return updates, new_state

    return base.GradientTransformation(init, update)


def _inverse_root(v, eps, eps_in_sqrt):
    return lax.rsqrt(v + eps) if eps_in_sqrt else 1 / (jnp.sqrt(v) + eps)


def scale_by_stddev(
    decay: float = 0.9,
    eps: float = 1e-8,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> base.GradientTransformation:
    """Return a transformation that divides by the standard deviation of the gradients.

    Args:
        decay: the weight of the past in the moving averages.
        eps: a small number that keeps the divisor away from 0.
        initial_scale: the value at which the averages of squares start.
        eps_in_sqrt: add ``eps`` inside of the root, not outside.
        bias_correction: correct the averages for their start at zero.

    Returns:
        A gradient transformation. It does not change the sign of the updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_stddev()
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([ 4.333, -1.333], dtype=float32)
    """
    base.check_numbers("scale_by_stddev", decay=decay, eps=eps, initial_scale=initial_scale)

    def init(params):
        mu, nu = tree.zeros_like(params), tree.full_like(params, initial_scale)
        if bias_correction:
            return ScaleByRStdDevWithCountState(zero_count(), mu, nu)
        return ScaleByRStdDevState(mu, nu)

    def update(updates, state, params=None):
        base.check_updates("scale_by_stddev", updates, state.nu)
        mu = mu_hat = tree.update_moment(updates, state.mu, decay, 1)
        nu = nu_hat = tree.update_moment_per_elem_norm(updates, state.nu, decay, 2)
        new_state = ScaleByRStdDevState(mu, nu)
        if bias_correction:
            count = safe_increment(state.count)
            mu_hat = tree.bias_correction(mu, decay, count)
            nu_hat = tree.bias_correction(nu, decay, count)
            new_state = ScaleByRStdDevWithCountState(count, mu, nu)
        updates = weft.tree.map(
            lambda g, m, v: _inverse_root(v - abs_sq(m), eps, eps_in_sqrt) * g,
            updates,
            mu_hat,
            nu_hat,
        )
        return updates, new_state

    return base.GradientTransformation(init, update)


def scale_by_adadelta(rho: float = 0.9, eps: float = 1e-6) -> base.GradientTransformation:
    """Return Adadelta's scaling: the root of mean squared updates over mean squared gradients.

    Args:
        rho: the weight of the past in both averages.
        eps: a small number that keeps the divisor away from 0.

    Returns:
        A gradient transformation. It does not change the sign of the updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_adadelta()
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([1.003, 1.997], dtype=float32)
    """
    base.check_numbers("scale_by_adadelta", rho=rho, eps=eps)

    def init(params):
        return ScaleByAdaDeltaState(tree.zeros_like(params), tree.zeros_like(params))

    def update(updates, state, params=None):
        base.check_updates("scale_by_adadelta", updates, state.e_g)
        e_g = tree.update_moment(updates, state.e_g, rho, 2)
        updates = weft.tree.map(
            lambda g, squares, steps: jnp.sqrt(steps + eps) / jnp.sqrt(squares + eps) * g,
            updates,
            e_g,
            state.e_x,
        )
        e_x = tree.update_moment(updates, state.e_x, rho, 2)
        return updates, ScaleByAdaDeltaState(e_g, e_x)

    return base.GradientTransformation(init, update)


def scale_by_rprop(
    learning_rate: float,
    eta_minus: float = 0.5,
    eta_plus: float = 1.2,
    min_step_size: float = 1e-6,
    max_step_size: float = 50.0,
) -> base.GradientTransformation:
    """Return a transformation with a step size for each element, which depends on signs only.

    Args:
        learning_rate: the first step size.
        eta_minus: the factor of the step size after the gradient changed its sign.
        eta_plus: the factor of the step size while the gradient keeps its sign.
        min_step_size: the smallest step size.
        max_step_size: the largest step size.

    Returns:
        A gradient transformation. It does not change the sign of the updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_rprop(0.1)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([1., 2.], dtype=float32)
    """
    base.check_numbers("scale_by_rprop", learning_rate=learning_rate)

    def init(params):
        return ScaleByRpropState(tree.full_like(params, learning_rate), tree.zeros_like(params))

    def resize(agreement, size):
        factor = jnp.where(agreement > 0, eta_plus, eta_minus)
        clipped = jnp.clip(size * factor, min_step_size, max_step_size)
        return jnp.where(agreement == 0, size, clipped)

    def zero_after_turn(agreement, x):
        return jnp.where(agreement < 0, jnp.zeros_like(x), x)

    def update(updates, state, params=None):
        base.check_updates("scale_by_rprop", updates, state.prev_updates)
        agreement = tree.mul(updates, state.prev_updates)
        sizes = weft.tree.map(resize, agreement, state.step_sizes)
        steps = weft.tree.map(
            lambda a, g, size: zero_after_turn(a, size * jnp.sign(g)), agreement, updates, sizes
        )
        # The step of an element is made when the next gradient has not turned against it.
        updates = weft.tree.map(zero_after_turn, agreement, state.prev_updates)
        return updates, ScaleByRpropState(sizes, steps)

    return base.GradientTransformation(init, update)


def scale_by_sm3(
    b1: float = 0.9, b2: float = 1.0, eps: float = 1e-8
) -> base.GradientTransformation:
    """Return Adagrad with accumulators shared along the axes of each leaf, which saves memory.

    Args:
        b1: the decay of the momentum.
        b2: the decay of the accumulators; 1 adds up squares.
        eps: a small number that keeps the divisor away from 0.

    Returns:
        A gradient transformation. It does not change the sign of the updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_sm3()
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([1.1, 1.9], dtype=float32)
    """
    base.check_numbers("scale_by_sm3", b1=b1, b2=b2, eps=eps)

    def init(params):
        if any(jnp.iscomplexobj(leaf) for leaf in weft.tree.leaves(params)):
            raise ValueError(
                "scale_by_sm3 does not take complex parameters; wrap it in "
                "optim.contrib.split_real_and_imaginary"
            )
        if any(jnp.ndim(leaf) == 0 for leaf in weft.tree.leaves(params)):
            raise ValueError("scale_by_sm3 does not take scalars; reshape them to (1,)")
        mu = weft.tree.map(lambda p: [jnp.zeros_like(p, shape=(size,)) for size in p.shape], params)
        return ScaleBySM3State(mu, tree.zeros_like(params))

    def cover(g, accumulators):
        """The accumulator of each element: the smallest of those of its row, column, ..."""
        along = [
            jnp.reshape(a, [-1 if i == axis else 1 for i in range(g.ndim)])
            for axis, a in enumerate(accumulators)
        ]
        return functools.reduce(jnp.minimum, along)

    def accumulate(g, accumulators):
        return (1.0 if b2 == 1.0 else 1.0 - b2) * g**2 + b2 * cover(g, accumulators)

    def largest(a):
        if a.ndim < 2:
            return [a] * a.ndim
        return [jnp.max(a, [i for i in range(a.ndim) if i != axis]) for axis in range(a.ndim)]

    def update(updates, state, params=None):
        base.check_updates("scale_by_sm3", updates, state.nu)
        accumulated = weft.tree.map(accumulate, updates, state.mu)
        scaled = weft.tree.map(_over_root(eps), updates, accumulated)
        nu = tree.update_moment(scaled, state.nu, b1, 1)
        return nu, ScaleBySM3State(weft.tree.map(largest, accumulated), nu)

    return base.GradientTransformation(init, update)


def scale_by_optimistic_gradient(
    alpha: float = 1.0, beta: float = 1.0
) -> base.GradientTransformation:
    """Return a transformation to (alpha + beta) · g - beta · (the last g).

    Args:
        alpha: the weight of the gradient.
        beta: the weight of its change.

    Returns:
        A gradient transformation. It does not change the sign of the updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_optimistic_gradient()
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([1.5, 1.5], dtype=float32)
    """

    def init(params):
        return ScaleByOptimisticGradientState(jnp.array(True), tree.zeros_like(params))

    def update(updates, state, params=None):
        base.check_updates("scale_by_optimistic_gradient", updates, state.previous_gradient)

        def look_ahead(g, last):
            return (alpha + beta) * g - beta * jnp.where(state.is_initial_step, g, last)

        ahead = weft.tree.map(look_ahead, updates, state.previous_gradient)
        return ahead, ScaleByOptimisticGradientState(jnp.array(False), updates)

    return base.GradientTransformation(init, update)


def scale_by_distance_over_gradients(
    reps_rel: float = 1e-6,
    eps: float = 1e-8,
    param_dtype: Any = jnp.float32,
    global_scale: float = 1.0,
) -> base.GradientTransformation:
    """Return a scaling by how far a leaf has moved, over the norm of its gradients.

    Args:
        reps_rel: the distance at the start, relative to 1 plus the norm of the parameter.
        eps: a small number that keeps the divisor away from 0.
        param_dtype: the dtype in which the first parameters are kept.
        global_scale: the factor of all steps.

    Returns:
        A gradient transformation. It does not change the sign of the updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_distance_over_gradients()
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([1., 2.], dtype=float32)
    """

    def distance(x, y=0.0):
        return jnp.sqrt(jnp.square(x - y).sum())

    def init(params):
        return ScaleByDistanceOverGradientsState(
            weft.tree.map(lambda p: reps_rel * (1 + distance(p)), params),
            weft.tree.map(lambda p: jnp.zeros(1), params),
            tree.cast(params, param_dtype),
        )

    def update(updates, state, params=None):
        base.check_params("scale_by_distance_over_gradients", updates, params)
        moved = weft.tree.map(
            lambda d, p, start: jnp.maximum(d, distance(p, start)),
            state.max_dist,
            params,
            state.init_params,
        )
        squares = weft.tree.map(
            lambda s, g: s + jnp.square(g).sum(), state.grad_sum_of_squares, updates
        )
        updates = weft.tree.map(
            lambda g, d, s: global_scale * (d / jnp.sqrt(s + eps)) * g, updates, moved, squares
        )
        return updates, ScaleByDistanceOverGradientsState(moved, squares, state.init_params)

    return base.GradientTransformation(init, update)
