"""Whether processes run the same programs in the same order, where messages don't say it.

NCCL's messages have no mark. So before each run of a program a process tells the others its number,
without waiting for theirs. It looks at the answers when it runs the next one, and has all of them
before it reads a result.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from typing import Any, NamedTuple

import numpy as np

from weft.parallel.transport.watch import fault

# Runs that others may not have begun yet, before a process waits for them.
MOST_AHEAD = 64


def settled(text: str) -> str:
    """The text of a program as all processes write it: without addresses, sets in order."""
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    in_order = lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}"
    return re.sub(r"(?<=frozenset\()\{([^{}]*)\}", in_order, text)


class _Told(NamedTuple):
    """What a process has told others of a run, and where their answers arrive."""

    request: Any
    ranks: tuple[int, ...]
    own: np.ndarray
    rows: np.ndarray


class Order:
    """The programs that processes have begun; ``transport`` waits, and has communicators."""

    def __init__(self, transport: Any) -> None:
        self.transport = transport
        self.comms: dict[tuple[int, ...], Any] = {transport.every: transport.world.Dup()}
        self.names: dict[int, str] = {}
        self.told: deque[_Told] = deque()
        self.lock = threading.RLock()

    def announce(self, ranks: tuple[int, ...], number: int, name: str) -> None:
        """Tell some processes that this one begins a program."""
        with self.lock:
            self.names[number] = name
            own, rows = np.array([number]), np.empty((len(ranks), 1), np.int64)
            comm = self.transport.comm(ranks, self.comms)
            self.told.append(_Told(comm.Iallgather(own, rows), ranks, own, rows))
            self.settle(MOST_AHEAD)

    def settle(self, ahead: int = 0) -> None:
        """Raise where others have begun other programs; wait until at most ``ahead`` runs have no
        answer."""
        with self.lock:
            while self.told:
                first = self.told[0]
                if not first.request.Test():
                    if len(self.told) <= ahead:
                        return
                    name = self._named(int(first.own[0]))
                    with self.transport.at(f"the start of {name}"):
                        self.transport._wait(first.ranks, first.request)
                self.told.popleft()
                self._compare(first)

    def _compare(self, told: _Told) -> None:
        numbers = told.rows[:, 0].tolist()
        other = next((i for i, n in enumerate(numbers) if n != numbers[0]), 0)
        if other:
            raise fault(
                f"processes have begun different programs: process {told.ranks[0]}"
                f" {self._named(numbers[0])}; process {told.ranks[other]}"
                f" {self._named(numbers[other])}. All processes must run the same functions on"
                " arrays of the same types, in the same order"
            )

    def _named(self, number: int) -> str:
        name = self.names.get(number)
        return f"program {number}: {name}" if name else f"program {number}"

    def free(self) -> None:
        """Give the communicators back."""
        for comm in self.comms.values():
            comm.Free()
