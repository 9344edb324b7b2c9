"""``Dataset``: a pipeline, and the methods that add steps to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import weft
from weft.train.data import indexed, lengths, streams
from weft.train.data.cursors import HERE
from weft.train.data.errors import DataError
from weft.train.data.iterator import DataIterator
from weft.train.data.node import ENDLESS, Node
from weft.train.data.pools import Processes, Threads
from weft.train.data.prefetch import placer
from weft.train.data.rows import structure
from weft.train.data.turns import Turns


def _at_least(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, not {value!r}")
    return int(value)


class Dataset:
    """Elements from a source and what is done with them; nothing is read before it is iterated.

    A data set does not change: every method returns a new one. If it has random access, ``len``
    and ``dataset[i]`` work. ``source``, ``arrays`` and the functions for files make data sets.

    Args:
        node: the description of the source and the steps.

    Example:
        >>> from weft.train import data
        >>> squares = data.source(range(5)).map(lambda x: x * x)
        >>> len(squares), squares[3], list(squares)
        (5, 9, [0, 1, 4, 9, 16])
    """

    def __init__(self, node: Node) -> None:
        self._node = node

    def __len__(self) -> int:
        node = self._node
        if not (node.indexed and node.dense and not node.forward) or node.span is None:
            raise TypeError(f"the length of {self!r} is not known until it has been read")
        if node.span >= ENDLESS:
            raise TypeError(f"{self!r} is repeated forever, so it has no length")
        return node.span

    def __getitem__(self, index: int) -> Any:
        node = self._node
        if not (node.indexed and node.dense and not node.forward):
            raise TypeError(f"{self!r} can only be read from front to back: iterate over it")
        index = int(index)
        number = index + node.span if index < 0 else index
        if not 0 <= number < node.span:
            raise IndexError(f"element {index} of {node.span}")
        for element in node.rows(np.array([number]), 0, {}).rows:
            return element

    def __iter__(self) -> DataIterator:
        return self.iterator()

    def __repr__(self) -> str:
        return f"<Dataset {_chain(self._node)}>"

    def iterator(
        self,
        *,
        workers: int = 0,
        threads: bool = False,
        prefetch: int | None = None,
        device: Any = None,
        sharding: Any = None,
    ) -> DataIterator:
        """An iterator over the elements, in the same order with any number of workers.

        Args:
            workers: processes that compute elements ahead of their use. They do what comes before
                the first step that depends on earlier elements (``filter`` followed by ``batch``,
                ``bucket``, ``pack``, ``shuffle`` with a window); what follows is done here. Arrays
                come back through shared memory.
            threads: workers are threads of this process, which share the interpreter's lock.
            prefetch: elements that a thread keeps ready; by default two, if there are workers, a
                device or a sharding.
            device: where batches are put.
            sharding: how batches are put onto devices. If it spans processes, each gives its part.

        Returns:
            A ``DataIterator``, which can save and restore its position.

        Example:
            >>> from weft.train import data
            >>> batches = data.source(range(4)).batch(2).iterator()
            >>> next(batches)
            array([0, 1])
        """
        workers = _at_least("iterator(workers=...)", workers, 0)
        place = placer(device, sharding)
        if prefetch is None:
            prefetch = 2 if workers or place else 0
        prefetch = _at_least("iterator(prefetch=...)", prefetch, 0)
        if not workers:
            return DataIterator(self._node, HERE, prefetch, place)
        runner = Threads(workers) if threads else Processes(self._node, workers)
        return DataIterator(self._node, runner, prefetch, place)

    def map(self, function: Callable, *, batched: bool = False, seed: int | None = None) -> Dataset:
        """Elements as a function returns them.

        Args:
            function: called with an element; with ``seed``, with an element and a
                ``numpy.random.Generator``.
            batched: the function takes many elements at once, as a tree of arrays with a row for
                each, and returns such a tree. How many is up to the pipeline, so rows must not
                depend on each other.
            seed: the random numbers of an element depend on it, on the epoch and on the element's
                number, and on nothing else.

        Returns:
            The data set with this step.

        Example:
            >>> from weft.train import data
            >>> points = data.arrays({"x": np.arange(4.0)})
            >>> points.map(lambda rows: {"x": rows["x"] / 2}, batched=True).batch(4)[0]
            {'x': array([0. , 0.5, 1. , 1.5])}
            >>> noisy = points.map(lambda row, rng: row["x"] + rng.normal(), seed=0)
            >>> list(noisy) == list(noisy)
            True
        """
        called = indexed.Function("map", function, batched, seed)
        kind = indexed.Map if self._node.indexed else streams.SequentialMap
        return Dataset(kind(self._node, called))

    def filter(self, function: Callable, *, batched: bool = False) -> Dataset:
        """The elements for which a function is true.

        Args:
            function: called with an element.
            batched: it takes many elements at once, and returns an array of booleans.

        Returns:
            The data set with this step. It has no length, and no random access.

        Example:
            >>> from weft.train import data
            >>> list(data.source(range(6)).filter(lambda x: x % 2 == 0))
            [0, 2, 4]
        """
        called = indexed.Function("filter", function, batched, None)
        kind = indexed.Filter if self._node.indexed else streams.SequentialFilter
        return Dataset(kind(self._node, called))

    def shuffle(self, seed: int, *, window: int | None = None) -> Dataset:
        """Elements in a random order, another one in every epoch.

        The order is a pseudo-random permutation that is computed, not stored, so it costs no
        memory. Shuffle before ``repeat``.

        Args:
            seed: of the order.
            window: shuffle only this many elements at a time. Streams, and files that are slow to
                read at random, need it.

        Returns:
            The data set with this step.

        Example:
            >>> from weft.train import data
            >>> epochs = list(data.source(range(4)).shuffle(seed=0).repeat(2))
            >>> sorted(epochs[:4]) == sorted(epochs[4:]) == [0, 1, 2, 3]
            True
        """
        seed, node = _at_least("shuffle(seed=...)", seed, 0), self._node
        if window is not None:
            window = _at_least("shuffle(window=...)", window, 1)
            return Dataset(streams.WindowShuffle(node, seed, window))
        if not node.indexed or node.forward:
            raise TypeError(
                f"{self!r} can only be read from front to back: pass shuffle(seed, window=...) to "
                "shuffle within a window of that many elements, or shuffle before this step"
            )
        if node.span == ENDLESS:
            raise TypeError(
                "call shuffle() before repeat(): an endless data set cannot be shuffled as a whole"
            )
        return Dataset(indexed.Shuffle(node, seed))

    def repeat(self, times: int | None = None) -> Dataset:
        """The elements several times, or forever.

        Args:
            times: how often; None: without end.

        Returns:
            The data set with this step.

        Example:
            >>> from weft.train import data
            >>> list(data.source("ab").repeat(2))
            ['a', 'b', 'a', 'b']
        """
        times = None if times is None else _at_least("repeat(times)", times, 0)
        known = self._node.indexed and not self._node.forward
        kind = indexed.Repeat if known else streams.SequentialRepeat
        return Dataset(kind(self._node, times))

    def batch(
        self,
        size: int,
        *,
        drop_remainder: bool = False,
        pad_remainder: bool = False,
        fill: Any = None,
        mask: str = "mask",
    ) -> Dataset:
        """Batches: elements of the same structure as one tree of arrays.

        Args:
            size: elements of a batch.
            drop_remainder: leave out the last batch if it is smaller.
            pad_remainder: fill up the last batch with zeros. Every batch gets a column ``mask``
                that is True for real rows (or, if elements are not dictionaries, becomes a pair
                of the batch and the mask).
            fill: arrays of different lengths are filled up with this to the longest of a batch;
                without it they are an error.
            mask: the name of that column.

        Returns:
            The data set of batches.

        Example:
            >>> from weft.train import data
            >>> rows = data.source([{"x": [1]}, {"x": [2, 3]}, {"x": [4]}])
            >>> [batch["x"].tolist() for batch in rows.batch(2, fill=0)]
            [[[1, 0], [2, 3]], [[4]]]
        """
        size = _at_least("batch(size)", size, 1)
        if drop_remainder and pad_remainder:
            raise ValueError("pass drop_remainder or pad_remainder to batch(), not both")
        remainder = "drop" if drop_remainder else "pad" if pad_remainder else "keep"
        batching = indexed.Batching(size, remainder, fill, mask)
        known = self._node.indexed and self._node.dense
        kind = indexed.Batch if known else streams.SequentialBatch
        return Dataset(kind(self._node, batching))

    def shard(
        self,
        index: int | None = None,
        count: int | None = None,
        *,
        drop_remainder: bool = False,
    ) -> Dataset:
        """The part of one process: every ``count``-th element, beginning with number ``index``.

        The parts of all processes are disjoint and complete.

        Args:
            index: of this process; by default ``weft.process_index()``.
            count: of processes; by default ``weft.process_count()``.
            drop_remainder: leave out the last elements, so that all parts have the same length.

        Returns:
            The data set of the part.

        Example:
            >>> from weft.train import data
            >>> [list(data.source(range(5)).shard(i, 2)) for i in range(2)]
            [[0, 2, 4], [1, 3]]
        """
        index = weft.process_index() if index is None else index
        count = weft.process_count() if count is None else count
        count = _at_least("shard(count)", count, 1)
        if _at_least("shard(index)", index, 0) >= count:
            raise ValueError(f"shard(index={index}, count={count}): index must be below count")
        what = f"shard({index}, {count})"
        node, stop = self._node, None
        if drop_remainder:
            if not (node.indexed and node.dense) or node.span is None:
                raise TypeError(
                    "shard(drop_remainder=True) needs a length: shard before filter(), pack() and "
                    "the like"
                )
            stop = node.span // count * count
        return self._range(index, count, stop, what)

    def take(self, count: int) -> Dataset:
        """The first elements.

        Args:
            count: how many, at most.

        Returns:
            The data set with this step.

        Example:
            >>> from weft.train import data
            >>> list(data.source(range(9)).take(2))
            [0, 1]
        """
        count = _at_least("take(count)", count, 0)
        return self._range(0, 1, count, f"take({count})")

    def skip(self, count: int) -> Dataset:
        """All but the first elements.

        Args:
            count: how many are left out.

        Returns:
            The data set with this step.

        Example:
            >>> from weft.train import data
            >>> list(data.source(range(4)).skip(2))
            [2, 3]
        """
        count = _at_least("skip(count)", count, 0)
        return self._range(count, 1, None, f"skip({count})")

    def pad(
        self, length: int | Mapping[str, int], *, fill: Any = 0, truncate: bool = False
    ) -> Dataset:
        """Arrays with a first axis of a fixed length.

        Args:
            length: of the elements, which are arrays; or by column, if they are dictionaries.
            fill: what is added at the end.
            truncate: cut longer arrays; otherwise they are an error.

        Returns:
            The data set with this step.

        Example:
            >>> from weft.train import data
            >>> data.source([{"x": [1, 2]}]).pad({"x": 4})[0]
            {'x': array([1, 2, 0, 0])}
        """
        for each in length.values() if isinstance(length, Mapping) else [length]:
            _at_least("pad(length)", each, 0)
        return self.map(lengths.Pad(length, fill, truncate))

    def bucket(
        self,
        columns: str | Sequence[str] | None,
        boundaries: Sequence[int],
        sizes: int | Sequence[int],
        *,
        fill: Any = 0,
        drop_remainder: bool = False,
    ) -> Dataset:
        """Batches of elements of similar length, padded to one of a few lengths.

        A batch is delivered when its bucket is full, and what is left at the end after that.

        Args:
            columns: the columns that are padded. The longest of them is the length of an element.
                None: elements are arrays.
            boundaries: the lengths, growing: a bucket has the elements up to its boundary, and
                pads them to it.
            sizes: elements of a batch; or one number a bucket.
            fill: what arrays are padded with.
            drop_remainder: leave out what is left at the end.

        Returns:
            The data set of batches.

        Example:
            >>> from weft.train import data
            >>> words = data.source([{"x": [1] * n} for n in (2, 5, 1, 6)])
            >>> [batch["x"].shape for batch in words.bucket("x", [3, 6], 2)]
            [(2, 3), (2, 6)]
        """
        names = [columns] if columns is None or isinstance(columns, str) else list(columns)
        limits = [_at_least("bucket(boundaries)", each, 0) for each in boundaries]
        if not names or not limits or sorted(set(limits)) != limits:
            raise ValueError(
                f"bucket() needs columns, and increasing boundaries; got {names} and {limits}"
            )
        counts = [sizes] * len(limits) if isinstance(sizes, (int, np.integer)) else list(sizes)
        counts = [_at_least("bucket(sizes)", each, 1) for each in counts]
        if len(counts) != len(limits):
            raise ValueError(f"bucket() got {len(limits)} boundaries and {len(counts)} sizes")
        node = lengths.Bucket(self._node, names, limits, counts, fill, drop_remainder)
        return Dataset(node)

    def pack(
        self, length: Mapping[str, int], *, window: int = 1024, truncate: bool = False
    ) -> Dataset:
        """Rows of a fixed length with several sequences each, so that little is padding.

        Sequences go into the first row that has room for them. Beside every column there are two
        more: ``<name>_segment_ids`` counts the sequences of a row from 1 on, and is 0 for padding;
        ``<name>_positions`` counts within each sequence. These are the names of seqio and T5X.

        Args:
            length: of rows, by column. Columns have one axis; others are left out.
            window: sequences that are packed at once. More of them leave less padding, and a
                restored iterator reads up to this many again.
            truncate: cut longer sequences; otherwise they are an error.

        Returns:
            The data set of rows, which ``batch`` makes batches of.

        Example:
            >>> from weft.train import data
            >>> words = data.source([{"x": [5, 6, 7]}, {"x": [8, 9]}, {"x": [4, 4, 4]}])
            >>> next(iter(words.pack({"x": 6})))  # doctest: +NORMALIZE_WHITESPACE
            {'x': array([5, 6, 7, 8, 9, 0]),
             'x_segment_ids': array([1, 1, 1, 2, 2, 0], dtype=int32),
             'x_positions': array([0, 1, 2, 0, 1, 0], dtype=int32)}
        """
        if not isinstance(length, Mapping) or not length:
            raise TypeError(f"pack() takes a length for each column: pack({{'tokens': {length}}})")
        for each in length.values():
            _at_least("pack(length)", each, 1)
        window = _at_least("pack(window=...)", window, 1)
        return Dataset(lengths.Pack(self._node, length, window, truncate))

    def _range(self, start: int, step: int, stop: int | None, what: str) -> Dataset:
        node = self._node
        # a filter decides which elements are the first, but not which shard a slot is in
        plain = node.indexed and (node.dense or what.startswith("shard"))
        kind = indexed.Stride if plain else streams.SequentialRange
        return Dataset(kind(node, start, step, stop, what))


def _chain(node: Node) -> str:
    if not node.parents:
        return node.describe()
    if len(node.parents) == 1:
        return f"{_chain(node.parents[0])}.{node.describe()}"
    return f"[{', '.join(_chain(parent) for parent in node.parents)}].{node.describe()}"


def _nodes(name: str, datasets: Sequence[Dataset]) -> tuple[Node, ...]:
    datasets = tuple(datasets)
    if not datasets:
        raise DataError(f"{name}() takes at least one data set")
    for each in datasets:
        if not isinstance(each, Dataset):
            raise TypeError(
                f"{name}() takes data sets, not {structure(each)}: pass it to source() or arrays()"
            )
    return tuple(each._node for each in datasets)


def concatenate(datasets: Sequence[Dataset]) -> Dataset:
    """The elements of several data sets, one after the other.

    Args:
        datasets: the data sets.

    Returns:
        A data set, with random access if all of them have it.

    Example:
        >>> from weft.train import data
        >>> list(concatenate([data.source([1, 2]), data.source([3])]))
        [1, 2, 3]
    """
    nodes = _nodes("concatenate", datasets)
    plain = all(node.indexed and not node.forward and node.span < ENDLESS for node in nodes)
    return Dataset(indexed.Concatenate(nodes) if plain else streams.Chain(*nodes))


def mix(
    datasets: Sequence[Dataset], rates: Sequence[float] | None = None, *, stop: str = "first"
) -> Dataset:
    """Elements of several data sets in turn, each with its share.

    Turns follow a fixed pattern, in which every data set is always within one element of its share.

    Args:
        datasets: the data sets. Repeat those that should not end the mixture.
        rates: positive numbers, in proportion; by default all are equal. They are kept exactly if
            they are simple fractions, and otherwise to one in 4,096.
        stop: ``"first"``: the mixture ends when a data set is at its end and has its turn;
            ``"all"``: it goes on with the others.

    Returns:
        A data set, with random access if all of them have it and ``stop`` is ``"first"``.

    Example:
        >>> from weft.train import data
        >>> words, numbers = data.source("ab").repeat(), data.source([1, 2, 3])
        >>> list(mix([words, numbers], rates=[2, 1]))
        ['a', 1, 'b', 'a', 2, 'b', 'a', 3, 'b', 'a']
    """
    nodes = _nodes("mix", datasets)
    rates = [1.0] * len(nodes) if rates is None else list(rates)
    if len(rates) != len(nodes):
        raise DataError(f"mix() got {len(nodes)} data sets and {len(rates)} rates")
    if stop not in ("first", "all"):
        raise ValueError(f"mix(stop=...) must be 'first' or 'all', not {stop!r}")
    turns = Turns(rates)
    plain = all(node.indexed and node.dense and not node.forward for node in nodes)
    if plain and stop == "first":
        return Dataset(indexed.Mix(nodes, turns))
    return Dataset(streams.SequentialMix(nodes, turns, stop))
