"""Sources in memory: arrays, memory-mapped files of NumPy, sequences and iterables."""

import itertools
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from weft.train.data.errors import DataError, add_place
from weft.train.data.node import Node
from weft.train.data.rows import Chunk, Columns, paths, structure, tree_map

_SAMPLES, _SAMPLE = 64, 4096  # blocks of a source that are compared, and their bytes


def sampled_checksum(read: Callable[[int, int], bytes], size: int) -> int:
    """A checksum of blocks all over a source of some bytes; of all bytes if it is small."""
    if size <= _SAMPLES * _SAMPLE:
        return zlib.crc32(read(0, size))
    check = 0
    for number in range(_SAMPLES):
        start = (size - _SAMPLE) * number // (_SAMPLES - 1)
        check = zlib.crc32(read(start, _SAMPLE), check)
    return check


class Arrays(Node):
    """Rows of arrays: a batch is one gather of each."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree_map(_as_array, tree)
        found = paths(self.tree)
        if not found:
            raise DataError(f"a source of arrays needs at least one, not {structure(tree)}")
        sizes = {path: leaf.shape[0] if leaf.ndim else None for path, leaf in found}
        if len(set(sizes.values())) > 1 or None in sizes.values():
            listed = ", ".join(f"{path} has {size}" for path, size in sizes.items())
            raise DataError(f"arrays need first axes of the same size: {listed}")
        self.span = found[0][1].shape[0]
        self._print: Any = None

    def describe(self) -> str:
        return "arrays"

    def fingerprint(self) -> Any:
        if self._print is None:
            self._print = [
                [path, str(leaf.dtype), list(leaf.shape), _checksum(leaf)]
                for path, leaf in paths(self.tree)
            ]
        return self._print

    def rows(self, slots: np.ndarray, epoch: int, session: dict) -> Chunk:
        count = len(slots)
        if count and slots[-1] - slots[0] == count - 1 and (np.diff(slots) == 1).all():
            part = slice(int(slots[0]), int(slots[-1]) + 1)
            # a copy, because it may be changed
            return Chunk(Columns(tree_map(lambda x: x[part].copy(), self.tree), count))
        return Chunk(Columns(tree_map(lambda x: x.take(slots, 0), self.tree), count))


def _as_array(leaf: Any) -> np.ndarray:
    if isinstance(leaf, np.ndarray):
        return leaf
    array = np.asarray(leaf)
    if array.dtype.kind in "US":  # texts of any length, as batches hold them
        array = array.astype(object)
    return array


def _checksum(array: np.ndarray) -> int:
    if array.dtype == object:
        return zlib.crc32(repr(array[:: max(1, len(array) // _SAMPLES)].tolist()).encode())
    rows = array[:: max(1, len(array) // _SAMPLES)] if array.nbytes > _SAMPLES * _SAMPLE else array
    check = 0
    for row in rows:
        check = zlib.crc32(np.ascontiguousarray(row).tobytes()[: 16 * _SAMPLE], check)
    return check


class MappedArrays(Arrays):
    """Rows of arrays in ``.npy`` files, which stay on the disk until they are read."""

    def __init__(self, files: Any) -> None:
        self.files = tree_map(os.fspath, files)
        super().__init__(tree_map(_map_file, self.files))

    def __getstate__(self) -> dict:
        return {**self.__dict__, "tree": None}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self.tree = tree_map(_map_file, self.files)

    def describe(self) -> str:
        return "npy"


def _map_file(path: str) -> np.ndarray:
    try:
        # a plain array: slices of a memmap are slow to make
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False)).view(np.ndarray)
    except ValueError as error:
        raise DataError(f"{path} is not a .npy file of plain numbers: {error}") from None


class Indexable(Node):
    """Elements of any object with ``__len__`` and ``__getitem__``."""

    def __init__(self, items: Any) -> None:
        self.items, self.span = items, len(items)
        self._many = getattr(items, "__getitems__", None)

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_many": None}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._many = getattr(self.items, "__getitems__", None)

    def describe(self) -> str:
        return "source"

    def fingerprint(self) -> Any:
        return [type(self.items).__name__, self.span]

    def rows(self, slots: np.ndarray, epoch: int, session: dict) -> Chunk:
        items, made = self.items, []
        if self._many is not None:
            made = list(self._many(slots.tolist()))
            if len(made) != len(slots):
                raise DataError(
                    f"{type(items).__name__}.__getitems__ was asked for {len(slots)} elements "
                    f"and returned {len(made)}"
                )
            return Chunk([_plain(element) for element in made])
        number = 0
        try:
            for number in slots.tolist():
                made.append(_plain(items[number]))
        except Exception as error:
            add_place(error, type(items).__name__, number)
            raise
        return Chunk(made)


def _plain(element: Any) -> Any:
    """An element with tensors of other libraries as NumPy arrays."""
    kind = type(element)
    if kind in _PLAIN:
        return element
    if kind is dict:
        if all(type(value) in _PLAIN for value in element.values()):
            return element
        return {key: _plain(value) for key, value in element.items()}
    if isinstance(element, Mapping):
        return {key: _plain(value) for key, value in element.items()}
    if isinstance(element, tuple):
        values = [_plain(value) for value in element]
        return kind(*values) if hasattr(element, "_fields") else tuple(values)
    if hasattr(element, "__array__") and not isinstance(element, (np.ndarray, np.generic)):
        return np.asarray(element)
    return element


_PLAIN = {np.ndarray, bool, int, float, str, bytes, list, type(None)}
_PLAIN |= {np.dtype(code).type for code in "?bhilqBHILQefdFD"}


class Stream(Node):
    """Elements of an iterable, which is read again for every epoch and by every worker."""

    forward = True

    def __init__(self, items: Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        self.items = items
        self.once = isinstance(items, Iterator)
        self._opened = False

    def describe(self) -> str:
        return "stream"

    def fingerprint(self) -> Any:
        return ["stream"]

    def rows(self, slots: np.ndarray, epoch: int, session: dict) -> Chunk:
        if not len(slots):
            return Chunk([])
        position, items, opened = session.get(id(self), (0, None, None))
        if items is None or opened != epoch or slots[0] < position:
            position, items = 0, self._open()
        made, ended = [], False
        for slot in slots.tolist():
            skipped = len(list(itertools.islice(items, slot - position)))
            try:
                made.append(_plain(next(items)))
            except StopIteration:
                ended = True
                position = position + skipped
                break
            position = slot + 1
        session[id(self)] = (position, items, epoch)
        return Chunk(made, None if not ended else np.arange(len(made)), ended)

    def _open(self) -> Iterator[Any]:
        if self.once:
            if self._opened:
                raise DataError(
                    "an iterator can be read only once, by one reader. Pass a function that "
                    "returns a new one to read it again, from a saved state or in workers"
                )
            self._opened = True
            return self.items
        return iter(self.items() if callable(self.items) else self.items)

    def __getstate__(self) -> dict:
        if self.once:
            raise DataError(
                "an iterator cannot be read by worker processes: pass a function that returns a "
                "new iterator; each worker calls it"
            )
        return self.__dict__


def source_of(items: Any) -> Node:
    """The node for any object with elements."""
    plain = not isinstance(items, Mapping)
    if plain and hasattr(items, "__getitem__") and hasattr(items, "__len__"):
        return Indexable(items)
    if plain and (isinstance(items, Iterable) or callable(items)):
        return Stream(items)
    raise TypeError(
        f"source() takes an object with __len__ and __getitem__, an iterable, or a function that "
        f"returns one, not {type(items).__name__}"
        + (". Pass a dictionary of arrays to arrays()" if not plain else "")
    )


def as_files(path: Any) -> list[str]:
    """One path or several, as texts."""
    given: Sequence = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    if not given:
        raise DataError("a source of files needs at least one")
    return [os.fspath(each) for each in given]
