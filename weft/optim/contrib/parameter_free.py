"""Optimisers that find their learning rate themselves."""

from __future__ import annotations

from typing import Any, NamedTuple

import weft
import weft.lax as lax
import weft.numpy as jnp
from weft.optim import base, tree
from weft.optim.moments import zero_count
from weft.optim.numerics import safe_increment
from weft.optim.scaling import scale_by_learning_rate
from weft.optim.transforms import add_decayed_weights, chain


class DAdaptAdamWState(NamedTuple):
    """Adam's moments, the weighted sum of gradients, and the estimate of the rate."""

    exp_avg: base.Updates
    exp_avg_sq: base.Updates
    grad_sum: base.Updates
    estim_lr: weft.Array
    numerator_weighted: weft.Array
    count: weft.Array


class ProdigyState(NamedTuple):
    """Adam's moments, the weighted sum of gradients, the start, and the estimate of the rate."""

    exp_avg: base.Updates
    exp_avg_sq: base.Updates
    grad_sum: base.Updates
    params0: base.Updates
    estim_lr: weft.Array
    numerator_weighted: weft.Array
    count: weft.Array


class DoGState(NamedTuple):
    """The start, the largest distance from it, and the sum of squared gradients."""

    is_init_step: weft.Array
    init_params: base.Params
    max_dist: weft.Array
    sum_sq_norm_grads: weft.Array


class DoWGState(NamedTuple):
    """The start, the weighted sum of squared gradients, and the largest squared distance."""

    init_params: base.Params
    weighted_sq_norm_grads: weft.Array
    estim_sq_dist: weft.Array


class MechanicState(NamedTuple):
    """The state of the inner optimiser, and what its scale is learnt from."""

    base_optimizer_state: base.OptState
    count: weft.Array
    r: weft.Array
    m: weft.Array
    v: weft.Array
    s: weft.Array
    x0: base.Updates


class MomoState(NamedTuple):
    """Means of the gradient, of the loss and of ⟨gradient, parameters⟩; the lower bound."""

    exp_avg: base.Updates
    barf: weft.Array
    gamma: weft.Array
    lb: weft.Array
    count: weft.Array


class MomoAdamState(NamedTuple):
    """As `MomoState`, with the mean of the squared gradient."""

    exp_avg: base.Updates
    exp_avg_sq: base.Updates
    barf: weft.Array
    gamma: weft.Array
    lb: weft.Array
    count: weft.Array


def _at(value, step):
    return value(step) if callable(value) else value


def _mean(old, new, decay):
    """decay·old + (1 - decay)·new, leaf by leaf."""
    return weft.tree.map(lambda o, n: decay * o + (1 - decay) * n, old, new)


def _mean_square(old, new, decay):
    return weft.tree.map(lambda o, n: decay * o + (1 - decay) * n * n, old, new)


def dadapt_adamw(
    learning_rate: base.ScalarOrSchedule = 1.0,
    betas: tuple[base.Numeric, base.Numeric] = (0.9, 0.999),
    eps: base.Numeric = 1e-08,
    estim_lr0: base.Numeric = 1e-06,
    weight_decay: base.Numeric = 0.0,
) -> base.GradientTransformationExtraArgs:
    """AdamW with D-Adaptation (Defazio and Mishchenko, 2023)."""
    beta1, beta2 = betas
    root = beta2**0.5

    def init(params):
        dtype = tree.dtype(params, "lowest")
        zeros = [tree.zeros_like(params) for _ in range(3)]
        rate = jnp.asarray(estim_lr0, dtype=dtype)
        return DAdaptAdamWState(*zeros, rate, jnp.zeros([], dtype=dtype), zero_count())

    def update(updates, state, params=None, **extra_args):
        base.check_params("dadapt_adamw", updates, params)
        count = safe_increment(state.count)
        correction = (1 - beta2**count) ** 0.5 / (1 - beta1**count)
        rate = state.estim_lr * _at(learning_rate, state.count) * correction
        rate = rate.astype(state.numerator_weighted.dtype)
        weighted = weft.tree.map(
            lambda s, v: s / (jnp.sqrt(v) + eps), state.grad_sum, state.exp_avg_sq
        )
        product = tree.vdot(updates, weighted)
        mu = weft.tree.map(lambda m, g: beta1 * m + (1 - beta1) * rate * g, state.exp_avg, updates)
        nu = _mean_square(state.exp_avg_sq, updates, beta2)
        sums = weft.tree.map(lambda s, g: root * s + (1 - root) * rate * g, state.grad_sum, updates)
        numerator = root * state.numerator_weighted + (1 - root) * rate * product
        estimate = numerator / ((1 - root) * tree.norm(sums, ord=1))
        updates = weft.tree.map(
            lambda m, v, p: -weight_decay * rate * p - m / (jnp.sqrt(v) + eps), mu, nu, params
        )
        best = jnp.maximum(state.estim_lr, estimate)
        return updates, DAdaptAdamWState(mu, nu, sums, best, numerator, count)

    return base.GradientTransformationExtraArgs(init, update)


def prodigy(
    learning_rate: base.ScalarOrSchedule = 1.0,
    betas: tuple[base.Numeric, base.Numeric] = (0.9, 0.999),
    beta3: Any = None,
    eps: base.Numeric = 1e-08,
    estim_lr0: base.Numeric = 1e-06,
    estim_lr_coef: base.Numeric = 1.0,
    weight_decay: base.Numeric = 0.0,
    safeguard_warmup: bool = False,
) -> base.GradientTransformationExtraArgs:
    """Prodigy (Mishchenko and Defazio, 2023): AdamW that estimates the distance to the solution."""
    beta1, beta2 = betas
    beta3 = beta2**0.5 if beta3 is None else beta3

    def init(params):
        dtype = tree.dtype(params, "lowest")
        zeros = [tree.zeros_like(params) for _ in range(3)]
        rate = jnp.asarray(estim_lr0, dtype=dtype)
        return ProdigyState(*zeros, params, rate, jnp.zeros((), dtype=dtype), zero_count())

    def update(updates, state, params=None, **extra_args):
        base.check_params("prodigy", updates, params)
        count, rate = safe_increment(state.count), state.estim_lr
        correction = (1 - beta2**count) ** 0.5 / (1 - beta1**count)
        step = jnp.asarray(rate * _at(learning_rate, state.count) * correction, dtype=rate.dtype)
        scaled = tree.scale(rate, updates)
        product = tree.vdot(updates, tree.sub(state.params0, params))
        mu = _mean(state.exp_avg, scaled, beta1)
        nu = _mean_square(state.exp_avg_sq, scaled, beta2)
        factor = rate if safeguard_warmup else step
        sums = weft.tree.map(
            lambda s, g: beta3 * s + factor * g / estim_lr0, state.grad_sum, scaled
        )
        numerator = beta3 * state.numerator_weighted + (rate / estim_lr0) * step * product
        estimate = estim_lr_coef * numerator / tree.norm(sums, ord=1)
        best = jnp.maximum(rate, estimate)
        updates = weft.tree.map(
            lambda m, v, p: -weight_decay * step * p - step * m / (jnp.sqrt(v) + best * eps),
            mu,
            nu,
            params,
        )
        return updates, ProdigyState(mu, nu, sums, state.params0, best, numerator, count)

    return base.GradientTransformationExtraArgs(init, update)


def scale_by_dog(init_step, eps=1e-8):
    """Scale by the largest distance from the start over the root of the sum of squared norms."""
    kind, value = init_step
    if kind not in ("distance", "learning_rate", "heuristic"):
        raise ValueError(
            "dog: init_step must be a pair of 'distance', 'learning_rate' or 'heuristic' and a "
            f"number, got {init_step!r}"
        )

    def init(params):
        dtype = tree.dtype(params, "lowest")
        first = {
            "distance": lambda: value,
            "heuristic": lambda: value * (1 + tree.norm(params)),
            "learning_rate": lambda: 0.0,
        }[kind]()
        return DoGState(
            jnp.asarray(True), params, jnp.asarray(first, dtype), jnp.asarray(0.0, dtype)
        )

    def update(updates, state, params=None):
        base.check_params("dog", updates, params)
        distance = jnp.maximum(state.max_dist, tree.norm(tree.sub(state.init_params, params)))
        squares = state.sum_sq_norm_grads + tree.norm(updates, squared=True)
        rate = distance / jnp.sqrt(squares + eps)
        if kind == "learning_rate":
            rate = jnp.where(state.is_init_step, value, rate)
        new_state = DoGState(jnp.asarray(False), state.init_params, distance, squares)
        return tree.scale(rate, updates), new_state

    return base.GradientTransformation(init, update)


def dog(
    learning_rate: base.ScalarOrSchedule = 1.0,
    init_step: Any = ("heuristic", 1e-06),
    eps: base.Numeric = 1e-08,
    weight_decay: Any = None,
    mask: base.MaskOrFn = None,
) -> base.GradientTransformationExtraArgs:
    """DoG (Ivgi et al., 2023): the distance from the start over the norm of the gradients."""
    return chain(
        base.identity() if weight_decay is None else add_decayed_weights(weight_decay, mask),
        scale_by_dog(init_step, eps),
        scale_by_learning_rate(learning_rate),
    )


def scale_by_dowg(init_estim_sq_dist=None, eps=1e-4):
    """Scale by the squared distance over the root of squared norms weighted with it."""

    def init(params):
        dtype = tree.dtype(params, "lowest")
        first = eps if init_estim_sq_dist is None else init_estim_sq_dist
        return DoWGState(params, jnp.asarray(0.0, dtype), jnp.asarray(first, dtype))

    def update(updates, state, params=None):
        base.check_params("dowg", updates, params)
        moved = tree.norm(tree.sub(state.init_params, params), squared=True)
        distance = jnp.maximum(state.estim_sq_dist, moved)
        weighted = distance * tree.norm(updates, squared=True) + state.weighted_sq_norm_grads
        rate = distance / (jnp.sqrt(weighted) + eps)
        new_state = DoWGState(state.init_params, weighted, distance)
        return tree.scale(rate, updates), new_state

    return base.GradientTransformation(init, update)


def dowg(
    learning_rate: base.ScalarOrSchedule = 1.0,
    init_estim_sq_dist: Any = None,
    eps: base.Numeric = 0.0001,
    weight_decay: Any = None,
    mask: base.MaskOrFn = None,
) -> base.GradientTransformationExtraArgs:
    """DoWG (Khaled et al., 2023): DoG with gradients weighted by the distance."""
    return chain(
        base.identity() if weight_decay is None else add_decayed_weights(weight_decay, mask),
        scale_by_dowg(init_estim_sq_dist, eps),
        scale_by_learning_rate(learning_rate),
    )


def mechanize(
    base_optimizer: base.GradientTransformation,
    weight_decay: base.Numeric = 0.01,
    eps: base.Numeric = 1e-08,
    s_init: base.Numeric = 1e-06,
    num_betas: int = 6,
) -> base.GradientTransformationExtraArgs:
    """Learn the scale of another optimiser's steps (Cutkosky et al., 2023)."""
    base_optimizer = base.with_extra_args_support(base_optimizer)

    @base.own_leaves
    def init(params):
        dtype = tree.dtype(params, "lowest")
        zeros = jnp.zeros([num_betas], dtype=dtype)
        scales = jnp.ones([num_betas], dtype=dtype) * s_init
        inner = base_optimizer.init(params)
        return MechanicState(inner, zero_count(), zeros, zeros, zeros, scales, params)

    def update(updates, state, params=None, **extra_args):
        base.check_params("mechanize", updates, params)
        steps, inner = base_optimizer.update(
            updates, state.base_optimizer_state, params, **extra_args
        )
        start = tree.where(state.count == 0, params, state.x0)
        total = jnp.sum(state.s)
        decay = weight_decay * total * tree.norm(updates) / (tree.norm(params) + eps)
        decayed = weft.tree.map(lambda g, p: g + decay * p, updates, params)
        before = weft.tree.map(lambda p, p0: (p0 - p) / (total + eps), params, start)
        delta = tree.sub(before, steps)
        product = tree.vdot(decayed, before)
        betas = jnp.array([1.0 - 0.1**i for i in range(1, num_betas + 1)], dtype=state.s.dtype)
        clipped = lax.clamp(-state.m, jnp.ones_like(state.m) * product, state.m)
        m = jnp.maximum(betas * state.m, jnp.abs(product) + eps)
        v = betas**2 * state.v + product**2
        r = betas * state.r + clipped * state.s
        s = (s_init / num_betas * m + jnp.maximum(0.0, r)) / (jnp.sqrt(v) + eps)
        updates = weft.tree.map(lambda p0, d, p: p0 - jnp.sum(s) * d - p, start, delta, params)
        return updates, MechanicState(inner, safe_increment(state.count), r, m, v, s, start)

    return base.GradientTransformationExtraArgs(init, update)


def _capped(gap, squares, largest):
    """The step max(gap, 0) / squares, at most `largest`; zero where there is no gradient."""
    step = jnp.maximum(gap, 0.0) / squares
    return jnp.minimum(largest, jnp.where(squares <= jnp.finfo(float).eps, 0.0, step))


def momo(
    learning_rate: base.ScalarOrSchedule = 1.0,
    beta: base.Numeric = 0.9,
    lower_bound: base.Numeric = 0.0,
    weight_decay: base.Numeric = 0.0,
    adapt_lower_bound: bool = False,
) -> base.GradientTransformationExtraArgs:
    """MoMo (Schaipp et al., 2023): momentum with the Polyak step; `update` takes `value=`."""

    @base.own_leaves
    def init(params):
        dtype = tree.dtype(params, "lowest")
        zero = jnp.zeros([], dtype=dtype)
        bound = jnp.array(lower_bound, dtype=dtype)
        return MomoState(tree.zeros_like(params), zero, zero, bound, zero_count())

    def update(updates, state, params=None, *, value, **extra_args):
        _check_momo("momo", updates, params, value)
        decay = jnp.where(state.count == 0, 0.0, beta)
        barf = decay * state.barf + (1 - decay) * jnp.asarray(value, dtype=state.barf.dtype)
        mean = _mean(state.exp_avg, updates, decay)
        gamma = decay * state.gamma + (1 - decay) * tree.vdot(updates, params)
        squares, product = tree.norm(mean, squared=True), tree.vdot(mean, params)
        rate = _at(learning_rate, state.count)
        growth = 1 + rate * weight_decay
        bound = state.lb
        if adapt_lower_bound:
            cap = growth * (barf - gamma) + product
            bound = jnp.where(
                cap < growth * bound, jnp.maximum(cap / (2 * growth), lower_bound), bound
            )
        tau = _capped(growth * (barf - bound - gamma) + product, squares, rate)
        shrink = rate * weight_decay / growth
        steps = weft.tree.map(lambda m, p: -shrink * p - tau * m, mean, params)
        new_bound = state.lb
        if adapt_lower_bound:
            new_bound = jnp.maximum(barf + product - gamma - 0.5 * tau * squares, lower_bound)
        return steps, MomoState(mean, barf, gamma, new_bound, safe_increment(state.count))

    return base.GradientTransformationExtraArgs(init, update)


def momo_adam(
    learning_rate: base.ScalarOrSchedule = 0.01,
    b1: base.Numeric = 0.9,
    b2: base.Numeric = 0.999,
    eps: base.Numeric = 1e-08,
    lower_bound: base.Numeric = 0.0,
    weight_decay: base.Numeric = 0.0,
    adapt_lower_bound: bool = False,
) -> base.GradientTransformationExtraArgs:
    """MoMo with Adam's preconditioning; `update` takes `value=`."""

    @base.own_leaves
    def init(params):
        dtype = tree.dtype(params, "lowest")
        zero = jnp.zeros([], dtype=dtype)
        bound = jnp.array(lower_bound, dtype=dtype)
        mu, nu = tree.zeros_like(params), tree.zeros_like(params)
        return MomoAdamState(mu, nu, zero, zero, bound, zero_count())

    def update(updates, state, params=None, *, value, **extra_args):
        _check_momo("momo_adam", updates, params, value)
        count = safe_increment(state.count)
        barf = b1 * state.barf + (1 - b1) * jnp.asarray(value, dtype=state.barf.dtype)
        mean = _mean(state.exp_avg, updates, b1)
        nu = _mean_square(state.exp_avg_sq, updates, b2)
        weight1, weight2 = (jnp.asarray(1 - decay**count, dtype=barf.dtype) for decay in (b1, b2))
        root = weft.tree.map(lambda v: eps + jnp.sqrt(v / weight2), nu)
        squares = tree.vdot(mean, tree.div(mean, root))
        gamma = b1 * state.gamma + (1 - b1) * tree.vdot(updates, params)
        product = tree.vdot(mean, params)
        rate = _at(learning_rate, state.count)
        growth = 1 + rate * weight_decay
        bound = state.lb
        if adapt_lower_bound:
            cap = growth * (barf - gamma) + product
            bound = jnp.where(
                cap < growth * weight1 * bound,
                jnp.maximum(cap / (2 * weight1 * growth), lower_bound),
                bound,
            )
        gap = growth * (barf - weight1 * bound - gamma) + product
        tau = _capped(gap, squares, rate / weight1)
        shrink = rate * weight_decay / growth
        steps = weft.tree.map(lambda m, r, p: -shrink * p - tau * m / r, mean, root, params)
        new_bound = state.lb
        if adapt_lower_bound:
            new_bound = (barf + product - gamma - 0.5 * tau * squares) / weight1
            new_bound = jnp.maximum(new_bound, lower_bound)
        return steps, MomoAdamState(mean, nu, barf, gamma, new_bound, count)

    return base.GradientTransformationExtraArgs(init, update)


def _check_momo(name, updates, params, value):
    base.check_params(name, updates, params)
    if value is None:
        raise ValueError(
            f"{name} needs the loss: write update(..., value=loss), from value_and_grad"
        )
