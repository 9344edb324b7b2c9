"""Hyperparameters kept in the state, where a schedule or the user can change them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

import weft
import weft.numpy as jnp
from weft.extend.source_info_util import warn
from weft.optim import base, tree
from weft.optim.numerics import safe_increment


class InjectHyperparamsState(NamedTuple):
    """The state of ``inject_hyperparams`` in older checkpoints, without the states of schedules.

    Args:
        count: how many steps were made.
        hyperparams: the hyperparameters by name, as arrays.
        inner_state: the state of the inner optimiser.

    Example:
        >>> import weft.optim as optim
        >>> optim.InjectHyperparamsState(0, {"learning_rate": 0.1}, ()).hyperparams
        {'learning_rate': 0.1}
    """

    count: weft.Array
    hyperparams: dict[str, Any]
    inner_state: base.OptState


class InjectStatefulHyperparamsState(NamedTuple):
    """The state of ``inject_hyperparams``.

    Args:
        count: how many steps were made.
        hyperparams: the hyperparameters by name, as arrays.
        hyperparams_states: the states of schedules, by the name of their hyperparameter.
        inner_state: the state of the inner optimiser.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.inject_hyperparams(optim.sgd)(learning_rate=0.5)
        >>> opt.init(jnp.zeros(2)).hyperparams
        {'learning_rate': Array(0.5, dtype=float32)}
    """

    count: weft.Array
    hyperparams: dict[str, Any]
    hyperparams_states: dict[str, base.ScheduleState]
    inner_state: base.OptState


class WrappedScheduleState(NamedTuple):
    """The step of a schedule."""

    count: weft.Array


class WrappedSchedule:
    """A schedule with a state, made from a function of the step.

    Args:
        schedule_fn: the function of the step.

    Example:
        >>> import weft.optim as optim
        >>> rate = optim.WrappedSchedule(lambda step: 0.5 ** step)
        >>> state = rate.update(rate.init())
        >>> float(rate(state))
        0.5
    """

    def __init__(self, schedule_fn: base.Schedule) -> None:
        self.schedule_fn = schedule_fn

    def init(self) -> Any:
        """The state before the first step."""
        return WrappedScheduleState(jnp.zeros([], jnp.int32))

    def update(self, state: Any, **extra_args: Any) -> Any:
        """The state after a step."""
        return WrappedScheduleState(safe_increment(state.count))

    def __call__(self, state: Any, **extra_args: Any) -> Any:
        """The value of this step."""
        return self.schedule_fn(state.count)


def inject_hyperparams(
    inner_factory: Callable[..., base.GradientTransformation],
    static_args: str | Iterable[str] = (),
    hyperparam_dtype: Any = None,
) -> Callable[..., base.GradientTransformationExtraArgs]:
    """Return an optimiser whose hyperparameters are arrays in its state, ``state.hyperparams``.

    Numbers and schedules given to the optimiser are kept there, where you can read and change them.

    Args:
        inner_factory: the optimiser as a function of its hyperparameters, such as ``optim.adam``.
        static_args: the names of arguments that are not kept in the state.
        hyperparam_dtype: the dtype of the hyperparameters. By default that of the first parameter.

    Returns:
        A function of the hyperparameters that returns the optimiser.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.inject_hyperparams(optim.sgd)(learning_rate=0.5)
        >>> params = jnp.array(1.0)
        >>> state = opt.init(params)
        >>> state.hyperparams["learning_rate"] = jnp.array(0.25)
        >>> float(opt.update(jnp.array(1.0), state, params)[0])
        -0.25
    """
    static = {static_args} if isinstance(static_args, str) else set(static_args)
    signature = inspect.signature(inner_factory)
    if not static.issubset(signature.parameters):
        raise ValueError(
            f"inject_hyperparams: static_args names {sorted(static - set(signature.parameters))}, "
            f"which {getattr(inner_factory, '__name__', 'the factory')} does not take; "
            f"it takes {list(signature.parameters)}"
        )

    @functools.wraps(inner_factory)
    def wrapped(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        schedules, numbers, others = _sort(bound.arguments, static)
        return _injected(inner_factory, schedules, numbers, others, hyperparam_dtype)

    return wrapped


def _sort(arguments, static):
    """Schedules, numbers and what is neither."""
    schedules, numbers, others = {}, {}, {}
    for name, value in arguments.items():
        if name in static or isinstance(value, bool):
            others[name] = value
        elif isinstance(value, base.StatefulSchedule):
            schedules[name] = value
        elif callable(value):
            schedules[name] = WrappedSchedule(value)
        elif isinstance(value, (int, float, weft.Array, np.ndarray)):
            numbers[name] = value
        else:
            others[name] = value
    return schedules, numbers, others


def _injected(inner_factory, schedules, numbers, others, hyperparam_dtype):
    def dtype_for(params):
        return tree.dtype(params, "highest") if hyperparam_dtype is None else hyperparam_dtype

    def init(params):
        dtype = dtype_for(params)
        values = {name: jnp.asarray(_convert(value, dtype)) for name, value in numbers.items()}
        states = {name: schedule.init() for name, schedule in schedules.items()}
        values |= {
            name: _convert(schedule(states[name]), dtype) for name, schedule in schedules.items()
        }
        return InjectStatefulHyperparamsState(
            count=jnp.zeros([], jnp.int32),
            hyperparams=values,
            hyperparams_states=states,
            inner_state=inner_factory(**others, **values).init(params),
        )

    def update(updates, state, params=None, **extra_args):
        dtype = dtype_for(updates if params is None else params)
        values = {name: _convert(value, dtype) for name, value in state.hyperparams.items()}
        states = {}
        for name, schedule in schedules.items():
            inner = state.hyperparams_states[name]
            values[name] = _convert(schedule(inner, **extra_args), dtype)
            states[name] = schedule.update(inner, **extra_args)
        tx = base.with_extra_args_support(inner_factory(**others, **values))
        updates, inner_state = tx.update(updates, state.inner_state, params, **extra_args)
        count = safe_increment(state.count)
        return updates, InjectStatefulHyperparamsState(count, values, states, inner_state)

    return base.GradientTransformationExtraArgs(init, update)


def _convert(value, dtype):
    """Floats that do not insist on their dtype, in the given one."""
    if isinstance(value, weft.Array) and not getattr(value, "weak_type", False):
        return value
    current = value.dtype if hasattr(value, "dtype") else type(value)
    return jnp.asarray(value, dtype=dtype) if jnp.issubdtype(current, jnp.floating) else value


def inject_stateful_hyperparams(
    inner_factory: Callable[..., base.GradientTransformation],
    static_args: str | Iterable[str] = (),
    hyperparam_dtype: Any = None,
) -> Callable[..., base.GradientTransformationExtraArgs]:
    """Return the same as ``inject_hyperparams``; the older name.

    Args:
        inner_factory: the optimiser as a function of its hyperparameters, such as ``optim.adam``.
        static_args: the names of arguments that are not kept in the state.
        hyperparam_dtype: the dtype of the hyperparameters. By default that of the first parameter.

    Returns:
        A function of the hyperparameters that returns the optimiser.

    Example:
        >>> import warnings, weft.numpy as jnp, weft.optim as optim
        >>> with warnings.catch_warnings(action="ignore"):
        ...     opt = optim.inject_stateful_hyperparams(optim.sgd)(learning_rate=0.5)
        >>> float(opt.init(jnp.zeros(2)).hyperparams["learning_rate"])
        0.5
    """
    warn("inject_stateful_hyperparams is deprecated, use inject_hyperparams", DeprecationWarning)
    return inject_hyperparams(inner_factory, static_args, hyperparam_dtype)
