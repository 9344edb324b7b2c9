"""Transformations that are applied in some steps only."""

from __future__ import annotations

from collections.abc import Callable
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
    """The state of ``conditionally_transform``.

    Args:
        inner_state: the state of the inner transformation.
        step: how many steps were made.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.conditionally_transform(optim.scale(2.0), lambda step: step > 3)
        >>> opt.init(jnp.zeros(2))
        ConditionallyTransformState(inner_state=EmptyState(), step=Array(0, dtype=int32))
    """

    inner_state: Any
    step: weft.Array


class ConditionallyMaskState(NamedTuple):
    """The state of ``conditionally_mask``.

    Args:
        step: how many steps were made.
        inner_state: the state of the inner transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.conditionally_mask(optim.scale(2.0), lambda step: step > 3).init(jnp.zeros(2))
        ConditionallyMaskState(step=Array(0, dtype=int32), inner_state=EmptyState())
    """

    step: weft.Array
    inner_state: base.OptState


class ApplyIfFiniteState(NamedTuple):
    """The state of ``apply_if_finite``.

    Args:
        notfinite_count: how many updates in a row were not finite.
        last_finite: whether the last update was finite.
        total_notfinite: how many updates were not finite in all.
        inner_state: the state of the inner transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.apply_if_finite(optim.sgd(0.1), 3).init(jnp.zeros(2)).notfinite_count
        Array(0, dtype=int32)
    """

    notfinite_count: Any
    last_finite: Any
    total_notfinite: Any
    inner_state: Any


def conditionally_transform(
    inner: base.GradientTransformation,
    should_transform_fn: Callable[..., Any],
    forward_extra_args: bool = False,
) -> base.GradientTransformationExtraArgs:
    """Return a transformation that applies ``inner`` at some steps, and does nothing at others.

    Args:
        inner: the transformation to apply.
        should_transform_fn: a function of the step that returns a boolean.
        forward_extra_args: pass the keyword arguments of ``update`` to ``should_transform_fn`` too.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.conditionally_transform(optim.scale(2.0), lambda step: step >= 1)
        >>> first, state = opt.update(jnp.array(1.0), opt.init(jnp.array(0.0)))
        >>> second, state = opt.update(jnp.array(1.0), state)
        >>> float(first), float(second)
        (1.0, 2.0)
    """
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


def conditionally_mask(
    inner: base.GradientTransformation,
    should_transform_fn: Callable[..., Any],
    forward_extra_args: bool = False,
) -> base.GradientTransformationExtraArgs:
    """Return a transformation that applies ``inner`` at some steps, and gives zeros at others.

    Args:
        inner: the transformation to apply.
        should_transform_fn: a function of the step that returns a boolean.
        forward_extra_args: pass the keyword arguments of ``update`` to ``should_transform_fn`` too.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.conditionally_mask(optim.scale(2.0), lambda step: step >= 1)
        >>> first, state = opt.update(jnp.array(1.0), opt.init(jnp.array(0.0)))
        >>> second, state = opt.update(jnp.array(1.0), state)
        >>> float(first), float(second)
        (0.0, 2.0)
    """
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


def apply_if_finite(
    inner: base.GradientTransformation, max_consecutive_errors: int
) -> base.GradientTransformationExtraArgs:
    """Return a transformation that applies ``inner`` only to updates that are finite.

    Args:
        inner: the transformation to apply.
        max_consecutive_errors: after this many others in a row, they are applied as well.

    Returns:
        A gradient transformation.

    Example:
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
