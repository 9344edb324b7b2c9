"""Readers of operations whose shapes are operands: a call's sizes make them known."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import lax
from weft.mlir.attributes import integers
from weft.mlir.custom_calls import target
from weft.mlir.elementwise import operands
from weft.mlir.errors import Unread
from weft.mlir.reading import FOLDED, Reading, Scope, known, reader, sizes_of
from weft.mlir.regions import reduced_windows
from weft.mlir.structure import convolution, gathered, random_bits
from weft.mlir.tree import Operation


@reader("get_dimension_size")
def _dimension_size(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (x,) = operands(op, ins, 1)
    axis = int(op.attributes["dimension"])
    if not 0 <= axis < np.ndim(x):
        raise Unread(f"its operand has no axis {axis}")
    return np.asarray(np.shape(x)[axis], op.types[0].dtype)


@reader("set_dimension_size")
def _set_dimension_size(r: Reading, op: Operation, ins: list[Any]) -> Any:
    x, size = operands(op, ins, 2)
    axis, (wanted,) = int(op.attributes["dimension"]), sizes_of(size, "the size")
    if not 0 <= axis < np.ndim(x) or wanted > np.shape(x)[axis]:
        raise Unread(f"axis {axis} of its operand cannot have the size {wanted}")
    return lax.slice_in_dim(x, 0, wanted, axis=axis)


@reader("dynamic_reshape")
def _dynamic_reshape(r: Reading, op: Operation, ins: list[Any]) -> Any:
    x, shape = operands(op, ins, 2)
    return lax.reshape(x, sizes_of(shape, "the shape"))


@reader("dynamic_iota")
def _dynamic_iota(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (shape,) = operands(op, ins, 1)
    sizes = sizes_of(shape, "the shape")
    return lax.broadcasted_iota(op.types[0].dtype, sizes, int(op.attributes["iota_dimension"]))


@reader("dynamic_broadcast_in_dim")
def _dynamic_broadcast(r: Reading, op: Operation, ins: list[Any]) -> Any:
    x, shape = operands(op, ins, 2)
    dims = integers(op.attributes["broadcast_dimensions"], "broadcast_dimensions")
    return lax.broadcast_in_dim(x, sizes_of(shape, "the shape"), dims)


@reader("dynamic_pad")
def _dynamic_pad(r: Reading, op: Operation, ins: list[Any]) -> Any:
    x, value, *pads = operands(op, ins, 5)
    columns = [known(p, "the padding").reshape(-1).tolist() for p in pads]
    return lax.pad(x, value, list(zip(*columns, strict=True)))


@reader("real_dynamic_slice")
def _real_dynamic_slice(r: Reading, op: Operation, ins: list[Any], scope: Scope) -> Any:
    x, start, limit, strides = operands(op, ins, 4)
    steps = known(strides, "the strides").reshape(-1).tolist()
    if all(isinstance(n, np.ndarray) for n in (start, limit)):
        return lax.slice(x, sizes_of(start, "the start"), sizes_of(limit, "the limit"), steps)
    sizes = _extent(op, scope)
    if sizes is None or any(step != 1 for step in steps):
        raise Unread("the size of what it takes must follow from shapes and constants")
    starts = [lax.index_in_dim(start, i, keepdims=False) for i in range(np.ndim(x))]
    return lax.dynamic_slice(x, starts, sizes, allow_negative_indices=False)


def _extent(op: Operation, scope: Scope) -> tuple[int, ...] | None:
    """The sizes of a part whose start isn't known: its limit is the start and they, added."""
    if None not in op.types[0].shape:
        return tuple(op.types[0].shape)
    _, start, limit, _ = op.operands
    maker = scope.maker(limit)
    if maker is None or maker.name != "stablehlo.add" or start not in maker.operands:
        return None
    other = maker.operands[1 - maker.operands.index(start)]
    value = scope[other]
    return sizes_of(value, "the size") if isinstance(value, np.ndarray) else None


@reader("dynamic_gather")
def _dynamic_gather(r: Reading, op: Operation, ins: list[Any]) -> Any:
    x, indices, sizes = operands(op, ins, 3)
    return gathered(op, x, indices, sizes_of(sizes, "slice_sizes"))


@reader("dynamic_conv")
def _dynamic_conv(r: Reading, op: Operation, ins: list[Any]) -> Any:
    x, kernel, pads = operands(op, ins, 3)
    found = known(pads, "the padding").reshape(-1, 2)
    return convolution(op, x, kernel, [(int(a), int(b)) for a, b in found])


@target("stablehlo.dynamic_reduce_window")
def _dynamic_reduce_window(r: Reading, op: Operation, ins: list[Any]) -> Any:
    names = op.attributes.get("called_computations")
    half = (len(ins) - 5) // 2
    if not isinstance(names, list) or len(names) != 1 or half < 1 or len(ins) != 2 * half + 5:
        raise Unread("it takes arrays, initial values, five lists of sizes and one function")
    *lists, pads = [known(x, "the window") for x in ins[2 * half :]]
    window, strides, base, holes = [tuple(x.reshape(-1).tolist()) for x in lists]
    body = r.function(str(names[0])).body
    pairs = [(int(a), int(b)) for a, b in pads.reshape(-1, 2)]
    given = (window, strides, pairs, base, holes)
    fold = r.region(body, Scope())
    return reduced_windows(body, fold, ins[:half], ins[half : 2 * half], given)


@target("stablehlo.dynamic_top_k")
def _dynamic_top_k(r: Reading, op: Operation, ins: list[Any]) -> Any:
    x, count = operands(op, ins, 2)
    return lax.top_k(x, *sizes_of(count, "k"))


@target("stablehlo.dynamic_rng_bit_generator")
def _dynamic_bits(r: Reading, op: Operation, ins: list[Any]) -> Any:
    key, shape = operands(op, ins, 2)
    return random_bits(op, key, sizes_of(shape, "the shape"))


def _folded_reshape(r: Reading, op: Operation, ins: list[Any]) -> list[Any]:
    return [ins[0].reshape(sizes_of(ins[1], "the shape"))]


FOLDED["stablehlo.dynamic_reshape"] = _folded_reshape
