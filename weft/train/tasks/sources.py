"""Where tasks read from: a data set for every split."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from weft.train import data
from weft.train.data.node import all_nodes
from weft.train.tasks.features import TaskError
from weft.train.tasks.fingerprints import describe

SAMPLED_ELEMENTS = 64  # of a split, in its fingerprint


class Source:
    """Data sets by split: from a dictionary, or from a function that makes them when needed.

    Args:
        splits_or_function: a dictionary of data sets by split, or a function of a split's name.
        splits: the names of the splits, if it is a function.

    Example:
        >>> source = Source({"train": [{"x": 1}, {"x": 2}], "test": data.source([{"x": 3}])})
        >>> source.splits, source.num_examples("train"), list(source.dataset("test"))
        (('train', 'test'), 2, [{'x': 3}])
        >>> Source(lambda split: [{"split": split}], splits=["train"]).dataset("train")[0]
        {'split': 'train'}
    """

    def __init__(
        self,
        splits_or_function: Mapping[str, Any] | Callable[[str], Any],
        splits: Sequence[str] | None = None,
    ) -> None:
        """A source.

        Args:
            splits_or_function: data sets by split, or what ``weft.train.data.source`` takes, as a
                list; or a function that takes the name of a split and returns such.
            splits: the splits that the function knows.
        """
        if isinstance(splits_or_function, Mapping):
            if splits is not None:
                raise TypeError("the dictionary determines the splits; remove splits=")
            found = dict(splits_or_function)
            self._function: Callable[[str], Any] = found.__getitem__
            self.splits = tuple(found)
        elif callable(splits_or_function):
            if not splits:
                raise TypeError("Source(function) needs splits=, the splits that it supports")
            self._function, self.splits = splits_or_function, tuple(splits)
        else:
            raise TypeError(
                "a source must be a dictionary from splits to data sets, or a function of a "
                "split, not"
                f" {type(splits_or_function).__name__}"
            )

    def dataset(self, split: str) -> data.Dataset:
        """The data set of a split.

        Args:
            split: its name.
        """
        if split not in self.splits:
            raise TaskError(f"there is no split {split!r}, only {', '.join(self.splits)}")
        found = self._function(split)
        if isinstance(found, data.Dataset):
            return found
        if isinstance(found, Iterable) or hasattr(found, "__getitem__") or callable(found):
            return data.source(found)
        raise TaskError(f"the source of split {split!r} is {type(found).__name__}, not a data set")

    def num_examples(self, split: str) -> int | None:
        """How many elements a split has; None if that is known only when it has been read.

        Args:
            split: its name.
        """
        try:
            return len(self.dataset(split))
        except TypeError:
            return None

    def config(self, split: str) -> Any:
        """What a cache compares: the steps of the data set, checksums, and some of its elements.

        Args:
            split: its name.
        """
        dataset = self.dataset(split)
        state = iter(dataset).state()
        size = self.num_examples(split)
        if size is not None:
            step = max(1, size // SAMPLED_ELEMENTS)
            samples = [dataset[at] for at in range(0, size, step)][:SAMPLED_ELEMENTS]
        elif any(getattr(node, "once", False) for node in all_nodes(dataset._node)):
            samples = []
        else:
            samples = list(dataset.take(SAMPLED_ELEMENTS))
        return [state["pipeline"], state["sources"], size, describe(samples)]


def as_source(given: Any) -> Source:
    """A source as it is, or of a dictionary of data sets.

    Args:
        given: either.
    """
    return given if isinstance(given, Source) else Source(given)
