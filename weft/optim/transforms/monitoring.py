"""Measurements of updates, kept in the state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from weft.optim import base
from weft.optim.transforms.accumulation import ema
from weft.optim.transforms.combining import chain


class SnapshotState(NamedTuple):
    """The state of ``snapshot``.

    Args:
        measurement: the last measurement, by its name.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.snapshot("largest", jnp.max)
        >>> opt.update(jnp.array([3.0, 4.0]), opt.init(jnp.zeros(2)))[1]
        SnapshotState(measurement={'largest': Array(4., dtype=float32)})
    """

    measurement: dict[str, Any]


class MonitorState(NamedTuple):
    """The state of ``monitor``.

    Args:
        measurements: the last measurements, by name.
        measure_states: the states of the transformations that measure.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.monitor({"largest": jnp.max})
        >>> opt.update(jnp.array([3.0, 4.0]), opt.init(jnp.zeros(2)))[1]
        MonitorState(measurements={'largest': Array(4., dtype=float32)},
         measure_states=(EmptyState(),))
    """

    measurements: dict[str, Any]
    measure_states: tuple[base.OptState, ...]


def snapshot(
    measure_name: str, measure: Callable[[base.Updates], Any]
) -> base.GradientTransformation:
    """Return a transformation that keeps ``measure(updates)`` in its state, and passes updates on.

    Args:
        measure_name: the name of the measurement, for ``optim.tree.get``.
        measure: a function of the updates.

    Returns:
        A gradient transformation.

    Example:
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


def monitor(measures: Mapping[str, Any]) -> base.GradientTransformationExtraArgs:
    """Return a transformation that keeps several measurements in its state, and passes updates on.

    Args:
        measures: by name, functions of the updates, or transformations such as ``measure_with_ema``
            returns.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.monitor({"norm": optim.tree.norm, "largest": jnp.max})
        >>> _, state = opt.update(jnp.array([3.0, 4.0]), opt.init(jnp.zeros(2)))
        >>> float(state.measurements["norm"])
        5.0
    """
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


def measure_with_ema(
    measure: Callable[[base.Updates], Any],
    decay: float,
    debias: bool = True,
    accumulator_dtype: Any = None,
) -> base.GradientTransformationExtraArgs:
    """Return a transformation that averages a measurement over steps, for ``monitor``.

    Args:
        measure: a function of the updates.
        decay: the weight of the past in the moving average.
        debias: correct the average for its start at zero.
        accumulator_dtype: the dtype of the average. By default that of the measurement.

    Returns:
        A gradient transformation.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> opt = optim.monitor({"norm": optim.measure_with_ema(optim.tree.norm, 0.9)})
        >>> _, state = opt.update(jnp.array([3.0, 4.0]), opt.init(jnp.zeros(2)))
        >>> round(float(state.measurements["norm"]), 3)
        5.0
    """
    average = ema(decay, debias, accumulator_dtype)
    average = average._replace(init=lambda params, init=average.init: init(measure(params)))
    return chain(base.stateless(lambda updates, params: measure(updates)), average)
