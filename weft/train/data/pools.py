"""Runners of chunks: threads of this process, or worker processes with shared memory."""

import contextlib
import itertools
import os
import pickle
import queue
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from typing import Any

from weft.train.data.cursors import Ticket
from weft.train.data.errors import DataError, WorkerError
from weft.train.data.node import Node, all_nodes
from weft.train.data.pickling import dumps
from weft.train.data.rows import Chunk
from weft.train.data.shared import Slab, new_file, places
from weft.train.data.worker import HEAD, send

_LENT = 32  # slabs that may be in use beyond those in flight; then data is copied
_PATIENCE = 2.0  # seconds that a worker may take to end
_POLL = 0.1  # seconds after which a reader that waits looks whether it should end
_COMMAND = (
    "import sys; sys.path[:] = {path!r}; sys.argv[:] = {argv!r}; "
    "from weft.train.data.worker import main; main({connection}, {handle}, {start}, {size})"
)


class Threads:
    """Computes chunks in threads of this process."""

    def __init__(self, count: int) -> None:
        self.ahead, self.halted = 2 * count, False
        self._tasks: queue.SimpleQueue[Ticket | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._sessions: dict[int, dict] = {}  # of the thread that waits, where there is no other
        with contextlib.suppress(RuntimeError):  # the system has no more threads: fewer serve
            for _ in range(count):
                thread = threading.Thread(target=_serve, args=(self._tasks,), daemon=True)
                thread.start()
                self._threads.append(thread)
        self._end = weakref.finalize(self, _end_threads, self._tasks, len(self._threads))

    def submit(self, ticket: Ticket) -> None:
        ticket.done = threading.Event()
        self._tasks.put(ticket)

    def wait(self, ticket: Ticket) -> tuple[Chunk, float]:
        while not self._threads and not ticket.done.is_set() and not self.halted:
            _serve_one(self._tasks.get(), self._sessions)
        while not ticket.done.wait(_POLL):
            if self.halted:
                raise DataError("the iterator is closed")
        if ticket.error is not None:
            raise ticket.error
        return ticket.result

    def cancel(self, ticket: Ticket) -> None:
        ticket.cancelled = True

    def close(self) -> None:
        self._end()


def _serve(tasks: "queue.SimpleQueue[Ticket | None]") -> None:
    sessions: dict[int, dict] = {}  # streams are opened by every thread
    while (ticket := tasks.get()) is not None:
        _serve_one(ticket, sessions)


def _serve_one(ticket: Ticket, sessions: dict[int, dict]) -> None:
    if not ticket.cancelled:
        ticket.session = sessions.setdefault(ticket.session["key"], {})
        try:
            ticket.result = ticket.compute()
        except Exception as error:
            ticket.error = error
    ticket.done.set()


def _end_threads(tasks: "queue.SimpleQueue[Ticket | None]", count: int) -> None:
    for _ in range(count):
        tasks.put(None)


class Connected:
    """A worker process as the process that reads sees it."""

    def __init__(self, number: int, process: subprocess.Popen, connection: socket.socket) -> None:
        self.number, self.process, self.connection = number, process, connection
        self.waiting: deque[Ticket] = deque()
        self.free: list[Slab] = []
        self.slabs: dict[int, Slab] = {}
        self.lent = 0
        self.ready = False
        self._data, self._handles = bytearray(), deque[int]()

    def messages(self) -> list[Any] | None:
        """What has come; None if the process is gone."""
        try:
            data, handles, _, _ = socket.recv_fds(self.connection, 1 << 18, 8)
        except (ConnectionResetError, OSError):
            return None
        if not data:
            return None
        self._data += data
        self._handles.extend(handles)
        found = []
        while len(self._data) >= HEAD.size:
            end = HEAD.size + HEAD.unpack_from(self._data)[0]
            if len(self._data) < end:
                break
            with memoryview(self._data) as view:
                found.append(pickle.loads(view[HEAD.size : end]))
            del self._data[:end]
        return found

    def add_slab(self, number: int, size: int, instead: int) -> None:
        """A new piece of memory of the worker, which forgot another one."""
        self.slabs.pop(instead, None)
        slab = self.slabs[number] = Slab(number, size, self._handles.popleft())
        slab.close_handle()

    def back(self, slab: Slab) -> None:
        """Nobody uses a slab any more: the worker may have it again."""
        self.lent -= 1
        self.free.append(slab)

    def offer(self) -> int:
        """A slab for the next answer."""
        return self.free.pop().number if self.free else -1


class Processes:
    """Computes chunks in worker processes; arrays come back through shared memory."""

    def __init__(self, node: Node, count: int) -> None:
        if not hasattr(socket, "send_fds") or not sys.executable:
            raise DataError("worker processes need a Unix system: pass threads=True for threads")
        self.ahead, self.halted = 2 * count, False
        nodes = all_nodes(node)
        self._numbers = {id(each): number for number, each in enumerate(nodes)}
        self._tickets = itertools.count()
        self._broken: Exception | None = None
        self._selector = selectors.DefaultSelector()
        self._workers: list[Connected] = []
        self._end = weakref.finalize(self, _end_processes, self._workers, self._selector)
        handle, start, size = _written(nodes)
        try:
            for number in range(count):
                self._workers.append(_start(number, handle, start, size))
        finally:
            os.close(handle)
        for worker in self._workers:
            self._selector.register(worker.connection, selectors.EVENT_READ, worker)
        try:
            while not all(worker.ready for worker in self._workers):
                self._listen()
        except BaseException:
            self.close()
            raise

    def submit(self, ticket: Ticket) -> None:
        if self._broken is not None:
            raise self._broken
        worker = min(self._workers, key=lambda each: len(each.waiting))
        ticket.number = next(self._tickets)
        node, key = self._numbers[id(ticket.node)], ticket.session["key"]
        task = (ticket.number, node, ticket.start, ticket.stop, ticket.epoch, key, worker.offer())
        worker.waiting.append(ticket)
        try:
            send(worker.connection, task)
        except (BrokenPipeError, ConnectionResetError):
            self._lost(worker)

    def wait(self, ticket: Ticket) -> tuple[Chunk, float]:
        while ticket.result is None and ticket.error is None:
            if self._broken is not None:
                raise self._broken
            if self.halted:
                raise DataError("the iterator is closed")
            self._listen()
        if ticket.error is not None:
            raise ticket.error
        return ticket.result

    def cancel(self, ticket: Ticket) -> None:
        ticket.cancelled, ticket.result = True, None

    def close(self) -> None:
        self._broken = self._broken or DataError("the iterator is closed")
        self._end()

    def _listen(self) -> None:
        for key, _ in self._selector.select(_POLL):
            worker = key.data
            messages = worker.messages()
            if messages is None:
                self._lost(worker)
            for message in messages:
                self._take(worker, *message)

    def _take(self, worker: Connected, kind: str, *parts: Any) -> None:
        if kind == "ready":
            worker.ready = True
        elif kind == "slab":
            worker.add_slab(*parts)
        elif kind == "failed":
            self._broken = DataError(f"a worker process could not load the pipeline: {parts[1]}")
            self._broken.add_note(parts[3])
            raise self._broken
        else:
            self._answer(worker, kind, *parts)

    def _answer(self, worker: Connected, kind: str, number: int, slab: int, *parts: Any) -> None:
        ticket = worker.waiting.popleft()  # a worker answers in order
        assert ticket.number == number
        if kind != "shared" and slab in worker.slabs:
            worker.free.append(worker.slabs[slab])
        if kind == "error":
            ticket.error = _raised(*parts)
        elif kind == "inline":
            ticket.result = (pickle.loads(parts[1]), parts[0])
        else:
            seconds, body, spots = parts
            worker.lent += 1
            memory = worker.slabs[slab].lend(worker.back)
            views = [memory[start : start + size] for start, size in spots]
            if worker.lent > _LENT + self.ahead:  # the reader keeps what it gets
                views = [bytearray(view) for view in views]
            ticket.result = (pickle.loads(body, buffers=views), seconds)
        if ticket.cancelled:
            ticket.result = None

    def _lost(self, worker: Connected) -> None:
        """A worker is gone: say why, and end the others."""
        try:
            code = worker.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            code = None
        how = f"ended with exit code {code}"
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        doing = ""
        if worker.waiting:
            first = worker.waiting[0]
            last = "" if first.stop == first.start + 1 else f" to {first.stop - 1}"
            doing = f" while it computed element {first.start}{last} of {first.node.describe()}"
        advice = ". The system may have run out of memory" if code == -signal.SIGKILL else ""
        self._broken = WorkerError(
            f"worker {worker.number} (process {worker.process.pid}) {how}{doing}{advice}"
        )
        self._end()
        raise self._broken


def _raised(body: bytes | None, text: str, notes: list[str], trace: str) -> Exception:
    """The error that a worker described."""
    error: Exception = DataError(text) if body is None else pickle.loads(body)
    for note in notes:
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
    error.add_note(f"In the worker process:\n{trace.rstrip()}")
    return error


def _written(nodes: list[Node]) -> tuple[int, int, int]:
    """Nodes in a file that workers map: its descriptor, and where its list of contents is."""
    for node in nodes:
        node.prepare()
    try:
        body, buffers = dumps(nodes)
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"the pipeline cannot be sent to worker processes: {error}. Use only objects that can "
            "be pickled (paths instead of open files), or pass threads=True"
        ) from error
    sizes = [buffer.nbytes for buffer in buffers] + [len(body)]
    starts, end = places(sizes)
    contents = pickle.dumps(list(zip(starts, sizes)), 5)
    handle = new_file(end + len(contents))
    for start, data in zip((*starts, end), (*buffers, body, contents)):
        view = memoryview(data)
        while len(view):
            written = os.pwrite(handle, view, start)
            view, start = view[written:], start + written
    return handle, end, len(contents)


def _start(number: int, handle: int, start: int, size: int) -> Connected:
    ours, theirs = socket.socketpair()
    with theirs:
        names = {"connection": theirs.fileno(), "handle": handle, "start": start, "size": size}
        # a worker has one core, and no use for a GPU
        single = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        environment = {**dict.fromkeys(single, "1"), "WEFT_PLATFORMS": "cpu", **os.environ}
        process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND.format(path=sys.path, argv=sys.argv, **names)],
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), handle),
            env=environment,
        )
    return Connected(number, process, ours)


def _end_processes(workers: list[Connected], selector: Any) -> None:
    """Let workers end, and see that they do."""
    for worker in workers:
        worker.connection.close()
    selector.close()
    until = time.monotonic() + _PATIENCE
    for worker in workers:
        try:
            worker.process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()
