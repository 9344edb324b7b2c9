"""A step that makes any number of elements of some neighbours, and can be resumed in the middle."""

from collections.abc import Callable
from typing import Any

from weft.train.data import Dataset
from weft.train.data.indexed import Draws
from weft.train.data.node import Node
from weft.train.data.rows import Rows
from weft.train.data.streams import Sequential, WindowReader


class Windows(Sequential):
    """Elements that a function makes of windows of elements."""

    reader = WindowReader

    def __init__(
        self, parent: Node, function: Callable, window: int, seed: int | None, name: str
    ) -> None:
        super().__init__(parent)
        self.function, self.window, self.seed, self.name = function, window, seed, name

    def describe(self) -> str:
        """What a saved state compares."""
        seed = "" if self.seed is None else f", seed={self.seed}"
        return f"{self.name}({self.window}{seed})"

    def window_of(self, rows: Rows, number: int, epoch: int) -> Rows:
        """The elements of a window."""
        elements = list(rows)
        if not elements:
            return []
        if self.seed is None:
            return list(self.function(elements))
        return list(self.function(elements, Draws(self.seed, epoch).of(number)))


def map_windows(
    dataset: Dataset, function: Callable, window: int, seed: int | None = None, name: str = ""
) -> Dataset:
    """Elements that a function makes of every ``window`` neighbours.

    Args:
        dataset: the data set.
        function: called with a list of at most ``window`` elements, and with a seed, with a
            ``numpy.random.Generator``; returns an iterable of elements.
        window: how many elements it gets; fewer at the end.
        seed: of the random numbers.
        name: of the step in saved states.

    Example:
        >>> from weft.train import data
        >>> numbers = data.source([1, 2, 3])
        >>> list(map_windows(numbers, lambda some: [sum(some), 0], 2))
        [3, 0, 3, 0]
    """
    name = name or getattr(function, "__name__", "windows")
    return Dataset(Windows(dataset._node, function, window, seed, name))


def flat_map(
    dataset: Dataset, function: Callable, seed: int | None = None, name: str = ""
) -> Dataset:
    """Elements that a function makes of each element, none or many.

    Args:
        dataset: the data set.
        function: called with an element, and with a seed, with a ``numpy.random.Generator``;
            returns an iterable of elements.
        seed: of the random numbers.
        name: of the step in saved states.

    Example:
        >>> from weft.train import data
        >>> list(flat_map(data.source([1, 2, 3]), range))
        [0, 0, 1, 0, 1, 2]
    """
    name = name or getattr(function, "__name__", "flat_map")
    each: Any = (lambda some: function(some[0])) if seed is None else None
    return map_windows(dataset, each or (lambda some, rng: function(some[0], rng)), 1, seed, name)
