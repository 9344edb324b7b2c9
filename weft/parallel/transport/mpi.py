"""Messages between processes by MPI: mpi4py's, and addresses of its C functions for native code.

Every operation is begun without blocking and asked for until it is done, so that a process never
hangs in one: ``watch.py`` says when to give up.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import hashlib
import importlib
import itertools
import os
import re
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.core.processes import Alone
from weft.parallel.transport.watch import COUNT, SITE, Watch, fault

# Bytes of a message that says which program comes next.
NOTE = 512
# Bytes of a program's text that others are shown, where they have another one.
LONGEST = 1 << 20
# Asks for a message before a process lets others run, and before it sleeps in between.
SPINS, NAPS = 200, 2000
# What native code adds to MPI's codes of errors: 1 says that the watch has stopped it.
FIRST_CODE = 2


def load() -> Any:
    """mpi4py's module, with MPI begun."""
    try:
        base = importlib.import_module("mpi4py")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "weft.distributed needs mpi4py and an MPI: pip install 'weft[mpi]', and start the"
            " program with mpiexec -n 2 python program.py",
            name="mpi4py",
        ) from error
    if "mpi4py.MPI" not in sys.modules:
        base.rc.initialize = base.rc.finalize = False
    try:
        mpi = importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(
            f"mpi4py has found no MPI library: {error}. Install one from wheels, pip install mpich,"
            " or load your system's MPI module"
        ) from error
    if not mpi.Is_initialized():
        mpi.Init_thread(mpi.THREAD_MULTIPLE)
    return mpi


def _settled(text: str) -> str:
    """The text of a program as all processes write it: without addresses, sets in order."""
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    in_order = lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}"
    return re.sub(r"(?<=frozenset\()\{([^{}]*)\}", in_order, text)


class Mpi(Alone):
    """The processes of a job, and what they send each other."""

    native = True

    def __init__(self, limit: float, start: float) -> None:
        self.mpi = mpi = load()
        self.world = mpi.COMM_WORLD.Dup()
        self.rank, self.size = self.world.Get_rank(), self.world.Get_size()
        self.every = tuple(range(self.size))
        # for what comes before a program, and for all others
        self.notes = self.world.Dup()
        self.comms: dict[tuple[int, ...], Any] = {self.every: self.world}
        self.note_comms: dict[tuple[int, ...], Any] = {self.every: self.notes}
        self.sites: list[str] = [""]
        self.numbers: dict[str, int] = {}
        self.site = "the start"
        self.watch = Watch(self.rank, self.size, limit, lambda i: self.sites[i])
        self._connect(start)
        atexit.register(self.end)
        self.ended = False
        self.endings: list[Any] = []
        self.library: Any = None

    def _connect(self, limit: float) -> None:
        hosts = self.world.allgather(socket.gethostname())
        # its number among the processes of this machine
        self.place = hosts[: self.rank].count(hosts[self.rank])
        if self.rank == 0:
            local = len(set(hosts)) == 1
            host = "127.0.0.1" if local else socket.gethostbyname(hosts[0])
            self.world.bcast(self.watch.listen(host))
            self.watch.accept(limit)
        else:
            self.watch.connect(*self.world.bcast(None), limit)
        self.watch.start()

    def end(self) -> None:
        """End the part of this process in the job; at exit, once."""
        if self.ended:
            return
        self.ended = True
        for function in self.endings:
            function()
        if not self.watch.leave():
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)
        if not self.mpi.Is_finalized():
            for comm in [*self.comms.values(), *self.note_comms.values()]:
                comm.Free()
            if not importlib.import_module("mpi4py").rc.finalize:
                self.mpi.Finalize()
        self.watch.close()

    # --- waiting ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def at(self, site: Any) -> Iterator[None]:
        """Say which collective messages belong to."""
        previous, self.site = self.site, str(site)
        try:
            yield
        finally:
            self.site = previous

    def number(self, site: str) -> int:
        """The number of a collective's text."""
        found = self.numbers.get(site)
        if found is None:
            found = self.numbers[site] = len(self.sites)
            self.sites.append(site)
        return found

    def _wait(self, *requests: Any) -> None:
        words = self.watch.words
        words[COUNT] += 1
        words[SITE] = self.number(self.site)
        turns = 0
        try:
            while not self.mpi.Request.Testall(list(requests)):
                if self.watch.fault:
                    self.watch.check()
                turns += 1
                if turns > SPINS:
                    time.sleep(0 if turns < NAPS else 1e-4)
        except self.mpi.Exception as error:
            raise fault(self.refused(self.site, error.Get_error_code())) from None
        finally:
            words[SITE] = 0

    def refused(self, site: str, code: int) -> str:
        """What MPI says when it has refused a message."""
        return (
            f"MPI stopped {site}: {self.mpi.Get_error_string(code)}. Most likely another process is"
            " in another collective; all of them must call the same ones in the same order"
        )

    def comm(self, ranks: tuple[int, ...], known: Any = None) -> Any:
        """The communicator of some processes; made by all of them together, once."""
        known = self.comms if known is None else known
        found = known.get(ranks)
        if found is None:
            group = self.world.Get_group().Incl(list(ranks))
            found = known[ranks] = known[self.every].Create_group(group)
        return found

    # --- messages ---------------------------------------------------------------------------------

    def _bytes(self, data: np.ndarray) -> list[Any]:
        return [data.reshape(-1).view(np.uint8), self.mpi.BYTE]

    def all_gather(self, data: np.ndarray, ranks: tuple[int, ...]) -> np.ndarray:
        """What all of some processes have, a row for each."""
        self.watch.check()
        out = np.empty((len(ranks), *data.shape), data.dtype)
        if out.size:
            given = self._bytes(data), self._bytes(out)
            self._wait(self.comm(ranks).Iallgather(*given))
        return out

    def all_to_all(self, data: np.ndarray, ranks: tuple[int, ...]) -> np.ndarray:
        """A row from each process; row ``i`` of each one's own goes to the ``i``-th."""
        self.watch.check()
        out = np.empty(data.shape, data.dtype)
        if out.size:
            given = self._bytes(data), self._bytes(out)
            self._wait(self.comm(ranks).Ialltoall(*given))
        return out

    def permute(self, data: np.ndarray, moves: tuple[tuple[int, ...], ...]) -> np.ndarray:
        """Rows that others send, zeros where none arrives."""
        self.watch.check()
        out = np.zeros(data.shape, data.dtype)
        requests = []
        for sender, row, receiver, target in moves:
            if sender == receiver == self.rank:
                out[target] = data[row]
            elif sender == self.rank:
                requests.append(self.world.Isend(self._bytes(data[row]), receiver, target))
            elif receiver == self.rank:
                arriving = out[target : target + 1]
                requests.append(self.world.Irecv(self._bytes(arriving), sender, target))
        self._wait(*requests)
        return out

    def swap(self, sends: dict[int, np.ndarray], sizes: dict[int, int]) -> dict[int, np.ndarray]:
        """Bytes for each process and from each, of sizes that both know."""
        self.watch.check()
        found = {rank: np.empty(size, np.uint8) for rank, size in sizes.items()}
        found[self.rank] = sends[self.rank]
        requests = [
            self.world.Irecv([found[r], self.mpi.BYTE], r, 0) for r in sizes if r != self.rank
        ]
        requests += [
            self.world.Isend([sends[r], self.mpi.BYTE], r, 0) for r in sends if r != self.rank
        ]
        with self.at("a move of an array to another sharding"):
            self._wait(*requests)
        return found

    def share(self, value: bytes, ranks: tuple[int, ...] | None = None) -> list[bytes]:
        """A short message of every process."""
        ranks = self.every if ranks is None else ranks
        sizes = self.all_gather(np.array([len(value)]), ranks)[:, 0]
        row = np.zeros(int(sizes.max()), np.uint8)
        row[: len(value)] = np.frombuffer(value, np.uint8)
        rows = self.all_gather(row, ranks)
        return [r[:n].tobytes() for r, n in zip(rows, sizes, strict=True)]

    def begin_program(self, name: str, ranks: tuple[int, ...], text: str) -> None:
        """Raise where others are about to run another program."""
        text = _settled(text)
        note = np.zeros(NOTE, np.uint8)
        told = hashlib.sha256(text.encode()).digest() + name.encode()[: NOTE - 33]
        note[: len(told)] = np.frombuffer(told, np.uint8)
        self.watch.check()
        notes = np.empty((len(ranks), NOTE), np.uint8)
        with self.at(f"the first call of {name}"):
            self._wait(self.comm(ranks, self.note_comms).Iallgather(note, notes))
        for rank, other in zip(ranks, notes, strict=True):
            if not np.array_equal(other[:32], notes[0][:32]):
                names = [n[32:].tobytes().rstrip(b"\0").decode() for n in (notes[0], other)]
                raise fault(
                    f"process {rank} is about to run another program than process {ranks[0]}:"
                    f" {names[1]}, and {names[0]} there{self._difference(text, ranks, rank)}. All"
                    " processes must run the same functions on arrays of the same types, in the"
                    " same order"
                )

    def _difference(self, text: str, ranks: tuple[int, ...], rank: int) -> str:
        """The first lines of two programs that differ; all processes ask, as all have seen it."""
        texts = self.share(text.encode()[:LONGEST], ranks)
        first, other = (texts[ranks.index(r)].decode().split("\n") for r in (ranks[0], rank))
        for a, b in itertools.zip_longest(first, other, fillvalue="nothing"):
            if a != b:
                return f". Where they differ it has `{b.strip()}`, and the other `{a.strip()}`"
        return ""

    def stopped(self, site: Any, code: int) -> None:
        """Raise what has stopped a message of native code: a fault, or MPI itself."""
        self.watch.words[SITE] = 0 if code > 1 else self.number(str(site))
        try:
            self.watch.check()
        finally:
            self.watch.words[SITE] = 0
        raise fault(self.refused(str(site), code - FIRST_CODE))

    # --- other means to send messages -------------------------------------------------------------

    def check(self) -> None:
        """Raise where others can't answer any more."""
        self.watch.check()

    @contextlib.contextmanager
    def waiting(self, site: str) -> Iterator[None]:
        """While others are waited for, by other means than this transport's."""
        words = self.watch.words
        words[COUNT] += 1
        words[SITE] = self.number(site)
        try:
            yield
        finally:
            words[SITE] = 0

    def on_fault(self, function: Any) -> None:
        """Have a function called once others can't answer, by another thread."""
        self.watch.listeners.append(function)

    def at_end(self, function: Any) -> None:
        """Have a function called when processes leave each other."""
        self.endings.append(function)

    # --- native code ------------------------------------------------------------------------------

    def address(self, name: str) -> int:
        """A function of MPI, or a word of it: ``comm:0,1``, ``byte``, ``words``, ``site:3``."""
        kind, _, rest = name.partition(":")
        if kind == "comm":
            return self._word(self.comm(tuple(map(int, rest.split(",")))))
        if kind == "world":
            return self._word(self.world)
        if kind == "byte":
            return self._word(self.mpi.BYTE)
        if kind == "words":
            return self.watch.words.__array_interface__["data"][0]
        if kind == "site":
            return self.number(rest)
        if self.library is None:
            self.library = ctypes.CDLL(self.mpi.__file__)
        found = ctypes.cast(self.library[name], ctypes.c_void_p).value
        assert found is not None
        return found

    def _word(self, handle: Any) -> int:
        return self.mpi._handleof(handle)
