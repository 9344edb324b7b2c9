"""NVIDIA's libraries through ctypes: where they are, and their handles.

Libraries come as wheels (the extra ``cuda``) and are found beside other packages, or where the
system has them.
"""

from __future__ import annotations

import ctypes
import glob
import os
from collections.abc import Callable
from typing import Any

from weft.backends.cuda import driver
from weft.backends.cuda.driver import DriverError
from weft.base.functional import lru
from weft.base.lazy import folders_of

# Bytes that products may work in.
WORKSPACE = 32 << 20


def files(pattern: str) -> list[str]:
    """Libraries by their names, of all wheels of NVIDIA's."""
    return [
        path
        for folder in folders_of("nvidia")
        for path in glob.glob(os.path.join(folder, "*", "lib", pattern))
    ]


@lru(16)
def library(name: str) -> Any:
    """A library by its short name: ``cublasLt``, ``cudnn``, ``cufft``, ..."""
    found = sorted(files(f"lib{name}.so.*"), reverse=True)
    endings = ("so", "so.13", "so.12", "so.11", "so.9", "so.2")
    for path in [*found, *(f"lib{name}.{ending}" for ending in endings)]:
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise DriverError(
        f"lib{name} was not found: install the extra, pip install '.[cuda]' in a clone of weft"
    )


def has(name: str) -> bool:
    """Whether a library is there."""
    try:
        library(name)
    except DriverError:
        return False
    return True


def check(status: int, what: str) -> None:
    """An error where a library's function failed."""
    if status:
        raise DriverError(f"{what}: status {status}")


def created(name: str, create: str, *given: Any) -> ctypes.c_void_p:
    """What one of a library's functions makes, and writes to where its first argument says."""
    found = ctypes.c_void_p()
    check(getattr(library(name), create)(ctypes.byref(found), *given), create)
    return found


# --- what takes long to make ----------------------------------------------------------------------


class Begun:
    """What a thread makes beside the rest of a compilation: a call waits for it."""

    def __init__(self, make: Callable[[], Any], wait: Callable[[], Any]) -> None:
        self._make, self._wait = make, wait
        self._found: Any = None

    def __call__(self) -> Any:
        if self._found is None:
            try:
                self._found = self._wait()
            except Exception:  # there may be memory by now; an error is raised in this thread
                self._found = self._make()
        return self._found


@lru(16)
def _starter(name: str) -> Any:
    """A thread that makes what a library needs, one after the other."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(1, f"weft starts {name}")


def beside(name: str, make: Callable[[], Any]) -> Begun:
    """Have a library's thread make something for the GPU in use."""
    device = driver.in_use()
    if device is None:
        return Begun(make, make)

    def made() -> Any:
        device.use()
        return make()

    try:
        return Begun(make, _starter(name).submit(made).result)
    except RuntimeError:  # the process ends
        return Begun(make, make)


# Handles that are made or begun, by GPU, library and function.
_handles: dict[Any, Callable[[], Any]] = {}


def begin(name: str, create: str) -> None:
    """Begin to make a library's handle, which takes tens of milliseconds the first time."""
    device = driver.in_use()
    if device is not None and (key := (device.number, name, create)) not in _handles:
        _handles[key] = beside(name, lambda: created(name, create))


@driver.per_device(16)
def handle(name: str, create: str) -> ctypes.c_void_p:
    """A library's handle, made by one of its functions."""
    device = driver.device()
    device.use()
    key = (device.number, name, create)
    if key in _handles:
        return _handles[key]()  # type: ignore[no-any-return]
    found = created(name, create)
    _handles[key] = lambda: found
    return found


@driver.per_device(1)
def workspace() -> int:
    """Memory that products work in, one after the other."""
    return driver.allocate(WORKSPACE)
