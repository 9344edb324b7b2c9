"""How tasks call preprocessors, and preprocessors from functions of one element."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from weft.train.data import Dataset
from weft.train.tasks.features import Feature, TaskError

Element = dict[str, Any]
Features = Mapping[str, Feature]
Lengths = Mapping[str, int] | None
CONTEXT = ("output_features", "sequence_length", "seed")


class MapOverDataset:
    """A preprocessor that applies a function to every element; ``map_over_dataset`` makes it."""

    def __init__(self, function: Callable, random: bool) -> None:
        self.function, self.random = function, random
        functools.update_wrapper(self, function)

    def __call__(self, dataset: Dataset, *, seed: int = 0, **context: Any) -> Dataset:
        """The data set of what the function returns."""
        accepted = inspect.signature(self.function).parameters
        chosen = {name: value for name, value in context.items() if name in accepted}
        call = functools.partial(self.function, **chosen) if chosen else self.function
        return dataset.map(call, seed=seed) if self.random else dataset.map(call)

    __signature__ = inspect.Signature(
        [inspect.Parameter("dataset", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        + [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
            for name in CONTEXT
        ]
    )


def map_over_dataset(function: Callable | None = None, *, random: bool = False) -> Any:
    """Return a preprocessor made of a function of an element.

    Args:
        function: takes an element and, if ``random``, a ``numpy.random.Generator``; it may have
            keyword parameters ``output_features`` and ``sequence_length``.
        random: whether it needs random numbers.

    Returns:
        A function of a data set, or a decorator if ``function`` is left out.

    Example:
        >>> from weft.train import data
        >>> @map_over_dataset
        ... def shout(element):
        ...     return {"text": element["text"].upper()}
        >>> list(shout(data.source([{"text": "a"}])))
        [{'text': 'A'}]
    """
    if function is None:
        return functools.partial(map_over_dataset, random=random)
    return MapOverDataset(function, random)


def apply(
    preprocessor: Callable,
    dataset: Dataset,
    output_features: Features,
    sequence_length: Lengths,
    seed: int,
) -> Dataset:
    """Call a preprocessor with what it has parameters for.

    Args:
        preprocessor: the preprocessor.
        dataset: the data set.
        output_features: of the task.
        sequence_length: lengths of features.
        seed: of random numbers.
    """
    values = dict(zip(CONTEXT, (output_features, sequence_length, seed), strict=True))
    bound = preprocessor.keywords if isinstance(preprocessor, functools.partial) else {}
    accepted = inspect.signature(preprocessor).parameters
    every = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in accepted.values())
    chosen = {
        name: value
        for name, value in values.items()
        if name not in bound and (name in accepted or every)
    }
    made = preprocessor(dataset, **chosen)
    if not isinstance(made, Dataset):
        name = getattr(preprocessor, "__name__", type(preprocessor).__name__)
        raise TaskError(
            f"the preprocessor {name} returned {type(made).__name__}, not a data set; decorate a "
            "function of one element with map_over_dataset"
        )
    return made
