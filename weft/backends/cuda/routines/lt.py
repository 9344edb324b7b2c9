"""cuBLASLt: a product of matrices with its layout, precision and epilogue."""

from __future__ import annotations

import ctypes
from typing import Any

from weft.backends.cuda.libraries import WORKSPACE, check, handle, library, workspace
from weft.base.record import Record

_PTR = ctypes.c_void_p
# Attributes of a product and of a layout, as cublasLt.h numbers them.
_TRANSPOSE_A, _TRANSPOSE_B, _EPILOGUE, _BIAS = 3, 4, 7, 8
_BIAS_TYPE = 26
_BATCH, _BATCH_STRIDE = 5, 6
_MOST_WORKSPACE = 1
# Epilogues.
NONE, RELU, BIAS, RELU_BIAS, GELU, GELU_BIAS = 1, 2, 4, 6, 32, 36


class Matrix(Record):
    """A stack of column-major matrices in memory, perhaps to be transposed."""

    kind: int
    rows: int
    columns: int
    stride: int
    batch: int
    batch_stride: int
    transposed: bool = False


class _Algorithm(ctypes.Structure):
    """What the heuristic found: an algorithm, the workspace it takes, and a status."""

    _fields_ = [
        ("data", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("status", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


def _set(function: Any, thing: Any, attribute: int, value: Any) -> None:
    size = ctypes.c_size_t(ctypes.sizeof(value))
    check(function(thing, attribute, ctypes.byref(value), size), "cublasLt attribute")


def _layout(lt: Any, m: Matrix) -> Any:
    found = _PTR()
    rows, columns, stride = (ctypes.c_uint64(n) for n in (m.rows, m.columns, m.stride))
    create = lt.cublasLtMatrixLayoutCreate
    check(create(ctypes.byref(found), m.kind, rows, columns, stride), "cublasLtMatrixLayoutCreate")
    put = lt.cublasLtMatrixLayoutSetAttribute
    _set(put, found, _BATCH, ctypes.c_int32(m.batch))
    _set(put, found, _BATCH_STRIDE, ctypes.c_int64(m.batch_stride))
    return found


class Product:
    """``alpha * op(A) @ op(B)``, with an epilogue, for matrices of given layouts."""

    def __init__(
        self, a: Matrix, b: Matrix, c: Matrix, compute: int, scale: Any, epilogue: int = NONE
    ) -> None:
        self.lt = lt = library("cublasLt")
        self.handle = handle("cublasLt", "cublasLtCreate")
        self.operation = _PTR()
        kind, one = scale
        create = lt.cublasLtMatmulDescCreate
        check(create(ctypes.byref(self.operation), compute, kind), "cublasLtMatmulDescCreate")
        self.put = lt.cublasLtMatmulDescSetAttribute
        _set(self.put, self.operation, _TRANSPOSE_A, ctypes.c_int32(int(a.transposed)))
        _set(self.put, self.operation, _TRANSPOSE_B, ctypes.c_int32(int(b.transposed)))
        self.biased = epilogue in (BIAS, RELU_BIAS, GELU_BIAS)
        if epilogue != NONE:
            _set(self.put, self.operation, _EPILOGUE, ctypes.c_int32(epilogue))
        if self.biased:
            _set(self.put, self.operation, _BIAS, ctypes.c_uint64(256))
            _set(self.put, self.operation, _BIAS_TYPE, ctypes.c_int32(c.kind))
        self.layouts = [_layout(lt, m) for m in (a, b, c)]
        self.one, self.zero = one.copy(), one * 0
        self.algorithm = self._chosen()

    def _chosen(self) -> _Algorithm | None:
        """The algorithm that the heuristic puts first."""
        preference = _PTR()
        lt = self.lt
        check(lt.cublasLtMatmulPreferenceCreate(ctypes.byref(preference)), "preference")
        put = lt.cublasLtMatmulPreferenceSetAttribute
        _set(put, preference, _MOST_WORKSPACE, ctypes.c_uint64(WORKSPACE))
        found, count = _Algorithm(), ctypes.c_int(0)
        a, b, c = self.layouts
        status = lt.cublasLtMatmulAlgoGetHeuristic(
            *(self.handle, self.operation, a, b, c, c, preference, 1),
            *(ctypes.byref(found), ctypes.byref(count)),
        )
        lt.cublasLtMatmulPreferenceDestroy(preference)
        return found if status == 0 and count.value else None

    def run(self, stream: Any, a: int, b: int, c: int, bias: int = 0) -> None:
        if self.biased:
            _set(self.put, self.operation, _BIAS, ctypes.c_uint64(bias))
        first, second, third = self.layouts
        assert self.algorithm is not None
        status = self.lt.cublasLtMatmul(
            *(self.handle, self.operation, _PTR(self.one.ctypes.data), _PTR(a), first, _PTR(b)),
            *(second, _PTR(self.zero.ctypes.data), _PTR(c), third, _PTR(c), third),
            *(ctypes.byref(self.algorithm), _PTR(workspace()), ctypes.c_size_t(WORKSPACE), stream),
        )
        check(status, "cublasLtMatmul")
