"""Further optimisers made of moving averages of gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

import weft
import weft.numpy as jnp
from weft.optim import base, tree
from weft.optim.moments import ScaleByAdamState, ScaleByBeliefState, divide_by_root, zero_count
from weft.optim.numerics import canonical_dtype, safe_increment
from weft.optim.scaling import scale_by_learning_rate
from weft.optim.transforms import add_decayed_weights, chain


class ScaleByAdemamixState(NamedTuple):
    """The step (twice), a fast and a slow mean of the gradient, and the mean of its square."""

    count: weft.Array
    count_m2: weft.Array
    m1: base.Updates
    m2: base.Updates
    nu: base.Updates


class ScaleBySimplifiedAdEMAMixState(NamedTuple):
    """The step, the momentum and the mean of the squared gradient."""

    t: weft.Array
    m: base.Updates
    n: base.Updates


class COCOBState(NamedTuple):
    """The start, and what was bet and won since."""

    init_particles: base.Updates
    cumulative_gradients: base.Updates
    scale: base.Updates
    subgradients: base.Updates
    reward: base.Updates


class MadgradState(NamedTuple):
    """The step, weighted sums of squared gradients and of gradients, and the start."""

    count: weft.Array
    grad_sum_sq: base.Updates
    s: base.Updates
    x0: base.Params


def scale_by_acprop(
    b1: base.Numeric = 0.9,
    b2: base.Numeric = 0.999,
    eps: base.Numeric = 1e-16,
    eps_root: base.Numeric = 1e-16,
) -> base.GradientTransformation:
    """Divide the gradient by the deviation known before this step."""
    base.check_numbers("scale_by_acprop", b1=b1, b2=b2, eps=eps, eps_root=eps_root)

    def init(params):
        return ScaleByBeliefState(zero_count(), tree.zeros_like(params), tree.zeros_like(params))

    def update(updates, state, params=None):
        base.check_updates("scale_by_acprop", updates, state.mu)
        mu = tree.update_moment(updates, state.mu, b1, 1)
        errors = tree.sub(updates, state.mu)
        nu = tree.update_moment_per_elem_norm(errors, state.nu, b2, 2)
        nu = weft.tree.map(lambda v: v + eps_root, nu)
        count, first = safe_increment(state.count), state.count == 0
        before = tree.bias_correction(state.nu, b2, jnp.where(first, count, state.count))
        updates = weft.tree.map(
            lambda g, v: g / (jnp.sqrt(jnp.where(first, 1, v)) + eps), updates, before
        )
        return updates, ScaleByBeliefState(count, mu, nu)

    return base.GradientTransformation(init, update)


def acprop(
    learning_rate: base.ScalarOrSchedule,
    b1: base.Numeric = 0.9,
    b2: base.Numeric = 0.999,
    eps: base.Numeric = 1e-16,
    eps_root: base.Numeric = 1e-16,
    weight_decay: base.Numeric = 0.0,
    mask: base.MaskOrFn = None,
) -> base.GradientTransformationExtraArgs:
    """ACProp (Zhuang et al., 2021): AdaBelief with an older denominator and no momentum."""
    return chain(
        scale_by_acprop(b1, b2, eps, eps_root),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def _at(value, step):
    """A number, or a schedule at this step."""
    return value(step) if callable(value) else value


def scale_by_ademamix(
    b1: base.Numeric = 0.9,
    b2: base.Numeric = 0.999,
    b3: base.Numeric = 0.9999,
    alpha: base.Numeric = 6.0,
    eps: base.Numeric = 1e-08,
    eps_root: base.Numeric = 0.0,
    mu_dtype: Any = None,
) -> base.GradientTransformation:
    """Adam with a second, slower mean of the gradient, added with the weight `alpha`."""
    mu_dtype = canonical_dtype(mu_dtype)

    def init(params):
        m1, m2, nu = (tree.zeros_like(params, dtype=mu_dtype) for _ in range(3))
        return ScaleByAdemamixState(zero_count(), zero_count(), m1, m2, nu)

    def update(updates, state, params=None):
        base.check_updates("scale_by_ademamix", updates, state.m1)
        weight = _at(alpha, state.count_m2)
        m1 = tree.update_moment(updates, state.m1, b1, 1)
        m2 = tree.update_moment(updates, state.m2, _at(b3, state.count_m2), 1)
        nu = tree.update_moment_per_elem_norm(updates, state.nu, b2, 2)
        count = safe_increment(state.count)
        mean = weft.tree.map(
            lambda fast, slow: fast + weight * slow, tree.bias_correction(m1, b1, count), m2
        )
        updates = divide_by_root(mean, tree.bias_correction(nu, b2, count), eps, eps_root)
        return updates, ScaleByAdemamixState(count, safe_increment(state.count_m2), m1, m2, nu)

    return base.GradientTransformation(init, update)


def ademamix(
    learning_rate: base.ScalarOrSchedule,
    b1: base.Numeric = 0.9,
    b2: base.Numeric = 0.999,
    b3: base.Numeric = 0.9999,
    alpha: base.Numeric = 5.0,
    eps: base.Numeric = 1e-08,
    eps_root: base.Numeric = 0.0,
    mu_dtype: Any = None,
    weight_decay: base.Numeric = 0.0,
    mask: base.MaskOrFn = None,
) -> base.GradientTransformationExtraArgs:
    """AdEMAMix (Pagliardini et al., 2024): Adam with a fast and a slow mean."""
    return chain(
        scale_by_ademamix(b1, b2, b3, alpha, eps, eps_root, mu_dtype),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def scale_by_simplified_ademamix(
    b1: base.Numeric = 0.99,
    b2: base.Numeric = 0.95,
    alpha: base.Numeric = 0.0,
    eps: base.Numeric = 1e-08,
    eps_root: base.Numeric = 0.0,
) -> base.GradientTransformation:
    """Momentum plus `alpha` times the gradient, over the root of the mean square."""

    def init(params):
        return ScaleBySimplifiedAdEMAMixState(
            zero_count(), tree.zeros_like(params), tree.zeros_like(params)
        )

    def update(updates, state, params=None):
        base.check_updates("scale_by_simplified_ademamix", updates, state.m)
        weight = _at(alpha, state.t)
        m = tree.add_scale(updates, b1, state.m)
        n = weft.tree.map(lambda g, n: g * g + b2 * (n - g * g), updates, state.n)
        t = safe_increment(state.t)
        mean = tree.add_scale(m, weight, updates)
        scaled = divide_by_root(mean, tree.bias_correction(n, b2, t), eps, eps_root)
        return scaled, ScaleBySimplifiedAdEMAMixState(t, m, n)

    return base.GradientTransformation(init, update)


def simplified_ademamix(
    learning_rate: base.ScalarOrSchedule,
    b1: base.Numeric = 0.99,
    b2: base.Numeric = 0.95,
    alpha: base.Numeric = 0.0,
    eps: base.Numeric = 1e-08,
    eps_root: base.Numeric = 0.0,
    weight_decay: base.Numeric = 0.0,
    mask: base.MaskOrFn = None,
) -> base.GradientTransformationExtraArgs:
    """Simplified AdEMAMix (Morwani et al., 2025): one mean, plus the gradient."""
    return chain(
        scale_by_simplified_ademamix(b1, b2, alpha, eps, eps_root),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def fourth_root(step):
    """The limit of ADOPT's clipping, growing with the step."""
    return step**0.25


def scale_by_adopt(
    b1: base.Numeric = 0.9,
    b2: base.Numeric = 0.9999,
    eps: base.Numeric = 1e-06,
    mu_dtype: Any = None,
    *,
    nesterov: bool = False,
    use_clipping: bool = True,
    clip_value_fn: Any = fourth_root,
) -> base.GradientTransformation:
    """The mean of gradients that were divided by the second moment before them."""
    base.check_numbers("scale_by_adopt", b1=b1, b2=b2, eps=eps)
    mu_dtype = canonical_dtype(mu_dtype)

    def init(params):
        mu = tree.zeros_like(params, dtype=mu_dtype)
        return ScaleByAdamState(zero_count(), mu, tree.zeros_like(params))

    def update(updates, state, params=None):
        base.check_updates("scale_by_adopt", updates, state.mu)
        started = state.count > 0
        decay1, decay2 = jnp.where(started, b1, 1), jnp.where(started, b2, 0)
        nu = tree.update_moment_per_elem_norm(updates, state.nu, decay2, 2)
        scaled = weft.tree.map(lambda g, v: g / jnp.maximum(jnp.sqrt(v), eps), updates, state.nu)
        if use_clipping:
            limit = clip_value_fn(state.count)
            scaled = tree.clip(scaled, -limit, limit)
        mu = tree.update_moment(scaled, state.mu, decay1, 1)
        updates = tree.update_moment(scaled, mu, decay1, 1) if nesterov else mu
        count = safe_increment(state.count)
        return updates, ScaleByAdamState(count, tree.cast(mu, mu_dtype), nu)

    return base.GradientTransformation(init, update)


def adopt(
    learning_rate: base.ScalarOrSchedule,
    b1: base.Numeric = 0.9,
    b2: base.Numeric = 0.9999,
    eps: base.Numeric = 1e-06,
    mu_dtype: Any = None,
    *,
    nesterov: bool = False,
    use_clipping: bool = True,
    clip_value_fn: Any = fourth_root,
) -> base.GradientTransformationExtraArgs:
    """ADOPT (Taniguchi et al., 2024): Adam that converges with any b2."""
    scaling = scale_by_adopt(
        b1,
        b2,
        eps,
        mu_dtype,
        nesterov=nesterov,
        use_clipping=use_clipping,
        clip_value_fn=clip_value_fn,
    )
    return chain(scaling, scale_by_learning_rate(learning_rate))


def scale_by_cocob(
    alpha: base.Numeric = 100.0, eps: base.Numeric = 1e-08
) -> base.GradientTransformation:
    """Steps as bets on the sign of the gradient, without a learning rate."""

    def init(params):
        zeros = tree.zeros_like(params)
        scale = tree.scale(eps, tree.ones_like(params))
        return COCOBState(params, zeros, scale, zeros, zeros)

    def update(updates, state, params=None):
        base.check_params("scale_by_cocob", updates, params)
        start = state.init_particles
        scale = weft.tree.map(lambda s, g: jnp.maximum(s, jnp.abs(g)), state.scale, updates)
        magnitude = weft.tree.map(lambda s, g: s + jnp.abs(g), state.subgradients, updates)
        reward = weft.tree.map(
            lambda r, g, p, p0: jnp.maximum(r - g * (p - p0), 0),
            state.reward,
            updates,
            params,
            start,
        )
        total = tree.sub(state.cumulative_gradients, updates)

        def bet(p, p0, c, s, m, r):
            return -p + (p0 + c / (s * jnp.maximum(m + s, alpha * s)) * (s + r))

        updates = weft.tree.map(bet, params, start, total, scale, magnitude, reward)
        return updates, COCOBState(start, total, scale, magnitude, reward)

    return base.GradientTransformation(init, update)


def cocob(
    learning_rate: base.ScalarOrSchedule = 1.0,
    alpha: base.Numeric = 100.0,
    eps: base.Numeric = 1e-08,
    weight_decay: base.Numeric = 0.0,
    mask: base.MaskOrFn = None,
) -> base.GradientTransformationExtraArgs:
    """COCOB (Orabona and Tommasi, 2017): training as betting on coins."""
    return chain(
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate, flip_sign=False),
        scale_by_cocob(alpha, eps),
    )


def scale_by_madgrad(
    learning_rate: base.ScalarOrSchedule, momentum: base.Numeric = 0.9, eps: base.Numeric = 1e-06
) -> base.GradientTransformation:
    """Dual averaging over the cube root of the sum of squared gradients, with momentum."""

    def init(params):
        return MadgradState(zero_count(), tree.zeros_like(params), tree.zeros_like(params), params)

    def update(updates, state, params=None):
        base.check_params("scale_by_madgrad", updates, params)
        weight = (_at(learning_rate, state.count) + eps) * jnp.sqrt(state.count + 1)
        squares = weft.tree.map(
            lambda s, g: s + (weight * g**2).astype(g.dtype), state.grad_sum_sq, updates
        )
        sums = weft.tree.map(lambda s, g: s + (weight * g).astype(g.dtype), state.s, updates)

        def step(p, p0, s, square):
            target = p0 - s / (jnp.cbrt(square) + eps)
            return (1 - momentum) * target + momentum * p - p

        updates = weft.tree.map(step, params, state.x0, sums, squares)
        return updates, MadgradState(safe_increment(state.count), squares, sums, state.x0)

    return base.GradientTransformation(init, update)


def madgrad(
    learning_rate: base.ScalarOrSchedule,
    momentum: base.Numeric = 0.9,
    weight_decay: base.Numeric = 0.0,
    eps: base.Numeric = 1e-06,
) -> base.GradientTransformationExtraArgs:
    """MADGRAD (Defazio and Jelassi, 2021): momentumised, adaptive dual averaging."""
    return chain(add_decayed_weights(weight_decay), scale_by_madgrad(learning_rate, momentum, eps))
