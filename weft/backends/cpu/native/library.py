"""Functions of BLAS and LAPACK by name, from the wheel that carries OpenBLAS."""

from __future__ import annotations

import ctypes

from weft.base.functional import lru
from weft.base.openblas import library

PREFIX = "scipy_"


@lru(4096)
def address(name: str) -> int:
    """The address of a function, such as ``cblas_sgemm`` or ``LAPACKE_spotrf_work``."""
    found = ctypes.cast(library()[PREFIX + name], ctypes.c_void_p).value
    assert found is not None
    return found
