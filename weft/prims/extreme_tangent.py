"""Tangents of running extremes, and their cotangents.

The tangent of a running extremum is that of the elements so far that equal it. How equal ones share
it follows from a tree: elements are in blocks of two, four, eight and so on, and each block has the
extremum of its halves. A result is the extremum of the blocks before it, the longest first, one
after the other. The extremum of two equal values has half of the tangent of each. So it is in
`parallel_scan`, whose derivative this is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, all_at_front
from weft.core.primitive import Primitive
from weft.core.registry import lookup
from weft.prims.arithmetic import add, maximum, minimum, mul
from weft.prims.cumulative import interleave
from weft.prims.families import FLOAT, along, broadcast_to, const, kind_of
from weft.prims.reduce import computable
from weft.prims.selection import eq, select_n
from weft.prims.shape import concatenate_p, pad_p, rev_p


class ExtremeTangent(Primitive):
    """Tangents of a running extremum: of tangents, elements and results; or the transpose of it."""

    name = "extreme_tangent"
    arithmetic = True
    neutral = "cumulative.extreme_tangent"

    def flops(self, avals: Any, outs: Any, params: dict[str, Any]) -> float:
        return 4 * outs[0].size

    def undivided(self, avals: Any, params: dict[str, Any]) -> Any:
        return [(params["axis"],)] * 3

    def shape(
        self, t: Any, x: Any, out: Any, *, axis: int, reverse: bool, least: bool, transposed: bool
    ) -> ShapedArray:
        if not t.shape == x.shape == out.shape or not t.dtype == x.dtype == out.dtype:
            raise TypeError(
                "extreme_tangent needs operands of the same shape and dtype, got"
                f" {t.str_short()}, {x.str_short()}, {out.str_short()}"
            )
        if kind_of(x.dtype) != FLOAT:
            raise TypeError(f"extreme_tangent does not accept dtype {x.dtype}; it takes floats")
        if not 0 <= axis < len(x.shape):
            raise ValueError(
                f"extreme_tangent got axis {axis} for operands of shape {x.shape}: it must be at"
                f" least 0 and below {len(x.shape)}"
            )
        return t

    @staticmethod
    def ref(
        t: np.ndarray,
        x: np.ndarray,
        out: np.ndarray,
        *,
        axis: int,
        reverse: bool,
        least: bool,
        transposed: bool,
    ) -> np.ndarray:
        way = -1 if reverse else 1
        t, x, out = (np.moveaxis(computable(a), axis, 0)[::way] for a in (t, x, out))
        made = _on_levels(t, x, out, least, transposed)
        return np.moveaxis(made[::way], 0, axis)

    def d0(self, g: Any, made: Any, t: Any, x: Any, out: Any, **params: Any) -> Any:
        return self.bind(g, x, out, **params)

    def transpose(self, ct: Any, t: Any, x: Any, out: Any, **params: Any) -> list[Any]:
        params["transposed"] = not params["transposed"]
        return [self.bind(ct, x, out, **params), None, None]

    def batch(
        self, axis_data: AxisData, args: Any, dims: Any, *, axis: int, **params: Any
    ) -> tuple[Any, int]:
        return self.bind(*all_at_front(axis_data, args, dims), axis=axis + 1, **params), 0

    def decompose(
        self,
        t: Any,
        x: Any,
        out: Any,
        *,
        axis: int,
        reverse: bool,
        least: bool,
        transposed: bool,
    ) -> Any:
        if np.shape(x)[axis] < 2:
            return lookup("copy").bind(t)
        t, x, out = (rev_p.bind(a, dimensions=(axis,)) if reverse else a for a in (t, x, out))
        rule, extreme = _cotangents if transposed else _tangents, minimum if least else maximum
        made = rule(t, x, out, axis, extreme)
        return rev_p.bind(made, dimensions=(axis,)) if reverse else made


# --- as other primitives --------------------------------------------------------------------------


def _share(x: Any, mine: Any, other: Any) -> Any:
    """What the tangent of an extremum has of that of one operand: all, half of equal ones, none."""
    one, half, zero = (broadcast_to(const(x, n), np.shape(x)) for n in (1, 0.5, 0))
    return select_n(eq(mine, x), zero, select_n(eq(other, x), one, half))


def _shares(extreme: Any, a: Any, b: Any) -> tuple[Any, Any, Any]:
    """The extrema of two arrays, and what their tangents have of those of either."""
    x = extreme(a, b)
    return x, _share(x, a, b), _share(x, b, a)


def _tangents(t: Any, x: Any, out: Any, axis: int, extreme: Any) -> Any:
    """The tangents of results; pairs of neighbours are elements of a tree of half the size."""
    n = np.shape(x)[axis]
    if n < 2:
        return t
    odd = lambda a: along(a, axis, 1, n, 2)
    even = lambda a: along(a, axis, 0, n - 1, 2)
    pairs, first, second = _shares(extreme, even(x), odd(x))
    made = add(mul(first, even(t)), mul(second, odd(t)))
    made = _tangents(made, pairs, odd(out), axis, extreme)
    head = along(t, axis, 0, 1)
    if n == 2:
        return interleave([head], [made], axis)[0]
    before, own = _last(x, out, axis, extreme)
    rest = mul(before, along(made, axis, 0, (n - 1) // 2))
    rest = add(rest, mul(own, along(t, axis, 2, n, 2)))
    rest = concatenate_p.bind(head, rest, dimension=axis)
    return interleave([rest], [made], axis)[0]


def _cotangents(ct: Any, x: Any, out: Any, axis: int, extreme: Any) -> Any:
    """The cotangents of elements: the transpose of `_tangents`."""
    n = np.shape(x)[axis]
    if n < 2:
        return ct
    odd = lambda a: along(a, axis, 1, n, 2)
    pairs, first, second = _shares(extreme, along(x, axis, 0, n - 1, 2), odd(x))
    of_even, of_odd = along(ct, axis, 0, 1), odd(ct)
    if n > 2:
        before, own = _last(x, out, axis, extreme)
        later = along(ct, axis, 2, n, 2)
        of_even = concatenate_p.bind(of_even, mul(own, later), dimension=axis)
        config = [(0, 0, 0)] * np.ndim(x)
        config[axis] = (0, n // 2 - (n - 1) // 2, 0)
        more = pad_p.bind(mul(before, later), const(ct, 0), padding_config=tuple(config))
        of_odd = add(of_odd, more)
    made = _cotangents(of_odd, pairs, odd(out), axis, extreme)
    shared = mul(first, made)
    if n % 2:
        config = [(0, 0, 0)] * np.ndim(x)
        config[axis] = (0, 1, 0)
        shared = pad_p.bind(shared, const(ct, 0), padding_config=tuple(config))
    return interleave([add(of_even, shared)], [mul(second, made)], axis)[0]


def _last(x: Any, out: Any, axis: int, extreme: Any) -> tuple[Any, Any]:
    """What the tangents of results at 2, 4 and so on have of the result before, and the element."""
    n = np.shape(x)[axis]
    before = along(out, axis, 1, n - 1, 2)
    return _shares(extreme, before, along(x, axis, 2, n, 2))[1:]


# --- on arrays of NumPy ---------------------------------------------------------------------------


def _on_levels(t: Any, x: Any, out: Any, least: bool, transposed: bool) -> Any:
    """Tangents or cotangents down the first axis, by all levels of a tree of 2^k elements."""
    n, extreme = len(x), np.minimum if least else np.maximum
    if n < 2:
        return t
    depth = (n - 1).bit_length()
    more = [(0, (1 << depth) - n)] + [(0, 0)] * (x.ndim - 1)
    levels = [np.pad(x, more, constant_values=np.inf if least else -np.inf)]
    for _ in range(depth):
        levels.append(extreme(levels[-1][::2], levels[-1][1::2]))

    def shares(a: Any, b: Any) -> list[Any]:
        found = extreme(a, b)
        pairs = ((a == found, b == found), (b == found, a == found))
        return [np.where(p, np.where(q, 0.5, 1), 0).astype(x.dtype) for p, q in pairs]

    def last(k: int, own: Any) -> list[Any]:
        """The shares of results before even blocks of 2^k elements, and of these; of the first."""
        ends = np.minimum(np.arange(len(own)) * (2 << k), n) - 1
        found = shares(out[ends], own)
        found[0][0], found[1][0] = 0, 1
        return found

    def turns(even: Any, odd: Any) -> Any:
        return np.stack([even, odd], 1).reshape(-1, *x.shape[1:])

    pairs = [shares(v[::2], v[1::2]) for v in levels[:-1]]
    lasts = [last(k, v[::2]) for k, v in enumerate(levels[:-1])]
    if transposed:
        kept, made = [], np.pad(t, more)
        for before, own in lasts:
            kept.append(own * made[::2])
            later = before * made[::2]
            later[:1] = 0
            made = made[1::2] + np.roll(later, -1, 0)
        for first, second in reversed(pairs):
            made = turns(first * made + kept.pop(), second * made)
        return made[:n]
    totals = [np.pad(t, more)]
    for first, second in pairs:
        totals.append(first * totals[-1][::2] + second * totals[-1][1::2])
    made = totals.pop()
    for before, own in reversed(lasts):
        earlier = np.concatenate([made[:1], made[:-1]])
        made = turns(before * earlier + own * totals.pop()[::2], made)
    return made[:n]


extreme_tangent_p = ExtremeTangent()
