"""The processes that run one program together: this one's number, and what carries their messages.

``weft.distributed.initialize`` fills it; without that there is one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

index = 0  # of this process
count = 1
place = 0  # of this process among those on the same machine
counts: tuple[int, ...] = ()  # devices of each process; empty where there is one
platform: str | None = None  # of which every process has a device; None for the host


# Processes up to which each sends what a collective needs to every other one itself, marked with
# the number of its program. More of them call MPI's collectives, and compare marks beside.
DIRECT_PROCESSES = 8
# What native code says of a message that met one with another mark; MPI's own codes are smaller.
MET_ANOTHER = 1 << 40
# How the collective that a process waits for is told where GPUs have been given more than that.
QUEUED = ", queued on the GPU"


class Alone:
    """The transport of a process that speaks to itself; others do the same between several."""

    native = False  # whether native code may call functions of it

    @contextmanager
    def at(self, site: Any, kind: str = "") -> Iterator[None]:
        """Say which collective messages belong to; ``kind`` is what must be the same in all
        processes, by default how ``site`` reads."""
        yield

    def all_gather(self, data: np.ndarray, ranks: tuple[int, ...]) -> np.ndarray:
        """What all of some processes have, a row for each."""
        return data[None].copy()

    def all_to_all(self, data: np.ndarray, ranks: tuple[int, ...]) -> np.ndarray:
        """A row from each process; row ``i`` of each one's own goes to the ``i``-th."""
        return data.copy()

    def permute(
        self, data: np.ndarray, moves: tuple[tuple[int, ...], ...], ranks: tuple[int, ...]
    ) -> np.ndarray:
        """Rows that others of some processes send, zeros where none arrives.

        A move has the process and the row that is sent, and those that it goes to.
        """
        out = np.zeros(data.shape, data.dtype)
        for _, row, _, target in moves:
            out[target] = data[row]
        return out

    def swap(
        self, sends: dict[int, np.ndarray], sizes: dict[int, int], what: str
    ) -> dict[int, np.ndarray]:
        """Bytes for each process and from each, of sizes that both know; ``what`` says of what."""
        return sends

    def share(self, value: bytes, ranks: tuple[int, ...] | None = None) -> list[bytes]:
        """A short message of every process."""
        return [value]

    def begin_program(self, name: str, ranks: tuple[int, ...], text: str) -> int:
        """The number of a program among the processes that run it, all of them now.

        Raises where others are about to run another one.
        """
        return 0

    def mark(self, site: Any) -> int:
        """The mark of a collective's messages, which those of other programs do not have."""
        return 0

    def stopped(self, site: Any, ranks: tuple[int, ...], code: int) -> None:
        """Raise what has stopped a message of native code."""

    def check(self) -> None:
        """Raise where others can't answer any more."""

    def announce(self, ranks: tuple[int, ...], number: int, name: str) -> None:
        """Tell others, without waiting, that a program begins whose messages others carry."""

    def settle(self, wait: bool) -> None:
        """Raise where others have begun other programs than were announced; with ``wait``, once all
        of them have answered."""

    @contextmanager
    def waiting(self, site: str) -> Iterator[None]:
        """While others are waited for, by other means than this transport's."""
        yield

    def on_fault(self, function: Callable[[], None]) -> None:
        """Have a function called once others can't answer, by another thread."""

    def at_end(self, function: Callable[[], None]) -> None:
        """Have a function called when processes leave each other."""

    def address(self, name: str) -> int:
        """A function or another word of the library, for native code."""
        raise KeyError(name)


_alone = Alone()
transport: Any = _alone


def set_up(
    own: int, devices: tuple[int, ...], carrier: Any, nearby: int = 0, shared: str | None = None
) -> None:
    """Be one of several processes, the ``nearby``-th of those on this machine; all have a device of
    the platform ``shared``."""
    global index, count, counts, transport, place, platform
    index, count, counts, transport, place = own, len(devices), devices, carrier, nearby
    platform = shared


def reset() -> None:
    """Be alone again."""
    global index, count, counts, transport, place, platform
    index, count, counts, transport, place, platform = 0, 1, (), _alone, 0, None


def are_joined() -> bool:
    """Whether several were asked for."""
    return transport is not _alone
