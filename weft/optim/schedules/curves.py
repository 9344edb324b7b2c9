"""Learning rates as functions of the step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import weft.numpy as jnp
from weft.optim import base


def constant_schedule(value: base.Numeric) -> base.Schedule:
    """Return a schedule with the same value at every step.

    Args:
        value: the value.

    Returns:
        A schedule: a function from the step to a value.

    Example:
        >>> import weft.optim as optim
        >>> optim.constant_schedule(0.1)(5)
        0.1
    """
    return lambda count: value


def polynomial_schedule(
    init_value: base.Numeric,
    end_value: base.Numeric,
    power: base.Numeric,
    transition_steps: int,
    transition_begin: int = 0,
) -> base.Schedule:
    """Return a schedule from one value to another along a power of the remaining fraction of steps.

    Args:
        init_value: the value at step 0.
        end_value: the value at the end.
        power: the power; 1 is a line.
        transition_steps: how many steps the change takes.
        transition_begin: the step at which the change begins.

    Returns:
        A schedule: a function from the step to a value.

    Example:
        >>> import weft.optim as optim
        >>> rate = optim.polynomial_schedule(1.0, 0.0, power=2, transition_steps=4)
        >>> [float(rate(step)) for step in (0, 2, 4, 9)]
        [1.0, 0.25, 0.0, 0.0]
    """
    if transition_steps <= 0:
        return constant_schedule(init_value)
    transition_begin = max(transition_begin, 0)

    def schedule(count):
        done = jnp.clip(count - transition_begin, 0, transition_steps)
        return (init_value - end_value) * (1 - done / transition_steps) ** power + end_value

    return schedule


def linear_schedule(
    init_value: base.Numeric,
    end_value: base.Numeric,
    transition_steps: int,
    transition_begin: int = 0,
) -> base.Schedule:
    """Return a schedule from one value to another along a line.

    Args:
        init_value: the value at step 0.
        end_value: the value at the end.
        transition_steps: how many steps the change takes.
        transition_begin: the step at which the change begins.

    Returns:
        A schedule: a function from the step to a value.

    Example:
        >>> import weft.optim as optim
        >>> rate = optim.linear_schedule(1.0, 0.0, transition_steps=4)
        >>> [float(rate(step)) for step in (0, 1, 4, 9)]
        [1.0, 0.75, 0.0, 0.0]
    """
    return polynomial_schedule(init_value, end_value, 1, transition_steps, transition_begin)


def piecewise_constant_schedule(
    init_value: base.Numeric, boundaries_and_scales: Mapping[int, float] | None = None
) -> base.Schedule:
    """Return a schedule whose value is multiplied by a factor at each of the given steps.

    Args:
        init_value: the value at step 0.
        boundaries_and_scales: the factor at each step at which the value changes.

    Returns:
        A schedule: a function from the step to a value.

    Example:
        >>> import weft.optim as optim
        >>> rate = optim.piecewise_constant_schedule(1.0, {10: 0.5, 20: 0.5})
        >>> [float(rate(step)) for step in (9, 10, 20)]
        [1.0, 0.5, 0.25]
    """
    steps = sorted((boundaries_and_scales or {}).items())
    _check_scales("piecewise_constant_schedule", steps)

    def schedule(count):
        value = init_value
        for boundary, factor in steps:
            before = jnp.maximum(0.0, jnp.sign(boundary - count))
            value = value * before + (1 - before) * factor * value
        return value

    return schedule


def _check_scales(name, steps):
    if any(factor < 0 for _, factor in steps):
        raise ValueError(f"{name}: factors must not be negative, got {dict(steps)}")


def exponential_decay(
    init_value: base.Numeric,
    transition_steps: int,
    decay_rate: float,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: float | None = None,
) -> base.Schedule:
    """Return the schedule ``init_value * decay_rate ** (step / transition_steps)``.

    Args:
        init_value: the value at step 0.
        transition_steps: how many steps multiply the value by ``decay_rate`` once.
        decay_rate: the factor.
        transition_begin: the step at which the change begins.
        staircase: change in jumps, every ``transition_steps`` steps.
        end_value: the bound of the value; None for none.

    Returns:
        A schedule: a function from the step to a value.

    Example:
        >>> import weft.optim as optim
        >>> rate = optim.exponential_decay(1.0, transition_steps=2, decay_rate=0.5, end_value=0.2)
        >>> [float(rate(step)) for step in (0, 2, 4, 100)]
        [1.0, 0.5, 0.25, 0.20000000298023224]
    """
    if transition_steps <= 0 or decay_rate == 0:
        return constant_schedule(init_value)
    transition_begin = max(transition_begin, 0)
    limit = jnp.maximum if decay_rate < 1.0 else jnp.minimum

    def schedule(count):
        since = count - transition_begin
        exponent = since / transition_steps
        if staircase:
            exponent = jnp.floor(exponent)
        value = jnp.where(since <= 0, init_value, init_value * jnp.power(decay_rate, exponent))
        return value if end_value is None else limit(value, end_value)

    return schedule


def cosine_decay_schedule(
    init_value: base.Numeric, decay_steps: int, alpha: float = 0.0, exponent: float = 1.0
) -> base.Schedule:
    """Return a schedule down along half a cosine.

    Args:
        init_value: the value at step 0.
        decay_steps: how many steps the descent takes.
        alpha: the value at the end, as a fraction of ``init_value``.
        exponent: the power to which the cosine is raised.

    Returns:
        A schedule: a function from the step to a value.

    Example:
        >>> import weft.optim as optim
        >>> rate = optim.cosine_decay_schedule(1.0, decay_steps=10)
        >>> [round(float(rate(step)), 3) for step in (0, 5, 10, 20)]
        [1.0, 0.5, 0.0, 0.0]
    """
    if not decay_steps > 0:
        raise ValueError(f"cosine_decay_schedule: decay_steps must be positive, got {decay_steps}")
    steps = float(decay_steps) if isinstance(decay_steps, int) else decay_steps

    def schedule(count):
        count = jnp.minimum(float(count) if isinstance(count, int) else count, steps)
        cosine = 0.5 * (1 + jnp.cos(jnp.pi * count / steps))
        return init_value * ((1 - alpha) * cosine**exponent + alpha)

    return schedule


def piecewise_interpolate_schedule(
    interpolate_type: str,
    init_value: base.Numeric,
    boundaries_and_scales: Mapping[int, float] | None = None,
) -> base.Schedule:
    """Return a schedule between values at given steps, each the one before times a factor.

    Args:
        interpolate_type: ``'linear'`` or ``'cosine'``: how the value changes in between.
        init_value: the value at step 0.
        boundaries_and_scales: the factor at each step at which the value changes.

    Returns:
        A schedule: a function from the step to a value.

    Example:
        >>> import weft.optim as optim
        >>> rate = optim.piecewise_interpolate_schedule("linear", 1.0, {10: 0.5})
        >>> [float(rate(step)) for step in (0, 5, 10, 20)]
        [1.0, 0.75, 0.5, 0.5]
    """
    interpolations = {
        "linear": lambda start, end, part: (end - start) * part + start,
        "cosine": lambda start, end, part: end + (start - end) / 2.0 * (jnp.cos(jnp.pi * part) + 1),
    }
    if interpolate_type not in interpolations:
        raise ValueError(
            "piecewise_interpolate_schedule: interpolate_type must be 'linear' or 'cosine', "
            f"got {interpolate_type!r}"
        )
    interpolate = interpolations[interpolate_type]
    steps = sorted((boundaries_and_scales or {}).items())
    _check_scales("piecewise_interpolate_schedule", steps)

    def schedule(count):
        bounds = jnp.stack([0, *(boundary for boundary, _ in steps)])
        values = jnp.cumprod(jnp.stack([init_value, *(factor for _, factor in steps)]))
        begins, ends = bounds[:-1], bounds[1:]
        inside = jnp.logical_and(begins <= count, count < ends)
        part = (count - begins) / jnp.maximum(ends - begins, 1)
        between = interpolate(values[:-1], values[1:], part)
        return inside.dot(between) + (bounds[-1] <= count) * values[-1]

    return schedule


def linear_onecycle_schedule(
    transition_steps: int,
    peak_value: base.Numeric,
    pct_start: float = 0.3,
    pct_final: float = 0.85,
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
) -> base.Schedule:
    """Return a schedule of one cycle of straight lines: up to the peak, back down, and far down.

    Args:
        transition_steps: how many steps the cycle takes.
        peak_value: the largest value.
        pct_start: the fraction of steps in which the value rises.
        pct_final: the fraction of steps after which the value is back where it started.
        div_factor: the peak over the value at the start.
        final_div_factor: the value at the start over the value at the end.

    Returns:
        A schedule: a function from the step to a value.

    Example:
        >>> import weft.optim as optim
        >>> rate = optim.linear_onecycle_schedule(100, 1.0)
        >>> [round(float(rate(step)), 4) for step in (0, 30, 85, 100)]
        [0.04, 1.0, 0.04, 0.0]
    """
    _check_cycle("linear_onecycle_schedule", transition_steps)
    return piecewise_interpolate_schedule(
        "linear",
        peak_value / div_factor,
        {
            int(pct_start * transition_steps): div_factor,
            int(pct_final * transition_steps): 1.0 / div_factor,
            transition_steps: 1.0 / final_div_factor,
        },
    )


def cosine_onecycle_schedule(
    transition_steps: int,
    peak_value: base.Numeric,
    pct_start: float = 0.3,
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
) -> base.Schedule:
    """Return a schedule of one cycle of half cosines: up to the peak, and far down.

    Args:
        transition_steps: how many steps the cycle takes.
        peak_value: the largest value.
        pct_start: the fraction of steps in which the value rises.
        div_factor: the peak over the value at the start.
        final_div_factor: the value at the start over the value at the end.

    Returns:
        A schedule: a function from the step to a value.

    Example:
        >>> import weft.optim as optim
        >>> rate = optim.cosine_onecycle_schedule(100, 1.0)
        >>> [round(float(rate(step)), 4) for step in (0, 30, 65, 100)]
        [0.04, 1.0, 0.5, 0.0]
    """
    _check_cycle("cosine_onecycle_schedule", transition_steps)
    return piecewise_interpolate_schedule(
        "cosine",
        peak_value / div_factor,
        {
            int(pct_start * transition_steps): div_factor,
            int(transition_steps): 1.0 / (div_factor * final_div_factor),
        },
    )


def _check_cycle(name, transition_steps):
    if transition_steps <= 0:
        raise ValueError(f"{name}: transition_steps must be positive, got {transition_steps}")


def warmup_constant_schedule(
    init_value: base.Numeric, peak_value: base.Numeric, warmup_steps: int
) -> base.Schedule:
    """Return a schedule up to the peak along a line, then constant.

    Args:
        init_value: the value at step 0.
        peak_value: the largest value.
        warmup_steps: how many steps the rise takes.

    Returns:
        A schedule: a function from the step to a value.

    Example:
        >>> import weft.optim as optim
        >>> rate = optim.warmup_constant_schedule(0.0, 1.0, warmup_steps=4)
        >>> [float(rate(step)) for step in (0, 2, 4, 9)]
        [0.0, 0.5, 1.0, 1.0]
    """
    return linear_schedule(init_value, peak_value, warmup_steps)


def warmup_cosine_decay_schedule(
    init_value: base.Numeric,
    peak_value: base.Numeric,
    warmup_steps: int,
    decay_steps: int,
    end_value: base.Numeric = 0.0,
    exponent: float = 1.0,
) -> base.Schedule:
    """Return a schedule up to the peak along a line, then down along half a cosine.

    Args:
        init_value: the value at step 0.
        peak_value: the largest value.
        warmup_steps: how many steps the rise takes.
        decay_steps: how many steps both take in all, the warm-up included.
        end_value: the value at the end.
        exponent: the power to which the cosine is raised.

    Returns:
        A schedule: a function from the step to a value.

    Example:
        >>> import weft.optim as optim
        >>> rate = optim.warmup_cosine_decay_schedule(0.0, 1.0, warmup_steps=10, decay_steps=30)
        >>> [round(float(rate(step)), 3) for step in (0, 5, 10, 20, 30)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    alpha = 0.0 if peak_value == 0.0 else end_value / peak_value
    rise = linear_schedule(init_value, peak_value, warmup_steps)
    fall = cosine_decay_schedule(peak_value, decay_steps - warmup_steps, alpha, exponent)
    return join_schedules([rise, fall], [warmup_steps])


def warmup_exponential_decay_schedule(
    init_value: base.Numeric,
    peak_value: base.Numeric,
    warmup_steps: int,
    transition_steps: int,
    decay_rate: float,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: float | None = None,
) -> base.Schedule:
    """Return a schedule up to the peak along a line, then exponential decay.

    Args:
        init_value: the value at step 0.
        peak_value: the largest value.
        warmup_steps: how many steps the rise takes.
        transition_steps: how many steps multiply the value by ``decay_rate`` once.
        decay_rate: the factor.
        transition_begin: how many steps after the warm-up the decay begins.
        staircase: change in jumps, every ``transition_steps`` steps.
        end_value: the bound of the value; None for none.

    Returns:
        A schedule: a function from the step to a value.

    Example:
        >>> import weft.optim as optim
        >>> rate = optim.warmup_exponential_decay_schedule(0.0, 1.0, 4, 2, decay_rate=0.5)
        >>> [float(rate(step)) for step in (0, 2, 4, 6, 8)]
        [0.0, 0.5, 1.0, 0.5, 0.25]
    """
    rise = linear_schedule(init_value, peak_value, warmup_steps)
    fall = exponential_decay(
        peak_value, transition_steps, decay_rate, transition_begin, staircase, end_value
    )
    return join_schedules([rise, fall], [warmup_steps])


def sgdr_schedule(cosine_kwargs: Iterable[Mapping[str, Any]]) -> base.Schedule:
    """Return a schedule with warm restarts: one ``warmup_cosine_decay_schedule`` after the other.

    Args:
        cosine_kwargs: the keyword arguments of each of them.

    Returns:
        A schedule: a function from the step to a value.

    Example:
        >>> import weft.optim as optim
        >>> cycle = dict(init_value=0.0, peak_value=1.0, warmup_steps=2, decay_steps=4)
        >>> rate = optim.sgdr_schedule([cycle, cycle])
        >>> [round(float(rate(step)), 3) for step in (0, 2, 3, 4, 6)]
        [0.0, 1.0, 0.5, 0.0, 1.0]
    """
    schedules, boundaries, step = [], [], 0
    for kwargs in cosine_kwargs:
        schedules.append(warmup_cosine_decay_schedule(**kwargs))
        step += kwargs["decay_steps"]
        boundaries.append(step)
    return join_schedules(schedules, boundaries[:-1])


def join_schedules(schedules: Sequence[base.Schedule], boundaries: Sequence[int]) -> base.Schedule:
    """Return schedules after each other; each counts from the boundary at which it starts.

    Args:
        schedules: the schedules, in order.
        boundaries: the steps at which the second and later ones start.

    Returns:
        A schedule: a function from the step to a value.

    Example:
        >>> import weft.optim as optim
        >>> rate = optim.join_schedules([lambda step: 1.0, lambda step: step * 10.0], [5])
        >>> [float(rate(step)) for step in (4, 5, 7)]
        [1.0, 0.0, 20.0]
    """

    def schedule(step):
        value = schedules[0](step)
        for boundary, later in zip(boundaries, schedules[1:], strict=False):
            value = jnp.where(step < boundary, value, later(step - boundary))
        return value

    return schedule
