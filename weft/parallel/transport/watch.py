"""Watching over the processes of a job: who has died, raised, gone elsewhere or never arrived.

Every process has a thread with a connection to that of process 0, apart from the messages of the
program. It sees what its own process waits for. Once something is wrong all are told the same
sentence, and whoever waits for the others raises it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import sys
import threading
import time
import traceback
from typing import Any

import numpy as np

from weft.base import source
from weft.base.errors import JaxRuntimeError
from weft.core.processes import QUEUED

# Words that native code shares with the thread: whether to give up; the number of the collective
# that is waited for, 0 for none; how many there have been.
STOP, SITE, COUNT = range(3)
# Seconds between two looks; after which a process that waits says so; in which one that has failed
# leaves the others time to end.
PERIOD, PATIENCE, PARTING = 0.1, 1.0, 5.0
# Bytes of a message that are read at a time.
CHUNK = 1 << 16


def fault(text: str) -> JaxRuntimeError:
    """The error of a process that cannot go on because of others."""
    made = JaxRuntimeError(text)
    made.of_others = True  # type: ignore[attr-defined]
    return made


class Watch:
    """The connections between processes beside those of the program, and a thread that reads them.

    ``names`` gives the text of a collective, and the processes that take part, by its number.
    """

    def __init__(self, rank: int, count: int, limit: float, names: Any) -> None:
        self.rank, self.count, self.limit, self.names = rank, count, limit, names
        self.words = np.zeros(8, np.int64)
        self.fault = ""
        self.told = False  # whether the user's code has got it
        self.failed = False  # whether this process itself has gone wrong
        self.leaving = False
        self.gone: set[int] = set()  # those that have said that they end
        self.parted: set[int] = set()  # those that end after a fault
        self.over = False  # whether all do
        self.peers: dict[int, socket.socket] = {}
        self.heard: dict[int, bytes] = {}
        # by process: the collective that it waits in, since when, and who takes part
        self.waiting: dict[int, tuple[str, float, set[int]]] = {}
        self.where: dict[int, str] = {}
        self.late: tuple[int, str, float] | None = None  # who has waited too long, and until when
        self.lock = threading.Lock()
        self.main = threading.main_thread().ident
        self.since: tuple[int, float] = (0, 0.0)
        self.said = -1
        self.listeners: list[Any] = []  # called once something is wrong

    # --- connections ------------------------------------------------------------------------------

    def listen(self, host: str) -> tuple[str, int, str]:
        """Open a place for the others to connect to: its host, port, and a password."""
        self.door = socket.create_server((host, 0), backlog=self.count)
        self.key = os.urandom(16).hex()
        return host, self.door.getsockname()[1], self.key

    def connect(self, host: str, port: int, key: str, limit: float) -> None:
        """Connect to process 0."""
        made = socket.create_connection((host, port), timeout=limit)
        made.sendall(f"{key} {self.rank}\n".encode())
        made.settimeout(None)
        self.peers[0] = made

    def accept(self, limit: float) -> None:
        """Wait for all others."""
        self.door.settimeout(limit)
        while len(self.peers) < self.count - 1:
            made, _ = self.door.accept()
            made.settimeout(limit)
            line = b""
            while not line.endswith(b"\n") and len(line) < 64:
                line += made.recv(1)
            key, _, rank = line.decode().strip().partition(" ")
            if key != self.key:  # not one of ours
                made.close()
                continue
            made.settimeout(None)
            self.peers[int(rank)] = made
        self.door.close()

    def start(self) -> None:
        for peer in self.peers.values():
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.thread = threading.Thread(target=self._run, name="weft watch", daemon=True)
        self.thread.start()
        self.hook = sys.excepthook
        sys.excepthook = self._raised

    def _send(self, to: int, **message: Any) -> None:
        if to == self.rank:
            self._hear(self.rank, message)
            return
        peer = self.peers.get(to)
        if peer is not None:
            with contextlib.suppress(OSError), self.lock:
                peer.sendall(json.dumps(message).encode() + b"\n")

    def _tell_all(self, **message: Any) -> None:
        for rank in list(self.peers):
            self._send(rank, **message)

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            peers = {sock: rank for rank, sock in self.peers.items()}
            try:
                ready, _, _ = select.select(list(peers), [], [], PERIOD)
            except (OSError, ValueError):
                return
            for sock in ready:
                self._read(peers[sock], sock)
            self._look()

    def _read(self, rank: int, sock: socket.socket) -> None:
        try:
            data = sock.recv(CHUNK)
        except OSError:
            data = b""
        if not data:
            del self.peers[rank]
            sock.close()
            if self.rank == 0 and self.parted:
                self._part()
            if rank not in self.gone and not self.leaving:
                self._begin_fault(f"process {rank} ended without a word: it was killed, or crashed")
            return
        *lines, rest = (self.heard.get(rank, b"") + data).split(b"\n")
        self.heard[rank] = rest
        for line in lines:
            self._hear(rank, json.loads(line))

    def _hear(self, rank: int, message: dict[str, Any]) -> None:
        kind = message["kind"]
        if kind == "fault":
            self._take(message["text"])
        elif kind == "raised":
            self.gone.add(rank)
            self._begin_fault(f"process {rank} raised {message['text']}")
        elif kind == "bye":
            self.gone.add(rank)
            self.waiting.pop(rank, None)
            if len(self.gone) == self.count:
                self._tell_all(kind="over")
                self.over = True
        elif kind == "waits":
            self.waiting[rank] = (message["site"], time.monotonic(), {*message["ranks"]})
        elif kind == "goes":
            self.waiting.pop(rank, None)
            if self.late is not None and self.late[0] == rank:
                self.late = None
        elif kind == "late" and self.late is None:
            self.late = (rank, message["site"], time.monotonic() + PATIENCE)
            self.where.clear()
            self._tell_all(kind="where?")
        elif kind == "parting":
            self.parted.add(rank)
            self._part()
        elif kind == "over":
            self.over = True
        elif kind == "where?":
            self._send(0, kind="where", text=self._place())
        elif kind == "where":
            self.where[rank] = message["text"]

    def _part(self) -> None:
        """Let all end once all are about to: a launcher stops the others when the first ends."""
        if len(self.parted | (set(range(1, self.count)) - set(self.peers))) == self.count:
            self._tell_all(kind="over")
            self.over = True

    def _look(self) -> None:
        """See what this process waits for, and, in process 0, what all of them do."""
        now = time.monotonic()
        count, site = int(self.words[COUNT]), int(self.words[SITE])
        if self.fault:
            if not self.told and now - self.fault_at > self.limit:
                self._die()
            return
        if site == 0:
            if self.said >= 0:
                self._send(0, kind="goes")
            self.since, self.said = (count, now), -1
        elif self.since[0] != count or self.since[1] == 0.0:
            if self.said >= 0:
                self._send(0, kind="goes")
            self.since, self.said = (count, now), -1
        else:
            long = now - self.since[1]
            if long > PATIENCE and self.said < 0:
                self.said = 0
                text, ranks = self.names(site)
                self._send(0, kind="waits", site=text, ranks=ranks)
            if long > self.limit and self.said < 1:
                self.said = 1
                self._send(0, kind="late", site=self.names(site)[0])
        if self.rank == 0:
            self._judge(now)

    def _judge(self, now: float) -> None:
        """Find those that cannot meet."""
        for rank, (site, _, ranks) in self.waiting.items():
            for other in sorted(self.gone & ranks):
                self._begin_fault(
                    f"process {other} has ended, and process {rank} waits for the others in {site}"
                )
                return
        stuck = self._stuck(now)
        sites = {rank: self.waiting[rank][0] for rank in stuck}
        for rank in sorted(stuck):
            for other in sorted(self.waiting[rank][2]):
                if sites[other] != sites[rank]:
                    self._begin_fault(
                        f"processes wait for each other in different places: process {rank} in"
                        f" {sites[rank]}; process {other} in {sites[other]}. All of them must call"
                        " the same collectives in the same order"
                    )
                    return
        if self.late is not None and now > self.late[2]:
            rank, site, _ = self.late
            group = self.waiting[rank][2] if rank in self.waiting else range(self.count)
            missing = [r for r in sorted(group) if r not in self.waiting and r != rank]
            if not missing:  # all are there: it only takes long
                self.late = (rank, site, now + self.limit)
                return
            listed = ", ".join(
                f"process {r}, which is at {self._of(r)}," if self._of(r) else f"process {r}"
                for r in missing
            )
            self._begin_fault(
                f"{listed} did not come to {site} within {self.limit:g} seconds"
                " (WEFT_DISTRIBUTED_TIMEOUT), where the others wait"
            )

    def _stuck(self, now: float) -> set[int]:
        """Processes that wait for none but each other, for some time."""
        # a GPU may have much to do before it comes to where its process waits for it
        queued = any(site.endswith(QUEUED) for site, _, _ in self.waiting.values())
        patience = self.limit if queued else PATIENCE
        stuck = {rank for rank, (_, at, _) in self.waiting.items() if now - at > patience}
        while moving := {rank for rank in stuck if not self.waiting[rank][2] <= stuck}:
            stuck -= moving
        return stuck

    def _of(self, rank: int) -> str:
        return self._place() if rank == self.rank else self.where.get(rank, "")

    def _place(self) -> str:
        """The user's line that the main thread is at."""
        frame = sys._current_frames().get(self.main or 0)
        while frame is not None and source.is_internal(frame.f_code.co_filename):
            frame = frame.f_back
        return "" if frame is None else _line(frame.f_code, frame.f_lineno)

    def _begin_fault(self, text: str) -> None:
        """Have everybody told; by process 0, so that all hear the same."""
        if self.rank == 0:
            if not self.fault:
                self._tell_all(kind="fault", text=text)
                self._take(text)
        elif 0 not in self.peers:
            self._take(text)

    def _take(self, text: str) -> None:
        if not self.fault:
            self.fault_at = time.monotonic()
            self.fault = text
            self.words[STOP] = 1
            for function in self.listeners:
                function()

    def _die(self) -> None:
        sys.stderr.write(f"weft: process {self.rank} ends: {self.fault}\n")
        sys.stderr.flush()
        os._exit(1)

    # --- the main thread --------------------------------------------------------------------------

    def check(self) -> None:
        """Raise what is wrong."""
        if self.fault:
            self.told = True
            site = int(self.words[SITE])
            seen = f"; process {self.rank} was in {self.names(site)[0]}" if site else ""
            raise fault(f"{self.fault}{seen}")

    def _raised(self, kind: Any, error: Any, tb: Any) -> None:
        """Tell the others of an error that ends this process."""
        self.failed = True
        if not getattr(error, "of_others", False):
            found = [f for f in traceback.extract_tb(tb) if not source.is_internal(f.filename)]
            where = f" — {os.path.basename(found[-1].filename)}:{found[-1].lineno}" if found else ""
            first = str(error).split("\n")[0]
            self._report(f"{kind.__name__}: {first}{'' if '—' in first else where}")
        self.hook(kind, error, tb)

    def _report(self, text: str) -> None:
        if self.rank == 0:
            self.gone.add(0)
            self._begin_fault(f"process 0 raised {text}")
        else:
            self._send(0, kind="raised", text=text)

    def leave(self) -> bool:
        """Say goodbye; whether all is well, so that MPI can end."""
        sys.stdout.flush()
        sys.stderr.flush()
        if self.failed or self.fault:
            # the others have their time to say what they saw, before a launcher ends them
            self._send(0, kind="parting")
            end = time.monotonic() + min(PARTING, self.limit)
            while not self.over and self.peers and time.monotonic() < end:
                time.sleep(0.01)
            return False
        self._send(0, kind="bye")
        while not self.over and not self.fault:
            time.sleep(0.005)
        self.leaving = self.over
        return self.over

    def close(self) -> None:
        """End the connections."""
        sys.excepthook = self.hook
        self.leaving = True
        for peer in list(self.peers.values()):
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)


def _line(code: Any, line: int) -> str:
    return f"{os.path.basename(code.co_filename)}:{line}, in {code.co_qualname}"
