"""Sums and products whose order is part of the program: for the knob ``reproducible``, and for
batched loops whose elements run one after the other.

Elements are combined by halves, each step for all of them at once: neither vectors, threads, the
number of rows nor the machine can change the order.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.prims.dot import is_algorithm
from weft.prims.families import is_narrow
from weft.prims.lowerings.tools import bind, convert, dtype_of, fill, spread
from weft.prims.shape import reshape

Axes = tuple[int, ...]
# Products of numbers in a product that is written as a sum; and columns of the result from which on
# its sums go through memory row by row.
MAX_TERMS, MIN_COLUMNS = 1 << 12, 4


def sums(x: Any, *, axes: Axes, **params: Any) -> Any:
    """The sum along axes."""
    return _combined(x, axes, "add", {}, 0)


def products(x: Any, *, axes: Axes, **params: Any) -> Any:
    """The product along axes."""
    return _combined(x, axes, "mul", {"out_dtype": None}, 1)


def _combined(x: Any, axes: Axes, op: str, params: dict[str, Any], empty: int) -> Any:
    dtype, shape = dtype_of(x), np.shape(x)
    kept = tuple([n for i, n in enumerate(shape) if i not in axes])
    if 0 in shape:
        return fill(kept, dtype, empty)
    x = convert(x, np.dtype(np.float32) if is_narrow(dtype) else dtype)
    groups = _joined(axes)
    for axis in sorted(groups, reverse=True):
        count = prod(shape[axis : axis + groups[axis]])
        shape = (*shape[:axis], count, *shape[axis + groups[axis] :])
        x = _halved(reshape(x, shape), axis, count, op, params)
        shape = (*shape[:axis], *shape[axis + 1 :])
        x = reshape(x, shape)
    # an equation of its own, also where there was nothing to combine
    return bind("copy", convert(x, dtype))


def _joined(axes: Axes) -> dict[int, int]:
    """Neighbouring axes as one: the first of them, and how many there are."""
    found: dict[int, int] = {}
    for axis in sorted(axes):
        first = next((a for a, n in found.items() if a + n == axis), None)
        if first is None:
            found[axis] = 1
        else:
            found[first] += 1
    return found


def _halved(x: Any, axis: int, count: int, op: str, params: dict[str, Any]) -> Any:
    """The elements along an axis combined by halves."""
    while count > 1:
        half = count // 2
        low, high = _part(x, axis, 0, half), _part(x, axis, half, 2 * half)
        y = bind(op, low, high, **params)
        if count % 2:
            y = bind("concatenate", y, _part(x, axis, 2 * half, count), dimension=axis)
        x, count = y, half + count % 2
    return x


def _part(x: Any, axis: int, start: int, limit: int) -> Any:
    shape = np.shape(x)
    starts, limits = [0] * len(shape), list(shape)
    starts[axis], limits[axis] = start, limit
    return bind("slice", x, start_indices=tuple(starts), limit_indices=tuple(limits), strides=None)


def complex_dot(x: Any, y: Any, **params: Any) -> Any:
    """A product of complex numbers as four of their parts."""
    kind = np.dtype(np.complex128)
    wide = any(dtype_of(v) == kind for v in (x, y))
    part = np.dtype(np.float64 if wide else np.float32)
    params = {**params, "preferred_element_type": part}

    def parts(v: Any) -> tuple[Any, Any]:
        if dtype_of(v).kind != "c":
            return convert(v, part), None
        return convert(bind("real", v), part), convert(bind("imag", v), part)

    (a, b), (c, d) = parts(x), parts(y)
    dot = lambda p, q: bind("dot_general", p, q, **params)
    real = dot(a, c) if b is None or d is None else bind("sub", dot(a, c), dot(b, d))
    if b is None or d is None:
        imag = dot(a, d) if b is None else dot(b, c)
    else:
        imag = bind("add", dot(a, d), dot(b, c))
    return bind("complex", real, imag)


def small_dot(x: Any, y: Any, *, dimension_numbers: Any, **params: Any) -> Any:
    """A product of matrices of few numbers, as a sum of their products."""
    (x_sum, y_sum), (x_batch, y_batch) = dimension_numbers
    wanted = params["preferred_element_type"]
    dtype = np.result_type(dtype_of(x), dtype_of(y)) if wanted is None else np.dtype(wanted)
    part = np.dtype(np.float32) if is_narrow(dtype) else dtype
    x, outer, rows, depth = _as_matrices(convert(x, part), x_batch, x_sum)
    y, _, columns, _ = _as_matrices(convert(y, part), y_batch, y_sum)
    (b, m, n, k) = (prod(sizes) for sizes in (outer, rows, columns, depth))
    # the products lie as those of neighbours do in memory, and so do the sums
    axis = 1 if n >= MIN_COLUMNS else 3
    shape = (b, k, m, n) if axis == 1 else (b, m, n, k)
    if axis == 1:
        y = bind("transpose", y, permutation=(0, 2, 1))
        x = bind("transpose", x, permutation=(0, 2, 1))
        terms = bind("mul", spread(x, shape, (0, 1, 2)), spread(y, shape, (0, 1, 3)))
    else:
        terms = bind("mul", spread(x, shape, (0, 1, 3)), spread(y, shape, (0, 2, 3)))
    found = _combined(terms, (axis,), "add", {}, 0)
    return bind("copy", convert(reshape(found, (*outer, *rows, *columns)), dtype))


def _is_small(avals: Any, params: Any) -> bool:
    x, y = avals
    if any(a.dtype.name not in ("float16", "bfloat16", "float32", "float64") for a in avals):
        return False
    if x.dtype != y.dtype or is_algorithm(params["precision"]):
        return False
    (x_sum, y_sum), (_, y_batch) = params["dimension_numbers"]
    free = prod(n for i, n in enumerate(y.shape) if i not in {*y_sum, *y_batch})
    depth = prod(x.shape[i] for i in x_sum)
    return 0 < prod(x.shape) * free <= MAX_TERMS and 0 < depth


FITS = {"small_dot": _is_small}


def _as_matrices(x: Any, batch: Axes, summed: Axes) -> tuple[Any, Any, Any, Any]:
    """An operand as a stack of matrices, what is summed last; and the sizes of these axes."""
    shape = np.shape(x)
    free = tuple([i for i in range(len(shape)) if i not in {*batch, *summed}])
    sizes = [tuple([shape[i] for i in axes]) for axes in (batch, free, summed)]
    x = bind("transpose", x, permutation=(*batch, *free, *summed))
    return reshape(x, tuple([prod(s) for s in sizes])), *sizes
