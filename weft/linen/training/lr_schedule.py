"""Learning rates by step, with a linear warm-up; ``weft.optim`` has more of them."""

import numpy as np

from weft import numpy as jnp


def _warm(rate, step, warmup_length, steps_per_epoch):
    if warmup_length <= 0.0:
        return rate
    return rate * jnp.minimum(1.0, step / float(warmup_length) / steps_per_epoch)


def create_constant_learning_rate_schedule(base_learning_rate, steps_per_epoch, warmup_length=0.0):
    """A constant rate, after ``warmup_length`` epochs of warm-up."""
    return lambda step: _warm(base_learning_rate, step, warmup_length, steps_per_epoch)


def create_stepped_learning_rate_schedule(
    base_learning_rate, steps_per_epoch, lr_sched_steps, warmup_length=0.0
):
    """A rate that changes at epochs: ``lr_sched_steps`` has pairs of an epoch and a factor.

    >>> rate = create_stepped_learning_rate_schedule(1.0, 10, [(2, 0.5), (4, 0.1)])
    >>> [float(rate(step)) for step in (5, 25, 45)]
    [1.0, 0.5, 0.10000000149011612]
    """
    epochs, factors = zip(*lr_sched_steps)
    boundaries = np.round(np.array(epochs) * steps_per_epoch).astype(int)
    rates = jnp.asarray(np.array([1.0, *factors]) * base_learning_rate)

    def rate(step):
        return _warm(rates[jnp.sum(boundaries < step)], step, warmup_length, steps_per_epoch)

    return rate


def create_cosine_learning_rate_schedule(
    base_learning_rate, steps_per_epoch, halfcos_epochs, warmup_length=0.0
):
    """A rate that falls to zero over ``halfcos_epochs`` epochs along half a cosine."""
    period = halfcos_epochs * steps_per_epoch

    def rate(step):
        factor = jnp.cos(step * jnp.pi / period) * 0.5 + 0.5
        return _warm(base_learning_rate * factor, step, warmup_length, steps_per_epoch)

    return rate
