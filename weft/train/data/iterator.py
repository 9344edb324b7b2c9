"""The iterator of a data set: what a training loop reads from, saves and restores."""

from __future__ import annotations

import contextlib
import json
import weakref
import zlib
from typing import Any

from weft.train.data.cursors import HERE
from weft.train.data.errors import DataError
from weft.train.data.node import Node, all_nodes
from weft.train.data.prefetch import Ahead, advance

_FORMAT = 1
_PATIENCE = 5.0  # seconds that an iterator waits for its thread when it is closed


class DataIterator:
    """An iterator that reads a data set from front to back; ``Dataset.iterator`` makes it.

    ``state()`` is where it stands, and ``restore(state)`` takes it, or the iterator of an equal
    data set, to the same place: the next element is the same.

    Args:
        node: the data set's description.
        runner: what computes elements, in this thread or in others.
        prefetch: how many elements are computed ahead.
        place: a function that puts elements on devices, or None.

    Example:
        >>> from weft.train import data
        >>> batches = iter(data.source(range(6)).shuffle(seed=1).batch(2))
        >>> _ = next(batches)
        >>> state = batches.state()
        >>> second = next(batches)
        >>> batches.restore(state)
        >>> (next(batches) == second).all()
        np.True_
    """

    def __init__(
        self, node: Node, runner: Any = HERE, prefetch: int = 0, place: Any = None
    ) -> None:
        self._node, self._runner, self._place = node, runner, place
        self._cursor = node.cursor(runner)
        self._prefetch, self._ahead = prefetch, None
        self._identity: dict[str, str] | None = None
        self._position: Any = self._cursor.state()
        self._over = False
        self._end = weakref.finalize(self, _close, [], self._cursor, runner)

    def __iter__(self) -> DataIterator:
        return self

    def __next__(self) -> Any:
        if self._over:
            raise StopIteration
        if not self._prefetch:
            self._over, element = self._now()
        else:
            self._over, element = self._soon()
        if self._over:
            raise StopIteration
        return element

    def _now(self) -> tuple[bool, Any]:
        more, element = advance(self._cursor, self._place)
        self._position = self._cursor.state()
        return not more, element

    def _soon(self) -> tuple[bool, Any]:
        if self._ahead is None:
            try:
                self._ahead = Ahead(self._cursor, self._place, self._prefetch)
            except RuntimeError:  # the system has no thread left: read without one
                self._prefetch = 0
                return self._now()
            self._end.detach()
            self._end = weakref.finalize(self, _close, [self._ahead], self._cursor, self._runner)
        kind, element, position = self._ahead.next()
        if kind == "error":
            self._rewind()
            raise element
        self._position = position
        return kind == "end", element

    def _rewind(self) -> None:
        """Stop reading ahead, and go back to what was delivered last."""
        if self._ahead is not None:
            self._ahead.stop()
            self._ahead = None
        self._cursor.restore(self._position)

    def state(self) -> dict[str, str]:
        """Where the iterator stands: a dictionary of texts, for JSON or a checkpoint.

        Returns:
            What was read from (the steps of the pipeline, checksums of its sources) and the
            position. It does not depend on workers or prefetching.
        """
        position = json.dumps(self._position, separators=(",", ":"))
        return {**self._describe(), "position": position}

    def restore(self, state: dict[str, str]) -> None:
        """Go to where a state was saved.

        Args:
            state: what ``state()`` returned, here or in another process.

        Raises:
            DataError: the pipeline has other steps, or its sources other data.
        """
        self._position = check_state(state, self._describe())
        self._over = False
        self._rewind()

    def close(self) -> None:
        """End workers and threads, if there are any. The iterator cannot be used any more."""
        self._end()

    def __enter__(self) -> DataIterator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _describe(self) -> dict[str, str]:
        if self._identity is None:
            self._identity = identity(self._node)
        return self._identity


def _close(ahead: list[Ahead], cursor: Any, runner: Any) -> None:
    if runner is not HERE:
        runner.halted = True  # a thread that waits for it ends
    for each in ahead:
        each.stop(_PATIENCE)
    with contextlib.suppress(Exception):
        cursor.close()
    runner.close()


def identity(node: Node) -> dict[str, str]:
    """What a state is of: the steps of a pipeline, and checksums of its sources."""
    nodes = all_nodes(node)
    prints = [part for part in (each.fingerprint() for each in nodes) if part is not None]
    return {
        "format": str(_FORMAT),
        "pipeline": " < ".join(each.describe() for each in nodes),
        "sources": json.dumps([_named(part) for part in prints], separators=(",", ":")),
    }


def _named(part: Any) -> Any:
    """A fingerprint as a name and a checksum of all of it."""
    text = json.dumps(part)
    name = part[0] if isinstance(part[0], str) else part[0][0]
    return [name, f"{zlib.crc32(text.encode()):08x}"]


def check_state(state: Any, expected: dict[str, str]) -> Any:
    """The position of a state, if it is one of this pipeline."""
    if not isinstance(state, dict) or not {"position", *expected} <= state.keys():
        raise DataError(f"this is not a state of a data iterator: {str(state)[:80]}")
    if state["format"] != expected["format"]:
        raise DataError(f"the state has format {state['format']}, this weft {expected['format']}")
    if state["pipeline"] != expected["pipeline"]:
        raise DataError(
            "the state belongs to a different pipeline. It was saved from\n"
            f"    {state['pipeline']}\nand this one is\n    {expected['pipeline']}"
        )
    if state["sources"] != expected["sources"]:
        try:
            old, new = json.loads(state["sources"]), json.loads(expected["sources"])
            changed = [b[0] for a, b in zip(old, new, strict=True) if a != b]
        except (ValueError, TypeError, IndexError, KeyError):
            changed = []
        raise DataError(
            f"{', '.join(changed) or 'a source'} changed since the state was saved: the position "
            "would not be valid. Iterate from the beginning, or restore the data"
        )
    try:
        return json.loads(state["position"])
    except (ValueError, TypeError):
        raise DataError("the state's position is damaged") from None
