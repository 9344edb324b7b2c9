"""Readers of batch normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import lax
from weft.mlir.elementwise import operands
from weft.mlir.reading import Reading, reader
from weft.mlir.tree import Operation


def _setting(op: Operation, x: Any) -> tuple[int, list[int], Any]:
    """The axis of features, all others, and epsilon."""
    axis = int(op.attributes["feature_index"])
    others = [i for i in range(np.ndim(x)) if i != axis]
    return axis, others, np.asarray(op.attributes["epsilon"], x.dtype)


def _along(v: Any, x: Any, axis: int) -> Any:
    """A number for each feature, as large as the array."""
    return lax.broadcast_in_dim(v, np.shape(x), (axis,))


def _moments(x: Any, others: list[int], axis: int) -> tuple[Any, Any]:
    count = np.asarray(max(x.size // max(np.shape(x)[axis], 1), 1), x.dtype)
    mean = lax.div(lax.reduce_sum(x, others), lax.full((np.shape(x)[axis],), count, x.dtype))
    centred = lax.sub(x, _along(mean, x, axis))
    total = lax.reduce_sum(lax.square(centred), others)
    return mean, lax.div(total, lax.full_like(total, count))


def _normalised(x: Any, mean: Any, variance: Any, epsilon: Any, axis: int) -> Any:
    scale = lax.sqrt(lax.add(variance, lax.full_like(variance, epsilon)))
    return lax.div(lax.sub(x, _along(mean, x, axis)), _along(scale, x, axis))


@reader("batch_norm_inference")
def _inference(r: Reading, op: Operation, ins: list[Any]) -> Any:
    x, scale, offset, mean, variance = operands(op, ins, 5)
    axis, _, epsilon = _setting(op, x)
    found = _normalised(x, mean, variance, epsilon, axis)
    return lax.add(lax.mul(found, _along(scale, x, axis)), _along(offset, x, axis))


@reader("batch_norm_training")
def _training(r: Reading, op: Operation, ins: list[Any]) -> Any:
    x, scale, offset = operands(op, ins, 3)
    axis, others, epsilon = _setting(op, x)
    mean, variance = _moments(x, others, axis)
    found = _normalised(x, mean, variance, epsilon, axis)
    out = lax.add(lax.mul(found, _along(scale, x, axis)), _along(offset, x, axis))
    return [out, mean, variance]


@reader("batch_norm_grad")
def _gradient(r: Reading, op: Operation, ins: list[Any]) -> Any:
    """Derivatives by the operand, the scale and the offset, at given moments.

    With n the normalised operand, N the number of elements of a feature and g the cotangent:
    scale / sqrt(variance + epsilon) (g - mean(g) - n mean(g n)), sum(g n), sum(g).
    """
    x, scale, mean, variance, g = operands(op, ins, 5)
    axis, others, epsilon = _setting(op, x)
    n = _normalised(x, mean, variance, epsilon, axis)
    by_scale = lax.reduce_sum(lax.mul(g, n), others)
    by_offset = lax.reduce_sum(g, others)
    count = lax.full_like(by_offset, max(x.size // max(np.shape(x)[axis], 1), 1))
    inner = lax.sub(g, _along(lax.div(by_offset, count), x, axis))
    inner = lax.sub(inner, lax.mul(n, _along(lax.div(by_scale, count), x, axis)))
    root = lax.sqrt(lax.add(variance, lax.full_like(variance, epsilon)))
    return [lax.mul(_along(lax.div(scale, root), x, axis), inner), by_scale, by_offset]
