"""Single operations as programs, kept for operands like those that they were made for."""

from __future__ import annotations

from typing import Any

from weft.base import knobs
from weft.base.functional import lru
from weft.core.jaxpr import ClosedJaxpr
from weft.core.staging import stage

# Programs that a user's loop may have, for arrays of several shapes.
MOST_OF_LOOP = 64


@lru(4096)
def _program_of(primitive: Any, avals: Any, params: Any, context: Any) -> ClosedJaxpr:
    several = primitive.multiple_results

    def fun(*xs: Any) -> Any:
        out = primitive.bind(*xs, **dict(params))
        return out if several else [out]

    return stage(fun, avals)


def of_primitive(primitive: Any, avals: Any, params: Any) -> ClosedJaxpr | None:
    """A primitive as a program of one equation; None where its parameters cannot be a key."""
    try:
        return _program_of(primitive, tuple(avals), tuple(params.items()), knobs.context_key())
    except TypeError:
        return None


def of_loop(primitive: Any, avals: Any, params: Any) -> ClosedJaxpr:
    """A primitive that carries programs as a program of one equation."""
    inner = [p for p in params.values() if type(p) is ClosedJaxpr]
    others = tuple([(k, v) for k, v in params.items() if type(v) is not ClosedJaxpr])
    key = (primitive, tuple(avals), others, *map(id, inner), knobs.context_key())
    known = inner[-1]._memo.setdefault("called", {})
    closed = known.get(key)
    if closed is None:
        closed = stage(lambda *xs: primitive.bind(*xs, **params), avals)
        if len(known) >= MOST_OF_LOOP:
            known.clear()
        known[key] = closed  # it keeps its programs, whose numbers are no others' then
    return closed
