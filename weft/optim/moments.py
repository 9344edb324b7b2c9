"""Updates scaled by moving averages of the gradient and of its square: Adam and its relatives."""

from __future__ import annotations

from typing import Any, NamedTuple

import weft
import weft.numpy as jnp
from weft.optim import base, tree
from weft.optim.numerics import abs_sq, canonical_dtype, safe_increment
from weft.optim.tree_utils.arithmetic import inverse_weight, times_inverse


class ScaleByAdamState(NamedTuple):
    """The state of ``scale_by_adam`` and its relatives.

    Args:
        count: how many steps were made.
        mu: the moving average of the gradient.
        nu: the moving average of its square.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.scale_by_adam().init(jnp.array(0.0))
        ScaleByAdamState(count=Array(0, dtype=int32), mu=Array(0., dtype=float32,
         weak_type=True), nu=Array(0., dtype=float32, weak_type=True))
    """

    count: weft.Array
    mu: base.Updates
    nu: base.Updates


class ScaleByAmsgradState(NamedTuple):
    """The state of ``scale_by_amsgrad``.

    Args:
        count: how many steps were made.
        mu: the moving average of the gradient.
        nu: the moving average of its square.
        nu_max: the largest second moment so far.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.scale_by_amsgrad().init(jnp.array(0.0))
        ScaleByAmsgradState(count=Array(0, dtype=int32), mu=Array(0., dtype=float32,
         weak_type=True), nu=Array(0., dtype=float32, weak_type=True), nu_max=Array(0.,
         dtype=float32, weak_type=True))
    """

    count: weft.Array
    mu: base.Updates
    nu: base.Updates
    nu_max: base.Updates


class ScaleByLionState(NamedTuple):
    """The state of ``scale_by_lion``.

    Args:
        count: how many steps were made.
        mu: the moving average of the gradient.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.scale_by_lion().init(jnp.array(0.0))
        ScaleByLionState(count=Array(0, dtype=int32), mu=Array(0., dtype=float32, weak_type=True))
    """

    count: weft.Array
    mu: base.Updates


class ScaleByBeliefState(NamedTuple):
    """The state of ``scale_by_belief``.

    Args:
        count: how many steps were made.
        mu: the moving average of the gradient.
        nu: the variance of the gradient around its mean.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.scale_by_belief().init(jnp.array(0.0))
        ScaleByBeliefState(count=Array(0, dtype=int32), mu=Array(0., dtype=float32,
         weak_type=True), nu=Array(0., dtype=float32, weak_type=True))
    """

    count: weft.Array
    mu: base.Updates
    nu: base.Updates


class ScaleByAdanState(NamedTuple):
    """The state of ``scale_by_adan``.

    Args:
        m: the moving average of the gradient.
        v: the moving average of its change.
        n: the moving average of the square of both together.
        g: the last gradient.
        t: how many steps were made.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.scale_by_adan().init(jnp.array(0.0))
        ScaleByAdanState(m=Array(0., dtype=float32, weak_type=True), v=Array(0., dtype=float32,
         weak_type=True), n=Array(0., dtype=float32, weak_type=True), g=Array(0., dtype=float32,
         weak_type=True), t=Array(0, dtype=int32))
    """

    m: base.Updates
    v: base.Updates
    n: base.Updates
    g: base.Updates
    t: weft.Array


class ScaleByNovogradState(NamedTuple):
    """The state of ``scale_by_novograd``.

    Args:
        count: how many steps were made.
        mu: the moving average of the gradient.
        nu: the second moment of each leaf.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.scale_by_novograd().init(jnp.array(0.0))
        ScaleByNovogradState(count=Array(0, dtype=int32), mu=Array(0., dtype=float32,
         weak_type=True), nu=Array(0., dtype=float32))
    """

    count: weft.Array
    mu: base.Updates
    nu: base.Updates


def zero_count():
    """The step before the first."""
    return jnp.zeros([], jnp.int32)


def scale_by_adam(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: Any = None,
    *,
    nesterov: bool = False,
) -> base.GradientTransformation:
    """Return Adam's scaling: the mean of the gradient over the root of the mean of its square.

    m ← b1·m + (1-b1)·g, v ← b2·v + (1-b2)·g², update = m̂ / (√(v̂ + eps_root) + eps), where m̂ and
    v̂ are m and v without the bias of their start at zero.

    Args:
        b1: the weight of the past in the mean of the gradient.
        b2: the weight of the past in the mean of its square.
        eps: a small number added to the divisor.
        eps_root: a small number added inside of the root, for derivatives through the update.
        mu_dtype: the dtype of the mean of the gradient. By default that of the parameters.
        nesterov: use Nesterov's momentum.

    Returns:
        A gradient transformation. It does not change the sign of the updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_adam()
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([2., 1.], dtype=float32)
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
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: Any = None,
    bias_correction_mu: bool = True,
    bias_correction_nu: bool = True,
) -> base.GradientTransformation:
    """Return Adam's scaling with the largest second moment seen, so that steps do not grow again.

    Args:
        b1: the weight of the past in the mean of the gradient.
        b2: the weight of the past in the mean of its square.
        eps: a small number added to the divisor.
        eps_root: a small number added inside of the root, for derivatives through the update.
        mu_dtype: the dtype of the mean of the gradient. By default that of the parameters.
        bias_correction_mu: correct the mean for its start at zero.
        bias_correction_nu: correct the mean square for its start at zero.

    Returns:
        A gradient transformation. It does not change the sign of the updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_amsgrad()
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([2., 1.], dtype=float32)
    """
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


def scale_by_adamax(
    b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> base.GradientTransformation:
    """Return Adam's scaling with the largest decayed magnitude in place of the second moment.

    Args:
        b1: the weight of the past in the mean of the gradient.
        b2: the decay of the largest magnitude.
        eps: a small number added to the divisor.

    Returns:
        A gradient transformation. It does not change the sign of the updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_adamax()
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([2., 1.], dtype=float32)
    """
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


def scale_by_yogi(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-3,
    eps_root: float = 0.0,
    initial_accumulator_value: float = 1e-6,
) -> base.GradientTransformation:
    """Return Adam's scaling with a second moment that changes gently.

    Args:
        b1: the weight of the past in the mean of the gradient.
        b2: the weight of the past in the mean of its square.
        eps: a small number added to the divisor.
        eps_root: a small number added inside of the root, for derivatives through the update.
        initial_accumulator_value: the value at which both moments start.

    Returns:
        A gradient transformation. It does not change the sign of the updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_yogi()
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([1.996, 1.004], dtype=float32)
    """
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


def scale_by_radam(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    threshold: float = 5.0,
    *,
    nesterov: bool = False,
) -> base.GradientTransformation:
    """Return rectified Adam's scaling: cautious until the variance is well known.

    Args:
        b1: the weight of the past in the mean of the gradient.
        b2: the weight of the past in the mean of its square.
        eps: a small number added to the divisor.
        eps_root: a small number added inside of the root, for derivatives through the update.
        threshold: how many effective samples of the variance are enough.
        nesterov: use Nesterov's momentum.

    Returns:
        A gradient transformation. It does not change the sign of the updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_radam()
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([1.5, 1.5], dtype=float32)
    """
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


def scale_by_belief(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-16,
    eps_root: float = 1e-16,
    *,
    nesterov: bool = False,
) -> base.GradientTransformation:
    """Return a transformation that divides the mean gradient by its deviation from that mean.

    Args:
        b1: the weight of the past in the mean of the gradient.
        b2: the weight of the past in the variance.
        eps: a small number added to the divisor.
        eps_root: a small number added inside of the root, for derivatives through the update.
        nesterov: use Nesterov's momentum.

    Returns:
        A gradient transformation. It does not change the sign of the updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_belief()
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([2.111, 0.889], dtype=float32)
    """
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


def scale_by_adan(
    b1: float = 0.98, b2: float = 0.92, b3: float = 0.99, eps: float = 1e-8, eps_root: float = 0.0
) -> base.GradientTransformation:
    """Return Adam's scaling with the mean of the gradient's change as Nesterov's momentum.

    Args:
        b1: the weight of the past in the mean of the gradient.
        b2: the weight of the past in the mean of the gradient's change.
        b3: the weight of the past in the mean square.
        eps: a small number added to the divisor.
        eps_root: a small number added inside of the root, for derivatives through the update.

    Returns:
        A gradient transformation. It does not change the sign of the updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_adan()
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([2., 1.], dtype=float32)
    """
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


def scale_by_lion(
    b1: float = 0.9,
    b2: float = 0.99,
    mu_dtype: Any = None,
    *,
    mode: str = "hard",
    smooth_beta: float = 1.0,
) -> base.GradientTransformation:
    """Return a transformation to the sign of a mean of gradient and momentum.

    Args:
        b1: the weight of the momentum in that mean.
        b2: the weight of the past in the momentum.
        mu_dtype: the dtype of the mean of the gradient. By default that of the parameters.
        mode: ``'hard'`` for the sign; ``'smooth'`` and ``'refined'`` keep small values small.
        smooth_beta: how sharp the smooth sign is.

    Returns:
        A gradient transformation. It does not change the sign of the updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_lion()
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([2., 1.], dtype=float32)
    """
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


def scale_by_novograd(
    b1: float = 0.9,
    b2: float = 0.25,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    weight_decay: float = 0.0,
    mu_dtype: Any = None,
) -> base.GradientTransformation:
    """Return the momentum of gradients divided by their norm, one norm for each leaf.

    Args:
        b1: the weight of the past in the mean of the gradient.
        b2: the weight of the past in the squared norm.
        eps: a small number added to the divisor.
        eps_root: a small number added inside of the root, for derivatives through the update.
        weight_decay: the factor of the parameters that is added to the scaled gradient.
        mu_dtype: the dtype of the mean of the gradient. By default that of the parameters.

    Returns:
        A gradient transformation. It does not change the sign of the updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.scale_by_novograd()
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([1.707, 1.293], dtype=float32)
    """
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
