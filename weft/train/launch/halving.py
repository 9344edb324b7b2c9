"""Successive halving: many configurations a little, the best of them further and further."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from weft.train.launch.experiment import Experiment, WorkUnit, ranked


def successive_halving(
    experiment: Experiment,
    job: Any,
    sweep: Iterable[Mapping[str, Any]],
    *,
    metric: str,
    budget: str,
    budgets: Sequence[float],
    factor: int = 3,
    mode: str = "min",
) -> list[list[WorkUnit]]:
    """Run all configurations with a small budget, the best ones with the next, and so on.

    After each rung, one of ``factor`` work units goes on. It continues as a new work unit whose
    ``run.previous`` is the folder of the one before, so that it can go on from its checkpoint.
    A metric that is missing or NaN counts as the worst. An experiment that was interrupted
    makes the same decisions again, from the same metrics. (Jamieson and Talwalkar, 2016.)

    Args:
        experiment: the experiment.
        job: a ``Job`` or a function.
        sweep: configurations: dictionaries without the budget.
        metric: the metric that decides, as in ``metrics.jsonl`` or in the function's result.
        budget: the name of the argument that has the budget.
        budgets: the budget of each rung, rising.
        factor: one of how many goes on.
        mode: ``"min"`` or ``"max"``.

    Returns:
        The work units of each rung, best first.

    Example:
        >>> import tempfile
        >>> from weft.train import launch
        >>> def train(run, rate, steps):
        ...     return None
        >>> sweep = [{"rate": 0.1}, {"rate": 0.2}]
        >>> with launch.create_experiment(tempfile.mkdtemp(), verbose=False) as e:  # doctest: +SKIP
        ...     rungs = launch.successive_halving(
        ...         e, train, sweep, metric="loss", budget="steps", budgets=[10, 100]
        ...     )
    """
    if not isinstance(factor, int) or factor < 2:
        raise ValueError(f"factor must be an integer above 1, not {factor!r}")
    if not budgets or list(budgets) != sorted(set(budgets)):
        raise ValueError(f"budgets must increase from rung to rung: {budgets!r}")
    ranked((), metric, mode)
    units: list[tuple[dict[str, Any], WorkUnit | None]] = [(dict(one), None) for one in sweep]
    if not units:
        raise ValueError("the sweep is empty")
    rungs = []
    for level, amount in enumerate(budgets):
        added = [
            experiment.add(job, {**config, budget: amount}, previous=before)
            for config, before in units
        ]
        experiment.wait(added)
        order = ranked(dict.fromkeys(added), metric, mode)
        rungs.append(order)
        configs = {unit.work_unit_id: config for unit, (config, _) in zip(added, units)}
        kept = [unit for unit in order if unit.status.state == "completed"]
        kept = kept[: max(1, math.ceil(len(units) / factor))]
        units = [(configs[unit.work_unit_id], unit) for unit in kept]
        if not units or level + 1 == len(budgets):
            break
    return rungs
