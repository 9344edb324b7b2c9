"""Sums and products whose order is part of the program, for the knob ``reproducible``.

Elements are combined by halves, each step for all of them at once: neither vectors, threads, the
number of rows nor the machine can change the order.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.prims.families import is_narrow
from weft.prims.lowerings.tools import bind, convert, dtype_of, fill
from weft.prims.shape import reshape

Axes = tuple[int, ...]


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
