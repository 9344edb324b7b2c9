"""Many elements at once: as a list, or as columns (a tree of arrays with a first axis for rows).

Dictionaries, tuples and named tuples are structure. Everything else is a leaf; lists of numbers
are arrays.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from weft.train.data.errors import DataError


class Columns:
    """Elements as a tree of arrays, whose first axis has a row for each element."""

    __slots__ = ("length", "tree")

    def __init__(self, tree: Any, length: int) -> None:
        self.tree, self.length = tree, length

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Any]:
        return _elements(self.tree, self.length)


Rows = Columns | list


class Chunk(NamedTuple):
    """Elements of consecutive slots.

    ``where`` has the position of each among the slots that were asked for, or is None if every
    slot has an element. ``ended`` says that there are no more slots.
    """

    rows: Rows
    where: np.ndarray | None = None
    ended: bool = False


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """A tree with a function applied to its leaves; None has none."""
    if type(tree) is np.ndarray:
        return function(tree)
    if isinstance(tree, dict):
        return {key: tree_map(function, value) for key, value in tree.items()}
    if isinstance(tree, tuple):
        return _tuple_like(tree, [tree_map(function, value) for value in tree])
    return None if tree is None else function(tree)


def leaves(tree: Any) -> list[Any]:
    """The leaves of a tree."""
    found: list[Any] = []
    tree_map(found.append, tree)
    return found


def paths(tree: Any, path: str = "") -> list[tuple[str, Any]]:
    """The leaves of a tree, each with how it is reached."""
    if isinstance(tree, dict):
        return [p for key, value in tree.items() for p in paths(value, f"{path}[{key!r}]")]
    if isinstance(tree, tuple):
        return [p for i, value in enumerate(tree) for p in paths(value, f"{path}[{i}]")]
    return [] if tree is None else [(path or "the element", tree)]


def _tuple_like(tree: tuple, values: list[Any]) -> tuple:
    return type(tree)(*values) if hasattr(tree, "_fields") else tuple(values)


def _elements(tree: Any, length: int) -> Iterator[Any]:
    if isinstance(tree, dict):
        if not tree:
            return iter([{} for _ in range(length)])
        keys = tuple(tree)
        columns = [_elements(value, length) for value in tree.values()]
        return (dict(zip(keys, values)) for values in zip(*columns))
    if isinstance(tree, tuple):
        columns = [_elements(value, length) for value in tree]
        return (_tuple_like(tree, list(values)) for values in zip(*columns))
    return iter([None] * length) if tree is None else iter(tree)


def select(rows: Rows, which: Any) -> Rows:
    """Some of the rows: a slice, positions, or a mask."""
    if isinstance(rows, Columns):
        if isinstance(which, slice):
            kept = len(range(rows.length)[which])
        else:
            which = np.flatnonzero(which) if which.dtype == bool else which
            kept = len(which)
        return Columns(tree_map(lambda x: x[which], rows.tree), kept)
    if isinstance(which, slice):
        return rows[which]
    return [rows[i] for i in (np.flatnonzero(which) if which.dtype == bool else which)]


def concatenate(parts: Sequence[Rows]) -> Rows:
    """The rows of several parts; columns stay columns if all are and have the same types."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return []
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, Columns) for part in parts) and same_types([p.tree for p in parts]):
        length = sum(map(len, parts))
        return Columns(_join([part.tree for part in parts]), length)
    return [element for part in parts for element in part]


def _join(trees: list[Any]) -> Any:
    first = trees[0]
    if isinstance(first, dict):
        return {key: _join([tree[key] for tree in trees]) for key in first}
    if isinstance(first, tuple):
        return _tuple_like(first, [_join(list(values)) for values in zip(*trees)])
    return None if first is None else np.concatenate(trees)


def same_types(trees: list[Any]) -> bool:
    """Whether trees of columns have the same structure, dtypes and shapes of rows."""
    described = [
        [(path, leaf.dtype, leaf.shape[1:]) for path, leaf in paths(tree)] for tree in trees
    ]
    return all(other == described[0] for other in described[1:])


def columns_of(rows: Rows) -> Columns:
    """Rows as columns."""
    return rows if isinstance(rows, Columns) else Columns(stack(rows), len(rows))


def structure(tree: Any) -> str:
    """A short text of a tree's structure, for messages.

    >>> structure({"x": np.ones((2, 3), np.float32), "y": (1, "a")})
    "{'x': float32[2,3], 'y': (int, str)}"
    """
    if isinstance(tree, dict):
        inside = ", ".join(f"{key!r}: {structure(value)}" for key, value in tree.items())
        return f"{{{inside}}}"
    if isinstance(tree, tuple):
        return f"({', '.join(map(structure, tree))})"
    shape, dtype = getattr(tree, "shape", None), getattr(tree, "dtype", None)
    if shape is not None and dtype is not None:
        return f"{dtype}[{','.join(map(str, shape))}]"
    return type(tree).__name__


def stack(elements: Sequence[Any], fill: Any = None, path: str = "") -> Any:
    """Elements of the same structure as one tree of arrays.

    Args:
        elements: at least one.
        fill: what shorter arrays are filled up with; None: arrays have to have one shape.
        path: where the elements are, for messages.

    Example:
        >>> stack([{"x": 1, "y": [1.0, 2.0]}, {"x": 2, "y": [3.0, 4.0]}])
        {'x': array([1, 2]), 'y': array([[1., 2.],
               [3., 4.]])}
    """
    first = elements[0]
    if isinstance(first, dict):
        keys = first.keys()
        for number, element in enumerate(elements):
            if not isinstance(element, dict) or element.keys() != keys:
                _differ(elements, number, path)
        return {key: stack([e[key] for e in elements], fill, f"{path}[{key!r}]") for key in keys}
    if isinstance(first, tuple):
        for number, element in enumerate(elements):
            if type(element) is not type(first) or len(element) != len(first):
                _differ(elements, number, path)
        parts = [stack(c, fill, f"{path}[{i}]") for i, c in enumerate(zip(*elements))]
        return _tuple_like(first, parts)
    return _stack_leaves(elements, fill, path)


def _differ(elements: Sequence[Any], number: int, path: str) -> None:
    place = f" at {path}" if path else ""
    raise DataError(
        f"the elements of a batch have different structures{place}: the first is "
        f"{structure(elements[0])}, number {number} of the batch is {structure(elements[number])}. "
        "A map function must return the same structure for every element"
    )


def _stack_leaves(values: Sequence[Any], fill: Any, path: str) -> Any:
    first = values[0]
    if first is None:
        for number, value in enumerate(values):
            if value is not None:
                _differ(values, number, path)
        return None
    if isinstance(first, (str, bytes)):
        for number, value in enumerate(values):
            if not isinstance(value, (str, bytes)):
                _differ(values, number, path)
        made = np.empty(len(values), object)
        made[:] = values
        return made
    if isinstance(first, (bool, int, float, complex)):
        return _stack_scalars(values, fill, path)
    if all(type(value) is np.ndarray for value in values):
        return join_arrays(values, fill, path)
    try:
        arrays = [x if isinstance(x, np.ndarray) else np.asarray(x) for x in values]
    except ValueError as error:
        raise DataError(
            f"{path or 'an element'} is a list of lists of different lengths: {error}"
        ) from None
    for number, value in enumerate(values):
        if value is None or isinstance(value, (dict, tuple)):
            _differ(values, number, path)
    return join_arrays(arrays, fill, path)


def _stack_scalars(values: Sequence[Any], fill: Any, path: str) -> np.ndarray:
    try:
        made = np.array(values)
    except ValueError:
        made = None
    if made is None or made.ndim != 1 or made.dtype.kind not in "biufc":
        for number, value in enumerate(values):
            if not isinstance(value, (bool, int, float, complex, np.generic)):
                _differ(values, number, path)
        if made is None or made.dtype.kind not in "biufc":
            raise DataError(f"{path or 'an element'} has integers of more than 64 bits")
    return made


def join_arrays(arrays: Sequence[np.ndarray], fill: Any, path: str) -> np.ndarray:
    """Arrays along a new first axis; where shapes differ, filled up to the largest."""
    shape = arrays[0].shape
    if len({array.shape for array in arrays}) == 1:
        if not shape:
            return np.array(arrays)
        if len(arrays) == 1:
            return arrays[0][None]
        return np.concatenate(arrays).reshape(len(arrays), *shape)
    ranks = {array.ndim for array in arrays}
    if fill is None or len(ranks) > 1:
        other = next(i for i, array in enumerate(arrays) if array.shape != shape)
        advice = (
            "Pass fill=0 to batch() to fill them up, or call pad() before it"
            if len(ranks) == 1
            else "Arrays of different ranks cannot be filled up: return one rank from map()"
        )
        raise DataError(
            f"{path or 'the elements'} of a batch has shapes {shape} and, number {other} of the "
            f"batch, {arrays[other].shape}. {advice}"
        )
    largest = tuple(max(sizes) for sizes in zip(*(array.shape for array in arrays)))
    made = np.full((len(arrays), *largest), fill, np.result_type(*{a.dtype for a in arrays}))
    for row, array in zip(made, arrays):
        row[tuple(map(slice, array.shape))] = array
    return made
