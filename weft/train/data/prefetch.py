"""Elements ahead of their use: computed by a thread, and put onto devices."""

import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import weft  # whose parts are loaded when they are used: workers import this too
from weft.train.data.errors import DataError

_POLL = 0.1  # seconds after which a thread looks whether it should end


def placer(device: Any, sharding: Any) -> Callable[[Any], Any] | None:
    """A function that puts batches where they belong; None: they stay as they are."""
    if device is not None and sharding is not None:
        raise ValueError("pass a device or a sharding to iterator(), not both")
    if device is None and sharding is None:
        return None
    target = sharding if device is None else device
    spread = isinstance(target, weft.sharding.Sharding) and not target.is_fully_addressable

    def put(leaf: Any) -> Any:
        array = np.asarray(leaf)
        if array.dtype.kind not in "biufcV" or array.dtype.names:
            raise DataError(
                f"a batch has an array of {array.dtype}, which devices don't support; remove such "
                "columns with map()"
            )
        if spread:  # every process has its part of the batch
            return weft.make_array_from_process_local_data(target, array)
        return weft.device_put(array, target)

    return lambda batch: weft.tree_util.tree_map(put, batch)


def advance(cursor: Any, place: Callable[[Any], Any] | None) -> tuple[bool, Any]:
    """Whether there is another element, and which; after an error the cursor is where it was."""
    before = cursor.state()
    try:
        for element in cursor.pull(1):
            return True, element if place is None else place(element)
    except BaseException:
        cursor.restore(before)
        raise
    return False, None


class Ahead:
    """A thread that reads a cursor ahead; elements come with the state after them."""

    def __init__(self, cursor: Any, place: Callable[[Any], Any] | None, count: int) -> None:
        self._ready: queue.Queue[tuple[str, Any, Any]] = queue.Queue(count)
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=_fill, args=(cursor, place, self._ready, self._stop), daemon=True
        )
        self._thread.start()

    def next(self) -> tuple[str, Any, Any]:
        """What is next: ``element``, ``end`` or ``error``, the thing, and the state after it."""
        while True:
            with contextlib.suppress(queue.Empty):
                return self._ready.get(timeout=_POLL)
            if not self._thread.is_alive() and self._ready.empty():
                raise DataError("the prefetch thread has stopped")

    def stop(self, patience: float | None = None) -> None:
        """End the thread, and wait until it has; the cursor is somewhere ahead."""
        self._stop.set()
        self._thread.join(patience)


def _fill(cursor: Any, place: Any, ready: queue.Queue, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            more, element = advance(cursor, place)
            entry = ("element" if more else "end", element, cursor.state())
        except Exception as error:
            more, entry = False, ("error", error, cursor.state())
        while not stop.is_set():
            with contextlib.suppress(queue.Full):
                ready.put(entry, timeout=_POLL)
                break
        if not more:
            return
