"""Which axes of a program's results are examples: elements there depend on no others along them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.caches import per_program
from weft.core.jaxpr import ClosedJaxpr, Literal

# For each operand that a value is computed from, the operand's axis that goes along each of the
# value's; None where elements meet.
Along = dict[int, tuple[int | None, ...]]


@per_program
def along(closed: ClosedJaxpr) -> list[Along]:
    """For each result of a program, which axes of its operands go along its own."""
    jaxpr = closed.jaxpr
    known: dict[Any, Along] = {
        v: {i: tuple(range(len(v.aval.shape)))} for i, v in enumerate(jaxpr.invars)
    }
    for eqn in jaxpr.eqns:
        given = [{} if type(x) is Literal else known.get(x, {}) for x in eqn.invars]
        for v, found in zip(eqn.outvars, _results(eqn, given), strict=True):
            known[v] = found
    return [{} if type(x) is Literal else known.get(x, {}) for x in jaxpr.outvars]


def of_loop(primitive: Any, params: dict[str, Any]) -> list[Along] | None:
    """The same of a loop whose operands are constants, a carry, and slices of arrays, or of a
    choice between programs; None of others."""
    if "branches" in params:
        return _of_branches(params["branches"])
    if not {"jaxpr", "num_consts", "num_carry"} <= params.keys():
        return None
    return _of_scan(params["jaxpr"], params["num_consts"], params["num_carry"])


def _of_branches(branches: Sequence[ClosedJaxpr]) -> list[Along]:
    """Of branches; their operands come after the number of the branch."""
    found = [
        _joined(list(parts)) for parts in zip(*[along(branch) for branch in branches], strict=True)
    ]
    return [{i + 1: axes for i, axes in result.items()} for result in found]


@per_program
def _of_scan(body: ClosedJaxpr, num_consts: int, num_carry: int) -> list[Along]:
    """Of a scan: its carry goes round until nothing new is known of it."""
    step = along(body)
    first = num_consts + num_carry
    given: list[Along] = [
        {i: tuple(range(len(aval.shape)))} for i, aval in enumerate(body.in_avals)
    ]
    while True:
        after = [_joined([_after(given[i], axes) for i, axes in result.items()]) for result in step]
        carry = [
            _joined([old, new])
            for old, new in zip(given[num_consts:first], after[:num_carry], strict=True)
        ]
        if carry == given[num_consts:first]:
            break
        given[num_consts:first] = carry

    def outside(i: int, axes: Sequence[int | None], stacked: bool) -> tuple[int | None, ...]:
        """Axes of the body's arrays as those of the scan's, which have one more where sliced."""
        more = i >= first
        own = tuple([None if a is None else a + more for a in axes])
        return (None, *own) if stacked else own

    return [
        {i: outside(i, axes, k >= num_carry) for i, axes in result.items()}
        for k, result in enumerate([*carry, *after[num_carry:]])
    ]


def _results(eqn: Any, given: Sequence[Along]) -> list[Along]:
    if not any(given):
        return [{} for _ in eqn.outvars]
    loop = of_loop(eqn.primitive, eqn.params) if eqn.primitive.masks == "loop" else None
    if loop is not None:
        return [_joined([_after(given[i], axes) for i, axes in result.items()]) for result in loop]
    callee = eqn.primitive.callee(eqn.params)
    if type(callee) is ClosedJaxpr and len(callee.in_avals) == len(given):
        return [
            _joined([_after(given[i], axes) for i, axes in result.items()])
            for result in along(callee)
        ]
    factors = None
    avals, outs = [x.aval for x in eqn.invars], [v.aval for v in eqn.outvars]
    if all(type(n) is int for aval in (*avals, *outs) for n in getattr(aval, "shape", ())):
        factors = eqn.primitive.factors(avals, outs, eqn.params)
    found = []
    for k, aval in enumerate(outs):
        rank = len(aval.shape)
        parts = []
        for i, mine in enumerate(given):
            axes: tuple[int | None, ...] = (None,) * rank
            if factors is not None:
                dims = list(factors.ins[i])
                axes = tuple(
                    [dims.index(f) if len(f) == 1 and f in dims else None for f in factors.outs[k]]
                )
            parts.append(_after(mine, axes))
        found.append(_joined(parts))
    return found


def _after(mine: Along, axes: Sequence[int | None]) -> Along:
    """Axes of operands along those of a value, along those of another that has the value's."""
    return {
        source: tuple([None if axis is None else own[axis] for axis in axes])
        for source, own in mine.items()
    }


def _joined(parts: Sequence[Along]) -> Along:
    """What is computed of several values: an axis goes along it if it does in all of them."""
    found: Along = {}
    for part in parts:
        for source, axes in part.items():
            other = found.get(source, axes)
            found[source] = tuple([a if a == b else None for a, b in zip(axes, other, strict=True)])
    return found
