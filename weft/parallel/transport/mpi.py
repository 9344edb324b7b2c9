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
import socket
import sys
import time
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.base.errors import JaxRuntimeError
from weft.core.processes import DIRECT_PROCESSES, MET_ANOTHER, Alone
from weft.parallel.transport.order import Order, settled
from weft.parallel.transport.watch import COUNT, SITE, Watch, fault

# Bytes of a message that says which program comes next: a digest, the next free number, a name.
NOTE, DIGEST, HEAD = 512, 32, 40
# Marks of each program, among which those of its collectives are.
MARKS_PER_PROGRAM = 32
# Bytes of a program's text that others are shown, where they have another one.
LONGEST = 1 << 20
# Seconds that answers of processes may take which are leaving.
LAST_ANSWERS = 2.0
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
            "weft.distributed needs mpi4py and an MPI: pip install '.[mpi]' in a clone of weft, and"
            " start the program with mpiexec -n 2 python program.py",
            name="mpi4py",
        ) from error
    if "mpi4py.MPI" not in sys.modules:
        base.rc.initialize = base.rc.finalize = False
    try:
        mpi = importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(
            f"mpi4py found no MPI library: {error}. Install one from wheels, pip install mpich,"
            " or load your system's MPI module"
        ) from error
    if not mpi.Is_initialized():
        mpi.Init_thread(mpi.THREAD_MULTIPLE)
    return mpi


class Mpi(Alone):
    """The processes of a job, and what they send each other."""

    native = True

    def __init__(self, limit: float, start: float) -> None:
        self.mpi = mpi = load()
        self.world = mpi.COMM_WORLD.Dup()
        self.rank, self.size = self.world.Get_rank(), self.world.Get_size()
        self.every = tuple(range(self.size))
        # for what comes before a program, for marks, and for all others
        self.notes, self.marks = self.world.Dup(), self.world.Dup()
        self.comms: dict[tuple[int, ...], Any] = {self.every: self.world}
        self.note_comms: dict[tuple[int, ...], Any] = {self.every: self.notes}
        self.mark_comms: dict[tuple[int, ...], Any] = {self.every: self.marks}
        self.order = Order(self)
        self.last_mark = self.world.Get_attr(mpi.TAG_UB)
        self.programs = 1  # the next number
        self.sites: list[tuple[str, tuple[int, ...]]] = [("", ())]
        self.numbers: dict[tuple[str, tuple[int, ...]], int] = {}
        self.site: Any = "the start"
        self.kind = ""
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
            host, port, key = self.world.bcast(None)
            self.watch.connect(host, port, key, limit)
        self.watch.start()

    def end(self) -> None:
        """End the part of this process in the job; at exit, once."""
        if self.ended:
            return
        self.ended = True
        for function in self.endings:
            function()
        if not self.watch.leave() or not self._all_answered():
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)
        if not self.mpi.Is_finalized():
            self.order.free()
            for comms in (self.comms, self.note_comms, self.mark_comms):
                for comm in comms.values():
                    comm.Free()
            if not importlib.import_module("mpi4py").rc.finalize:
                self.mpi.Finalize()
        self.watch.close()

    def _all_answered(self) -> bool:
        """Whether others have run the programs that this process has; all of them are leaving."""
        end = time.monotonic() + LAST_ANSWERS
        with contextlib.suppress(JaxRuntimeError):
            while self.order.told and time.monotonic() < end:
                self.order.settle(len(self.order.told))
                time.sleep(1e-4)
        return not self.order.told

    # --- waiting ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def at(self, site: Any, kind: str = "") -> Iterator[None]:
        """Say which collective messages belong to, and what of it must be the same for all."""
        previous = self.site, self.kind
        self.site, self.kind = site, kind
        try:
            yield
        finally:
            self.site, self.kind = previous

    def number(self, site: str, ranks: tuple[int, ...]) -> int:
        """The number of a collective's text, and of those that take part in it."""
        found = self.numbers.get((site, ranks))
        if found is None:
            found = self.numbers[site, ranks] = len(self.sites)
            self.sites.append((site, ranks))
        return found

    def mark(self, site: Any) -> int:
        """The mark of a collective's messages: one of its program's, and never 0."""
        number, last = getattr(site, "number", 0), self.last_mark
        own = zlib.crc32(str(site).encode()) % (MARKS_PER_PROGRAM if number else last)
        return (number * MARKS_PER_PROGRAM + own) % last + 1

    def _agree(self, ranks: tuple[int, ...], size: int) -> None:
        """Raise unless all of some processes are in the same collective, with as many bytes."""
        own = np.array([self.mark(self.kind or self.site), size])
        marks = np.empty((len(ranks), 2), np.int64)
        given = self._bytes(own), self._bytes(marks)
        self._wait(ranks, self.comm(ranks, self.mark_comms).Iallgather(*given))
        if (marks != own).any():
            self._met_another(ranks, f"{self.kind or self.site}, with {size:,} bytes")

    def _met_another(self, ranks: tuple[int, ...], own: str) -> None:
        """Raise what others were in; all of them come here, as all have seen it."""
        row, rows = np.zeros(NOTE, np.uint8), np.empty((len(ranks), NOTE), np.uint8)
        told = own.encode()[:NOTE]
        row[: len(told)] = np.frombuffer(told, np.uint8)
        self._wait(ranks, self.comm(ranks, self.mark_comms).Iallgather(row, rows))
        texts = [r.tobytes().rstrip(b"\0").decode(errors="ignore") for r in rows]
        other = next(i for i, text in enumerate(texts) if text != texts[0])
        raise fault(
            f"processes are in different collectives: process {ranks[0]} in {texts[0]};"
            f" process {ranks[other]} in {texts[other]}. All processes must run the same functions"
            " on arrays of the same types, in the same order"
        )

    def _wait(self, ranks: tuple[int, ...], *requests: Any) -> None:
        words = self.watch.words
        words[COUNT] += 1
        words[SITE] = self.number(str(self.site), ranks)
        turns = 0
        try:
            while not self.mpi.Request.Testall(list(requests)):
                if self.watch.fault:
                    self.watch.check()
                turns += 1
                if turns > SPINS:
                    time.sleep(0 if turns < NAPS else 1e-4)
        except self.mpi.Exception as error:
            raise fault(self.refused(str(self.site), error.Get_error_code())) from None
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
        if self._is_direct(ranks):
            self._exchange([data] * len(ranks), out, ranks)
        else:
            self._agree(ranks, data.nbytes)
            given = self._bytes(data), self._bytes(out)
            self._wait(ranks, self.comm(ranks).Iallgather(*given))
        return out

    def all_to_all(self, data: np.ndarray, ranks: tuple[int, ...]) -> np.ndarray:
        """A row from each process; row ``i`` of each one's own goes to the ``i``-th."""
        self.watch.check()
        out = np.empty(data.shape, data.dtype)
        if self._is_direct(ranks):
            self._exchange(list(data), out, ranks)
        else:
            self._agree(ranks, data.nbytes // len(ranks))
            given = self._bytes(data), self._bytes(out)
            self._wait(ranks, self.comm(ranks).Ialltoall(*given))
        return out

    def _is_direct(self, ranks: tuple[int, ...]) -> bool:
        """Whether messages have the mark of a program; native code does the same."""
        return getattr(self.site, "number", 0) > 0 and len(ranks) <= DIRECT_PROCESSES

    def _exchange(self, rows: list[Any], out: np.ndarray, ranks: tuple[int, ...]) -> None:
        """Send a row to each of some processes, and receive one from each."""
        mark, requests = self.mark(self.site), []
        for i, rank in enumerate(ranks):
            if rank == self.rank:
                out[i] = rows[i]
            else:
                requests.append(self.world.Irecv(self._bytes(out[i : i + 1]), rank, mark))
                requests.append(self.world.Isend(self._bytes(rows[i]), rank, mark))
        self._wait(ranks, *requests)

    def permute(
        self, data: np.ndarray, moves: tuple[tuple[int, ...], ...], ranks: tuple[int, ...]
    ) -> np.ndarray:
        """Rows that others send, zeros where none arrives."""
        self.watch.check()
        out = np.zeros(data.shape, data.dtype)
        mark, requests = self.mark(self.site), []
        for sender, row, receiver, target in moves:
            if sender == receiver == self.rank:
                out[target] = data[row]
            elif sender == self.rank:
                requests.append(self.world.Isend(self._bytes(data[row]), receiver, mark))
            elif receiver == self.rank:
                arriving = out[target : target + 1]
                requests.append(self.world.Irecv(self._bytes(arriving), sender, mark))
        self._wait(ranks, *requests)
        return out

    def swap(
        self, sends: dict[int, np.ndarray], sizes: dict[int, int], what: str
    ) -> dict[int, np.ndarray]:
        """Bytes for each process and from each, of sizes that both know; ``what`` says of what."""
        self.watch.check()
        ranks = tuple(sorted(sizes))
        found = {rank: np.empty(size, np.uint8) for rank, size in sizes.items()}
        found[self.rank] = sends[self.rank]
        with self.at(what):
            self._agree(ranks, 0)
            requests = [
                self.world.Irecv([found[r], self.mpi.BYTE], r, 0) for r in sizes if r != self.rank
            ]
            requests += [
                self.world.Isend([sends[r], self.mpi.BYTE], r, 0) for r in sends if r != self.rank
            ]
            self._wait(ranks, *requests)
        return found

    def share(self, value: bytes, ranks: tuple[int, ...] | None = None) -> list[bytes]:
        """A short message of every process."""
        ranks = self.every if ranks is None else ranks
        sizes = self.all_gather(np.array([len(value)]), ranks)[:, 0]
        row = np.zeros(int(sizes.max()), np.uint8)
        row[: len(value)] = np.frombuffer(value, np.uint8)
        rows = self.all_gather(row, ranks)
        return [r[:n].tobytes() for r, n in zip(rows, sizes, strict=True)]

    def begin_program(self, name: str, ranks: tuple[int, ...], text: str) -> int:
        """The number of a program, which all of some processes give it and no other.

        Raises where others are about to run another one.
        """
        text = settled(text)
        note = np.zeros(NOTE, np.uint8)
        told = hashlib.sha256(text.encode()).digest() + self.programs.to_bytes(HEAD - DIGEST)
        told += name.encode()[: NOTE - HEAD - 1]
        note[: len(told)] = np.frombuffer(told, np.uint8)
        self.watch.check()
        notes = np.empty((len(ranks), NOTE), np.uint8)
        with self.at(f"the first call of {name}"):
            self._wait(ranks, self.comm(ranks, self.note_comms).Iallgather(note, notes))
        for rank, other in zip(ranks, notes, strict=True):
            if not np.array_equal(other[:DIGEST], notes[0][:DIGEST]):
                names = [n[HEAD:].tobytes().rstrip(b"\0").decode() for n in (notes[0], other)]
                raise fault(
                    f"process {rank} is about to run a different program from process {ranks[0]}:"
                    f" {names[1]}, and {names[0]} there{self._difference(text, ranks, rank)}. All"
                    " processes must run the same functions on arrays of the same types, in the"
                    " same order"
                )
        number = max(int.from_bytes(other[DIGEST:HEAD].tobytes()) for other in notes)
        self.programs = number + 1
        self.order.names.setdefault(number, name)
        return number

    def _difference(self, text: str, ranks: tuple[int, ...], rank: int) -> str:
        """The first lines of two programs that differ; all processes ask, as all have seen it."""
        texts = self.share(text.encode()[:LONGEST], ranks)
        first, other = (texts[ranks.index(r)].decode().split("\n") for r in (ranks[0], rank))
        for a, b in itertools.zip_longest(first, other, fillvalue="nothing"):
            if a != b:
                return f". Where they differ it has `{b.strip()}`, and the other `{a.strip()}`"
        return ""

    def stopped(self, site: Any, ranks: tuple[int, ...], code: int) -> None:
        """Raise what has stopped a message of native code: a fault, another one, or MPI itself."""
        if code == MET_ANOTHER:
            self._met_another(ranks, str(site))
        self.watch.words[SITE] = 0 if code > 1 else self.number(str(site), ranks)
        try:
            self.watch.check()
        finally:
            self.watch.words[SITE] = 0
        raise fault(self.refused(str(site), code - FIRST_CODE))

    # --- other means to send messages -------------------------------------------------------------

    def check(self) -> None:
        """Raise where others can't answer any more."""
        self.watch.check()

    def announce(self, ranks: tuple[int, ...], number: int, name: str) -> None:
        """Tell others that a program begins whose messages this transport doesn't carry."""
        self.order.announce(ranks, number, name)

    def settle(self, wait: bool) -> None:
        """Raise where others have begun other programs than were announced."""
        if self.order.told:
            self.order.settle(0 if wait else len(self.order.told))

    @contextlib.contextmanager
    def waiting(self, site: str) -> Iterator[None]:
        """While others are waited for, by other means than this transport's."""
        words = self.watch.words
        words[COUNT] += 1
        words[SITE] = self.number(site, self.every)
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
        """A function of MPI, or a word of it: ``comm:0,1``, ``marks:0,1``, ``world``, ``byte``,
        ``words``, ``site:0,1:psum``."""
        kind, _, rest = name.partition(":")
        if kind in ("comm", "marks"):
            known = self.comms if kind == "comm" else self.mark_comms
            return self._word(self.comm(tuple(map(int, rest.split(","))), known))
        if kind == "world":
            return self._word(self.world)
        if kind == "byte":
            return self._word(self.mpi.BYTE)
        if kind == "words":
            return self.watch.words.__array_interface__["data"][0]
        if kind == "site":
            listed, _, text = rest.partition(":")
            return self.number(text, tuple(map(int, listed.split(","))))
        if self.library is None:
            self.library = ctypes.CDLL(self.mpi.__file__)
        found = ctypes.cast(self.library[name], ctypes.c_void_p).value
        assert found is not None
        return found

    def _word(self, handle: Any) -> int:
        return self.mpi._handleof(handle)
