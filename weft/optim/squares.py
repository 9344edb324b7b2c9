"""Updates scaled by sums and averages of squared gradients, by signs and by earlier gradients."""

import functools
from typing import NamedTuple

import weft
import weft.lax as lax
import weft.numpy as jnp
from weft.optim import base, tree
from weft.optim.moments import zero_count
from weft.optim.numerics import abs_sq, safe_increment


class ScaleByRssState(NamedTuple):
    """The sum of squared gradients."""

    sum_of_squares: base.Updates


class ScaleByRmsState(NamedTuple):
    """The moving average of squared gradients."""

    nu: base.Updates


class ScaleByRmsWithCountState(NamedTuple):
    """The moving average of squared gradients, and the step."""

    count: weft.Array
    nu: base.Updates


class ScaleByRStdDevState(NamedTuple):
    """Moving averages of gradients and of their squares."""

    mu: base.Updates
    nu: base.Updates


class ScaleByRStdDevWithCountState(NamedTuple):
    """Moving averages of gradients and of their squares, and the step."""

    count: weft.Array
    mu: base.Updates
    nu: base.Updates


class ScaleByAdaDeltaState(NamedTuple):
    """Moving averages of squared gradients and of squared updates."""

    e_g: base.Updates
    e_x: base.Updates


class ScaleByRpropState(NamedTuple):
    """The step size of each element and the last update."""

    step_sizes: base.Updates
    prev_updates: base.Updates


class ScaleBySM3State(NamedTuple):
    """The largest accumulators along each axis, and the momentum."""

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


def scale_by_rss(initial_accumulator_value=0.1, eps=1e-7):
    """Divide by the root of the sum of all squared gradients, as Adagrad does."""
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


def scale_by_rms(decay=0.9, eps=1e-8, initial_scale=0.0, eps_in_sqrt=True, bias_correction=False):
    """Divide by the root of the moving average of squared gradients."""
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
    decay=0.9, eps=1e-8, initial_scale=0.0, eps_in_sqrt=True, bias_correction=False
):
    """Divide by the standard deviation of the gradients, from moving averages."""
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


def scale_by_adadelta(rho=0.9, eps=1e-6):
    """Scale by the ratio of the moving averages of squared updates and squared gradients."""
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
    learning_rate, eta_minus=0.5, eta_plus=1.2, min_step_size=1e-6, max_step_size=50.0
):
    """A step size for each element: grows while the sign of its gradient stays, else shrinks."""
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


def scale_by_sm3(b1=0.9, b2=1.0, eps=1e-8):
    """Adagrad with accumulators shared along the axes of each leaf, which saves memory."""
    base.check_numbers("scale_by_sm3", b1=b1, b2=b2, eps=eps)

    def init(params):
        if any(jnp.iscomplexobj(leaf) for leaf in weft.tree.leaves(params)):
            raise ValueError(
                "scale_by_sm3 takes no complex parameters; wrap it in "
                "optim.contrib.split_real_and_imaginary"
            )
        if any(jnp.ndim(leaf) == 0 for leaf in weft.tree.leaves(params)):
            raise ValueError("scale_by_sm3 takes no scalars: give them the shape (1,)")
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


def scale_by_optimistic_gradient(alpha=1.0, beta=1.0):
    """(alpha + beta)·g - beta·(the last g)."""

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
    reps_rel=1e-6, eps=1e-8, param_dtype=jnp.float32, global_scale=1.0
):
    """A step for each leaf: how far it has moved at most, over the norm of its gradients."""

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
