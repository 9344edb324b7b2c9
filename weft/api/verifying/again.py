"""A function traced a second time: where its program is another, it depends on what has changed."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.base import source
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, Literal

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.dtype)


def difference(one: ClosedJaxpr, two: ClosedJaxpr) -> str:
    """Where two programs of one function differ, in words; nothing if they don't."""
    if not _same_constants(one.consts, two.consts):
        return "an array that it closes over, or makes by NumPy, has other values"
    return _of_programs(one.jaxpr, two.jaxpr)


def _of_programs(one: Jaxpr, two: Jaxpr) -> str:
    numbers: dict[Any, int] = {}  # of variables, in the order in which they come up
    others: dict[Any, int] = {}
    for a, b in zip(_variables(one), _variables(two), strict=False):
        numbers[a], others[b] = len(numbers), len(others)
    for eqn, other in zip(one.eqns, two.eqns, strict=False):
        found = _of_operations(eqn, other, numbers, others)
        if found:
            return f"{found} at {source.summarize(other.source_info)}"
        for a, b in zip(eqn.outvars, other.outvars, strict=True):
            numbers[a], others[b] = len(numbers), len(others)
    if len(one.eqns) != len(two.eqns):
        longer = max(one, two, key=lambda jaxpr: len(jaxpr.eqns))
        eqn = longer.eqns[min(len(one.eqns), len(two.eqns))]
        return f"{eqn.primitive.name} at {source.summarize(eqn.source_info)} is in one of them only"
    same = all(_same(a, b, numbers, others) for a, b in zip(one.outvars, two.outvars, strict=False))
    return "" if same and len(one.outvars) == len(two.outvars) else "it returns something else"


def _variables(jaxpr: Jaxpr) -> list[Any]:
    return [*jaxpr.constvars, *jaxpr.invars]


def _of_operations(eqn: Any, other: Any, numbers: Any, others: Any) -> str:
    name = eqn.primitive.name
    if name != other.primitive.name:
        return f"{name} → {other.primitive.name}"
    if len(eqn.invars) != len(other.invars) or len(eqn.outvars) != len(other.outvars):
        return f"{name} has other operands"
    for a, b in zip(eqn.outvars, other.outvars, strict=True):
        if a.aval != b.aval:
            return f"{name} gives {a.aval.str_short()} → {b.aval.str_short()}"
    if eqn.effects:  # it may be numbered, as a check or a callback is
        return ""
    for a, b in zip(eqn.invars, other.invars, strict=True):
        if not _same(a, b, numbers, others):
            if type(a) is type(b) is Literal:
                return f"{name} has the number {a.val} → {b.val}"
            return f"{name} has other operands"
    for key, value in eqn.params.items():
        found = _of_values(key, value, other.params.get(key))
        if found:
            return found if " at " in found else f"{name} has {found}"
    return ""


def _same(a: Any, b: Any, numbers: Any, others: Any) -> bool:
    if type(a) is Literal or type(b) is Literal:
        return type(a) is type(b) and _same_constants([a.val], [b.val])
    return numbers.get(a) == others.get(b)


def _same_constants(one: Any, two: Any) -> bool:
    if len(one) != len(two):
        return False
    for a, b in zip(one, two, strict=True):
        if a is b:
            continue
        a, b = (np.asarray(getattr(x, "_value", x)) for x in (a, b))
        if a.dtype != b.dtype or a.shape != b.shape or a.tobytes() != b.tobytes():
            return False
    return True


def _of_values(key: str, one: Any, two: Any) -> str:
    """What differs between parameters, as far as they are plain values and programs."""
    if one is two:
        return ""
    if type(one) is not type(two):
        return f"another {key}"
    if type(one) is ClosedJaxpr:
        return difference(one, two)
    if type(one) is Jaxpr:
        return _of_programs(one, two)
    if type(one) is tuple:
        if len(one) != len(two):
            return f"another {key}"
        return next(
            filter(None, (_of_values(key, a, b) for a, b in zip(one, two, strict=True))), ""
        )
    if isinstance(one, _PLAIN) and one != two and one == one:
        return f"{key} {one!r} → {two!r}"
    return ""
