"""NVIDIA's libraries through ctypes: products by cuBLAS.

Libraries come as wheels (the extra ``cuda``) and are found beside other packages, or where the
system has them.
"""

from __future__ import annotations

import ctypes
import glob
import os
from math import prod
from typing import Any

import numpy as np

from weft.backends.cuda.driver import DriverError
from weft.base.functional import lru
from weft.base.lazy import folder_of
from weft.base.record import Record
from weft.kernel.nodes import BF16, F16, F32, F64

C64, C128 = np.dtype(np.complex64), np.dtype(np.complex128)
# Types of matrices, and of what products are summed in, as library_types.h and cublas_api.h number
# them.
_TYPES = {F32: 0, F64: 1, F16: 2, BF16: 14, C64: 4, C128: 5}
_COMPUTE = {F32: 68, F64: 70, F16: 68, BF16: 68, C64: 68, C128: 70}
_SCALE = {F32: F32, F64: F64, F16: F32, BF16: F32, C64: C64, C128: C128}
_DEFAULT_ALGORITHM = -1


@lru(16)
def library(name: str) -> Any:
    """A library by its short name: ``cublas``, ``cudnn``, ``cufft``, ..."""
    folder = folder_of("nvidia")
    found = []
    if folder is not None:
        found = sorted(glob.glob(os.path.join(folder, "*", "lib", f"lib{name}.so.*")), reverse=True)
    for path in [*found, f"lib{name}.so", f"lib{name}.so.13", f"lib{name}.so.12"]:
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise DriverError(f"lib{name} was not found: install the extra, pip install 'weft[cuda]'")


@lru(1)
def _cublas() -> Any:
    """cuBLAS and a handle of it."""
    found = library("cublas")
    handle = ctypes.c_void_p()
    if found.cublasCreate_v2(ctypes.byref(handle)):
        raise DriverError("cuBLAS does not start")
    return found, handle


class _Product(Record):
    """A batched product of row-major matrices, each perhaps transposed in memory."""

    batch: int
    rows: int
    columns: int
    depth: int
    left_transposed: bool
    right_transposed: bool


def product(lhs: Any, rhs: Any, dimension_numbers: Any) -> _Product | None:
    """A product as one of matrices; None where memory would have to be moved first."""
    ((lc, rc), (lb, rb)) = dimension_numbers
    count = len(lb)
    if tuple(lb) != tuple(range(count)) or tuple(rb) != tuple(range(count)):
        return None
    sides = []
    for shape, contracted in ((lhs.shape, tuple(lc)), (rhs.shape, tuple(rc))):
        free = [i for i in range(count, len(shape)) if i not in contracted]
        n, first, last = len(contracted), count, len(shape)
        if contracted == tuple(range(last - n, last)):
            transposed = False
        elif contracted == tuple(range(first, first + n)):
            transposed = True
        else:
            return None
        sides.append((prod(shape[i] for i in free), transposed))
    (rows, left), (columns, right) = sides
    batch, depth = prod(lhs.shape[:count]), prod(lhs.shape[i] for i in lc)
    return _Product(batch, rows, columns, depth, left, not right)


def operation(eqn: Any, ins: list[int], outs: list[int]) -> bool:
    """Compute an equation on the device, if a library can."""
    if eqn.primitive.name != "dot_general":
        return False
    lhs, rhs = (x.aval for x in eqn.invars)
    (out,) = (v.aval for v in eqn.outvars)
    if not lhs.dtype == rhs.dtype == out.dtype or lhs.dtype not in _TYPES:
        return False
    found = product(lhs, rhs, eqn.params["dimension_numbers"])
    if found is None or not found.batch * found.rows * found.columns * found.depth:
        return False
    _multiply(found, lhs.dtype, *ins, *outs)
    return True


def _multiply(p: _Product, dtype: np.dtype, left: int, right: int, out: int) -> None:
    """Row-major matrices are transposed ones to cuBLAS: the operands change places."""
    found, handle = _cublas()
    scale = _SCALE[dtype]
    one, zero = np.ones(1, scale), np.zeros(1, scale)
    kind, size = _TYPES[dtype], ctypes.c_longlong
    # memory of the right operand is depth x columns, unless it is transposed; of the left one
    # rows x depth
    right_stride = p.depth if p.right_transposed else p.columns
    left_stride = p.rows if p.left_transposed else p.depth
    status = found.cublasGemmStridedBatchedEx(
        handle,
        int(p.right_transposed),
        int(p.left_transposed),
        p.columns,
        p.rows,
        p.depth,
        ctypes.c_void_p(one.ctypes.data),
        ctypes.c_void_p(right),
        kind,
        right_stride,
        size(p.depth * p.columns),
        ctypes.c_void_p(left),
        kind,
        left_stride,
        size(p.rows * p.depth),
        ctypes.c_void_p(zero.ctypes.data),
        ctypes.c_void_p(out),
        kind,
        p.columns,
        size(p.rows * p.columns),
        p.batch,
        _COMPUTE[dtype],
        _DEFAULT_ALGORITHM,
    )
    if status:
        raise DriverError(f"cublasGemmStridedBatchedEx: status {status}")
