"""Transfer guards: copies between the host and devices that ``weft.transfer_guard`` forbids.

An *explicit* copy is one by ``device_put``; others are implicit: NumPy arrays and Python numbers
given to functions, and arrays that a function moves to its own device.
"""

from __future__ import annotations

from collections.abc import Iterable
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


def _tell(level: str, what: str, x: Any) -> None:
    kind = getattr(getattr(x, "aval", None), "str_short", lambda: np.shape(x))()
    if level.startswith("disallow"):
        advice = (
            "Put it there first with weft.device_put, or allow it: weft.transfer_guard('allow')."
        )
        message = f"{what} ({kind}), which the transfer guard {level!r} forbids"
        raise errors.JaxRuntimeError(errors.located(message, advice))
    logs.log(logs.WARNING, f"transfer: {what} ({kind})")
