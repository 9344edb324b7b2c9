"""cuDNN's convolutions: forward, and the gradients by data and by filters."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.backends.cuda.libraries import check, created, handle, library
from weft.backends.cuda.routines.dnn_graph import Graph, Plan, Window
from weft.base.record import Record
from weft.kernel.nodes import BF16, F16, F32, F64
from weft.kernel.program import contiguous

_PTR = ctypes.c_void_p
# Types, layouts and kinds of arithmetic as cudnn_graph.h numbers them.
TYPES = {F32: 0, F64: 1, F16: 2, BF16: 9}
_CHANNELS_FIRST, _CHANNELS_LAST = 0, 1
# How numbers are multiplied: float32 as TF32, narrow ones by tensor cores, all as they are.
_TF32_MATH, _TENSOR_MATH, _EXACT_MATH = 0, 1, 3
_CROSS_CORRELATION, _CONVOLUTION = 1, 0
# Bytes that an algorithm may work in.
MOST_WORKSPACE = 1 << 30
FORWARD, DATA, FILTER = "Forward", "BackwardData", "BackwardFilter"
_RESULTS = 8


class _Performance(ctypes.Structure):
    """What is known of an algorithm."""

    _fields_ = [
        ("algorithm", ctypes.c_int),
        ("status", ctypes.c_int),
        ("time", ctypes.c_float),
        ("memory", ctypes.c_size_t),
        ("deterministic", ctypes.c_int),
        ("math", ctypes.c_int),
        ("reserved", ctypes.c_int * 3),
    ]


class Sizes(Record):
    """A convolution as cuDNN sees it: batch, channels and space of each array."""

    dtype: np.dtype
    data: tuple[int, ...]
    filters: tuple[int, ...]
    result: tuple[int, ...]
    padding: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    last: bool  # channels come last in memory
    flipped: bool = False
    exact: bool = True


def _ints(values: Sequence[int]) -> Any:
    return (ctypes.c_int * len(values))(*values)


def _strides(shape: Sequence[int], last: bool) -> tuple[int, ...]:
    """The strides of an array whose sizes are in the order batch, channels, space."""
    if not last:
        return contiguous(shape)
    batch, space, channels = contiguous((shape[0], *shape[2:], shape[1])), None, 1
    space = batch[1:-1]
    return (batch[0], channels, *space)


def planned(kind: str, sizes: Sizes) -> Plan:
    """One of the three as a graph of cuDNN's, which has faster kernels for narrow floats."""
    graph = Graph()
    array = lambda shape: graph.tensor(shape, TYPES[sizes.dtype], _strides(shape, sizes.last))
    shapes = {
        FORWARD: (sizes.data, sizes.filters, sizes.result),
        DATA: (sizes.filters, sizes.result, sizes.data),
        FILTER: (sizes.data, sizes.result, sizes.filters),
    }[kind]
    first, second, out = map(array, shapes)
    mode = _CONVOLUTION if sizes.flipped else _CROSS_CORRELATION
    window = Window(sizes.padding, sizes.padding, sizes.strides, sizes.dilation, mode)
    graph.convolution(kind, first, second, out, window)
    return Plan(graph, handle("cudnn", "cudnnCreate"))


class Convolution:
    """One of the three, with its algorithm chosen."""

    def __init__(self, kind: str, sizes: Sizes) -> None:
        self.kind, self.sizes = kind, sizes
        self.library = library("cudnn")
        self.handle = handle("cudnn", "cudnnCreate")
        self.data = self._tensor(sizes.data)
        self.result = self._tensor(sizes.result)
        self.filters = self._filters()
        self.description = self._description()
        scale = np.float64 if sizes.dtype == F64 else np.float32
        self.one, self.zero = np.ones(1, scale), np.zeros(1, scale)
        self.algorithm, self.workspace = self._chosen()

    def _call(self, name: str, *args: Any) -> None:
        check(getattr(self.library, name)(*args), name)

    def _tensor(self, shape: tuple[int, ...]) -> Any:
        found = created("cudnn", "cudnnCreateTensorDescriptor")
        strides = _strides(shape, self.sizes.last)
        kind = TYPES[self.sizes.dtype]
        n = len(shape)
        self._call("cudnnSetTensorNdDescriptor", found, kind, n, _ints(shape), _ints(strides))
        return found

    def _filters(self) -> Any:
        found = created("cudnn", "cudnnCreateFilterDescriptor")
        layout = _CHANNELS_LAST if self.sizes.last else _CHANNELS_FIRST
        kind, shape = TYPES[self.sizes.dtype], self.sizes.filters
        n = len(shape)
        self._call("cudnnSetFilterNdDescriptor", found, kind, layout, n, _ints(shape))
        return found

    def _description(self) -> Any:
        s = self.sizes
        found = created("cudnn", "cudnnCreateConvolutionDescriptor")
        mode = _CONVOLUTION if s.flipped else _CROSS_CORRELATION
        compute = TYPES[F64] if s.dtype == F64 else TYPES[F32]
        numbers = (_ints(s.padding), _ints(s.strides), _ints(s.dilation))
        n = len(s.padding)
        self._call("cudnnSetConvolutionNdDescriptor", found, n, *numbers, mode, compute)
        self._call("cudnnSetConvolutionGroupCount", found, s.groups)
        single = _EXACT_MATH if s.exact else _TF32_MATH
        math = single if s.dtype == F32 else _TENSOR_MATH
        self._call("cudnnSetConvolutionMathType", found, math)
        return found

    def _order(self) -> tuple[Any, ...]:
        """Descriptors in the order that the functions take them."""
        d, w, c, r = self.data, self.filters, self.description, self.result
        return {FORWARD: (d, w, c, r), DATA: (w, r, c, d), FILTER: (d, r, c, w)}[self.kind]

    def _chosen(self) -> tuple[int, int]:
        """The algorithm that is thought to be fastest of those that give the same in every run."""
        found, count = (_Performance * _RESULTS)(), ctypes.c_int()
        name = f"cudnnGetConvolution{self.kind}Algorithm_v7"
        self._call(name, self.handle, *self._order(), _RESULTS, ctypes.byref(count), found)
        for p in found[: count.value]:
            if p.status == 0 and p.deterministic and p.memory <= MOST_WORKSPACE:
                return p.algorithm, p.memory
        raise NotImplementedError("cuDNN has no algorithm for this convolution")

    def run(self, stream: Any, first: int, second: int, out: int, workspace: int) -> None:
        """The operands come in the order of the function: data or filters, then the other."""
        self._call("cudnnSetStream", self.handle, stream)
        one, zero = _PTR(self.one.ctypes.data), _PTR(self.zero.ctypes.data)
        a, b, c, r = self._order()
        self._call(
            f"cudnnConvolution{self.kind}",
            *(self.handle, one, a, _PTR(first), b, _PTR(second), c, self.algorithm),
            *(_PTR(workspace), ctypes.c_size_t(self.workspace), zero, r, _PTR(out)),
        )
