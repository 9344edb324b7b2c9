"""Symbolic sizes in StableHLO: dynamic dimensions (``?``), sizes computed from numbers of a call.

Every function of a module of symbolic shapes is given the values of the named dimensions first, as
scalars. An operation whose shape is a parameter has a dynamic form that takes it as an operand.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from weft.base.polynomials import NAMES, evaluated
from weft.core.dims.dim import Dim, is_constant_shape

INT = np.dtype(np.int32)
# Operations whose shape is that of their result, and their forms that take it as an operand.
DYNAMIC = {
    "broadcast_in_dim": "dynamic_broadcast_in_dim",
    "reshape": "dynamic_reshape",
    "iota": "dynamic_iota",
}


def names_in(avals: Any) -> list[str]:
    """The named dimensions of types, in order."""
    found: set[str] = set()
    for aval in avals:
        for n in getattr(aval, "shape", ()):
            if type(n) is Dim:
                found |= n.names()
    return sorted(found)


def size(e: Any, n: Any) -> Any:
    """A size as a scalar."""
    if type(n) is not Dim:
        return e.constant(np.asarray(n, INT))
    found: Any = evaluated(
        n.terms, lambda name: _Value(e, e.sizes[name]), lambda *args: _applied(e, *args)
    )
    return found.value


def sizes(e: Any, shape: Any) -> Any:
    """Sizes as a vector."""
    if is_constant_shape(shape):
        return e.constant(np.asarray(shape, INT))
    parts = [e.one("reshape", [size(e, n)], (1,), INT) for n in shape]
    if len(parts) == 1:
        return parts[0]
    return e.one("concatenate", parts, (len(parts),), INT, "dimension = 0 : i64")


class _Value:
    """A scalar of the module, with the arithmetic that polynomials need."""

    def __init__(self, e: Any, value: Any) -> None:
        self.e, self.value = e, value

    def __add__(self, other: Any) -> Any:
        return self._with("add", other)

    __radd__ = __add__

    def __mul__(self, other: Any) -> Any:
        return self._with("multiply", other)

    __rmul__ = __mul__

    def _with(self, name: str, other: Any) -> Any:
        if type(other) is int:
            if other == (0 if name == "add" else 1):
                return self
            other = _Value(self.e, self.e.constant(np.asarray(other, INT)))
        return _Value(self.e, self.e.one(name, [self.value, other.value], (), INT))


def _applied(e: Any, function: Any, a: Any, b: Any) -> Any:
    x, y = (n.value if type(n) is _Value else e.constant(np.asarray(n, INT)) for n in (a, b))
    one = lambda name, *ins: e.one(name, ins, (), INT)
    if function in (max, min):
        return _Value(e, one(f"{NAMES[function]}imum", x, y))
    # rounded towards 0; one less where that is above
    quotient, rest = one("divide", x, y), one("remainder", x, y)
    zero = e.constant(np.asarray(0, INT))
    is_odd = _compared(e, "NE", rest, zero)
    signs = [_compared(e, "LT", n, zero) for n in (rest, y)]
    differ = _compared(e, "NE", signs[0], signs[1], kind="UNSIGNED")
    below = e.one("and", [is_odd, differ], (), np.bool_)
    if function is operator.floordiv:
        less = one("subtract", quotient, e.constant(np.asarray(1, INT)))
        return _Value(e, e.one("select", [below, less, quotient], (), INT))
    return _Value(e, e.one("select", [below, one("add", rest, y), rest], (), INT))


def _compared(e: Any, how: str, x: Any, y: Any, kind: str = "SIGNED") -> Any:
    text = (
        f"comparison_direction = #stablehlo<comparison_direction {how}>,"
        f" compare_type = #stablehlo<comparison_type {kind}>"
    )
    return e.one("compare", [x, y], (), np.bool_, text)
