"""Eliminations as loops over rows, for compiled programs: what LAPACK has no routine for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.core.batching import moveaxis
from weft.core.registry import lookup
from weft.core.staging import stage
from weft.core.trace import typeof
from weft.prims.arithmetic import abs_, add, complex_, div, max_p, mul, neg, sub
from weft.prims.convert import convert
from weft.prims.families import along, broadcast_to, const, scalar
from weft.prims.linalg.matrix import eye, insert_axis, sum_over
from weft.prims.selection import eq, gt, lt, select_n
from weft.prims.shape import concatenate_p, full, reshape


def loop_over_rows(
    step: Callable[..., list[Any]], carry: list[Any], xs: list[Any], reverse: bool = False
) -> list[Any]:
    """``step(*carry, *row of xs)`` gives the next carry and what is stacked, row by row."""
    avals = [typeof(c) for c in carry] + [
        typeof(x).update(shape=np.shape(x)[1:], weak_type=False) for x in xs
    ]
    return lookup("scan").bind(
        *carry,
        *xs,
        jaxpr=stage(step, avals),
        length=np.shape(xs[0])[0],
        reverse=reverse,
        num_consts=0,
        num_carry=len(carry),
        unroll=1,
    )


def _row(x: Any, i: int) -> Any:
    return reshape(along(x, 0, i, i + 1), np.shape(x)[1:])


def _filled(x: Any, value: Any) -> Any:
    return full(np.shape(x), const(x, value))


def _unless(condition: Any, x: Any, other: Any) -> Any:
    """``x``, or the number ``other`` where a condition holds."""
    return select_n(condition, x, _filled(x, other))


def tridiagonal_elimination(dl: Any, d: Any, du: Any, b: Any, perturb: bool = True) -> Any:
    """Tridiagonal systems; with ``perturb``, pivots below eps max|U| are moved up to that size.

    Row i of U holds its diagonal and two entries right of it, as in LAPACK's gttrf and lagts.
    """
    n = np.shape(d)[-1]
    below, middle, above = (moveaxis(x, np.ndim(x) - 1, 0) for x in (dl, d, du))
    right = moveaxis(b, np.ndim(b) - 2, 0)
    nothing = _filled(_row(above, 0), 0)
    above = concatenate_p.bind(along(above, 0, 0, n - 1), insert_axis(nothing, 0), dimension=0)
    first = [_row(middle, 0), _row(above, 0), _row(right, 0)]
    if n > 1:
        later = [along(x, 0, 1, n) for x in (below, middle, above, right)]
        *last, u0, u1, u2, x = loop_over_rows(_eliminate, first, later)
        stacked = [(u0, last[0]), (u1, last[1]), (u2, nothing), (x, last[2])]
        u0, u1, u2, x = (
            concatenate_p.bind(upper, insert_axis(end, 0), dimension=0) for upper, end in stacked
        )
    else:
        u0, u1, u2, x = (insert_axis(v, 0) for v in (first[0], first[1], nothing, first[2]))
    if perturb:
        u0 = _away_from_zero(u0, [u0, u1, u2])
    after = _filled(_row(x, 0), 0)
    *_, out = loop_over_rows(_substitute, [after, after], [u0, u1, u2, x], reverse=True)
    return moveaxis(out, 0, np.ndim(b) - 2)


def _eliminate(u0: Any, u1: Any, x: Any, lower: Any, d: Any, du: Any, b: Any) -> list[Any]:
    """One step: the row that is left, and the one above it as it stays."""
    swap = gt(abs_(lower), abs_(u0))
    pivot, other = select_n(swap, u0, lower), select_n(swap, lower, u0)
    first, left = select_n(swap, u1, d), select_n(swap, d, u1)
    factor = div(other, _unless(eq(pivot, _filled(pivot, 0)), pivot, 1))
    second = select_n(swap, _filled(du, 0), du)
    wide = broadcast_to(insert_axis(swap, -1), np.shape(x))
    top, bottom = select_n(wide, x, b), select_n(wide, b, x)
    bottom = sub(bottom, mul(insert_axis(factor, -1), top))
    rest = select_n(swap, du, neg(mul(factor, du)))
    return [sub(left, mul(factor, first)), rest, bottom, pivot, first, second, top]


def _away_from_zero(u0: Any, all_: list[Any]) -> Any:
    """Pivots that are too small, moved up to the least size."""
    sizes = [lookup("reduce_max").bind(abs_(u), axes=(0,), out_sharding=None) for u in all_]
    largest = max_p.bind(max_p.bind(*sizes[:2]), sizes[2])
    info = np.finfo(typeof(largest).dtype)
    eps, tiny = (full(np.shape(largest), scalar(info.dtype, x)) for x in (info.eps, info.tiny))
    least = broadcast_to(insert_axis(max_p.bind(mul(eps, largest), tiny), 0), np.shape(u0))
    size = abs_(u0)
    none = eq(size, _filled(size, 0))
    dtype = typeof(u0).dtype
    direction = _unless(none, div(u0, convert(_unless(none, size, 1), dtype)), 1)
    return select_n(lt(size, least), u0, mul(direction, convert(least, dtype)))


def _substitute(x1: Any, x2: Any, u0: Any, u1: Any, u2: Any, x: Any) -> list[Any]:
    """One step back: the row of the solution before those two."""
    x = sub(x, mul(insert_axis(u1, -1), x1))
    x = sub(x, mul(insert_axis(u2, -1), x2))
    x = div(x, insert_axis(u0, -1))
    return [x, x1, lookup("copy").bind(x)]


def rotated(r: Any, w: Any) -> Any:
    """The factor R with rows turned against w until that is zero."""
    n = np.shape(w)[-1]
    units = broadcast_to(_lifted(eye(typeof(w).dtype, n), np.ndim(w)), (n, *np.shape(w)))
    upper = moveaxis(r, np.ndim(r) - 2, 0)
    _, out = loop_over_rows(_turn, [w], [upper, units])
    return moveaxis(out, 0, np.ndim(r) - 2)


def _lifted(x: Any, ndim: int) -> Any:
    """Rows of a matrix with axes of size 1 between them and their elements."""
    n = np.shape(x)[0]
    return reshape(x, (n, *[1] * (ndim - 1), n))


def _turn(w: Any, row: Any, unit: Any) -> list[Any]:
    x, y = (sum_over(mul(v, unit), -1) for v in (row, w))
    turned = eq(y, _filled(y, 0))
    length = _unless(turned, abs_(complex_(x, y)), 1)
    cos = insert_axis(_unless(turned, div(x, length), 1), -1)
    sin = insert_axis(_unless(turned, div(y, length), 0), -1)
    left = sub(mul(cos, w), mul(sin, row))
    # what the turn makes zero is zero, not the difference of two roundings
    left = _unless(eq(unit, _filled(unit, 1)), left, 0)
    return [left, add(mul(cos, row), mul(sin, w))]
