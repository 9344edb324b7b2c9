"""The limit on address space, looked at before libraries that end the process where they hit it."""

from __future__ import annotations

import os

try:
    import resource
except ImportError:  # not everywhere
    resource = None  # type: ignore[assignment]


def address_space_left() -> int | None:
    """Bytes that this process may still map under its limit, or None where there is no limit."""
    if resource is None:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[0])
    except OSError:
        return None
    return max(0, limit - pages * os.sysconf("SC_PAGE_SIZE"))


def memory() -> int | None:
    """Bytes of memory that the machine has, or None where it does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def need_address_space(amount: int, what: str) -> None:
    """Raise ``MemoryError`` where the limit leaves less than an amount for something."""
    left = address_space_left()
    if left is not None and left < amount:
        raise MemoryError(
            f"{what} needs about {amount >> 20} MB of address space, and the limit on this process"
            f" (RLIMIT_AS, ulimit -v) leaves {left >> 20} MB: raise the limit"
        )
