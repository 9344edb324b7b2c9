"""Files below a folder, and nothing else: no symbolic link is followed, no pipe is waited for."""

import os
import stat
from collections.abc import Iterator
from typing import IO

MAX_FOLDERS, MAX_DEPTH = 100_000, 12


def open_folder(folder: int, *names: str) -> int | None:
    """A descriptor of a folder below another, step by step; None where there is no such folder."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    opened = os.dup(folder)
    for name in names:
        try:
            deeper = os.open(name, flags, dir_fd=opened)
        except (OSError, ValueError):
            os.close(opened)
            return None
        os.close(opened)
        opened = deeper
    return opened


def open_file(folder: int, *names: str) -> IO[bytes] | None:
    """A regular file below a folder, open for reading; None where there is no such file."""
    holder = open_folder(folder, *names[:-1])
    if holder is None:
        return None
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        opened = os.open(names[-1], flags, dir_fd=holder)
    except (OSError, ValueError):
        return None
    finally:
        os.close(holder)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        return None
    return os.fdopen(opened, "rb")


def read_file(folder: int, *names: str, most: int = 1_000_000) -> bytes | None:
    """The beginning of a file below a folder; None where there is no such file."""
    file = open_file(folder, *names)
    if file is None:
        return None
    with file:
        return file.read(most)


def read_end(folder: int, *names: str, most: int = 4_000) -> str:
    """The end of a text file below a folder."""
    file = open_file(folder, *names)
    if file is None:
        return ""
    with file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - most))
        return file.read(most).decode("utf-8", "replace")


def names_in(folder: int, *names: str, most: int = 10_000) -> list[str]:
    """The names in a folder below a folder, in order; hidden ones are left out."""
    opened = open_folder(folder, *names)
    if opened is None:
        return []
    try:
        with os.scandir(opened) as entries:
            found = [entry.name for _, entry in zip(range(most), entries)]
    except OSError:
        return []
    finally:
        os.close(opened)
    return sorted(name for name in found if not name.startswith("."))


def signature(folder: int, *names: str) -> tuple[int, ...] | None:
    """Changes when a file is written to or replaced; None where there is no such file."""
    holder = open_folder(folder, *names[:-1])
    if holder is None:
        return None
    try:
        found = os.stat(names[-1], dir_fd=holder, follow_symlinks=False)
    except (OSError, ValueError):
        return None
    finally:
        os.close(holder)
    return found.st_ino, found.st_size, found.st_mtime_ns


def walk(top: str) -> Iterator[tuple[str, list[str], list[str], int]]:
    """Folders below one: path from the top, names of folders and files, and a descriptor."""
    seen = 0
    for path, folders, files, descriptor in os.fwalk(top, follow_symlinks=False):
        seen += 1
        if seen > MAX_FOLDERS:
            return
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        inside = os.path.relpath(path, top)
        yield inside, folders, files, descriptor
        if inside.count(os.sep) >= MAX_DEPTH:
            folders[:] = []
