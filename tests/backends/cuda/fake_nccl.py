"""An NCCL made of the host: members are threads, memory is the host's, and calls are recorded.

As with NCCL, a call waits until the other members have made theirs, and those of a group are made
together; where one never comes, a test fails after a few seconds instead of waiting.
"""

import contextlib
import ctypes
import threading

import numpy as np

from weft.backends.cuda import libraries, nccl

# Seconds that a member waits for the others.
PATIENCE = 10
_BYTES = {0: 1, 1: 1, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2}
_NUMBERS = {number: dtype for dtype, number in nccl._TYPES.items()}
_REDUCE = [np.add, np.multiply, np.maximum, np.minimum, np.add]
BAD_USE = 5


class Function:
    """A function of the library: it takes what ctypes would."""

    def __init__(self, run):
        self.run = run

    def __call__(self, *args):
        return self.run(*args)


class Fake:
    """The library. ``calls`` has, for each member of each communicator, what it called."""

    def __init__(self):
        self.calls = []
        self.members = []  # of handles: communicator, rank
        self.sizes = {}  # of communicators
        self.keys = {}
        self.meeting = threading.Condition()
        self.posted = {}  # what members have given to a call, by communicator and its number
        self.done = {}
        self.counts = {}  # calls of each handle so far
        self.refuses = self.fault = 0
        self.aborted = set()
        self.local = threading.local()
        for name in nccl._FUNCTIONS:
            setattr(self, name, Function(getattr(self, f"_{name[4:]}")))
        self.ncclGetErrorString = Function(lambda status: f"status {status}".encode())
        self.ncclGetLastError = Function(lambda comm: b"the last words")

    # --- communicators ----------------------------------------------------------------------------

    def _handle(self, comm, rank):
        self.members.append((comm, rank))
        return len(self.members)

    def _GetVersion(self, found):
        found._obj.value = 22809
        return 0

    def _GetUniqueId(self, key):
        key._obj.bytes = f"key {len(self.keys)}".encode()
        self.keys[bytes(key._obj.bytes)] = len(self.sizes)
        self.sizes[len(self.sizes)] = None
        return 0

    def _CommInitRank(self, handle, size, key, rank):
        if self.refuses:
            return self.refuses
        comm = self.keys[bytes(key.bytes)]
        with self.meeting:
            self.sizes[comm] = size
            handle._obj.value = self._handle(comm, rank)
            joined = self.posted.setdefault(("joined", comm), set())
            joined.add(rank)
            self.meeting.notify_all()
            if not self.meeting.wait_for(lambda: len(joined) == size, PATIENCE):
                return 2
        return 0

    def _CommInitAll(self, handles, count, numbers):
        if len({*numbers}) < count:
            return BAD_USE
        comm = len(self.sizes)
        self.sizes[comm] = count
        for rank in range(count):
            handles[rank] = self._handle(comm, rank)
        return 0

    def _CommAbort(self, handle):
        self.aborted.add(handle.value)
        with self.meeting:
            self.meeting.notify_all()
        return 0

    def _CommGetAsyncError(self, handle, status):
        status._obj.value = self.fault
        return 0

    # --- calls ------------------------------------------------------------------------------------

    def _GroupStart(self):
        self.local.depth = getattr(self.local, "depth", 0) + 1
        return 0

    def _GroupEnd(self):
        self.local.depth -= 1
        if self.local.depth:
            return 0
        waiting, self.local.waiting = getattr(self.local, "waiting", []), []
        return max([wait() for wait in waiting], default=0)

    def _begin(self, wait):
        if getattr(self.local, "depth", 0):
            self.local.waiting = [*getattr(self.local, "waiting", []), wait]
            return 0
        return wait()

    def _note(self, handle, name, **told):
        comm, rank = self.members[handle.value - 1]
        grouped = getattr(self.local, "depth", 0) > 0
        self.calls.append((comm, rank, name, {**told, "grouped": grouped}))
        return comm, rank

    def _meet(self, handle, name, given, work, **told):
        """A call of all members: the last one does the work of all."""
        comm, rank = self._note(handle, name, **told)
        size = self.sizes[comm]
        number = self.counts[comm, rank] = self.counts.get((comm, rank), 0) + 1
        key = (comm, number)
        with self.meeting:
            rows = self.posted.setdefault(key, {})
            rows[rank] = (name, told, given)
            if len(rows) == size:
                told_by = {repr((name, told)) for name, told, _ in rows.values()}
                if len(told_by) == 1:
                    work([rows[r][2] for r in range(size)])
                self.done[key] = 0 if len(told_by) == 1 else BAD_USE
                self.meeting.notify_all()

        def wait():
            with self.meeting:
                left = lambda: key in self.done or handle.value in self.aborted
                self.meeting.wait_for(left, PATIENCE)
                return self.done.get(key, 6)

        return self._begin(wait)

    def _AllGather(self, source, target, size, kind, handle, stream):
        size *= _BYTES[kind]

        def work(rows):
            whole = b"".join(read(s, size) for s, _ in rows)
            for _, t in rows:
                ctypes.memmove(t, whole, len(whole))

        return self._meet(handle, "all_gather", (source, target), work, size=size)

    def _Broadcast(self, source, target, size, kind, root, handle, stream):
        def work(rows):
            data = read(rows[root][0], size)
            for _, t in rows:
                ctypes.memmove(t, data, size)

        return self._meet(handle, "broadcast", (source, target), work, size=size, root=root)

    def _reduced(self, rows, count, kind, operation):
        dtype = _NUMBERS[kind]
        parts = [np.frombuffer(read(s, count * dtype.itemsize), dtype) for s, _ in rows]
        found = _REDUCE[operation].reduce(np.stack(parts), 0, dtype=dtype)
        return (found / len(parts)).astype(dtype) if operation == 4 else found

    def _AllReduce(self, source, target, count, kind, operation, handle, stream):
        def work(rows):
            found = self._reduced(rows, count, kind, operation).tobytes()
            for _, t in rows:
                ctypes.memmove(t, found, len(found))

        told = {"count": count, "kind": kind, "operation": operation}
        return self._meet(handle, "all_reduce", (source, target), work, **told)

    def _ReduceScatter(self, source, target, count, kind, operation, handle, stream):
        def work(rows):
            found = self._reduced(rows, count * len(rows), kind, operation)
            for i, (_, t) in enumerate(rows):
                part = found[i * count : (i + 1) * count].tobytes()
                ctypes.memmove(t, part, len(part))

        told = {"count": count, "kind": kind, "operation": operation}
        return self._meet(handle, "reduce_scatter", (source, target), work, **told)

    def _pair(self, handle, name, key, address, size):
        """One side of a message; whoever comes second copies it."""
        self._note(handle, name, size=size, other=key[2 if name == "send" else 1])
        with self.meeting:
            mine = self.posted.setdefault((*key, name), [])
            other = self.posted.setdefault((*key, "receive" if name == "send" else "send"), [])
            number = self.counts[(*key, name)] = self.counts.get((*key, name), 0) + 1
            if other:
                there, length = other.pop(0)
                source, target = (address, there) if name == "send" else (there, address)
                if length == size:
                    ctypes.memmove(target, read(source, size), size)
                self.done[(*key, number)] = 0 if length == size else BAD_USE
                self.meeting.notify_all()
            else:
                mine.append((address, size))

        def wait():
            with self.meeting:
                ready = lambda: (*key, number) in self.done or handle.value in self.aborted
                self.meeting.wait_for(ready, PATIENCE)
                return self.done.get((*key, number), 6)

        return self._begin(wait)

    def _Send(self, source, size, kind, to, handle, stream):
        comm, rank = self.members[handle.value - 1]
        return self._pair(handle, "send", (comm, rank, to), source, size)

    def _Recv(self, target, size, kind, sender, handle, stream):
        comm, rank = self.members[handle.value - 1]
        return self._pair(handle, "receive", (comm, sender, rank), target, size)


def read(address, size):
    return ctypes.string_at(address, size)


@contextlib.contextmanager
def installed(monkeypatch):
    """Have weft find this library."""
    fake = Fake()
    monkeypatch.setattr(libraries, "library", lambda name: fake)
    nccl.library.cache_clear()
    try:
        yield fake
    finally:
        nccl.library.cache_clear()
