"""Where in a program a check stands."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.base.record import Record
from weft.core.primitive import Primitive


class Around(Record):
    """A loop or branch around a check: its equation, the flat program in it that has the check, and
    whether that is a loop's predicate.

    Of a loop under ``vmap`` that is checked element by element, ``batch`` is what was mapped, and
    the program has the loop of one element.
    """

    eqn: Any
    body: Any
    asks: bool = False
    batch: Any = None


class Site(Record):
    """A check: its kind, the equation it is about, and what is around that, outermost first."""

    kind: str  # value, index, division or overflow
    eqn: Any
    variable: Any  # what is looked at, of a check of values
    path: tuple[Around, ...] = ()
    live: Any = None  # when the result counts (``Flow.live``)
    zeros: bool = False  # whether it does not matter where zeros are written

    def inside(self, around: Around) -> Site:
        """The same, seen from outside of a loop or branch."""
        return self._replace(path=(around, *self.path))


def is_inexact(aval: Any) -> bool:
    """Whether values of a type may be NaN."""
    dtype = getattr(aval, "dtype", None)
    if getattr(aval, "is_ref", False):
        return False
    return isinstance(dtype, np.dtype) and dtypes.issubdtype(dtype, np.inexact)


def is_integer(aval: Any) -> bool:
    """Whether values of a type are integers."""
    kind = getattr(getattr(aval, "dtype", None), "kind", "")
    return kind in ("i", "u") and not getattr(aval, "is_ref", False)


# Movements whose parts devices find in their own way, though each element stays what it was.
_VIEWS = frozenset(["reshape", "broadcast_in_dim", "expand_dims", "squeeze"])


def factors_of(eqn: Any) -> Any:
    """Which dimensions of an equation's operands and result have one index in common, so that no
    element of the result depends on others along these; None where that isn't known."""
    primitive, name = eqn.primitive, eqn.primitive.name
    if primitive.nodes or len(eqn.outvars) != 1:
        return None
    if type(primitive).local is not Primitive.local and name not in _VIEWS:
        return None  # parts of one device need elements of others
    avals, outs = ([v.aval for v in side] for side in (eqn.invars, eqn.outvars))
    if not all(type(n) is int for aval in (*avals, *outs) for n in aval.shape):
        return None
    return primitive.factors(avals, outs, eqn.params)


def axes_met(eqn: Any, place: int, rank: int) -> list[int | None]:
    """For each axis of a result of that ``rank``, the axis of an operand that goes along it.

    It is None where elements along all of the operand's other axes meet, or nothing is known.
    """
    factors = factors_of(eqn)
    if factors is None:
        return [None] * rank
    labels = [dims[0] if len(dims) == 1 else None for dims in factors.outs[0]]
    mine = list(factors.ins[place])
    return [None if k is None or (k,) not in mine else mine.index((k,)) for k in labels]
