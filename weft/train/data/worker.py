"""A worker process: it gets a pipeline once, and then computes chunks until its input ends."""

import contextlib
import mmap
import os
import pickle
import signal
import socket
import struct
import time
import traceback
from collections import OrderedDict
from typing import Any

import numpy as np

from weft.train.data.errors import add_place, is_placed
from weft.train.data.rows import Chunk, Columns, tree_map
from weft.train.data.shared import Slab, places, write

INLINE = 1 << 14  # bytes of arrays up to which a reply needs no shared memory
_SESSIONS = 64  # readers whose open streams are kept
HEAD = struct.Struct("<I")


def send(connection: socket.socket, message: Any, handle: int | None = None) -> None:
    """Send a message, and a descriptor of a file with it."""
    body = message if isinstance(message, bytes) else pickle.dumps(message, 5)
    data = HEAD.pack(len(body)) + body
    if handle is not None:
        sent = socket.send_fds(connection, [data], [handle])
        data = data[sent:]
    connection.sendall(data)


def receive(connection: socket.socket) -> Any:
    """The next message; None at the end."""
    head = _exactly(connection, HEAD.size)
    return None if head is None else pickle.loads(_exactly(connection, HEAD.unpack(head)[0]) or b"")


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class Worker:
    """What a worker process has: the nodes of a pipeline, open streams, and its slabs."""

    def __init__(self, connection: socket.socket, nodes: list[Any]) -> None:
        self.connection, self.nodes = connection, nodes
        self.sessions: OrderedDict[int, dict] = OrderedDict()
        self.slabs: dict[int, Slab] = {}
        self.made = 0

    def session(self, key: int) -> dict:
        found = self.sessions.pop(key, None) or {"key": key}
        self.sessions[key] = found
        while len(self.sessions) > _SESSIONS:
            self.sessions.popitem(last=False)
        return found

    def run(self) -> None:
        """Answer until the other side is gone."""
        while (task := receive(self.connection)) is not None:
            ticket, node, start, stop, epoch, key, slab = task
            began = time.perf_counter()
            try:
                slots = np.arange(start, stop)
                chunk = self.nodes[node].rows(slots, epoch, self.session(key))
                # what a stream holds open is not part of the answer
                self.answer(ticket, chunk, slab, began)
            except (BrokenPipeError, ConnectionResetError):
                return
            except Exception as error:
                if not is_placed(error):
                    add_place(error, self.nodes[node].describe(), start)
                send(self.connection, ("error", ticket, slab, *described(error)))

    def answer(self, ticket: int, chunk: Chunk, slab: int, began: float) -> None:
        """Send a chunk: arrays through shared memory, the rest through the connection."""
        buffers: list[memoryview] = []

        def keep(buffer: pickle.PickleBuffer) -> bool:
            buffers.append(buffer.raw())
            return False

        chunk = Chunk(_contiguous(chunk.rows), chunk.where, chunk.ended)
        body = pickle.dumps(chunk, 5, buffer_callback=keep)
        sizes = [buffer.nbytes for buffer in buffers]
        starts, total = places(sizes)
        if total <= INLINE:
            body = pickle.dumps(chunk, 5)
            seconds = time.perf_counter() - began
            send(self.connection, ("inline", ticket, slab, seconds, body))
            return
        used = self.slab(slab, total)
        write(used.memory, starts, buffers)
        seconds = time.perf_counter() - began
        message = ("shared", ticket, used.number, seconds, body, list(zip(starts, sizes)))
        send(self.connection, message)

    def slab(self, number: int, size: int) -> Slab:
        """The slab that was offered, or a new one in its place if that is too small."""
        known = self.slabs.get(number)
        if known is not None and known.size >= size:
            return known
        if known is not None:
            del self.slabs[number]
            known.memory.close()
        self.made += 1
        made = Slab(self.made, max(1 << 16, 1 << (size - 1).bit_length()))
        self.slabs[self.made] = made
        send(self.connection, ("slab", made.number, made.size, number), made.handle)
        made.close_handle()
        return made


def _contiguous(rows: Any) -> Any:
    """Rows whose arrays are whole pieces of memory, which need no pickling."""
    fix = lambda x: np.ascontiguousarray(x) if isinstance(x, np.ndarray) and x.ndim else x
    if isinstance(rows, Columns):
        return Columns(tree_map(fix, rows.tree), rows.length)
    return [tree_map(fix, element) for element in rows]


def described(error: Exception) -> tuple[bytes | None, str, list[str], str]:
    """An error as another process can raise it: pickled if possible, and its texts."""
    notes = list(getattr(error, "__notes__", ()))
    text = f"{type(error).__name__}: {error}"
    trace = "".join(traceback.format_exception(error))
    try:
        body = pickle.dumps(error)
        pickle.loads(body)
    except Exception:
        body = None
    return body, text, notes, trace


def load(handle: int, start: int, size: int, buffers: list[tuple[int, int]]) -> Any:
    """An object that another process wrote into a file: arrays are views of it, to be changed
    by this process alone."""
    memory = mmap.mmap(handle, 0, access=mmap.ACCESS_COPY)
    view = memoryview(memory)
    parts = [view[begin : begin + length] for begin, length in buffers]
    return pickle.loads(view[start : start + size], buffers=parts)


def main(connection: int, handle: int, start: int, size: int) -> None:
    """What a worker process runs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that reads ends this one
    with socket.socket(fileno=connection) as opened:
        try:
            with open(os.dup(handle), "rb") as file:
                file.seek(start)
                buffers = pickle.loads(file.read(size))
            body, nodes = buffers[-1], []
            nodes = load(handle, *body, buffers[:-1])
        except Exception as error:
            with contextlib.suppress(BrokenPipeError):
                send(opened, ("failed", *described(error)))
            return
        os.close(handle)
        send(opened, ("ready",))
        try:
            Worker(opened, nodes).run()
        except (BrokenPipeError, ConnectionResetError):
            return
