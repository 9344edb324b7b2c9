"""Sweeps: lists of configurations, from a grid, at random, or from a Latin hypercube.

A sweep is a plain list of dictionaries: join two with ``+``, filter them with a comprehension.
"""

import dataclasses
import itertools
import math
import random as _random
from collections.abc import Mapping, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Uniform:
    """Numbers from an interval, each as likely as the others.

    Args:
        low: the smallest.
        high: the largest.

    Example:
        >>> Uniform(0.0, 2.0).at(0.25)
        0.5
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"low must be below high, both finite: {self}")

    def at(self, share: float) -> float:
        """The number below which a share of all numbers lies."""
        return self.low + share * (self.high - self.low)


@dataclasses.dataclass(frozen=True)
class LogUniform:
    """Positive numbers whose logarithms are uniform, as for learning rates.

    Args:
        low: the smallest, above 0.
        high: the largest.

    Example:
        >>> round(LogUniform(1e-4, 1.0).at(0.5), 6)
        0.01
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (0 < self.low < self.high < math.inf):
            raise ValueError(f"low must be above 0 and below high: {self}")

    def at(self, share: float) -> float:
        """The number below which a share of all numbers lies."""
        return math.exp(Uniform(math.log(self.low), math.log(self.high)).at(share))


@dataclasses.dataclass(frozen=True)
class Integers:
    """Whole numbers from low to high, both included.

    Args:
        low: the smallest.
        high: the largest.

    Example:
        >>> [Integers(1, 3).at(share) for share in (0.0, 0.5, 0.99)]
        [1, 2, 3]
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        if int(self.low) != self.low or int(self.high) != self.high or self.low > self.high:
            raise ValueError(f"low and high must be integers, with low <= high: {self}")

    def at(self, share: float) -> int:
        """The number at a share of the way."""
        return min(int(self.low + share * (self.high - self.low + 1)), self.high)


@dataclasses.dataclass(frozen=True)
class Choice:
    """One of some values; a plain list stands for it.

    Args:
        values: the values.

    Example:
        >>> Choice(["relu", "gelu"]).at(0.7)
        'gelu'
    """

    values: Sequence[Any]

    def __post_init__(self) -> None:
        if isinstance(self.values, (str, bytes)) or not len(self.values):
            raise ValueError(f"a choice needs a list of at least one value: {self.values!r}")

    def at(self, share: float) -> Any:
        """The value at a share of the way."""
        return self.values[min(int(share * len(self.values)), len(self.values) - 1)]


def _space(name: str, value: Any) -> Any:
    if hasattr(value, "at"):
        return value
    if isinstance(value, (list, tuple, range)):
        return Choice(value)
    raise TypeError(
        f"{name}={value!r} is not a range of values: pass a list, or launch.Uniform, LogUniform,"
        " Integers or Choice"
    )


def _merged(space: Mapping[str, Any] | None, named: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**(space or {}), **named}
    if not merged:
        raise ValueError("a sweep needs at least one parameter: write grid(rate=[0.1, 0.01])")
    return merged


def _count(count: int) -> int:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ValueError(f"the number of configurations must be a positive integer: {count!r}")
    return count


def grid(space: Mapping[str, Sequence[Any]] | None = None, /, **named: Sequence[Any]) -> list[dict]:
    """Every combination of values, the last parameter changing first.

    Args:
        space: values by name, for names that are no keywords.
        **named: values by name.

    Returns:
        A list of configurations.

    Example:
        >>> grid(rate=[0.1, 0.01], depth=[2, 3])
        [{'rate': 0.1, 'depth': 2}, {'rate': 0.1, 'depth': 3},
         {'rate': 0.01, 'depth': 2}, {'rate': 0.01, 'depth': 3}]
    """
    merged = _merged(space, named)
    for name, values in merged.items():
        if isinstance(values, (str, bytes)) or not isinstance(values, Sequence) or not len(values):
            raise TypeError(f"grid({name}={values!r}): pass a list of at least one value")
    return [dict(zip(merged, values)) for values in itertools.product(*merged.values())]


def random(
    count: int, space: Mapping[str, Any] | None = None, /, *, seed: int = 0, **named: Any
) -> list[dict]:
    """Configurations drawn at random; the same for the same seed.

    Args:
        count: how many.
        space: distributions or lists by name, for names that are no keywords.
        seed: the seed.
        **named: distributions or lists by name.

    Returns:
        A list of configurations.

    Example:
        >>> [config["depth"] for config in random(3, rate=LogUniform(1e-4, 1e-1), depth=[1, 2, 3])]
        [3, 1, 2]
    """
    spaces = {name: _space(name, value) for name, value in _merged(space, named).items()}
    draw = _random.Random(seed).random
    return [{name: one.at(draw()) for name, one in spaces.items()} for _ in range(_count(count))]


def latin(
    count: int, space: Mapping[str, Any] | None = None, /, *, seed: int = 0, **named: Any
) -> list[dict]:
    """A Latin hypercube: each parameter has one value in each of ``count`` equal strata.

    Args:
        count: how many.
        space: distributions or lists by name, for names that are no keywords.
        seed: the seed.
        **named: distributions or lists by name.

    Returns:
        A list of configurations.

    Example:
        >>> sweep = latin(5, rate=Uniform(0, 5), width=Uniform(0, 1))
        >>> sorted(int(config["rate"]) for config in sweep)
        [0, 1, 2, 3, 4]
    """
    spaces = {name: _space(name, value) for name, value in _merged(space, named).items()}
    source = _random.Random(seed)
    columns = {}
    for name, one in spaces.items():
        strata = list(range(_count(count)))
        source.shuffle(strata)
        columns[name] = [one.at((stratum + source.random()) / count) for stratum in strata]
    return [dict(zip(columns, values)) for values in zip(*columns.values())]
