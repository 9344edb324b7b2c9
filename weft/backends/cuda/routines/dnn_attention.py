"""Attention as graphs of cuDNN's, whose scores are never in memory.

cuDNN knows attention by the operations it is made of, in the order of these graphs.
"""

from __future__ import annotations

import ctypes
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from weft.backends.cuda import driver
from weft.backends.cuda.libraries import has, library
from weft.backends.cuda.routines import dnn_graph as g
from weft.backends.cuda.routines.base import deterministic
from weft.backends.cuda.routines.dnn import TYPES
from weft.backends.cuda.routines.dnn_graph import Graph, Plan, Tensor
from weft.base.functional import lru
from weft.base.record import Record

HIDDEN = -np.inf


class Sizes(Record):
    """An attention: its sizes, the strides of batch, head and row of each array, and who sees whom.

    ``strides`` has queries, keys, values, results and, backward, the gradients of results.
    """

    dtype: np.dtype
    batch: int
    heads: int
    shared: int  # heads of keys and values
    rows: int
    columns: int
    depth: int
    strides: tuple[tuple[int, int, int], ...]
    scale: float
    shift: int | None  # a row sees columns up to its own number + this


class _Writer:
    """A graph of attention while it is written."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes, self.graph, self.kind = sizes, Graph(), TYPES[sizes.dtype]
        s = sizes
        self.square = (s.batch, s.heads, s.rows, s.columns)
        self.line = (s.batch, s.heads, s.rows, 1)
        self.scale: Tensor | None = None

    def array(self, which: int, heads: int, rows: int, transposed: bool = False) -> Tensor:
        """One of the arrays that strides are given for."""
        s = self.sizes
        batch, head, row = s.strides[which]
        sizes, strides = (s.batch, heads, rows, s.depth), (batch, head, row, 1)
        if transposed:
            sizes, strides = ((*x[:2], x[3], x[2]) for x in (sizes, strides))
        return self.graph.tensor(sizes, self.kind, strides)

    def scaled(self, x: Tensor) -> Tensor:
        if self.scale is None:
            self.scale = self.graph.number(self.sizes.scale)
        return self.graph.pointwise(g.MUL, x, self.scale)

    def masked(self, x: Tensor) -> Tensor:
        """Scores with those that a row doesn't see hidden."""
        s, graph = self.sizes, self.graph
        if s.shift is None:
            return x
        row = graph.pointwise(g.INDEX, x, kind=g.INT32, axis=2)
        column = graph.pointwise(g.INDEX, x, kind=g.INT32, axis=3)
        if s.shift:
            for mode, size in ((g.ADD, s.columns), (g.SUB, s.rows)):
                number = graph.number(size, g.INT32)
                row = graph.pointwise(mode, row, number, kind=g.INT32, compute=g.INT32)
        seen = graph.pointwise(g.GREATER_EQUAL, row, column, kind=g.BOOLEAN, compute=g.BOOLEAN)
        return graph.pointwise(g.SELECT, x, graph.number(HIDDEN), seen)


def forward(sizes: Sizes) -> Graph:
    """Arrays: queries, keys, values, results, and for each row the logarithm of its sum of
    exponentials."""
    w, s = _Writer(sizes), sizes
    graph = w.graph
    q = w.array(0, s.heads, s.rows)
    k = w.array(1, s.shared, s.columns, transposed=True)
    v = w.array(2, s.shared, s.columns)
    out = w.array(3, s.heads, s.rows)
    stats = graph.tensor(w.line, g.FLOAT)
    scores = w.masked(w.scaled(graph.matmul(q, k, graph.virtual(w.square))))
    most = graph.reduction(g.MAX, scores, graph.virtual(w.line))
    raw = graph.pointwise(g.EXP, graph.pointwise(g.SUB, scores, most))
    total = graph.reduction(g.SUM, raw, graph.virtual(w.line))
    graph.pointwise(g.ADD, most, graph.pointwise(g.LOG, total), out=stats)
    weights = graph.pointwise(g.DIV, raw, total, kind=w.kind)
    graph.matmul(weights, v, out)
    return graph


def backward(sizes: Sizes) -> Graph:
    """Arrays: queries, keys, values, results, the gradients of results, the forward pass's
    logarithms; gradients of queries, keys and values; and scratch: a number for each row, and sums
    in float32 for the gradients of queries."""
    w, s = _Writer(sizes), sizes
    graph = w.graph
    q = w.array(0, s.heads, s.rows)
    k = w.array(1, s.shared, s.columns, transposed=True)
    v = w.array(2, s.shared, s.columns, transposed=True)
    out, grads = w.array(3, s.heads, s.rows), w.array(4, s.heads, s.rows)
    stats = graph.tensor(w.line, g.FLOAT)
    dq = w.array(0, s.heads, s.rows)
    dk, dv = w.array(1, s.shared, s.columns), w.array(2, s.shared, s.columns)
    products, sums = graph.tensor(w.line, g.FLOAT), graph.tensor(q.sizes, g.FLOAT)

    both = graph.pointwise(g.MUL, grads, out)
    row_sums = graph.reduction(g.SUM, both, graph.virtual(w.line))
    graph.pointwise(g.MUL, row_sums, graph.number(1.0), out=products)

    scores = w.scaled(graph.matmul(q, k, graph.virtual(w.square)))
    weights = graph.pointwise(g.EXP, w.masked(graph.pointwise(g.SUB, scores, stats)))
    _by_columns(w, weights, grads, dv)
    changes = graph.matmul(grads, v, graph.virtual(w.square))
    changes = graph.pointwise(g.SUB, changes, products)
    changes = w.scaled(graph.pointwise(g.MUL, changes, weights))
    _by_columns(w, changes, q, dk)
    sizes_, strides = ((*x[:2], x[3], x[2]) for x in (k.sizes, k.strides))
    keys = graph.reshape(k, graph.virtual(sizes_, w.kind, strides))
    graph.matmul(changes, keys, sums)
    graph.pointwise(g.IDENTITY, sums, out=dq)
    return graph


def _by_columns(w: _Writer, x: Tensor, y: Tensor, out: Tensor) -> None:
    """The product, summed over rows and over queries' heads that share one, of x and y."""
    s, graph = w.sizes, w.graph
    batch, heads, rows, columns = w.square
    strides = (heads * rows * columns, rows * columns, 1, columns)
    across = graph.virtual((batch, heads, columns, rows), w.kind, strides)
    graph.reshape(x, across)
    if s.heads == s.shared:
        graph.matmul(across, y, out)
        return
    whole = graph.virtual((batch, heads, columns, s.depth), w.kind)
    graph.reduction(g.SUM, graph.matmul(across, y, whole), out)


def scratch_sizes(sizes: Sizes) -> tuple[int, int]:
    """The bytes of the backward pass's two arrays of scratch."""
    count = sizes.batch * sizes.heads * sizes.rows
    return 4 * count, 4 * count * sizes.depth


# Rows and columns from which on cuDNN's kernels pay for the time it takes to make them.
SMALLEST = 128


def known(sizes: Sizes, version: int, architecture: int) -> bool:
    """Whether cuDNN of a version has kernels, faster than ours, for an attention."""
    s = sizes
    shifts = (None, 0, s.columns - s.rows)
    return (
        architecture == 90
        and s.depth in (64, 128)
        and version >= 90600
        and version not in (91000, 91001)  # wrong gradients
        and (s.columns % 128 == 0 or version > 91500)  # others want their padding masked
        and min(s.rows, s.columns) >= SMALLEST
        and s.shift in shifts
    )


# --- plans ----------------------------------------------------------------------------------------


@lru(1)
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(2, "cudnn")


class _Handles(threading.local):
    """cuDNN's handles of a thread, by GPU; no two threads may use one at once."""

    def __init__(self) -> None:
        self.found: dict[int, Any] = {}


_handles = _Handles()


def _handle() -> Any:
    number = driver.device().number
    if number not in _handles.found:
        made = ctypes.c_void_p()
        g.check(library("cudnn").cudnnCreate(ctypes.byref(made)), "cudnnCreate")
        _handles.found[number] = made
    return _handles.found[number]


def _made(device: driver.Device, write: Any, sizes: Sizes) -> Plan | None:
    try:
        device.use()
        return Plan(write(sizes), _handle())
    except driver.DriverError:
        return None


_plans: dict[Any, Future[Plan | None]] = {}


def plan(write: Any, sizes: Sizes) -> Plan | None:
    """The plan for the graph that ``write`` writes; None where our own kernels are to be used."""
    found = begin(write, sizes)
    return None if found is None else found.result()


def begin(write: Any, sizes: Sizes) -> Future[Plan | None] | None:
    """Begin to make a plan, if cuDNN is to be used."""
    if driver.count() == 0 or deterministic() or not has("cudnn"):
        return None
    device, version = driver.device(), library("cudnn").cudnnGetVersion()
    if not known(sizes, version, device.architecture):
        return None
    key = (write.__name__, sizes, device.number)
    if key not in _plans:
        _plans[key] = _workers().submit(_made, device, write, sizes)
    return _plans[key]
