"""Common subexpressions: equations that compute the same thing computed once."""

from __future__ import annotations

from typing import Any

from weft.core.jaxpr import ClosedJaxpr, DropVar, Literal


def cse(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with every repeated equation replaced by its first occurrence."""
    known: dict[Any, Any] = {}
    names: dict[Any, Any] = {}
    eqns = []
    for eqn in closed.eqns:
        invars = eqn.invars
        if names:
            invars = [x if type(x) is Literal else names.get(x, x) for x in invars]
        key = None if eqn.effects else _key(eqn, invars)
        first = known.get(key) if key is not None else None
        if first is not None and not any(type(v) is DropVar for v in first.outvars):
            names.update(zip(eqn.outvars, first.outvars, strict=True))
            continue
        renamed = eqn if invars == eqn.invars else eqn.replace(invars=invars)
        if key is not None:
            known[key] = renamed
        eqns.append(renamed)
    outvars = [x if type(x) is Literal else names.get(x, x) for x in closed.jaxpr.outvars]
    return ClosedJaxpr(closed.jaxpr.replace(eqns=eqns, outvars=outvars), closed.consts)


def _key(eqn: Any, invars: list[Any]) -> Any:
    operands = tuple((_bits(x), x.aval) if type(x) is Literal else id(x) for x in invars)
    try:
        key = (eqn.primitive.name, operands, tuple(sorted(eqn.params.items(), key=_name)))
        hash(key)
    except TypeError:
        return None
    return key


def _name(item: tuple[str, Any]) -> str:
    return item[0]


def _bits(literal: Literal) -> Any:
    value = literal.val
    return (type(value), repr(value))
