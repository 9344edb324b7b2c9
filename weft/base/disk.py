"""Objects kept on disk: a private folder of checksummed entries, written whole or not at all.

What is read here is run as machine code, so the folder and each entry must belong to the user and
be writable by nobody else. Anything that does not look right is treated as absent.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Sequence

from weft.base import events
from weft.base.knobs import thread
from weft.base.later import later
from weft.base.record import Record

# The whole of hashlib loads a library that takes as long as all of a small program.
try:
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

MAGIC = b"weftobj2"
FOLDER = "kernels"
# Bytes and entries kept where no knob says how many.
MOST_BYTES = 256 << 20
MOST_ENTRIES = 20000
_MAX_OBJECT_BYTES = 64 << 20
_HEAD = len(MAGIC) + 32 + 32 + 8
# Bytes for which a checksum keeps Python's lock, and of texts, which are read by so many at a time:
# to get the lock back from threads that compile takes longer than a text's checksum.
_HELD, _TEXT = 2047, 1 << 17
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
# To open a pipe would wait for somebody who writes to it.
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)


class Entry(Record):
    """One file of the cache."""

    used: float
    size: int
    name: str


def folder() -> str | None:
    """The folder of entries, or None where there is no cache."""
    chosen = thread.cache
    if not thread.enable_compilation_cache or os.name != "posix":
        return None
    word = (chosen or "").lower()
    if word in ("off", "0", "false", "no"):
        return None
    if word in ("", "on", "1", "true", "yes"):
        chosen = thread.compilation_cache_dir
    return os.path.join(chosen, FOLDER) if chosen else _default()


def _default() -> str | None:
    root = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(root):
        root = os.path.join(os.path.expanduser("~"), ".cache")
        with contextlib.suppress(OSError):
            # Under sudo the home may be somebody else's: leave nothing there.
            if os.stat(os.path.dirname(root)).st_uid != os.geteuid():
                return None
    return os.path.join(root, "weft", FOLDER) if os.path.isabs(root) else None


def has_entries() -> bool:
    """Whether there is anything on disk."""
    where = folder()
    if where is None:
        return False
    try:
        with os.scandir(where) as entries:
            return any(True for _ in entries)
    except OSError:
        return False


def load(key: bytes) -> bytes | None:
    """The object kept under a key of 32 bytes, if there is a sound one."""
    return load_many([key])[0]


def load_many(keys: Sequence[bytes]) -> list[bytes | None]:
    """The objects kept under some keys, each None if there is no sound one."""
    where = folder()
    found: list[bytes | None] = [None] * len(keys)
    if where is None or not keys:
        return found
    try:
        room = _open_folder(where)
    except OSError:
        return found
    try:
        for i, key in enumerate(keys):
            with contextlib.suppress(OSError):
                found[i] = _read(room, key)
    finally:
        os.close(room)
    if events.watcher is not None:
        hits = sum(payload is not None for payload in found)
        events.tell_watcher("cache", "disk", hits=hits, misses=len(found) - hits)
    return found


def _read(room: int, key: bytes) -> bytes | None:
    handle = os.open(key.hex(), os.O_RDONLY | _NO_LINK | _NO_WAIT, dir_fd=room)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or not _private(status):
            return None
        if status.st_size > _MAX_OBJECT_BYTES:
            return None
        whole = b""
        while part := os.read(handle, status.st_size + 1):
            whole += part
        payload = check(whole, key)
        # Writing the time at each use would cost more than it tells.
        if payload is not None and time.time() - status.st_mtime > 3600:
            with contextlib.suppress(OSError):
                os.utime(handle)
        return payload
    finally:
        os.close(handle)


def save(key: bytes, payload: bytes) -> None:
    """Keep an object under a key; where that fails the next process compiles again."""
    where = folder()
    if where is not None:
        _save(where, thread.compilation_cache_max_size, key, payload)


def save_later(made: Callable[[], tuple[bytes, bytes] | None]) -> None:
    """Keep an object under a key, both made when nobody waits for a result any more."""
    where, limit = folder(), thread.compilation_cache_max_size
    if where is None:
        return

    def task() -> None:
        entry = made()
        if entry is not None:
            _save(where, limit, *entry)

    if thread.raise_persistent_cache_errors:  # to whoever is there now
        task()
    else:
        later(task)


def _save(where: str, limit: int, key: bytes, payload: bytes) -> None:
    try:
        room = _open_folder(where, make=True)
        try:
            _write(room, key, payload)
            if key[0] == 0:  # one entry in 256 pays for looking at all of them
                trim(room, limit)
        finally:
            os.close(room)
    except OSError:
        if thread.raise_persistent_cache_errors:
            raise


def _write(room: int, key: bytes, payload: bytes) -> None:
    """A file of another name, filled, then renamed; the checksum stands in for syncing it."""
    name = key.hex()
    passing = f".{name}.{os.getpid()}.{time.monotonic_ns()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
    handle = os.open(passing, flags, 0o600, dir_fd=room)
    try:
        try:
            rest = memoryview(seal(key, payload))
            while rest:
                rest = rest[os.write(handle, rest) :]
        finally:
            os.close(handle)
        os.rename(passing, name, src_dir_fd=room, dst_dir_fd=room)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(passing, dir_fd=room)
        raise


def digest(data: bytes) -> bytes:
    """The checksum of some bytes, and the key of a text: 32 bytes."""
    if len(data) > _TEXT:
        return blake2b(data, digest_size=32).digest()
    made = blake2b(digest_size=32)
    for begin in range(0, len(data), _HELD):
        made.update(data[begin : begin + _HELD])
    return made.digest()


def seal(key: bytes, payload: bytes) -> bytes:
    """An entry: what it is, which key it answers, a checksum, a length, the object."""
    length = len(payload).to_bytes(8, "little")
    return b"".join([MAGIC, key, digest(payload), length, payload])


def check(whole: bytes, key: bytes) -> bytes | None:
    """The object of an entry, or None where it is not the one asked for or not sound."""
    payload = whole[_HEAD:]
    return payload if len(whole) >= _HEAD and seal(key, payload) == whole else None


def _private(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _open_folder(where: str, make: bool = False) -> int:
    """A descriptor of the folder, once it is known to be ours alone."""
    flags = os.O_RDONLY | os.O_DIRECTORY | _NO_LINK
    try:
        room = os.open(where, flags)
    except FileNotFoundError:
        if not make:
            raise
        os.makedirs(os.path.dirname(where), 0o700, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(where, 0o700)
        room = os.open(where, flags)
    if not _private(os.fstat(room)):
        os.close(room)
        raise PermissionError(
            f"the cache folder {where} belongs to another user, or other users can write to it"
        )
    return room


def trim(room: int, limit: int = -1) -> None:
    """Delete the entries used longest ago, and what broken writers left, beyond the limits."""
    limit = MOST_BYTES if limit < 0 else limit
    entries = []
    for name in os.listdir(room):
        with contextlib.suppress(OSError):
            status = os.stat(name, dir_fd=room, follow_symlinks=False)
            if name.startswith(".") and time.time() - status.st_mtime > 3600:
                os.unlink(name, dir_fd=room)
            elif len(name) == 64:
                entries.append(Entry(status.st_mtime, status.st_size, name))
    entries.sort(reverse=True)
    total, kept = 0, 0
    for entry in entries:
        if total + entry.size <= limit and kept < MOST_ENTRIES:
            total += entry.size
            kept += 1
        else:
            with contextlib.suppress(OSError):
                os.unlink(entry.name, dir_fd=room)
