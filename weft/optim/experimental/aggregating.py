"""Gradients of single examples and their statistics, made updates of the whole batch."""

import math
from typing import Any, NamedTuple, Protocol

import weft
import weft.lax as lax
import weft.numpy as jnp
from weft.optim import base, tree
from weft.optim.numerics import safe_increment
from weft.optim.transforms import chain


class AggregatorUpdateFn(Protocol):
    """An update that takes gradients of single examples."""

    def __call__(self, per_elt_updates, state, params=None, **extra_args: Any) -> tuple[Any, Any]:
        """Updates of the whole batch, and the state."""


class Aggregator(base.GradientTransformationExtraArgs):
    """A transformation from gradients of single examples to those of the batch."""

    update: AggregatorUpdateFn


class AccumulateAvgUpdatesState(NamedTuple):
    """The steps taken, whether the mean is complete, and the mean."""

    micro_step: weft.Array
    ready: weft.Array
    avg_grad: base.Updates


class PerElementMeanAndSumSqDiffGradsState(NamedTuple):
    """The steps taken, whether they are complete, the mean and the squared differences from it."""

    micro_step: weft.Array
    ready: weft.Array
    mean_grads: base.Updates
    sum_sq_diff_grads: base.Updates


class PerElementMeanAndVarianceEMAState(NamedTuple):
    """The step, the decay, and moving averages of mean and variance."""

    count: weft.Array
    ema_decay: weft.Array
    mean_grads_ema: base.Updates
    variance_grads_ema: base.Updates


def process(preprocessor, aggregator, postprocessor, aggregator_has_aux=False):
    """A transformation of single gradients, their aggregation, and an optimiser, as one.

    The optimiser runs when the aggregation is complete; until then updates are zero.
    """
    stages = [base.with_extra_args_support(tx) for tx in (preprocessor, postprocessor)]
    before, after = stages

    def init(params):
        return before.init(params), aggregator.init(params), after.init(params)

    def update(indiv_grads, states, params=None, **extra_args):
        before_state, middle_state, after_state = states
        single, before_state = before.update(indiv_grads, before_state, params, **extra_args)
        if isinstance(aggregator, base.GradientTransformationExtraArgs) and extra_args:
            combined, middle_state = aggregator.update(single, middle_state, params, **extra_args)
        else:
            combined, middle_state = aggregator.update(single, middle_state, params)
        if aggregator_has_aux:
            combined, known = combined
            extra_args = extra_args | known
        updates, after_state = lax.cond(
            tree.get(middle_state, "ready", True),
            lambda: after.update(combined, after_state, params, **extra_args),
            lambda: (tree.zeros_like(combined), after_state),
        )
        return updates, (before_state, middle_state, after_state)

    kind = (
        Aggregator if isinstance(aggregator, Aggregator) else base.GradientTransformationExtraArgs
    )
    return kind(init, update)


def average_per_element_updates(per_elt_axis=0):
    """The mean over examples."""

    def update(per_elt_updates, state, params=None):
        return weft.tree.map(lambda g: jnp.mean(g, axis=per_elt_axis), per_elt_updates), state

    return Aggregator(base.init_empty_state, update)


def accumulate_avg_updates(accumulation_steps):
    """The mean over steps, every `accumulation_steps` of them; zeros in between."""
    if accumulation_steps < 1:
        raise ValueError(f"accumulate_avg_updates takes 1 step or more, got {accumulation_steps}")
    if accumulation_steps == 1:
        return base.identity()

    def init(params):
        return AccumulateAvgUpdatesState(
            jnp.asarray(0), jnp.asarray(False), tree.zeros_like(params)
        )

    def update(updates, state, params=None):
        step = state.micro_step + 1
        mean = weft.tree.map(lambda g, m: m + (g - m) / step, updates, state.avg_grad)
        ready = step == accumulation_steps
        zeros = tree.zeros_like(mean)
        emitted, kept = tree.where(ready, mean, zeros), tree.where(ready, zeros, mean)
        return emitted, AccumulateAvgUpdatesState(jnp.where(ready, 0, step), ready, kept)

    return base.GradientTransformation(init, update)


def average_incrementally_updates(per_elt_axis, accumulation_steps):
    """The mean over examples, if there is an axis of them, and over steps."""
    if per_elt_axis is None:
        return accumulate_avg_updates(accumulation_steps)
    both = chain(
        average_per_element_updates(per_elt_axis), accumulate_avg_updates(accumulation_steps)
    )
    return Aggregator(both.init, both.update)


def get_batch_size_from_per_elt_updates(per_elt_updates, per_elt_axis):
    """How many examples there are; all leaves must agree."""
    axes = (per_elt_axis,) if isinstance(per_elt_axis, int) else per_elt_axis
    sizes = [math.prod(g.shape[axis] for axis in axes) for g in weft.tree.leaves(per_elt_updates)]
    if len(set(sizes)) > 1:
        raise ValueError(f"the leaves have gradients of different numbers of examples: {sizes}")
    return sizes[0]


def get_per_element_mean_and_sum_sq_diff_grads(per_elt_axis=0, accumulation_steps=1):
    """The mean over examples; beside it their squared differences from the mean, and how many."""
    axes = (per_elt_axis,) if isinstance(per_elt_axis, int) else tuple(per_elt_axis)

    def statistics(per_elt_updates):
        size = get_batch_size_from_per_elt_updates(per_elt_updates, axes)
        means = weft.tree.map(lambda g: jnp.mean(g, axis=axes), per_elt_updates)
        spread = weft.tree.map(
            lambda g, m: jnp.sum((g - jnp.expand_dims(m, axes)) ** 2, axis=axes),
            per_elt_updates,
            means,
        )
        return means, spread, size

    def of_batch(per_elt_updates, state, params=None):
        means, spread, size = statistics(per_elt_updates)
        return (means, {"sum_sq_diff_grads": spread, "sample_size": size}), state

    if accumulation_steps == 1:
        return Aggregator(base.init_empty_state, of_batch)

    def init(params):
        return PerElementMeanAndSumSqDiffGradsState(
            jnp.asarray(0, jnp.int32),
            jnp.asarray(False),
            tree.zeros_like(params),
            tree.zeros_like(params),
        )

    def update(per_elt_updates, state, params=None):
        means, spread, size = statistics(per_elt_updates)
        step = state.micro_step + 1
        delta = tree.sub(means, state.mean_grads)
        mean = weft.tree.map(lambda m, d: m + d / step, state.mean_grads, delta)
        weight = state.micro_step * size / step
        total = weft.tree.map(
            lambda a, s, d: a + s + d**2 * weight, state.sum_sq_diff_grads, spread, delta
        )
        ready = step == accumulation_steps
        known = (mean, {"sum_sq_diff_grads": total, "sample_size": size * step})
        done = PerElementMeanAndSumSqDiffGradsState(
            jnp.zeros_like(step), ready, tree.zeros_like(mean), tree.zeros_like(total)
        )
        going_on = PerElementMeanAndSumSqDiffGradsState(step, ready, mean, total)
        return tree.where(ready, (known, done), (tree.zeros_like(known), going_on))

    return Aggregator(init, update)


def track_per_element_mean_and_variance_with_ema(ema_decay=0.9):
    """Keep moving averages of mean and variance; `update` takes what the aggregation found."""

    def init(params):
        return PerElementMeanAndVarianceEMAState(
            jnp.zeros([], jnp.int32),
            jnp.asarray(ema_decay),
            tree.zeros_like(params),
            tree.zeros_like(params),
        )

    def update(updates, state, params=None, *, sum_sq_diff_grads, sample_size, **extra_args):
        variance = tree.scale(1 / (sample_size - 1), sum_sq_diff_grads)

        def average(new, old):
            return weft.tree.map(lambda n, o: (1.0 - ema_decay) * n + ema_decay * o, new, old)

        return updates, state._replace(
            count=safe_increment(state.count),
            mean_grads_ema=average(updates, state.mean_grads_ema),
            variance_grads_ema=average(variance, state.variance_grads_ema),
        )

    return base.GradientTransformationExtraArgs(init, update)


def get_unbiased_mean_and_variance_ema(state):
    """The moving averages of mean and variance, corrected for their start at zero."""
    found = tree.get(state, "PerElementMeanAndVarianceEMAState", None)
    if found is None:
        raise ValueError(
            "the state has no PerElementMeanAndVarianceEMAState; create the optimiser with "
            "add_mean_variance_to_opt"
        )
    weight = 1 - found.ema_decay**found.count
    averages = found.mean_grads_ema, found.variance_grads_ema
    return tuple(weft.tree.map(lambda x: x / weight, average) for average in averages)


def add_mean_variance_to_opt(opt, ema_decay=0.9, per_elt_axis=0, accumulation_steps=1):
    """An optimiser of single gradients that keeps their mean and variance."""
    return process(
        base.identity(),
        get_per_element_mean_and_sum_sq_diff_grads(per_elt_axis, accumulation_steps),
        chain(track_per_element_mean_and_variance_with_ema(ema_decay), opt),
        aggregator_has_aux=True,
    )
