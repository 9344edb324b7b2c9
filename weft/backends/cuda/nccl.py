"""NCCL through ctypes: communicators of GPUs, and what they send and reduce on streams.

Who takes part and what is sent is decided in ``messages.py`` and ``several.py``. Nothing here waits
for the GPU; calls that wait for other processes can be left.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.backends.cuda import driver, libraries
from weft.backends.cuda.driver import DriverError
from weft.base.functional import lru

_INT, _SIZE, _PTR = ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p
_ADDRESS = ctypes.c_uint64
KEY_BYTES = 128


class _Key(ctypes.Structure):
    """What processes find each other by."""

    _fields_ = [("bytes", ctypes.c_char * KEY_BYTES)]


# Functions and the types of their arguments; all return a status.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "ncclGetVersion": (_PTR,),
    "ncclGetUniqueId": (_PTR,),
    "ncclCommInitRank": (_PTR, _INT, _Key, _INT),
    "ncclCommInitAll": (_PTR, _INT, _PTR),
    "ncclCommAbort": (_PTR,),
    "ncclCommGetAsyncError": (_PTR, _PTR),
    "ncclAllReduce": (_ADDRESS, _ADDRESS, _SIZE, _INT, _INT, _PTR, _PTR),
    "ncclReduceScatter": (_ADDRESS, _ADDRESS, _SIZE, _INT, _INT, _PTR, _PTR),
    "ncclAllGather": (_ADDRESS, _ADDRESS, _SIZE, _INT, _PTR, _PTR),
    "ncclBroadcast": (_ADDRESS, _ADDRESS, _SIZE, _INT, _INT, _PTR, _PTR),
    "ncclSend": (_ADDRESS, _SIZE, _INT, _INT, _PTR, _PTR),
    "ncclRecv": (_ADDRESS, _SIZE, _INT, _INT, _PTR, _PTR),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
}
# As nccl.h numbers them.
OPERATIONS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}
_BYTE, _F32, _F64 = 1, 7, 8
_TYPES = {
    np.dtype(np.int8): 0,
    np.dtype(np.uint8): _BYTE,
    np.dtype(np.int32): 2,
    np.dtype(np.uint32): 3,
    np.dtype(np.int64): 4,
    np.dtype(np.uint64): 5,
    np.dtype(np.float16): 6,
    np.dtype(np.float32): _F32,
    np.dtype(np.float64): _F64,
    np.dtype(dtypes.bfloat16): 9,
}
_IN_PROGRESS = 7
# Seconds between two looks at a call that waits for other processes.
PERIOD = 0.01


class NcclError(DriverError):
    """A call of NCCL that failed."""


@lru(1)
def library() -> Any:
    """NCCL's library."""
    found = libraries.library("nccl")
    for name, types in _FUNCTIONS.items():
        getattr(found, name).argtypes = types
    found.ncclGetErrorString.restype = found.ncclGetLastError.restype = ctypes.c_char_p
    found.ncclGetLastError.argtypes = (_PTR,)
    return found


def available() -> bool:
    """Whether NCCL is installed."""
    return libraries.has("nccl")


def call(name: str, *args: Any) -> None:
    """Call a function of NCCL; its failures are errors."""
    found = library()
    status = getattr(found, name)(*args)
    if status and status != _IN_PROGRESS:
        raise NcclError(f"{name}: {_explained(found, status)}")


def _explained(found: Any, status: int) -> str:
    text = (found.ncclGetErrorString(status) or b"?").decode()
    more = (found.ncclGetLastError(None) or b"").decode().strip()
    return f"{text} ({more})" if more else text


def version() -> tuple[int, int, int]:
    """NCCL's version."""
    found = _INT()
    call("ncclGetVersion", ctypes.byref(found))
    return found.value // 10000, found.value // 100 % 100, found.value % 100


def new_key() -> bytes:
    """What the members of a new communicator find each other by; one makes it for all."""
    key = _Key()
    call("ncclGetUniqueId", ctypes.byref(key))
    return bytes(memoryview(key))


def words_of(dtype: Any, operation: str) -> tuple[int, int] | None:
    """The type that NCCL reduces elements as, and its words in each; None where it can't.

    Complex numbers are added as pairs, and booleans are bytes. Integers of 16 bits it doesn't know.

    >>> words_of(np.complex64, "sum"), words_of(np.complex64, "max"), words_of(np.int16, "sum")
    ((7, 2), None, None)
    """
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        real = {8: _F32, 16: _F64}[dtype.itemsize]
        return (real, 2) if operation in ("sum", "avg") else None
    if dtype.kind == "b":
        return (_BYTE, 1) if operation in ("max", "min", "prod") else None
    found = _TYPES.get(dtype)
    return None if found is None else (found, 1)


@contextlib.contextmanager
def group() -> Iterator[None]:
    """Have calls made together: none of them waits for a later one."""
    call("ncclGroupStart")
    try:
        yield
    finally:
        call("ncclGroupEnd")


class Communicator:
    """One GPU's membership in a group of them."""

    def __init__(self, handle: Any, rank: int, size: int) -> None:
        self.handle, self.rank, self.size = handle, rank, size
        self.aborted = False
        self._lock = threading.Lock()

    # --- moves: sizes are bytes -------------------------------------------------------------------

    def all_gather(self, source: int, target: int, size: int, stream: Any) -> None:
        """What all members have, one after the other."""
        call("ncclAllGather", source, target, size, _BYTE, self.handle, stream)

    def broadcast(self, source: int, target: int, size: int, root: int, stream: Any) -> None:
        """What one member has, for all."""
        call("ncclBroadcast", source, target, size, _BYTE, root, self.handle, stream)

    def send(self, source: int, size: int, to: int, stream: Any) -> None:
        call("ncclSend", source, size, _BYTE, to, self.handle, stream)

    def receive(self, target: int, size: int, sender: int, stream: Any) -> None:
        call("ncclRecv", target, size, _BYTE, sender, self.handle, stream)

    def all_to_all(
        self, source: int, target: int, size: int, stream: Any, own: bool = True
    ) -> None:
        """A row of so many bytes for each member, and one from each; its own may be left out."""
        with group():
            for other in range(self.size):
                if other != self.rank:
                    self.send(source + other * size, size, other, stream)
                    self.receive(target + other * size, size, other, stream)
        if own:
            here = self.rank * size
            driver.copy(target + here, source + here, size, stream)

    # --- reductions: sizes are elements -----------------------------------------------------------

    def all_reduce(
        self, source: int, target: int, count: int, dtype: Any, operation: str, stream: Any
    ) -> None:
        """A reduction of what all members have, for all."""
        kind, words = _reducible(dtype, operation)
        given = source, target, count * words, kind, OPERATIONS[operation]
        call("ncclAllReduce", *given, self.handle, stream)

    def reduce_scatter(
        self, source: int, target: int, count: int, dtype: Any, operation: str, stream: Any
    ) -> None:
        """The same, with so many elements of it for each member."""
        kind, words = _reducible(dtype, operation)
        given = source, target, count * words, kind, OPERATIONS[operation]
        call("ncclReduceScatter", *given, self.handle, stream)

    # --- errors -----------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise what has gone wrong since the last call."""
        if self.aborted:
            raise NcclError("this communicator was aborted")
        status = _INT()
        call("ncclCommGetAsyncError", self.handle, ctypes.byref(status))
        if status.value not in (0, _IN_PROGRESS):
            raise NcclError(f"messages between GPUs failed: {_explained(library(), status.value)}")

    def abort(self) -> None:
        """Stop what is being sent, also where others never come, and leave the group.

        Another thread does it: NCCL stops at once, and then waits for all graphs with its calls to
        be given up.
        """
        with self._lock:
            before, self.aborted = self.aborted, True
        if not before:
            given = ("ncclCommAbort", self.handle)
            threading.Thread(target=call, args=given, name="weft leaves NCCL", daemon=True).start()


def _reducible(dtype: Any, operation: str) -> tuple[int, int]:
    found = words_of(dtype, operation)
    if found is None:
        raise NcclError(f"NCCL has no {operation} of {np.dtype(dtype)}")
    return found


def join(
    key: bytes,
    rank: int,
    size: int,
    limit: float,
    check: Callable[[], None] = lambda: None,
) -> Communicator:
    """Become a member of a communicator, which all members do together, with the GPU in use.

    ``check`` is called while others are waited for, and may raise.
    """
    device = driver.device()
    handle, failed = _PTR(), []

    def run() -> None:
        try:
            device.use()
            found = _Key.from_buffer_copy(key)
            call("ncclCommInitRank", ctypes.byref(handle), size, found, rank)
        except DriverError as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="weft joins NCCL", daemon=True)
    thread.start()
    end = time.monotonic() + limit
    while thread.is_alive():
        thread.join(PERIOD)
        check()
        if time.monotonic() > end:
            raise NcclError(
                f"not all of {size} members joined a communicator within {limit:g} seconds"
                " (WEFT_DISTRIBUTED_TIMEOUT)"
            )
    if failed:
        raise NcclError(
            f"NCCL can't join GPU {device.number} to {size - 1} others: {failed[0]}. Each process "
            "needs its own GPU; start one process per GPU"
        ) from failed[0]
    return Communicator(handle, rank, size)


def join_all(numbers: Sequence[int]) -> list[Communicator]:
    """A communicator of several GPUs of this process: the membership of each."""
    handles = (_PTR * len(numbers))()
    given = (_INT * len(numbers))(*numbers)
    call("ncclCommInitAll", handles, len(numbers), given)
    return [Communicator(_PTR(h), i, len(numbers)) for i, h in enumerate(handles)]
