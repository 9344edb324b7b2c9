"""Functions of libraries by name: of BLAS and LAPACK, from the wheel that carries OpenBLAS, and of
what carries messages between processes.
"""

from __future__ import annotations

import ctypes

from weft.base.functional import lru
from weft.core import processes
from weft.lapack.openblas import library

PREFIX = "scipy_"
# Begins the names of what the transport between processes gives.
MESSAGES = "messages."


def address(name: str) -> int:
    """The address of a function, such as ``cblas_sgemm`` or ``LAPACKE_spotrf_work``; of messages
    also other words."""
    if name.startswith(MESSAGES):
        return processes.transport.address(name.removeprefix(MESSAGES))
    return _address(name)


@lru(4096)
def _address(name: str) -> int:
    found = ctypes.cast(library()[PREFIX + name], ctypes.c_void_p).value
    assert found is not None
    return found
