"""Optimisers around optimisers: sharpness-aware steps, averaging, plateaus, complex numbers."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import weft
import weft.lax as lax
import weft.numpy as jnp
from weft.optim import base, tree
from weft.optim.apply import apply_updates
from weft.optim.moments import zero_count
from weft.optim.numerics import safe_increment
from weft.optim.optimisers import sgd
from weft.optim.scaling import scale_by_learning_rate
from weft.optim.schedules import warmup_constant_schedule
from weft.optim.squares import scale_by_rms
from weft.optim.transforms import add_decayed_weights, chain

T = TypeVar("T")

NormalizeState = base.EmptyState


class SAMState(NamedTuple):
    """The steps since the last descent, both states, and the parameters to descend from."""

    steps_since_sync: weft.Array
    opt_state: base.OptState
    adv_state: base.OptState
    cache: base.Params | None


class ScheduleFreeState(NamedTuple):
    """The weights of the average, the inner state, and the parameters z that it moves."""

    b1: weft.Array
    weight_sum: weft.Array
    step_count: weft.Array
    max_lr: weft.Array
    base_optimizer_state: base.OptState
    z: base.Params


class ReduceLROnPlateauState(NamedTuple):
    """The scale, the best loss, and how long there has been none better."""

    scale: weft.Array
    best_value: weft.Array
    plateau_count: weft.Array
    cooldown_count: weft.Array
    count: weft.Array
    avg_value: weft.Array


class SplitRealAndImaginaryArrays(NamedTuple):
    """A complex array as two real ones."""

    real: weft.Array
    imaginary: weft.Array


class SplitRealAndImaginaryState(NamedTuple):
    """The state of the inner transformation, for real arrays."""

    inner_state: base.OptState


def normalize() -> base.GradientTransformation:
    """Divide updates by the norm of all of them."""

    def rescale(updates, params):
        norm = tree.norm(updates)
        return weft.tree.map(lambda g: g / norm, updates)

    return base.stateless(rescale)


def sam(
    optimizer: base.GradientTransformation,
    adv_optimizer: base.GradientTransformation,
    sync_period: int = 2,
    reset_state: bool = True,
    opaque_mode: bool = False,
    batch_axis_name: Any = None,
) -> base.GradientTransformationExtraArgs:
    """Sharpness-aware minimisation (Foret et al., 2020): climb, then descend from where you were.

    Of `sync_period` steps all but the last climb with `adv_optimizer`. In opaque mode one call of
    `update` does all of it, with gradients from `grad_fn(params, step)`.
    """
    if sync_period < 1:
        raise ValueError(f"sam: sync_period must be 1 or more, got {sync_period}")

    def init(params):
        return SAMState(
            zero_count(),
            optimizer.init(params),
            adv_optimizer.init(params),
            None if opaque_mode else params,
        )

    def pick(condition, yes, no):
        return weft.tree.map(lambda y, n: condition * y + (1 - condition) * n, yes, no)

    def one_step(updates, state, params=None, *, grad_fn=None):
        base.check_params("sam", updates, params)
        first = state.steps_since_sync == 0
        last = state.steps_since_sync == sync_period - 1
        climb, adv_state = adv_optimizer.update(updates, state.adv_state, params)
        climb = weft.tree.map(lambda x: -x, climb)
        descent, opt_state = optimizer.update(updates, state.opt_state, state.cache)
        descent = weft.tree.map(lambda c, p, u: c - p + u, state.cache, params, descent)
        fresh = adv_optimizer.init(params) if reset_state else state.adv_state
        return pick(last, descent, climb), SAMState(
            (state.steps_since_sync + 1) % sync_period,
            pick(last, opt_state, state.opt_state),
            pick(last, fresh, adv_state),
            pick(first, params, state.cache),
        )

    def all_steps(updates, state, params=None, *, grad_fn=None):
        if grad_fn is None:
            raise ValueError(
                "sam: in opaque mode update needs grad_fn=, a function of params, step"
            )
        moved, adv_state = params, state.adv_state
        for step in range(sync_period - 1):
            climb, adv_state = adv_optimizer.update(updates, adv_state, moved)
            moved = apply_updates(moved, weft.tree.map(lambda x: -x, climb))
            updates = grad_fn(moved, step)
            if batch_axis_name is not None:
                updates = lax.pmean(updates, axis_name=batch_axis_name)
        if reset_state:
            adv_state = adv_optimizer.init(params)
        updates, opt_state = optimizer.update(updates, state.opt_state, params)
        return updates, SAMState(zero_count(), opt_state, adv_state, None)

    return base.GradientTransformationExtraArgs(init, all_steps if opaque_mode else one_step)


def schedule_free_eval_params(state: Any, params: T) -> T:
    """The averaged parameters, for evaluation, from those that are trained."""
    if getattr(state, "b1", None) is None or getattr(state, "z", None) is None:
        raise ValueError(
            "schedule_free_eval_params takes the state of schedule_free; extract it from a larger "
            "state with optim.tree.get(state, 'ScheduleFreeState')"
        )
    b1 = state.b1
    return weft.tree.map(lambda y, z: (y - (1.0 - b1) * z) / b1, params, state.z)


def schedule_free(
    base_optimizer: base.GradientTransformation,
    learning_rate: base.ScalarOrSchedule,
    b1: base.Numeric = 0.9,
    weight_lr_power: base.Numeric = 2.0,
    state_dtype: Any = None,
) -> base.GradientTransformationExtraArgs:
    """Average parameters instead of decaying the rate (Defazio et al., 2024).

    The parameters trained lie between z, which `base_optimizer` moves, and the average x, which
    `schedule_free_eval_params` gives.
    """
    base_optimizer = base.with_extra_args_support(base_optimizer)

    @base.own_leaves
    def init(params):
        dtype = tree.dtype(params, "lowest")
        z = weft.tree.map(lambda p: jnp.array(p, copy=True), tree.cast(params, state_dtype))
        zero = jnp.zeros([], dtype=dtype)
        return ScheduleFreeState(
            jnp.asarray(b1, dtype=dtype),
            zero,
            jnp.ones([], dtype=jnp.int32),
            zero,
            base_optimizer.init(params),
            z,
        )

    def update(updates, state, params=None, **extra_args):
        base.check_params("schedule_free", updates, params)
        rate = learning_rate
        if callable(rate):
            rate = jnp.asarray(rate(state.step_count), dtype=state.max_lr.dtype)
        max_rate = jnp.maximum(state.max_lr, rate)
        weight = max_rate**weight_lr_power
        total = state.weight_sum + weight
        part = jnp.where(
            jnp.isnan(weight) | jnp.isnan(total),
            jnp.nan,
            jnp.nan_to_num(weight / total, nan=0.0, posinf=jnp.inf),
        )
        steps, inner = base_optimizer.update(
            updates, state.base_optimizer_state, params, **extra_args
        )
        z = apply_updates(state.z, steps)

        def move(y, old_z, new_z):
            x = (1.0 - part) * ((y - (1.0 - b1) * old_z) / b1) + part * new_z
            return b1 * x + (1.0 - b1) * new_z - y

        updates = weft.tree.map(move, params, state.z, z)
        count = safe_increment(state.step_count)
        return updates, ScheduleFreeState(state.b1, total, count, max_rate, inner, z)

    return base.GradientTransformationExtraArgs(init, update)


def _warmed_up(learning_rate, warmup_steps):
    if warmup_steps is None:
        return learning_rate
    return warmup_constant_schedule(0, learning_rate, warmup_steps)


def schedule_free_sgd(
    learning_rate: base.ScalarOrSchedule = 1.0,
    warmup_steps: Any = None,
    b1: base.Numeric = 0.9,
    weight_decay: Any = None,
    weight_lr_power: base.Numeric = 2.0,
    state_dtype: Any = None,
) -> base.GradientTransformationExtraArgs:
    """Gradient descent without a schedule."""
    rate = _warmed_up(learning_rate, warmup_steps)
    optimizer = sgd(rate)
    if weight_decay is not None:
        optimizer = chain(add_decayed_weights(weight_decay), optimizer)
    return schedule_free(optimizer, rate, b1, weight_lr_power, state_dtype)


def schedule_free_adamw(
    learning_rate: base.ScalarOrSchedule = 0.0025,
    warmup_steps: Any = None,
    b1: base.Numeric = 0.9,
    b2: base.Numeric = 0.999,
    eps: base.Numeric = 1e-08,
    weight_decay: base.Numeric = 0.0,
    weight_lr_power: base.Numeric = 2.0,
    state_dtype: Any = None,
) -> base.GradientTransformationExtraArgs:
    """AdamW without a schedule."""
    rate = _warmed_up(learning_rate, warmup_steps)
    optimizer = chain(
        scale_by_rms(b2, eps, eps_in_sqrt=False, bias_correction=True),
        add_decayed_weights(weight_decay),
        scale_by_learning_rate(rate),
    )
    return schedule_free(optimizer, rate, b1, weight_lr_power, state_dtype)


def reduce_on_plateau(
    factor: base.Numeric = 0.1,
    patience: int = 10,
    rtol: base.Numeric = 0.0001,
    atol: base.Numeric = 0.0,
    cooldown: int = 0,
    accumulation_size: int = 1,
    min_scale: base.Numeric = 0.0,
) -> base.GradientTransformationExtraArgs:
    """Scale updates down when the loss, given as `value=`, has not become better for a while."""
    if not 0.0 < factor < 1.0:
        raise ValueError(f"reduce_on_plateau: factor must be between 0 and 1, got {factor}")
    if rtol < 0.0 or atol < 0.0 or rtol > 1.0 or rtol == atol == 0.0:
        raise ValueError(
            "reduce_on_plateau: rtol must be in [0, 1], atol not negative, and one of them "
            f"positive; got rtol={rtol}, atol={atol}"
        )

    @base.own_leaves
    def init(params):
        low, high = tree.dtype(params, "lowest"), tree.dtype(params, "highest")
        zero = jnp.asarray(0, jnp.int32)
        return ReduceLROnPlateauState(
            scale=jnp.asarray(1.0, dtype=low),
            best_value=jnp.asarray(jnp.inf, dtype=high),
            plateau_count=zero,
            cooldown_count=zero,
            count=zero,
            avg_value=jnp.asarray(0.0, dtype=high),
        )

    def judge(state):
        """The state after the mean of enough losses is known."""
        better = state.avg_value < (1 - rtol) * state.best_value - atol
        plateau = jnp.where(better, 0, safe_increment(state.plateau_count))
        cooling, lost = state.cooldown_count > 0, plateau == patience
        reduced = jnp.maximum(jnp.where(lost, state.scale * factor, state.scale), min_scale)
        after = jnp.where(lost, cooldown, 0).astype(jnp.int32)
        return ReduceLROnPlateauState(
            scale=jnp.where(cooling, state.scale, reduced).astype(state.scale.dtype),
            best_value=jnp.where(better, state.avg_value, state.best_value),
            plateau_count=jnp.where(cooling | lost, 0, plateau).astype(jnp.int32),
            cooldown_count=jnp.where(cooling, state.cooldown_count - 1, after),
            count=jnp.asarray(0, jnp.int32),
            avg_value=jnp.zeros_like(state.avg_value),
        )

    def update(updates, state, params=None, *, value, **extra_args):
        count, dtype = safe_increment(state.count), state.avg_value.dtype
        average = (state.count * state.avg_value + jnp.asarray(value).astype(dtype)) / count
        state = state._replace(avg_value=average.astype(dtype), count=count)
        state = tree.where(count == accumulation_size, judge(state), state)
        return weft.tree.map(lambda g: state.scale * g, updates), state

    return base.GradientTransformationExtraArgs(init, update)


def split_real_and_imaginary(inner: base.GradientTransformation) -> base.GradientTransformation:
    """Give `inner` complex parameters as pairs of real ones."""

    def split(values):
        return weft.tree.map(
            lambda x: SplitRealAndImaginaryArrays(x.real, x.imag) if jnp.iscomplexobj(x) else x,
            values,
        )

    def is_pair(node):
        return isinstance(node, SplitRealAndImaginaryArrays)

    def join(values):
        return weft.tree.map(
            lambda x: x.real + x.imaginary * 1j if is_pair(x) else x, values, is_leaf=is_pair
        )

    def init(params):
        return SplitRealAndImaginaryState(inner.init(split(params)))

    def update(updates, state, params=None):
        updates, inner_state = inner.update(split(updates), state.inner_state, split(params))
        return join(updates), SplitRealAndImaginaryState(inner_state)

    return base.GradientTransformation(init, update)
