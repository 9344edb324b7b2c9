"""Graphs of operations for cuDNN, which makes kernels of those whose pattern it knows.

A `Graph` is a description, made without the library; a `Plan` is what cuDNN makes of one.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.backends.cuda import libraries
from weft.backends.cuda.driver import DriverError, device
from weft.backends.cuda.libraries import handle, library
from weft.base import disk
from weft.base.record import Record

_PTR = ctypes.c_void_p
# Types of elements, as cudnn_graph.h numbers them.
FLOAT, INT32, BOOLEAN = 0, 4, 11
# Elementwise operations, and reductions.
ADD, MUL, DIV, SUB, EXP, LOG, IDENTITY = 0, 1, 6, 9, 13, 15, 21
GREATER_EQUAL, INDEX, SELECT = 303, 501, 601
SUM, MAX = 0, 3
# Kinds of descriptors.
_POINTWISE, _CONVOLUTION, _ENGINE_CONFIG, _HEURISTICS, _PLAN = 0, 1, 3, 4, 5
_POINTWISE_OPERATION, _OPERATION_GRAPH, _VARIANT, _TENSOR = 13, 15, 16, 17
_MATMUL, _MATMUL_OPERATION, _REDUCTION, _REDUCTION_OPERATION, _RESHAPE = 18, 19, 21, 22, 31
# Types of attributes, and what a number of each is in memory.
_HANDLE, _DATA_TYPE, _BOOL, _INT64, _FLOAT, _POINTER, _HEURISTICS_MODE = 0, 1, 2, 3, 4, 6, 8
_CONVOLUTION_MODE = 7
# Convolutions: the descriptor of the operation, and its attributes for two factors, what is done,
# and the operands and the result in the order in which they are given.
_CONVOLUTIONS = {
    "Forward": (10, 700, 701, 702, (704, 703, 705)),
    "BackwardData": (12, 706, 707, 708, (709, 711, 710)),
    "BackwardFilter": (11, 712, 713, 714, (716, 717, 715)),
}
_POINTWISE_MODE, _DESCRIPTOR, _REDUCTION_MODE, _CHAR = 14, 15, 18, 24
_WORDS: dict[int, Any] = {
    **dict.fromkeys((_DATA_TYPE, _HEURISTICS_MODE, _POINTWISE_MODE, _REDUCTION_MODE), ctypes.c_int),
    _CONVOLUTION_MODE: ctypes.c_int,
    **dict.fromkeys((_HANDLE, _POINTER, _DESCRIPTOR), _PTR),
    _BOOL: ctypes.c_bool,
    _INT64: ctypes.c_int64,
    _FLOAT: ctypes.c_float,
}
_MODE_A = 3  # the heuristics that cuDNN recommends
MOST_CONFIGS = 8


class Tensor(Record):
    """An array of a graph; one that is virtual is never in memory, one with a value is a number."""

    number: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    kind: int
    virtual: bool
    value: Any = None


class Window(Record):
    """How a convolution goes over its data: ``mode`` is 1 where filters aren't reversed."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    mode: int = 1


class Operation(Record):
    """``matmul``, ``pointwise``, ``reduction`` or ``reshape`` of tensors, or a convolution."""

    name: str
    ins: tuple[Tensor, ...]
    out: Tensor
    mode: int = 0
    compute: int = FLOAT
    axis: int | None = None
    window: Window | None = None


def dense(sizes: Sequence[int]) -> tuple[int, ...]:
    """The strides of an array whose elements follow each other."""
    strides = [1]
    for n in sizes[:0:-1]:
        strides.append(strides[-1] * n)
    return tuple(strides[::-1])


class Graph:
    """Tensors and operations while they are written down."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.operations: list[Operation] = []

    def _new(self, *fields: Any) -> Tensor:
        self.tensors.append(Tensor(len(self.tensors) + 1, *fields))
        return self.tensors[-1]

    def tensor(self, sizes: Sequence[int], kind: int, strides: Sequence[int] = ()) -> Tensor:
        """An array in memory."""
        return self._new(tuple(sizes), tuple(strides) or dense(sizes), kind, False)

    def virtual(
        self, sizes: Sequence[int], kind: int = FLOAT, strides: Sequence[int] = ()
    ) -> Tensor:
        """An array that only operations of the graph see."""
        return self._new(tuple(sizes), tuple(strides) or dense(sizes), kind, True)

    def number(self, value: float, kind: int = FLOAT) -> Tensor:
        """A number that the host hands over."""
        dtype = np.int32 if kind == INT32 else np.float32
        return self._new((1,) * 4, (1,) * 4, kind, False, np.full(1, value, dtype))

    def _write(self, *fields: Any, **more: Any) -> Tensor:
        self.operations.append(Operation(*fields, **more))
        return self.operations[-1].out

    def matmul(self, a: Tensor, b: Tensor, out: Tensor) -> Tensor:
        return self._write("matmul", (a, b), out)

    def pointwise(
        self, mode: int, *ins: Tensor, out: Tensor | None = None, kind: int = FLOAT, **more: Any
    ) -> Tensor:
        """An elementwise operation; operands of one element along an axis are repeated."""
        made = self.virtual(ins[0].sizes, kind) if out is None else out
        return self._write("pointwise", ins, made, mode, **more)

    def reduction(self, mode: int, x: Tensor, out: Tensor) -> Tensor:
        """A reduction of the axes along which the result has fewer elements."""
        return self._write("reduction", (x,), out, mode)

    def convolution(self, name: str, a: Tensor, b: Tensor, out: Tensor, window: Window) -> Tensor:
        """``Forward`` of data and filters, ``BackwardData`` of filters and a gradient, or
        ``BackwardFilter`` of data and a gradient."""
        return self._write(name, (a, b), out, window=window)

    def reshape(self, x: Tensor, out: Tensor) -> Tensor:
        """The elements of an array under other sizes and strides."""
        return self._write("reshape", (x,), out)


# --- descriptors ----------------------------------------------------------------------------------


def check(status: int, what: str) -> None:
    """An error, with what cuDNN says of it, where a call failed."""
    if status:
        text = ctypes.create_string_buffer(1024)
        said = getattr(library("cudnn"), "cudnnGetLastErrorString", None)
        if said is not None:
            said(text, ctypes.c_size_t(len(text)))
        told = text.value.decode(errors="replace")
        raise DriverError(f"cuDNN: {what}: status {status} {told}")


class Descriptor:
    """A thing of cuDNN's, given attributes and then finished."""

    def __init__(self, kind: int) -> None:
        self.kind, self.pointer = kind, _PTR()
        self.kept: list[Any] = []  # what this refers to
        create = library("cudnn").cudnnBackendCreateDescriptor
        check(create(kind, ctypes.byref(self.pointer)), f"descriptor {kind}")

    def put(self, attribute: int, kind: int, *values: Any) -> None:
        self.kept += [v for v in values if isinstance(v, Descriptor)]
        plain = [v.pointer if isinstance(v, Descriptor) else v for v in values]
        array = (_WORDS[kind] * len(plain))(*plain)
        status = library("cudnn").cudnnBackendSetAttribute(
            self.pointer, attribute, kind, ctypes.c_int64(len(plain)), array
        )
        check(status, f"attribute {attribute} of a descriptor {self.kind}")

    def put_text(self, attribute: int, text: bytes) -> None:
        status = library("cudnn").cudnnBackendSetAttribute(
            self.pointer, attribute, _CHAR, ctypes.c_int64(len(text)), text
        )
        check(status, f"attribute {attribute} of a descriptor {self.kind}")

    def text(self, attribute: int) -> bytes:
        get, count = library("cudnn").cudnnBackendGetAttribute, ctypes.c_int64()
        what = (self.pointer, attribute, _CHAR)
        check(get(*what, ctypes.c_int64(0), ctypes.byref(count), None), f"attribute {attribute}")
        found = ctypes.create_string_buffer(count.value)
        check(get(*what, count, ctypes.byref(count), found), f"attribute {attribute}")
        return found.raw[: count.value]

    def finished(self) -> Descriptor:
        check(library("cudnn").cudnnBackendFinalize(self.pointer), f"descriptor {self.kind}")
        return self

    def number(self, attribute: int) -> int:
        found, count = ctypes.c_int64(), ctypes.c_int64()
        status = library("cudnn").cudnnBackendGetAttribute(
            *(self.pointer, attribute, _INT64, ctypes.c_int64(1)),
            *(ctypes.byref(count), ctypes.byref(found)),
        )
        check(status, f"attribute {attribute}")
        return found.value

    def listed(self, attribute: int, kind: int, most: int) -> list[Descriptor]:
        """The descriptors of a kind that an attribute has."""
        found, count = [Descriptor(kind) for _ in range(most)], ctypes.c_int64()
        array = (_PTR * most)(*(d.pointer for d in found))
        status = library("cudnn").cudnnBackendGetAttribute(
            self.pointer, attribute, _DESCRIPTOR, ctypes.c_int64(most), ctypes.byref(count), array
        )
        check(status, f"attribute {attribute}")
        return found[: count.value]

    def __del__(self) -> None:
        if self.pointer and not sys.is_finalizing():
            library("cudnn").cudnnBackendDestroyDescriptor(self.pointer)


def _tensor(t: Tensor) -> Descriptor:
    made = Descriptor(_TENSOR)
    made.put(901, _DATA_TYPE, t.kind)
    made.put(902, _INT64, *t.sizes)
    made.put(903, _INT64, *t.strides)
    made.put(906, _INT64, t.number)
    made.put(900, _INT64, 16)
    if t.virtual:
        made.put(907, _BOOL, True)
    if t.value is not None:
        made.put(908, _BOOL, True)
    return made.finished()


def _operation(op: Operation, tensors: dict[int, Descriptor]) -> Descriptor:
    ins, out = [tensors[t.number] for t in op.ins], tensors[op.out.number]
    if op.name == "matmul":
        what = Descriptor(_MATMUL)
        what.put(1500, _DATA_TYPE, op.compute)
        made = Descriptor(_MATMUL_OPERATION)
        numbers = {1520: ins[0], 1521: ins[1], 1522: out, 1523: what.finished()}
    elif op.name == "reduction":
        what = Descriptor(_REDUCTION)
        what.put(1601, _DATA_TYPE, op.compute)
        what.put(1600, _REDUCTION_MODE, op.mode)
        made = Descriptor(_REDUCTION_OPERATION)
        numbers = {1610: ins[0], 1611: out, 1612: what.finished()}
    elif op.window is not None:
        made, numbers = _convolution(op, op.window, [*ins, out])
    elif op.name == "reshape":
        made = Descriptor(_RESHAPE)
        numbers = {2200: ins[0], 2201: out}
    else:
        what = Descriptor(_POINTWISE)
        what.put(0, _POINTWISE_MODE, op.mode)
        what.put(1, _DATA_TYPE, op.compute)
        if op.axis is not None:
            what.put(9, _INT64, op.axis)
        made = Descriptor(_POINTWISE_OPERATION)
        numbers = {750: what.finished(), 753: out}
        numbers |= dict(zip((751, 752, 758), ins, strict=False))
        made.put(754, _FLOAT, 1.0)
        made.put(755, _FLOAT, 1.0)
    for attribute, value in numbers.items():
        made.put(attribute, _DESCRIPTOR, value)
    return made.finished()


def _convolution(op: Operation, window: Window, arrays: list[Descriptor]) -> Any:
    what = Descriptor(_CONVOLUTION)
    what.put(100, _DATA_TYPE, op.compute)
    what.put(101, _CONVOLUTION_MODE, window.mode)
    what.put(102, _INT64, *window.dilation)
    what.put(103, _INT64, *window.strides)
    what.put(104, _INT64, *window.high)
    what.put(105, _INT64, *window.low)
    what.put(106, _INT64, len(window.low))
    kind, one, zero, told, places = _CONVOLUTIONS[op.name]
    made = Descriptor(kind)
    made.put(one, _FLOAT, 1.0)
    made.put(zero, _FLOAT, 0.0)
    return made, {told: what.finished(), **dict(zip(places, arrays, strict=True))}


def operations(graph: Graph) -> list[Descriptor]:
    """The operations of a graph as cuDNN's; nothing of it needs a GPU."""
    libraries.has("nvrtc")  # cuDNN compiles kernels by it, and doesn't find it everywhere
    tensors = {t.number: _tensor(t) for t in graph.tensors}
    return [_operation(op, tensors) for op in graph.operations]


def _chosen(graph: Graph, handle: Any) -> Descriptor:
    """The first plan that cuDNN's heuristics recommend and that can be made."""
    whole = Descriptor(_OPERATION_GRAPH)
    whole.put(801, _DESCRIPTOR, *operations(graph))
    whole.put(800, _HANDLE, handle)
    heuristics = Descriptor(_HEURISTICS)
    heuristics.put(201, _DESCRIPTOR, whole.finished())
    heuristics.put(200, _HEURISTICS_MODE, _MODE_A)
    failed: DriverError | None = None
    for config in heuristics.finished().listed(202, _ENGINE_CONFIG, MOST_CONFIGS):
        plan = Descriptor(_PLAN)
        try:
            plan.put(400, _HANDLE, handle)
            plan.put(401, _DESCRIPTOR, config)
            return plan.finished()
        except DriverError as error:
            failed = error
    raise failed or DriverError("cuDNN has no kernel for this graph")


def _kept(graph: Graph, handle: Any) -> Descriptor:
    """The plan of a graph; its text, which has the machine code, is kept on disk."""
    gpu, version = device(), library("cudnn").cudnnGetVersion()
    told = f"cuDNN {version} {gpu.name} {gpu.multiprocessors}"
    key = disk.digest(f"{told}\n{graph.tensors}\n{graph.operations}".encode())
    text = disk.load(key)
    if text is not None:
        libraries.has("nvrtc")
        plan = Descriptor(_PLAN)
        plan.put(400, _HANDLE, handle)
        try:
            plan.put_text(405, text)
            return plan.finished()
        except DriverError:  # of a library with other parts
            pass
    plan = _chosen(graph, handle)
    disk.save(key, plan.text(405))
    return plan


class Plan:
    """A graph that cuDNN has kernels for; an error where it has none."""

    def __init__(self, graph: Graph, handle: Any) -> None:
        self.plan = _kept(graph, handle)
        self.workspace = self.plan.number(402)
        self.arrays = [t.number for t in graph.tensors if not t.virtual and t.value is None]
        self.numbers = [t for t in graph.tensors if t.value is not None]

    def run(self, stream: Any, *addresses: int) -> None:
        """Run with the graph's arrays, in the order they were written down, and the workspace."""
        *arrays, workspace = addresses
        numbers = [t.number for t in self.numbers]
        values = [t.value.ctypes.data for t in self.numbers]
        pack = Descriptor(_VARIANT)
        pack.put(1000, _INT64, *self.arrays, *numbers)
        pack.put(1001, _POINTER, *arrays, *values)
        pack.put(1003, _POINTER, workspace)
        dnn = library("cudnn")
        own = handle("cudnn", "cudnnCreate")
        check(dnn.cudnnSetStream(own, stream), "cudnnSetStream")
        pack.finished()
        status = dnn.cudnnBackendExecute(own, self.plan.pointer, pack.pointer)
        check(status, "cudnnBackendExecute")
