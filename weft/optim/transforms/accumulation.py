"""Gradients added up over steps: momentum, moving averages, and several steps for one update."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import weft
import weft.lax as lax
import weft.numpy as jnp
from weft.optim import base, tree
from weft.optim.numerics import canonical_dtype, safe_increment


class TraceState(NamedTuple):
    """The state of ``trace``.

    Args:
        trace: the momentum, with the structure of the parameters.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.trace(0.9).init(jnp.zeros(2))
        TraceState(trace=Array([0., 0.], dtype=float32))
    """

    trace: base.Params


class EmaState(NamedTuple):
    """The state of ``ema``.

    Args:
        count: how many steps were made.
        ema: the moving average, with the structure of the updates.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.ema(0.9).init(jnp.array(0.0))
        EmaState(count=Array(0, dtype=int32), ema=Array(0., dtype=float32, weak_type=True))
    """

    count: weft.Array
    ema: base.Params


class MultiStepsState(NamedTuple):
    """The state of ``MultiSteps``.

    Args:
        mini_step: how many gradients were accumulated for the next update.
        gradient_step: how many updates were made.
        inner_opt_state: the state of the inner optimiser.
        acc_grads: the accumulated gradients.
        skip_state: what the function that skips gradients recorded.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> optim.MultiSteps(optim.sgd(0.1), 4).init(jnp.zeros(2)).mini_step
        Array(0, dtype=int32)
    """

    mini_step: weft.Array
    gradient_step: weft.Array
    inner_opt_state: Any
    acc_grads: Any
    skip_state: Any = ()


class ShouldSkipUpdateFunction(Protocol):
    """Says whether to leave out these gradients, and what to record about it."""

    def __call__(self, updates: Any, gradient_step: Any, params: Any) -> tuple[weft.Array, Any]:
        """A boolean scalar and a tree of arrays."""


def trace(
    decay: float, nesterov: bool = False, accumulator_dtype: Any = None
) -> base.GradientTransformation:
    """Return momentum: a transformation that keeps t ← g + decay · t.

    Args:
        decay: the weight of the past: between 0 and 1.
        nesterov: return g + decay · t, Nesterov's momentum, instead of t.
        accumulator_dtype: the dtype of what is accumulated. By default that of the parameters.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.trace(0.5)
        >>> state = opt.init(jnp.array(0.0))
        >>> for _ in range(3):
        ...     update, state = opt.update(jnp.array(1.0), state)
        >>> float(update)
        1.75
    """
    base.check_numbers("trace", decay=decay)
    accumulator_dtype = canonical_dtype(accumulator_dtype)

    def init(params):
        return TraceState(tree.zeros_like(params, dtype=accumulator_dtype))

    def update(updates, state, params=None):
        base.check_updates("trace", updates, state.trace)
        total = weft.tree.map(lambda g, t: g + decay * t, updates, state.trace)
        if nesterov:
            updates = weft.tree.map(lambda g, t: g + decay * t, updates, total)
        else:
            updates = total
        return updates, TraceState(tree.cast(total, accumulator_dtype))

    return base.GradientTransformation(init, update)


def ema(
    decay: float, debias: bool = True, accumulator_dtype: Any = None
) -> base.GradientTransformation:
    """Return a transformation that replaces updates with their exponential moving average.

    Args:
        decay: the weight of the past: between 0 and 1.
        debias: correct the average for its start at zero.
        accumulator_dtype: the dtype of what is accumulated. By default that of the parameters.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.ema(0.9)
        >>> params = jnp.array([1.0, 2.0])
        >>> updates, state = opt.update(jnp.array([0.5, -0.5]), opt.init(params), params)
        >>> optim.apply_updates(params, updates).round(3)
        Array([1.5, 1.5], dtype=float32)
    """
    base.check_numbers("ema", decay=decay)
    accumulator_dtype = canonical_dtype(accumulator_dtype)

    def init(params):
        average = tree.zeros_like(params, dtype=accumulator_dtype)
        return EmaState(jnp.zeros([], jnp.int32), average)

    def update(updates, state, params=None):
        base.check_updates("ema", updates, state.ema)
        average = tree.update_moment(updates, state.ema, decay, 1)
        count = safe_increment(state.count)
        updates = tree.bias_correction(average, decay, count) if debias else average
        return updates, EmaState(count, tree.cast(average, accumulator_dtype))

    return base.GradientTransformation(init, update)


def skip_not_finite(updates: Any, gradient_step: Any, params: Any) -> tuple[weft.Array, Any]:
    """Return whether gradients hold NaN or infinity; for ``MultiSteps``.

    Args:
        updates: the gradients.
        gradient_step: how many updates were made; not used.
        params: the parameters; not used.

    Returns:
        A pair: whether to skip these gradients, and what to record about it.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> skip, record = optim.skip_not_finite(jnp.array([1.0, jnp.nan]), 0, None)
        >>> bool(skip)
        True
    """
    bad = [jnp.sum(jnp.logical_not(jnp.isfinite(g))) for g in weft.tree.leaves(updates)]
    num_not_finite = jnp.sum(jnp.array(bad))
    should_skip = num_not_finite > 0
    return should_skip, {"should_skip": should_skip, "num_not_finite": num_not_finite}


def skip_large_updates(
    updates: Any, gradient_step: Any, params: Any, max_squared_norm: float
) -> tuple[weft.Array, Any]:
    """Return whether the squared norm of gradients is too large; for ``MultiSteps``.

    Args:
        updates: the gradients.
        gradient_step: how many updates were made; not used.
        params: the parameters; not used.
        max_squared_norm: the bound, which the squared norm must stay below. Bind it with
            ``functools.partial``.

    Returns:
        A pair: whether to skip these gradients, and what to record about it.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> skip, record = optim.skip_large_updates(jnp.array([3.0, 4.0]), 0, None, 10.0)
        >>> bool(skip), float(record["norm_squared"])
        (True, 25.0)
    """
    norm_squared = jnp.sum(jnp.array([jnp.sum(g**2) for g in weft.tree.leaves(updates)]))
    should_skip = jnp.logical_not(norm_squared < max_squared_norm)  # NaN too
    return should_skip, {"should_skip": should_skip, "norm_squared": norm_squared}


class MultiSteps:
    """An optimiser that accumulates the gradients of k steps for one update of another optimiser.

    Args:
        opt: the optimiser that makes the updates.
        every_k_schedule: k, or a function from the number of updates made to k.
        use_grad_mean: pass on the mean of the gradients; False for their sum.
        should_skip_update_fn: a function of the gradients, the number of updates and the parameters
            that says which gradients to leave out, such as ``skip_not_finite``.
        accumulator_dtype: the dtype of the accumulated gradients.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.MultiSteps(optim.sgd(1.0), every_k_schedule=2)
        >>> state = opt.init(jnp.array(0.0))
        >>> for gradient in (1.0, 3.0):
        ...     update, state = opt.update(jnp.array(gradient), state)
        ...     print(float(update) + 0, bool(opt.has_updated(state)))
        0.0 False
        -2.0 True
    """

    def __init__(
        self,
        opt: base.GradientTransformation,
        every_k_schedule: int | base.Schedule,
        use_grad_mean: bool = True,
        should_skip_update_fn: Callable[..., Any] | None = None,
        accumulator_dtype: Any = jnp.float32,
    ) -> None:
        self._opt = base.with_extra_args_support(opt)
        if isinstance(every_k_schedule, int):
            if every_k_schedule < 1:
                raise ValueError(
                    f"MultiSteps: every_k_schedule must be 1 or more, got {every_k_schedule}"
                )
            self._every_k_schedule = lambda step: every_k_schedule
        elif callable(every_k_schedule):
            self._every_k_schedule = every_k_schedule
        else:
            raise TypeError(
                "MultiSteps: every_k_schedule must be an int or a function of the step, "
                f"got {every_k_schedule!r}"
            )
        self._use_grad_mean = use_grad_mean
        self._accumulator_dtype = canonical_dtype(accumulator_dtype)
        self._should_skip_update_fn = should_skip_update_fn or _never_skip

    @property
    def inner_opt(self) -> base.GradientTransformationExtraArgs:
        """The inner optimiser."""
        return self._opt

    def init(self, params: Any) -> MultiStepsState:
        """The state before the first step."""
        step = jnp.zeros([], jnp.int32)
        _, skip_state = self._should_skip_update_fn(tree.zeros_like(params), step, params)
        return MultiStepsState(
            mini_step=jnp.zeros([], jnp.int32),
            gradient_step=step,
            inner_opt_state=self._opt.init(params),
            acc_grads=tree.zeros_like(params, dtype=self._accumulator_dtype),
            skip_state=skip_state,
        )

    def update(
        self, updates: Any, state: Any, params: Any = None, **extra_args: Any
    ) -> tuple[base.Updates, MultiStepsState]:
        """Accumulate; every k-th time an update, else zeros."""
        base.check_updates("MultiSteps", updates, state.acc_grads)
        skip, skip_state = self._should_skip_update_fn(updates, state.gradient_step, params)
        if skip.dtype != jnp.bool_ or skip.shape != ():
            raise ValueError(
                "MultiSteps: should_skip_update_fn must return a boolean scalar first, "
                f"got {skip.dtype}{list(skip.shape)}"
            )
        if self._should_skip_update_fn is _never_skip:
            return self._accumulate(updates, state, params, skip_state, extra_args)

        def accumulate(updates, state, params):
            return self._accumulate(updates, state, params, skip_state, extra_args)

        def leave_out(updates, state, params):
            like = weft.eval_shape(functools.partial(accumulate, params=params), updates, state)[0]
            return tree.zeros_like(like), state._replace(skip_state=skip_state)

        return lax.cond(skip, leave_out, accumulate, updates, state, params)

    def _accumulate(self, updates, state, params, skip_state, extra_args):
        k_steps = self._every_k_schedule(state.gradient_step)
        if self._use_grad_mean:
            add = lambda g, acc: acc + (g - acc) / (state.mini_step + 1)
        else:
            add = lambda g, acc: g + acc
        totals = weft.tree.map(add, updates, state.acc_grads)
        inner, inner_state = self._opt.update(
            tree.cast_like(totals, updates), state.inner_opt_state, params=params, **extra_args
        )
        emit = state.mini_step == k_steps - 1
        new_state = MultiStepsState(
            mini_step=safe_increment(state.mini_step) % k_steps,
            gradient_step=jnp.where(emit, safe_increment(state.gradient_step), state.gradient_step),
            inner_opt_state=weft.tree.map(
                lambda old, new: jnp.where(emit, new, old).astype(old.dtype),
                state.inner_opt_state,
                inner_state,
            ),
            acc_grads=weft.tree.map(
                lambda total: ((1 - emit) * total).astype(self._accumulator_dtype), totals
            ),
            skip_state=skip_state,
        )
        return weft.tree.map(lambda g: emit * g, inner), new_state

    def has_updated(self, state: Any) -> weft.Array:
        """Whether the last call of `update` gave an update of the inner optimiser."""
        return jnp.logical_and(state.mini_step == 0, state.gradient_step > 0)

    def gradient_transformation(self) -> base.GradientTransformation:
        """The same as a pair of `init` and `update`."""
        return base.GradientTransformation(init=self.init, update=self.update)


def _never_skip(updates, gradient_step, params):
    return jnp.array(False), ()
