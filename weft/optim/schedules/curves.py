"""Learning rates as functions of the step."""

import weft.numpy as jnp


def constant_schedule(value):
    """The same value at every step."""
    return lambda count: value


def polynomial_schedule(init_value, end_value, power, transition_steps, transition_begin=0):
    """From one value to another along a power of the remaining fraction of steps.

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


def linear_schedule(init_value, end_value, transition_steps, transition_begin=0):
    """From one value to another along a line."""
    return polynomial_schedule(init_value, end_value, 1, transition_steps, transition_begin)


def piecewise_constant_schedule(init_value, boundaries_and_scales=None):
    """A value that is multiplied with a factor at each of the given steps.

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
    init_value,
    transition_steps,
    decay_rate,
    transition_begin=0,
    staircase=False,
    end_value=None,
):
    """`init_value * decay_rate ** (step / transition_steps)`, in jumps if `staircase`.

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


def cosine_decay_schedule(init_value, decay_steps, alpha=0.0, exponent=1.0):
    """Down to `alpha * init_value` along half a cosine."""
    if not decay_steps > 0:
        raise ValueError(f"cosine_decay_schedule: decay_steps must be positive, got {decay_steps}")
    steps = float(decay_steps) if isinstance(decay_steps, int) else decay_steps

    def schedule(count):
        count = jnp.minimum(float(count) if isinstance(count, int) else count, steps)
        cosine = 0.5 * (1 + jnp.cos(jnp.pi * count / steps))
        return init_value * ((1 - alpha) * cosine**exponent + alpha)

    return schedule


def piecewise_interpolate_schedule(interpolate_type, init_value, boundaries_and_scales=None):
    """A value multiplied with a factor up to each given step, "linear" or "cosine" in between."""
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
    transition_steps,
    peak_value,
    pct_start=0.3,
    pct_final=0.85,
    div_factor=25.0,
    final_div_factor=1e4,
):
    """Up to the peak, back down, and far down: one cycle of straight lines."""
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
    transition_steps, peak_value, pct_start=0.3, div_factor=25.0, final_div_factor=1e4
):
    """Up to the peak and far down, along half cosines."""
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


def warmup_constant_schedule(init_value, peak_value, warmup_steps):
    """Up to the peak along a line, then constant."""
    return linear_schedule(init_value, peak_value, warmup_steps)


def warmup_cosine_decay_schedule(
    init_value, peak_value, warmup_steps, decay_steps, end_value=0.0, exponent=1.0
):
    """Up to the peak along a line, then down along half a cosine; `decay_steps` in all.

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
    init_value,
    peak_value,
    warmup_steps,
    transition_steps,
    decay_rate,
    transition_begin=0,
    staircase=False,
    end_value=None,
):
    """Up to the peak along a line, then exponential decay."""
    rise = linear_schedule(init_value, peak_value, warmup_steps)
    fall = exponential_decay(
        peak_value, transition_steps, decay_rate, transition_begin, staircase, end_value
    )
    return join_schedules([rise, fall], [warmup_steps])


def sgdr_schedule(cosine_kwargs):
    """Warm restarts: one `warmup_cosine_decay_schedule` after the other."""
    schedules, boundaries, step = [], [], 0
    for kwargs in cosine_kwargs:
        schedules.append(warmup_cosine_decay_schedule(**kwargs))
        step += kwargs["decay_steps"]
        boundaries.append(step)
    return join_schedules(schedules, boundaries[:-1])


def join_schedules(schedules, boundaries):
    """Schedules after each other; each counts from the boundary at which it starts.

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
