"""Sequential nodes: transformations that depend on what came before them."""

from typing import Any

import numpy as np

from weft.train.data.cursors import HERE
from weft.train.data.indexed import Batching, Function
from weft.train.data.node import Node
from weft.train.data.permutation import Permutation, fold
from weft.train.data.rows import Rows, concatenate, select


class Sequential(Node):
    """A node that is read from front to back; ``reader`` is the class of its cursors."""

    indexed = False
    dense = False
    block = 1
    reader: Any = None

    def __init__(self, *parents: Node) -> None:
        self.parents = parents

    def cursor(self, runner: Any = HERE, epoch: int = 0) -> Any:
        return self.reader(self, runner, epoch)


class Reader:
    """A cursor over one parent, with a count of what it took from there."""

    def __init__(self, node: Any, runner: Any, epoch: int) -> None:
        self.node, self.runner, self.epoch = node, runner, epoch
        self.parent = node.parents[0].cursor(runner, epoch)
        self.count = 0

    def take(self, count: int) -> tuple[Rows, np.ndarray]:
        """Rows of the parent, and their numbers."""
        rows = self.parent.pull(count)
        numbers = np.arange(self.count, self.count + len(rows))
        self.count += len(rows)
        return rows, numbers

    def state(self) -> Any:
        return [self.count, self.parent.state()]

    def restore(self, state: Any) -> None:
        self.count = int(state[0])
        self.parent.restore(state[1])

    def close(self) -> None:
        self.parent.close()


class _MapReader(Reader):
    def pull(self, count: int) -> Rows:
        return self.node.function.mapped(*self.take(count), self.epoch)


class SequentialMap(Sequential):
    """Elements as a function returns them."""

    reader = _MapReader

    def __init__(self, parent: Node, function: Function) -> None:
        super().__init__(parent)
        self.function = function

    def describe(self) -> str:
        seed = self.function.seed
        return "map" if seed is None else f"map(seed={seed})"


class _FilterReader(Reader):
    def pull(self, count: int) -> Rows:
        parts: list[Rows] = []
        found = 0
        while found < count:
            rows, numbers = self.take(count - found)
            if not len(rows):
                break
            mask = self.node.function.accepted(rows, numbers, self.epoch)
            parts.append(select(rows, mask))
            found += len(parts[-1])
        return concatenate(parts)


class SequentialFilter(Sequential):
    """The elements for which a function is true."""

    reader = _FilterReader

    def __init__(self, parent: Node, function: Function) -> None:
        super().__init__(parent)
        self.function = function

    def describe(self) -> str:
        return "filter"


class _BatchReader(Reader):
    def pull(self, count: int) -> Rows:
        batching: Batching = self.node.batching
        made: list[Any] = []
        while len(made) < count:
            rows, _ = self.take(batching.size)
            if not len(rows) or (len(rows) < batching.size and batching.remainder == "drop"):
                break
            made.append(batching.of(rows))
        return made


class SequentialBatch(Sequential):
    """Batches of as many elements as come."""

    reader = _BatchReader

    def __init__(self, parent: Node, batching: Batching) -> None:
        super().__init__(parent)
        self.batching = batching

    def describe(self) -> str:
        return self.batching.describe()


class _RangeReader(Reader):
    def pull(self, count: int) -> Rows:
        parts: list[Rows] = []
        found, node = 0, self.node
        while found < count:
            wanted = count - found
            if node.stop is not None:
                wanted = min(wanted, node.stop - self.count)
            if self.count < node.start:
                wanted = min(256, node.start - self.count)
            rows, numbers = self.take(wanted) if wanted > 0 else ([], np.zeros(0, np.int64))
            if not len(rows):
                break
            mask = (numbers >= node.start) & ((numbers - node.start) % node.step == 0)
            parts.append(select(rows, mask))
            found += len(parts[-1])
        return concatenate(parts)


class SequentialRange(Sequential):
    """Every ``step``-th element from ``start`` up to ``stop``."""

    reader = _RangeReader

    def __init__(self, parent: Node, start: int, step: int, stop: int | None, what: str) -> None:
        super().__init__(parent)
        self.start, self.step, self.stop, self.what = start, step, stop, what

    def describe(self) -> str:
        return self.what


class _RepeatReader:
    def __init__(self, node: "SequentialRepeat", runner: Any, epoch: int) -> None:
        self.node, self.runner, self.first = node, runner, epoch * (node.times or 0)
        self.round, self.any = 0, False
        self._open()

    def _open(self) -> None:
        self.parent = self.node.parents[0].cursor(self.runner, self.first + self.round)

    def pull(self, count: int) -> Rows:
        parts: list[Rows] = []
        while count > 0 and self.round != self.node.times:
            rows = self.parent.pull(count)
            parts.append(rows)
            count -= len(rows)
            self.any = self.any or len(rows) > 0
            if count > 0:
                if not self.any:
                    break  # nothing to repeat
                self.parent.close()
                self.round, self.any = self.round + 1, False
                self._open()
        return concatenate(parts)

    def state(self) -> Any:
        return [self.round, int(self.any), self.parent.state()]

    def restore(self, state: Any) -> None:
        self.parent.close()
        self.round, self.any = int(state[0]), bool(state[1])
        self._open()
        self.parent.restore(state[2])

    def close(self) -> None:
        self.parent.close()


class SequentialRepeat(Sequential):
    """The elements again and again; every time is an epoch of its own."""

    reader = _RepeatReader

    def __init__(self, parent: Node, times: int | None) -> None:
        super().__init__(parent)
        self.times = times

    def describe(self) -> str:
        return f"repeat({'' if self.times is None else self.times})"


class WindowReader:
    """A cursor that reads some elements at once, makes others of them, and delivers those.

    Its state is that of the parent before the window, so it keeps no data: the window is read
    again.
    """

    def __init__(self, node: Any, runner: Any, epoch: int) -> None:
        self.node, self.runner, self.epoch = node, runner, epoch
        self.parent = node.parents[0].cursor(runner, epoch)
        self.number, self.offset = 0, 0
        self._before: Any = self.parent.state()
        self._rows: Rows | None = None

    def _fill(self) -> bool:
        """Have a window with rows; False at the end."""
        while self._rows is None or self.offset >= len(self._rows):
            if self._rows is not None:
                self.number, self.offset, self._before = self.number + 1, 0, self.parent.state()
            read = self.parent.pull(self.node.window)
            self._rows = self.node.window_of(read, self.number, self.epoch)
            if not len(read):
                return False
        return True

    def pull(self, count: int) -> Rows:
        parts: list[Rows] = []
        while count > 0 and self._fill():
            part = select(self._rows, slice(self.offset, self.offset + count))
            self.offset, count = self.offset + len(part), count - len(part)
            parts.append(part)
        return concatenate(parts)

    def state(self) -> Any:
        return [self.number, self.offset, self._before]

    def restore(self, state: Any) -> None:
        self.number, self.offset, self._before = int(state[0]), int(state[1]), state[2]
        self._rows = None
        self.parent.restore(self._before)
        if self.offset:
            offset, self.offset = self.offset, 0
            self._fill()
            self.offset = offset

    def close(self) -> None:
        self.parent.close()


class WindowShuffle(Sequential):
    """Elements shuffled within windows."""

    reader = WindowReader

    def __init__(self, parent: Node, seed: int, window: int) -> None:
        super().__init__(parent)
        self.seed, self.window = seed, window

    def describe(self) -> str:
        return f"shuffle(seed={self.seed}, window={self.window})"

    def window_of(self, rows: Rows, number: int, epoch: int) -> Rows:
        """The rows of a window, shuffled."""
        order = Permutation(len(rows), fold(self.seed, epoch, number))
        return select(rows, order.at(np.arange(len(rows)))) if len(rows) else rows


class _MixReader:
    def __init__(self, node: "SequentialMix", runner: Any, epoch: int) -> None:
        self.node = node
        self.parents = [parent.cursor(runner, epoch) for parent in node.parents]
        self.turn = 0
        self.over = [False] * len(self.parents)

    def pull(self, count: int) -> Rows:
        parts: list[Rows] = []
        while len(parts) < count and not all(self.over):
            owner = self.node.turns.owner(self.turn)
            rows = [] if self.over[owner] else self.parents[owner].pull(1)
            if len(rows):
                parts.append(rows)
            elif self.node.stop == "first":
                self.over = [True] * len(self.over)
                break
            else:
                self.over[owner] = True
            self.turn += 1
        return concatenate(parts)

    def state(self) -> Any:
        over = [int(each) for each in self.over]
        return [self.turn, over, [parent.state() for parent in self.parents]]

    def restore(self, state: Any) -> None:
        self.turn, self.over = int(state[0]), [bool(each) for each in state[1]]
        for parent, saved in zip(self.parents, state[2]):
            parent.restore(saved)

    def close(self) -> None:
        for parent in self.parents:
            parent.close()


class SequentialMix(Sequential):
    """Elements of several nodes in turn, by rates."""

    reader = _MixReader

    def __init__(self, parents: tuple[Node, ...], turns: Any, stop: str) -> None:
        super().__init__(*parents)
        self.turns, self.stop = turns, stop

    def describe(self) -> str:
        return f"mix({list(self.turns.weights)}, stop={self.stop!r})"


class _ChainReader:
    def __init__(self, node: "Chain", runner: Any, epoch: int) -> None:
        self.node, self.runner, self.epoch = node, runner, epoch
        self.number = 0
        self._open()

    def _open(self) -> None:
        self.parent = self.node.parents[self.number].cursor(self.runner, self.epoch)

    def pull(self, count: int) -> Rows:
        parts: list[Rows] = []
        while True:
            parts.append(self.parent.pull(count))
            count -= len(parts[-1])
            if count == 0 or self.number + 1 == len(self.node.parents):
                return concatenate(parts)
            self.parent.close()
            self.number += 1
            self._open()

    def state(self) -> Any:
        return [self.number, self.parent.state()]

    def restore(self, state: Any) -> None:
        self.parent.close()
        self.number = int(state[0])
        self._open()
        self.parent.restore(state[1])

    def close(self) -> None:
        self.parent.close()


class Chain(Sequential):
    """The elements of one node after those of another."""

    reader = _ChainReader

    def describe(self) -> str:
        return "concatenate"
