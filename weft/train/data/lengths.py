"""Sequences of different lengths: padding, buckets of similar lengths, and packing."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.train.data.cursors import HERE
from weft.train.data.errors import DataError
from weft.train.data.node import Node
from weft.train.data.rows import Columns, Rows, join_arrays, stack
from weft.train.data.streams import Sequential, WindowReader


def column(element: Any, name: Any, what: str) -> np.ndarray:
    """A column of an element as an array; the element itself if the name is None."""
    if name is None:
        return np.asarray(element)
    if type(element) is dict and name in element:  # the usual case, quickly
        found = element[name]
        return found if type(found) is np.ndarray else np.asarray(found)
    if not isinstance(element, Mapping):
        raise DataError(
            f"{what} names the column {name!r}, but elements are {type(element).__name__}, not "
            "dictionaries"
        )
    if name not in element:
        known = ", ".join(map(repr, element))
        raise DataError(f"{what} names a column {name!r}; elements have {known}")
    return np.asarray(element[name])


def fitted(array: np.ndarray, length: int, fill: Any, truncate: bool, where: str) -> np.ndarray:
    """An array whose first axis has a length."""
    if array.ndim == 0:
        raise DataError(f"{where} is a single number: only arrays have a length")
    missing = length - array.shape[0]
    if missing == 0:
        return array
    if missing < 0:
        if not truncate:
            raise DataError(
                f"{where} has {array.shape[0]} entries, more than {length}. Pass truncate=True to "
                "cut them off, or filter such elements out"
            )
        return array[:length]
    return np.concatenate([array, np.full((missing, *array.shape[1:]), fill, array.dtype)])


class Pad:
    """A function for ``map`` that gives columns of elements a fixed length."""

    __name__ = "pad"

    def __init__(self, lengths: Any, fill: Any, truncate: bool) -> None:
        self.lengths = lengths if isinstance(lengths, Mapping) else {None: lengths}
        self.fill, self.truncate = fill, truncate

    def __call__(self, element: Any) -> Any:
        made = dict(element) if isinstance(element, Mapping) else {}
        for name, length in self.lengths.items():
            array = column(element, name, "pad()")
            where = "an element" if name is None else f"column {name!r}"
            made[name] = fitted(array, length, self.fill, self.truncate, where)
        return made[None] if None in self.lengths else made


class Pack(Sequential):
    """Rows of a fixed length, each with as many whole sequences as fit."""

    reader = WindowReader

    def __init__(self, parent: Node, lengths: Mapping[str, int], window: int, trim: bool) -> None:
        super().__init__(parent)
        self.lengths, self.window, self.truncate = dict(lengths), window, trim

    def describe(self) -> str:
        return f"pack({self.lengths}, window={self.window})"

    def window_of(self, rows: Rows, number: int, epoch: int) -> Rows:
        """The rows that the elements of a window are packed into."""
        if not len(rows):
            return []
        elements = list(rows)
        arrays = {name: self._sequences(elements, name) for name in self.lengths}
        sizes = np.array([[len(array) for array in each] for each in arrays.values()])
        bins, starts, segments, count = first_fit(sizes, list(self.lengths.values()))
        made: dict[str, np.ndarray] = {}
        for place, (name, length) in enumerate(self.lengths.items()):
            packed = scatter(arrays[name], sizes[place], bins * length + starts[place], segments)
            for suffix, flat in zip(("", "_segment_ids", "_positions"), packed):
                whole = np.zeros(count * length, flat.dtype)
                whole[packed[3]] = flat
                made[name + suffix] = whole.reshape(count, length)
        return Columns(made, count)

    def _sequences(self, elements: list[Any], name: str) -> list[np.ndarray]:
        length = self.lengths[name]
        if all(type(element) is dict for element in elements):
            found = [element.get(name) for element in elements]
            if all(type(x) is np.ndarray and x.ndim == 1 and len(x) <= length for x in found):
                return found
        return [self._sequence(element, name) for element in elements]

    def _sequence(self, element: Any, name: str) -> np.ndarray:
        array = column(element, name, "pack()")
        if array.ndim != 1:
            raise DataError(f"pack() needs one axis in column {name!r}, which has {array.ndim}")
        length = self.lengths[name]
        if len(array) > length:
            return fitted(array, length, 0, self.truncate, f"column {name!r}")
        return array


def scatter(
    arrays: Sequence[np.ndarray], sizes: np.ndarray, begins: np.ndarray, segments: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """All entries of some arrays: values, segment ids, positions, and where each goes."""
    ends = np.cumsum(sizes)
    offsets = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
    return (
        np.concatenate(arrays),
        np.repeat(segments, sizes),
        offsets.astype(np.int32),
        offsets + np.repeat(begins, sizes),
    )


def first_fit(
    sizes: np.ndarray, capacities: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Put each of some things into the first bin that has room for it.

    Args:
        sizes: of things, a row for each kind of size.
        capacities: of bins, for each kind of size.

    Returns:
        The bin of each thing, where it begins there (a row for each kind), the how manieth in its
        bin it is, and the number of bins.

    Example:
        >>> bins, starts, segments, count = first_fit(np.array([[3, 4, 2, 1, 4]]), [5])
        >>> bins.tolist(), starts.tolist(), segments.tolist(), count
        ([0, 1, 0, 1, 2], [[0, 0, 3, 4, 0]], [1, 1, 2, 2, 1], 3)
    """
    if len(sizes) == 1:
        return _first_fit_of_one(sizes[0].tolist(), capacities[0])
    kinds, things = sizes.shape
    room = np.empty((kinds, things), np.int64)
    held = [0] * things
    bins, segments = np.empty(things, np.int64), np.empty(things, np.int32)
    starts = np.empty((kinds, things), np.int64)
    opened = 0
    for thing, needs in enumerate(sizes.T.tolist()):
        fits = room[0, :opened] >= needs[0]
        for kind in range(1, kinds):
            fits &= room[kind, :opened] >= needs[kind]
        place = int(fits.argmax()) if opened else 0
        if place == opened or not fits[place]:
            place = opened
            room[:, opened] = capacities
            opened += 1
        bins[thing] = place
        held[place] += 1
        segments[thing] = held[place]
        for kind, need in enumerate(needs):
            left = int(room[kind, place])
            starts[kind, thing] = capacities[kind] - left
            room[kind, place] = left - need
    return bins, starts, segments, opened


def _first_fit_of_one(
    sizes: list[int], capacity: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """The same for one kind of size, with a tree of the most room that is left below each node."""
    leaves = 1 << (len(sizes) - 1).bit_length()
    room, held = [capacity] * (2 * leaves), [0] * leaves
    bins, starts, segments = [], [], []
    for need in sizes:
        node = 1
        while node < leaves:
            node *= 2
            if room[node] < need:
                node += 1
        place, left = node - leaves, room[node]
        bins.append(place)
        starts.append(capacity - left)
        held[place] += 1
        segments.append(held[place])
        room[node] = left - need
        while node > 1:
            node //= 2
            below = room[2 * node]
            most = below if below > room[2 * node + 1] else room[2 * node + 1]
            if room[node] == most:
                break
            room[node] = most
    counted = np.asarray(bins, np.int64), np.asarray([starts], np.int64)
    return *counted, np.asarray(segments, np.int32), max(bins) + 1


class _BucketReader:
    """Holds elements until a bucket is full; its state names where they were read, not what."""

    def __init__(self, node: "Bucket", runner: Any, epoch: int) -> None:
        self.node, self.runner, self.epoch = node, runner, epoch
        self.parent = node.parents[0].cursor(runner, epoch)
        self.held: list[list[tuple[Any, Any]]] = [[] for _ in node.boundaries]

    def pull(self, count: int) -> Rows:
        made: list[Any] = []
        while len(made) < count:
            before = self.parent.state()
            rows = list(self.parent.pull(1))
            full = self._add(rows[0], before) if rows else self._partial()
            if full is not None:
                made.append(self._batch(full))
            elif not rows:
                break
        return made

    def _add(self, element: Any, before: Any) -> int | None:
        bucket = self.node.bucket_of(element)
        self.held[bucket].append((element, before))
        return bucket if len(self.held[bucket]) == self.node.sizes[bucket] else None

    def _partial(self) -> int | None:
        """A bucket with elements that are left at the end."""
        if self.node.drop:
            return None
        return next((bucket for bucket, held in enumerate(self.held) if held), None)

    def _batch(self, bucket: int) -> Any:
        held, self.held[bucket] = self.held[bucket], []
        return self.node.batch_of([element for element, _ in held], bucket)

    def state(self) -> Any:
        return [[[before for _, before in held] for held in self.held], self.parent.state()]

    def restore(self, state: Any) -> None:
        saved, last = state
        # streams are read forwards only, so by place
        places = [(place, b, i) for b, held in enumerate(saved) for i, place in enumerate(held)]
        places.sort(key=lambda entry: _order(entry[0]))
        self.held = [[(None, None)] * len(held) for held in saved]
        reader = self.parent
        if self.runner is not HERE:
            reader = self.node.parents[0].cursor(HERE, self.epoch)
        for place, bucket, number in places:
            reader.restore(place)
            (element,) = reader.pull(1)
            self.held[bucket][number] = (element, place)
        self.parent.restore(last)

    def close(self) -> None:
        self.parent.close()


def _order(state: Any) -> list[int]:
    """A state as numbers that grow while its cursor is read."""
    return [n for part in state for n in _order(part)] if isinstance(state, list) else [state]


class Bucket(Sequential):
    """Batches of elements of similar length."""

    reader = _BucketReader

    def __init__(
        self,
        parent: Node,
        columns: Sequence[Any],
        boundaries: Sequence[int],
        sizes: Sequence[int],
        fill: Any,
        drop: bool,
    ) -> None:
        super().__init__(parent)
        self.columns, self.boundaries, self.sizes = list(columns), list(boundaries), list(sizes)
        self.fill, self.drop = fill, drop

    def describe(self) -> str:
        return f"bucket({self.boundaries}, {self.sizes}, drop_remainder={self.drop})"

    def bucket_of(self, element: Any) -> int:
        """The bucket of an element."""
        arrays = [column(element, name, "bucket()") for name in self.columns]
        if any(array.ndim == 0 for array in arrays):
            raise DataError("bucket() names a column of single numbers: only arrays have a length")
        longest = max(array.shape[0] for array in arrays)
        place = int(np.searchsorted(self.boundaries, longest))
        if place == len(self.boundaries):
            raise DataError(
                f"an element has length {longest}, and the last boundary of bucket() is "
                f"{self.boundaries[-1]}: add one, or filter such elements out"
            )
        return place

    def batch_of(self, elements: list[Any], bucket: int) -> Any:
        """A batch, whose columns are padded to the boundary of the bucket."""
        length, made = self.boundaries[bucket], {}
        for name in self.columns:
            arrays = [column(element, name, "bucket()") for element in elements]
            padded = [fitted(array, length, self.fill, False, str(name)) for array in arrays]
            made[name] = join_arrays(padded, None, f"column {name!r}")
        if None in made:
            return made[None]
        others = [{k: v for k, v in e.items() if k not in made} for e in elements]
        try:
            return {**made, **stack(others)}
        except DataError as error:
            raise DataError(f"{error}, or name it in bucket(columns)") from None
