"""Indexed nodes: transformations that can be computed for any slots on their own."""

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.train.data.errors import DataError, add_place, name_of
from weft.train.data.node import ENDLESS, Follower, Node
from weft.train.data.permutation import Permutation, fold
from weft.train.data.rows import (
    Chunk,
    Columns,
    Rows,
    columns_of,
    concatenate,
    leaves,
    paths,
    same_types,
    select,
    stack,
    structure,
    tree_map,
)


class Function:
    """A user's function as pipelines call it: for every element, or for many at once."""

    def __init__(self, kind: str, function: Callable, batched: bool, seed: int | None) -> None:
        if not callable(function):
            raise TypeError(f"{kind}() takes a function, not {type(function).__name__}")
        if batched and seed is not None:
            raise TypeError(
                f"{kind}(batched=True) does not take a seed, because the number of elements per "
                f"call is not fixed. Call {kind}(function, seed=...) after batch()"
            )
        self.kind, self.function, self.batched, self.seed = kind, function, batched, seed

    @property
    def name(self) -> str:
        return f"{self.kind}({name_of(self.function)})"

    def each(self, rows: Rows, numbers: np.ndarray, epoch: int) -> list[Any]:
        """What the function returns for each of the rows, which have numbers of their own."""
        made: list[Any] = []
        function = self.function
        try:
            if self.seed is None:
                for element in rows:
                    made.append(function(element))
            else:
                draws = Draws(self.seed, epoch)
                for element, number in zip(rows, numbers.tolist()):
                    made.append(function(element, draws.of(number)))
        except Exception as error:
            add_place(error, self.name, int(numbers[len(made)]))
            raise
        return made

    def together(self, rows: Rows, numbers: np.ndarray, check: Callable) -> Any:
        """What the function returns for all rows at once, if a check has nothing against it."""
        columns = columns_of(rows)
        try:
            return check(self.function(columns.tree), len(columns))
        except Exception as error:
            add_place(error, self.name, int(numbers[0]), int(numbers[-1]))
            raise

    def mapped(self, rows: Rows, numbers: np.ndarray, epoch: int) -> Rows:
        """The rows that the function makes of rows."""
        if not len(rows):
            return []
        if not self.batched:
            return self.each(rows, numbers, epoch)
        return self.together(rows, numbers, self._as_columns)

    def _as_columns(self, tree: Any, length: int) -> Columns:
        tree = tree_map(np.asarray, tree)
        found = leaves(tree)
        if not found:
            raise DataError(f"{self.name} returned {structure(tree)}, which has no arrays")
        if all(leaf.shape[:1] == (length,) for leaf in found):
            return Columns(tree, length)
        path, leaf = next((p, x) for p, x in paths(tree) if x.shape[:1] != (length,))
        raise DataError(
            f"{self.name} got {length} elements at once and returned {structure(leaf)} "
            f"for {path}: the first axis must have one row for each"
        )

    def accepted(self, rows: Rows, numbers: np.ndarray, epoch: int) -> np.ndarray:
        """For which rows the function is true."""
        if not len(rows):
            return np.zeros(0, bool)
        if self.batched:
            return self.together(rows, numbers, self._as_mask)
        said = self.each(rows, numbers, epoch)
        return np.fromiter((bool(value) for value in said), bool, len(said))

    def _as_mask(self, mask: Any, length: int) -> np.ndarray:
        mask = np.asarray(mask)
        if mask.shape != (length,) or mask.dtype != bool:
            raise DataError(
                f"{self.name} got {length} elements at once and returned {structure(mask)}: "
                f"it must return bool[{length}]"
            )
        return mask


class Draws:
    """Random numbers for elements: the same for a seed, an epoch and a number."""

    def __init__(self, seed: int, epoch: int) -> None:
        self._bits = np.random.Philox(key=0)
        self._generator = np.random.Generator(self._bits)
        self._fresh = self._bits.state
        self._key = fold(seed, epoch)

    def of(self, number: int) -> np.random.Generator:
        """The generator for an element; that of the one before is not used any more."""
        self._fresh["state"]["key"][:] = (self._key, number)
        self._bits.state = self._fresh
        return self._generator


def kept_numbers(chunk: Chunk, slots: np.ndarray) -> np.ndarray:
    """The slots of the rows of a chunk."""
    return slots[: len(chunk.rows)] if chunk.where is None else slots[chunk.where]


class Map(Follower):
    """Elements as a function returns them."""

    def __init__(self, parent: Node, function: Function) -> None:
        super().__init__(parent)
        self.function = function

    def describe(self) -> str:
        seed = self.function.seed
        return "map" if seed is None else f"map(seed={seed})"

    def rows(self, slots: np.ndarray, epoch: int, session: dict) -> Chunk:
        chunk = self.parents[0].rows(slots, epoch, session)
        made = self.function.mapped(chunk.rows, kept_numbers(chunk, slots), epoch)
        return Chunk(made, chunk.where, chunk.ended)


class Filter(Follower):
    """The elements for which a function is true."""

    dense = False

    def __init__(self, parent: Node, function: Function) -> None:
        super().__init__(parent)
        self.function, self.dense = function, False

    def rows(self, slots: np.ndarray, epoch: int, session: dict) -> Chunk:
        chunk = self.parents[0].rows(slots, epoch, session)
        mask = self.function.accepted(chunk.rows, kept_numbers(chunk, slots), epoch)
        if mask.all():
            return chunk
        kept = np.flatnonzero(mask)
        where = kept if chunk.where is None else chunk.where[kept]
        return Chunk(select(chunk.rows, kept), where, chunk.ended)


class Shuffle(Follower):
    """Elements in an order of their own in every epoch."""

    def __init__(self, parent: Node, seed: int) -> None:
        super().__init__(parent)
        self.seed = seed
        self._orders: dict[int, Permutation] = {}

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_orders": {}}

    def describe(self) -> str:
        return f"shuffle(seed={self.seed})"

    def rows(self, slots: np.ndarray, epoch: int, session: dict) -> Chunk:
        orders = self._orders
        if epoch not in orders:
            recent = dict(list(orders.items())[-1:])  # the last epoch may still be read
            orders = self._orders = {**recent, epoch: Permutation(self.span, self.key(epoch))}
        return self.parents[0].rows(orders[epoch].at(slots), epoch, session)

    def key(self, epoch: int) -> int:
        return fold(self.seed, epoch)


class Repeat(Follower):
    """The elements again and again; every time is an epoch of its own."""

    def __init__(self, parent: Node, times: int | None) -> None:
        super().__init__(parent)
        self.times = times
        self.span = ENDLESS if times is None or parent.span == ENDLESS else parent.span * times
        if parent.span == 0:
            self.span = 0

    def describe(self) -> str:
        return f"repeat({'' if self.times is None else self.times})"

    def rows(self, slots: np.ndarray, epoch: int, session: dict) -> Chunk:
        parent = self.parents[0]
        before = epoch * (self.times or 0)
        low, high = int(slots.min()) // parent.span, int(slots.max()) // parent.span
        if low == high:
            return parent.rows(slots - low * parent.span, before + low, session)
        epochs, inside = np.divmod(slots, parent.span)
        epochs, low, high = epochs + before, low + before, high + before
        parts = [np.flatnonzero(epochs == number) for number in range(low, high + 1)]
        chunks = [parent.rows(inside[p], low + i, session) for i, p in enumerate(parts) if len(p)]
        return merge(chunks, [p for p in parts if len(p)], len(slots))


class Stride(Follower):
    """Every ``step``-th element, beginning with ``start``, ``span`` in all."""

    def __init__(self, parent: Node, start: int, step: int, stop: int | None, what: str) -> None:
        super().__init__(parent)
        self.start, self.step, self.what = start, step, what
        if parent.span is not None:
            end = parent.span if stop is None else min(stop, parent.span)
            self.span = len(range(start, end, step))
        else:
            self.span = None if stop is None else len(range(start, stop, step))

    def describe(self) -> str:
        return self.what

    def rows(self, slots: np.ndarray, epoch: int, session: dict) -> Chunk:
        return self.parents[0].rows(slots * self.step + self.start, epoch, session)


def merge(chunks: list[Chunk], places: list[np.ndarray], length: int) -> Chunk:
    """One chunk of several, whose slots have places among those that were asked for."""
    where = [p[: len(c.rows)] if c.where is None else p[c.where] for c, p in zip(chunks, places)]
    parts = [chunk.rows for chunk in chunks]
    joined = np.concatenate(where)
    ended = any(chunk.ended for chunk in chunks)
    order = np.argsort(joined, kind="stable")
    sorted_where = joined[order]
    whole = None if len(order) == length else sorted_where
    if (order[1:] > order[:-1]).all():
        return Chunk(concatenate(parts), whole, ended)
    filled = [part for part in parts if len(part)]
    columns = all(isinstance(part, Columns) for part in filled)
    if columns and same_types([part.tree for part in filled]):
        return Chunk(select(concatenate(parts), order), whole, ended)
    elements = [element for part in parts for element in part]
    return Chunk([elements[i] for i in order], whole, ended)


class Concatenate(Node):
    """The elements of one node after those of another."""

    def __init__(self, parents: tuple[Node, ...]) -> None:
        self.parents = parents
        self._ends = np.cumsum([0, *(parent.span for parent in parents)])
        self.span = int(self._ends[-1])
        self.dense = all(parent.dense for parent in parents)
        self.block = min(parent.block for parent in parents)

    def rows(self, slots: np.ndarray, epoch: int, session: dict) -> Chunk:
        owners = np.searchsorted(self._ends, slots, side="right") - 1
        chunks, places = [], []
        for number in np.unique(owners):
            place = np.flatnonzero(owners == number)
            inside = slots[place] - self._ends[number]
            chunks.append(self.parents[number].rows(inside, epoch, session))
            places.append(place)
        return merge(chunks, places, len(slots)) if chunks else Chunk([])


class Mix(Node):
    """Elements of several nodes in turn, by rates."""

    def __init__(self, parents: tuple[Node, ...], turns: Any) -> None:
        self.parents, self.turns = parents, turns
        self.span = min(turns.slot_of(k, p.span) for k, p in enumerate(parents))
        self.block = min(parent.block for parent in parents)

    def describe(self) -> str:
        return f"mix({list(self.turns.weights)})"

    def rows(self, slots: np.ndarray, epoch: int, session: dict) -> Chunk:
        owners, inside = self.turns.at(slots)
        chunks, places = [], []
        for number, parent in enumerate(self.parents):
            place = np.flatnonzero(owners == number)
            if len(place):
                chunks.append(parent.rows(inside[place], epoch, session))
                places.append(place)
        return merge(chunks, places, len(slots)) if chunks else Chunk([])


class Batching:
    """How elements become batches: what to do with shapes that differ, and with the last batch."""

    def __init__(self, size: int, remainder: str, fill: Any, mask: str | None) -> None:
        self.size, self.remainder, self.fill, self.mask = size, remainder, fill, mask

    def describe(self) -> str:
        return f"batch({self.size}, remainder={self.remainder!r})"

    def of(self, rows: Rows) -> Any:
        """The batch of some rows, of which there are too few only at the end."""
        tree = rows.tree if isinstance(rows, Columns) else stack(rows, self.fill)
        if self.remainder != "pad":
            return tree
        missing = self.size - len(rows)
        if missing:
            tree = tree_map(lambda x: _lengthened(x, missing), tree)
        mask = np.arange(self.size) < len(rows)
        if isinstance(tree, dict):
            if self.mask in tree:
                raise DataError(
                    f"elements already have a column {self.mask!r}; pass mask= to batch() to "
                    "rename the column that marks real rows"
                )
            return {**tree, self.mask: mask}
        return tree, mask


def _lengthened(array: np.ndarray, missing: int) -> np.ndarray:
    if array.dtype == object:
        filler = np.empty(missing, object)
        filler[:] = type(array[0])()
    else:
        filler = np.zeros((missing, *array.shape[1:]), array.dtype)
    return np.concatenate([array, filler])


class Batch(Node):
    """Batches of a node whose every slot has a row."""

    def __init__(self, parent: Node, batching: Batching) -> None:
        self.parents, self.batching = (parent,), batching
        self.forward = parent.forward
        self.block = 1
        size, span = batching.size, parent.span
        if span is not None and span < ENDLESS:
            self.span = span // size if batching.remainder == "drop" else -(-span // size)
        else:
            self.span = span

    def describe(self) -> str:
        return self.batching.describe()

    def rows(self, slots: np.ndarray, epoch: int, session: dict) -> Chunk:
        parent, size = self.parents[0], self.batching.size
        if len(slots) == 1:
            first = int(slots[0]) * size
            last = first + size if parent.span is None else min(first + size, parent.span)
            wanted = np.arange(first, last)
        else:
            wanted = (slots[:, None] * size + np.arange(size)).reshape(-1)
            wanted = wanted if parent.span is None else wanted[wanted < parent.span]
        chunk = parent.rows(wanted, epoch, session)
        made = []
        for begin in range(0, len(chunk.rows), size):
            rows = chunk.rows
            if begin or len(rows) > size:
                rows = select(rows, slice(begin, begin + size))
            if len(rows) == size or self.batching.remainder != "drop":
                made.append(self._batch(rows, int(slots[begin // size])))
        where = None if len(made) == len(slots) else np.arange(len(made))
        return Chunk(made, where, chunk.ended)

    def _batch(self, rows: Rows, number: int) -> Any:
        try:
            return self.batching.of(rows)
        except DataError as error:
            add_place(error, f"batch({self.batching.size})", number)
            raise
