"""Memory of GPUs that is shared with other libraries by the DLPack protocol, without a copy."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

from weft.backends.cuda import driver
from weft.backends.cuda.memory import Buffer
from weft.core.avals import ShapedArray
from weft.runtime import capsules
from weft.runtime.capsules import CUDA as CUDA

# Streams that DLPack has names for: no order is wanted, none was said.
_NO_ORDER, _LEGACY = -1, 1


def order(first: Any, then: Any) -> None:
    """Have a stream wait for what another has been given so far."""
    try:
        event = driver.moment(first)
        driver.wait_for(then, event)
        driver.destroy_event(event)
    except driver.DriverError:  # a stream that is gone
        with contextlib.suppress(driver.DriverError):
            driver.call("cuCtxSynchronize")


def export(owner: Buffer, aval: Any, number: int, stream: Any, version: Any, copied: bool) -> Any:
    """A capsule over memory of a GPU, ready for what is put on a stream from now on."""
    capsules.type_code(aval.dtype)
    stream = _LEGACY if stream is None else stream
    own = driver.device().stream
    if stream == _NO_ORDER:
        stream = _LEGACY
    else:
        order(own, ctypes.c_void_p(stream))
    theirs = ctypes.c_void_p(stream)
    return capsules.lend(
        owner,
        owner.address,
        (CUDA, number),
        aval,
        version,
        copied,
        lambda: order(theirs, driver.device().stream),
    )


def _settle() -> None:
    """What was computed here with borrowed memory must be over: its owner knows nothing of our
    stream."""
    with contextlib.suppress(driver.DriverError):
        driver.synchronize()


def take(x: Any) -> tuple[Buffer, ShapedArray]:
    """The memory that another library's array has on a GPU, and its type."""
    stream = driver.device().stream.value
    held, address, size, aval = capsules.take(x, stream, _settle)
    return Buffer.over(address, size, held), aval
