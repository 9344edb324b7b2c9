"""Transfer guards: copies between the host and devices that ``weft.transfer_guard`` forbids, and
those that the scopes of ``weft.base.observing`` are told of.

An *explicit* copy is one by ``device_put`` or ``device_get``; others are implicit: NumPy arrays and
Python numbers given to functions, arrays that a function moves to its own device, and values of
arrays that Python reads. Arrays on the CPU are in the host's memory already. Scopes are told of
arrays only: numbers travel with the call.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from weft.base import errors, knobs, logs, observing
from weft.core.trace import Tracer, is_tracing
from weft.runtime.array import ArrayImpl
from weft.tree.functions import tree_leaves


def is_on() -> bool:
    """Whether copies from the host are watched."""
    return knobs.thread.transfer_guard_host_to_device not in (None, "allow")


def looks() -> bool:
    """Whether copies are watched by a guard, or told to a scope."""
    thread = knobs.thread
    if thread.transfer_guard_host_to_device is not None:
        return True
    return bool(thread.transfer_guard_device_to_device) or observing.watches_transfers()


def observed(function: Any, name: str, args: Any, kwargs: Any) -> Any:
    """The result of a call that scopes are told of; native code answers it where it can."""
    for x in args:
        if type(x) is not ArrayImpl:
            break
    else:
        if not kwargs:  # arrays alone are where they are
            with observing.calling(name, function):
                return function(*args)
    if observing.watches_transfers() and not is_tracing():
        _tell_of(tree_leaves((args, kwargs)), name.partition(" at ")[0], False)
    with observing.calling(name, function):
        return function(*args, **kwargs)


def natively(function: Any, args: Any, kwargs: Any) -> Any:
    """The result of a call that nobody looks at, though this thread's calls come by Python."""
    with knobs.native_calls():
        return function(*args, **kwargs)


def _tell_of(values: Iterable[Any], name: str, explicit: bool) -> None:
    for x in values:
        if isinstance(x, np.ndarray):
            what = type_text(x.dtype, x.shape)
            observing.copied("host to device", what, x.nbytes, name, explicit)


def type_text(dtype: Any, shape: Any) -> str:
    """A type in words, like "float32[3,4]"."""
    return f"{getattr(dtype, 'name', dtype)}[{','.join(map(str, shape))}]"


def from_host(values: Iterable[Any], name: str, explicit: bool = False) -> None:
    """Raise, or log, if values of the host would be copied to a device."""
    if observing.thread.call is None and observing.watches_transfers():
        values = list(values)
        _tell_of(values, name, explicit)
    level = knobs.thread.transfer_guard_host_to_device
    if level in (None, "allow") or (explicit and not level.endswith("_explicit")):
        return
    for x in values:
        if isinstance(x, (np.ndarray, np.generic, bool, int, float, complex)):
            _tell(level, f"{name} copies a value of type {type(x).__name__} from the host", x)


def between_devices(x: Any, where: Any, name: str, explicit: bool = False) -> None:
    """Raise, or log, if an array would be copied to other devices."""
    if observing.watches_transfers() and type(x) is ArrayImpl:
        if x.sharding._device_assignment != where._device_assignment:
            kind = type_text(x.dtype, x.shape)
            observing.copied("device to device", kind, x.nbytes, name, explicit)
    level = knobs.thread.transfer_guard_device_to_device
    if level in (None, "allow") or (explicit and not level.endswith("_explicit")):
        return
    if type(x) is ArrayImpl and not isinstance(x, Tracer):
        if x.sharding._device_assignment != where._device_assignment:
            _tell(level, f"{name} copies an array to {where}", x)


class _Getting(threading.local):
    """Whether this thread runs ``device_get``, and whether it gathers the parts of an array."""

    now = False
    parts = False


_getting = _Getting()


@contextlib.contextmanager
def getting() -> Iterator[None]:
    """While ``device_get`` runs: copies to the host are explicit."""
    before, _getting.now = _getting.now, True
    try:
        yield
    finally:
        _getting.now = before


@contextlib.contextmanager
def gathering(dtype: Any, shape: tuple[int, ...]) -> Iterator[None]:
    """While the parts of an array are copied to the host: scopes are told of it once."""
    if observing.watches_transfers():
        what, size = type_text(dtype, shape), np.dtype(dtype).itemsize * math.prod(shape)
        observing.copied("gathered", what, size, _reader(), _getting.now)
    before, _getting.parts = _getting.parts, True
    try:
        yield
    finally:
        _getting.parts = before


def _reader() -> str:
    return "device_get" if _getting.now else "reading its values"


def to_host(dtype: Any, shape: tuple[int, ...]) -> None:
    """Raise, or log, if values of a device's memory would be copied to the host."""
    if observing.watches_transfers() and not _getting.parts:
        what, size = type_text(dtype, shape), np.dtype(dtype).itemsize * math.prod(shape)
        observing.copied("device to host", what, size, _reader(), _getting.now)
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
