"""Results that need no check while the values that they are computed from are of usual size.

A product of matrices whose elements are small has no NaN, and neither has a weight from which a
multiple of it is subtracted. The operands of products are smaller than the weights, so their sizes
are looked at, and the result only where one of them is out of the usual range.
"""

from __future__ import annotations

from math import inf, log2, prod
from typing import Any

import numpy as np

from weft.base.record import Record
from weft.compiler.checks.flow import VIEWS, Flow, is_closed
from weft.core.interpret import literal_value
from weft.core.jaxpr import Literal

# The usual range: up to two to the power of this.
USUAL = 20
# What the bounds of float32 and float64 may come to; sums may be computed in any order and form.
_LIMITS = {4: 110.0, 8: 1000.0}
# Results of fewer elements are checked as they are.
MIN_ELEMENTS = 1 << 14


class Range(Record):
    """Elements up to two to the power of ``bound``, if those of ``leaves`` are in the usual range.

    With the bound infinity, they may be anything that was passed in, and no operation has made a
    NaN of it.
    """

    bound: float
    leaves: tuple[Any, ...] = ()


def excused(flow: Flow) -> dict[Any, tuple[Any, ...]]:
    """The values of a program that are checked only where others leave the usual range, each with
    these others."""
    found: dict[Any, tuple[Any, ...]] = {}
    needed: set[Any] = set()  # values whose sizes are looked at
    known: dict[Any, Range] = {}
    for eqn in flow.jaxpr.eqns:
        for v in eqn.outvars:
            own = None if len(eqn.outvars) > 1 else _range(eqn, known, flow)
            if v in flow.looked_at and _fits(v.aval):
                if own is not None and own.leaves and _pays(v, own.leaves, flow, needed):
                    found[v] = own.leaves
                    needed.update(own.leaves)
                else:
                    own = Range(USUAL, (v,))
            if own is not None:
                known[v] = own
    return found


def _fits(aval: Any) -> bool:
    dtype = getattr(aval, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind == "f" and dtype.itemsize in _LIMITS


def _pays(v: Any, leaves: tuple[Any, ...], flow: Flow, needed: set[Any]) -> bool:
    """Whether to look at the sizes of leaves costs less than to look at a value."""
    size = prod(v.aval.shape)
    more = sum(prod(x.aval.shape) for x in leaves if x not in flow.looked_at | needed)
    return size >= MIN_ELEMENTS and 2 * more <= size


def _of(x: Any, known: dict[Any, Range], flow: Flow) -> Range | None:
    """What is known of an operand."""
    if not _fits(x.aval):
        return None
    if type(x) is Literal:
        most = float(np.max(np.abs(literal_value(x)), initial=0.0))
        return Range(log2(most) if most > 0 else -inf) if np.isfinite(most) else None
    return known.get(x) if x in flow.producer else Range(inf)


def _range(eqn: Any, known: dict[Any, Range], flow: Flow) -> Range | None:
    """The range of the result of an equation; None if nothing is known of it."""
    (out,) = eqn.outvars
    name = eqn.primitive.name
    rule = _same if name in VIEWS else _RULES.get(eqn.primitive.overflows)
    if rule is None or is_closed(eqn) or not _fits(out.aval):
        return None
    parts: list[Range] = []
    for x in eqn.invars:
        part = _of(x, known, flow)
        if part is not None and rule is _products and part.bound == inf:
            part = _argument(x, flow)  # it must be finite, too
        if part is None:
            return None
        parts.append(part)
    bound = rule(eqn, [p.bound for p in parts])
    if bound is None or _LIMITS[out.aval.dtype.itemsize] < bound < inf:
        return None
    leaves = dict.fromkeys(x for p in parts for x in p.leaves)
    return Range(bound, tuple(leaves))


def _argument(x: Any, flow: Flow) -> Range | None:
    """The range of what was passed in, if its size is looked at."""
    source = flow.source(x)
    if type(source) is Literal or source in flow.producer:
        return None
    return Range(USUAL, (source,))


def _same(eqn: Any, bounds: list[float]) -> float:
    return bounds[0]


def _sum(eqn: Any, bounds: list[float]) -> float | None:
    return None if bounds[0] == bounds[1] == inf else max(bounds) + 1


def _product(eqn: Any, bounds: list[float]) -> float | None:
    if inf not in bounds:
        return sum(bounds)
    # a number of the program's that isn't zero makes no NaN
    written = [b for x, b in zip(eqn.invars, bounds, strict=True) if type(x) is Literal]
    return inf if written and -inf not in written else None


def _products(eqn: Any, bounds: list[float]) -> float:
    return sum(bounds) + log2(max(1, min(prod(x.aval.shape) for x in eqn.invars)))


def _total(eqn: Any, bounds: list[float]) -> float | None:
    return bounds[0] + log2(max(1, prod(eqn.invars[0].aval.shape))) if bounds[0] < inf else None


# By what an operation computes (`Primitive.overflows`).
_RULES: dict[str, Any] = {
    "sum": _sum,
    "difference": _sum,
    "product": _product,
    "negative": _same,
    "sums of products": _products,
    "total": _total,
}
