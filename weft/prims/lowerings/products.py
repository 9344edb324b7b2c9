"""Products and convolutions as sums of products, which fusion makes plain loops of."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.prims.conv import dilated, window_counts
from weft.prims.dot import (
    dot_dtype,
    inverse,
    is_algorithm,
    reading_dtypes,
    remaining,
    working_dtype,
)
from weft.prims.families import COMPLEX, kind_of
from weft.prims.lowerings.tools import bind, convert, dtype_of, fill, like, spread
from weft.prims.lowerings.windows import along
from weft.prims.reduce import reduce_sum
from weft.prims.shape import reshape, transpose

_BOOL = np.dtype(np.bool_)


def _arranged(x: Any, batch: Any, free: Any, contract: Any) -> Any:
    order = (*batch, *free, *contract)
    return x if order == tuple(range(len(order))) else transpose(x, order)


def contracted(lhs: Any, rhs: Any, dimension_numbers: Any) -> Any:
    """Sums of products of two arrays of one dtype."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    lhs_free = remaining(np.ndim(lhs), lhs_contract, lhs_batch)
    rhs_free = remaining(np.ndim(rhs), rhs_contract, rhs_batch)
    lhs = _arranged(lhs, lhs_batch, lhs_free, lhs_contract)
    rhs = _arranged(rhs, rhs_batch, rhs_free, rhs_contract)
    batch, rows, columns = len(lhs_batch), len(lhs_free), len(rhs_free)
    outer = (*np.shape(lhs)[: batch + rows], *np.shape(rhs)[batch : batch + columns])
    depth = np.shape(lhs)[batch + rows :]
    dtype = dtype_of(lhs)
    if 0 in depth or 0 in outer:
        return fill(outer, dtype, 0)
    whole = (*outer, *depth)
    last = tuple(range(len(outer), len(whole)))
    left = spread(lhs, whole, (*range(batch + rows), *last))
    right = spread(rhs, whole, (*range(batch), *range(batch + rows, batch + rows + columns), *last))
    if dtype == _BOOL:
        product = bind("and", left, right)
        return bind("reduce_or", product, axes=last) if last else product
    product = bind("mul", left, right)
    return reduce_sum(product, last) if last else product


def dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any,
) -> Any:
    exact = not is_algorithm(precision)
    out = dot_dtype("dot_general", dtype_of(lhs), dtype_of(rhs), preferred_element_type, exact)
    left, right, total = reading_dtypes(dtype_of(lhs), dtype_of(rhs), out, precision)
    lhs, rhs = convert(lhs, left), convert(rhs, right)
    work = working_dtype(total, (left, right))
    found = contracted(convert(lhs, work), convert(rhs, work), dimension_numbers)
    if kind_of(work) == COMPLEX and kind_of(total) != COMPLEX:
        found = bind("real", found)
    return convert(convert(found, total), out)


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    *,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any,
) -> Any:
    out_dtype = np.dtype(preferred_element_type or dtype_of(lhs))
    work = working_dtype(out_dtype, (dtype_of(lhs),))
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    x = transpose(convert(lhs, work), tuple(lhs_spec))
    w = transpose(convert(rhs, work), tuple(rhs_spec))
    config = [(0, 0, 0), (0, 0, 0)]
    config += [(*pair, d - 1) for pair, d in zip(padding, lhs_dilation, strict=True)]
    x = bind("pad", x, like(x, 0), padding_config=tuple(config))
    space, window = np.shape(x)[2:], np.shape(w)[2:]
    none = ((0, 0),) * len(space)
    counts = window_counts(space, dilated(window, rhs_dilation), window_strides, none)
    groups = feature_group_count * batch_group_count
    batch = np.shape(x)[0] // batch_group_count
    features, outputs = np.shape(x)[1] // feature_group_count, np.shape(w)[0] // groups
    out_shape = (batch, groups * outputs, *counts)
    if not prod(out_shape):
        return fill(tuple(out_shape[i] for i in inverse(out_spec)), out_dtype, 0)
    if batch_group_count > 1:
        x = reshape(x, (groups, batch, features, *space))
    else:
        x = transpose(
            reshape(x, (batch, groups, features, *space)), (1, 0, 2, *range(3, 3 + len(space)))
        )
    w = reshape(w, (groups, outputs, np.shape(w)[1], *window))
    for i in reversed(range(len(space))):
        x = along(x, 3 + i, counts[i], window[i], window_strides[i], rhs_dilation[i])
    # group, batch, features, then positions and window of each axis in turns
    inside = [4 + 2 * i for i in range(len(space))]
    numbers = (
        ((2, *inside), (2, *range(3, 3 + len(space)))),
        ((0,), (0,)),
    )
    found = contracted(x, w, numbers)  # group, batch, positions, outputs
    last = np.ndim(found) - 1
    found = transpose(found, (1, 0, last, *range(2, last)))
    found = transpose(reshape(found, out_shape), inverse(out_spec))
    return convert(found, out_dtype)
