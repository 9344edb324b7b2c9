"""Transformations that are applied in some steps only."""

from typing import Any, NamedTuple, Protocol

import weft
import weft.lax as lax
import weft.numpy as jnp
from weft.optim import base, tree
from weft.optim.numerics import safe_increment


class ConditionFn(Protocol):
    """Says whether to transform in this step."""

    def __call__(self, step, **extra_args: Any) -> Any:
        """A boolean scalar."""


class ConditionallyTransformState(NamedTuple):
    """The inner state and the step."""

    inner_state: Any
    step: weft.Array


class ConditionallyMaskState(NamedTuple):
    """The step and the inner state."""

    step: weft.Array
    inner_state: base.OptState


class ApplyIfFiniteState(NamedTuple):
    """How often updates were not finite, of late and in all, and the inner state."""

    notfinite_count: Any
    last_finite: Any
    total_notfinite: Any
    inner_state: Any


def conditionally_transform(inner, should_transform_fn, forward_extra_args=False):
    """Apply `inner` when `should_transform_fn(step)` is true, else pass updates on."""
    inner = base.with_extra_args_support(inner)

    def init(params):
        return ConditionallyTransformState(inner.init(params), jnp.zeros([], jnp.int32))

    def update(updates, state, params=None, **extra_args):
        wanted = should_transform_fn(state.step, **(extra_args if forward_extra_args else {}))
        updates, inner_state = lax.cond(
            wanted,
            lambda: inner.update(updates, state.inner_state, params, **extra_args),
            lambda: (updates, state.inner_state),
        )
        return updates, ConditionallyTransformState(inner_state, safe_increment(state.step))

    return base.GradientTransformationExtraArgs(init, update)


def conditionally_mask(inner, should_transform_fn, forward_extra_args=False):
    """Apply `inner` when `should_transform_fn(step)` is true, else give zeros."""
    inner = base.with_extra_args_support(inner)

    def init(params):
        return ConditionallyMaskState(jnp.zeros([], jnp.int32), inner.init(params))

    def update(updates, state, params=None, **extra_args):
        wanted = should_transform_fn(state.step, **(extra_args if forward_extra_args else {}))
        updates, inner_state = lax.cond(
            wanted,
            lambda: inner.update(updates, state.inner_state, params, **extra_args),
            lambda: (tree.zeros_like(updates), state.inner_state),
        )
        return updates, ConditionallyMaskState(safe_increment(state.step), inner_state)

    return base.GradientTransformationExtraArgs(init, update)


def apply_if_finite(inner, max_consecutive_errors):
    """Apply `inner` to finite updates only; after too many others in a row, to those as well.

    >>> import weft.numpy as jnp, weft.optim as optim
    >>> opt = optim.apply_if_finite(optim.sgd(1.0), max_consecutive_errors=2)
    >>> update, state = opt.update(jnp.array(jnp.nan), opt.init(jnp.array(0.0)))
    >>> float(update), int(state.total_notfinite)
    (0.0, 1)
    """
    inner = base.with_extra_args_support(inner)

    @base.own_leaves
    def init(params):
        zero = jnp.zeros([], jnp.int32)
        return ApplyIfFiniteState(zero, jnp.array(True), zero, inner.init(params))

    def update(updates, state, params=None, **extra_args):
        finite = jnp.all(jnp.array([jnp.all(jnp.isfinite(g)) for g in weft.tree.leaves(updates)]))
        in_a_row = jnp.where(
            finite, jnp.zeros([], jnp.int32), safe_increment(state.notfinite_count)
        )
        total = jnp.where(finite, state.total_notfinite, safe_increment(state.total_notfinite))
        updates, inner_state = lax.cond(
            jnp.logical_or(finite, in_a_row > max_consecutive_errors),
            lambda: inner.update(updates, state.inner_state, params, **extra_args),
            lambda: (tree.zeros_like(updates), state.inner_state),
        )
        return updates, ApplyIfFiniteState(in_a_row, finite, total, inner_state)

    return base.GradientTransformationExtraArgs(init, update)
