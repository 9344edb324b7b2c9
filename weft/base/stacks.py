"""Work that needs a deep stack, done on a thread of our own where the caller's is shallow.

LLVM takes some hundred kilobytes, which threads made with a small stack, and programs under a small
``ulimit -s``, do not have: the process would be ended by a fault that names nobody.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from weft.base.forks import across_forks
from weft.base.functional import lru

# A stack that is taken as it is, and the one that is made.
MIN_STACK_BYTES = 1 << 20
NEW_STACK_BYTES = 16 << 20
_here = threading.local()
# The size of new stacks is one setting for all threads.
_starting = across_forks(threading.Lock())


def stack_bytes() -> int:
    """The size of this thread's stack, or what is enough where that is not known."""
    found = getattr(_here, "size", None)
    if found is None:
        found = _here.size = _ask()
    return found


@lru(1)
def _functions() -> tuple[Any, ...] | None:
    """Those of C that tell where a thread's stack lies."""
    try:
        library = ctypes.PyDLL(None)  # for what is done sooner than Python's lock changes hands
        look, get = library.pthread_getattr_np, library.pthread_attr_getstack
        me, end = library.pthread_self, library.pthread_attr_destroy
    except (AttributeError, OSError):
        return None
    me.restype = ctypes.c_void_p
    look.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    return me, look, get, end


def _ask() -> int:
    found = _functions()
    if found is None:
        return MIN_STACK_BYTES
    me, look, get, end = found
    attributes = ctypes.create_string_buffer(256)  # glibc's take 64 at most
    if look(me(), attributes):
        return MIN_STACK_BYTES
    start, size = ctypes.c_void_p(), ctypes.c_size_t()
    failed = get(attributes, ctypes.byref(start), ctypes.byref(size))
    end(attributes)
    return MIN_STACK_BYTES if failed else size.value


def with_room(function: Callable[..., Any], *args: Any) -> Any:
    """The result of a function, called with at least ``MIN_STACK_BYTES`` of stack."""
    if stack_bytes() >= MIN_STACK_BYTES:
        return function(*args)
    outcome: list[Any] = []

    def call() -> None:
        try:
            outcome.append((function(*args), None))
        except BaseException as error:  # the caller's to handle, whatever it is
            outcome.append((None, error))

    helper = threading.Thread(target=call, name="weft-compile")
    with _starting:
        before = threading.stack_size(NEW_STACK_BYTES)
        try:
            helper.start()
        finally:
            threading.stack_size(before)
    helper.join()
    result, error = outcome[0]
    if error is not None:
        raise error
    return result
