"""Steps over an estimate of the diagonal of the Hessian."""

from __future__ import annotations

from typing import Any, NamedTuple

import weft
import weft.lax as lax
import weft.numpy as jnp
from weft.optim import base, tree
from weft.optim.moments import zero_count
from weft.optim.numerics import canonical_dtype, safe_increment
from weft.optim.scaling import scale_by_learning_rate
from weft.optim.transforms import add_decayed_weights, chain


class HutchinsonState(NamedTuple):
    """The key of the next random signs."""

    key: weft.Array


class SophiaState(NamedTuple):
    """The step, means of the gradient and of the Hessian's diagonal, and its estimator's state."""

    count: weft.Array
    mu: base.Updates
    nu: base.Updates
    hessian_fn_state: Any


def hutchinson_estimator_diag_hessian(
    random_seed: Any = None,
) -> base.GradientTransformationExtraArgs:
    """The diagonal of the Hessian of `obj_fn=`, estimated from a product with random signs."""

    def init(params):
        return HutchinsonState(weft.random.PRNGKey(0) if random_seed is None else random_seed)

    def update(updates, state, params=None, obj_fn=None, **extra_args):
        if params is None or obj_fn is None:
            raise ValueError(
                "hutchinson_estimator_diag_hessian needs the parameters and the loss: write "
                "update(grads, state, params, obj_fn=loss), with loss a function of the parameters"
            )
        key, subkey = weft.random.split(state.key)
        signs = tree.random_like(subkey, params, weft.random.rademacher, dtype=jnp.float32)
        signs = tree.cast(signs, tree.dtype(params, "lowest"))
        _, products = weft.jvp(weft.grad(obj_fn), (params,), (signs,))
        return tree.mul(products, signs), HutchinsonState(key)

    return base.GradientTransformationExtraArgs(init, update)


_HUTCHINSON = hutchinson_estimator_diag_hessian()


def scale_by_sophia(
    b1=0.965,
    b2=0.99,
    eps=1e-8,
    gamma=0.01,
    clip_threshold=1.0,
    update_interval=10,
    hessian_diagonal_fn=_HUTCHINSON,
    mu_dtype=None,
    verbose=False,
    print_win_rate_every_n_steps=0,
):
    """Divide the mean of the gradient by that of the Hessian's diagonal, and clip."""
    mu_dtype = canonical_dtype(mu_dtype)
    hessian = base.with_extra_args_support(hessian_diagonal_fn)

    def init(params):
        mu, nu = tree.zeros_like(params, dtype=mu_dtype), tree.zeros_like(params)
        return SophiaState(zero_count(), mu, nu, hessian.init(params))

    def report(count, updates):
        inside = sum(jnp.sum(jnp.abs(g) < clip_threshold) for g in weft.tree.leaves(updates))
        lax.cond(
            count % print_win_rate_every_n_steps == 0,
            lambda: weft.debug.print("sophia: {} not clipped", inside / tree.size(updates)),
            lambda: None,
        )

    def update(updates, state, params=None, **extra_args):
        base.check_params("sophia", updates, params)
        base.check_updates("sophia", updates, state.mu)
        grads, count = updates, safe_increment(state.count)
        mu = tree.update_moment(updates, state.mu, b1, 1)
        updates = weft.tree.map(
            lambda m, h: m / jnp.maximum(gamma * h, eps),
            tree.bias_correction(mu, b1, count),
            state.nu,
        )
        if clip_threshold is not None:
            if verbose:
                report(count, updates)
            updates = tree.clip(updates, -clip_threshold, clip_threshold)

        def estimate():
            diagonal, inner = hessian.update(
                grads, state.hessian_fn_state, params=params, **extra_args
            )
            return inner, tree.update_moment(diagonal, state.nu, b2, 1)

        inner, nu = lax.cond(
            state.count % update_interval == 0,
            estimate,
            lambda: (state.hessian_fn_state, state.nu),
        )
        return updates, SophiaState(count, tree.cast(mu, mu_dtype), nu, inner)

    return base.GradientTransformationExtraArgs(init, update)


def sophia(
    learning_rate: base.ScalarOrSchedule,
    b1: base.Numeric = 0.965,
    b2: base.Numeric = 0.99,
    eps: base.Numeric = 1e-08,
    weight_decay: base.Numeric = 0.0001,
    weight_decay_mask: base.MaskOrFn = None,
    gamma: base.Numeric = 0.01,
    clip_threshold: base.Numeric = 1.0,
    update_interval: int = 10,
    hessian_diagonal_fn: Any = _HUTCHINSON,
    mu_dtype: Any = None,
    verbose: bool = False,
    print_win_rate_every_n_steps: int = 0,
) -> base.GradientTransformationExtraArgs:
    """Sophia (Liu et al., 2023): clipped second-order steps; `update` takes `obj_fn=`."""
    return chain(
        scale_by_sophia(
            b1, b2, eps, gamma, clip_threshold, update_interval, hessian_diagonal_fn, mu_dtype,
            verbose, print_win_rate_every_n_steps,
        ),
        add_decayed_weights(weight_decay, mask=weight_decay_mask),
        scale_by_learning_rate(learning_rate),
    )  # fmt: skip
