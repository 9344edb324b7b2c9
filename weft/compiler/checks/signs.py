"""Which values of a flat program cannot be zero, so that divisions by them need no check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from weft import dtypes
from weft.core.interpret import literal_value
from weft.core.jaxpr import Literal
from weft.core.registry import lookup

UNKNOWN, NOT_BELOW, ABOVE = 0, 1, 2


class Signs:
    """The signs of real floats: of literals, and of what primitives say of their results.

    NaNs are no matter here: whoever looks for zeros doesn't find any in them.
    """

    def __init__(self, producer: Mapping[Any, Any], views: frozenset[str]) -> None:
        self.producer = producer
        self.views = views  # movements that keep all elements
        self.known: dict[Any, int] = {}

    def of(self, x: Any) -> int:
        """2 if all elements of a value are above zero, 1 if none is below, 0 if that is unknown."""
        if type(x) is Literal:
            return _of_literal(x)
        pending = [x]
        while pending:  # operands first
            v = pending[-1]
            eqn = self.producer.get(v)
            more = [] if eqn is None else [y for y in eqn.invars if not self._knows(y)]
            if v in self.known or not more:
                pending.pop()
                if v not in self.known:
                    self.known[v] = UNKNOWN if eqn is None else self._made(eqn, v)
            else:
                pending += more
        return self.known[x]

    def _knows(self, x: Any) -> bool:
        return type(x) is Literal or x in self.known

    def _made(self, eqn: Any, v: Any) -> int:
        """The sign of an equation's result, those of its operands being known."""
        if not _is_real(v.aval) or len(eqn.outvars) != 1 or eqn.effects:
            return UNKNOWN
        primitive, name = eqn.primitive, eqn.primitive.name
        signs = [_of_literal(x) if type(x) is Literal else self.known[x] for x in eqn.invars]
        if name in self.views:
            return signs[0]
        if name == "select_n":
            return min(signs[1:])
        if primitive.converts:
            keeps = _is_real(eqn.invars[0].aval) and _holds(v.aval.dtype, eqn.invars[0].aval.dtype)
            return signs[0] if keeps else min(signs[0], NOT_BELOW)
        if primitive.form == "reduce" and primitive.reduction(**eqn.params)[0] in _KEPT:
            if not eqn.invars[0].aval.size:
                return UNKNOWN
            return ABOVE if self._has_one(eqn) else signs[0]
        if primitive.overflows == "product" and eqn.invars[0] is eqn.invars[-1]:
            return NOT_BELOW
        return primitive.sign(signs, eqn.params) if primitive.sign is not None else UNKNOWN

    def _has_one(self, total: Any) -> bool:
        """Whether a sum is one of ``exp(x - max(x))`` over the axes of the maximum, as in softmax:
        then one of its terms is 1."""
        axes = total.primitive.reduction(**total.params)[1]
        power = self.producer.get(total.invars[0])
        if power is None or power.primitive is not lookup("exp"):
            return False
        difference = self.producer.get(power.invars[0])
        if difference is None or difference.primitive.overflows != "difference":
            return False
        x, most = difference.invars
        return type(most) is not Literal and self._is_maximum(most, x, tuple(axes))

    def _is_maximum(self, v: Any, x: Any, axes: tuple[int, ...]) -> bool:
        """Whether a value is the maximum of another over some axes, with these of size 1, or
        repeated along them."""
        if type(x) is Literal:
            return False
        kept = [i for i in range(len(x.aval.shape)) if i not in axes]
        along = tuple([1 if i in axes else n for i, n in enumerate(x.aval.shape)])
        where = range(len(along))
        while (eqn := self.producer.get(v)) is not None:
            primitive = eqn.primitive
            if primitive.form == "reduce":
                kind, over = primitive.reduction(**eqn.params)
                return kind == "max" and eqn.invars[0] is x and tuple(over) == axes
            if primitive.repeats:
                before = eqn.invars[0].aval.shape
                wanted = where if len(before) == len(along) else kept
                if len(eqn.invars) > 1 or tuple(eqn.params["broadcast_dimensions"]) != (*wanted,):
                    return False
                if v.aval.shape not in (along, x.aval.shape):
                    return False
            elif primitive.reshapes:
                if v.aval.shape != along or eqn.invars[0].aval.shape != (
                    *[x.aval.shape[i] for i in kept],
                ):
                    return False
            elif primitive is lookup("max") and type(eqn.invars[0]) is Literal:
                if not np.all(np.isneginf(np.asarray(literal_value(eqn.invars[0]), np.float64))):
                    return False
                v = eqn.invars[1]
                continue
            elif primitive is not lookup("stop_gradient"):
                return False
            v = eqn.invars[0]
            if type(v) is Literal:
                return False
        return False


# Reductions that give no other sign than their operand's.
_KEPT = frozenset(["add", "max", "min"])


def _is_real(aval: Any) -> bool:
    return isinstance(getattr(aval, "dtype", None), np.dtype) and dtypes.issubdtype(
        aval.dtype, np.floating
    )


def _holds(wide: Any, narrow: Any) -> bool:
    """Whether normal numbers of a dtype are normal in another."""
    return float(dtypes.finfo(wide).tiny) <= float(dtypes.finfo(narrow).tiny)


def _of_literal(x: Literal) -> int:
    if not _is_real(x.aval):
        return UNKNOWN
    least = float(np.min(np.asarray(literal_value(x)).astype(np.float64)))
    return ABOVE if least >= float(dtypes.finfo(x.aval.dtype).tiny) else int(least >= 0)
