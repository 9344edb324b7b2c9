"""Transfer guards: copies between the host and devices that ``weft.transfer_guard`` forbids.

An *explicit* copy is one by ``device_put`` or ``device_get``; others are implicit: NumPy arrays and
Python numbers given to functions, arrays that a function moves to its own device, and values of
arrays that Python reads. Arrays on the CPU are in the host's memory already.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from weft.base import errors, knobs, logs
from weft.core.trace import Tracer
from weft.runtime.array import ArrayImpl


def is_on() -> bool:
    """Whether copies from the host are watched."""
    return knobs.thread.transfer_guard_host_to_device not in (None, "allow")


def from_host(values: Iterable[Any], name: str, explicit: bool = False) -> None:
    """Raise, or log, if values of the host would be copied to a device."""
    level = knobs.thread.transfer_guard_host_to_device
    if level in (None, "allow") or (explicit and not level.endswith("_explicit")):
        return
    for x in values:
        if isinstance(x, (np.ndarray, np.generic, bool, int, float, complex)):
            _tell(level, f"{name} copies a value of type {type(x).__name__} from the host", x)


def between_devices(x: Any, where: Any, name: str, explicit: bool = False) -> None:
    """Raise, or log, if an array would be copied to other devices."""
    level = knobs.thread.transfer_guard_device_to_device
    if level in (None, "allow") or (explicit and not level.endswith("_explicit")):
        return
    if type(x) is ArrayImpl and not isinstance(x, Tracer):
        if x.sharding._device_assignment != where._device_assignment:
            _tell(level, f"{name} copies an array to {where}", x)


class _Getting(threading.local):
    """Whether this thread runs ``device_get``."""

    now = False


_getting = _Getting()


@contextlib.contextmanager
def getting() -> Iterator[None]:
    """While ``device_get`` runs: copies to the host are explicit."""
    before, _getting.now = _getting.now, True
    try:
        yield
    finally:
        _getting.now = before


def to_host(dtype: Any, shape: tuple[int, ...]) -> None:
    """Raise, or log, if values of a device's memory would be copied to the host."""
    level = knobs.thread.transfer_guard_device_to_host
    if level in (None, "allow") or (_getting.now and not level.endswith("_explicit")):
        return
    what = f"{np.dtype(dtype).name}{list(shape)} is copied from a device to the host"
    if level.startswith("disallow"):
        advice = "Read it with weft.device_get, or allow it: weft.transfer_guard('allow')."
        message = f"{what}, which the transfer guard {level!r} forbids"
        raise errors.JaxRuntimeError(errors.located(message, advice))
    logs.log(logs.WARNING, f"transfer: {what}")


def _tell(level: str, what: str, x: Any) -> None:
    kind = getattr(getattr(x, "aval", None), "str_short", lambda: np.shape(x))()
    if level.startswith("disallow"):
        advice = (
            "Put it there first with weft.device_put, or allow it: weft.transfer_guard('allow')."
        )
        message = f"{what} ({kind}), which the transfer guard {level!r} forbids"
        raise errors.JaxRuntimeError(errors.located(message, advice))
    logs.log(logs.WARNING, f"transfer: {what} ({kind})")
