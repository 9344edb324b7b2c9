"""Updates scaled by moving averages of the gradient and of its square: Adam and its relatives."""

from typing import NamedTuple

import weft
import weft.numpy as jnp
from weft.optim import base, tree
from weft.optim.numerics import abs_sq, canonical_dtype, safe_increment
from weft.optim.tree_utils.arithmetic import inverse_weight, times_inverse


class ScaleByAdamState(NamedTuple):
    """The step and the moving averages of the gradient and its square."""

    count: weft.Array
    mu: base.Updates
    nu: base.Updates


class ScaleByAmsgradState(NamedTuple):
    """Adam's state and the largest second moment so far."""

    count: weft.Array
    mu: base.Updates
    nu: base.Updates
    nu_max: base.Updates


class ScaleByLionState(NamedTuple):
    """The step and the moving average of the gradient."""

    count: weft.Array
    mu: base.Updates


class ScaleByBeliefState(NamedTuple):
    """The step, the mean of the gradient and its variance around that mean."""

    count: weft.Array
    mu: base.Updates
    nu: base.Updates


class ScaleByAdanState(NamedTuple):
    """Moving averages of the gradient, its change and their square; the last gradient; the step."""

    m: base.Updates
    v: base.Updates
    n: base.Updates
    g: base.Updates
    t: weft.Array


class ScaleByNovogradState(NamedTuple):
    """The step, the first moment of each element and the second of each leaf."""

    count: weft.Array
    mu: base.Updates
    nu: base.Updates


def zero_count():
    """The step before the first."""
    return jnp.zeros([], jnp.int32)


def scale_by_adam(b1=0.9, b2=0.999, eps=1e-8, eps_root=0.0, mu_dtype=None, *, nesterov=False):
    """Divide the mean of the gradient by the root of the mean of its square.

    m ← b1·m + (1-b1)·g, v ← b2·v + (1-b2)·g², update = m̂ / (√(v̂ + eps_root) + eps), where m̂ and
    v̂ are m and v without the bias of their start at zero.
    """
    base.check_numbers("scale_by_adam", b1=b1, b2=b2, eps=eps, eps_root=eps_root)
    mu_dtype = canonical_dtype(mu_dtype)

    def init(params):
        mu = tree.zeros_like(params, dtype=mu_dtype)
        return ScaleByAdamState(zero_count(), mu, tree.zeros_like(params))

    def update(updates, state, params=None):
        base.check_updates("scale_by_adam", updates, state.mu)
        # Scalars come first: all that follows, for a leaf, is then one kernel.
        count = safe_increment(state.count)
        correct_mean = mean_correction(b1, count, nesterov)
        nu_inverse = inverse_weight(b2, count)
        mu = tree.update_moment(updates, state.mu, b1, 1)
        nu = tree.update_moment_per_elem_norm(updates, state.nu, b2, 2)
        mu_hat, nu_hat = correct_mean(updates, mu), times_inverse(nu, nu_inverse)
        updates = divide_by_root(mu_hat, nu_hat, eps, eps_root)
        nu = tree.cast_like(nu, state.nu)
        return updates, ScaleByAdamState(count, tree.cast(mu, mu_dtype), nu)

    return base.GradientTransformation(init, update)


def mean_correction(b1, count, nesterov):
    """Takes the bias from a first moment; with Nesterov's look ahead by one gradient."""
    inverse = inverse_weight(b1, count)
    if not nesterov:
        return lambda updates, mu: times_inverse(mu, inverse)
    next_inverse = inverse_weight(b1, safe_increment(count))
    return lambda updates, mu: weft.tree.map(
        lambda m, g: b1 * m + (1 - b1) * g,
        times_inverse(mu, next_inverse),
        times_inverse(updates, inverse),
    )


def divide_by_root(mu, nu, eps, eps_root):
    """mu / (√(nu + eps_root) + eps)."""
    if isinstance(eps_root, (int, float)) and eps_root == 0:
        return weft.tree.map(lambda m, v: m / (jnp.sqrt(v) + eps), mu, nu)
    return weft.tree.map(lambda m, v: m / (jnp.sqrt(v + eps_root) + eps), mu, nu)


def scale_by_amsgrad(
    b1=0.9,
    b2=0.999,
    eps=1e-8,
    eps_root=0.0,
    mu_dtype=None,
    bias_correction_mu=True,
    bias_correction_nu=True,
):
    """Adam with the largest second moment seen, so that steps do not grow again."""
    base.check_numbers("scale_by_amsgrad", b1=b1, b2=b2, eps=eps, eps_root=eps_root)
    mu_dtype = canonical_dtype(mu_dtype)

    def init(params):
        mu = tree.zeros_like(params, dtype=mu_dtype)
        nu, nu_max = tree.zeros_like(params), tree.zeros_like(params)
        return ScaleByAmsgradState(zero_count(), mu, nu, nu_max)

    def update(updates, state, params=None):
        base.check_updates("scale_by_amsgrad", updates, state.mu)
        mu = tree.update_moment(updates, state.mu, b1, 1)
        nu = tree.update_moment_per_elem_norm(updates, state.nu, b2, 2)
        count = safe_increment(state.count)
        mu_hat = tree.bias_correction(mu, b1, count) if bias_correction_mu else mu
        nu_hat = tree.bias_correction(nu, b2, count) if bias_correction_nu else nu
        nu_max = weft.tree.map(jnp.maximum, state.nu_max, nu_hat)
        updates = divide_by_root(mu_hat, nu_max, eps, eps_root)
        return updates, ScaleByAmsgradState(count, tree.cast(mu, mu_dtype), nu, nu_max)

    return base.GradientTransformation(init, update)


def scale_by_adamax(b1=0.9, b2=0.999, eps=1e-8):
    """Adam with the largest decayed magnitude in place of the root of the second moment."""
    base.check_numbers("scale_by_adamax", b1=b1, b2=b2, eps=eps)

    def update(updates, state, params=None):
        base.check_updates("scale_by_adamax", updates, state.mu)
        count = safe_increment(state.count)
        mu = tree.update_moment(updates, state.mu, b1, 1)
        nu = tree.update_infinity_moment(updates, state.nu, b2, eps)
        updates = tree.div(tree.bias_correction(mu, b1, count), nu)
        return updates, ScaleByAdamState(count, mu, nu)

    return base.GradientTransformation(_init_adam, update)


def _init_adam(params):
    return ScaleByAdamState(zero_count(), tree.zeros_like(params), tree.zeros_like(params))


def scale_by_yogi(b1=0.9, b2=0.999, eps=1e-3, eps_root=0.0, initial_accumulator_value=1e-6):
    """Adam whose second moment moves by the square of the gradient, up or down."""
    base.check_numbers("scale_by_yogi", b1=b1, b2=b2, eps=eps, eps_root=eps_root)

    def init(params):
        mu = tree.full_like(params, initial_accumulator_value)
        return ScaleByAdamState(zero_count(), mu, tree.full_like(params, initial_accumulator_value))

    def second_moment(g, v):
        square = abs_sq(g)
        return v - (1 - b2) * jnp.sign(v - square) * square

    def update(updates, state, params=None):
        base.check_updates("scale_by_yogi", updates, state.mu)
        mu = tree.update_moment(updates, state.mu, b1, 1)
        nu = weft.tree.map(second_moment, updates, state.nu)
        count = safe_increment(state.count)
        mu_hat, nu_hat = tree.bias_correction(mu, b1, count), tree.bias_correction(nu, b2, count)
        updates = divide_by_root(mu_hat, nu_hat, eps, eps_root)
        return updates, ScaleByAdamState(count, mu, nu)

    return base.GradientTransformation(init, update)


def scale_by_radam(b1=0.9, b2=0.999, eps=1e-8, eps_root=0.0, threshold=5.0, *, nesterov=False):
    """Adam whose step is scaled by how well the variance is known, and plain until it is."""
    base.check_numbers("scale_by_radam", b1=b1, b2=b2, eps=eps, eps_root=eps_root)
    length_limit = 2.0 / (1.0 - b2) - 1.0

    def rectified(length, mu, nu):
        ratio = jnp.sqrt(
            (length - 4.0)
            * (length - 2.0)
            * length_limit
            / ((length_limit - 4.0) * (length_limit - 2.0) * length)
        )
        return weft.tree.map(
            lambda m, v: ratio.astype(m.dtype) * m / (jnp.sqrt(v + eps_root) + eps), mu, nu
        )

    def update(updates, state, params=None):
        base.check_updates("scale_by_radam", updates, state.mu)
        mu = tree.update_moment(updates, state.mu, b1, 1)
        nu = tree.update_moment_per_elem_norm(updates, state.nu, b2, 2)
        count = safe_increment(state.count)
        decayed = b2**count
        length = length_limit - 2 * count * decayed / (1 - decayed)
        mu_hat = mean_correction(b1, count, nesterov)(updates, mu)
        nu_hat = tree.bias_correction(nu, b2, count)
        updates = tree.where(length >= threshold, rectified(length, mu_hat, nu_hat), mu_hat)
        return updates, ScaleByAdamState(count, mu, nu)

    return base.GradientTransformation(_init_adam, update)


def scale_by_belief(b1=0.9, b2=0.999, eps=1e-16, eps_root=1e-16, *, nesterov=False):
    """Divide the mean of the gradient by its standard deviation around that mean."""
    base.check_numbers("scale_by_belief", b1=b1, b2=b2, eps=eps, eps_root=eps_root)

    def init(params):
        return ScaleByBeliefState(zero_count(), tree.zeros_like(params), tree.zeros_like(params))

    def update(updates, state, params=None):
        base.check_updates("scale_by_belief", updates, state.mu)
        mu = tree.update_moment(updates, state.mu, b1, 1)
        errors = tree.sub(updates, mu)
        nu = tree.update_moment_per_elem_norm(errors, state.nu, b2, 2)
        nu = weft.tree.map(lambda v: v + eps_root, nu)
        count = safe_increment(state.count)
        mu_hat = mean_correction(b1, count, nesterov)(updates, mu)
        nu_hat = tree.bias_correction(nu, b2, count)
        updates = weft.tree.map(lambda m, v: m / (jnp.sqrt(v) + eps), mu_hat, nu_hat)
        return updates, ScaleByBeliefState(count, mu, nu)

    return base.GradientTransformation(init, update)


def scale_by_adan(b1=0.98, b2=0.92, b3=0.99, eps=1e-8, eps_root=0.0):
    """Adam with the moving average of the gradient's change as Nesterov's momentum."""
    base.check_numbers("scale_by_adan", b1=b1, b2=b2, b3=b3, eps=eps, eps_root=eps_root)

    def init(params):
        m, v, n, g = (tree.zeros_like(params) for _ in range(4))
        return ScaleByAdanState(m, v, n, g, zero_count())

    def update(updates, state, params=None):
        base.check_updates("scale_by_adan", updates, state.m)
        change = weft.tree.map(
            lambda g, last: jnp.where(state.t == 0, jnp.zeros_like(g), g - last), updates, state.g
        )
        m = tree.update_moment(updates, state.m, b1, 1)
        v = tree.update_moment(change, state.v, b2, 1)
        ahead = tree.add_scale(updates, 1 - b2, change)
        n = tree.update_moment_per_elem_norm(ahead, state.n, b3, 2)
        t = safe_increment(state.t)
        m_hat, v_hat = tree.bias_correction(m, b1, t), tree.bias_correction(v, b2, t)
        direction = tree.add_scale(m_hat, 1 - b2, v_hat)
        scaled = divide_by_root(direction, tree.bias_correction(n, b3, t), eps, eps_root)
        return scaled, ScaleByAdanState(m, v, n, updates, t)

    return base.GradientTransformation(init, update)


def scale_by_lion(b1=0.9, b2=0.99, mu_dtype=None, *, mode="hard", smooth_beta=1.0):
    """The sign of a mean of gradient and momentum; "smooth" and "refined" keep small values."""
    base.check_numbers("scale_by_lion", b1=b1, b2=b2)
    mu_dtype = canonical_dtype(mu_dtype)
    signs = {
        "hard": jnp.sign,
        "smooth": lambda x: jnp.tanh(smooth_beta * x),
        "refined": lambda x: jnp.where(jnp.abs(x) < 1.0, x, jnp.sign(x)),
    }
    if mode not in signs:
        raise ValueError(f"scale_by_lion: mode must be one of {list(signs)}, got {mode!r}")

    def init(params):
        return ScaleByLionState(zero_count(), tree.zeros_like(params, dtype=mu_dtype))

    def update(updates, state, params=None):
        base.check_updates("scale_by_lion", updates, state.mu)
        mu = tree.cast(tree.update_moment(updates, state.mu, b2, 1), mu_dtype)
        updates = weft.tree.map(
            lambda g, m: signs[mode]((1.0 - b1) * g + b1 * m), updates, state.mu
        )
        return updates, ScaleByLionState(safe_increment(state.count), mu)

    return base.GradientTransformation(init, update)


def scale_by_novograd(b1=0.9, b2=0.25, eps=1e-8, eps_root=0.0, weight_decay=0.0, mu_dtype=None):
    """Momentum of gradients divided by their norm, one norm for each leaf."""
    base.check_numbers("scale_by_novograd", b1=b1, b2=b2, eps=eps, eps_root=eps_root)
    mu_dtype = canonical_dtype(mu_dtype)

    def init(params):
        nu = weft.tree.map(lambda p: jnp.asarray(0.0, dtype=p.dtype), params)
        return ScaleByNovogradState(zero_count(), tree.zeros_like(params, dtype=mu_dtype), nu)

    def second_moment(first, g, v):
        square = jnp.linalg.norm(g) ** 2
        return jnp.where(first, square.astype(v.dtype), (1 - b2) * square + b2 * v)

    def first_moment(first, g, p, m, v):
        scaled = g / (jnp.sqrt(v + eps_root) + eps) + weight_decay * p
        return jnp.where(first, scaled, b1 * m + scaled)

    def update(updates, state, params=None):
        base.check_params("scale_by_novograd", updates, params)
        base.check_updates("scale_by_novograd", updates, state.mu)
        count = safe_increment(state.count)
        first = count == 1
        nu = weft.tree.map(lambda g, v: second_moment(first, g, v), updates, state.nu)
        mu = weft.tree.map(
            lambda g, p, m, v: first_moment(first, g, p, m, v), updates, params, state.mu, nu
        )
        mu = tree.cast(mu, mu_dtype)
        return mu, ScaleByNovogradState(count, mu, nu)

    return base.GradientTransformation(init, update)
