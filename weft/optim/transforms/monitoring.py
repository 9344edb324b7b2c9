"""Measurements of updates, kept in the state."""

from typing import Any, NamedTuple

from weft.optim import base
from weft.optim.transforms.accumulation import ema
from weft.optim.transforms.combining import chain


class SnapshotState(NamedTuple):
    """The last measurement, by its name."""

    measurement: dict[str, Any]


class MonitorState(NamedTuple):
    """The last measurements and the states of those who make them."""

    measurements: dict[str, Any]
    measure_states: tuple[base.OptState, ...]


def snapshot(measure_name, measure):
    """Keep `measure(updates)` in the state, and pass updates on.

    >>> import weft.numpy as jnp, weft.optim as optim
    >>> opt = optim.chain(optim.snapshot("norm", optim.tree.norm), optim.sgd(0.1))
    >>> _, state = opt.update(jnp.array([3.0, 4.0]), opt.init(jnp.zeros(2)))
    >>> float(optim.tree.get(state, "norm"))
    5.0
    """

    def init(params):
        return SnapshotState({measure_name: measure(params)})

    def update(updates, state, params=None):
        return updates, SnapshotState({measure_name: measure(updates)})

    return base.GradientTransformation(init, update)


def monitor(measures):
    """Keep several measurements: functions of the updates, or transformations that average them."""
    measures = {
        name: base.with_extra_args_support(
            base.stateless(lambda updates, params, m=measure: m(updates))
            if callable(measure)
            else measure
        )
        for name, measure in measures.items()
    }

    def init(params):
        return MonitorState({}, tuple(measure.init(params) for measure in measures.values()))

    def update(updates, state, params=None, **extra_args):
        measurements, states = {}, []
        for (name, measure), inner in zip(measures.items(), state.measure_states, strict=True):
            measurements[name], inner = measure.update(updates, inner, params, **extra_args)
            states.append(inner)
        return updates, MonitorState(measurements, tuple(states))

    return base.GradientTransformationExtraArgs(init, update)


def measure_with_ema(measure, decay, debias=True, accumulator_dtype=None):
    """The moving average of a measurement, for `monitor`."""
    average = ema(decay, debias, accumulator_dtype)
    average = average._replace(init=lambda params, init=average.init: init(measure(params)))
    return chain(base.stateless(lambda updates, params: measure(updates)), average)
