"""Messages of a program between GPUs: calls of NCCL on its memory, in the order of its stream.

The GPUs are those of several processes, or (``several.py``) of one. Where NCCL can't join those of
processes, the host sends what they have. A wait for a GPU ends when the others can't answer.
"""

from __future__ import annotations

import abc
import contextlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

from weft.backends.cuda import commands as c
from weft.backends.cuda import driver, nccl
from weft.base import knobs
from weft.base.errors import JaxRuntimeError
from weft.base.source import warn
from weft.core import processes
from weft.core.interpret import storage_dtype

Ranks = tuple[int, ...]
# How NCCL is asked to take several processes to one GPU, for tests.
_SHARED = "NCCL_MULTI_RANK_GPU_ENABLE"
# Times that a stream is asked for before the process sleeps in between, the seconds of these naps,
# and of the time between two looks at NCCL.
SPINS, NAP, PERIOD = 200, 1e-4, 0.1


class Members(abc.ABC):
    """Whom a program sends messages to: communicators by the numbers of their members."""

    @property
    @abc.abstractmethod
    def index(self) -> int:
        """The number of whoever runs the program."""

    @abc.abstractmethod
    def comm(self, ranks: Ranks) -> nccl.Communicator | None:
        """The communicator of some members, made by all of them together; None without NCCL."""

    @contextlib.contextmanager
    def speaking(self, site: Any) -> Iterator[None]:
        """While a call is made that may wait for others."""
        yield

    @abc.abstractmethod
    def begin(self, ranks: Ranks, site: Any) -> None:
        """Called before each run of a program with messages between some members."""


class Processes(Members):
    """The processes of a job, each with a GPU."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.comms: dict[Ranks, nccl.Communicator | None] = {}
        self.site: Any = "messages"
        self.warned: set[str] = set()

    @property
    def index(self) -> int:
        return processes.index

    def comm(self, ranks: Ranks) -> nccl.Communicator | None:
        if self.transport is not processes.transport:  # another job
            self.close()
            self.transport = processes.transport
            self.transport.at_end(self.close)
        if ranks not in self.comms:
            self.comms[ranks] = self._joined(ranks)
        return self.comms[ranks]

    def _joined(self, ranks: Ranks) -> nccl.Communicator | None:
        transport, own = self.transport, ranks.index(self.index)
        told = {"gpu": driver.device().identity(), "nccl": nccl.available(), "key": ""}
        if told["nccl"] and own == 0:
            told["key"] = nccl.new_key().hex()
        rows = [json.loads(row) for row in transport.share(json.dumps(told).encode(), ranks)]
        found, reason = None, _refusal(rows, ranks)
        if not reason:
            limit, key = knobs.distributed_timeout.value, bytes.fromhex(rows[0]["key"])
            try:
                found = nccl.join(key, own, len(ranks), limit, transport.check)
            except nccl.NcclError as error:
                reason = str(error)
            # all of them, or none
            reasons = [row.decode() for row in transport.share(reason.encode(), ranks)]
            reason = next(filter(None, reasons), "")
            if reason and found is not None:
                found.abort()
        if reason or found is None:
            self._warn(reason)
            return None
        transport.on_fault(found.abort)
        driver.set_patience(self.wait)
        return found

    def _warn(self, reason: str) -> None:
        kind = re.sub(r"\d+", "", reason)  # once for all processes
        if kind not in self.warned:
            self.warned.add(kind)
            text = f"messages between GPUs are copied to the host and sent by MPI: {reason}"
            warn(text, c.HostFallbackWarning)

    @contextlib.contextmanager
    def speaking(self, site: Any) -> Iterator[None]:
        self.site = site
        try:
            with self.transport.waiting(str(site)):
                yield
        except nccl.NcclError as error:
            self.transport.check()  # it was stopped
            raise JaxRuntimeError(f"{site}: {error}") from error

    def begin(self, ranks: Ranks, site: Any) -> None:
        # NCCL's messages don't carry the number of their program, so it goes beside them
        if site.number:
            with self._stopping():
                self.transport.announce(ranks, site.number, site.program)

    def wait(self, stream: Any) -> None:
        """Wait for a stream, as long as all others live and run the same programs."""
        self._wait(stream)
        with self._stopping():
            self.transport.settle(wait=True)

    def _wait(self, stream: Any) -> None:
        for _ in range(SPINS):
            if driver.is_done(stream):
                return
        looked = 0.0
        with self.transport.waiting(f"{self.site}{processes.QUEUED}"):
            while not driver.is_done(stream):
                self.transport.check()
                now = time.monotonic()
                if now - looked > PERIOD:
                    looked = now
                    self._look()
                time.sleep(NAP)
        self.transport.check()

    def _look(self) -> None:
        with self._stopping():
            self.transport.settle(wait=False)
        for found in list(self.comms.values()):
            if found is not None:
                try:
                    found.check()
                except nccl.NcclError as error:
                    self.transport.check()
                    found.abort()
                    raise JaxRuntimeError(f"{self.site}: {error}") from error

    @contextlib.contextmanager
    def _stopping(self) -> Iterator[None]:
        """Stop all messages where others run another program: GPUs would wait for theirs."""
        try:
            yield
        except JaxRuntimeError:
            for found in self.comms.values():
                if found is not None:
                    found.abort()
            raise

    def close(self) -> None:
        """Leave all communicators."""
        for found in self.comms.values():
            if found is not None:
                found.abort()
        self.comms.clear()
        driver.set_patience(None)


def _refusal(rows: Sequence[dict[str, Any]], ranks: Ranks) -> str:
    """Why NCCL can't join processes; empty where it can."""
    seen: dict[str, int] = {}
    for row, rank in zip(rows, ranks, strict=True):
        if not row["nccl"]:
            return f"process {rank} has no NCCL; pip install '.[cuda]' in a clone of weft"
        other = seen.setdefault(row["gpu"], rank)
        if other != rank and os.environ.get(_SHARED) != "1":
            return (
                f"processes {other} and {rank} share a GPU, and NCCL needs one for each; start as"
                " many processes on a machine as it has GPUs"
            )
    return ""


class _Thread(threading.local):
    """Whom programs of a thread speak with."""

    members: Members | None = None


_thread = _Thread()
_processes = Processes()


def current() -> Members:
    """Whom programs that this thread assembles speak with."""
    return _thread.members or _processes


@contextlib.contextmanager
def among(members: Members) -> Iterator[None]:
    """Have the programs that this thread assembles speak with some members."""
    previous, _thread.members = _thread.members, members
    try:
        yield
    finally:
        _thread.members = previous


# --- lowering -------------------------------------------------------------------------------------


def lower(node: Any, capturable: bool, beginnings: dict[Ranks, Any]) -> list[Any] | None:
    """The commands of a message; None where the host has to send it.

    Adds what is to be called before each run of the program, by members, to ``beginnings``.
    """
    eqn, members = node.eqn, current()
    params, name, aval = eqn.params, eqn.primitive.name, eqn.invars[0].aval
    comm = members.comm(params["ranks"])
    if comm is None:
        return None
    beginnings.setdefault(params["ranks"], partial(members.begin, params["ranks"], params["site"]))
    size = prod(aval.shape) * storage_dtype(aval.dtype).itemsize
    (source,), (target,) = node.ins, node.outs
    if name == "process_permute":
        own = _own_moves(params["moves"], members.index)
        return _permute(comm, members, params, size // aval.shape[0], own, node, capturable)
    if name == "process_all_gather":
        run = lambda stream, x, y: comm.all_gather(x, y, size, stream)
    else:
        row, own_row = size // len(params["ranks"]), params["own"]
        run = lambda stream, x, y: comm.all_to_all(x, y, row, stream, own_row)
    spots = (c.Spot(source), c.Spot(target))
    return [c.Called(_spoken(members, params["site"], run), spots, name, capturable)]


def _spoken(members: Members, site: Any, call: Callable[..., None]) -> Callable[..., None]:
    def run(stream: Any, *addresses: int) -> None:
        with members.speaking(site):
            call(stream, *addresses)

    return run


def _own_moves(moves: Sequence[Any], own: int) -> Any:
    """Copies (row, target); what is sent (target, other, row) and received (target, other)."""
    copies = [(row, target) for a, row, b, target in moves if a == b == own]
    sends = sorted((target, b, row) for a, row, b, target in moves if a == own != b)
    receives = sorted((target, a) for a, row, b, target in moves if b == own != a)
    return copies, sends, receives


def _permute(
    comm: nccl.Communicator,
    members: Members,
    params: dict[str, Any],
    size: int,
    moves: Any,
    node: Any,
    capturable: bool,
) -> list[Any]:
    """Rows sent and received together; those for the same process in the order of their places."""
    copies, sends, receives = moves
    ranks, rows = params["ranks"], node.eqn.outvars[0].aval.shape[0]
    (source,), (target,) = node.ins, node.outs
    found: list[Any] = []
    filled = {t for _, t in copies} | {t for t, _ in receives}
    found += [c.Filled(c.Spot(target, i * size), 0, size) for i in range(rows) if i not in filled]
    for row, to in copies:
        found.append(c.Moved(c.Spot(target, to * size), c.Spot(source, row * size), size))

    def run(stream: Any, x: int, y: int) -> None:
        with nccl.group():
            for _, other, row in sends:
                comm.send(x + row * size, size, ranks.index(other), stream)
            for to, other in receives:
                comm.receive(y + to * size, size, ranks.index(other), stream)

    if sends or receives:
        spots, site = (c.Spot(source), c.Spot(target)), params["site"]
        found.append(c.Called(_spoken(members, site, run), spots, "process_permute", capturable))
    return found
