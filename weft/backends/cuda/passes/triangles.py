"""Masks of triangles that change nothing left out: a Cholesky factor has zeros above already."""

from __future__ import annotations

from typing import Any

from weft.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal

_TRIANGULAR = "cholesky"


def triangles(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program in which what is lower triangular isn't masked to be so."""
    jaxpr = closed.jaxpr
    if all(eqn.primitive.name != _TRIANGULAR for eqn in jaxpr.eqns):
        return closed
    made: dict[Any, JaxprEqn] = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}
    same: dict[Any, Any] = {}
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        if any(type(v) is not Literal and v in same for v in eqn.invars):
            eqn = eqn.replace(invars=[_known(same, v) for v in eqn.invars])
        if _is_mask(eqn, made):
            same[eqn.outvars[0]] = eqn.invars[2]
        else:
            eqns.append(eqn)
    if not same:
        return closed
    outs = [_known(same, v) for v in jaxpr.outvars]
    return ClosedJaxpr(jaxpr.replace(eqns=eqns, outvars=outs), closed.consts)


def _known(same: dict[Any, Any], v: Any) -> Any:
    return v if type(v) is Literal else same.get(v, v)


def _is_mask(eqn: JaxprEqn, made: dict[Any, JaxprEqn]) -> bool:
    """Whether a lower triangle keeps its elements on and below the diagonal, and is zero above."""
    if eqn.primitive.name != "select_n" or len(eqn.invars) != 3:
        return False
    below, zeros, x = (None if type(v) is Literal else made.get(v) for v in eqn.invars)
    if below is None or zeros is None or x is None or x.primitive.name != _TRIANGULAR:
        return False
    rank = len(eqn.outvars[0].aval.shape)
    if below.primitive.repeats:
        if tuple(below.params["broadcast_dimensions"]) != (rank - 2, rank - 1):
            return False
        below = None if type(below.invars[0]) is Literal else made.get(below.invars[0])
    return below is not None and _is_zero(zeros) and _is_lower(below, made)


def _is_zero(eqn: JaxprEqn) -> bool:
    x = eqn.invars[0] if eqn.primitive.repeats else None
    return type(x) is Literal and not x.val


def _is_lower(eqn: JaxprEqn, made: dict[Any, JaxprEqn]) -> bool:
    """Whether it says that rows are no less than columns."""
    if eqn.primitive.name != "ge":
        return False
    rows, columns = (None if type(v) is Literal else made.get(v) for v in eqn.invars)
    if rows is not None and rows.primitive.name == "add":
        first, more = rows.invars
        if type(more) is not Literal or more.val < 0 or type(first) is Literal:
            return False
        rows = made.get(first)
    return _counts(rows, 0) and _counts(columns, 1)


def _counts(eqn: JaxprEqn | None, axis: int) -> bool:
    if eqn is None or eqn.primitive.name != "iota":
        return False
    return len(eqn.outvars[0].aval.shape) == 2 and eqn.params["dimension"] == axis
