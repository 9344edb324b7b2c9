"""A key-value store that the processes of a job share, over TCP, and messages through it.

Process 0 serves it. Plugins with devices of several processes find each other by it. Jobs that no
MPI has started send their messages through it: that is simple, and slow for large arrays.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import socket
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.base.errors import JaxRuntimeError
from weft.core.processes import Alone
from weft.parallel.transport.order import settled

# A request: what it asks for, bytes of its key and of its value, milliseconds that an answer may
# take, and how often the value will be read (0: it stays). An answer: how it went, and bytes.
_REQUEST, _ANSWER = struct.Struct("<cIQqI"), struct.Struct("<cQ")
_PUT, _GET, _TRY, _HELLO, _BYE = b"P", b"G", b"T", b"H", b"B"
_FOUND, _NONE, _LATE, _LOST = b"F", b"N", b"L", b"X"
# Seconds between two tries to reach a server that is not there yet.
RETRY_S = 0.05


def _read(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        part = connection.recv(min(size - len(found), 1 << 20))
        if not part:
            raise ConnectionError("the connection has ended")
        found += part
    return bytes(found)


class Server:
    """The store itself: values by key, and threads that answer for them."""

    def __init__(self, host: str, port: int, count: int) -> None:
        self.values: dict[bytes, tuple[bytes, int]] = {}
        self.changed = threading.Condition()
        self.count, self.left, self.lost = count, set[int](), set[int]()
        self.door = socket.create_server((host, port), backlog=4 * count)
        self.port = self.door.getsockname()[1]
        threading.Thread(target=self._accept, name="weft store", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.door.accept()
            except OSError:
                return  # closed
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            name = "weft store"
            threading.Thread(target=self._serve, args=(connection,), name=name, daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        rank: int | None = None  # of the process that this connection stands for
        try:
            with connection:
                while True:
                    head = _REQUEST.unpack(_read(connection, _REQUEST.size))
                    task, key_size, size, limit, reads = head
                    key, value = _read(connection, key_size), _read(connection, size)
                    if task == _HELLO:
                        rank = reads
                    status, found = self._answer(task, key, value, limit, reads)
                    connection.sendall(_ANSWER.pack(status, len(found)) + found)
        except (OSError, ConnectionError):
            pass
        if rank is not None:
            with self.changed:
                if rank not in self.left:
                    self.lost.add(rank)
                self.changed.notify_all()

    def _answer(
        self, task: bytes, key: bytes, value: bytes, limit: int, reads: int
    ) -> tuple[bytes, bytes]:
        with self.changed:
            if task in (_GET, _TRY):
                return self._got(key, 0.0 if task == _TRY else limit / 1000)
            if task == _PUT:
                self.values[key] = value, reads
            elif task == _BYE:
                self.left.add(reads)
            self.changed.notify_all()
            return _FOUND, b""

    def _got(self, key: bytes, limit: float) -> tuple[bytes, bytes]:
        """A value, which is forgotten when it has been read as often as was said."""
        end = time.monotonic() + limit
        while key not in self.values:
            gone = sorted(self.lost | self.left)
            if gone and limit:
                how = "ended" if gone[0] in self.lost else "left the others"
                return _LOST, f"process {gone[0]} has {how}".encode()
            rest = end - time.monotonic()
            if rest <= 0:
                return (_LATE if limit else _NONE), b""
            self.changed.wait(rest)
        value, reads = self.values[key]
        if reads == 1:
            del self.values[key]
        elif reads:
            self.values[key] = value, reads - 1
        return _FOUND, value

    def close(self, limit: float) -> None:
        """End once all processes have left, or after some seconds."""
        with self.changed:
            over = lambda: len(self.left | self.lost) >= self.count
            self.changed.wait_for(over, limit)
        self.door.close()


class Store:
    """The store as a process sees it; threads have connections of their own."""

    def __init__(self, host: str, port: int, rank: int, limit: float) -> None:
        self.place, self.rank, self.limit = (host, port), rank, limit
        self._own, self._every = threading.local(), list[socket.socket]()
        self._main = self._connected(limit)
        self._asked = threading.Lock()
        with self._asked:
            self._ask(self._main, _HELLO, reads=rank)

    def _connected(self, limit: float) -> socket.socket:
        end = time.monotonic() + limit
        while True:
            try:
                made = socket.create_connection(self.place, timeout=max(limit, 1.0))
                break
            except OSError as error:
                if time.monotonic() > end:
                    host, port = self.place
                    raise JaxRuntimeError(
                        f"DEADLINE_EXCEEDED: process {self.rank} can't reach process 0 at"
                        f" {host}:{port}: {error}; start all processes with the same"
                        " coordinator_address, that of process 0"
                    ) from None
                time.sleep(RETRY_S)
        made.settimeout(None)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._every.append(made)
        return made

    def _ask(
        self,
        connection: socket.socket,
        task: bytes,
        key: bytes = b"",
        value: bytes = b"",
        limit: int = 0,
        reads: int = 0,
    ) -> tuple[bytes, bytes]:
        try:
            head = _REQUEST.pack(task, len(key), len(value), limit, reads)
            connection.sendall(head + key + value)
            status, size = _ANSWER.unpack(_read(connection, _ANSWER.size))
            return status, _read(connection, size)
        except (OSError, ConnectionError) as error:
            raise JaxRuntimeError(
                f"UNAVAILABLE: process 0, which serves the others, can't be reached: {error}"
            ) from None

    def _connection(self) -> socket.socket:
        found = getattr(self._own, "connection", None)
        if found is None:
            found = self._own.connection = self._connected(self.limit)
        return found

    def put(self, key: bytes, value: bytes, reads: int = 0) -> None:
        """Set a value; with ``reads``, until it has been read so often."""
        self._ask(self._connection(), _PUT, key, value, reads=reads)

    def get(self, key: bytes, limit_ms: int) -> bytes:
        """A value, once somebody has set it; TimeoutError where that takes too long."""
        status, found = self._ask(self._connection(), _GET, key, limit=max(limit_ms, 1))
        if status == _LOST:
            raise JaxRuntimeError(f"UNAVAILABLE: {found.decode()}, and other processes wait for it")
        if status == _LATE:
            raise TimeoutError(f"no process has set {key.decode(errors='replace')!r}")
        return found

    def try_get(self, key: bytes) -> bytes | None:
        """A value; None where nobody has set it yet."""
        status, found = self._ask(self._connection(), _TRY, key)
        return found if status == _FOUND else None

    def leave(self) -> None:
        """Say that this process needs the others no more."""
        with contextlib.suppress(JaxRuntimeError), self._asked:
            self._ask(self._main, _BYE, reads=self.rank)
        for connection in self._every:
            connection.close()


def beside(transport: Any, count: int, rank: int, limit: float) -> Store:
    """A store for processes that have another way to send messages; all of them call this."""
    server = Server("", 0, count) if rank == 0 else None
    host = socket.gethostname() if server is not None else ""
    port = 0 if server is None else server.port
    told = transport.share(f"{host} {port}".encode())[0].decode().split()
    same = all(name == told[0].encode() for name in transport.share(socket.gethostname().encode()))
    made = Store("127.0.0.1" if same else told[0], int(told[1]), rank, limit)
    transport.at_end(made.leave)
    return made


class Messages(Alone):
    """The processes of a job that no MPI has started: they meet at the address of process 0."""

    def __init__(
        self, address: str, count: int, rank: int, limit: float, start: float, bind: str | None
    ) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise ValueError(
                f"coordinator_address is {address!r}; write host:port of process 0, as"
                " '10.0.0.1:1234'"
            )
        self.rank, self.size, self.limit = rank, count, limit
        self.every = tuple(range(count))
        self.server = None
        if rank == 0:
            at, _, bound = (bind or f"{host}:{port}").rpartition(":")
            self.server = Server(at.strip("[]"), int(bound), count)
        self.store = Store(host.strip("[]"), int(port), rank, start)
        self.site: Any = "the start"
        self.kind = ""
        self.turns: dict[tuple[int, ...], int] = {}
        self.programs, self.endings, self.ended = 1, list[Any](), False
        atexit.register(self.end)
        hosts = self.share(socket.gethostname().encode())
        self.place = hosts[:rank].count(hosts[rank])  # among those on this machine

    def end(self, limit: float = 300.0) -> None:
        """Leave the others, once; process 0 waits for them."""
        if self.ended:
            return
        self.ended = True
        for function in self.endings:
            function()
        self.store.leave()
        if self.server is not None:
            self.server.close(limit)

    @contextlib.contextmanager
    def at(self, site: Any, kind: str = "") -> Iterator[None]:
        """Say which collective messages belong to, and what of it must be the same for all."""
        previous = self.site, self.kind
        self.site, self.kind = site, kind
        try:
            yield
        finally:
            self.site, self.kind = previous

    # --- messages ---------------------------------------------------------------------------------

    def _turn(self, ranks: tuple[int, ...]) -> str:
        """The name of the next exchange between some processes."""
        turn = self.turns[ranks] = self.turns.get(ranks, 0) + 1
        return f"message {','.join(map(str, ranks))} {turn}"

    def _send(self, name: str, receiver: Any, data: bytes, reads: int = 1) -> None:
        head = struct.pack("<I", zlib.crc32(str(self.kind or self.site).encode()))
        self.store.put(f"{name} {self.rank} {receiver}".encode(), head + data, reads)

    def _receive(self, name: str, sender: int, receiver: Any) -> bytes:
        limit = int(self.limit * 1000) if self.limit and self.limit > 0 else 1 << 40
        try:
            found = self.store.get(f"{name} {sender} {receiver}".encode(), limit)
        except TimeoutError:
            raise JaxRuntimeError(
                f"process {self.rank} has waited {self.limit:g} s for process {sender} in"
                f" {self.site}; see the knob distributed_timeout"
            ) from None
        own = struct.pack("<I", zlib.crc32(str(self.kind or self.site).encode()))
        if found[:4] != own:
            raise JaxRuntimeError(
                f"processes are in different collectives: process {self.rank} in {self.site}, and "
                f"process {sender} in another one. All processes must run the"
                " same functions on arrays of the same types, in the same order"
            )
        return found[4:]

    def share(self, value: bytes, ranks: tuple[int, ...] | None = None) -> list[bytes]:
        """A message of every process."""
        ranks = self.every if ranks is None else ranks
        name, others = self._turn(ranks), [r for r in ranks if r != self.rank]
        if others:
            self._send(name, "all", value, len(others))
        return [value if r == self.rank else self._receive(name, r, "all") for r in ranks]

    def all_gather(self, data: np.ndarray, ranks: tuple[int, ...]) -> np.ndarray:
        """What all of some processes have, a row for each."""
        rows = self.share(data.tobytes(), ranks)
        return np.stack([np.frombuffer(r, data.dtype).reshape(data.shape) for r in rows])

    def all_to_all(self, data: np.ndarray, ranks: tuple[int, ...]) -> np.ndarray:
        """A row from each process; row ``i`` of each one's own goes to the ``i``-th."""
        name, out = self._turn(ranks), np.empty(data.shape, data.dtype)
        for rank, row in zip(ranks, data, strict=True):
            if rank != self.rank:
                self._send(name, rank, row.tobytes())
        for i, rank in enumerate(ranks):
            if rank == self.rank:
                out[i] = data[i]
            else:
                found = self._receive(name, rank, self.rank)
                out[i] = np.frombuffer(found, data.dtype).reshape(data.shape[1:])
        return out

    def permute(
        self, data: np.ndarray, moves: tuple[tuple[int, ...], ...], ranks: tuple[int, ...]
    ) -> np.ndarray:
        """Rows that others send, zeros where none arrives."""
        name, out = self._turn(ranks), np.zeros(data.shape, data.dtype)
        for number, (sender, row, receiver, target) in enumerate(moves):
            if sender == receiver == self.rank:
                out[target] = data[row]
            elif sender == self.rank:
                self._send(name, f"{receiver} {number}", data[row].tobytes())
        for number, (sender, _, receiver, target) in enumerate(moves):
            if receiver == self.rank and sender != self.rank:
                found = self._receive(name, sender, f"{receiver} {number}")
                out[target] = np.frombuffer(found, data.dtype).reshape(data.shape[1:])
        return out

    def swap(
        self, sends: dict[int, np.ndarray], sizes: dict[int, int], what: str
    ) -> dict[int, np.ndarray]:
        """Bytes for each process and from each, of sizes that both know; ``what`` says of what."""
        ranks = tuple(sorted(sizes))
        name, found = self._turn(ranks), {self.rank: sends[self.rank]}
        with self.at(what):
            for rank in sends:
                if rank != self.rank:
                    self._send(name, rank, sends[rank].tobytes())
            for rank in ranks:
                if rank != self.rank:
                    found[rank] = np.frombuffer(self._receive(name, rank, self.rank), np.uint8)
        return found

    def begin_program(self, name: str, ranks: tuple[int, ...], text: str) -> int:
        """The number of a program; raises where others are about to run another one."""
        digest = hashlib.sha256(settled(text).encode()).hexdigest()
        with self.at(f"the first call of {name}", "the first call of a program"):
            told = [
                row.decode().split(" ", 2)
                for row in self.share(f"{digest} {self.programs} {name}".encode(), ranks)
            ]
        for rank, (other, _, called) in zip(ranks, told, strict=True):
            if other != told[0][0]:
                raise JaxRuntimeError(
                    f"process {rank} is about to run a different program from process {ranks[0]}:"
                    f" {called}, and {told[0][2]} there. All processes must run the same functions"
                    " on arrays of the same types, in the same order"
                )
        number = max(int(row[1]) for row in told)
        self.programs = number + 1
        return number

    def at_end(self, function: Any) -> None:
        """Have a function called when processes leave each other."""
        self.endings.append(function)
