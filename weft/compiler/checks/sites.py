"""Where in a program a check stands."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.base.record import Record


class Site(Record):
    """A check: its kind, the equation it is about, and the loops and branches around that,
    outermost first, each with the flat program that has the equation in it, and whether that is a
    loop's predicate."""

    kind: str  # value, index, division or overflow
    eqn: Any
    variable: Any  # what is looked at, of a check of values
    path: tuple[tuple[Any, Any, bool], ...] = ()

    def inside(self, eqn: Any, body: Any, asks: bool = False) -> Site:
        """The same, seen from outside of a loop or branch."""
        return Site(self.kind, self.eqn, self.variable, ((eqn, body, asks), *self.path))


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
