"""cuBLASLt: a product of matrices with its layout, precision and epilogue.

Of large products the algorithms that the library's heuristic proposes are timed once, and the
fastest is kept on disk.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.backends.cuda import driver
from weft.backends.cuda.libraries import WORKSPACE, check, created, handle, library, workspace
from weft.backends.cuda.memory import Buffer
from weft.base import disk
from weft.base.record import Record

_PTR = ctypes.c_void_p
# Attributes of a product and of a layout, as cublasLt.h numbers them.
_TRANSPOSE_A, _TRANSPOSE_B, _EPILOGUE, _BIAS = 3, 4, 7, 8
_INPUT, _INPUT_STRIDE = 11, 12  # of GELU: written beside it, read for its gradient
_BIAS_TYPE = 26
_BATCH, _BATCH_STRIDE = 5, 6
_MOST_WORKSPACE = 1
# Multiplications from which on algorithms are timed, how many of them, and how often each is.
LARGE, MOST_ALGORITHMS, ROUNDS = 1 << 30, 8, 3
_BYTES = {0: 4, 1: 8, 2: 2, 14: 2, 4: 8, 5: 16}
# Epilogues.
NONE, RELU, BIAS, RELU_BIAS, GELU, GELU_BIAS = 1, 2, 4, 6, 32, 36
GELU_AUX, GELU_AUX_BIAS, DGELU = 160, 164, 192


class Matrix(Record):
    """A stack of column-major matrices in memory, perhaps to be transposed."""

    kind: int
    rows: int
    columns: int
    stride: int
    batch: int
    batch_stride: int
    transposed: bool = False

    @property
    def bytes(self) -> int:
        return self.rows * self.columns * self.batch * _BYTES[self.kind]


class _Algorithm(ctypes.Structure):
    """What the heuristic found: an algorithm, the workspace it takes, and a status."""

    _fields_ = [
        ("data", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("status", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


def _fill(room: Buffer, kind: int, stream: Any) -> None:
    """Random numbers: how fast products are depends on how much their bits change."""
    some = np.random.default_rng(0).standard_normal(1 << 16, np.float32)
    if kind == 14:
        numbers: np.ndarray = (some.view(np.uint32) >> 16).astype(np.uint16)
    else:
        numbers = some.astype({1: np.float64, 5: np.float64, 2: np.float16}.get(kind, np.float32))
    done = min(numbers.nbytes, room.size)
    driver.copy_in(room.address, numbers.ctypes.data, done)
    while done < room.size:
        more = min(done, room.size - done)
        driver.copy(room.address + done, room.address, more, stream)
        done += more


def _set(function: Any, thing: Any, attribute: int, value: Any) -> None:
    size = ctypes.c_size_t(ctypes.sizeof(value))
    check(function(thing, attribute, ctypes.byref(value), size), "cublasLt attribute")


def _layout(lt: Any, m: Matrix) -> Any:
    sizes = (ctypes.c_uint64(n) for n in (m.rows, m.columns, m.stride))
    found = created("cublasLt", "cublasLtMatrixLayoutCreate", m.kind, *sizes)
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
        kind, one = scale
        self.operation = created("cublasLt", "cublasLtMatmulDescCreate", compute, kind)
        self.put = lt.cublasLtMatmulDescSetAttribute
        _set(self.put, self.operation, _TRANSPOSE_A, ctypes.c_int32(int(a.transposed)))
        _set(self.put, self.operation, _TRANSPOSE_B, ctypes.c_int32(int(b.transposed)))
        self.biased = epilogue in (BIAS, RELU_BIAS, GELU_BIAS, GELU_AUX_BIAS)
        self.reads = epilogue in (GELU_AUX, GELU_AUX_BIAS, DGELU)
        if epilogue != NONE:
            _set(self.put, self.operation, _EPILOGUE, ctypes.c_int32(epilogue))
        if self.biased:
            _set(self.put, self.operation, _BIAS, ctypes.c_uint64(256))
            _set(self.put, self.operation, _BIAS_TYPE, ctypes.c_int32(c.kind))
        if self.reads:
            _set(self.put, self.operation, _INPUT, ctypes.c_uint64(256))
            _set(self.put, self.operation, _INPUT_STRIDE, ctypes.c_int64(c.stride))
        self.layouts = [_layout(lt, m) for m in (a, b, c)]
        self.one, self.zero = one.copy(), one * 0
        self.algorithm = self._chosen((a, b, c, compute, epilogue))

    def _chosen(self, told: Any) -> _Algorithm | None:
        """The algorithm that was fastest, or the first that the heuristic proposes."""
        a, b, c, *_ = told
        depth = a.rows if a.transposed else a.columns
        if c.rows * c.columns * c.batch * depth < LARGE:
            return next(iter(self._proposed(1)), None)
        number = self.lt.cublasLtGetVersion
        number.restype = ctypes.c_size_t
        about = f"cublasLt {number()} {driver.device().name} {told}"
        key = disk.digest(about.encode())
        kept = disk.load(key)
        if kept is not None and len(kept) == ctypes.sizeof(_Algorithm):
            return _Algorithm.from_buffer_copy(kept)
        proposed = self._proposed(MOST_ALGORITHMS)
        if len(proposed) < 2:
            return next(iter(proposed), None)
        found = self._fastest(proposed, (a, b, c))
        disk.save(key, bytes(found))
        return found

    def _fastest(self, proposed: list[_Algorithm], matrices: Sequence[Matrix]) -> _Algorithm:
        """The algorithm that takes the least time, on memory of its own."""
        sizes = [m.bytes for m in matrices]
        try:
            rooms = [Buffer(n) for n in (*sizes, sizes[-1], sizes[-1])]
        except driver.OutOfMemory:
            return proposed[0]
        stream, timer = driver.device().stream, driver.Timer()
        for room, m in zip((*rooms[:2], rooms[-1]), (*matrices[:2], matrices[-1]), strict=True):
            _fill(room, m.kind, stream)
        a, b, c, bias, aux = (room.address for room in rooms)
        best = [float("inf")] * len(proposed)
        # in turns, so that a clock that changes meanwhile does so for all; the first turn is for
        # what is done once
        for turn in range(ROUNDS + 1):
            for i, algorithm in enumerate(proposed):
                self.algorithm = algorithm
                try:
                    timer.start()
                    self.run(stream, a, b, c, bias, aux)
                    took = timer.stop()
                except driver.DriverError:  # what the heuristic proposes may yet be refused
                    continue
                best[i] = min(best[i], took) if turn else best[i]
        return proposed[best.index(min(best))]

    def _proposed(self, most: int) -> list[_Algorithm]:
        """Algorithms in the order in which the heuristic expects them to be fast."""
        lt = self.lt
        preference = created("cublasLt", "cublasLtMatmulPreferenceCreate")
        put = lt.cublasLtMatmulPreferenceSetAttribute
        _set(put, preference, _MOST_WORKSPACE, ctypes.c_uint64(WORKSPACE))
        found, count = (_Algorithm * most)(), ctypes.c_int(0)
        a, b, c = self.layouts
        status = lt.cublasLtMatmulAlgoGetHeuristic(
            *(self.handle, self.operation, a, b, c, c, preference, most),
            *(ctypes.byref(found), ctypes.byref(count)),
        )
        lt.cublasLtMatmulPreferenceDestroy(preference)
        copies = [_Algorithm.from_buffer_copy(x) for x in found[: count.value]]
        return [] if status else [x for x in copies if x.status == 0]

    def run(
        self,
        stream: Any,
        a: int,
        b: int,
        c: int,
        bias: int = 0,
        aux: int = 0,
        factors: Sequence[np.ndarray] | None = None,
        added: int = 0,
    ) -> None:
        """Multiply; ``factors`` are those of the product and of what is ``added``, if it is."""
        if self.biased:
            _set(self.put, self.operation, _BIAS, ctypes.c_uint64(bias))
        if self.reads:
            _set(self.put, self.operation, _INPUT, ctypes.c_uint64(aux))
        first, second, third = self.layouts
        assert self.algorithm is not None
        alpha, beta = (_PTR(x.ctypes.data) for x in factors or (self.one, self.zero))
        status = self.lt.cublasLtMatmul(
            *(self.handle, self.operation, alpha, _PTR(a), first, _PTR(b)),
            *(second, beta, _PTR(added or c), third, _PTR(c), third),
            *(ctypes.byref(self.algorithm), _PTR(workspace()), ctypes.c_size_t(WORKSPACE), stream),
        )
        check(status, "cublasLtMatmul")
