"""Readers of operations on whole arrays: movement, products, linear algebra, indexing."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import lax
from weft.mlir.attributes import integers
from weft.mlir.elementwise import operands
from weft.mlir.errors import Unread
from weft.mlir.reading import FOLDED, Reading, reader, result_shape, sizes_of
from weft.mlir.tree import Operation
from weft.numpy.einstein import einsum

LARGE_SPLAT = 64  # elements from which a repeated number is broadcast by the program


def _given(op: Operation, name: str) -> tuple[int, ...]:
    return integers(op.attributes[name], name)


def given_or(op: Operation, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    """A list of integers, or what it is without being written."""
    value = op.attributes.get(name)
    return default if value is None else integers(value, name)


def pairs(op: Operation, name: str, count: int) -> list[tuple[int, int]]:
    """Padding: two integers for each axis; zeros unless it is written."""
    value = op.attributes.get(name)
    if value is None:
        return [(0, 0)] * count
    found = np.asarray(value)
    if found.shape != (count, 2) or found.dtype.kind not in "iu":
        raise Unread(f"{name} has two integers for each of {count} axes")
    return [(int(a), int(b)) for a, b in found]


@reader("constant", "chlo.constant")
def _constant(r: Reading, op: Operation, ins: list[Any]) -> Any:
    value = op.attributes["value"]
    if not isinstance(value, np.ndarray):
        raise Unread("a constant is written dense<..> : tensor<..>")
    if value.size > LARGE_SPLAT and not any(value.strides):
        return lax.full(value.shape, value.reshape(-1)[0], value.dtype)
    return np.ascontiguousarray(value).reshape(value.shape)


@reader("chlo.constant_like")
def _constant_like(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (x,) = operands(op, ins, 1)
    return lax.full(np.shape(x), op.attributes["value"], x.dtype)


@reader("iota")
def _iota(r: Reading, op: Operation, ins: list[Any]) -> Any:
    return lax.broadcasted_iota(
        op.types[0].dtype, result_shape(op), int(op.attributes["iota_dimension"])
    )


@reader("reshape")
def _reshape(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (x,) = operands(op, ins, 1)
    return lax.reshape(x, result_shape(op))


@reader("broadcast_in_dim")
def _broadcast_in_dim(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (x,) = operands(op, ins, 1)
    return lax.broadcast_in_dim(x, result_shape(op), _given(op, "broadcast_dimensions"))


@reader("broadcast")
def _broadcast(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (x,) = operands(op, ins, 1)
    return lax.broadcast(x, _given(op, "broadcast_sizes"))


@reader("transpose")
def _transpose(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (x,) = operands(op, ins, 1)
    return lax.transpose(x, _given(op, "permutation"))


@reader("reverse")
def _reverse(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (x,) = operands(op, ins, 1)
    return lax.rev(x, _given(op, "dimensions"))


@reader("concatenate")
def _concatenate(r: Reading, op: Operation, ins: list[Any]) -> Any:
    return lax.concatenate(ins, int(op.attributes["dimension"]))


@reader("pad")
def _pad(r: Reading, op: Operation, ins: list[Any]) -> Any:
    x, value = operands(op, ins, 2)
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    config = list(zip(*[_given(op, name) for name in names], strict=True))
    return lax.pad(x, value, config)


@reader("slice")
def _slice(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (x,) = operands(op, ins, 1)
    start, limit = _given(op, "start_indices"), _given(op, "limit_indices")
    return lax.slice(x, start, limit, given_or(op, "strides", (1,) * len(start)))


@reader("dynamic_slice")
def _dynamic_slice(r: Reading, op: Operation, ins: list[Any]) -> Any:
    x, *starts = ins
    sizes = _given(op, "slice_sizes")
    return lax.dynamic_slice(x, starts, sizes, allow_negative_indices=False)


@reader("dynamic_update_slice")
def _dynamic_update_slice(r: Reading, op: Operation, ins: list[Any]) -> Any:
    x, update, *starts = ins
    return lax.dynamic_update_slice(x, update, starts, allow_negative_indices=False)


# --- products and linear algebra ------------------------------------------------------------------


def precision_of(op: Operation) -> Any:
    """The precision of a product's operands; None where nothing was asked for."""
    given = op.attributes.get("precision_config")
    names = [str(x) for x in given] if isinstance(given, list) else []
    if not any(name in ("HIGH", "HIGHEST") for name in names):
        return None
    found = [getattr(lax.Precision, name, lax.Precision.DEFAULT) for name in names]
    return tuple(found) if len(found) == 2 else found[0]


@reader("dot_general")
def _dot_general(r: Reading, op: Operation, ins: list[Any]) -> Any:
    x, y = operands(op, ins, 2)
    numbers = op.attributes["dot_dimension_numbers"]
    at = lambda name: integers(numbers.get(f"{name}_dimensions", []), name)
    inner = (at("lhs_contracting"), at("rhs_contracting"))
    batch = (at("lhs_batching"), at("rhs_batching"))
    dtype = op.types[0].dtype
    return lax.dot_general(
        x, y, (inner, batch), precision=precision_of(op), preferred_element_type=dtype
    )


@reader("dot")
def _dot(r: Reading, op: Operation, ins: list[Any]) -> Any:
    x, y = operands(op, ins, 2)
    numbers = (((np.ndim(x) - 1,), (0,)), ((), ()))
    dtype = op.types[0].dtype
    return lax.dot_general(x, y, numbers, precision=precision_of(op), preferred_element_type=dtype)


def convolution(op: Operation, x: Any, kernel: Any, pads: Any) -> Any:
    """A convolution with its padding."""
    given, numbers = op.attributes, op.attributes["dimension_numbers"]
    spec = lax.ConvDimensionNumbers(numbers["lhs"], numbers["rhs"], numbers["out"])
    count = len(numbers["lhs"]) - 2
    ones = (1,) * count
    flags = given.get("window_reversal", [])
    flags = flags.reshape(-1).tolist() if isinstance(flags, np.ndarray) else flags
    turned = [axis for axis, flag in zip(numbers["rhs"][2:], flags, strict=False) if flag]
    return lax.conv_general_dilated(
        x,
        lax.rev(kernel, turned) if turned else kernel,
        given_or(op, "window_strides", ones),
        pads,
        given_or(op, "lhs_dilation", ones),
        given_or(op, "rhs_dilation", ones),
        dimension_numbers=spec,
        feature_group_count=int(given.get("feature_group_count", 1)),
        batch_group_count=int(given.get("batch_group_count", 1)),
        precision=precision_of(op),
        preferred_element_type=op.types[0].dtype,
    )


@reader("convolution")
def _convolution(r: Reading, op: Operation, ins: list[Any]) -> Any:
    x, kernel = operands(op, ins, 2)
    count = len(op.attributes["dimension_numbers"]["lhs"]) - 2
    return convolution(op, x, kernel, pairs(op, "padding", count))


@reader("fft")
def _fft(r: Reading, op: Operation, ins: list[Any]) -> Any:
    kind = lax.FftType[str(op.attributes["fft_type"])]
    (x,) = operands(op, ins, 1)
    return lax.fft(x, kind, _given(op, "fft_length"))


@reader("cholesky")
def _cholesky(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (x,) = operands(op, ins, 1)
    if op.attributes.get("lower", False):
        return lax.linalg.cholesky(x, symmetrize_input=False)
    return _adjoint(lax.linalg.cholesky(_adjoint(x), symmetrize_input=False))


def _adjoint(x: Any) -> Any:
    order = [*range(np.ndim(x) - 2), np.ndim(x) - 1, np.ndim(x) - 2]
    x = lax.transpose(x, order)
    return lax.conj(x) if x.dtype.kind == "c" else x


@reader("triangular_solve")
def _triangular_solve(r: Reading, op: Operation, ins: list[Any]) -> Any:
    a, b = operands(op, ins, 2)
    given = op.attributes
    flip = str(given.get("transpose_a", "NO_TRANSPOSE"))
    return lax.linalg.triangular_solve(
        a,
        b,
        left_side=bool(given["left_side"]),
        lower=bool(given["lower"]),
        transpose_a=flip in ("TRANSPOSE", "ADJOINT"),
        conjugate_a=flip == "ADJOINT",
        unit_diagonal=bool(given["unit_diagonal"]),
    )


@reader("chlo.top_k")
def _top_k(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (x,) = operands(op, ins, 1)
    return lax.top_k(x, int(op.attributes["k"]))


_ALGORITHMS = {"DEFAULT": "RNG_DEFAULT", "THREE_FRY": "RNG_THREE_FRY", "PHILOX": "RNG_PHILOX"}


@reader("rng_bit_generator")
def _rng_bit_generator(r: Reading, op: Operation, ins: list[Any]) -> Any:
    (key,) = operands(op, ins, 1)
    return random_bits(op, key, result_shape(op, 1))


def random_bits(op: Operation, key: Any, shape: tuple[int, ...]) -> Any:
    """The next state of a generator, and an array of bits."""
    algorithm = lax.RandomAlgorithm[_ALGORITHMS[str(op.attributes["rng_algorithm"])]]
    return lax.rng_bit_generator(key, shape, op.types[1].dtype, algorithm)


@reader("rng")
def _rng(r: Reading, op: Operation, ins: list[Any]) -> Any:
    low, high, shape = operands(op, ins, 3)
    if str(op.attributes["rng_distribution"]) != "UNIFORM":
        raise Unread("weft draws uniform numbers here; use rng_bit_generator for others")
    return lax.rng_uniform(low, high, sizes_of(shape, "the shape of rng"))


@reader("einsum", "unary_einsum")
def _einsum(r: Reading, op: Operation, ins: list[Any]) -> Any:
    return einsum(str(op.attributes["einsum_config"]), *ins)


# --- indexing -------------------------------------------------------------------------------------


def index_rows(indices: Any, axis: int, batching: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """Indices with their vectors along the last axis, and where batch axes are then."""
    count = np.ndim(indices)
    if not 0 <= axis <= count:
        raise Unread(f"index_vector_dim is {axis} for indices of {count} axes")
    if axis == count:
        return lax.expand_dims(indices, (count,)), batching
    if axis == count - 1:
        return indices, batching
    order = [i for i in range(count) if i != axis]
    return lax.transpose(indices, [*order, axis]), tuple([i - (i > axis) for i in batching])


def gathered(op: Operation, x: Any, indices: Any, sizes: tuple[int, ...]) -> Any:
    """A gather; indices out of bounds are clamped."""
    d = op.attributes["dimension_numbers"]
    at = lambda name: integers(d.get(name, []), name)
    batching = at("start_indices_batching_dims")
    indices, batching = index_rows(indices, int(d.get("index_vector_dim", 0)), batching)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=at("offset_dims"),
        collapsed_slice_dims=at("collapsed_slice_dims"),
        start_index_map=at("start_index_map"),
        operand_batching_dims=at("operand_batching_dims"),
        start_indices_batching_dims=batching,
    )
    is_sorted = bool(op.attributes.get("indices_are_sorted", False))
    return lax.gather(
        x, indices, numbers, sizes, indices_are_sorted=is_sorted, mode=lax.GatherScatterMode.CLIP
    )


@reader("gather")
def _gather(r: Reading, op: Operation, ins: list[Any]) -> Any:
    x, indices = operands(op, ins, 2)
    return gathered(op, x, indices, _given(op, "slice_sizes"))


@reader("torch_index_select")
def _index_select(r: Reading, op: Operation, ins: list[Any]) -> Any:
    x, indices = operands(op, ins, 2)
    axis, batch = int(op.attributes["dim"]), int(op.attributes.get("batch_dims", 0))
    shared = tuple(range(batch))
    count = np.ndim(indices)
    window = [i for i in range(np.ndim(x)) if i >= batch and i != axis]
    offset = [i if i < axis else i - 1 + count - batch for i in window]
    numbers = lax.GatherDimensionNumbers(
        tuple(offset), (axis,), (axis,), operand_batching_dims=shared,
        start_indices_batching_dims=shared,
    )  # fmt: skip
    sizes = [1 if i < batch or i == axis else n for i, n in enumerate(np.shape(x))]
    rows = lax.expand_dims(indices, (count,))
    return lax.gather(x, rows, numbers, sizes, mode=lax.GatherScatterMode.CLIP)


# --- known values ---------------------------------------------------------------------------------


def _folded_reshape(r: Reading, op: Operation, ins: list[Any]) -> list[Any]:
    return [ins[0].reshape(result_shape(op))]


def _folded_broadcast(r: Reading, op: Operation, ins: list[Any]) -> list[Any]:
    (x,), shape = ins, result_shape(op)
    dims = _given(op, "broadcast_dimensions")
    if len(dims) != x.ndim or any(not 0 <= d < len(shape) for d in dims):
        raise Unread("broadcast_dimensions has an axis of the result for each of the operand's")
    if list(dims) != sorted(set(dims)):
        raise Unread("broadcast_dimensions are in order, each once")
    wide = [1] * len(shape)
    for d, n in zip(dims, x.shape, strict=True):
        wide[d] = n
    return [np.ascontiguousarray(np.broadcast_to(x.reshape(wide), shape)).reshape(shape)]


def _folded_concatenate(r: Reading, op: Operation, ins: list[Any]) -> list[Any]:
    return [np.concatenate(ins, int(op.attributes["dimension"]))]


def _folded_slice(r: Reading, op: Operation, ins: list[Any]) -> list[Any]:
    (x,), start, limit = ins, _given(op, "start_indices"), _given(op, "limit_indices")
    strides = given_or(op, "strides", (1,) * len(start))
    bad = len(start) != x.ndim or any(s < 1 for s in strides)
    if bad or any(not 0 <= a <= b <= n for a, b, n in zip(start, limit, x.shape, strict=True)):
        raise Unread(f"it takes [{start}:{limit}] of an array of shape {x.shape}")
    return [x[tuple([slice(*part) for part in zip(start, limit, strides, strict=True)])]]


FOLDED["stablehlo.reshape"] = _folded_reshape
FOLDED["stablehlo.broadcast_in_dim"] = _folded_broadcast
FOLDED["stablehlo.concatenate"] = _folded_concatenate
FOLDED["stablehlo.slice"] = _folded_slice
