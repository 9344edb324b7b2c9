"""Sorts as bitonic networks (Batcher 1968): every stage compares all elements with their partners,
as one kernel. Keys are integers in the order of what they stand for; equal ones keep their order,
as positions decide between them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core.trace import typeof
from weft.prims.families import COMPLEX, FLOAT, along, kind_of
from weft.prims.lowerings.tools import (
    I32,
    I64,
    bind,
    bits,
    convert,
    dtype_of,
    fill,
    like,
    repeat,
    spread,
    where,
)
from weft.prims.shape import expand_dims, iota
from weft.prims.sort import approx_top_k_p, gather_along

F32 = np.dtype(np.float32)
U8 = np.dtype(np.uint8)


def _keys(x: Any, total: bool = False) -> list[Any]:
    """Integers in the order of ``x``, most significant first.

    In the total order -0 is before 0, and a NaN is where its sign and bits put it; else zeros are
    equal and NaNs are last.
    """
    dtype = dtype_of(x)
    if kind_of(dtype) == COMPLEX:
        return [*_keys(bind("real", x)), *_keys(bind("imag", x))]
    if kind_of(dtype) & FLOAT:
        if dtype.itemsize == 1:
            x, dtype = convert(x, F32), F32
        if not total:
            x = where(bind("eq", x, like(x, 0)), like_all(x, 0), x)
            x = where(bind("ne", x, x), like_all(x, np.nan), x)
        word = np.dtype(f"i{dtype.itemsize}")
        found = bits(x, word)
        sign = bind("shift_right_arithmetic", found, like(found, 8 * dtype.itemsize - 1))
        return [bind("xor", found, bind("and", sign, like(found, np.iinfo(word).max)))]
    if dtype == np.bool_:
        return [convert(x, U8)]
    return [convert(x, I32)] if dtype.name in ("int2", "int4", "uint2", "uint4") else [x]


def like_all(x: Any, value: Any) -> Any:
    """An array like ``x`` of one number."""
    return fill(np.shape(x), dtype_of(x), value)


def _less(ours: list[Any], theirs: list[Any]) -> Any:
    """Whether one list of keys is before another."""
    *before, last = zip(ours, theirs, strict=True)
    found = bind("lt", *last)
    for a, b in reversed(before):
        found = bind("or", bind("lt", a, b), bind("and", bind("eq", a, b), found))
    return found


def order(keys: list[Any], axis: int) -> Any:
    """The positions along an axis in the order of keys, the first of them the most significant."""
    shape = np.shape(keys[0])
    n, rank = shape[axis], len(shape)
    stages = max(0, (n - 1).bit_length())
    size = 1 << stages
    count = I32 if size < 1 << 31 else I64
    config = tuple((0, size - n if i == axis else 0, 0) for i in range(rank))
    whole = (*shape[:axis], size, *shape[axis + 1 :])
    carry = []
    for key in keys:
        most = like(key, np.iinfo(dtype_of(key)).max)
        carry.append(bind("pad", key, most, padding_config=config) if size > n else key)
    carry.append(iota(count, whole, axis))  # what was added is behind what is as large

    def step(*values: Any) -> list[Any]:
        *ours, k, j = values
        here = iota(count, whole, axis)
        partner = bind("xor", here, j)
        column = expand_dims(partner, (rank,))
        theirs = [gather_along(v, column, axis) for v in ours]
        rising = bind("eq", bind("and", here, k), like(k, 0))
        first = bind("eq", bind("and", here, j), like(j, 0))
        wants_least = bind("eq", rising, first)
        stays = bind("eq", _less(ours, theirs), wants_least)
        chosen = [where(stays, a, b) for a, b in zip(ours, theirs, strict=True)]
        half = bind("shift_right_logical", j, like(j, 1))
        over = bind("eq", half, like(j, 0))
        after = where(over, bind("shift_left", k, like(k, 1)), k)
        return [*chosen, after, where(over, k, half)]

    start = [fill((), count, 2), fill((), count, 1)]
    found = repeat(step, [*carry, *start], stages * (stages + 1) // 2)[len(keys)]
    return along(found, axis, 0, n) if size > n else found


def _taken(x: Any, positions: Any, axis: int) -> Any:
    return gather_along(x, expand_dims(positions, (np.ndim(x),)), axis)


def sort(*xs: Any, dimension: int, is_stable: bool, num_keys: int) -> list[Any]:
    keys = [key for x in xs[:num_keys] for key in _keys(x)]
    if np.shape(xs[0])[dimension] < 2:
        return [bind("copy", x) for x in xs]
    positions = order(keys, dimension)
    return [_taken(x, positions, dimension) for x in xs]


def partition(*xs: Any, kth: int) -> list[Any]:
    """By a sort, which is a partition at every position, and by position where parts are equal."""
    axis = np.ndim(xs[0]) - 1
    (key,) = _keys(xs[0])
    middle = along(_taken(key, order([key], axis), axis), axis, kth, kth + 1)
    chosen = spread(middle, np.shape(key), range(axis + 1))
    parts = [convert(bind(op, key, chosen), U8) for op in ("ge", "gt")]
    positions = order([bind("add", *parts)], axis)
    return [_taken(x, positions, axis) for x in xs]


def _first(x: Any, key: Any, k: int, axis: int, largest: bool) -> list[Any]:
    key = bind("not", key) if largest else key
    if np.shape(x)[axis] < 2:
        positions = iota(I32, np.shape(x), axis)
    else:
        positions = order([key], axis)
    if k < np.shape(x)[axis]:
        positions = along(positions, axis, 0, k)
    return [_taken(x, positions, axis), convert(bind("copy", positions), I32)]


def top_k(x: Any, *, k: int, axis: int) -> list[Any]:
    (key,) = _keys(x, total=True)
    return _first(x, key, k, axis, True)


def approx_top_k(
    x: Any, *, k: int, reduction_dimension: int, is_max_k: bool, **params: Any
) -> list[Any]:
    axis = reduction_dimension % np.ndim(x)
    options = {**params, "k": k, "reduction_dimension": axis, "is_max_k": is_max_k}
    kept = approx_top_k_p.shape(typeof(x), **options)[0].shape[axis]
    (key,) = _keys(x)
    return _first(x, key, kept, axis, is_max_k)
