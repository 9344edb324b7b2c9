"""What happens while functions are traced, compiled and called, told to whoever listens."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

# Called with (kind, name, begin, end, details); times in ns of ``time.perf_counter_ns``.
Listener = Callable[[str, str, int, int, dict[str, Any]], None]
listener: Listener | None = None


def listen(new: Listener | None) -> None:
    """Tell ``new`` what happens from now on; None for nobody."""
    global listener
    listener = new


# Devices that know what they did and when: `start` is called as a trace begins; `stop`, at its end,
# gives names of devices, and for each a list of records: ``kind``, ``name``, ``begin``, ``end``,
# ``stream`` and ``details``.
devices: list[Any] = []
devices_traced = False


def add_device(device: Any) -> None:
    """Have traces tell of a device, one that is being taken too."""
    devices.append(device)
    if devices_traced:
        device.start()


def start_devices() -> None:
    """Have devices note what they do from now on."""
    global devices_traced
    devices_traced = True
    for device in devices:
        device.start()


def stop_devices() -> list[tuple[str, list[Any]]]:
    """The names of devices, and what each has done since."""
    global devices_traced
    if not devices_traced:
        return []
    devices_traced = False
    return [told for device in devices for told in device.stop()]


class Kernels:
    """The kernels of the host while a trace is taken: the backend that runs them sets ``source``,
    whose ``stop`` gives records as those of devices, with a thread's name for ``stream``."""

    source: Any = None

    def records(self) -> list[Any]:
        """What was done."""
        return [] if self.source is None else self.source.stop()


kernels: Kernels | None = None


def trace_kernels(new: Kernels | None) -> None:
    """Have kernels of the host noted from now on; None for not."""
    global kernels
    kernels = new


# Told of traces, compilations and the disk cache only, so that calls may stay native.
watcher: Listener | None = None


def watch(new: Listener | None) -> None:
    """Tell ``new`` what is traced and compiled from now on; None for nobody."""
    global watcher
    watcher = new


def begin() -> int:
    """When something begins, if somebody listens, or 0."""
    return 0 if listener is None else perf_counter_ns()


def begin_making() -> int:
    """When something begins to be traced or compiled, if somebody listens or watches, or 0."""
    return 0 if listener is None and watcher is None else perf_counter_ns()


def end_making(began: int, kind: str, name: str, **details: Any) -> None:
    """Tell of something traced or compiled since a time that ``begin_making`` gave."""
    if not began:
        return
    ended = perf_counter_ns()
    for told in (listener, watcher):
        if told is not None:
            told(kind, name, began, ended, details)


def tell_watcher(kind: str, name: str, **details: Any) -> None:
    """Tell of something that happened now."""
    told = watcher
    if told is not None:
        now = perf_counter_ns()
        told(kind, name, now, now, details)


def end(began: int, kind: str, name: str, **details: Any) -> None:
    """Tell of something that began at a time that ``begin`` gave, and has ended."""
    told = listener
    if began and told is not None:
        told(kind, name, began, perf_counter_ns(), details)
