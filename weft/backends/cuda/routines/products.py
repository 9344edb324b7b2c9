"""Products of arrays: cuBLASLt for floats, a kernel for integers. The library reads operands by
their strides; those that it couldn't read are transposed first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.backends.cuda import driver
from weft.backends.cuda.driver import per_device
from weft.backends.cuda.passes.product_layout import (
    Layout,
    Turned,
    arranged,
    dense,
    product_axes,
    reordered,
    turned,
)
from weft.backends.cuda.routines.base import (
    ROUTINES,
    Fill,
    Library,
    Place,
    Routine,
    given,
    launch,
    made,
    scratch,
)
from weft.backends.cuda.routines.lt import NONE, Matrix, Product
from weft.backends.cuda.routines.moves import permute
from weft.backends.cuda.routines.stubs import product_stubs as stubs
from weft.backends.cuda.schedule import flat
from weft.base.record import Record
from weft.compiler.passes.collapse import collapse
from weft.kernel.kinds import kind_of, u8
from weft.kernel.nodes import BF16, F16, F32, F64
from weft.kernel.program import Launch, Op, Type

C64, C128 = np.dtype(np.complex64), np.dtype(np.complex128)
# Types of matrices as library_types.h numbers them.
_TYPES = {F32: 0, F64: 1, F16: 2, BF16: 14, C64: 4, C128: 5}
_NARROW = (F16, BF16)
# What products are summed in, as cublas_api.h numbers it.
_FULL, _DOUBLE, _TF32 = 68, 70, 77
# Precisions and algorithms for which the ten bits of TF32's mantissas do.
_FASTER = frozenset(["None", "DEFAULT", "HIGH", "TF32_TF32_F32", "BF16_BF16_F32"])
# The first GPUs that multiply in TF32.
AMPERE = 80


class Shape(Record):
    """A batched product of row-major matrices, each perhaps transposed in memory."""

    batch: int
    rows: int
    columns: int
    depth: int
    left_transposed: bool
    right_transposed: bool


def _side(shape: Any, contracted: tuple[int, ...], batch: tuple[int, ...]) -> Any:
    """How a side is read: the order of axes that it must have, and whether depth comes first.

    The order is None where memory is in it already.
    """
    free = [i for i in range(len(shape)) if i not in contracted and i not in batch]
    for order, first in (
        ((*batch, *free, *contracted), False),
        ((*batch, *contracted, *free), True),
    ):
        if list(order) == list(range(len(shape))):
            return None, first
    # axes of one element may be anywhere
    long = [i for i in range(len(shape)) if shape[i] > 1]
    for order, first in (
        ((*batch, *free, *contracted), False),
        ((*batch, *contracted, *free), True),
    ):
        if [i for i in order if shape[i] > 1] == long:
            return None, first
    return (*batch, *free, *contracted), False


def analyse(lhs: Type, rhs: Type, dimension_numbers: Any) -> tuple[Shape, Any, Any]:
    """A product as one of matrices, and the orders of axes that operands must be brought to."""
    ((lc, rc), (lb, rb)) = [tuple(map(tuple, x)) for x in dimension_numbers]
    left, left_first = _side(lhs.shape, lc, lb)
    right, right_first = _side(rhs.shape, rc, rb)
    batch, depth = prod(lhs.shape[i] for i in lb), prod(lhs.shape[i] for i in lc)
    rows = prod(lhs.shape) // max(batch * depth, 1) if batch * depth else 0
    columns = prod(rhs.shape) // max(batch * depth, 1) if batch * depth else 0
    return Shape(batch, rows, columns, depth, left_first, not right_first), left, right


def transposed(
    ins: Sequence[Type], orders: Sequence[Any]
) -> tuple[list[Place], list[Any], list[int]]:
    """Where operands are with axes in an order, the steps that bring them there, and the bytes of
    their scratch memory."""
    places, steps, rooms = list[Place](), list[Any](), list[int]()
    for i, (t, order) in enumerate(zip(ins, orders, strict=True)):
        places.append(given(i))
        if order is not None:
            places[i] = scratch(len(rooms))
            rooms.append(prod(t.shape) * t.dtype.itemsize)
            steps.append((permute(t.shape, order, t.dtype.itemsize), (given(i), places[i])))
    return places, steps, rooms


def compute_of(dtype: np.dtype, params: dict[str, Any]) -> int:
    """What a product is summed in: float32 as TF32 unless a precision asks for more, as in JAX."""
    if dtype in (F64, C128):
        return _DOUBLE
    if dtype in (F32, C64) and has_tf32():
        asked = params.get("precision")
        words = asked if isinstance(asked, tuple) else (asked,)
        if all(getattr(word, "name", str(word)) in _FASTER for word in words):
            return _TF32
    return _FULL


def has_tf32() -> bool:
    """Whether the GPU multiplies float32 in TF32."""
    return driver.count() > 0 and driver.device().architecture >= AMPERE


@per_device(512)
def lt_product(
    p: Shape, dtype: np.dtype, out: np.dtype, compute: int, epilogue: int = NONE
) -> Product:
    """Row-major matrices are transposed ones to cuBLAS: the operands change places."""
    kind = _TYPES[dtype]
    right = Matrix(
        kind,
        *((p.depth, p.columns, p.depth) if p.right_transposed else (p.columns, p.depth, p.columns)),
        p.batch,
        p.depth * p.columns,
        p.right_transposed,
    )
    left = Matrix(
        kind,
        *((p.rows, p.depth, p.rows) if p.left_transposed else (p.depth, p.rows, p.depth)),
        p.batch,
        p.rows * p.depth,
        p.left_transposed,
    )
    result = Matrix(_TYPES[out], p.columns, p.rows, p.columns, p.batch, p.rows * p.columns)
    return Product(right, left, result, compute, _scale(dtype, compute), epilogue)


@per_device(512)
def strided_product(p: Layout, dtype: np.dtype, out: np.dtype, compute: int) -> Product:
    """The same for matrices that lie as a layout says."""
    kinds = zip((p.first, p.second, p.result), (dtype, dtype, out), strict=True)
    first, second, result = (
        Matrix(
            _TYPES[d], x.rows, x.columns, x.stride, p.batch, x.batch_stride, transposed=x.transposed
        )
        for x, d in kinds
    )
    return Product(first, second, result, compute, _scale(dtype, compute))


def _scale(dtype: np.dtype, compute: int) -> tuple[int, np.ndarray]:
    """The type of factors that the library multiplies by, and one of it."""
    scale = {_DOUBLE: C128 if dtype == C128 else F64}.get(compute, C64 if dtype == C64 else F32)
    return _TYPES[scale], np.ones(1, scale)


def known(lhs: Type, rhs: Type, out: Type) -> bool:
    """Whether the library multiplies these."""
    if lhs.dtype != rhs.dtype or lhs.dtype not in _TYPES:
        return False
    return out.dtype == lhs.dtype or (lhs.dtype in _NARROW and out.dtype == F32)


def dot_general(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    lhs, rhs = ins
    (out,) = outs
    shape, left, right = analyse(lhs, rhs, params["dimension_numbers"])
    places, steps, rooms = transposed(ins, (left, right))
    if not shape.depth or not shape.rows * shape.columns * shape.batch:
        return Routine([Fill(made(0), 0, prod(out.shape) * out.dtype.itemsize)])
    if known(lhs, rhs, out):
        by_strides = left is not None or right is not None
        routine = strided(ins, out, params, (left, right)) if by_strides else None
        if routine is not None:
            return routine
        found = lt_product(shape, lhs.dtype, out.dtype, compute_of(lhs.dtype, params))
        if found.algorithm is not None:

            def run(stream: Any, left: int, right: int, result: int) -> None:
                found.run(stream, right, left, result)

            steps.append(Library(run, (*places, made(0)), "cublasLtMatmul"))
            return Routine(steps, tuple(rooms))
    names = _plain(shape, lhs, rhs, out)
    if names is None:
        return None
    steps.append(launch(stubs.multiply, prod(out.shape), (*places, made(0)), **names))
    return Routine(steps, tuple(rooms))


def strided(
    ins: list[Type],
    out: Type,
    params: dict[str, Any],
    orders: tuple[Any, Any],
    order: Sequence[Turned] | None = None,
) -> Routine | None:
    """A product that transposes fewer operands than both that have ``orders``, with its result in
    another order where that is asked for; None where the library has no such product."""
    compute = compute_of(ins[0].dtype, params)
    choices = dict.fromkeys(
        (left, right) for left in (None, orders[0]) for right in (None, orders[1])
    )
    every = [x is not None for x in orders]

    def copied(choice: tuple[Any, Any]) -> int:
        pairs = zip(ins, choice, strict=True)
        return sum(prod(t.shape) * t.dtype.itemsize for t, order in pairs if order is not None)

    for choice in sorted(choices, key=copied):
        if order is None and [x is not None for x in choice] == every:
            return None  # what transposing would do
        layout = layout_of(ins, params["dimension_numbers"], choice, order)
        if layout is None or not layout.is_aligned(ins[0].dtype.itemsize):
            continue
        product = strided_product(layout, ins[0].dtype, out.dtype, compute)
        if product.algorithm is not None:
            return _strided_routine(ins, choice, layout.right_first, product)
    return None


def layout_of(
    ins: Sequence[Type],
    dimension_numbers: Any,
    orders: Sequence[Any],
    order: Sequence[Turned] | None = None,
) -> Layout | None:
    """How the library multiplies operands, of which copies may have their axes in an order."""
    lhs, rhs = ins
    strides = [dense(t, order) for t, order in zip(ins, orders, strict=True)]
    axes: list[Any] | None = product_axes(lhs.shape, rhs.shape, dimension_numbers, *strides)
    if order is not None and axes is not None:
        axes = reordered(axes, order)
    return None if axes is None else arranged(axes)


def _strided_routine(
    ins: list[Type], orders: tuple[Any, Any], right_first: bool, product: Product
) -> Routine:
    places, steps, rooms = transposed(ins, orders)

    def run(stream: Any, left: int, right: int, result: int) -> None:
        product.run(stream, *((right, left) if right_first else (left, right)), result)

    steps.append(Library(run, (*places, made(0)), "cublasLtMatmul"))
    return Routine(steps, tuple(rooms))


class Reordered(Record):
    """A product that writes its result with axes in another order: an offer like epilogues'."""

    order: tuple[Turned, ...]

    def routine(self, node: Any) -> Routine | None:
        types = [Type(x.aval.shape, x.aval.dtype) for x in (*node.eqn.invars, *node.eqn.outvars)]
        return _reordered(types, node.eqn.params, self.order)


def reordering(eqn: Any, order: Sequence[Turned]) -> Reordered | None:
    """An offer for a product whose result is only wanted in another order."""
    if eqn.primitive.name != "dot_general":
        return None
    types = [Type(x.aval.shape, x.aval.dtype) for x in (*eqn.invars, *eqn.outvars)]
    if not known(*types) or not all(prod(t.shape) for t in types):
        return None
    return None if _reordered(types, eqn.params, order) is None else Reordered(tuple(order))


def _reordered(types: list[Type], params: Any, order: Sequence[Turned]) -> Routine | None:
    *ins, out = types
    orders = analyse(ins[0], ins[1], params["dimension_numbers"])[1:]
    return strided(ins, out, params, orders, order)


def in_order(
    nodes: Sequence[Any], only: Callable[[int, int], bool], same_memory: Callable[[int, int], bool]
) -> Iterator[Any]:
    """Nodes with products that write their results in the order of axes that the kernel after them
    would bring these to, without that kernel. ``only`` says whether so many nodes have a slot, and
    ``same_memory`` whether two may be the same."""
    waiting: Any = None
    for node in nodes:
        made = None
        if isinstance(waiting, Op) and isinstance(node, Launch) and waiting.epilogue is None:
            made = _written_in_order(waiting, node, only, same_memory)
        if waiting is not None:
            yield waiting if made is None else made
        waiting = node if made is None else None
    if waiting is not None:
        yield waiting


def _written_in_order(
    node: Op,
    after: Launch,
    only: Callable[[int, int], bool],
    same_memory: Callable[[int, int], bool],
) -> Op | None:
    roles = [b.role for b in after.kernel.buffers if b.role != "row"]
    if len(node.outs) != 1 or sorted(roles) != ["in", "out"]:
        return None
    source, target = (after.slots[roles.index(role)] for role in ("in", "out"))
    if source != node.outs[0] or not only(source, 2):
        return None
    if any(same_memory(target, slot) for slot in (*node.ins, source)):
        return None
    axes = turned(flat(collapse(after.kernel)))
    offer = None if axes is None else reordering(node.eqn, axes)
    return None if offer is None else node._replace(outs=(target,), offer=offer)


def _plain(shape: Shape, lhs: Type, rhs: Type, out: Type) -> dict[str, Any] | None:
    """What the stub of products that no library does is told; None for types it doesn't have."""
    kinds = []
    for t in (lhs, rhs, out):
        if t.dtype.kind not in "biuf" or (t.dtype.kind == "f" and t.dtype.itemsize < 4):
            return None
        kinds.append(u8 if t.dtype.kind == "b" else kind_of(t.dtype))
    names: dict[str, Any] = dict(zip(("A", "B", "R"), kinds, strict=True))
    names["LOGICAL"] = int(out.dtype.kind == "b")
    names |= {"ROWS": shape.rows, "COLUMNS": shape.columns, "DEPTH": shape.depth}
    names |= {"BATCH": shape.batch, "LEFT_TRANSPOSED": int(shape.left_transposed)}
    names["RIGHT_TRANSPOSED"] = int(shape.right_transposed)
    return names


ROUTINES["dot_general"] = dot_general
