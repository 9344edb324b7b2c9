"""Functions of BLAS and LAPACK by name, from the wheel that carries OpenBLAS."""

from __future__ import annotations

import ctypes
import os

from weft.base.functional import lru
from weft.base.lazy import folder_of

PREFIX = "scipy_"


@lru(1)
def _openblas() -> ctypes.CDLL:
    found = folder_of("scipy_openblas32")
    if found is None:
        raise ModuleNotFoundError(
            "weft needs the package scipy-openblas32 for products and linear algebra:"
            " pip install scipy-openblas32"
        )
    folder = os.path.join(found, "lib")
    names = sorted(n for n in os.listdir(folder) if "openblas" in n and ".so" in n)
    library = ctypes.CDLL(os.path.join(folder, names[0]))
    # Our own tiles are what runs on several threads: one thread each gives the same bits always.
    library[PREFIX + "openblas_set_num_threads"](1)
    return library


@lru(4096)
def address(name: str) -> int:
    """The address of a function, such as ``cblas_sgemm`` or ``LAPACKE_spotrf_work``."""
    found = ctypes.cast(_openblas()[PREFIX + name], ctypes.c_void_p).value
    assert found is not None
    return found
