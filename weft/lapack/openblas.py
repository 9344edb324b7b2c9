"""The BLAS and LAPACK library: found and loaded at the first call, never at import.

OpenBLAS runs on one thread here (its own threading changes bits and collapses under load), so the
same call gives the same bits under any load; parallelism is left to the caller.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
from collections.abc import Callable

import numpy as np

from weft.base.cores import threads
from weft.base.forks import across_forks
from weft.base.helpers import Helper
from weft.base.lazy import folder_of, opener
from weft.base.limits import need_address_space

COLUMN_MAJOR = 102
ROW_MAJOR = 101

_LETTERS = {
    np.dtype(np.float32): "s",
    np.dtype(np.float64): "d",
    np.dtype(np.complex64): "c",
    np.dtype(np.complex128): "z",
}
_PACKAGE = "scipy_openblas32"
_THREADS_VARIABLE = "OPENBLAS_NUM_THREADS"
# What it maps for itself and for its buffers: without, it ends the process.
ADDRESS_SPACE = 384 << 20
_loading = across_forks(threading.Lock())


def _library_path() -> str:
    inside = os.path.join(folder_of(_PACKAGE) or "", "lib")
    for name in sorted(os.listdir(inside)) if os.path.isdir(inside) else ():
        if "scipy_openblas" in name and name.endswith((".so", ".dylib", ".dll")):
            return os.path.join(inside, name)
    raise ImportError(
        "weft needs OpenBLAS for linear algebra, but did not find it: install the package "
        "scipy-openblas32"
    )


def preload() -> None:
    """Begin to load it, by a thread; whoever needs it waits for that one, and hears what fails."""

    def load() -> None:
        with contextlib.suppress(Exception):
            library()

    if threads() > 1 and not library.cache_info().currsize:
        with contextlib.suppress(RuntimeError):
            Helper(load)


@functools.cache
def library() -> ctypes.CDLL:
    """OpenBLAS, loaded once, private to this use, on one thread."""
    with _loading:
        path = _library_path()
        need_address_space(ADDRESS_SPACE, "linear algebra, by OpenBLAS,")
        # The library starts its threads while it is being loaded, so the number must be known
        # before; the variable is put back at once.
        before = os.environ.get(_THREADS_VARIABLE)
        os.environ[_THREADS_VARIABLE] = "1"
        try:
            opener(path)()
            loaded = ctypes.CDLL(path)
        finally:
            if before is None:
                del os.environ[_THREADS_VARIABLE]
            else:
                os.environ[_THREADS_VARIABLE] = before
        loaded.scipy_openblas_set_num_threads(1)
        return loaded


@functools.cache
def _symbol(name: str) -> Callable[..., int]:
    found = getattr(library(), name)
    found.restype = ctypes.c_int32
    return found


def _letter(dtype: np.dtype) -> str:
    letter = _LETTERS.get(dtype)
    if letter is None:
        raise TypeError(
            f"linear algebra needs float32, float64, complex64 or complex128, got {dtype}: "
            "convert the array with .astype first"
        )
    return letter


def lapack_routine(name: str, dtype: np.dtype) -> Callable[..., int]:
    """LAPACKE's `name` for `dtype` with caller-given work space, taking column-major matrices.

    Integers go as C ints, characters as their code, addresses as `ctypes.c_void_p`; the
    result is LAPACK's info.
    """
    symbol = _symbol(f"scipy_LAPACKE_{_letter(dtype)}{name}_work")
    return functools.partial(symbol, COLUMN_MAJOR)


def blas_routine(name: str, dtype: np.dtype) -> Callable[..., int]:
    """CBLAS's `name` for `dtype`; its first argument is the layout."""
    return _symbol(f"scipy_cblas_{_letter(dtype)}{name}")
